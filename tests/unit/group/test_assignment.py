"""A member's assignment: its view of the group, its next step, and the time of that step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pytest

from pyspark_zkafka.errors import CodecError, GroupError
from pyspark_zkafka.group.assignment import GroupView, GroupWatch, RebalanceSchedule, RebalanceStep, step
from pyspark_zkafka.model.assignors import Subscribers
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, encode_registration
from pyspark_zkafka.zookeeper.connection import Results, Watch
from tests.support.ensemble_client import EnsembleClient

A, B, C = (TopicPartition("t", n) for n in range(3))
OWN = ConsumerRegistration({"t": 1})
VIEW = GroupView({"g_c1": OWN, "g_c2": OWN}, ("t",), Subscribers({"t": ("g_c1-0", "g_c2-0")}, {"t": (0, 1, 2)}))


class Watching(EnsembleClient):
    """A session that knows which znodes have which watch."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: dict[Watch, set[str]] = {on_change: set(), on_topics: set()}

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
        *,
        sync: bool = False,
    ) -> Results:
        """Return the current znodes, and note the watch."""
        get, children, exists = list(get), list(children), list(exists)
        if watch is not None:
            self.watched[watch].update(get, children, exists)
        return super().ask(get, children, exists)

    def register(self, **members: ConsumerRegistration) -> None:
        """Write the registrations of members."""
        for name, member in members.items():
            self.put(f"/consumers/g/ids/{name}", encode_registration(member))


def on_change(event: object) -> None:
    """Watch the group and its topics."""


def on_topics(event: object) -> None:
    """Watch the list of topics."""


def watch(strategy: str, own: ConsumerRegistration, client: EnsembleClient | None = None) -> GroupWatch:
    """Return a member's watch on its group."""
    return GroupWatch(client or EnsembleClient(), "g", own, strategy, on_change, on_topics)


def test_assignment() -> None:
    """Each member gets its own threads' partitions."""
    found = watch("range", OWN)
    assert found.assignment(VIEW, "g_c1") == {TopicPartition("t", 0): "g_c1-0", TopicPartition("t", 1): "g_c1-0"}
    assert found.assignment(VIEW, "g_c2") == {TopicPartition("t", 2): "g_c2-0"}


def test_sticky_among_others() -> None:
    """The sticky assignor raises an error unless all members have it."""
    own = ConsumerRegistration({"t": 1}, assignor="sticky")
    with pytest.raises(GroupError, match=r"\[NOT_STICKY\].*members have another strategy: g_c1, g_c2\. Set"):
        watch("sticky", own).assignment(VIEW, "g_c3")


def test_strategies_that_may_differ() -> None:
    """Members with another strategy do not matter to strategies that registrations do not name, nor equal strategies."""
    others = {"g_c1": OWN, "g_c2": replace(OWN, assignor="sticky")}
    assert watch("range", OWN).assignment(replace(VIEW, members=others), "g_c1").keys() == {A, B}
    sticky = dict.fromkeys(others, replace(OWN, assignor="sticky"))
    found = [watch("sticky", sticky["g_c1"]).assignment(replace(VIEW, members=sticky), name) for name in sticky]
    assert sorted(tp for assigned in found for tp in assigned) == [A, B, C]


def test_ids() -> None:
    """Members with an unreadable registration count as members."""
    unreadable = CodecError("/consumers/g/ids/g_c2", b"?", "a registration")
    assert GroupView({"g_c1": OWN}, unreadable={"g_c2": unreadable}).ids == {"g_c1", "g_c2"}


# --- the view of a group -----------------------------------------------------------------------------------------------

STATIC, OTHER = ConsumerRegistration({"t": 1}), ConsumerRegistration({"u": 2, "a/b": 1})
PATTERN = ConsumerRegistration({"t|u|v.*": 1}, "white_list")
IDS, TOPICS, T, U = "/consumers/g/ids", "/brokers/topics", "/brokers/topics/t", "/brokers/topics/u"


@pytest.fixture
def group() -> Watching:
    """A group of three members, one of them unreadable, in a cluster with three topics and a znode that is no topic."""
    client = Watching()
    client.register(g_c1=STATIC, g_c2=OTHER)
    client.put(f"{IDS}/g_c3", b"?")
    client.put_topic("t", 2)
    client.put_topic("u")
    client.put_topic("w")
    client.put(f"{TOPICS}/v 1")
    return client


OF_T, OF_U = ("g_c1-0",), ("g_c2-0", "g_c2-1")


