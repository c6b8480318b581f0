"""Planning of a read: from subscription, snapshot and ranges to splits."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pyspark_zkafka.errors import NoLeader, OptionError
from pyspark_zkafka.model.nouns import (
    Broker,
    ClusterSnapshot,
    Endpoint,
    OffsetRange,
    PartitionState,
    Topic,
    TopicPartition,
)
from pyspark_zkafka.model.offsets import EARLIEST, OffsetSpec
from pyspark_zkafka.model.planning import (
    Assign,
    Listener,
    Split,
    Subscribe,
    SubscribePattern,
    Subscription,
    check_named,
    coalesce,
    describe_missing,
    describe_offline,
    in_fixed_order,
    make_splits,
    missing_topics,
    requested_topics,
    split_ranges,
    subscribed_partitions,
)

A, B, C = (TopicPartition(name, 0) for name in "abc")


def plain(host: str, port: int = 9092) -> Endpoint:
    return Endpoint("PLAINTEXT", "PLAINTEXT", host, port)


def topic(name: str, partitions: int = 1, **identity: Any) -> Topic:
    return Topic(name, {p: (1, 2, 3) for p in reversed(range(partitions))}, **identity)


def cluster(*topics: Topic, **states: PartitionState) -> ClusterSnapshot:
    """Return brokers 1, 2 and 3 in racks x, y and x, and each topic's state for all its partitions; broker 4 is down."""
    brokers = {n: Broker(n, (plain(f"k{n}"),), rack) for n, rack in ((1, "x"), (2, "y"), (3, "x"))}
    by_name = {t.name: t for t in topics}
    led = {TopicPartition(name, p): state for name, state in states.items() for p in by_name[name].partitions}
    return ClusterSnapshot(brokers, by_name, led)


# --- subscriptions


@pytest.mark.parametrize(
    ("subscription", "names", "expected"),
    [
        (Subscribe(("b", "a", "b")), ["z"], ["a", "b"]),
        (Assign((TopicPartition("b", 1), A, TopicPartition("b", 0))), ["z"], ["a", "b"]),
        (SubscribePattern("orders.*"), ["orders-eu", "x-orders", "orders", "orders"], ["orders", "orders-eu"]),
        (SubscribePattern("order"), ["orders"], []),
        (SubscribePattern("a|ab"), ["ab", "abc"], ["ab"]),
        (SubscribePattern(".*"), [], []),
        (SubscribePattern(".*"), ["__consumer_offsets", "__transaction_state", "__mine"], ["__mine"]),
        (Subscribe(("__consumer_offsets",)), [], ["__consumer_offsets"]),
    ],
)
def test_requested_topics(subscription: Subscription, names: list[str], expected: list[str]) -> None:
    """Requested topics are sorted, without duplicates, and a pattern matches whole names."""
    assert requested_topics(subscription, names) == expected


@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        (Subscribe(("b", "a")), ["a-0", "a-1", "b-0"]),
        (SubscribePattern("[ab]"), ["a-0", "a-1", "b-0"]),
        (SubscribePattern("nothing"), []),
        (Assign((B, TopicPartition("a", 1), B)), ["a-1", "b-0"]),
    ],
)
def test_subscribed_partitions(subscription: Subscription, expected: list[str]) -> None:
    """Partitions are sorted by topic and number, without duplicates; a pattern without a match is no error."""
    found = subscribed_partitions(subscription, cluster(topic("a", 2), topic("b"), topic("other")))
    assert [str(tp) for tp in found] == expected


def test_partitions_are_ordered_by_number() -> None:
    """Partition 10 comes after partition 9."""
    found = subscribed_partitions(Subscribe(("a",)), cluster(topic("a", 12)))
    assert [tp.partition for tp in found] == list(range(12))


@pytest.mark.parametrize(
    ("subscription", "missing"),
    [
        (Subscribe(("a", "y", "x")), ["x", "y"]),
        (Assign((A, TopicPartition("a", 7), TopicPartition("x", 0), TopicPartition("x", 1))), ["x", "a-7"]),
    ],
)
def test_all_that_is_missing_is_named(subscription: Subscription, missing: list[str]) -> None:
    """The error names every unknown topic and partition in its text and parameters."""
    snapshot = cluster(topic("a", 2))
    assert missing_topics(subscription, snapshot) == missing
    assert all(tp.topic == "a" for tp in subscribed_partitions(subscription, snapshot))
    error = describe_missing(subscription, missing, ["a"], may_wait=False)
    assert error.parameters == {"missing": missing}
    assert f" {', '.join(missing)};" in str(error)


