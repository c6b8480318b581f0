"""Works on a topic: each has a timed action, and untimed checks."""

from __future__ import annotations

import secrets
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from benchmarks import topics
from benchmarks.checks import check_read, check_streamed, check_values, content, require, rows_drained
from benchmarks.cluster import Topic
from benchmarks.engines import Engine
from benchmarks.session import Bench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


@dataclass
class Work:
    """A topic, and a work of the engines on it."""

    bench: Bench
    topic: Topic
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """The number of records that the action moves."""
        return self.topic.facts.records

    @property
    def payload_bytes(self) -> int:
        """Bytes of the moved columns, without Kafka's own."""
        return self.topic.facts.payload_bytes

    def open(self) -> None:
        """Prepare what all engines need."""

    def close(self) -> None:
        """Release what `open` prepared."""

    def check(self, engine: Engine) -> None:
        """Do the work once, and compare everything that can be compared."""

    def touch(self, engine: Engine) -> None:
        """Do the work with a few records: Spark ends Python workers that idle for a minute during other engines' turns."""
        replace(self, topic=self.few()).act(engine)

    def few(self) -> Topic:
        """Return a topic of the same shape with as few records as possible."""
        return topics.filled(self.bench.cluster, self.topic.shape, 0)

    def begin(self) -> None:
        """Record the state that `verify` compares with."""

    def act(self, engine: Engine) -> Any:
        """Do the timed action."""
        raise NotImplementedError

    def verify(self, engine: Engine, found: Any) -> dict[str, Any]:
        """Check the action's result, as far as that costs it nothing; return additional figures."""
        return {}

    def agree(self, what: str, found: Any, engine: Engine) -> None:
        """Fail unless all engines that call this find the same."""
        require(
            found, self.seen.setdefault(what, found), f"{engine.label}: {what} of {self.topic.name}, unlike the others'"
        )


class Read(Work):
    """Read all columns to the noop sink."""

    def check(self, engine: Engine) -> None:
        if engine.makes_frames and engine.reads_topic:
            found = check_read(engine.frame(self.bench, self.topic), self.topic, engine.label)
            self.agree("timestamps", found, engine)

    def act(self, engine: Engine) -> Any:
        if not engine.makes_frames:
            return engine.consume(self.bench, self.topic)
        return _drain(engine.frame(self.bench, self.topic))

    def verify(self, engine: Engine, found: Any) -> dict[str, Any]:
        records = rows_drained(self.bench.spark) if engine.makes_frames else found[0]
        require(records, self.records, f"{engine.label} read {self.topic.name}")
        return {}


class ReadValues(Work):
    """Read only the values to the noop sink."""

    @property
    def payload_bytes(self) -> int:
        return self.topic.facts.value_bytes

    def check(self, engine: Engine) -> None:
        if engine.reads_topic:
            check_values(engine.frame(self.bench, self.topic, value_only=True), self.topic, engine.label)

    def act(self, engine: Engine) -> Any:
        return _drain(engine.frame(self.bench, self.topic, value_only=True))

    def verify(self, engine: Engine, found: Any) -> dict[str, Any]:
        require(rows_drained(self.bench.spark), self.records, f"{engine.label} read the values of {self.topic.name}")
        return {}


class ReadGroups(Read):
    """Run a grouping query: count and length by partition and the key's last digit. Checks read all columns."""

    def act(self, engine: Engine) -> Any:
        frame = engine.frame(self.bench, self.topic).selectExpr(
            "partition", "substr(key, -1) AS k", "length(value) AS size"
        )
        return frame.groupBy("partition", "k").agg({"*": "count", "size": "sum"}).collect()

    def verify(self, engine: Engine, found: Any) -> dict[str, Any]:
        groups = sorted((row[0], bytes(row[1]), *row[2:]) for row in found)
        require(sum(group[2] for group in groups), self.topic.facts.value_bytes, f"{engine.label}: sum of lengths")
        require(sum(group[3] for group in groups), self.records, f"{engine.label}: count")
        self.agree("groups", groups, engine)
        return {}


@dataclass
class Stream(Work):
    """Stream to the noop sink with Trigger.AvailableNow, with this many records per micro-batch."""

    per_trigger: int = 0

    def touch(self, engine: Engine) -> None:
        replace(self, topic=self.few(), per_trigger=self.few().facts.records).act(engine)

    def check(self, engine: Engine) -> None:
        if not engine.reads_topic:
            return
        found: Counter[str] = Counter()

        def start(engine: Engine, stream: DataFrame, checkpoint: str) -> StreamingQuery:
            writer = stream.writeStream.foreachBatch(lambda frame, number: found.update(content(frame, self.topic)))
            return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

        self._run(engine, start)
        check_streamed(found, self.topic, engine.label)

    def act(self, engine: Engine) -> Any:
        return self._run(engine, self.start)

    def start(self, engine: Engine, stream: DataFrame, checkpoint: str) -> StreamingQuery:
        """Start the timed query."""
        options = {"checkpointLocation": checkpoint}
        return stream.writeStream.format("noop").options(**options).trigger(availableNow=True).start()

    def _run(self, engine: Engine, start: Callable[[Engine, DataFrame, str], StreamingQuery]) -> StreamingQuery:
        checkpoint = self.bench.folder / f"checkpoint-{secrets.token_hex(4)}"
        query = start(engine, engine.stream(self.bench, self.topic, self.per_trigger), str(checkpoint))
        query.awaitTermination()
        shutil.rmtree(checkpoint)
        return query

    def verify(self, engine: Engine, found: Any) -> dict[str, Any]:
        progress = [p for p in found.recentProgress if p["numInputRows"] > 0]
        require(sum(p["numInputRows"] for p in progress), self.records, f"{engine.label} streamed {self.topic.name}")
        durations = [p["durationMs"] for p in progress[1:]]
        parts = sorted({name for one in durations for name in one})
        middle = {name: sorted(one.get(name, 0) for one in durations)[len(durations) // 2] for name in parts}
        return {"micro_batches": len(progress), "median_ms": middle}


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
