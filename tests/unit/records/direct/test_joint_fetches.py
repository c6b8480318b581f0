"""Joint fetches of several splits from scripted brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.consumer import Poll
from pyspark_zkafka.records.direct.client import DirectClient, PartitionBroker
from pyspark_zkafka.records.direct.consumer import Fetcher, FetchErrors
from pyspark_zkafka.records.direct.joint_fetches import JointFetches
from pyspark_zkafka.records.direct.settings import settings_of
from pyspark_zkafka.retries import Deadline
from tests.support.eventually import eventually
from tests.support.fake_leader import FakeLeader
from tests.support.fake_partition import feed, records
from tests.support.record_batches import Batch, Row
from tests.support.scripted_broker import API_VERSIONS, RANGES, ScriptedBroker

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
        client, events = self._client(), FetchErrors()
        found = Fetcher(client, split, PartitionBroker(client, split), events, feed, self._sleep, self.joint)
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
    request = task.joint.request(T0, 0)
    assert request is not None
    connection = request._in_flight
    assert connection is not None
    task.joint.close()
    assert not connection.is_open
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
