"""User actions that once exposed the faults of a review, as schedules of streams and of writes."""

from __future__ import annotations

from tests.faults.use.steps import Step, Use
from tests.faults.use.writes import Attempt, Way

__all__ = ["STREAMS", "WRITES"]


def _start(*, during: Step | None = None, **use: object) -> Step:
    return Step("start", (Use(**use), during))  # type: ignore[arg-type]


def _produce(topic: str, count: int) -> Step:
    return Step("produce", (topic, count, False))


STREAMS: dict[str, list[Step]] = {
    "a broker is silent after the first micro-batch": [
        _produce("a", 6),
        _start(limit=2, during=Step("pause", ("broker",))),
    ],
    "a member is killed, and another one starts at once": [
        _produce("a", 9),
        _start(limit=2, trigger="running", group="zookeeper"),
        Step("trigger", (0, 1)),
        Step("kill", (0, "done")),
        _start(group="zookeeper"),
    ],
    "a member is killed, and the rest of its group waits until it expires": [
        _produce("a", 3),
        _produce("b", 2),
        _start(group="zookeeper", limit=4, cut="idle"),
        _start(query=1, group="zookeeper", trigger="running", limit=7, way="brokers"),
        _produce("b", 5),
        _start(query=1, group="zookeeper", trigger="running", limit=7),
        Step("grow", ("a",)),
        _start(query=1, group="zookeeper", limit=7, way="brokers"),
    ],
    "once, in a group in Kafka, with a checkpoint": [
        _produce("a", 3),
        _start(group="kafka"),
        _produce("a", 3),
        _start(group="kafka", trigger="once"),
    ],
    "a topic is created again, and the checkpoint is lost, with two stores": [
        _produce("a", 8),
        _start(group="zookeeper", stores="dual"),
        Step("recreate", ("a", 2, True)),
        Step("fresh", (0,)),
        _start(group="zookeeper", stores="dual", fails=False),
    ],
    "a query subscribes to the topic of which it was assigned a partition": [
        _produce("a", 6),
        _start(topics="assign", trigger="running", start="latest"),
        Step("trigger", (0, 1)),
        _produce("a", 4),
        Step("trigger", (0, 1)),
        _start(topics="a", start="latest"),
    ],
    "a query returns after another one has read a topic created again": [
        _produce("a", 8),
        _start(group="zookeeper"),
        Step("recreate", ("a", 2, True)),
        _start(query=1, group="zookeeper", fails=False),
        _start(group="zookeeper", fails=False),
    ],
    "a topic grows while a static member restarts": [
        _produce("a", 6),
        _start(group="static"),
        Step("grow", ("a",)),
        _produce("a", 6),
        _start(group="static"),
    ],
    "startingOffsets of a group names an unknown partition": [
        _produce("a", 3),
        _start(group="zookeeper", unknown=True),
    ],
    "a topic is deleted while a member restarts": [
        _produce("b", 2),
        _start(group="zookeeper"),
        Step("delete", ("b",)),
        _start(group="zookeeper"),
    ],
    "a topic is removed from the subscription": [
        _produce("a", 6),
        _produce("b", 6),
        _start(group="zookeeper"),
        _produce("a", 6),
        _start(topics="a"),
    ],
    "a topic is compacted below a planned micro-batch": [
        _produce("a", 30),
        _start(topics="a", trigger="running", limit=4),
        Step("trigger", (0, 1)),
        Step("kill", (0, "planned")),
        Step("compact", ("a",)),
        _start(topics="a", limit=7),
    ],
    "a query leaves its group in Kafka after the first micro-batch, and joins it again": [
        _produce("a", 6),
        _start(group="kafka", trigger="once"),
        _produce("a", 6),
        _start(),
        _start(group="kafka"),
    ],
}

_ALL = (0, 1, 2)

WRITES: dict[str, list[Attempt]] = {
    "a thread of foreachBatch writes": [
        Attempt(Way("thread"), _ALL, 2),
        Attempt(Way("thread"), _ALL, 3),
    ],
    "a write is named while its micro-batch is interrupted": [
        Attempt(Way("foreachBatch"), _ALL, 2),
        Attempt(Way("foreachBatch", "w"), _ALL, 3),
    ],
    "transactionalIdPrefix changes while a micro-batch is interrupted": [
        Attempt(Way("stream"), _ALL, 2),
        Attempt(Way("stream", prefix="team"), _ALL, 3),
    ],
    "ledgerTopic changes while a micro-batch is interrupted": [
        Attempt(Way("foreachBatch", "w"), _ALL, 2),
        Attempt(Way("foreachBatch", "w", ledger="ledger"), _ALL, 3),
    ],
    "the time of rows comes twice in the session's time zone": [Attempt(Way("stream", zone="Europe/Berlin"), _ALL, 3)],
    "the queue of records has no limit": [Attempt(Way("stream", is_unlimited=True), _ALL, 3)],
    "transactions have six seconds, and a recorded slot comes late": [
        Attempt(Way("stream", timeout_s=6), _ALL, 1),
        Attempt(Way("stream", timeout_s=6), (1, 2, 0), 3),
    ],
}
