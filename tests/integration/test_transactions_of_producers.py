"""Transactional producers: visibility, fencing and reuse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from pyspark_zkafka.errors import DeliveryFailed, TransactionFailed
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.records.select import open_transactional
from pyspark_zkafka.records.transactions import TransactionalProducer, transactional_properties
from pyspark_zkafka.testing import LocalCluster
from tests.support.both_paths import connection
from tests.support.eventually import eventually
from tests.support.transactions import wait_until_forgotten

if TYPE_CHECKING:
    from confluent_kafka import Message

PROMPT = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
FORGETFUL = {
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "transactional.id.expiration.ms": "3000",
}
NUMBERS = count()


@pytest.fixture(scope="module")
def prompt_cluster() -> Iterator[LocalCluster]:
    """One broker that soon aborts timed-out transactions."""
    with LocalCluster(brokers=1, broker_config=PROMPT) as started:
        yield started


@pytest.fixture(scope="module")
def old_cluster() -> Iterator[LocalCluster]:
    """One broker 1.1.1 that soon aborts timed-out transactions."""
    with LocalCluster(brokers=1, kafka_version="1.1.1", broker_config=PROMPT) as started:
        yield started


@pytest.fixture(scope="module")
def new_cluster() -> Iterator[LocalCluster]:
    """One broker 4.3.1, with the second protocol of transactions (KIP-890)."""
    with LocalCluster(brokers=1, kafka_version="4.3.1", broker_config=PROMPT) as started:
        yield started


class Writer:
    """Writes to partition 0 of a topic in transactions of one id."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.topic = self.id = self.group = f"t-{next(NUMBERS)}"
        cluster.create_topic(self.topic)
        self._servers = cluster.bootstrap_servers

    def open(self, *, generation: str = "", **kafka: str) -> AbstractContextManager[TransactionalProducer]:
        reach = connection(self._servers, "direct", {name.replace("_", "."): value for name, value in kafka.items()})
        return open_transactional(transactional_properties(reach, self._servers, self.id), generation)

    def send(self, producer: TransactionalProducer, *values: bytes) -> None:
        """Send rows, and wait until all are acknowledged."""
        rows = OutgoingBatch(self.topic, pa.array(values, pa.binary()), None, None, None, None)
        with producer.counting():
            producer.send(rows, np.zeros(len(values), np.int32))
            producer.flush()
            assert producer.acknowledged == len(values)

    def commit(self, producer: TransactionalProducer, offset: int, metadata: str = "{}") -> None:
        producer.commit(GroupOffset(self.group, self.topic, 0, offset, metadata))

    def write_once(self, offset: int, *values: bytes, **settings: Any) -> None:
        """Write one transaction with a producer that may be kept for reuse."""
        with self.open(**settings) as producer:
            self.write(producer, offset, *values)

    def write(self, producer: TransactionalProducer, offset: int, *values: bytes) -> None:
        """Write one transaction."""
        producer.begin()
        self.send(producer, *values)
        self.commit(producer, offset, str(values))

    def entry(self) -> tuple[int, str | None]:
        """Return the group's offset and its metadata; -1001 without one."""
        with closing(Consumer({"bootstrap.servers": self._servers, "group.id": self.group})) as consumer:
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=30)
            return found.offset, found.metadata

    def stores(self, offset: int, metadata: str | None = None) -> bool:
        """Wait until the group has this entry. Brokers before 2.5 return the previous one until a commit is applied."""

        def is_stored() -> bool:
            found = self.entry()
            return found[0] == offset and metadata in (None, found[1])

        return eventually(is_stored, message=self.entry)

    def visible(self, isolation: str = "read_committed") -> list[bytes]:
        """Return the values that readers see now."""
        settings = {"group.id": "reader", "isolation.level": isolation, "enable.partition.eof": True}
        with closing(Consumer({"bootstrap.servers": self._servers, **settings})) as consumer:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            return list(iter(lambda: value_of(consumer.poll(30)), END))

    def end(self, isolation: str) -> int:
        """Return the last stable offset or the end of the log."""
        settings = {"bootstrap.servers": self._servers, "group.id": "reader", "isolation.level": isolation}
        with closing(Consumer(settings)) as consumer:
            return int(consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=30)[1])

    def is_complete(self) -> bool:
        """Return True while no transaction of the topic is open."""
        return self.end("read_committed") == self.end("read_uncommitted")

    def shows(self, *values: bytes) -> bool:
        """Wait until readers of committed records see these values: brokers respond before they write the markers."""
        return bool(eventually(lambda: self.visible() == list(values)))