@pytest.mark.parametrize(
    ("strategy", "own", "threads", "on_change_paths", "on_topics_paths"),
    [
        pytest.param("range", STATIC, {"t": OF_T}, {IDS, T}, set(), id="its own topics"),
        pytest.param("roundrobin", STATIC, {"t": OF_T, "u": OF_U}, {IDS, T, U}, set(), id="all topics of the group"),
        pytest.param("range", PATTERN, {"t": OF_T, "u": OF_U}, {IDS, T, U}, {TOPICS}, id="topics of its pattern"),
    ],
)
def test_view(
    group: Watching,
    strategy: str,
    own: ConsumerRegistration,
    threads: dict[str, tuple[str, ...]],
    on_change_paths: set[str],
    on_topics_paths: set[str],
) -> None:
    """A view has the group's members, and the subscribers of the topics that matter to the member, which it watches."""
    view = watch(strategy, own, group).read()
    assert view.members == {"g_c1": STATIC, "g_c2": OTHER}
    assert view.unreadable.keys() == {"g_c3"}
    assert view.topics == tuple(threads)
    numbers = {"t": (0, 1), "u": (0,)}
    assert view.subscribers == Subscribers(threads, {topic: numbers[topic] for topic in threads})
    assert group.watched == {on_change: on_change_paths, on_topics: on_topics_paths}


@pytest.mark.parametrize(("strategy", "on_topics_paths"), [("range", set()), ("roundrobin", {TOPICS})])
def test_pattern_of_another_member(group: Watching, strategy: str, on_topics_paths: set[str]) -> None:
    """Another member's pattern only matters if the strategy assigns over all topics of the group."""
    group.register(g_c2=PATTERN)
    view = watch(strategy, STATIC, group).read()
    assert view.topics == (("t", "u") if on_topics_paths else ("t",))
    assert view.subscribers.threads["t"] == ("g_c1-0", "g_c2-0")
    assert group.watched[on_topics] == on_topics_paths


def test_watch_on_a_topic_to_come(group: Watching) -> None:
    """A member watches the creation of a topic that it subscribes to by name."""
    view = watch("range", ConsumerRegistration({"x": 1}), group).read()
    assert view.topics == ("x",)
    assert view.subscribers == Subscribers({}, {})
    assert "/brokers/topics/x" in group.watched[on_change]


@pytest.mark.parametrize(("strategy", "owners"), [("range", {}), ("sticky", {"t-1": "g_c2-0"})])
def test_present_owners(group: Watching, strategy: str, owners: dict[str, str]) -> None:
    """A view has the threads that own partitions of the member's topics, if the strategy keeps them."""
    group.put("/consumers/g/owners/t/1", b"g_c2-0")
    group.put("/consumers/g/owners/u/0", b"g_c2-0")
    found = watch(strategy, STATIC, group).read().subscribers
    assert {str(tp): thread for tp, thread in found.owners.items()} == owners
    assert (found.threads, found.partitions) == ({"t": OF_T}, {"t": (0, 1)})


def test_group_without_znodes() -> None:
    """A group without members in a cluster without topics has an empty view."""
    found = watch("range", PATTERN, Watching())
    assert found.ids() == set()
    assert found.read() == GroupView()


@pytest.mark.parametrize(
    ("strategy", "own", "new", "is_current"),
    [
        pytest.param("range", STATIC, [], True, id="no change"),
        pytest.param("range", STATIC, [f"{IDS}/g_c4"], False, id="a new member"),
        pytest.param("range", PATTERN, [f"{TOPICS}/v2"], False, id="a new topic of its pattern"),
        pytest.param("range", PATTERN, [f"{TOPICS}/x"], True, id="another new topic"),
        pytest.param("roundrobin", OTHER, [f"{TOPICS}/v2"], True, id="a new topic, without patterns"),
    ],
)
def test_current_view(group: Watching, strategy: str, own: ConsumerRegistration, new: list[str], is_current: bool) -> None:
    """A view is current until another member joins, or another topic matters to the member."""
    found = watch(strategy, own, group)
    view = found.read()
    for path in new:
        group.put(path)
    assert found.is_current(view) == is_current


# --- steps of a rebalance ----------------------------------------------------------------------------------------------

CLAIMS = {tp: Claim("c-0", 1) for tp in (A, B, C)}


def leaving(
    partitions: Collection[TopicPartition],
    reading: Collection[TopicPartition],
    now: float,
    revoking: Mapping[TopicPartition, float] | None = None,
) -> RebalanceStep:
    """Return the step of a member that must release partitions, and keeps each for 10 s."""
    target = {tp: claim.thread for tp, claim in CLAIMS.items() if tp not in partitions}
    return step(target, CLAIMS, reading, revoking or {}, now, 10)


def test_claims() -> None:
    """Assigned partitions that are unclaimed, or claimed for another thread, are to be claimed."""
    assert step({A: "c-0", B: "c-1"}, {B: Claim("c-0", 1)}, [], {}, 0, 10).claim == {A: "c-0", B: "c-1"}
    assert step({A: "c-0"}, {A: Claim("c-0", 1)}, [A], {}, 0, 10) == RebalanceStep()


