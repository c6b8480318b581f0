"""Fetches of one partition, and joint fetches of several splits, from scripted brokers."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import PartitionEvents, Poll
from pyspark_zkafka.records.direct import wire
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.fetcher import Fetcher, JointFetches
from pyspark_zkafka.records.direct.settings import settings_of
from pyspark_zkafka.records.direct.wire import Reader
from pyspark_zkafka.retries import Deadline
from tests.support.eventually import eventually
from tests.support.fake_leader import FakeLeader
from tests.support.fake_partition import EPOCH_END, FETCH, METADATA, TP, FakePartition, feed, records
from tests.support.record_batches import Batch, Row
from tests.support.scripted_broker import API_VERSIONS, RANGES, ScriptedBroker

NOT_LEADER, FENCED, UNKNOWN_EPOCH = 6, 74, 75
WITH_EPOCHS = {**RANGES, EPOCH_END: (0, 3)}
UNTIL = 20

Open = Callable[..., Fetcher]


@pytest.fixture
def open_fetcher() -> Iterator[Open]:
    """Opens a fetcher of a partition with 20 records: ``open_fetcher(partition, ranges)``."""
    with ExitStack() as opened:

        def make(partition: FakePartition, ranges: Mapping[int, tuple[int, int]] = WITH_EPOCHS, **kafka: Any) -> Fetcher:
            broker = opened.enter_context(ScriptedBroker(partition, ranges))
            partition.port = broker.address[1]
            server = f"127.0.0.1:{partition.port}"
            given = {name.replace("_", "."): value for name, value in kafka.items()}
            properties = {"bootstrap.servers": server, "reconnect.backoff.ms": 1, **given}
            client = opened.enter_context(DirectClient(settings_of(properties)))
            fetcher = Fetcher(client, Split(TP, 0, UNTIL, 0, 1, (0,), (server,)), PartitionEvents(TP), feed)
            opened.callback(fetcher.abandon)
            return fetcher

        yield make


def fetch(fetcher: Fetcher) -> tuple[int | None, Poll]:
    """Return the offset after the next records, and the events before them."""
    poll = Poll()
    found = fetcher.fetch(UNTIL, Deadline.after(5), poll)
    return None if found is None else found.next_offset, poll


@pytest.mark.parametrize("event", [NOT_LEADER, FENCED, UNKNOWN_EPOCH, None])
def test_truncation_before_fetch_12(open_fetcher: Open, event: int | None) -> None:
    """A leader with another epoch is asked for the last read epoch's end, and an end below the position is a truncation."""
    partition = FakePartition(records(0, 10), event, records(10, 20, epoch=2))
    fetcher = open_fetcher(partition)
    assert fetch(fetcher)[0] == 10
    partition.leader_epoch, partition.epoch_end = 2, (0, 1, 5)
    found, poll = fetch(fetcher)
    assert found is None
    assert poll.out_of_range
    assert poll.truncation == "leader epoch 1 is unknown to the leader: epoch 1 ends at offset 5"
    assert partition.asked == [FETCH, FETCH, METADATA, EPOCH_END]
    fetcher.seek(10)
    assert fetch(fetcher)[0] == 20


@pytest.mark.parametrize("end", [(0, 1, 10), (0, -1, -1), (29, -1, -1), (31, -1, -1)])
def test_no_truncation_before_fetch_12(open_fetcher: Open, end: tuple[int, int, int]) -> None:
    """The read continues if the epoch ends at the position, or if the leader does not know it or may not report it."""
    partition = FakePartition(records(0, 10), FENCED, NOT_LEADER, records(10, 20, epoch=2))
    fetcher = open_fetcher(partition)
    assert fetch(fetcher)[0] == 10
    partition.leader_epoch, partition.epoch_end = 2, end
    found, poll = fetch(fetcher)
    assert (found, poll) == (20, Poll())
    # Once for each epoch of a leader.
    assert partition.asked == [FETCH, FETCH, METADATA, EPOCH_END, FETCH, METADATA, FETCH]


def test_epoch_that_changes_again(open_fetcher: Open) -> None:
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


def test_broker_without_epochs(open_fetcher: Open) -> None:
    """A broker that cannot report the end of an epoch to consumers is not asked."""
    partition = FakePartition(records(0, 10), NOT_LEADER, records(10, 20, epoch=2))
    fetcher = open_fetcher(partition, {**RANGES, EPOCH_END: (0, 1)})
    assert fetch(fetcher)[0] == 10
    partition.leader_epoch = 2
    assert fetch(fetcher)[0] == 20
    assert EPOCH_END not in partition.asked


