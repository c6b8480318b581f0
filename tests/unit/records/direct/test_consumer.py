"""The direct transport's consumer of a partition, and its fetches, on a scripted broker."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import Poll
from pyspark_zkafka.records.direct.client import DirectClient, PartitionBroker
from pyspark_zkafka.records.direct.consumer import DirectConsumer, Fetcher, FetchErrors
from pyspark_zkafka.records.direct.settings import settings_of
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.protocol import Reader
from tests.support.clock import Clock
from tests.support.eventually import eventually
from tests.support.fake_partition import EPOCH_END, FETCH, LIST_OFFSETS, METADATA, TP, FakePartition, feed, records
from tests.support.scripted_broker import RANGES, ScriptedBroker, answered

NOT_LEADER, REFUSED, FENCED, UNKNOWN_EPOCH = 6, 29, 74, 75
SCHEMA = pa.schema([("offset", pa.int64())])
WITH_EPOCHS = {**RANGES, EPOCH_END: (0, 3)}
UNTIL = 20


@contextmanager
def consumer(partition: FakePartition) -> Iterator[DirectConsumer]:
    """Yield a consumer at offset 0."""
    with ScriptedBroker(partition) as broker:
        partition.port = broker.address[1]
        server = f"127.0.0.1:{partition.port}"
        split = Split(TP, 0, 20, 0, 1, (0,), (server,))
        with (
            DirectClient(settings_of({"bootstrap.servers": server})) as client,
            DirectConsumer(client, split, SCHEMA) as opened,
        ):
            opened.seek(0)
            yield opened


def test_end_of_a_range_in_a_batch() -> None:
    """Records beyond the end of a range stay for a later poll with another end."""
    with consumer(FakePartition(records(0, 10), records(10, 20))) as opened:
        assert opened.poll(100, 1000, 5, Deadline.after(5)).last == 4
        assert opened.poll(100, 1000, 5, Deadline.after(5)).first is None
        assert opened.poll(100, 1000, 20, Deadline.after(5)).last == 9
        assert opened.poll(100, 1000, 20, Deadline.after(5)).last == 19
        assert opened.take()["offset"].to_pylist() == list(range(20))


def test_as_many_records_as_wanted() -> None:
    """A poll returns at most the requested number of records, and the next one continues."""
    with consumer(FakePartition(records(0, 10))) as opened:
        assert [opened.poll(4, 1000, 10, Deadline.after(5)).records for _ in range(3)] == [4, 4, 2]
        assert opened.take()["offset"].to_pylist() == list(range(10))


def test_seek_drops_what_was_fetched() -> None:
    """After a seek, fetched records that were not taken are dropped, and the offset is fetched again."""
    partition = FakePartition(records(0, 10), records(0, 10))
    with consumer(partition) as opened:
        assert opened.poll(2, 1000, 10, Deadline.after(5)).last == 1
        opened.seek(5)
        found = opened.poll(100, 1000, 10, Deadline.after(5))
        assert found.first == 5
        assert found.last == 9


@pytest.mark.parametrize("position", [0, 10, 15])
def test_batch_of_impossible_length(position: int) -> None:
    """A batch of impossible length is corrupt. The records before it can be read."""
    bad = bytearray(records(10, 20))
    bad[8:12] = protocol.int32(1)
    with consumer(FakePartition(records(0, 10) + bytes(bad))) as opened:
        opened.seek(position)
        if position == 0:
            assert opened.poll(100, 1000, 10, Deadline.after(5)).last == 9
        with pytest.raises(ClusterStateError, match="CORRUPT_MESSAGE"):
            opened.poll(100, 1000, 20, Deadline.after(5))


def test_ends_of_the_log() -> None:
    """The ends of the log take two requests to the planned leader, without a metadata request."""
    partition = FakePartition(b"")
    partition.ends = [(3, 20)]
    with consumer(partition) as opened:
        assert opened.watermarks(Deadline.after(5)) == (3, 20)
    assert partition.asked == [LIST_OFFSETS, LIST_OFFSETS]


def test_ends_of_the_log_after_a_lost_connection() -> None:
    """After a lost connection, the ends of the log are requested from the leader in metadata."""
    partition = FakePartition(b"")
    partition.ends = [None, (3, 20)]
    with consumer(partition) as opened:
        assert opened.watermarks(Deadline.after(10)) == (3, 20)
    assert partition.asked == [LIST_OFFSETS, METADATA, LIST_OFFSETS, LIST_OFFSETS]


def test_ends_of_the_log_in_time() -> None:
    """A connection lost with no time left raises a retriable error that names the request."""
    partition = FakePartition(b"")
    partition.ends = [None]
    doing = "asking the leader of t-0 for the ends of its log"
    with consumer(partition) as opened, pytest.raises(BrokersUnavailable, match=f"{doing}: .*no broker answered"):
        opened.watermarks(Deadline.after(0.05))
    assert FETCH not in partition.asked


@pytest.mark.parametrize("endpoints", [1, 0], ids=["leader", "bootstrap server"])
def test_ends_of_the_log_of_a_silent_broker(endpoints: int) -> None:
    """A broker that accepts connections and stays silent does not delay the error."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        split = Split(TP, 0, UNTIL, 0, 1, (0,), (server,) * endpoints)
        with (
            DirectClient(settings_of({"bootstrap.servers": server})) as client,
            DirectConsumer(client, split, pa.schema([("offset", pa.int64())])) as opened,
        ):
            begin = time.monotonic()
            with pytest.raises(BrokersUnavailable, match="no broker was connected in time"):
                opened.watermarks(Deadline.after(0.2))
            assert time.monotonic() - begin < 2.0  # a connection may take three seconds