def test_what_nobody_reads_goes_at_once() -> None:
    """Partitions that nobody reads are released at once."""
    found = leaving({A, B}, [], 100)
    assert found == RebalanceStep(release=frozenset({A, B}))


def test_what_is_read_is_kept_until_it_is_not_read_any_more() -> None:
    """Each partition is released as soon as it is no longer read."""
    found = leaving({A, B, C}, [A, B], 100)
    assert found == RebalanceStep(release=frozenset({C}), revoking={A: 110, B: 110})
    found = leaving({A, B}, [B], 101, found.revoking)
    assert found == RebalanceStep(release=frozenset({A}), revoking={B: 110})


def test_the_time_counts_from_the_first_step() -> None:
    """The hold counts from the first step; when it is over, the partition is released as overdue."""
    found = leaving({A}, [A], 105, leaving({A}, [A], 100).revoking)
    assert found == RebalanceStep(revoking={A: 110})
    found = leaving({A}, [A], 110, found.revoking)
    assert found == RebalanceStep(release=frozenset({A}), overdue=frozenset({A}))


def test_called_off() -> None:
    """A partition that may stay again is not held; if it must go later, its hold starts anew."""
    first = leaving({A}, [A], 100)
    second = leaving(set(), [A], 108, first.revoking)
    assert second == RebalanceStep()
    assert leaving({A}, [A], 108, second.revoking).revoking == {A: 118}


def test_tries_to_claim() -> None:
    """A blocked member tries again after the back-off. Rebalances before then are no tries; a success ends the count."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    assert [schedule.end_rebalance(now, (), is_blocked=True) for now in (0.0, 1.0, 2.0, 3.9, 4.0)] == [1, 0, 2, 0, 3]
    assert [schedule.must_rebalance(now) for now in (5.9, 6.0)] == [False, True]
    assert schedule.end_rebalance(6.0, (), is_blocked=False) == 0
    assert not schedule.must_rebalance(1e9)
    assert schedule.end_rebalance(7.0, (), is_blocked=True) == 1


def test_first_rebalance() -> None:
    """A new member rebalances and checks its group at once."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    assert (schedule.must_rebalance(0.0), schedule.must_sweep(0.0), schedule.due_s(0.0)) == (True, True, 0.0)


def test_blocked_after_a_success() -> None:
    """The first rebalance that is blocked after a success is a try, whenever that is."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    schedule.end_rebalance(0.25, (), is_blocked=False)
    assert schedule.end_rebalance(0.5, (), is_blocked=True) == 1


@pytest.mark.parametrize(("jitter", "pause_s"), [(0.0, 1.0), (0.25, 1.5), (0.5, 2.0), (0.75, 2.5)])
def test_pause_between_tries(jitter: float, pause_s: float) -> None:
    """The back-off varies by half, so that two members that block each other do not try at the same times."""
    schedule = RebalanceSchedule(2.0, lambda: jitter)
    schedule.end_rebalance(10.0, (), is_blocked=True)
    assert schedule.due_s(10.0) == pause_s


def test_end_of_a_hold() -> None:
    """A member rebalances at the end of the first hold, if the back-off does not end sooner."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    schedule.end_rebalance(0.0, [4.0, 3.0], is_blocked=False)
    assert [schedule.must_rebalance(now) for now in (2.9, 3.0)] == [False, True]
    schedule.end_rebalance(3.0, [9.0], is_blocked=True)
    assert [schedule.must_rebalance(now) for now in (4.9, 5.0)] == [False, True]


def test_times_of_checks() -> None:
    """A group is checked three seconds after a rebalance or a check, or later if a check takes long."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    schedule.end_rebalance(10.0, (), is_blocked=False)
    assert schedule.due_s(10.0) == 3.0
    assert not schedule.must_sweep(12.9)
    assert schedule.must_sweep(13.0)
    schedule.end_sweep(13.0, 13.125)
    assert schedule.due_s(13.125) == 3.0
    schedule.end_sweep(20.0, 21.0)
    assert schedule.due_s(21.0) == 20.0
    assert schedule.due_s(99.0) == 0.0


def test_failed_rebalance() -> None:
    """A rebalance that failed, or was interrupted, is due again after half a second."""
    schedule = RebalanceSchedule(2.0, lambda: 0.5)
    schedule.end_rebalance(10.0, (), is_blocked=False)
    schedule.start_rebalance(10.0)
    assert [schedule.must_rebalance(now) for now in (10.4, 10.5)] == [False, True]
    schedule.fail(11.0)
    assert not schedule.must_sweep(11.4)
    assert schedule.must_sweep(11.5)
    assert schedule.must_rebalance(11.5)
