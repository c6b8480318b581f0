"""Assignors, compared with recorded assignments by Kafka, and the sticky assignor."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.assignors import STRATEGIES, Subscribers, assign, balance, java_hash, threads_by_topic
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration, decode_registration

SCENARIOS = json.loads((Path(__file__).parents[2] / "vectors" / "znodes.json").read_text(encoding="utf-8"))
IDS = re.compile(r"/consumers/[^/]+/ids/(?P<consumer>[^/]+)")
OWNED = re.compile(r"/consumers/[^/]+/owners/(?P<topic>[^/]+)/(?P<partition>[0-9]+)")
RECORDED_STRATEGIES = {"roundrobin_same_topics_different_streams": "roundrobin", "v0822_roundrobin_order": "roundrobin-0.8"}

Table = dict[str, list[str]]


def recorded_members(scenario: str) -> dict[str, ConsumerRegistration]:
    found = ((IDS.fullmatch(znode["path"]), znode) for znode in SCENARIOS[scenario]["znodes"])
    return {match["consumer"]: decode_registration(z["path"], z["value"].encode()) for match, z in found if match}


def recorded_owners(scenario: str) -> dict[TopicPartition, str]:
    found = ((OWNED.fullmatch(znode["path"]), znode) for znode in SCENARIOS[scenario]["znodes"])
    return {TopicPartition(match["topic"], int(match["partition"])): z["value"] for match, z in found if match}


def recorded_subscribers(scenario: str) -> Subscribers:
    topics = {topic: tuple(range(count)) for topic, count in SCENARIOS[scenario]["topics"].items()}
    return Subscribers(threads_by_topic(recorded_members(scenario), topics), topics)


def subscribers(partitions: dict[str, int], owners: Table | None = None, **topics: str) -> Subscribers:
    """Return consumers with one thread each. `topics` has their topics as one text, by consumer."""
    readers = {topic: tuple(f"{c}-0" for c in sorted(topics) if topic in topics[c].split()) for topic in partitions}
    held = {partition(name): f"{c}-0" for c, names in (owners or {}).items() for name in names}
    return Subscribers(readers, {topic: tuple(range(count)) for topic, count in partitions.items()}, held)


def partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("p")
    return TopicPartition(topic, int(number))


def table(found: dict[TopicPartition, str]) -> Table:
    """Return ordered partitions such as ``t0p1`` by owner."""
    owned: Table = {}
    for tp, thread in sorted(found.items()):
        owned.setdefault(thread.removesuffix("-0"), []).append(f"{tp.topic}p{tp.partition}")
    return owned


# --- recorded tables

WITH_OWNERS = [
    scenario for scenario in SCENARIOS if "/consumers/" in str(SCENARIOS[scenario]) and recorded_owners(scenario)
]


@pytest.mark.parametrize("scenario", WITH_OWNERS)
def test_recorded_owner_tables(scenario: str) -> None:
    """The registrations and topics of a recording give exactly the owners that its consumers claimed."""
    found = assign(RECORDED_STRATEGIES.get(scenario, "range"), recorded_subscribers(scenario))
    assert found == recorded_owners(scenario)
    summary = SCENARIOS[scenario].get("assign", {})
    assert {TopicPartition(t, int(p)): owner for t, row in summary.items() for p, owner in row.items()} in ({}, found)


def test_no_recorded_table_is_left_out() -> None:
    """All eleven groups that were recorded with members have owners to compare."""
    assert len(WITH_OWNERS) == 11
    assert [scenario for scenario in SCENARIOS if recorded_members(scenario)] == WITH_OWNERS
    assert set(RECORDED_STRATEGIES) < set(WITH_OWNERS)


def test_the_two_round_robins_swap_all_owners() -> None:
    """The hashed string matters: 1.1.1 gives each of the 6 partitions to the other consumer than 0.8.2.2 did."""
    older = recorded_owners("v0822_roundrobin_order")
    newer = assign("roundrobin", recorded_subscribers("v0822_roundrobin_order"))
    other = {"g-rr4_c1-0": "g-rr4_c2-0", "g-rr4_c2-0": "g-rr4_c1-0"}
    assert newer == {tp: other[owner] for tp, owner in older.items()}


# --- worked examples of the articles


# "apache kafka系列之在zookeeper中存储结构" (oschina 360060): topic1, and report-log with three nodes of one thread
TOPIC1 = subscribers({"topic1": 4}, C0="topic1", C1="topic1")
REPORT_LOG = subscribers({"report-log": 4}, node1="report-log", node2="report-log", node3="report-log")
T0_T1 = subscribers({"t0": 3, "t1": 3}, C0="t0 t1", C1="t0 t1")
UNEVEN = subscribers({"t0": 1, "t1": 2, "t2": 3}, C0="t0", C1="t0 t1", C2="t0 t1 t2")
MORE_UNEVEN = subscribers({"t0": 2, "t1": 2, "t2": 3}, C0="t0", C1="t0 t1", C2="t0 t1 t2")
BOTH_RANGES, BOTH_ROUND_ROBINS = ("range", "legacy-range"), ("roundrobin", "roundrobin-0.8")


EXAMPLES: list[tuple[tuple[str, ...], Subscribers, dict[str, str]]] = [
    # Without a remainder, the articles' algorithm and Kafka's agree.
    (BOTH_RANGES, TOPIC1, {"C0": "topic1p0 topic1p1", "C1": "topic1p2 topic1p3"}),
    # The articles' own example shows that with Kafka the last thread gets a partition, too ...
    (("range",), REPORT_LOG, {"node1": "report-logp0 report-logp1", "node2": "report-logp2", "node3": "report-logp3"}),
    # ... but contradicts their formula: M is 4 / 3 rounded up, so nothing is left for node3.
    (("legacy-range",), REPORT_LOG, {"node1": "report-logp0 report-logp1", "node2": "report-logp2 report-logp3"}),
    # RangeAssignor of kafka-clients 2.0 assigns each topic separately, so the first consumer gets more of each topic.
    # 3 / 2 rounded up happens to give the same result.
    (BOTH_RANGES, T0_T1, {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t1p2"}),
    # RoundRobinAssignor of kafka-clients 2.0 assigns all topics together, so both consumers get the same number. It
    # orders by topic and number; the old consumer orders by hashes, whose order is the same for names that differ in
    # one digit.
    (BOTH_ROUND_ROBINS, T0_T1, {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"}),
    # A consumer that does not read the topic is skipped, so counts can be uneven, here even with range.
    ((*BOTH_RANGES, *BOTH_ROUND_ROBINS), UNEVEN, {"C0": "t0p0", "C1": "t1p0", "C2": "t1p1 t2p0 t2p1 t2p2"}),
    # With one more partition than in the article's example, range and round robin differ.
    (("range",), MORE_UNEVEN, {"C0": "t0p0", "C1": "t0p1 t1p0", "C2": "t1p1 t2p0 t2p1 t2p2"}),
    (("roundrobin",), MORE_UNEVEN, {"C0": "t0p0", "C1": "t0p1 t1p1", "C2": "t1p0 t2p0 t2p1 t2p2"}),
]


@pytest.mark.parametrize(
    ("strategy", "group", "expected"),
    [(strategy, group, expected) for strategies, group, expected in EXAMPLES for strategy in strategies],
)
def test_examples_of_articles(strategy: str, group: Subscribers, expected: dict[str, str]) -> None:
    """Assignments equal the examples in the articles, except where Kafka differs from the formula in the articles."""
    assert table(assign(strategy, group)) == {owner: names.split() for owner, names in expected.items()}


@pytest.mark.parametrize("strategy", ["legacy-range", "range"])
@pytest.mark.parametrize("started", [["node1", "node2", "node3"], ["node3", "node1", "node2"]])
def test_articles_four_partitions_six_threads(strategy: str, started: list[str]) -> None:
    """If there are more threads than partitions, the last threads by name get nothing."""
    # the same article: report-log, three nodes of two threads; it says wrongly that the order of starting decides
    members = {node: ConsumerRegistration({"report-log": 2}) for node in started}
    report_log = Subscribers(threads_by_topic(members, ["report-log"]), {"report-log": (0, 1, 2, 3)})
    assert list(assign(strategy, report_log).values()) == ["node1-0", "node1-1", "node2-0", "node2-1"]


# --- the strategies


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("range", [3, 3, 2, 2]),
        ("legacy-range", [3, 3, 3, 1]),
        ("roundrobin", [3, 3, 2, 2]),
        ("roundrobin-0.8", [3, 3, 2, 2]),
        ("sticky", [3, 3, 2, 2]),
    ],
)
def test_shares(strategy: str, expected: list[int]) -> None:
    """Ten partitions are shared among four threads."""
    found = table(assign(strategy, subscribers({"t": 10}, a="t", b="t", c="t", d="t")))
    assert [len(found[consumer]) for consumer in "abcd"] == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_only_what_exists_and_is_read_is_assigned(strategy: str) -> None:
    """Topics without partitions, threads or subscribers are left out, and owners are sorted by partition."""
    threads = {"b": ("c-0",), "a": ("c-0",), "gone": ("c-0", "d-0"), "nobody": ()}
    partitions = {"a": (0, 10, 9), "b": (7,), "nobody": (0,), "unread": (0,), "empty": ()}
    found = assign(strategy, Subscribers(threads, partitions))
    assert list(found) == [TopicPartition("a", n) for n in (0, 9, 10)] + [TopicPartition("b", 7)]
    assert set(found.values()) == {"c-0"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_to_assign(strategy: str) -> None:
    """A group without members owns nothing."""
    assert assign(strategy, Subscribers({}, {"a": (0,)}, {TopicPartition("a", 0): "dead-0"})) == {}


def test_strategies_are_listed_in_order() -> None:
    """The strategies are listed in order, Kafka's first."""
    assert list(STRATEGIES) == ["range", "roundrobin", "roundrobin-0.8", "sticky", "legacy-range"]