@pytest.mark.parametrize(("error", "is_retriable"), [(NOT_LEADER, True), (REFUSED, False)])
def test_ends_of_the_log_that_are_refused(error: int, is_retriable: bool) -> None:
    """A broker's error is raised at once, and the leader is looked up again."""
    partition = FakePartition(b"")
    partition.ends = [error, (3, 20)]
    with consumer(partition) as opened:
        with pytest.raises(ClusterStateError, match="asking the leader of t-0 for the ends of its log") as caught:
            opened.watermarks(Deadline.after(5))
        assert caught.value.retriable is is_retriable
        assert opened.watermarks(Deadline.after(5)) == (3, 20)
    assert partition.asked[:2] == [LIST_OFFSETS, METADATA]


def new_fetcher(client: DirectClient, split: Split, sleep: Callable[[float], None] = time.sleep) -> Fetcher:
    """Return a fetcher of a split."""
    return Fetcher(client, split, PartitionBroker(client, split), FetchErrors(), feed, sleep)


class Fetchers:
    """Opens fetchers of a partition, each with its own broker and client. `broker` and `client` are the last ones."""

    broker: ScriptedBroker
    client: DirectClient

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened

    def __call__(
        self,
        partition: FakePartition,
        ranges: Mapping[int, tuple[int, int]] = WITH_EPOCHS,
        *,
        start: int = 0,
        until: int = UNTIL,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        most_fetch_bytes: int = 0,
        **kafka: Any,
    ) -> Fetcher:
        self.broker = self._opened.enter_context(ScriptedBroker(partition, ranges))
        partition.port = self.broker.address[1]
        server = f"127.0.0.1:{partition.port}"
        given = {name.replace("_", "."): value for name, value in kafka.items()}
        settings = settings_of({"bootstrap.servers": server, "reconnect.backoff.ms": 1, **given})
        self.client = self._opened.enter_context(DirectClient(settings, clock, most_fetch_bytes))
        fetcher = new_fetcher(self.client, Split(TP, start, until, 0, 1, (0,), (server,)), sleep)
        self._opened.callback(fetcher.abandon)
        return fetcher


@pytest.fixture
def open_fetcher() -> Iterator[Fetchers]:
    """Opens fetchers, and closes them at the end."""
    with ExitStack() as opened:
        yield Fetchers(opened)


def fetch(fetcher: Fetcher) -> tuple[int | None, Poll]:
    """Return the offset after the next records, and the events before them."""
    poll = Poll()
    found = fetcher.fetch(UNTIL, Deadline.after(5), poll)
    return None if found is None else found.next_offset, poll


@pytest.mark.parametrize("event", [NOT_LEADER, FENCED, UNKNOWN_EPOCH, None])
def test_truncation_before_fetch_12(open_fetcher: Fetchers, event: int | None) -> None:
    """A leader with another epoch is asked for the last read epoch's end, and an end below the position is a truncation."""
    partition = FakePartition(records(0, 10), event, records(10, 20, epoch=2))
    fetcher = open_fetcher(partition)
    assert fetch(fetcher)[0] == 10
    partition.leader_epoch, partition.epoch_end = 2, (0, 1, 5)
    found, poll = fetch(fetcher)
    assert found is None
    assert poll.out_of_range
    assert poll.truncation == "the record before offset 10 has leader epoch 1; on the leader, epoch 1 ends at offset 5"
    assert partition.asked == [FETCH, FETCH, METADATA, EPOCH_END]
    fetcher.seek(10)
    assert fetch(fetcher)[0] == 20


