"""Parameters and connections that the commands on groups' offsets share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import track

from pyspark_zkafka.conditions import INVALID_OPTION

if TYPE_CHECKING:
    from pyspark_zkafka.brokers.group_admin import GroupAdmin
    from pyspark_zkafka.tools.command import Target
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["AllGroups", "Groups", "Servers", "Storage", "open_servers", "require_groups", "with_progress"]

Groups = Annotated[list[str] | None, typer.Argument(metavar="GROUP", help="The groups.", show_default=False)]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All groups.")]

_PROMPT_S = 5.0


class Storage(str, Enum):
    """The stores of offsets that a command reads or writes."""

    zookeeper = "zookeeper"
    kafka = "kafka"
    both = "both"


@dataclass(frozen=True)
class Servers:
    """Clients of the servers that have offsets; `zookeeper` is open, or None if only brokers were given."""

    zookeeper: ZooKeeperClient | None
    open_brokers: Callable[..., GroupAdmin]

    @cached_property
    def brokers(self) -> GroupAdmin:
        """An open client of the brokers, who are looked up when it is first needed; ClusterStateError if there is none."""
        return self.open_brokers()

    @cached_property
    def prompt_brokers(self) -> GroupAdmin:
        """The same for what a command can do without: its requests end after a few seconds."""
        return self.open_brokers(_PROMPT_S)

    @property
    def ensemble(self) -> ZooKeeperClient:
        """ZooKeeper; OptionError if it was not given."""
        if self.zookeeper is None:
            raise INVALID_OPTION(
                "This command works on ZooKeeper's data; use --zookeeper (or ZKAFKA_ZOOKEEPER), or kafka-consumer-groups "
                "for groups that Kafka coordinates",
            )
        return self.zookeeper


@contextmanager
def open_servers(target: Target) -> Iterator[Servers]:
    """Clients of ZooKeeper, where it is given, and of the brokers, where they are needed."""
    from pyspark_zkafka.model.nouns import ClusterSnapshot

    with ExitStack() as opened:
        zookeeper = None if target.connection.zookeeper is None else opened.enter_context(target.zookeeper())

        def open_brokers(timeout_s: float | None = None) -> GroupAdmin:
            snapshot = ClusterSnapshot({}) if zookeeper is None else zookeeper.snapshot([])
            return opened.enter_context(target.group_brokers(snapshot, timeout_s))

        yield Servers(zookeeper, open_brokers)


def require_groups(groups: list[str] | None, all_groups: bool) -> list[str] | None:
    """The named groups, each once; None for all.

    Raises
    ------
    OptionError
        Neither was given, or both.
    """
    if bool(groups) == all_groups:
        raise INVALID_OPTION("Name one or more groups, or use --all-groups")
    return None if all_groups else list(dict.fromkeys(groups or ()))


def with_progress(target: Target, names: Iterable[str], doing: str) -> Iterator[str]:
    """The names, with a progress bar on standard error where that is a terminal and there are several."""
    found = list(names)
    errors = target.output.errors
    return iter(track(found, doing, console=errors, transient=True, disable=len(found) < 2 or not errors.is_terminal))