END = object()


def value_of(message: Message | None) -> Any:
    """Return the value of a record, or `END`."""
    assert message is not None
    return END if message.error() else message.value()


TESTED = pytest.param("prompt_cluster", id="3.9.1")
OLD = pytest.param("old_cluster", id="1.1.1", marks=pytest.mark.long)
NEW = pytest.param("new_cluster", id="4.3.1", marks=pytest.mark.long)


@pytest.fixture(params=[TESTED, OLD, NEW])
def writer(request: pytest.FixtureRequest) -> Writer:
    return Writer(request.getfixturevalue(request.param))


def test_visible_after_commit(writer: Writer) -> None:
    """The commit makes rows and the group's offset with its metadata visible together."""
    with writer.open() as producer:
        producer.begin()
        writer.send(producer, b"a", b"b")
        assert writer.visible() == []
        assert writer.visible("read_uncommitted") == [b"a", b"b"]
        assert writer.entry() == (-1001, None)
        writer.commit(producer, 7, '{"rows": 2}')
    assert writer.shows(b"a", b"b")
    assert writer.stores(7, '{"rows": 2}')


def test_aborted(writer: Writer) -> None:
    """Rows and offset of an aborted transaction never become visible, and the producer can continue."""
    with writer.open() as producer:
        writer.write(producer, 1, b"a")
        assert writer.stores(1)
        before = writer.entry()
        producer.begin()
        writer.send(producer, b"b")
        producer._add_offset(GroupOffset(writer.group, writer.topic, 0, 2, "aborted"))
        producer.abort()
        assert not producer.is_open
        assert eventually(writer.is_complete)
        assert writer.entry() == before
        writer.write(producer, 3, b"c")
    assert writer.shows(b"a", b"c")
    assert writer.stores(3)


def test_offset_alone(writer: Writer) -> None:
    """A transaction without rows can commit an offset."""
    with writer.open() as producer:
        producer.begin()
        writer.commit(producer, 3, "none")
        assert not producer.is_open
    assert writer.stores(3, "none")


def fail(writer: Writer) -> None:
    """Fail within a transaction."""
    with writer.open() as producer:
        producer.begin()
        writer.send(producer, b"a")
        raise ZeroDivisionError


def test_aborted_by_an_error(writer: Writer) -> None:
    """An error in the block aborts the open transaction, so that readers need not wait for its time-out."""
    with pytest.raises(ZeroDivisionError):
        fail(writer)
    assert eventually(lambda: writer.end("read_committed") == writer.end("read_uncommitted"))
    writer.write_once(1, b"b")
    assert writer.shows(b"b")


def leave_open(writer: Writer) -> None:
    """Leave the block with an open transaction."""
    with writer.open() as producer:
        producer.begin()


def test_left_open(writer: Writer) -> None:
    """A transaction that is neither committed nor aborted raises RuntimeError, and its producer is closed."""
    with pytest.raises(RuntimeError, match="neither committed nor aborted"):
        leave_open(writer)
    writer.write_once(1, b"a")
    assert writer.shows(b"a")


def test_one_producer_for_several_ids(writer: Writer) -> None:
    """One producer writes the transactions of several ids in turn."""
    first_id, other_id = writer.id, f"{writer.id}-other"
    producers = set()
    for offset, writer.id in enumerate((first_id, other_id, first_id, first_id, other_id), 1):
        with writer.open() as producer:
            producers.add(producer)
            writer.write(producer, offset, b"%d" % offset)
    assert len(producers) == 1
    assert writer.shows(*(b"%d" % offset for offset in range(1, 6)))
    assert writer.stores(5)


Step = Callable[[Writer, TransactionalProducer], None]


def produce_more(writer: Writer, producer: TransactionalProducer) -> None:
    writer.send(producer, b"late")


def commit(writer: Writer, producer: TransactionalProducer) -> None:
    writer.commit(producer, 9)