@pytest.mark.parametrize("end", [(0, 1, 10), (0, -1, -1), (29, -1, -1), (31, -1, -1)])
def test_no_truncation_before_fetch_12(open_fetcher: Fetchers, end: tuple[int, int, int]) -> None:
    """The read continues if the epoch ends at the position, or if the leader does not know it or may not report it."""
    partition = FakePartition(records(0, 10), FENCED, NOT_LEADER, records(10, 20, epoch=2))
    fetcher = open_fetcher(partition)
    assert fetch(fetcher)[0] == 10
    partition.leader_epoch, partition.epoch_end = 2, end
    found, poll = fetch(fetcher)
    assert found == 20
    assert poll == Poll()
    # Once for each epoch of a leader.
    assert partition.asked == [FETCH, FETCH, METADATA, EPOCH_END, FETCH, METADATA, FETCH]


def test_epoch_that_changes_again(open_fetcher: Fetchers) -> None:
    """If a broker loses leadership before it reports the end of an epoch, the next leader is asked."""
    partition = FakePartition(records(0, 10), FENCED, records(10, 20, epoch=2))
    partition.epoch_end = (FENCED, -1, -1)
    fetcher = open_fetcher(partition)
    assert fetch(fetcher)[0] == 10
    partition.leader_epoch = 2
    poll = Poll()
    assert fetcher.fetch(UNTIL, Deadline.after(0.3), poll) is None
    partition.leader_epoch, partition.epoch_end = 3, (0, 1, 10)
    assert fetch(fetcher)[0] == 20
    assert partition.asked.count(FETCH) == 3


def test_broker_without_epochs(open_fetcher: Fetchers) -> None:
    """A broker that cannot report the end of an epoch to consumers is not asked."""
    partition = FakePartition(records(0, 10), NOT_LEADER, records(10, 20, epoch=2))
    fetcher = open_fetcher(partition, {**RANGES, EPOCH_END: (0, 1)})
    assert fetch(fetcher)[0] == 10
    partition.leader_epoch = 2
    assert fetch(fetcher)[0] == 20
    assert EPOCH_END not in partition.asked


@pytest.mark.parametrize("others", [{}, {9: 1}])
def test_preferred_replica_out_of_reach(open_fetcher: Fetchers, others: dict[int, int]) -> None:
    """If the preferred replica is missing in metadata or accepts no connection, the leader is read."""
    partition = FakePartition(records(0, 10))
    partition.replica, partition.others = 9, others
    assert fetch(open_fetcher(partition, client_rack="r"))[0] == 10


def test_preferred_replica_that_stands_still(open_fetcher: Fetchers) -> None:
    """A replica that keeps returning nothing is left, and the records are read from the leader."""
    follower = FakePartition(b"")
    with ScriptedBroker(follower, WITH_EPOCHS) as broker:
        partition = FakePartition(records(0, 10))
        partition.replica, partition.others = 9, {9: broker.address[1]}
        fetcher = open_fetcher(partition, client_rack="r")
        assert eventually(lambda: fetch(fetcher)[0]) == 10
    assert follower.asked.count(FETCH) == 20
    assert partition.asked.count(FETCH) >= 2  # the first one is sent to the replica; the next may be under way


@pytest.mark.parametrize("answer", [None, b"?"], ids=["closes the connection", "malformed"])
def test_preferred_replica_that_fails(open_fetcher: Fetchers, answer: bytes | None) -> None:
    """After a replica has closed the connection, or sent a malformed answer, the leader is read."""
    with ScriptedBroker(lambda request: answer and answered(request, answer), WITH_EPOCHS) as follower:
        partition = FakePartition(records(0, 10))
        partition.replica, partition.others = 9, {9: follower.address[1]}
        fetcher = open_fetcher(partition, client_rack="r")
        assert eventually(lambda: fetch(fetcher)[0]) == 10
        assert [request.api for request in follower.received].count(FETCH) == 1