@pytest.mark.parametrize("others", [{}, {9: 1}])
def test_preferred_replica_out_of_reach(open_fetcher: Open, others: dict[int, int]) -> None:
    """If the preferred replica is missing in metadata or accepts no connection, the leader is read."""
    partition = FakePartition(records(0, 10))
    partition.replica, partition.others = 9, others
    assert fetch(open_fetcher(partition, client_rack="r"))[0] == 10


def test_preferred_replica_that_stands_still(open_fetcher: Open) -> None:
    """A replica that keeps returning nothing is left, and the records are read from the leader."""
    follower = FakePartition(b"")
    with ScriptedBroker(follower, WITH_EPOCHS) as broker:
        partition = FakePartition(records(0, 10))
        partition.replica, partition.others = 9, {9: broker.address[1]}
        fetcher = open_fetcher(partition, client_rack="r")
        assert eventually(lambda: fetch(fetcher)[0]) == 10
    assert follower.asked.count(FETCH) == 20
    assert partition.asked.count(FETCH) >= 2  # the first one is sent to the replica; the next may be under way


def test_time_of_a_poll() -> None:
    """A poll returns at its deadline while a connection is opened, or while metadata is requested first."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        with DirectClient(settings_of({"bootstrap.servers": servers})) as client:
            for endpoints in ((servers,), ()):
                fetcher = Fetcher(client, Split(TP, 0, UNTIL, 0, 1, (0,), endpoints), PartitionEvents(TP), feed)
                begin = time.monotonic()
                assert fetcher.fetch(UNTIL, Deadline.after(0.1), Poll()) is None
                assert 0.1 <= time.monotonic() - begin < 2  # a connection may take three seconds


@pytest.mark.parametrize("begin", [0, 9])
def test_size_of_records(begin: int) -> None:
    """The size of records includes the whole first batch, even if the fetch starts within it."""
    data = records(0, 10)
    with ScriptedBroker(FakePartition(data), WITH_EPOCHS) as broker:
        server = f"127.0.0.1:{broker.address[1]}"
        settings = settings_of({"bootstrap.servers": server, "max.partition.fetch.bytes": 1})
        # A clock that stands still: after a long wait, the next fetch would be smaller.
        with DirectClient(settings, clock=lambda: 0.0, most_fetch_bytes=10**6) as client:
            fetcher = Fetcher(client, Split(TP, begin, 10, 0, 1, (0,), (server,)), PartitionEvents(TP), feed)
            fetcher.seek(begin)
            assert fetcher.fetch(10, Deadline.after(5), Poll()) is not None
            assert client.fetch_sizes.next(TP.topic, 10) == round(1.1 * len(data))


def sizes(broker: ScriptedBroker) -> list[int]:
    """Return the partition sizes in bytes of the fetches that a broker has received."""
    after = wire.int32(0) + wire.string("")
    requests = [request.rest.removesuffix(after) for request in broker.received if request.api == FETCH]
    return [struct.unpack(">i", each[-4:])[0] for each in requests]


def test_wait_at_the_end_of_the_log() -> None:
    """Each response without records doubles the broker's wait, up to half a second; records reset it."""
    partition = FakePartition(records(0, 10), *[b""] * 8, records(10, 20), b"")
    with ScriptedBroker(partition, WITH_EPOCHS) as broker:
        partition.port = broker.address[1]
        server = f"127.0.0.1:{partition.port}"
        with DirectClient(settings_of({"bootstrap.servers": server, "fetch.wait.max.ms": 10})) as client:
            fetcher = Fetcher(client, Split(TP, 0, 30, 0, 1, (0,), (server,)), PartitionEvents(TP), feed)
            while len(waits_ms(broker)) < 11:
                fetcher.fetch(30, Deadline.after(0.1), Poll())
            fetcher.abandon()
        assert waits_ms(broker)[:11] == [10, 10, 20, 40, 80, 160, 320, 500, 500, 500, 10]


def waits_ms(broker: ScriptedBroker) -> list[int]:
    """Return the waits that the received fetches allow."""
    requests = [Reader(request.rest) for request in broker.received if request.api == FETCH]
    for request in requests:
        request.string()  # client id
        request.int32()  # replica
    return [request.int32() for request in requests]