def commit_rows_alone(writer: Writer, producer: TransactionalProducer) -> None:
    """Take only the last step of a commit, as if the offset had been added before the producer was fenced."""
    producer._complete("committing a transaction", producer._transactions.commit)


def abort(writer: Writer, producer: TransactionalProducer) -> None:
    producer.abort()


def other_producer(writer: Writer) -> AbstractContextManager[TransactionalProducer]:
    """Return a producer of the same id with other settings, as in another process."""
    return writer.open(client_id="other")


def outlive(writer: Writer, offset: int, step: Step) -> None:
    """Take a step of a transaction after another producer of its id has committed one."""
    with writer.open() as zombie:
        zombie.begin()
        writer.send(zombie, b"early")
        with other_producer(writer) as producer:
            writer.write(producer, offset, b"good")
        # Until the commit marker is written, brokers may return INVALID_TXN_STATE before they compare epochs.
        assert eventually(writer.is_complete)
        step(writer, zombie)


def test_fenced(writer: Writer) -> None:
    """Each step of a producer fails once another producer has its id, and none of its rows becomes visible."""
    for offset, step in enumerate([produce_more, commit, commit_rows_alone, abort], 1):
        require_fenced(writer, offset, step)
    assert writer.shows(*[b"good"] * 4)
    assert writer.stores(4)


def require_fenced(writer: Writer, offset: int, step: Step) -> None:
    with pytest.raises(TransactionFailed, match=rf"\[FENCED\] .* begun to write as {writer.id}") as caught:
        outlive(writer, offset, step)
    assert caught.value.parameters["code"] in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    assert caught.value.parameters["transactional_id"] == writer.id
    assert not caught.value.parameters["overdue"]


def test_fenced_between_its_transactions(writer: Writer) -> None:
    """A producer fenced between two transactions takes its id back for the next one."""
    writer.write_once(1, b"a")
    with other_producer(writer) as other:
        writer.write(other, 2, b"b")
    writer.write_once(3, b"c")
    assert writer.shows(b"a", b"b", b"c")
    assert writer.stores(3)


def overstay(writer: Writer, step: Step, timeout: str) -> None:
    """Take a step of a transaction that the brokers have aborted after its time-out."""
    with writer.open(transaction_timeout_ms=timeout) as producer:
        producer.begin()
        assert 0 < producer.left_s <= 1
        writer.send(producer, b"a")
        assert eventually(lambda: producer.left_s < 0 and writer.is_complete())
        step(writer, producer)


@pytest.mark.parametrize("step", [produce_more, commit])
def test_timed_out(writer: Writer, step: Step) -> None:
    """A transaction that exceeds its time-out is aborted by the brokers, and the error says so."""
    with pytest.raises(TransactionFailed, match=r"brokers abort one after 1000 ms; write less in each task") as caught:
        overstay(writer, step, "1000")
    assert caught.value.condition == "FENCED"
    assert caught.value.parameters["overdue"]
    writer.write_once(1, b"b", transaction_timeout_ms="1000")
    assert writer.shows(b"b")


def test_row_that_is_too_large(writer: Writer) -> None:
    """A row too large for the client fails its transaction, and the error names that cause."""
    with pytest.raises(DeliveryFailed, match=r"MESSAGE_TOO_LARGE.*do not see any row"):
        writer.write_once(1, b"a", bytes(2_000_000))
    writer.write_once(1, b"b")
    assert writer.shows(b"b")


def test_row_that_brokers_refuse(writer: Writer) -> None:
    """A row that the brokers refuse fails its transaction with their cause and its remedy."""
    writer.topic = f"{writer.topic}-small"
    writer.cluster.create_topic(writer.topic, config={"max.message.bytes": "1000"})
    with pytest.raises(DeliveryFailed, match=r"-0: MESSAGE_TOO_LARGE; .*topic's max\.message\.bytes.*do not see any"):
        writer.write_once(1, bytes(2_000))


