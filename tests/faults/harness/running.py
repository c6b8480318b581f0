"""A running workload: its topic, producer, members and samples, from its start to its end at rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pyspark_zkafka.model.ledger import QueryName
from tests.faults.harness.history import Committed, Event, History, LogEnd, Owners, Ready, Rest, Stored, merged
from tests.faults.harness.journal import Journal
from tests.faults.harness.members import Member, finished
from tests.faults.harness.producing import Records
from tests.faults.harness.sampling import (
    UNREACHABLE,
    Group,
    KafkaGroup,
    Sampler,
    ZooKeeperGroup,
    process_sample,
    written_slots,
)
from tests.faults.harness.sinks import stored_rows
from tests.faults.harness.workloads import PARTITIONS, Workload
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster
    from tests.faults.harness.network import Network

__all__ = ["Running"]

_SAFE = {"min.insync.replicas": "2"}
_POLL_S = 1.0
_START_S = 240
_HEALTH_S = 5.0


class Running:
    """A running workload.

    Attributes
    ----------
    journal : Journal
        Events outside the members.
    """

    def __init__(self, workload: Workload, cluster: LocalCluster, network: Network, folder: Path, rate: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.workload, self.folder = workload, folder
        self._cluster = cluster
        self.journal = Journal(folder / "harness.jsonl")
        self.journal.add(workload.terms())
        self._create_topics()
        self.group: Group = self._group()
        self._records = Records(
            cluster.bootstrap_servers, workload.name, rate, self.journal, is_idempotent=workload.has_idempotence
        )
        self.members = [self._member(name, network) for name in workload.member_names]
        self._samplers = [Sampler(self.group.sample, self.journal), Sampler(self._health, self.journal, _HEALTH_S)]

    def start(self) -> None:
        """Start all members and the records; returns when each member has completed a batch."""
        for thread in (*self.members, self._records, *self._samplers):
            thread.start()
        self._wait(lambda: all(member.is_ready for member in self.members), _START_S, "does not read")
        self.journal.add(Ready(time.time()))

    def rest(self, timeout_s: float) -> bool:
        """Stop sending, and wait until all records are read and all partitions owned; returns whether that was reached."""
        self._records.stop()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with suppress(*UNREACHABLE):
                at, sampled = time.time(), [*self.group.sample()]
                if self._is_owned(sampled) and self._is_read(sampled):
                    self.journal.add(Rest(at), *sampled)
                    return True
            time.sleep(_POLL_S)
        return False

    def stop(self) -> None:
        """Stop all members; returns when their processes are gone. Then raises the error of a sampler that has failed."""
        with ExitStack() as samplers:
            for sampler in self._samplers:
                sampler.stop()
                samplers.callback(sampler.raise_failure)
            self._sample_settled()
            self.journal.add(*self._log_ends())
            for member in self.members:
                member.end()
            self._sample_left()
            if self.workload.is_sink:
                self.journal.add(self._stored())
            if self.workload.kind != "batch":
                for member in self.members:
                    self.journal.add(*finished(member))

    def _stored(self) -> Stored:
        """Return the rows of the sink; rows that the producer wrote twice into the source are expected twice."""
        sink, servers = self.workload.sink_topic, self._cluster.bootstrap_servers
        source, rows = stored_rows(servers, self.workload.name), stored_rows(servers, sink)
        counts = ((row, count - source.get(row, 1) + 1) for row, count in sorted(rows.items()))
        is_once = self.workload.is_exactly_once
        return Stored(time.time(), sink, is_once, tuple((row, count) for row, count in counts if count > 0))

    def kill(self) -> None:
        """End all processes at once, after an error of the harness."""
        for member in self.members:
            member.abort()

    def history(self) -> History:
        """Return the history of the workload, and write it to its folder."""
        found = merged([self.journal.path, *(member.reads for member in self.members)])
        Journal(self.folder / "history.jsonl").add(*found.events)
        return found

    def offsets(self) -> dict[int, int]:
        """Return the group's offsets by partition; none while servers are down."""
        with suppress(*UNREACHABLE):
            return {event.partition: event.offset for event in self.group.sample() if isinstance(event, Committed)}
        return {}

    @property
    def is_led_as_preferred(self) -> bool:
        """Whether the preferred replica, the first one, leads each partition of the topic."""
        topic = self.workload.name
        with AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers}) as admin:
            partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            return all(partition.leader == partition.replicas[0] for partition in partitions)

    def _create_topics(self) -> None:
        sinks = [self.workload.sink_topic] if self.workload.is_sink else []
        for topic in (self.workload.name, *sinks):
            self._cluster.create_topic(topic, partitions=PARTITIONS, replication=3, config=_SAFE)

    def _group(self) -> Group:
        name = self.workload.name
        if self.workload.in_kafka:
            return KafkaGroup(self._cluster.bootstrap_servers, name, name)
        return ZooKeeperGroup(self._cluster, name, name)

    def _member(self, name: str, network: Network) -> Member:
        source = self.workload.source(name, network.zookeeper_connect, network.bootstrap_servers)
        sink = self.workload.sink(network.zookeeper_connect, network.bootstrap_servers) if self.workload.is_sink else {}
        written = self._written if self.workload.is_exactly_once else None
        return Member(name, self.workload, self.folder, self.journal, (source, sink), written)

    def _written(self, query: str, batch: int) -> int:
        name = QueryName("zkafka", query, self.workload.sink_topic if self.workload.in_foreach else "")
        return written_slots(self._cluster.bootstrap_servers, name, PARTITIONS, batch)

    def _health(self) -> Iterator[Event]:
        for member in self.members:
            pid = member.planner
            if pid is not None:
                with suppress(OSError):
                    runs_tasks = self.workload.engine == "sail"
                    yield process_sample(f"planner of {member.name}, process {pid}", pid, runs_tasks=runs_tasks)

    def _sample_settled(self) -> None:
        """Sample the group once more, giving a rebalance that began at rest the usual time to end."""
        self._sample_until(self._is_owned)

    def _sample_left(self) -> None:
        """Sample the group once the sessions of all members have ended, since their processes have."""
        terms = self.workload.terms()
        time.sleep(terms.session_s + terms.slack_s)
        self._sample_until(lambda sampled: True)

    def _sample_until(self, condition: Callable[[list[Event]], bool]) -> None:
        """Journal the first sample that meets a condition; after some time, the last one taken."""
        deadline = time.monotonic() + self.workload.terms().settle_s
        sampled: list[Event] = []
        while time.monotonic() < deadline:
            with suppress(*UNREACHABLE):
                sampled = [*self.group.sample()]
                if condition(sampled):
                    break
            time.sleep(_POLL_S)
        self.journal.add(*sampled)

    def _is_owned(self, sampled: list[Event]) -> bool:
        """Return whether all members are registered and own all partitions."""
        owners = [event for event in sampled if isinstance(event, Owners)]
        if not owners or set(owners[0].members) != set(self.workload.member_names):
            return False
        owned = {partition for _, partition, member in owners[0].owners if member in owners[0].members}
        return owned == {event.partition for event in self._log_ends()}

    def _is_read(self, sampled: list[Event]) -> bool:
        """Return whether the offset of each partition is committed at the log's end."""
        offsets = {event.partition: event.offset for event in sampled if isinstance(event, Committed)}
        return all(offsets.get(event.partition, 0) == event.latest for event in self._log_ends())

    def _log_ends(self) -> list[LogEnd]:
        topic = self.workload.name
        with AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers}) as admin:
            numbers = admin.list_topics(topic, timeout=10).topics[topic].partitions
            bounds = []
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
                asked = {TopicPartition(topic, number): spec for number in numbers}
                found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
                bounds.append({tp.partition: future.result(30).offset for tp, future in found.items()})
        now = time.time()
        return [LogEnd(now, topic, number, bounds[0][number], bounds[1][number]) for number in sorted(numbers)]

    def _wait(self, condition: Callable[[], bool], timeout_s: float, lack: str) -> None:
        eventually(condition, timeout_s, f"{self.workload.name} {lack}", _POLL_S)