@pytest.mark.parametrize(("error", "most_s"), [(NOT_LEADER, 1.0), (None, 10.0)], ids=["broker", "connection"])
def test_backoff(error: int | None, most_s: float) -> None:
    """After broker errors the wait grows to one second, as in Java's client, and after lost connections to ten."""
    now, pauses = [1000.0], list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(round(seconds, 3))
        now[0] += seconds

    with ScriptedBroker(partition := FakePartition(*[error] * 12, records(0, 10)), WITH_EPOCHS) as broker:
        partition.port = broker.address[1]
        server = f"127.0.0.1:{partition.port}"
        with DirectClient(settings_of({"bootstrap.servers": server}), clock=lambda: now[0]) as client:
            fetcher = Fetcher(client, Split(TP, 0, 10, 0, 1, (0,), (server,)), PartitionEvents(TP), feed, sleep)
            assert fetcher.fetch(10, client.deadline(1000), Poll()) is not None
    assert max(pauses) == most_s
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.parametrize(
    ("fetches", "properties", "sizes_of"),
    [
        ([records(0, 10), records(10, 20)], {}, lambda size: [1_000, round(1.1 * size * 10**6 / 10)]),
        ([records(0, 10), None, records(10, 20)], {}, lambda size: [1_000, round(1.1 * size * 10**6 / 10), 1_000]),
        (
            [records(0, 10), records(10, 20)],
            {"receive.message.max.bytes": 10_000, "fetch.max.bytes": 9_000},
            lambda _: [1_000, 5_000],
        ),
    ],
    ids=["grows", "small after a lost connection", "half of the largest response"],
)
def test_size_of_fetches(
    fetches: list[int | bytes | None], properties: dict[str, Any], sizes_of: Callable[[int], list[int]]
) -> None:
    partition = FakePartition(*fetches)
    with ScriptedBroker(partition, WITH_EPOCHS) as broker:
        partition.port = broker.address[1]
        server = f"127.0.0.1:{partition.port}"
        given = {"bootstrap.servers": server, "max.partition.fetch.bytes": 1_000, "reconnect.backoff.ms": 1, **properties}
        with DirectClient(settings_of(given), most_fetch_bytes=10**9) as client:
            fetcher = Fetcher(client, Split(TP, 0, 10**6 + 10, 0, 1, (0,), (server,)), PartitionEvents(TP), feed)
            for end in (10, 20):
                found = fetcher.fetch(end + 1, Deadline.after(5), Poll())
                assert found is not None
                assert found.next_offset == end
            fetcher.abandon()
        assert sizes(broker)[: len(fetches)] == sizes_of(len(records(0, 10)))


def test_size_on_a_slow_link() -> None:
    """A fetch is no larger than what arrives in about a second, so that records keep arriving."""
    data = records(0, 10)
    ticks = count()
    with ScriptedBroker(FakePartition(data, records(10, 20)), WITH_EPOCHS) as broker:
        server = f"127.0.0.1:{broker.address[1]}"
        settings = settings_of({"bootstrap.servers": server, "max.partition.fetch.bytes": 1})
        # Each reading of the clock is 10 ms after the last, so that every response is waited for.
        with DirectClient(settings, clock=lambda: 0.01 * next(ticks), most_fetch_bytes=10**9) as client:
            fetcher = Fetcher(client, Split(TP, 0, 10**6, 0, 1, (0,), (server,)), PartitionEvents(TP), feed)
            for end in (10, 20):
                assert fetcher.fetch(end + 1, Deadline.after(5), Poll()) is not None
            fetcher.abandon()
        _, second, *_ = sizes(broker)
        assert 1 < second <= len(data) / 0.01


T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NOT_LEADER, OUT_OF_RANGE = 6, 1
END = 10
BATCH = records(0, END)