def test_row_larger_than_a_segment(writer: Writer) -> None:
    """A row that does not fit into a segment of the log fails its transaction, and the error names the setting."""
    writer.topic = f"{writer.topic}-segments"
    writer.cluster.create_topic(writer.topic, config={"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    with pytest.raises(DeliveryFailed, match=r"-0: RECORD_LIST_TOO_LARGE; .*topic's segment\.bytes.*do not see any"):
        writer.write_once(1, bytes(2_000_000), message_max_bytes="3000000")


def test_time_out_above_the_brokers(writer: Writer) -> None:
    """A time-out above the brokers' limit raises an error at once, which names the limit."""
    limit = r"set kafka.transaction.timeout.ms \(now 900001\) .* transaction.max"
    with pytest.raises(TransactionFailed, match=limit):
        writer.write_once(1, b"a", transaction_timeout_ms="900001")


@pytest.mark.long  # tests/faults/exactly_once/test_timeouts.py tests a query with forgotten ids
def test_forgotten_id() -> None:
    """A reused producer writes its next transaction after the brokers have forgotten its id."""
    with LocalCluster(brokers=1, broker_config=FORGETFUL) as forgetful:
        writer = Writer(forgetful)
        writer.write_once(1, b"a")
        wait_until_forgotten(forgetful, writer.id)
        writer.write_once(2, b"b")
        assert writer.shows(b"a", b"b")


def test_topic_created_again(writer: Writer) -> None:
    """A topic that was created again, as its generation shows, is written with a new producer."""
    writer.write_once(1, b"a", generation="one")
    writer.cluster.delete_topic(writer.topic)
    writer.cluster.create_topic(writer.topic)
    writer.write_once(2, b"b", generation="two")
    assert writer.shows(b"b")


def outlive_topic(writer: Writer) -> None:
    """Continue to write after the topic was deleted."""
    with writer.open(delivery_timeout_ms="3000") as producer:
        producer.begin()
        writer.send(producer, b"a")
        writer.cluster.delete_topic(writer.topic)
        writer.send(producer, b"b")


def test_deleted_topic(writer: Writer) -> None:
    """Rows for a deleted topic fail after delivery.timeout.ms, and the error says that the topic is missing."""
    with pytest.raises(DeliveryFailed, match=f", and the brokers have no topic {writer.topic}; of 1 records"):
        outlive_topic(writer)


# Brokers 1.1.1 store such an offset.
@pytest.mark.parametrize("writer", [TESTED], indirect=True)
def test_partition_that_is_not_there(writer: Writer) -> None:
    """Committing an offset of a missing partition fails the transaction, and the error names the partition."""
    assert writer.entry()[0] == -1001  # ensures that the group has a coordinator

    def commit_elsewhere() -> None:
        with writer.open(delivery_timeout_ms="3000") as producer:
            producer.begin()
            producer.commit(GroupOffset(writer.group, writer.topic, 5, 1, "{}"))

    with pytest.raises(TransactionFailed, match=r"committing the offset of .*-5 of group .*UNKNOWN_TOPIC_OR_PARTITION"):
        commit_elsewhere()


def test_no_broker() -> None:
    """Without a broker, opening a producer fails after delivery.timeout.ms."""
    reach = connection("127.0.0.1:1", "direct", {"delivery.timeout.ms": "1500"})
    begin = time.monotonic()
    properties = transactional_properties(reach, "127.0.0.1:1", "nobody")
    with (
        pytest.raises(TransactionFailed, match=r"TRANSACTION_FAILED\] beginning to write: "),
        open_transactional(properties),
    ):
        pass
    assert 1 < time.monotonic() - begin < 10


@pytest.mark.long  # the clusters of tests/faults/exactly_once start without that topic, too
def test_first_offset_of_a_cluster() -> None:
    """The first transaction of a cluster waits until __consumer_offsets is created."""
    with LocalCluster(brokers=1) as fresh:
        writer = Writer(fresh)
        begin = time.monotonic()
        writer.write_once(1, b"a")
        assert time.monotonic() - begin < 60
        assert writer.stores(1)


@pytest.mark.parametrize(
    ("writer", "protocol"), [(*TESTED.values, 0), pytest.param(*NEW.values, 2, marks=pytest.mark.long)], indirect=["writer"]
)
def test_protocol(writer: Writer, protocol: int) -> None:
    """The second protocol of transactions (KIP-890) is used if the cluster has enabled it."""
    with writer.open() as producer:
        sender = producer._sender
        assert isinstance(sender, DirectSender)
        assert sender._coordinators.protocol == protocol
        writer.write(producer, 1, b"a")
    assert writer.shows(b"a")