def test_unknown_strategy() -> None:
    """The error for an unknown strategy names all strategies."""
    with pytest.raises(OptionError, match=r"\[UNKNOWN_ASSIGNOR\] .*'Range'; choose one of range, roundrobin, ") as caught:
        assign("Range", T0_T1)
    assert caught.value.parameters == {"strategy": "Range"}


def test_a_skipped_thread_loses_its_turn() -> None:
    """A skipped thread waits for its next turn."""
    # t0p0 -> a; t0p1 -> c, b is skipped; t1p0 -> a again, although b has nothing yet; t1p1 -> b
    found = assign("roundrobin", subscribers({"t0": 2, "t1": 2}, a="t0 t1", b="t1", c="t0"))
    assert table(found) == {"a": ["t0p0", "t1p0"], "b": ["t1p1"], "c": ["t0p1"]}


def test_turns_go_round_in_the_order_of_utf_16() -> None:
    """Threads take turns in Java's order of strings."""
    threads = ("c-0", "c\U0001f600-0", "c\uff5e-0")
    assert list(assign("roundrobin", Subscribers({"t": threads}, {"t": (0, 1, 2)})).values()) == list(threads)


def test_negative_hashes_come_first_in_round_robin() -> None:
    """Hashes are compared as signed numbers, so negative ones come first."""
    assert java_hash("quotes-0") < 0 < java_hash("orders-0")
    found = assign("roundrobin", subscribers({"orders": 1, "quotes": 1}, a="orders quotes", b="orders quotes"))
    assert table(found) == {"a": ["quotesp0"], "b": ["ordersp0"]}


