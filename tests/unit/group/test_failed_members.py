"""Members of both kinds whose threads meet an unexpected error: everyone hears of it, and the group gets the partitions."""

from __future__ import annotations

import inspect
import logging
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from pyspark_zkafka.brokers.group_consumer import CommitAnswer, Expelled, PartitionsAssigned, Revoked
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group import kafka_loop, kafka_supervisor
from pyspark_zkafka.group.kafka_checks import Pauses
from pyspark_zkafka.group.kafka_loop import LoopThread, MemberLoop
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import SubscribePattern
from pyspark_zkafka.retries import Timing
from tests.support.ensemble_client import EnsembleClient
from tests.support.eventually import eventually
from tests.support.options import group_options, kafka_group_options, member_options

T0, T1 = (TopicPartition("t", n) for n in range(2))
FAILED = r"\[THREAD_FAILED\] .+ has left group g after an unexpected error: RuntimeError: boom\. Restart the query or job"


def fails(call: Callable[[], object]) -> None:
    """Check that a call raises the cause of the failure."""
    with pytest.raises(ZKafkaError, match=FAILED) as caught:
        call()
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert not caught.value.retriable


def require_failed(member: GroupMember | KafkaGroupMember, caplog: pytest.LogCaptureFixture) -> None:
    """Check that all calls raise the cause, and that the log has one traceback."""
    fails(member.owned)
    fails(member.rebalance)
    fails(member.require_owner)
    fails(lambda: member.set_reading([T0]))
    fails(lambda: member.wait(0))
    fails(lambda: member.wait_settled(0))
    fails(member.join)
    assert not member.settled
    member.leave()
    (logged,) = (r for r in caplog.records if r.exc_info is not None)
    assert logged.levelno == logging.ERROR
    assert sum("boom" in (r.exc_text or r.getMessage()) for r in caplog.records) <= 1


class Client:
    """A client of a group in Kafka, whose named method raises once after the method is `armed`."""

    member_id = "c-1"

    def __init__(self, point: str) -> None:
        self.point = point
        self.armed = threading.Event()
        self.happens: list[Callable[[], object]] = []
        self.subscribed = False
        self.is_left = False
        self.on_event: Any = None

    def __getattribute__(self, name: str) -> Any:
        if name in CALLED and name == object.__getattribute__(self, "point"):
            object.__getattribute__(self, "reach")(name)
        return object.__getattribute__(self, name)

    def reach(self, name: str) -> None:
        """Raise here, once, if this is the point."""
        if name == self.point and self.armed.is_set():
            self.point = ""
            raise RuntimeError("boom")

    def connect(self, on_event: Any) -> Client:
        self.on_event = on_event
        self.reach("connect")
        return self

    def open(self) -> None:
        self.subscribed = False

    def close(self) -> None:
        self.is_left = True

    def discard(self) -> None: ...

    def subscribe(self, topics: object) -> None:
        self.subscribed = True

    def poll(self) -> None:
        while self.happens:
            self.happens.pop(0)()

    def poll_within(self) -> None: ...

    def topic_names(self) -> list[str]:
        return ["t"]

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.happens.append(lambda: self.on_event(CommitAnswer(offsets)))


