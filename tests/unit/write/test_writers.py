"""The plan of a write, made from snapshots, its tasks, and Spark's calls of writers, without a cluster."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import WriterCommitMessage

from pyspark_zkafka.errors import OptionError, UnknownTopic
from pyspark_zkafka.model.ledger import SinkIdentity
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.model.planning import Assign
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.plan import (
    LedgerPlan,
    WritePlan,
    identity_of,
    named_topics,
    plan_topics,
    plan_write,
    require_partitions,
)
from pyspark_zkafka.write.rows import Written
from pyspark_zkafka.write.writers import RowWriter, ZKafkaStreamWriter, ZKafkaWriter, total

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
OF_TASKS = [Written(7), None, Written(1)]
ONCE = {"deliveryGuarantee": "exactly-once"}
ORDERS = Topic("orders", {0: (1,), 1: (2,), 2: (1,)}, czxid=77)
AUDIT = Topic("audit", {0: (1,)}, topic_id="a-b_cdefghijklmnopqrst", czxid=78)


def cluster(*topics: Topic) -> ClusterSnapshot:
    """Return a cluster with only broker 1 live; the first replica of each partition is its leader."""
    states = {TopicPartition(t.name, n): PartitionState(r[0], 0, r) for t in topics for n, r in t.partitions.items()}
    return ClusterSnapshot({1: Broker(1, ())}, {topic.name: topic for topic in topics}, states)


def plan(*topics: Topic) -> WritePlan:
    return plan_topics("b:1", cluster(*topics), "murmur3")


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ({"topic": "t"}, ["t"]),
        ({"topic": "t", **ONCE}, ["t"]),
        ({"topic": "t", "ledgerTopic": "t", **ONCE}, ["t"]),
        ({"topic": "t", "ledgerTopic": "ledger", **ONCE}, ["t", "ledger"]),
        ({"ledgerTopic": "ledger", **ONCE}, None),
        ({}, None),
    ],
)
def test_topics_to_look_up(given: dict[str, str], topics: list[str] | None) -> None:
    """The topics in the options are looked up, or all topics if each row names its own."""
    assert named_topics(parse_write({"kafka.bootstrap.servers": "b:1", **given})) == topics


def test_routers() -> None:
    """Each topic has a router with all its partitions, those with a leader, and the partitioner."""
    found = plan(ORDERS, AUDIT)
    shown = {name: (r.topic, r.partitions, list(r.available), r.partitioner) for name, r in found.routers.items()}
    assert shown == {"orders": ("orders", 3, [0, 2], "murmur3"), "audit": ("audit", 1, [0], "murmur3")}
    assert found.bootstrap_servers == "b:1"
    assert found.ledger is None


def test_topic_without_partitions() -> None:
    """A topic in creation, without partitions yet, cannot be written to."""
    with pytest.raises(UnknownTopic, match="TOPIC_WITHOUT_PARTITIONS"):
        plan(Topic("new", {}))


def test_unknown_partitions_to_commit() -> None:
    """Offsets of topics and partitions that do not exist cannot be committed, and the error names them."""
    known = [TopicPartition("orders", 0), TopicPartition("audit", 0)]
    require_partitions(Assign(tuple(known)), cluster(ORDERS, AUDIT))
    unknown = [TopicPartition("odrers", 0), TopicPartition("audit", 1)]
    with pytest.raises(UnknownTopic, match=r"UNKNOWN_TOPIC\] commitOffsets names odrers, audit-1, which the cluster does"):
        require_partitions(Assign((*known, *unknown)), cluster(ORDERS, AUDIT))


def test_same_topics() -> None:
    """The same topics are the same generation, in any order and with any leaders."""
    moved = replace(ORDERS, partitions={0: (2,), 1: (1,), 2: (2,)})
    found = plan(ORDERS, AUDIT).generation
    assert found is not None
    assert plan(AUDIT, moved).generation == found


@pytest.mark.parametrize(
    "change",
    [{"czxid": 79}, {"topic_id": "another-id-of-a-topic0"}, {"partitions": {0: (1,), 1: (1,), 2: (1,), 3: (1,)}}],
    ids=lambda change: "-".join(change),
)
def test_other_topics_of_the_same_names(change: dict[str, Any]) -> None:
    """A topic that was created again, or has more partitions, is another generation."""
    assert plan(replace(ORDERS, **change)).generation != plan(ORDERS).generation


def test_identity_of_a_topic() -> None:
    """A topic's Kafka id is its identity, wherever the snapshot comes from."""
    assert plan(replace(AUDIT, czxid=None)).generation == plan(AUDIT).generation


