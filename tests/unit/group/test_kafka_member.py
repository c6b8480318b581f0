"""A member that Kafka coordinates, with a fake coordinator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.brokers.group_consumer import CommitAnswer, Expelled, PartitionsAssigned, Revoked
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.errors import BrokersUnavailable, GroupError, UnknownTopic, ZKafkaError
from pyspark_zkafka.group.kafka_checks import Pauses
from pyspark_zkafka.group.kafka_loop import LoopThread, MemberLoop
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.group.offsets import KafkaMemberOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe, SubscribePattern
from pyspark_zkafka.retries import Timing
from tests.support.clock import Clock
from tests.support.eventually import eventually
from tests.support.options import group_options, kafka_group_options

T0, T1 = (TopicPartition("t", n) for n in range(2))
TOPIC = Subscribe(("t",))
PROMPT = Pauses(lookup_s=0.05, confirm_s=0.05)
AGAIN = BrokersUnavailable("BROKERS_UNAVAILABLE", "the coordinator moved; try again")


class Coordinator:
    """A group's coordinator and its client; the next poll calls back what a test puts into `happens`."""

    member_id = "c-1"

    def __init__(self) -> None:
        self.happens: list[Callable[[MemberLoop], object]] = []
        self.errors: list[ZKafkaError | None] = []
        self.answers: list[Callable[[Mapping[TopicPartition, int]], CommitAnswer]] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.topics: list[str] = []
        self.subscribed: list[list[str]] = []
        self.threads: set[int] = set()
        self.discarded = 0
        self.events: Any = None

    def connect(self, on_event: Any) -> Coordinator:
        self.events = on_event.__self__
        return self

    def open(self) -> None: ...

    def close(self) -> None:
        self._note()

    def discard(self) -> None:
        self._note()
        self.discarded += 1

    def subscribe(self, topics: Collection[str]) -> None:
        self._note()
        self.subscribed.append(sorted(topics))

    def poll(self) -> ZKafkaError | None:
        self._note()
        while self.happens:
            self.happens.pop(0)(self.events)
        return self.errors.pop(0) if self.errors else None

    def poll_within(self) -> None:
        self.poll()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._note()
        self.commits.append(dict(offsets))
        answer = self.answers.pop(0) if self.answers else CommitAnswer
        self.happens.append(lambda events: events.handle(answer(offsets)))

    def topic_names(self) -> list[str]:
        return self.topics

    def _note(self) -> None:
        self.threads.add(threading.get_ident())


class NothingStored(KafkaGroupOffsets):
    """The offsets of a group without any."""

    def __init__(self) -> None: ...

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}


@pytest.fixture
def coordinator() -> Coordinator:
    """A coordinator that assigns nothing on its own."""
    return Coordinator()


@pytest.fixture
def new_member(coordinator: Coordinator) -> Iterator[Callable[..., KafkaGroupMember]]:
    """Makes joined members: ``new_member(hold_ms=100)``; they leave when the test ends, and wait for no join."""
    made: list[KafkaGroupMember] = []

    def make(
        subscription: Any = TOPIC, is_final: Any = None, hold_ms: int = 60_000, pauses: Pauses | None = None, **kafka: Any
    ) -> Any:
        options = group_options("g", membership="kafka", kafka=kafka_group_options(hold_ms=hold_ms, **kafka))
        pauses = replace(pauses or Pauses(), finish_s=0.0)
        made.append(KafkaGroupMember(options, subscription, coordinator.connect, is_final, pauses=pauses))
        made[-1].join()
        return made[-1]

    yield make
    for member in made:
        member.leave()


class ByHand(LoopThread):
    """Runs no loop: a test takes the turns."""

    def start(self) -> None: ...


def without_thread(
    coordinator: Coordinator, clock: Clock, subscription: Any = TOPIC, is_final: Any = None, **kafka: Any
) -> MemberLoop:
    """The loop of a joined member whose turns a test takes."""
    options, loops = group_options("g", membership="kafka", kafka=kafka_group_options(**kafka)), list[MemberLoop]()

    def run(loop: MemberLoop) -> ByHand:
        loops.append(loop)
        return ByHand(loop)

    KafkaGroupMember(options, subscription, coordinator.connect, is_final, Timing(clock), run=run).join()
    return loops[0]


