"""Steps of the demo, shown with their call and duration, checks of its claims, and the clients that both parts use."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.conditions import DEMO_FAILED
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["log_ends", "prove", "step", "table", "zookeeper_client"]


@contextmanager
def step(console: Console, title: str, call: str, *, spinner: bool = True) -> Iterator[None]:
    """Show a step's title, its call and its duration; `spinner` must be off for other live displays."""
    console.print(Panel(f"[cyan]{call}[/]", title=f"[bold]{title}[/]", title_align="left", border_style="blue"))
    begin = time.monotonic()
    with console.status(f"{title} ...") if spinner else nullcontext():
        yield
    console.print(f"[dim]{time.monotonic() - begin:.1f} s[/]\n")


def prove(console: Console, claim: str, holds: bool) -> None:
    """Print a claim as proved, or end the demo."""
    if not holds:
        raise DEMO_FAILED(f"This check failed: {claim}; please report it with the output above")
    console.print(f"[green]proved[/] {claim}")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of the rows' texts, in which Rich's markup counts."""
    shown = Table(*columns, title=title, title_justify="left", header_style="bold")
    for row in rows:
        shown.add_row(*map(str, row))
    return shown


def zookeeper_client(cluster: LocalCluster) -> ZooKeeperClient:
    """A client of the cluster's ZooKeeper, to be opened by `with`."""
    hosts, _, chroot = cluster.zookeeper_connect.partition("/")
    return ZooKeeperClient(ZooKeeperConfig(hosts, f"/{chroot}"))


def log_ends(admin: KafkaAdmin, topic: str, partitions: int) -> dict[TopicPartition, int]:
    """The end of each partition's log."""
    return admin.list_offsets({TopicPartition(topic, p): LATEST for p in range(partitions)})