CALLED = set(re.findall(r"\bclient\.(\w+)", inspect.getsource(kafka_loop) + inspect.getsource(kafka_supervisor)))
"""The methods of the client that a member in Kafka calls."""


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("point", sorted({*CALLED, "connect", "is_final", "sleep", "clock", "take"}))
def test_in_kafka(point: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Wherever the thread of a member in Kafka fails, all callers, also waiting ones, learn why, and the client leaves."""
    client, timing, pauses = Client(point), Timing(), Pauses(lookup_s=0.05, check_s=0.05, finish_s=0.1)
    threads: list[LoopThread] = []

    def clock() -> float:
        if threading.current_thread().name.startswith("zkafka-member"):
            client.reach("clock")
        return timing.clock()

    def sleep(seconds: float) -> None:
        client.reach("sleep")
        timing.sleep(seconds)

    def is_final(*asked: object) -> bool:
        client.reach("is_final")
        return False

    def run(loop: MemberLoop) -> LoopThread:
        threads.append(LoopThread(loop))
        return threads[-1]

    options = group_options("g", membership="kafka", kafka=kafka_group_options(protocol="consumer"))
    timed = Timing(clock, sleep=sleep)
    member = KafkaGroupMember(options, SubscribePattern("t.*"), client.connect, is_final, timed, pauses, run)
    take = member._requests.take
    monkeypatch.setattr(member._requests, "take", lambda: (client.reach("take"), take())[1])
    member.join()
    eventually(lambda: client.subscribed)
    client.happens.append(lambda: client.on_event(PartitionsAssigned([T0, T1])))
    eventually(lambda: member.rebalance().keys() == {T0, T1})
    client.armed.set()
    if point in ("connect", "open", "discard"):  # a client with an unanswered commit is replaced
        client.commit = lambda offsets: client.happens.append(lambda: client.on_event(Expelled()))  # type: ignore[method-assign]
        fails(lambda: member.commit({T0: 5}, 0))
    elif point in ("is_final", "subscribe", "sleep"):
        client.happens.append(lambda: client.on_event(Expelled()))
        if point == "subscribe":
            monkeypatch.setattr(Client, "topic_names", lambda self: ["t", "t2"])
    elif point == "poll_within":
        client.commit = lambda offsets: client.happens.append(lambda: client.on_event(Revoked([T0])))  # type: ignore[method-assign]
        fails(lambda: member.commit({T0: 5}, 0))
    elif point == "commit":
        fails(lambda: member.commit({T0: 5}, 0))
    elif point == "member_id":
        client.happens.append(lambda: client.on_event(PartitionsAssigned([])))
    if point in ("sleep", "close"):  # of the end of the thread
        if point == "sleep":
            eventually(lambda: not member.owned())
        member.leave()
    assert threads[0].thread is not None
    threads[0].thread.join(10)
    assert client.is_left
    require_failed(member, caplog)
    fails(lambda: member.commit({T0: 5}, 0))


@pytest.mark.parametrize("wait", ["rebalance", "commit"])
def test_waiting_callers(wait: str) -> None:
    """A caller that waits for an answer of the thread hears of its failure at once."""
    client = Client("poll")
    options = group_options("g", membership="kafka", kafka=kafka_group_options())
    member = KafkaGroupMember(options, SubscribePattern("t.*"), client.connect)
    member.join()
    client.happens.append(lambda: client.on_event(PartitionsAssigned([T0])))
    eventually(lambda: member.rebalance().keys() == {T0})
    client.commit = lambda offsets: client.armed.set()  # type: ignore[method-assign]
    if wait == "rebalance":
        client.armed.set()
    fails(lambda: member.rebalance() if wait == "rebalance" else member.commit({T0: 5}, 0))


class Session(EnsembleClient):
    """A session in memory that can be opened, and whose end removes its ephemeral znodes."""

    why: Any = None

    def __enter__(self) -> Session:
        return self

    def close(self, why: Any = None) -> None:
        self.why = self.why or why
        self.ensemble.expire(self._session.session_id)

    @property
    def session_ends_at(self) -> float:
        return float("inf")

    def _count(self) -> None:
        if self.why is not None:
            raise self.why()
        super()._count()


def raise_boom() -> None:
    """Fail."""
    raise RuntimeError("boom")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("work", "by_caller"), [("claim", False), ("claim", True), ("release", False), ("release", True), ("sweep", False)]
)
def test_in_zookeeper(
    work: str, by_caller: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever request of a member in ZooKeeper fails, all callers learn why, and its registration and claims are gone."""
    monkeypatch.setattr("pyspark_zkafka.group.assignment._SWEEP_S", 0.05 if work == "sweep" else 3600.0)
    for requests in range(15 if work == "sweep" else 100):
        client = Session()
        monkeypatch.setattr("pyspark_zkafka.group.member.ZooKeeperClient", lambda config, found=client, **others: found)
        client.put_topic("t", 2)
        member = GroupMember(*member_options())
        member.join()
        assert member.owned().keys() == {T0, T1}
        with member._lock:
            if work == "claim":
                client.put_topic("t", 3)
            elif work == "release":
                other = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
                client.put("/consumers/g/ids/g_b", other)
            has_failed = client.after(requests, raise_boom)
            if work != "sweep":
                member.request_rebalance()
            if by_caller:
                with suppress(ZKafkaError):
                    assert member.rebalance().keys() != {T0, T1}
        eventually(lambda failed=has_failed, m=member: failed() or (work != "sweep" and m.settled))
        if not has_failed():
            member.leave()
            break
        assert member._thread is not None
        member._thread.join(10)
        kept = [
            path for path in client.ensemble.nodes if path.startswith(("/consumers/g/ids/g_c", "/consumers/g/owners/t/"))
        ]
        assert kept == []
        require_failed(member, caplog)
        caplog.clear()
    assert requests >= 8


@pytest.mark.parametrize("point", ["sleep", "jitter"])
def test_pauses_in_zookeeper(point: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member in ZooKeeper may also fail between its requests."""
    client, armed = Session(), threading.Event()
    monkeypatch.setattr("pyspark_zkafka.group.member.ZooKeeperClient", lambda config, **others: client)

    def fail(*given: float) -> float:
        if armed.is_set():
            raise_boom()
        return 0.0

    timing = Timing(sleep=fail) if point == "sleep" else Timing(jitter=fail)
    client.put_topic("t", 2)
    member = GroupMember(*member_options(), timing)
    member.join()
    armed.set()
    member.request_rebalance()
    assert member._thread is not None
    member._thread.join(10)
    assert not [path for path in client.ensemble.nodes if path.startswith("/consumers/g/owners/t/")]
    require_failed(member, caplog)
