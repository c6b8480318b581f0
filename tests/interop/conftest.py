"""Consumer groups with JVM consumers and our members, and their state in ZooKeeper."""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.assignors import Subscribers, assign, threads_by_topic
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, consumer_of_thread
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from tests.support.eventually import eventually
from tests.support.stream import is_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset."""

# The first rebalances of several members need time; sessions under 2 s are not safe here.
JVM = {"rebalance.backoff.ms": "300", "rebalance.max.retries": "30", "zookeeper.session.timeout.ms": "2000"}
# Our members are never killed: one that is gone within 30 s has left by itself.
OURS = {"rebalance.backoff.ms": "300", "auto.offset.reset": "earliest", "zookeeper.session.timeout.ms": "30000"}
POLL_S = 0.02
PATIENCE_S = 60
_STARTS = 5


class Journal:
    """Writes to all partitions of some topics in turn until its block ends, and knows the acknowledged records."""

    def __init__(self, cluster: LocalCluster, topics: Mapping[str, int], every_s: float = 0.01) -> None:
        self._config = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 5}
        self._partitions = itertools.cycle([(topic, p) for topic, count in topics.items() for p in range(count)])
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: set[Place] = set()
        self.refused: list[object] = []

    def __enter__(self) -> Journal:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def ends(self) -> dict[TopicPartition, int]:
        """Return the last acknowledged offset of each partition."""
        found: dict[TopicPartition, int] = {}
        for topic, partition, offset in self.acknowledged.copy():
            tp = TopicPartition(topic, partition)
            found[tp] = max(offset, found.get(tp, 0))
        return found

    def require_owners_read(self, readers: Mapping[str, Reader], owners: Mapping[TopicPartition, str]) -> None:
        """Wait until each partition's owner has read new records, and check that no other reader has.

        `owners` are threads of members called ``group_name``; `readers` has the members by name.
        """
        ends = self.ends()
        assert ends.keys() == owners.keys()

        def new(name: str) -> set[TopicPartition]:
            """Return the partitions that the reader has read past their ends."""
            return {tp for t, p, offset in places(readers[name]) if offset > ends[tp := TopicPartition(t, p)]}

        owned = {
            name: {tp for tp, thread in owners.items() if consumer_of_thread(thread).endswith(f"_{name}")}
            for name in readers
        }
        eventually(
            lambda: all(owned[name] <= new(name) for name in readers), PATIENCE_S, lambda: {n: new(n) for n in readers}
        )
        assert {name: new(name) for name in readers} == owned

    def require_all_read(self, readers: Iterable[Reader]) -> int:
        """Wait until all acknowledged records are read; returns the number of repeated reads."""
        readers = list(readers)

        def missing() -> set[Place]:
            return self.acknowledged.difference(*map(places, readers))

        assert not self.refused
        eventually(lambda: not missing(), PATIENCE_S, lambda: f"lost: {sorted(missing())[:20]}")
        read = [place for reader in readers for place in places(reader)]
        assert set(read) == self.acknowledged
        return len(read) - len(set(read))

    def _write(self) -> None:
        producer = Producer(self._config)
        while not self._over.wait(self._every_s):
            topic, partition = next(self._partitions)
            producer.produce(topic, b"v", partition=partition, on_delivery=self._delivered)
            producer.poll(0)
        producer.flush(30)

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.add((message.topic(), message.partition(), message.offset()))
        else:
            self.refused.append(error)


class Query:
    """A streaming query of ours that collects the places of its records."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark, self._options = spark, options
        self._queries: list[StreamingQuery] = []
        self.places: list[Place] = []

    def start(self) -> None:
        """Start this query, which joins the group within a second or two."""
        frame = self._spark.readStream.format("zkafka").schema("topic string, partition int, offset bigint")
        stream = frame.options(**self._options).load().writeStream.foreachBatch(self._take)
        self._queries.append(stream.trigger(processingTime="50 milliseconds").start())

    def wait_ready(self) -> None:
        """Wait until the query has joined and looked for records once. Raises its error."""

        def begun() -> object:
            self.check()
            return self._queries[-1].lastProgress

        eventually(begun, PATIENCE_S, "the query has not begun")

    def stop(self) -> None:
        """Stop it as a user does."""
        self._queries[-1].stop()
        if (error := self._queries[-1].exception()) is not None:
            raise error

    def close(self) -> None:
        """Stop it if it runs."""
        for query in self._queries:
            query.stop()

    def check(self) -> None:
        """Raise the error that ended the query, if any. A query whose planner was late is started again instead."""
        error = self._queries[-1].exception()
        if is_late(error) and len(self._queries) < _STARTS:
            self.start()
        elif error is not None:
            raise error

    @property
    def active(self) -> bool:
        """Whether the query runs."""
        return bool(self._queries[-1].isActive)

    def _take(self, frame: Any, batch: int) -> None:
        self.places += [tuple(row) for row in frame.collect()]