def test_equal_hashes_come_by_topic() -> None:
    """Partitions with equal hashes are sorted by topic and number, whatever the order of the mapping."""
    assert java_hash("BB-0") == java_hash("Aa-0")
    found = assign("roundrobin", subscribers({"BB": 1, "Aa": 1}, a="Aa BB", b="Aa BB"))
    assert table(found) == {"a": ["Aap0"], "b": ["BBp0"]}


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param({}, {"a": ["tp0", "tp1"], "b": ["tp2", "tp3"], "c": ["tp4"]}, id="nothing owned: neighbours"),
        pytest.param(
            {"a": ["tp0", "tp1", "tp2", "tp3", "tp4"]},
            {"a": ["tp0", "tp1"], "b": ["tp2", "tp3"], "c": ["tp4"]},
            id="the first partitions are kept",
        ),
        pytest.param(
            {"c": ["tp1", "tp3"], "b": ["tp0", "tp4"], "a": ["tp2"]},
            {"a": ["tp2"], "b": ["tp0", "tp4"], "c": ["tp1", "tp3"]},
            id="even: nothing moves",
        ),
        pytest.param(
            {"a": ["tp3", "tp4"], "b": ["tp1", "tp2"], "c": ["tp0"]},
            {"a": ["tp3", "tp4"], "b": ["tp1", "tp2"], "c": ["tp0"]},
            id="a full table stays",
        ),
        # the lower quota is 1, and two threads get 2: owning 1 gives c no claim to 2
        pytest.param(
            {"c": ["tp4"]}, {"a": ["tp0", "tp1"], "b": ["tp2", "tp3"], "c": ["tp4"]}, id="one owned is no reason for two"
        ),
        pytest.param(
            {"c": ["tp3", "tp4"]}, {"a": ["tp0", "tp1"], "b": ["tp2"], "c": ["tp3", "tp4"]}, id="two owned are kept"
        ),
        pytest.param(
            {"gone": ["tp0", "tp1"], "c": ["tp2"], "x": ["tp4"]},
            {"a": ["tp0", "tp1"], "b": ["tp3", "tp4"], "c": ["tp2"]},
            id="owners that do not read the topic do not count",
        ),
        pytest.param(
            {"c": ["otherp0", "otherp1", "tp9"]},
            {"a": ["tp0", "tp1"], "b": ["tp2", "tp3"], "c": ["tp4"]},
            id="nor do partitions that are not read or do not exist",
        ),
    ],
)
def test_sticky(owners: Table, expected: Table) -> None:
    """Threads keep their partitions while counts stay even, and other partitions are assigned in order."""
    assert table(assign("sticky", subscribers({"t": 5}, owners, a="t", b="t", c="t"))) == expected