@pytest.mark.parametrize(
    ("subscription", "says"),
    [
        (SubscribePattern("b.*"), "'b.*' matches no topic"),
        (SubscribePattern("a|b", excludes=True), "'a|b' excludes every topic"),
    ],
)
@pytest.mark.parametrize(
    ("names", "shown"),
    [(["__consumer_offsets", "a"], "has a."), (["__consumer_offsets"], "has no topics that this user may see.")],
)
def test_pattern_without_a_match(subscription: SubscribePattern, says: str, names: list[str], shown: str) -> None:
    """A pattern that selects no topic is reported as missing, with the names of the topics except internal ones."""
    assert missing_topics(subscription, cluster(topic("a"))) == [subscription.pattern]
    error = describe_missing(subscription, [subscription.pattern], names, may_wait=True)
    assert error.parameters == {"missing": [subscription.pattern]}
    assert says in error.message
    assert f"the cluster {shown}" in error.message


@pytest.mark.parametrize("subscription", [Subscribe(("b",)), SubscribePattern("b")])
@pytest.mark.parametrize("may_wait", [True, False])
def test_remedy_of_a_missing_topic(subscription: Subscription, may_wait: bool) -> None:
    """The error recommends `missingTopics=wait`, unless the read has set this option already."""
    error = describe_missing(subscription, ["b"], ["a"], may_wait=may_wait)
    remedy = "; with missingTopics=wait a stream waits for it, and a batch reads the others"
    assert error.message.endswith(("create it", "create a topic") if may_wait else remedy)


def at(*partitions: TopicPartition) -> OffsetSpec:
    return OffsetSpec("s", by_partition=dict.fromkeys(partitions, 5))


A1, A7, X0, X1 = TopicPartition("a", 1), TopicPartition("a", 7), TopicPartition("x", 0), TopicPartition("x", 1)


@pytest.mark.parametrize(
    ("spec", "subscription", "says"),
    [
        (at(A), Subscribe(("a",)), "s does not name a-1; name every partition"),
        (at(A, A1, B), Subscribe(("a",)), "s names b-0, which this read does not contain; it contains a-0, a-1. Correct"),
        (at(A, A1, A7), Subscribe(("a",)), "s names a-7, which"),
        (at(A, A1, X0), SubscribePattern("a|xx"), "s names x-0, which"),
        (at(A, A1, X0), SubscribePattern("x", excludes=True), "s names x-0, which"),
        (at(A, A1, X1), Assign((A, A1, X0)), "s names x-1, which"),
        (OffsetSpec("s", everywhere=5, by_partition={B: 5}), Subscribe(("a",)), "s names b-0, which"),
        (OffsetSpec("s", by_topic={"z": EARLIEST, "a": EARLIEST}), Subscribe(("a",)), "s names z, which"),
    ],
)
def test_positions_must_match_the_subscription(spec: OffsetSpec, subscription: Subscription, says: str) -> None:
    """Named partitions that are not subscribed and subscribed partitions that are not named are errors."""
    snapshot = cluster(topic("a", 2), topic("b"))
    with pytest.raises(OptionError, match=rf"\[OFFSETS_DO_NOT_MATCH\] {says}"):
        check_named(spec, subscription, snapshot, [A, A1])


@pytest.mark.parametrize(
    ("spec", "subscription"),
    [
        (at(A, A1, X0), Subscribe(("a", "x"))),
        (at(A, A1, X0, X1), SubscribePattern("a|x")),
        (at(A, A1, X0), SubscribePattern("b", excludes=True)),
        (at(A, A1, A7, X0), Assign((A, A1, A7, X0))),
        (OffsetSpec("s", by_topic={"x": EARLIEST, "a": EARLIEST}), Subscribe(("a", "x"))),
    ],
)
def test_positions_of_what_does_not_exist_yet(spec: OffsetSpec, subscription: Subscription) -> None:
    """A subscribed topic or assigned partition may be named before it exists."""
    check_named(spec, subscription, cluster(topic("a", 2), topic("b")), [A, A1])
    check_named(at(X0), Subscribe(("x",)), cluster(), [])
    with pytest.raises(OptionError, match=r"it contains nothing yet\. Correct"):
        check_named(at(A), Subscribe(("x",)), cluster(), [])


