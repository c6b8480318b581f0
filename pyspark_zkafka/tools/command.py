"""Commands that work on a cluster: the options that all of them take, and what they get from them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.tools.config_file import read_config_file
from pyspark_zkafka.tools.output import Column, Output, Row, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark_zkafka.brokers.config_admin import ConfigAdmin
    from pyspark_zkafka.brokers.group_admin import GroupAdmin
    from pyspark_zkafka.cluster import ClusterSource
    from pyspark_zkafka.model.nouns import ClusterSnapshot
    from pyspark_zkafka.options.values import Connection
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["Target", "changes_cluster", "exit_status", "pairs", "read_text", "reads_cluster"]

FAILED, USAGE = 1, 2

_PANEL = "Connection and output"
_ZooKeeper = Annotated[
    str | None,
    typer.Option("--zookeeper", envvar="ZKAFKA_ZOOKEEPER", metavar="HOST:PORT[,...][/CHROOT]", rich_help_panel=_PANEL),
]
_Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap-server", envvar="ZKAFKA_BOOTSTRAP_SERVER", metavar="HOST:PORT[,...]", rich_help_panel=_PANEL),
]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="ZKAFKA_COMMAND_CONFIG",
        metavar="FILE",
        help="Properties for security, as Kafka's tools take them; zookeeper.* too. Values may be ${env:NAME}, "
        "${file:PATH} or ${prompt:TEXT}.",
        rich_help_panel=_PANEL,
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Write a JSON list of objects.", rich_help_panel=_PANEL)]
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=_PANEL)]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

_READING: dict[str, tuple[Any, Any]] = {
    "zookeeper": (_ZooKeeper, None),
    "bootstrap_server": (_Bootstrap, None),
    "command_config": (_Config, None),
    "json": (_Json, False),
    "debug": (_Debug, False),
}
_CHANGING: dict[str, tuple[Any, Any]] = {"dry_run": (_DryRun, False), "yes": (_Yes, False)}


@dataclass(frozen=True)
class Target:
    """The cluster of a command, connected to where it is needed, and the command's output."""

    options: dict[str, str]
    output: Output
    dry_run: bool = False
    yes: bool = False

    @cached_property
    def connection(self) -> Connection:
        """The connection's settings.

        Raises
        ------
        OptionError
            Neither ZooKeeper nor brokers were given, or an option is wrong.
        """
        from pyspark_zkafka.options.batch import parse_connection

        self.require_cluster()
        return parse_connection(self.options)

    def view(self, name: str, **options: str) -> list[Row]:
        """The rows of one of the package's views, as docs/views.md has them; `options` restrict it."""
        from pyspark_zkafka.options.batch import parse_read
        from pyspark_zkafka.read.view_planner import plan_view

        self.require_cluster()
        return plan_view(name, parse_read({**self.options, "view": name, **options}))

    def require_cluster(self) -> None:
        """Raise OptionError if neither ZooKeeper nor brokers were given."""
        if not {"zookeeper.connect", "kafka.bootstrap.servers"} & self.options.keys():
            raise INVALID_OPTION(
                "No cluster is given; use --zookeeper (or ZKAFKA_ZOOKEEPER), or --bootstrap-server if it has no ZooKeeper",
            )

    @contextmanager
    def zookeeper(self) -> Iterator[ZooKeeperClient]:
        """An open ZooKeeper client.

        Raises
        ------
        OptionError
            The command needs ZooKeeper, and it was not given.
        ZooKeeperError
            It cannot be reached.
        """
        from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

        if self.connection.zookeeper is None:
            raise INVALID_OPTION("This command works on ZooKeeper's data; use --zookeeper (or ZKAFKA_ZOOKEEPER)")
        with ZooKeeperClient(self.connection.zookeeper) as client:
            yield client

    @contextmanager
    def cluster(self) -> Iterator[ClusterSource]:
        """An open source of the cluster's state: ZooKeeper where it is given, else the brokers."""
        from pyspark_zkafka.cluster import open_cluster

        with open_cluster(self.connection) as source:
            yield source

    @contextmanager
    def brokers(self, snapshot: ClusterSnapshot) -> Iterator[ConfigAdmin]:
        """An admin client of the brokers: those that were given, else the live ones in the snapshot."""
        from pyspark_zkafka.brokers.config_admin import ConfigAdmin
        from pyspark_zkafka.cluster import bootstrap_servers

        connection = self.connection
        servers = bootstrap_servers(connection, snapshot)
        with ConfigAdmin.of(connection, servers) as admin:
            yield admin

    @contextmanager
    def group_brokers(self, snapshot: ClusterSnapshot, timeout_s: float | None = None) -> Iterator[GroupAdmin]:
        """A client of the brokers as `brokers`, for their groups; `timeout_s` limits each of its requests."""
        from pyspark_zkafka.brokers.group_admin import GroupAdmin
        from pyspark_zkafka.cluster import bootstrap_servers

        connection = self.connection
        limit = {} if timeout_s is None else {"socket.timeout.ms": int(timeout_s * 1000)}
        with GroupAdmin(bootstrap_servers(connection, snapshot), {**connection.kafka, **limit}) as admin:
            yield admin

    def proceed(self, question: str) -> bool:
        """True if the change is to be made: confirmed on the terminal, or by ``--yes``; False in a dry run.

        Call it after the change was shown. Declining ends the command with exit status 1.

        Raises
        ------
        OptionError
            There is no terminal to ask on.
        """
        if self.dry_run:
            self.output.note("Dry run: nothing was changed.")
            return False
        if self.yes:
            return True
        if not sys.stdin.isatty():
            raise INVALID_OPTION("There is no terminal for the confirmation; use --yes or --dry-run")
        typer.confirm(printable(question), abort=True, err=True)
        return True

    def rows(self, rows: Sequence[Row], shown: Sequence[Column], empty: str = "", *narrower: Sequence[Column]) -> None:
        """Write rows; see `Output.rows`."""
        self.output.rows(rows, shown, empty, *narrower)