def test_topics_without_identity() -> None:
    """If one topic has no identity, there is no generation."""
    assert plan(ORDERS, replace(AUDIT, topic_id=None, czxid=None)).generation is None


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (ORDERS, SinkIdentity("orders", 77)),
        (AUDIT, SinkIdentity("audit", "a-b_cdefghijklmnopqrst")),
        (replace(ORDERS, czxid=None), None),
        (None, None),
    ],
)
def test_topic_of_the_rows(topic: Topic | None, expected: SinkIdentity | None) -> None:
    """Ledger entries identify a topic by its Kafka id, or without one by its znode."""
    assert identity_of(topic) == expected


def test_pickle() -> None:
    """A plan survives pickling."""
    found = replace(plan(ORDERS), ledger=LedgerPlan("orders", 3, "call", sink=SinkIdentity("orders", 77)))
    assert pickle.loads(pickle.dumps(found)) == found


MESSAGES = st.lists(st.none() | st.builds(Written, st.integers(0, 2**40), st.integers(0, 2**40)))


@pytest.mark.parametrize("kind", [ZKafkaWriter, ZKafkaStreamWriter])
def test_a_task_without_rows(kind: type[RowWriter], monkeypatch: pytest.MonkeyPatch) -> None:
    """A task without rows opens no connection."""
    monkeypatch.setattr("pyspark_zkafka.records.select.open_producer", lambda *given: pytest.fail("a producer was opened"))
    plan = WritePlan("127.0.0.1:1", {"t": Router("t", 1, [0])})
    writer = pickle.loads(pickle.dumps(kind(parse_write(NOWHERE), plan)))
    empty = pa.record_batch([pa.array([], pa.binary())], names=["value"])
    assert writer.write(iter([empty, empty])).rows == 0
    assert writer.write(iter([])).rows == 0


@given(MESSAGES, MESSAGES)
def test_counts_add_up(some: list[Written | None], others: list[Written | None]) -> None:
    """The counts of several tasks add up; a failed task counts as zero."""
    whole, first, second = total(some + others), total(some), total(others)
    assert whole == Written(first.rows + second.rows, first.repeated + second.repeated)
    assert total([*some, None]) == first


def test_counts() -> None:
    """Rows are counted separately from rows already in the log."""
    messages: Sequence[WriterCommitMessage | None] = [Written(7), None, Written(0, 5)]
    assert total(messages) == Written(7, 5)
    assert total([]) == Written()


def writer() -> ZKafkaWriter:
    """Return a writer as Spark sends it to the committing process, without a plan."""
    found: ZKafkaWriter = pickle.loads(pickle.dumps(ZKafkaWriter(parse_write(NOWHERE), None)))
    return found


def test_commit_without_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """A write without commitOffsets only logs its rows in the commit."""
    with caplog.at_level(logging.INFO):
        writer().commit(OF_TASKS)
    assert caplog.messages == ["Wrote 8 rows"]


def test_what_a_failed_write_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """After a failed write, the log has the number of failed tasks and of rows that stay."""
    writer().abort(OF_TASKS)
    assert caplog.messages == ["1 task(s) of the write failed. 8 rows of the other tasks stay in Kafka"]


def test_what_a_failed_micro_batch_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """After a failed micro-batch, the log says how many rows stay."""
    ZKafkaStreamWriter(parse_write(NOWHERE), None).abort(OF_TASKS, 12)
    assert "Micro-batch 12: 1 task(s) failed or were stopped" in caplog.text
    assert "8 rows of the other tasks stay in Kafka" in caplog.text


def test_what_a_failed_exactly_once_micro_batch_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """After a failed exactly-once micro-batch, the log says which rows are committed and not written again."""
    options = parse_write({**NOWHERE, **ONCE})
    ZKafkaStreamWriter(options, None).abort([Written(3), None, None], 12)
    (text,) = caplog.messages
    assert text.startswith("Micro-batch 12: 2 task(s) failed or were stopped, and their transactions are aborted, unless")
    assert text.endswith("3 rows of the other tasks are committed. A repeated micro-batch writes no committed rows again")


@pytest.mark.parametrize(
    ("repeated", "text"),
    [(0, "Micro-batch 12: wrote 3 rows"), (5, "Micro-batch 12: wrote 3 rows. 5 rows were in the log already")],
)
def test_commit_of_a_micro_batch(caplog: pytest.LogCaptureFixture, repeated: int, text: str) -> None:
    """The log has the rows of a micro-batch, and those written by an earlier attempt."""
    with caplog.at_level(logging.DEBUG, "pyspark_zkafka"):
        ZKafkaStreamWriter(parse_write(NOWHERE), None).commit([Written(3, repeated)], 12)
    assert caplog.messages == [text]


def test_unsupported_property_of_an_exactly_once_write() -> None:
    """A property that transactions do not support is refused when the write is planned, before a broker is asked."""
    with pytest.raises(
        OptionError, match=r"\[UNUSABLE_KAFKA_PROPERTY\] An exactly-once write does not support debug\. Leave"
    ):
        plan_write(parse_write({**NOWHERE, **ONCE, "kafka.debug": "msg"}))