def test_starts_may_be_omitted() -> None:
    """With a reset policy, partitions may be left out, but named ones must be subscribed."""
    snapshot = cluster(topic("a", 2))
    check_named(at(A), Subscribe(("a",)), snapshot, [A, A1], [A, A1])
    with pytest.raises(OptionError, match="names b-0"):
        check_named(at(B), Subscribe(("a",)), snapshot, [A, A1], [A, A1])


def test_long_lists_of_names_are_shortened() -> None:
    """An error names ten partitions and counts the rest."""
    partitions = [TopicPartition("t", n) for n in range(25)]
    with pytest.raises(OptionError, match=r"t-0, t-1, .*t-9 and 15 more; name every"):
        check_named(OffsetSpec("s"), Subscribe(("t",)), cluster(topic("t", 25)), partitions)


def test_offline_partitions_are_named_with_their_isr() -> None:
    """The error for offline partitions names the ISR of each, whose brokers could lead it."""
    snapshot = cluster(topic("a"), topic("b"), topic("c"), a=PartitionState(-1, 5, (4, 5)), b=PartitionState(4, 5, ()))
    error = describe_offline([A, B, C], snapshot)
    assert isinstance(error, NoLeader)
    assert "No live leader for a-0 (ISR 4, 5); b-0 (ISR empty); c-0 (ISR unknown: being created);" in str(error)
    assert str(error).endswith("; start a broker of the ISR, or set offlinePartitions to skip to read the others")
    assert error.parameters == {"partitions": [A, B, C]}
    assert pickle.loads(pickle.dumps(error)).parameters == error.parameters


# --- division

RANGES = dict[str, tuple[int, int]]
PIECES = list[tuple[str, int, int]]