class Task:
    """A task of several splits. Each fetcher has its own client, as in a reader.

    A fetcher that pauses for `slept_s` advances the `clock` instead of sleeping.
    """

    def __init__(self, opened: ExitStack, leader: FakeLeader, splits: list[Split], **kafka: str | int) -> None:
        self._opened = opened
        self.leader = leader
        self.splits = splits
        self.slept_s = 0.0
        given = {name.replace("_", "."): value for name, value in kafka.items()}
        self._properties = {"bootstrap.servers": splits[0].endpoints[0], "reconnect.backoff.ms": 1, **given}
        self.joint = JointFetches(self._client(), splits)
        opened.callback(self.joint.close)

    def fetcher(self, number: int) -> Fetcher:
        """Return a fetcher of a split, at its start."""
        split = self.splits[number]
        found = Fetcher(self._client(), split, PartitionEvents(split.partition), feed, self._sleep, joint=self.joint)
        self._opened.callback(found.abandon)
        found.seek(split.start)
        return found

    def read(self, number: int) -> int | Poll:
        """Return the offset after the first records of a split, or the event found instead."""
        poll = Poll()
        found = self.fetcher(number).fetch(END, Deadline.after(5), poll)
        return poll if found is None else found.next_offset

    def clock(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic() + self.slept_s

    def _client(self) -> DirectClient:
        return self._opened.enter_context(DirectClient(settings_of(self._properties), self.clock))

    def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds


NewTask = Callable[..., Task]


@pytest.fixture
def new_task() -> Iterator[NewTask]:
    """Makes a task with splits of all partitions in the given logs."""
    with ExitStack() as opened:

        def make(logs: dict[TopicPartition, bytes | int], start: int = 0, **kafka: str | int) -> Task:
            leader = FakeLeader(logs, END)
            server = opened.enter_context(ScriptedBroker(leader)).address
            leader.port = server[1]
            endpoints = (f"127.0.0.1:{server[1]}",)
            return Task(opened, leader, [Split(tp, start, END, 0, 1, (0,), endpoints) for tp in logs], **kafka)

        yield make


def test_one_request(new_task: NewTask) -> None:
    """One request fetches the available records of all splits, and each split is taken once."""
    task = new_task({T0: BATCH, U0: BATCH, T1: BATCH})
    assert [task.read(n) for n in range(3)] == [END] * 3
    assert task.leader.fetches == [[(T0, 0), (T1, 0), (U0, 0)]]
    assert task.read(1) == END
    assert task.leader.fetches[1:] == [[(U0, 0)]]


def test_no_room(new_task: NewTask) -> None:
    """A split without room in the joint response is fetched separately."""
    task = new_task({T0: BATCH, T1: BATCH, U0: BATCH}, fetch_max_bytes=2 * len(BATCH))
    assert [task.read(n) for n in range(3)] == [END] * 3
    assert task.leader.fetches == [[(T0, 0), (T1, 0), (U0, 0)], [(U0, 0)]]


def test_room_for_all_that_is_no_record(new_task: NewTask) -> None:
    """With many partitions in a response, less room is left for records, so that it stays within the user's limit."""
    batch = Batch(tuple(Row(n, value=bytes(50)) for n in range(END))).encode()
    logs = {TopicPartition("t", n): batch for n in range(60)}
    most_bytes = 50 * len(batch)
    task = new_task(logs, receive_message_max_bytes=most_bytes, fetch_max_bytes=most_bytes - 512)
    assert [task.read(n) for n in range(60)] == [END] * 60
    assert [len(fetch) for fetch in task.leader.fetches][:2] == [60, 1]


def test_end_of_a_log(new_task: NewTask) -> None:
    """The joint response reports the end of a split's log."""
    task = new_task({T0: BATCH, T1: BATCH}, start=END)
    assert task.read(0) == task.read(1) == Poll(end=END)
    assert len(task.leader.fetches) == 1


@pytest.mark.parametrize("error", [NOT_LEADER, OUT_OF_RANGE])
def test_error_of_one_partition(new_task: NewTask, error: int) -> None:
    """An error of a partition concerns only its split."""
    task = new_task({T0: BATCH, T1: error, U0: BATCH})
    assert [task.read(0), task.read(2)] == [END, END]
    task.leader.logs[T1] = BATCH
    assert task.read(1) == (END if error == NOT_LEADER else Poll(out_of_range=True))
    assert len(task.leader.fetches) == (2 if error == NOT_LEADER else 1)


def test_cut_connection(new_task: NewTask) -> None:
    """After a cut connection, each split is fetched separately."""
    task = new_task({T0: BATCH, T1: BATCH})
    task.leader.is_cut = True
    assert [task.read(n) for n in range(2)] == [END, END]
    assert task.leader.fetches == [[(T0, 0), (T1, 0)], [(T0, 0)], [(T1, 0)]]


def test_late_response(new_task: NewTask) -> None:
    """Any fetcher waits for a late response."""
    task = new_task({T0: BATCH, T1: BATCH})
    task.leader.is_open.clear()
    first, second = task.fetcher(0), task.fetcher(1)
    for fetcher in (first, second, first):
        assert fetcher.fetch(END, Deadline.after(0.1), Poll()) is None
    task.leader.is_open.set()
    for fetcher in (second, first):
        found = fetcher.fetch(END, Deadline.after(5), Poll())
        assert found is not None
        assert found.next_offset == END
    assert len(task.leader.fetches) == 1


def test_other_offset(new_task: NewTask) -> None:
    """A fetcher that continues at another offset sends its own request."""
    task = new_task({T0: BATCH, T1: BATCH})
    fetcher = task.fetcher(0)
    fetcher.seek(5)
    found = fetcher.fetch(END, Deadline.after(5), Poll())
    assert found is not None
    assert task.read(1) == END
    assert task.leader.fetches == [[(T0, 5)], [(T0, 0), (T1, 0)]]


def test_throttled(new_task: NewTask) -> None:
    """A throttled client waits once: the pause is over when the other splits are read."""
    task = new_task({T0: BATCH, T1: BATCH, U0: BATCH})
    task.leader.throttle_ms = 1000
    first, *others = (task.fetcher(n) for n in range(3))
    begin = task.clock()
    assert first.fetch(END, Deadline.after(0.1, task.clock), Poll()) is None
    for fetcher in (first, *others):
        found = fetcher.fetch(END, Deadline.after(60, task.clock), Poll())
        assert found is not None
        assert found.next_offset == END
    assert task.clock() - begin >= 1.0
    assert task.slept_s < 1.1
    assert task.leader.fetches == [[(T0, 0), (T1, 0), (U0, 0)], [(T0, 0)], [(T1, 0)], [(U0, 0)]]


def test_closed(new_task: NewTask) -> None:
    """Closing the task closes a connection with a pending response, and leaves nothing behind."""
    task = new_task({T0: BATCH, T1: BATCH})
    task.leader.is_open.clear()
    fetcher = task.fetcher(0)
    while not task.leader.is_asked.is_set():
        assert fetcher.fetch(END, Deadline.after(0.1), Poll()) is None
    task.joint.close()
    assert task.joint.request(T0, 0) is None
    task.leader.is_open.set()
    eventually(lambda: len(task.leader.fetches) == 1)
    assert task.read(0) == END
    assert task.leader.fetches == [[(T0, 0), (T1, 0)], [(T0, 0)]]


@pytest.mark.parametrize(
    ("splits", "rack", "together"),
    [
        ([Split(T0, 0, 9, 0, 1, (0,), ("a:1",)), Split(T1, 0, 9, 0, 1, (0,), ("a:1",))], "", {T0, T1}),
        ([Split(T0, 0, 9, 0, 1, (0,), ("a:1",)), Split(T1, 0, 9, 1, 1, (1,), ("b:1",))], "", set()),
        ([Split(T0, 0, 9, 0, 1, (0,), ("a:1",)), Split(T1, 0, 9, 0, 1, (0,), ("a:1",))], "r1", set()),
        ([Split(T0, 0, 9, 0, 1, (0,), ()), Split(T1, 0, 9, 0, 1, (0,), ())], "", set()),
        ([Split(T0, 0, 9, 0, 1, (0,), ("a:1",)), Split(T0, 9, 12, 0, 1, (0,), ("a:1",))], "", set()),
    ],
    ids=["one leader", "two leaders", "a rack", "unknown leaders", "one partition"],
)
def test_which(splits: list[Split], rack: str, together: set[TopicPartition]) -> None:
    """Several partitions with the same planned leader are fetched together."""
    with DirectClient(settings_of({"bootstrap.servers": "a:1", "client.rack": rack})) as client:
        joint = JointFetches(client, splits)
        assert {split.partition for split in splits if joint.request(split.partition, split.start)} == together


def test_two_ranges_of_a_partition() -> None:
    """A joint request has a partition once; another range of it is fetched separately."""
    splits = [Split(tp, start, start + 5, 0, 1, (0,), ("a:1",)) for tp, start in ((T0, 0), (T0, 5), (T1, 0))]
    with DirectClient(settings_of({"bootstrap.servers": "a:1"})) as client:
        joint = JointFetches(client, splits)
    assert [bool(joint.request(split.partition, split.start)) for split in splits] == [True, False, True]


def test_broker_without_a_limit_of_responses() -> None:
    """A broker that does not limit the bytes of a response gets no joint request, whose response could be far too large."""
    with ScriptedBroker(lambda request: b"", {**RANGES, 1: (0, 2)}) as broker:
        server = f"127.0.0.1:{broker.address[1]}"
        splits = [Split(TopicPartition("t", n), 0, END, 0, 1, (0,), (server,)) for n in range(2)]
        with DirectClient(settings_of({"bootstrap.servers": server})) as client:
            joint = JointFetches(client, splits)
            request = joint.request(splits[0].partition, 0)
            assert request is not None
            assert request.take(splits[0].partition, 0, Deadline.after(5)) is None
            assert joint.request(splits[1].partition, 0) is None
            assert {request.api for request in broker.received} == {API_VERSIONS}
