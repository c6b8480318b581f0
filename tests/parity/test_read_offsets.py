"""Starts and ends of reads by Spark's JVM connector and by ours: the same ranges, the same refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.parity import KEPT, T0, by_partition, filled, offsets, their_words
from tests.support.tiers import seldom
from tests.support.topics import create_afresh

AFTER_END = "Beginning offset 8 is after the ending offset 5"

Peers = Any
"""`Peers` of conftest.py, which tests cannot import."""
MISMATCH = "Partitions specified for Kafka start offsets don't match what are assigned"
CONTRADICTION = "Only one of the following options can be specified"


@pytest.fixture(scope="module")
def timed(zkafka_cluster: LocalCluster) -> str:
    """Partition 0 has 20 records at intervals of 10 ms from T0; partition 1 has 10, two of them out of order."""
    create_afresh(zkafka_cluster, "parity-timed", partitions=2, config=KEPT)
    times = [(0, 10 * n) for n in range(20)] + [(1, ms) for ms in (0, 10, 50, 30, 40, 20, 60, 70, 80, 90)]
    zkafka_cluster.produce("parity-timed", [{"value": b"v", "partition": p, "timestamp": T0 + ms} for p, ms in times])
    return "parity-timed"


class TestOffsets:
    """Starts and ends of ranges."""

    @pytest.mark.parametrize(
        ("options", "counts"),
        [
            ({}, (20, 10)),
            *seldom(
                ({"startingOffsets": "earliest", "endingOffsets": "latest"}, (20, 10)),
                ({"startingOffsets": (5, -2)}, (15, 10)),
            ),
            ({"endingOffsets": (12, -1)}, (12, 10)),
            ({"startingOffsets": (5, 0), "endingOffsets": (6, 10)}, (1, 10)),
            *seldom(
                ({"startingOffsets": (7, 10), "endingOffsets": (7, -1)}, (0, 0)),
                ({"startingOffsets": (20, 9)}, (0, 1)),
            ),
            # by time
            ({"startingTimestamp": str(T0 + 35)}, (16, 8)),
            *seldom(
                ({"startingTimestamp": str(T0 + 40)}, (16, 8)),
                ({"startingTimestamp": "0"}, (20, 10)),
                ({"endingTimestamp": str(T0 + 35)}, (4, 2)),
            ),
            ({"endingTimestamp": str(T0 + 95)}, (10, 10)),
            *seldom(
                ({"endingTimestamp": str(T0 + 9999)}, (20, 10)),
                ({"endingTimestamp": "0"}, (0, 0)),
                ({"startingTimestamp": str(T0 + 20), "endingTimestamp": str(T0 + 60)}, (4, 4)),
                ({"startingTimestamp": str(T0 + 20), "endingTimestamp": str(T0 + 20)}, (0, 0)),
            ),
            ({"startingOffsetsByTimestamp": (T0 + 35, T0 + 80)}, (16, 2)),
            *seldom(
                ({"endingOffsetsByTimestamp": (T0 + 9999, T0 + 80)}, (20, 8)),
                ({"startingOffsetsByTimestamp": (T0 + 35, T0), "endingOffsetsByTimestamp": (T0 + 36, T0 + 9999)}, (0, 10)),
            ),
            # no record so late
            ({"startingTimestamp": str(T0 + 95), "startingOffsetsByTimestampStrategy": "latest"}, (10, 0)),
            *seldom(
                ({"startingTimestamp": str(T0 + 9999), "startingOffsetsByTimestampStrategy": "LATEST"}, (0, 0)),
                ({"startingTimestamp": str(T0 + 90), "startingOffsetsByTimestampStrategy": "error"}, (11, 1)),
                ({"startingOffsetsByTimestamp": (T0, T0 + 99), "startingOffsetsByTimestampStrategy": "latest"}, (20, 0)),
            ),
            # combined, with one taking precedence
            ({"startingTimestamp": str(T0 + 40), "endingOffsets": (12, -1)}, (8, 8)),
            *seldom(
                ({"startingOffsets": (2, 1), "endingTimestamp": str(T0 + 60)}, (4, 5)),
                ({"startingTimestamp": str(T0 + 40), "startingOffsetsByTimestamp": (T0, T0)}, (16, 8)),
                ({"startingTimestamp": str(T0 + 40), "startingOffsets": (9, 9)}, (16, 8)),
                ({"startingTimestamp": str(T0 + 40), "startingOffsets": "latest"}, (16, 8)),
                ({"startingOffsetsByTimestamp": (T0 + 40, T0 + 70), "startingOffsets": (9, 9)}, (16, 3)),
                ({"endingTimestamp": str(T0 + 40), "endingOffsetsByTimestamp": (T0, T0), "endingOffsets": (9, 9)}, (4, 2)),
                ({"endingOffsetsByTimestamp": (T0 + 40, T0 + 70), "endingOffsets": "earliest"}, (4, 7)),
            ),
            # for streaming: a batch ignores it
            ({"maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1m"}, (20, 10)),
        ],
    )
    def test_same(self, peers: Peers, timed: str, options: dict[str, Any], counts: tuple[int, int]) -> None:
        """Both read the same ranges for offsets, timestamps, timestamps beyond the last record, and combined options."""
        found = offsets(peers.same({"subscribe": timed, **filled(options, timed)}))
        assert tuple(len(found.get(p, [])) for p in (0, 1)) == counts

    def test_of_an_assignment(self, peers: Peers, timed: str) -> None:
        """With assign, starting offsets must name the assigned partitions."""
        options = {"assign": f'{{"{timed}":[1]}}', "startingOffsets": f'{{"{timed}":{{"1":4}}}}'}
        assert offsets(peers.same(options)) == {1: list(range(4, 10))}


class TestRefused:
    """Options that both refuse, or that only ours refuses or allows."""

    @pytest.mark.parametrize(
        ("options", "our_reason", "their_reason"),
        [
            ({"startingOffsets": "latest"}, "starts at latest", "starting offset can't be latest"),
            *seldom(
                ({"startingOffsets": (-1, 0)}, "starts at latest", "startingOffsets for TOPIC-0 can't be latest"),
                ({"endingOffsets": "earliest"}, "ends at earliest", "ending offset can't be earliest"),
                ({"endingOffsets": (5, -2)}, "ends at earliest", "ending offset for TOPIC-1 can't be earliest"),
                ({"startingOffsets": (-3, 0)}, "offset -3", "offset -3 does not equal -2"),
            ),
            (
                {"startingOffsets": (5, 0), "endingOffsets": (4, 10)},
                r"START_AFTER_END.*TOPIC-0 starts at 5 and ends at 4",
                "start offset 5 is greater than the end offset 4|offset 5 is after the ending offset 4",  # Spark 4.0
            ),
            *seldom(
                (
                    {"startingTimestamp": str(T0 + 80), "endingTimestamp": str(T0 + 50)},
                    "startingTimestamp is after",
                    their_words("resolved start offset 8 is greater than the resolved end offset", AFTER_END),
                ),
                (
                    {"startingOffsetsByTimestamp": (T0 + 80, T0), "endingOffsetsByTimestamp": (T0 + 50, T0 + 50)},
                    rf"START_AFTER_END.*TOPIC-0 starts at timestamp {T0 + 80} and ends at timestamp {T0 + 50}",
                    their_words(f"start timestamp {T0 + 80} is greater than the end timestamp {T0 + 50}", AFTER_END),
                ),
                ({"startingOffsets": "first"}, r"startingOffsets is 'first'; expected", "got first"),
                ({"startingOffsets": '{"TOPIC":{"0":"x","1":0}}'}, "startingOffsets is", 'got .*"x"'),
                ({"startingOffsets": (5, 0, 0)}, "OFFSETS_DO_NOT_MATCH.*TOPIC-2", MISMATCH),
            ),
            *seldom(
                ({"startingOffsets": '{"other":{"0":0}}'}, "OFFSETS_DO_NOT_MATCH.*other-0", MISMATCH),
                ({"startingOffsets": (5,)}, "OFFSETS_DO_NOT_MATCH.*startingOffsets does not name TOPIC-1", MISMATCH),
                ({"endingOffsets": (5,)}, "OFFSETS_DO_NOT_MATCH.*endingOffsets does not name TOPIC-1", MISMATCH),
                (
                    {"startingOffsetsByTimestamp": (T0,)},
                    "OFFSETS_DO_NOT_MATCH.*does not name TOPIC-1",
                    "timestamp based start offsets don't match",
                ),
                (
                    {"endingOffsetsByTimestamp": (T0,)},
                    "OFFSETS_DO_NOT_MATCH.*does not name TOPIC-1",
                    "timestamp based end offsets don't match",
                ),
                (
                    {"startingTimestamp": "yesterday"},
                    "startingTimestamp is 'yesterday'",
                    "Expected a single long value, got yesterday",
                ),
                ({"endingTimestamp": "1.5"}, "endingTimestamp is '1.5'", "Expected a single long value, got 1.5"),
                ({"startingTimestamp": ""}, "startingTimestamp is ''", "Expected a single long value, got $"),
                ({"startingOffsetsByTimestamp": "123"}, "startingOffsetsByTimestamp is '123'", "got 123"),
            ),
            ({"startingTimestamp": str(T0 + 95)}, "NO_OFFSET_FOR_TIMESTAMP.*TOPIC-1", "No offset matched .*TOPIC-1"),
            *seldom(
                (
                    {"startingOffsetsByTimestamp": (T0, T0 + 95)},
                    "NO_OFFSET_FOR_TIMESTAMP.*TOPIC-1",
                    "No offset matched .*TOPIC-1",
                ),
                (
                    {"startingTimestamp": str(T0), "startingOffsetsByTimestampStrategy": "never"},
                    "expected error or latest",
                    "No value found for 'NEVER'",
                ),
                ({"assign": '{"TOPIC":[0]}'}, "subscribe and assign contradict", CONTRADICTION),
                ({"subscribePattern": "x"}, "subscribe and subscribePattern contradict", CONTRADICTION),
                ({"subscribe": ""}, "subscribe names no topic", "No topics to subscribe to"),
            ),
            ({"subscribe": "no-such-topic"}, "UNKNOWN_TOPIC.*no-such-topic", "UnknownTopicOrPartitionException"),
            *seldom(
                ({"minPartitions": "0"}, "minPartitions is '0'", "minPartitions must be positive"),
                ({"minPartitions": "many"}, "minPartitions is 'many'", 'For input string: "many"'),
                (
                    {"maxRecordsPerPartition": "-5"},
                    "maxRecordsPerPartition is '-5'",
                    "maxrecordsperpartition must be positive",
                ),
                ({"failOnDataLoss": "perhaps"}, "failOnDataLoss is 'perhaps'", 'For input string: "perhaps"'),
                ({"kafka.auto.offset.reset": "latest"}, "auto.offset.reset", "'auto.offset.reset' is not supported"),
                ({"kafka.key.deserializer": "x"}, "key.deserializer", "'key.deserializer' is not supported"),
                ({"kafka.value.deserializer": "x"}, "value.deserializer", "'value.deserializer' is not supported"),
                ({"kafka.enable.auto.commit": "true"}, "enable.auto.commit", "'enable.auto.commit' is not supported"),
                ({"kafka.interceptor.classes": "x"}, "interceptor.classes", "'interceptor.classes' is not supported"),
            ),
        ],
    )
    def test_by_both(self, peers: Peers, timed: str, options: dict[str, Any], our_reason: str, their_reason: str) -> None:
        """Both refuse the same options; ours names the option or the partition."""
        given = {"subscribe": timed, "fetchOffset.retryIntervalMs": "10", **filled(options, timed)}
        peers.both_refuse(given, *(reason.replace("TOPIC-", f"{timed}-") for reason in (our_reason, their_reason)))

    @pytest.mark.parametrize(
        "options",
        [
            {"startingOffsets": (15, 10), "endingTimestamp": str(T0 + 50)},
            *seldom({"startingTimestamp": str(T0 + 90), "endingOffsets": (3, 5)}),
        ],
    )
    def test_before_the_start(self, peers: Peers, timed: str, options: dict[str, Any]) -> None:
        """For an end that turns out to lie before the start, Spark's connector fails; ours reads nothing."""
        given = {"subscribe": timed, **filled(options, timed)}
        assert peers.ours(given).collect() == []
        reason = their_words(
            "resolved start offset .* is greater than the resolved end offset", "is after the ending offset"
        )
        with pytest.raises(Exception, match=reason):
            peers.theirs(given).collect()

    @pytest.mark.parametrize(
        ("options", "our_reason", "their_reason"),
        [
            (
                {},
                "set one of subscribe, subscribePattern, subscribeExceptPattern and assign",
                "One of the following options must be specified",
            ),
            ({"subscribePattern": "("}, r"subscribePattern is '\('", "Unclosed group"),
            *seldom(
                ({"subscribePattern": ""}, "subscribePattern is ''", "Pattern to subscribe is empty"),
                ({"assign": "t"}, "assign is 't'", "No topicpartitions to assign"),
                ({"assign": '["t"]'}, "assign is", "No topicpartitions to assign"),
            ),
        ],
    )
    def test_subscription(self, peers: Peers, options: dict[str, str], our_reason: str, their_reason: str) -> None:
        """Both refuse malformed subscriptions."""
        peers.both_refuse(options, our_reason, their_reason)

    def test_unknown_option(self, peers: Peers, timed: str) -> None:
        """Spark's connector silently accepts an unknown option; ours refuses it and suggests the right one."""
        options = {"subscribe": timed, "startingOffset": "earliest"}
        assert peers.theirs(options).count() == 30
        with pytest.raises(Exception, match="did you mean startingOffsets"):
            peers.ours(options).collect()

    def test_by_topic(self, peers: Peers, timed: str) -> None:
        """Spark's connector requires an offset for each partition; ours also accepts one for a whole topic."""
        options = {"subscribe": timed, "startingOffsets": f'{{"{timed}":"earliest"}}'}
        assert peers.ours(options).count() == 30
        with pytest.raises(Exception, match=r"Expected e\.g\."):
            peers.theirs(options).collect()

    def test_unnamed_partitions(self, peers: Peers, timed: str) -> None:
        """Spark's connector requires every partition to be named; ours uses auto.offset.reset for the rest."""
        options = {"subscribe": timed, "startingOffsets": by_partition(timed, 15), "auto.offset.reset": "earliest"}
        assert {r.partition for r in peers.ours(options).where("offset < 15").collect()} == {1}
        with pytest.raises(Exception, match="don't match what are assigned"):
            peers.theirs(options).collect()