@pytest.mark.parametrize(
    ("ranges", "minimum", "maximum", "expected"),
    [
        pytest.param({"a": (0, 9), "b": (5, 5), "c": (7, 3)}, None, None, [("a", 0, 9)], id="empty ranges are left out"),
        pytest.param({"a": (0, 9), "b": (2, 4)}, 2, None, [("a", 0, 9), ("b", 2, 4)], id="enough already"),
        pytest.param({"a": (0, 9), "b": (2, 4)}, 1, None, [("a", 0, 9), ("b", 2, 4)], id="more than enough"),
        pytest.param(
            {"a": (0, 800), "b": (0, 160), **{topic: (0, 5) for topic in "cdefghij"}},
            10,
            None,
            [("a", 0, 800), ("b", 0, 160), *((topic, 0, 5) for topic in "cdefghij")],
            id="just enough, with one range much larger than the others",
        ),
        # 11 // 3 = 3, then 8 // 2 = 4, then 4: the later parts take the remainders
        pytest.param({"a": (0, 11)}, 3, None, [("a", 0, 3), ("a", 3, 7), ("a", 7, 11)], id="remainders go last"),
        pytest.param({"a": (5, 8)}, 10, None, [("a", 5, 6), ("a", 6, 7), ("a", 7, 8)], id="no more parts than records"),
        pytest.param({"a": (5, 8)}, 2**63 - 1, None, [("a", 5, 6), ("a", 6, 7), ("a", 7, 8)], id="as many as possible"),
        # shares of 5: 100 / 400 -> 1.25 -> 1, whole; then only b: 300 / 300 of 5 - 1
        pytest.param(
            {"a": (0, 100), "b": (0, 300)},
            5,
            None,
            [("a", 0, 100), ("b", 0, 75), ("b", 75, 150), ("b", 150, 225), ("b", 225, 300)],
            id="in proportion",
        ),
        # shares of 6: 1 / 1002 -> 0.006 -> 1 twice, whole; c gets the other 4
        pytest.param(
            {"a": (0, 1), "b": (0, 1), "c": (0, 1000)},
            6,
            None,
            [("a", 0, 1), ("b", 0, 1), ("c", 0, 250), ("c", 250, 500), ("c", 500, 750), ("c", 750, 1000)],
            id="small ranges stay whole",
        ),
        # shares of 4: 10 / 30 -> 1.33 -> 1 each: nothing is cut, three is "about four"
        pytest.param(
            {"a": (0, 10), "b": (0, 10), "c": (0, 10)}, 4, None, [("a", 0, 10), ("b", 0, 10), ("c", 0, 10)], id="fewer"
        ),
        # shares of 3: 10 / 20 -> 1.5 -> 2 each, rounded half up: four is "about three"
        pytest.param(
            {"a": (0, 10), "b": (10, 20)}, 3, None, [("a", 0, 5), ("a", 5, 10), ("b", 10, 15), ("b", 15, 20)], id="more"
        ),
        # shares of 7: 2.5 / 3.5 / 1 -> 20: 3.11 -> 3; 20: 3.11 -> 3; 5: 0.78 -> 1, whole; then 20 / 40 of 6 = 3 each
        pytest.param(
            {"a": (0, 20), "b": (0, 5), "c": (0, 20)},
            7,
            None,
            [("a", 0, 6), ("a", 6, 13), ("a", 13, 20), ("b", 0, 5), ("c", 0, 6), ("c", 6, 13), ("c", 13, 20)],
            id="order is kept",
        ),
        pytest.param({"a": (0, 10)}, None, 4, [("a", 0, 3), ("a", 3, 6), ("a", 6, 10)], id="at most"),
        pytest.param({"a": (0, 10)}, None, 5, [("a", 0, 5), ("a", 5, 10)], id="at most, exactly"),
        pytest.param({"a": (0, 10)}, None, 10, [("a", 0, 10)], id="fits"),
        pytest.param({"a": (7, 9)}, None, 1, [("a", 7, 8), ("a", 8, 9)], id="one each"),
        pytest.param({"a": (0, 100)}, 2, 50, [("a", 0, 50), ("a", 50, 100)], id="both, the cap is enough"),
        # the cap gives 50, 50, 20; shares of 6: 2.5 -> 3 twice, 20 / 120 * 6 = 1, whole; then 50 / 100 of 5 = 2.5 -> 3
        pytest.param(
            {"a": (0, 100), "b": (0, 20)},
            6,
            50,
            [("a", 0, 16), ("a", 16, 33), ("a", 33, 50), ("a", 50, 66), ("a", 66, 83), ("a", 83, 100), ("b", 0, 20)],
            id="both, the cap is not enough",
        ),
        pytest.param({"a": (3, 3)}, 4, 2, [], id="nothing to read"),
        pytest.param({}, 4, 2, [], id="nothing at all"),
    ],
)
def test_divide(ranges: RANGES, minimum: int | None, maximum: int | None, expected: PIECES) -> None:
    """Ranges are cut as by KafkaOffsetRangeCalculator (calculated by hand)."""
    found = split_ranges([OffsetRange(TopicPartition(t, 0), *ends) for t, ends in ranges.items()], minimum, maximum)
    assert [(r.partition.topic, r.start, r.until) for r in found] == expected


def test_cap_holds_beyond_the_precision_of_a_double() -> None:
    """The number of parts is exact even if a quotient of doubles is not."""
    found = split_ranges([OffsetRange(A, 0, 2**53 + 1)], None, 2**53)
    assert [r.size for r in found] == [2**52, 2**52 + 1]


# --- splits


def test_split_carries_what_a_task_needs() -> None:
    """A split has its range, leader, epoch, ISR, endpoints and topic identity, and can be pickled."""
    snapshot = cluster(topic("a", topic_id="id-a", czxid=77), a=PartitionState(2, 9, (3, 2, 1)))
    split = make_splits([OffsetRange(A, 5, 8)], snapshot, None, Listener())[0]
    assert split == Split(A, 5, 8, 2, 9, (3, 2, 1), ("k2:9092", "k3:9092", "k1:9092"), "id-a", 77)
    assert split.size == 3
    assert pickle.loads(pickle.dumps(split)) == split


@pytest.mark.parametrize(
    ("rack", "expected"),
    [
        (None, ("k2:9092", "k3:9092", "k1:9092")),
        ("x", ("k3:9092", "k1:9092", "k2:9092")),
        ("y", ("k2:9092", "k3:9092", "k1:9092")),
        ("elsewhere", ("k2:9092", "k3:9092", "k1:9092")),
    ],
)
def test_nearest_brokers_come_first(rack: str | None, expected: tuple[str, ...]) -> None:
    """Brokers of the client's rack come first; without any, the leader does, followed by the order of the ISR."""
    snapshot = cluster(topic("a"), a=PartitionState(2, 9, (3, 2, 1)))
    assert make_splits([OffsetRange(A, 0, 1)], snapshot, rack, Listener())[0].endpoints == expected