def test_time_of_a_poll() -> None:
    """A poll returns at its deadline while a connection is opened, metadata is requested first, or a broker is silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ScriptedBroker(lambda request: b"") as broker:
        unconnected, silent = (f"127.0.0.1:{place[1]}" for place in (listener.getsockname(), broker.address))
        for server, endpoints in ((unconnected, (unconnected,)), (unconnected, ()), (silent, (silent,))):
            with DirectClient(settings_of({"bootstrap.servers": server})) as client:
                fetcher = new_fetcher(client, Split(TP, 0, UNTIL, 0, 1, (0,), endpoints))
                for _ in range(2):
                    begin = time.monotonic()
                    assert fetcher.fetch(UNTIL, Deadline.after(0.1), Poll()) is None
                    assert 0.1 <= time.monotonic() - begin < 2  # a connection may take three seconds
                fetcher.abandon()


@pytest.mark.parametrize("begin", [0, 9])
def test_size_of_records(open_fetcher: Fetchers, begin: int) -> None:
    """The size of records includes the whole first batch, even if the fetch starts within it."""
    data = records(0, 10)
    # A clock that stands still: after a long wait, the next fetch would be smaller.
    still: dict[str, Any] = {"clock": lambda: 0.0, "most_fetch_bytes": 10**6, "max_partition_fetch_bytes": 1}
    fetcher = open_fetcher(FakePartition(data), start=begin, until=10, **still)
    fetcher.seek(begin)
    assert fetcher.fetch(10, Deadline.after(5), Poll()) is not None
    assert open_fetcher.client.fetch_sizes.next(TP.topic, 10) == round(1.1 * len(data))


def sizes(broker: ScriptedBroker) -> list[int]:
    """Return the partition sizes in bytes of the fetches that a broker has received."""
    after = protocol.int32(0) + protocol.string("")
    requests = [request.rest.removesuffix(after) for request in broker.received if request.api == FETCH]
    return [struct.unpack(">i", each[-4:])[0] for each in requests]


def test_wait_at_the_end_of_the_log(open_fetcher: Fetchers) -> None:
    """Each response without records doubles the broker's wait, up to half a second; records reset it."""
    partition = FakePartition(records(0, 10), *[b""] * 8, records(10, 20), b"")
    fetcher = open_fetcher(partition, until=30, fetch_wait_max_ms=10)
    while len(waits_ms(open_fetcher.broker)) < 11:
        fetcher.fetch(30, Deadline.after(0.1), Poll())
    assert waits_ms(open_fetcher.broker)[:11] == [10, 10, 20, 40, 80, 160, 320, 500, 500, 500, 10]


def waits_ms(broker: ScriptedBroker) -> list[int]:
    """Return the waits that the received fetches allow."""
    requests = [Reader(request.rest) for request in broker.received if request.api == FETCH]
    for request in requests:
        request.string()  # client id
        request.int32()  # replica
    return [request.int32() for request in requests]


@pytest.mark.parametrize(("error", "most_s"), [(NOT_LEADER, 1.0), (None, 10.0)], ids=["broker", "connection"])
def test_backoff(open_fetcher: Fetchers, error: int | None, most_s: float) -> None:
    """After broker errors the wait grows to one second, as in Java's client, and after lost connections to ten."""
    clock, pauses = Clock(1000.0), list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(round(seconds, 3))
        clock.sleep(seconds)

    partition = FakePartition(*[error] * 12, records(0, 10))
    fetcher = open_fetcher(partition, clock=clock, sleep=sleep, reconnect_backoff_ms=100)
    assert fetcher.fetch(10, open_fetcher.client.deadline(1000), Poll()) is not None
    assert max(pauses) == most_s
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.parametrize(
    ("fetches", "properties", "sizes_of"),
    [
        ([records(0, 10), records(10, 20)], {}, lambda size: [1_000, round(1.1 * size * 10**6 / 10)]),
        ([records(0, 10), None, records(10, 20)], {}, lambda size: [1_000, round(1.1 * size * 10**6 / 10), 1_000]),
        (
            [records(0, 10), records(10, 20)],
            {"receive_message_max_bytes": 10_000, "fetch_max_bytes": 9_000},
            lambda _: [1_000, 5_000],
        ),
    ],
    ids=["grows", "small after a lost connection", "half of the largest response"],
)
def test_size_of_fetches(
    open_fetcher: Fetchers,
    fetches: list[int | bytes | None],
    properties: dict[str, Any],
    sizes_of: Callable[[int], list[int]],
) -> None:
    """A fetch is as large as the rest of the range, within the limits, and small before records have arrived."""
    given = {"max_partition_fetch_bytes": 1_000, **properties}
    fetcher = open_fetcher(FakePartition(*fetches), until=10**6 + 10, most_fetch_bytes=10**9, **given)
    for end in (10, 20):
        found = fetcher.fetch(end + 1, Deadline.after(5), Poll())
        assert found is not None
        assert found.next_offset == end
    assert sizes(open_fetcher.broker)[: len(fetches)] == sizes_of(len(records(0, 10)))


def test_size_on_a_slow_link(open_fetcher: Fetchers) -> None:
    """A fetch is no larger than what arrives in about a second, so that records keep arriving."""
    data = records(0, 10)
    ticks = count()
    # Each reading of the clock is 10 ms after the last, so that every response is waited for.
    slow: dict[str, Any] = {"clock": lambda: 0.01 * next(ticks), "most_fetch_bytes": 10**9, "max_partition_fetch_bytes": 1}
    fetcher = open_fetcher(FakePartition(data, records(10, 20)), until=10**6, **slow)
    for end in (10, 20):
        assert fetcher.fetch(end + 1, Deadline.after(5), Poll()) is not None
    _, second, *_ = sizes(open_fetcher.broker)
    assert 1 < second <= len(data) / 0.01