Reader: TypeAlias = OldConsumer | Query


def places(reader: Reader) -> list[Place]:
    """Return the places that a member has read, in its order."""
    if isinstance(reader, Query):
        return list(reader.places)
    return [(r.topic, r.partition, r.offset) for r in reader.records]


@dataclass(frozen=True)
class Znode:
    """Data, the creating transaction, and the session of an ephemeral znode, else 0."""

    data: bytes | None
    made_by: int
    session: int


class Group:
    """A group under a new name.

    `jvm`, `query` and `member` create members, which end with the test at the latest. A member's id is the group's name,
    ``_`` and the name given here; with None, the member generates its id.
    """

    def __init__(self, cluster: LocalCluster, name: str, test: pytest.FixtureRequest) -> None:
        self.cluster, self.name, self._test = cluster, name, test
        self.path = f"/consumers/{name}"
        self._opened = ExitStack()
        self._queries: list[Query] = []
        self._jvms: set[str] = set()
        self.znodes: KazooClient = self._opened.enter_context(cluster.zookeeper())

    def close(self) -> None:
        """End all members."""
        self._opened.close()

    @staticmethod
    def places(reader: Reader) -> list[Place]:
        """Return the places that a member has read, in its order."""
        return places(reader)

    def note(self, name: str, value: object) -> None:
        """Record a property of the test for --junitxml."""
        self._test.node.user_properties.append((name, value))

    def journal(self, topics: Mapping[str, int]) -> Journal:
        """Write to topics with the given partition counts while the block lasts."""
        return Journal(self.cluster, topics)

    # --- members -------------------------------------------------------------------------------------------------------

    def jvm(self, name: str | None, version: str = "1.1.1", *, start: bool = True, **options: Any) -> OldConsumer:
        """Return a JVM consumer, started and past its first rebalance unless `start` is False."""
        properties = {**JVM, **options.pop("properties", {})}
        options |= {"kafka_version": version, "consumer_id": name, "properties": properties}
        consumer = OldConsumer(self.cluster.zookeeper_connect, self.name, **options)
        self._opened.callback(consumer.kill)
        self._jvms.add(f"{self.name}_{name}")
        return consumer.start() if start else consumer

    def query(self, name: str, options: Mapping[str, str], *, wait: bool = True) -> Query:
        """Return a started streaming query of ours. Unless `wait` is False, it has looked for records once."""
        query = Query(self._test.getfixturevalue("spark"), self._ours(name, options))
        self._queries.append(query)
        self._opened.callback(query.close)
        query.start()
        if wait:
            query.wait_ready()
        return query

    def member(self, name: str | None, options: Mapping[str, str]) -> GroupMember:
        """Return a joined member of ours in this process, which owns partitions and reads nothing."""
        parsed = parse_stream(self._ours(name, options))
        assert parsed.read.connection.zookeeper is not None
        assert parsed.group is not None
        assert parsed.read.subscription is not None
        member = GroupMember(parsed.read.connection.zookeeper, parsed.group, parsed.read.subscription)
        self._opened.callback(member.leave)
        member.join()
        return member

    def _ours(self, name: str | None, options: Mapping[str, str]) -> dict[str, str]:
        where = {"zookeeper.connect": self.cluster.zookeeper_connect, "group.id": self.name}
        return {**where, **({} if name is None else {"consumer.id": name}), **OURS, **options}

    def stop(self, last: Reader) -> None:
        """Stop the last member, and wait until its znodes are gone, well before its session would expire."""
        last.stop()
        self.settle(timeout_s=15)

    # --- state in ZooKeeper --------------------------------------------------------------------------------------------

    def under(self, path: str) -> dict[str, Znode]:
        """Return the children of one of the group's znodes, by name; none if it does not exist."""
        found = {}
        for name in self._children(path):
            try:
                data, stat = self.znodes.get(f"{self.path}/{path}/{name}")
            except NoNodeError:
                continue  # deleted meanwhile
            found[name] = Znode(data, stat.czxid, stat.ephemeralOwner)
        return found

    def registrations(self) -> dict[str, ConsumerRegistration]:
        """Return the members' registrations, by id."""
        found = self.under("ids")
        return {name: group_znodes.decode_registration(name, node.data) for name, node in found.items()}

    def claims(self) -> dict[TopicPartition, Znode]:
        """Return the owner znode of each partition that has one."""
        return {
            TopicPartition(t, int(p)): n for t in self._children("owners") for p, n in self.under(f"owners/{t}").items()
        }

    def owners(self) -> dict[TopicPartition, str]:
        """Return the thread that owns each partition, by its znode."""
        return {tp: (node.data or b"").decode() for tp, node in self.claims().items()}

    def offsets(self) -> dict[TopicPartition, int]:
        """Return the group's committed offsets."""
        found = {t: self.under(f"offsets/{t}") for t in self._children("offsets")}
        return {TopicPartition(t, int(p)): int(n.data or b"") for t, nodes in found.items() for p, n in nodes.items()}

    def computed(self, strategy: str) -> dict[TopicPartition, str]:
        """Compute the assignment from the registrations and topics that are in ZooKeeper now."""
        threads = threads_by_topic(self.registrations(), self.znodes.get_children("/brokers/topics"))
        return assign(strategy, Subscribers(threads, {topic: self._partitions(topic) for topic in threads}))

    def _partitions(self, topic: str) -> tuple[int, ...]:
        try:
            return tuple(sorted(map(int, json.loads(self.znodes.get(f"/brokers/topics/{topic}")[0])["partitions"])))
        except NoNodeError:
            return ()

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self.znodes.get_children(f"{self.path}/{path}"))
        except NoNodeError:
            return []

    # --- expectations --------------------------------------------------------------------------------------------------

    def settle(
        self, *names: str, strategy: str = "range", after: str = "", timeout_s: float = PATIENCE_S
    ) -> dict[TopicPartition, str]:
        """Wait until the group has these members and each partition has its computed owner; returns the owners.

        Claims must be of their owners' registered sessions. JVM consumers release and claim everything again whenever the
        ids change, so their claims must be newer than that. `after` names the event before: the time that the group took,
        since the call and since the ids showed the event, is recorded as a property of the test.
        """
        began = time.monotonic()
        showed: float | None = None
        ids = {f"{self.name}_{name}" for name in names}
        while True:
            registered, changed, claims = self.under("ids"), self._ids_changed_by(), self.claims()
            owners = {tp: (node.data or b"").decode() for tp, node in claims.items()}
            now = time.monotonic()
            if registered.keys() == ids:
                showed = showed or now
                good = all(self._is_good(claim, registered, changed) for claim in claims.values())
                if good and owners == self.computed(strategy):
                    break
            for query in self._queries:
                query.check()
            if now - began > timeout_s:
                expected = f"{sorted(ids)} were to own {self.computed(strategy)}"
                pytest.fail(f"{sorted(registered)} own {owners} after {timeout_s:g} s; {expected}")
            time.sleep(POLL_S)
        if after:
            self.note(after, f"{now - began:.2f} s, {now - showed:.2f} s after it showed")
        return owners

    def _ids_changed_by(self) -> int:
        """Return the transaction in which the last member joined or left."""
        stat = self.znodes.exists(f"{self.path}/ids")
        return 0 if stat is None else stat.pzxid

    def _is_good(self, claim: Znode, registered: Mapping[str, Znode], ids_changed_by: int) -> bool:
        """Return whether a claim is of a registered session and, if a JVM's, was made since the ids changed."""
        owner = consumer_of_thread((claim.data or b"").decode())
        is_live = owner in registered and registered[owner].session == claim.session
        return is_live and (owner not in self._jvms or claim.made_by > ids_changed_by)


@pytest.fixture
def new_group(zkafka_cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Callable[[], Group]]:
    """Factory of groups without members."""
    with ExitStack() as opened:

        def make() -> Group:
            group = Group(zkafka_cluster, f"group-{secrets.token_hex(4)}", request)
            opened.callback(group.close)
            return group

        yield make


@pytest.fixture
def group(new_group: Callable[[], Group]) -> Group:
    """A group without members."""
    return new_group()