def reads_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command whose first parameter is a `Target`: adds the options for connection and output."""
    return _with_target(command, _READING)


def changes_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that changes the cluster: as `reads_cluster`, with ``--dry-run`` and ``--yes``."""
    return _with_target(command, {**_CHANGING, **_READING})


def _with_target(command: Callable[..., None], added: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(name, kind, default=d, annotation=a) for name, (a, d) in added.items()]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        taken = {name: values.pop(name) for name in added}
        debug = taken.pop("debug")
        try:
            command(_target(**taken), **values)
        except (ZKafkaError, OSError) as error:
            if debug:
                raise
            raise typer.Exit(exit_status(error)) from error

    run.__doc__ = _unbroken(command.__doc__ or "")
    run.__signature__ = inspect.Signature([*(p.replace(kind=kind) for p in own), *extra])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own, *extra)}
    return run


def _unbroken(text: str) -> str:
    """Paragraphs without the line breaks of the source, which help would keep in all but the first."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def exit_status(error: ZKafkaError | OSError) -> int:
    """Write an error to standard error as one line; the exit status for it: 2 for wrong options, else 1."""
    typer.echo(printable(" ".join(str(error).split())), err=True)
    return USAGE if isinstance(error, OptionError) else FAILED


def _target(
    zookeeper: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    json: bool,
    dry_run: bool = False,
    yes: bool = False,
) -> Target:
    options = {} if command_config is None else read_config_file(command_config, _ask_secret)
    given = {"zookeeper.connect": zookeeper, "kafka.bootstrap.servers": bootstrap_server}
    options.update({name: value for name, value in given.items() if value is not None})
    return Target(options, Output(json), dry_run, yes)


def _ask_secret(label: str) -> str:
    answer: str = typer.prompt(label, hide_input=True, err=True)
    return answer


def read_text(file: Path | str) -> str:
    """The text of a file; ``-`` stands for the standard input.

    Raises
    ------
    OptionError
        There is no such file, or it is not text in UTF-8.
    """
    try:
        return sys.stdin.read() if str(file) == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise INVALID_OPTION(f"The file {file} cannot be read: {reason}. Correct its name or its text") from error


def pairs(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """The values by name of an option that is given as NAME=VALUE, once or more, or not at all.

    Raises
    ------
    BadParameter
        A text is something else.
    """
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"found {text!r}; write NAME=VALUE", param_hint=option)
        found[name] = value
    return found
