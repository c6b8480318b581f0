"""A query that moves between a group in ZooKeeper and one in Kafka, with one checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kazoo.exceptions import NoNodeError
from typer.testing import CliRunner

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.tools import app as zkafka
from tests.support.eventually import eventually
from tests.support.fill import fill

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery
    from typer.testing import Result

    from pyspark_zkafka.testing import LocalCluster
    from tests.support.stream import Stream

__all__ = ["MovingQuery"]

_PATIENCE_S = 120
_PAUSE = "200 milliseconds"


class MovingQuery:
    """A stream with its topic and group, and the records written and read in all steps."""

    def __init__(self, cluster: LocalCluster, topic: str, group: str, partitions: Iterable[int], stream: Stream) -> None:
        self.cluster, self.topic, self.group, self.stream = cluster, topic, group, stream
        self.written = dict.fromkeys(partitions, 0)
        self.by_others: set[tuple[int, int]] = set()
        """Records that another consumer of the group has read."""

    def options(self, *connections: str, **more: str) -> dict[str, str]:
        """Return the group's options: ``options("zookeeper", offsets_storage="kafka")``, with some ``connections``."""
        zookeeper = {"zookeeper.connect": self.cluster.zookeeper_connect} if "zookeeper" in connections else {}
        brokers = {"kafka.bootstrap.servers": self.cluster.bootstrap_servers} if "brokers" in connections else {}
        shared = {"subscribe": self.topic, "group.id": self.group, "auto.offset.reset": "earliest"}
        return {**shared, **zookeeper, **brokers, **{name.replace("_", "."): value for name, value in more.items()}}

    def write(self, records: int, partitions: Iterable[int] | None = None) -> None:
        """Write records to some partitions, by default to all."""
        numbers = list(self.written if partitions is None else partitions)
        fill(self.cluster, self.topic, records, numbers)
        for number in numbers:
            self.written[number] += records

    def start(self, options: Mapping[str, str]) -> StreamingQuery:
        """Start the query with these options on the same checkpoint. Returns once it has looked for records, or failed."""
        self.stream.options = dict(options)
        return self.stream.begin(processingTime=_PAUSE)

    def finish(self, running: StreamingQuery) -> None:
        """Stop the query once all records are read and committed in its group's store."""
        eventually(lambda: set(self.read()) >= self.all(), _PATIENCE_S, lambda: (running.exception(), self._missing()))
        wanted = {number: end for number, end in self.written.items() if end}
        eventually(lambda: wanted.items() <= self.committed().items(), _PATIENCE_S, lambda: (wanted, self.committed()))
        running.stop()

    def step(self, options: Mapping[str, str], records: int = 5, partitions: Iterable[int] | None = None) -> None:
        """Read some more records with these options, and stop the query."""
        running = self.start(options)
        self.write(records, partitions)
        self.finish(running)

    def read(self) -> Counter[tuple[int, int]]:
        """Return how often each record was read, by partition and offset, including reads by other members of the group."""
        return Counter([*((row.partition, row.offset) for row in self.stream.rows), *self.by_others])

    def all(self) -> set[tuple[int, int]]:
        """Return the records written so far."""
        return {(number, offset) for number, count in self.written.items() for offset in range(count)}

    def twice(self) -> list[tuple[int, int]]:
        """Return the records that were read more than once, sorted."""
        return sorted(place for place, times in self.read().items() if times > 1)

    def committed(self) -> dict[int, int]:
        """Return the offsets in the store of the query's last group, by partition."""
        if self.stream.options.get("groupMembership") != "kafka":
            return self._in_zookeeper()
        with GroupAdmin(self.cluster.bootstrap_servers, {}) as brokers:
            return {tp.partition: offset for tp, offset in brokers.committed(self.group).items()}

    def migrate(self, kind: str, *arguments: str) -> Result:
        """Run ``zkafka groups migrate`` to a store until no member of the other kind is left, then compare the stores."""
        eventually(lambda: self._migrate(kind, *arguments).exit_code == 0, 60, lambda: self._migrate(kind).output, 0.5)
        return self._migrate(kind, "--verify")

    def _migrate(self, kind: str, *arguments: str) -> Result:
        where = ["--yes", "--zookeeper", self.cluster.zookeeper_connect]
        return CliRunner().invoke(zkafka, ["groups", "migrate", self.group, "--to", kind, *arguments, *where])

    def _missing(self) -> set[tuple[int, int]]:
        return self.all() - set(self.read())

    def _in_zookeeper(self) -> dict[int, int]:
        path = f"/consumers/{self.group}/offsets/{self.topic}"
        with self.cluster.zookeeper() as client:
            try:
                return {int(name): int(client.get(f"{path}/{name}")[0]) for name in client.get_children(path)}
            except NoNodeError:
                return {}