def test_dead_replicas_have_no_endpoint() -> None:
    """An unregistered broker of the ISR is left out of the endpoints, but not of the ISR."""
    snapshot = cluster(topic("a"), a=PartitionState(1, 0, (4, 1)))
    split = make_splits([OffsetRange(A, 0, 1)], snapshot, None, Listener())[0]
    assert split.isr == (4, 1)
    assert split.endpoints == ("k1:9092",)


def test_splits_keep_the_order_of_their_ranges() -> None:
    """There is one split for each range, in the given order."""
    snapshot = cluster(topic("a"), topic("b"), a=PartitionState(1, 0, (1,)), b=PartitionState(2, 0, (2,)))
    ranges = [OffsetRange(B, 0, 1), OffsetRange(A, 0, 1), OffsetRange(B, 1, 2)]
    assert [(s.partition, s.start) for s in make_splits(ranges, snapshot, None, Listener())] == [(B, 0), (A, 0), (B, 1)]


BROKER = Broker(
    1,
    (
        Endpoint("INSIDE", "PLAINTEXT", "10.0.0.1", 9092),
        Endpoint("OUTSIDE", "SASL_SSL", "k1.example", 9093),
        Endpoint("SECOND", "PLAINTEXT", "fe80::1", 9094),
    ),
)


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        (Listener(), "10.0.0.1:9092"),
        (Listener(None, "sasl_ssl"), "k1.example:9093"),
        (Listener("second"), "[fe80::1]:9094"),
        (Listener("OUTSIDE", "PLAINTEXT"), "k1.example:9093"),
        (Listener(None, "SSL"), None),
        (Listener("MISSING"), None),
    ],
)
def test_listener_chooses_the_endpoint(listener: Listener, expected: str | None) -> None:
    """The listener's name, in any case, takes precedence over the protocol, and the first of several endpoints is used."""
    endpoint = listener.endpoint(BROKER)
    assert (None if endpoint is None else str(endpoint)) == expected


def test_brokers_without_the_listener_are_left_out() -> None:
    """A split has no endpoints of brokers that lack the listener."""
    snapshot = cluster(topic("a"), a=PartitionState(1, 0, (1, 2)))
    assert make_splits([OffsetRange(A, 0, 1)], snapshot, None, Listener("OTHER"))[0].endpoints == ()


def test_fixed_order() -> None:
    """A repeated job or micro-batch has the same tasks in the same order, although leaders have moved."""
    places = [("a", 1, 0), ("b", 0, 0), ("a", 0, 5), ("a", 0, 0)]
    before = [Split(TopicPartition(t, p), start, start + 5, n, 0, (n,), ()) for n, (t, p, start) in enumerate(places)]
    after = [split._replace(leader=5 - split.leader) for split in reversed(before)]
    order = [(split.partition.topic, split.partition.partition, split.start) for split in in_fixed_order(before)]
    assert order == [("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("a", 0, 5)]
    assert order == [(s.partition.topic, s.partition.partition, s.start) for s in in_fixed_order(after)]


@pytest.mark.parametrize(
    ("minimum", "maximum", "sizes", "expected"),
    [
        pytest.param(None, None, [3, 4], [[3], [4]], id="each its own"),
        pytest.param(10, None, [4, 3, 2, 1, 5], [[4, 3, 2, 1], [5]], id="until there are enough"),
        pytest.param(10, None, [4, 9, 20, 1], [[4, 9], [20], [1]], id="beyond what is enough"),
        pytest.param(10, 8, [4, 4, 4, 5, 3], [[4, 4], [4], [5, 3]], id="up to the maximum"),
        pytest.param(10, 8, [1, 9, 1], [[1], [9], [1]], id="larger than the maximum"),
        pytest.param(10, None, [], [], id="none"),
    ],
)
def test_coalesce(minimum: int | None, maximum: int | None, sizes: list[int], expected: list[list[int]]) -> None:
    """Splits join in order until they have the minimum, unless they would exceed the maximum."""
    splits = [Split(TopicPartition("t", n), 0, size, 1, 0, (1,), ()) for n, size in enumerate(sizes)]
    groups = coalesce(splits, minimum, maximum)
    assert [[split.size for split in group] for group in groups] == expected
    assert [split for group in groups for split in group] == splits