def take_turn(loop: MemberLoop) -> None:
    """Let the member act once, as its thread does."""
    loop.begin_iteration()
    loop.end_iteration()


def assign(coordinator: Coordinator, member: KafkaGroupMember, *partitions: TopicPartition) -> None:
    """Assign partitions, and wait until the member has them."""
    coordinator.happens.append(lambda events: events.handle(PartitionsAssigned(partitions)))
    eventually(lambda: member.settled and member.owned().keys() >= set(partitions))


def revoke(coordinator: Coordinator, *partitions: TopicPartition) -> None:
    """Revoke partitions."""
    coordinator.happens.append(lambda events: events.handle(Revoked(partitions)))


def test_one_thread_asks_the_coordinator(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """One thread other than the caller's makes all requests."""
    member = new_member()
    assign(coordinator, member, T0)
    member.rebalance()
    member.commit({T0: 1}, 0)
    member.leave()
    assert len(coordinator.threads) == 1
    assert threading.get_ident() not in coordinator.threads


def test_commit_of_what_is_owned(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """Offsets of partitions that the member does not own are not sent, and without others no request is made."""
    member = new_member()
    assign(coordinator, member, T0)
    assert member.commit({T0: 5, T1: 6}, 0) == {T1}
    assert member.commit({T1: 6}, 0) == {T1}
    assert coordinator.commits == [{T0: 5}]


def test_commit_of_many_partitions(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A commit of thousands of partitions takes several requests, as the coordinator limits the size of one."""
    member, many = new_member(), [TopicPartition("t", n) for n in range(2_001)]
    assign(coordinator, member, *many)
    assert member.commit({**dict.fromkeys(many, 5), TopicPartition("u", 0): 1}, 0) == {TopicPartition("u", 0)}
    assert [len(offsets) for offsets in coordinator.commits] == [1_000, 1_000, 1]
    assert dict(item for offsets in coordinator.commits for item in offsets.items()) == dict.fromkeys(many, 5)


def test_starts_of_the_group(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A group's starts are committed for all partitions, also while a revocation waits, but not by an expelled member."""
    member = new_member()
    assign(coordinator, member, T0)
    member.rebalance()
    revoke(coordinator, T0)
    eventually(lambda: not member.settled)
    assert not member.commit({T0: 5, T1: 6}, 0, of_group=True)
    assert coordinator.commits == [{T0: 5, T1: 6}]
    assert member.commit({T0: 5}, 1, of_group=True) == {T0}


def test_refused_commit_is_raised(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A commit that is refused, other than because of a rebalance, raises the error."""
    member = new_member()
    assign(coordinator, member, T0)
    coordinator.answers.append(lambda offsets: CommitAnswer(offsets, "done", AGAIN))
    with pytest.raises(BrokersUnavailable, match="the coordinator moved"):
        member.commit({T0: 5}, 0)


def test_commit_after_a_rebalance(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A commit refused because of a rebalance is sent again, with the partitions that the member still owns."""
    member = new_member()
    assign(coordinator, member, T0, T1)
    member.set_reading(())
    coordinator.answers.append(lambda offsets: CommitAnswer(offsets, "again", AGAIN))
    coordinator.answers.append(CommitAnswer)
    original = coordinator.commit

    def commit(offsets: Mapping[TopicPartition, int]) -> None:
        original(offsets)
        if len(coordinator.commits) == 1:
            revoke(coordinator, T1)

    coordinator.commit = commit  # type: ignore[method-assign]
    assert member.commit({T0: 5, T1: 6}, 0) == {T1}
    assert coordinator.commits == [{T0: 5, T1: 6}, {T0: 5}]


def test_fenced(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A member unknown to the coordinator owns nothing, and commits nothing of its earlier plans."""
    member = new_member()
    assign(coordinator, member, T0)
    before = member.owner
    coordinator.answers.append(lambda offsets: CommitAnswer(offsets, "fenced", AGAIN))
    assert member.commit({T0: 5}, before.session) == {T0}
    assert member.owned() == {}
    assert not member.settled
    assign(coordinator, member, T0)
    assert member.commit({T0: 5}, before.session) == {T0}
    assert member.commit({T0: 5}, member.owner.session) == set()


def test_hold_until_the_work_is_done(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A revocation waits for the work on the partition, commits continue meanwhile, and `rebalance` ends the wait."""
    member = new_member()
    assign(coordinator, member, T0, T1)
    assert member.rebalance().keys() == {T0, T1}
    revoke(coordinator, T1)
    eventually(lambda: not member.settled)
    assert member.commit({T1: 7}, 0) == set()
    assert member.owned().keys() == {T0, T1}
    assert member.rebalance().keys() == {T0}
    assert member.commit({T1: 8}, 0) == {T1}


def test_hold_until_less_is_read(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A revocation ends as soon as its partition is no longer read, whatever else is read."""
    member = new_member()
    assign(coordinator, member, T0, T1)
    member.rebalance()
    revoke(coordinator, T1)
    eventually(lambda: not member.settled)
    member.set_reading([T0])
    eventually(lambda: member.owned().keys() == {T0})


@pytest.mark.parametrize(
    ("given", "option"),
    [({}, "rebalance.hold.ms"), ({"hold_ms": 500, "max_poll_interval_ms": 125}, "kafka.max.poll.interval.ms")],
)
def test_hold_ends(
    coordinator: Coordinator,
    new_member: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    given: dict[str, int],
    option: str,
) -> None:
    """After the hold a partition is released with a warning, although it is read. The warning names the option to raise."""
    member = new_member(**{"hold_ms": 100, **given})
    assign(coordinator, member, T0)
    member.rebalance()
    revoke(coordinator, T0)
    eventually(lambda: not member.owned())
    expected = f"c-1 released t-0 after 0.1 s, within a micro-batch: records may be read twice. Raise {option}, or make"
    assert expected in caplog.text


def test_revocation_of_nothing(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A revocation without partitions releases none."""
    member = new_member()
    assign(coordinator, member, T0)
    before = member.rebalances
    revoke(coordinator)
    eventually(lambda: member.rebalances > before)
    assert member.owned().keys() == {T0}


def test_leaving_does_not_wait(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A member that leaves does not wait for partitions being read."""
    member = new_member()
    assign(coordinator, member, T0)
    member.rebalance()
    revoke(coordinator, T0)
    begin = time.monotonic()
    member.leave()
    assert time.monotonic() - begin < 4
    assert member.owned() == {}
    with pytest.raises(GroupError, match="NOT_A_MEMBER"):
        member.rebalance()


def test_requests_of_a_member_that_leaves(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """When the member leaves, each waiting request is refused, whether it was sent or not."""
    member, waiting = new_member(), ThreadPoolExecutor(3)
    assign(coordinator, member, T0)
    coordinator.commit = coordinator.commits.append  # type: ignore[assignment, method-assign]
    commits = [waiting.submit(member.commit, {T0: offset}, 0) for offset in (5, 6)]
    eventually(lambda: coordinator.commits)
    member.set_reading([T0])
    member.leave()
    for answer in (*commits, waiting.submit(member.rebalance)):
        with pytest.raises(GroupError, match="NOT_A_MEMBER"):
            answer.result(10)
    waiting.shutdown()


def test_errors_of_the_group(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """`rebalance` raises an error that no retry resolves, which also ends the wait for an assignment."""
    member = new_member()
    coordinator.errors.append(GroupError("INCONSISTENT_GROUP_PROTOCOL", "no"))
    began = time.monotonic()
    assert not member.wait_settled(20)
    assert time.monotonic() - began < 10
    with pytest.raises(GroupError, match="INCONSISTENT_GROUP_PROTOCOL"):
        member.rebalance()


def test_passing_error(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """The member continues after a temporary error, which `rebalance` does not raise."""
    member = new_member()
    coordinator.errors.append(AGAIN)
    assert member.rebalance() == {}
    assign(coordinator, member, T0)
    assert member.rebalance().keys() == {T0}


def test_outages_are_logged(coordinator: Coordinator, caplog: pytest.LogCaptureFixture) -> None:
    """An error that is retried is logged once a minute, whatever its cause, and again in a later outage."""
    clock = Clock()
    loop = without_thread(coordinator, clock)
    for clock.now in (0, 1, 2, 1_000_000):
        coordinator.errors.append(BrokersUnavailable("BROKERS_UNAVAILABLE", f"broken at {clock.now}"))
        take_turn(loop)
    logged = [text for text in caplog.messages if "retrying" in text]
    assert logged == [f"a member of group g: retrying: [BROKERS_UNAVAILABLE] broken at {at}" for at in (0, 1_000_000)]


def test_refusals(coordinator: Coordinator, caplog: pytest.LogCaptureFixture) -> None:
    """A refusal is reported at its third occurrence without a response in between; a retriable error at once."""
    refused = GroupError("GROUP_PROTOCOL_UNSUPPORTED", "no")
    clock, found = Clock(), [AGAIN, None, refused, refused, None, refused, refused, refused]

    def is_final(*_: object) -> bool:
        if error := found.pop(0):
            raise error
        return False

    loop = without_thread(coordinator, clock, is_final=is_final, protocol="consumer")

    def error_after_a_check() -> BaseException | None:
        clock.now += 2
        take_turn(loop)
        answer = loop.requests.add_rebalance()
        take_turn(loop)
        return answer.exception(0)

    assert error_after_a_check() is None
    assert [text for text in caplog.messages if "retrying" in text] == [f"c-1: retrying: {AGAIN}"]
    assert [error_after_a_check() for _ in range(7)] == [*[None] * 6, refused]


def test_coordinator_that_does_not_answer(coordinator: Coordinator) -> None:
    """A check that waits for the coordinator delays no rebalance taken before it, and the next check comes later."""
    clock, asked = Clock(), []

    def is_final(*_: object) -> bool:
        asked.append((clock.now, answer.done()))
        clock.now += 4.5
        raise AGAIN

    loop = without_thread(coordinator, clock, is_final=is_final, protocol="consumer")
    for _ in range(5):
        clock.now += 1
        answer = loop.requests.add_rebalance()
        take_turn(loop)
        assert answer.result(0) == {}
    assert asked == [(2, True), (8.5, True)]


def test_final(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A member that is assigned its partitions in steps is settled after the last one, until one is revoked."""
    asked: list[tuple[str, set[TopicPartition], tuple[str, ...]]] = []

    def is_final(member_id: str, owned: Collection[TopicPartition], topics: tuple[str, ...], timeout_s: float) -> bool:
        assert 10 < timeout_s <= 20
        asked.append((member_id, set(owned), topics))
        if len(asked) == 2:
            coordinator.happens.append(lambda events: events.handle(PartitionsAssigned([T0])))
        return T0 in owned

    member = new_member(is_final=is_final)
    coordinator.happens.append(lambda events: events.handle(PartitionsAssigned([])))
    assert member.wait_settled(20)
    assert asked[0] == ("c-1", set(), ("t",))
    assert asked[-1] == ("c-1", {T0}, ("t",))
    assert member.owned().keys() == {T0}
    revoke(coordinator, T0)
    eventually(lambda: not member.settled)


@pytest.mark.parametrize(
    ("kafka", "joins_again"),
    [
        ({"instance_id": "one", "strategy": "range"}, True),
        ({"instance_id": "one", "strategy": "cooperative-sticky"}, True),
        ({"strategy": "cooperative-sticky"}, False),
        ({"instance_id": "one", "protocol": "consumer"}, False),
    ],
)
def test_partitions_without_an_owner(
    coordinator: Coordinator,
    new_member: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    kafka: dict[str, str],
    joins_again: bool,
) -> None:
    """A static member joins again if its restart leaves partitions of the group without an owner."""
    monkeypatch.setattr("pyspark_zkafka.group.kafka_state._STALL_S", 0.5)
    member = new_member(is_final=lambda name, owned, *_: {T0, T1} <= set(owned), hold_ms=0, **kafka)
    coordinator.happens.append(lambda events: events.handle(PartitionsAssigned([T0])))
    subscribe = coordinator.subscribe

    def assign_the_rest(topics: Collection[str]) -> None:
        subscribe(topics)
        if topics and [] in coordinator.subscribed:
            coordinator.happens.append(lambda events: events.handle(PartitionsAssigned([T0, T1])))

    coordinator.subscribe = assign_the_rest  # type: ignore[method-assign]
    assert member.wait_settled(20 if joins_again else 3) is joins_again
    assert coordinator.subscribed[-2:] == [[], ["t"]] if joins_again else coordinator.subscribed == [["t"]]


@pytest.mark.parametrize("error", [AGAIN, GroupError("REFUSED", "no")])
def test_undescribed(coordinator: Coordinator, new_member: Callable[..., Any], error: ZKafkaError) -> None:
    """If the coordinator refuses to describe the group, the assignment counts as final; without a response it does not."""

    def is_final(*asked: object) -> bool:
        raise error

    member = new_member(is_final=is_final)
    coordinator.happens.append(lambda events: events.handle(PartitionsAssigned([T0])))
    assert member.wait_settled(1 if error.retriable else 20) is not error.retriable


def test_unassigned(new_member: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """A member that is assigned nothing by the end of its wait, as without a coordinator, says so."""
    member = new_member(hold_ms=0, pauses=Pauses(margin_s=0.1))
    member.expiry_s = 0.1
    assert not member.wait_settled()
    assert "no partitions are assigned: the group rebalances, or its coordinator does not answer" in caplog.text


def test_client_of_an_expelled_member(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A client that may still send an expelled member's commit is replaced, and the member joins again as another owner."""
    member = new_member()
    assign(coordinator, member, T0)
    before = member.require_owner()
    coordinator.commit = lambda offsets: coordinator.happens.append(lambda events: events.handle(Expelled()))  # type: ignore[method-assign]
    assert member.commit({T0: 5}, before.session) == {T0}
    eventually(lambda: coordinator.subscribed == [["t"], ["t"]])
    assert coordinator.discarded == 1
    assert member.require_owner() != before


@pytest.mark.parametrize(
    ("exists", "replaced"),
    [((False, False, False), 0), ((True, False, False), 1), ((False, True, False), 0), ((False, True, True), 1)],
)
def test_join_without_topics(coordinator: Coordinator, exists: Collection[bool], replaced: int) -> None:
    """A client that waits for its topics is not replaced. Once one exists, the client has a minute to join."""
    clock = Clock()
    loop = without_thread(coordinator, clock, Subscribe(("t", "u")))
    coordinator.errors.append(UnknownTopic("UNKNOWN_TOPIC", "there is no topic u"))
    take_turn(loop)
    for is_there in exists:
        coordinator.topics = ["t"] if is_there else ["v"]
        clock.now += 61
        take_turn(loop)
    assert coordinator.discarded == replaced


def test_fenced_static_member(coordinator: Coordinator) -> None:
    """A member whose instance id is taken reports it after a refused commit, and does not take the id back."""
    clock = Clock()
    loop = without_thread(coordinator, clock, instance_id="one")
    coordinator.topics = ["t"]
    coordinator.happens.append(lambda events: events.handle(PartitionsAssigned([T0])))
    take_turn(loop)
    coordinator.answers.append(lambda offsets: CommitAnswer(offsets, "fenced", AGAIN))
    coordinator.errors += [None, GroupError("INSTANCE_ID_TAKEN", "another member has it")]
    commit = loop.requests.add_commit({T0: 5}, 0, None, of_group=False)
    take_turn(loop)
    take_turn(loop)
    assert commit.result(0) == {T0}
    for _ in range(3):
        clock.now += 61
        answer = loop.requests.add_rebalance()
        take_turn(loop)
        with pytest.raises(GroupError, match="INSTANCE_ID_TAKEN"):
            answer.result(0)
    assert coordinator.discarded == 0


def test_assignment_to_a_client_that_is_replaced(
    coordinator: Coordinator, new_member: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions assigned to a client that is being replaced are not the member's."""
    monkeypatch.setattr("pyspark_zkafka.group.kafka_requests.COMMIT_S", 0.1)
    member = new_member()
    assign(coordinator, member, T0)
    coordinator.commit = lambda offsets: None  # type: ignore[method-assign]
    with pytest.raises(BrokersUnavailable, match="no answer"):
        member.commit({T0: 5}, member.owner.session)
    coordinator.happens.append(lambda events: (events.handle(Revoked([T0])), events.handle(PartitionsAssigned([T1]))))
    eventually(lambda: coordinator.subscribed == [["t"], ["t"]])
    assert coordinator.discarded == 1
    assert member.owned() == {}
    assert not member.settled
    assign(coordinator, member, T0)
    assert member.owned().keys() == {T0}


def test_answer_during_a_revocation(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A partition with a commit in progress is released after the response, and the client stays."""
    member = new_member()
    assign(coordinator, member, T0, T1)

    def commit(offsets: Mapping[TopicPartition, int]) -> None:
        revoke(coordinator, T1)
        answer = CommitAnswer(offsets)
        threading.Timer(0.3, lambda: coordinator.happens.append(lambda events: events.handle(answer))).start()

    coordinator.commit = commit  # type: ignore[method-assign]
    assert member.commit({T1: 5}, member.owner.session) == set()
    eventually(lambda: member.owned().keys() == {T0})
    assert coordinator.discarded == 0


def test_topic_of_others(coordinator: Coordinator, new_member: Callable[..., Any]) -> None:
    """A KIP-848 member settles, without a callback, if its pattern finds a topic of which it is assigned nothing."""
    coordinator.topics = ["t"]
    pauses = Pauses(check_s=0.05, lookup_s=0.05)
    member = new_member(
        SubscribePattern("t.*"), lambda name, owned, *_: set(owned) == {T0}, pauses=pauses, protocol="consumer"
    )
    coordinator.happens.append(lambda events: events.handle(PartitionsAssigned([T0])))
    assert member.wait_settled(20)
    coordinator.topics = ["t", "tu"]
    eventually(lambda: len(coordinator.subscribed) > 1, timeout_s=20)
    assert member.wait_settled(5)
    assert member.owned().keys() == {T0}


@pytest.fixture
def stopped(coordinator: Coordinator, new_member: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> KafkaGroupMember:
    """A member whose process was stopped a moment ago."""
    monkeypatch.setattr("pyspark_zkafka.group.kafka_state._STOPPED_S", 0.3)
    monkeypatch.setattr("pyspark_zkafka.group.kafka_state._DOUBT_S", 1.0)
    member: KafkaGroupMember = new_member()
    assign(coordinator, member, T0)
    coordinator.happens.append(lambda events: time.sleep(0.6))
    eventually(lambda: member.owned() == {})
    return member


def test_doubt(stopped: KafkaGroupMember) -> None:
    """After a pause of the process, nothing is owned until the client has had time to learn what happened."""
    assert stopped.rebalance() == {}
    eventually(lambda: stopped.owned().keys() == {T0})


def test_commit_in_doubt(coordinator: Coordinator, stopped: KafkaGroupMember) -> None:
    """A commit after a pause of the process waits until ownership is known, and loses no owned partition."""
    done = KafkaMemberOffsets(stopped, NothingStored()).commit({T0: 5, T1: 6}, stopped.owner)
    assert done.written == {T0: 5}
    assert done.lost == {T1}
    assert coordinator.commits == [{T0: 5}]