def test_sticky_balances_topics_of_the_same_threads_together() -> None:
    """Topics with the same readers are balanced together, and a topic with other readers is balanced separately."""
    mixed = subscribers({"t1": 1, "t2": 1, "t3": 1, "u": 2}, a="t1 t2 t3 u", b="t1 t2 t3 u", c="t1 t2 t3")
    assert table(assign("sticky", mixed)) == {"a": ["t1p0", "up0"], "b": ["t2p0", "up1"], "c": ["t3p0"]}
    assert list(assign("range", mixed).values())[:3] == ["a-0", "a-0", "a-0"]


PARTITIONS = [TopicPartition("t", n) for n in range(5)]


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ("-----", "aaabb"),
        ("bbbbb", "bbbaa"),
        ("ababa", "ababa"),
        ("babab", "babab"),
        ("xaaxx", "aaabb"),
        ("aaaab", "aaabb"),
    ],
)
def test_balance(owners: str, expected: str) -> None:
    """Threads keep their first partitions up to their quotas, and the others go to threads below their quotas."""
    found = balance(["a", "b"], PARTITIONS, dict(zip(PARTITIONS, owners, strict=True)))
    assert "".join(found[tp] for tp in PARTITIONS) == expected


def test_more_threads_than_partitions() -> None:
    """If threads outnumber partitions, the first threads get a partition each, unless a later one owns it."""
    assert list(balance(["a", "b", "c"], PARTITIONS[:2], {}).values()) == ["a", "b"]
    found = balance(["a", "b", "c"], PARTITIONS[:2], {PARTITIONS[0]: "c"})
    assert found == {PARTITIONS[0]: "c", PARTITIONS[1]: "a"}
