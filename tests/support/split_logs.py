"""Logs seen by a consumer of one partition, and readers of their splits, without brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.read.split_reader import Identity, ReadPolicy, SplitReader
from pyspark_zkafka.records.consumer import Poll
from pyspark_zkafka.records.message_consumer import MessageBatch
from pyspark_zkafka.retries import Deadline
from tests.support.clock import Clock

OFFSETS = pa.schema([("offset", pa.int64())])
POLL_RECORDS = 256
FAILING, WARNING = ReadPolicy(poll_timeout_ms=1000), ReadPolicy(fail_on_data_loss=False, poll_timeout_ms=1000)


@dataclass(frozen=True)
class FakeMessage:
    at: int
    size: int = 10

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return None

    def __len__(self) -> int:
        return self.size


@dataclass(frozen=True)
class Brought:
    """The result of one poll: messages, and events named as in `Poll`."""

    messages: Sequence[Any] = ()
    events: dict[str, Any] = field(default_factory=dict)


Step = Callable[["FakeConsumer"], "Brought | None"]


@dataclass
class FakeConsumer:
    """Plays a log `[low, high)` as a PartitionConsumer, in polls of up to `POLL_RECORDS`.

    Offsets of `records` are visible; `[low, high)` may have others. `script` has steps by number of the poll: a step runs
    just before it, and changes the log or returns the poll's result. An empty poll takes its time-out on the clock. The
    first requests for the log's ends fail with `refusals`. With `by_id`, brokers compare the topic's id.
    """

    clock: Clock
    records: Sequence[int]
    low: int = 0
    high: int = 0
    script: dict[int, Step] = field(default_factory=dict)
    sizes: Callable[[int], int] = lambda offset: 10
    by_id: bool = False
    position: int | None = None
    end_told: int | None = None
    seeks: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    refusals: list[ZKafkaError] = field(default_factory=list)
    batch: MessageBatch = field(default_factory=lambda: MessageBatch(OFFSETS))

    def __post_init__(self) -> None:
        self.high = self.high or max(self.records, default=-1) + 1

    def seek(self, offset: int) -> None:
        self.position, self.end_told = offset, None
        self.seeks.append(offset)

    def poll(self, most_records: int, most_bytes: int, until: int, deadline: Deadline) -> Poll:
        wanted = min(most_records, POLL_RECORDS)
        self.asked.append(wanted)
        step = self.script.get(len(self.asked) - 1)
        brought = (step(self) if step is not None else None) or self._fetch(wanted)
        if not brought.messages:
            self.clock.now = max(self.clock.now, deadline.at)
        return replace(self.batch.add(brought.messages, until), **{"by_id": self.by_id, **brought.events})

    def take(self) -> pa.RecordBatch:
        return self.batch.take()

    def _fetch(self, max_messages: int) -> Brought:
        if self.position is None:
            return Brought()
        if not self.low <= self.position <= self.high:
            self.position = None  # librdkafka reports it once and stops
            return Brought(events={"out_of_range": True})
        visible = [o for o in self.records if max(self.low, self.position) <= o < self.high]
        found = visible[:max_messages]
        if found:
            self.position = found[-1] + 1
        at_end = len(found) == len(visible) and len(found) < max_messages and self.end_told != self.high
        if at_end:
            self.position = self.end_told = self.high
        messages = [FakeMessage(o, self.sizes(o)) for o in found]
        return Brought(messages, {"end": self.high} if at_end else {})

    def watermarks(self, deadline: Deadline) -> tuple[int, int]:
        assert deadline.left_s > 0
        if self.refusals:
            raise self.refusals.pop(0)
        return self.low, self.high


@dataclass
class World:
    """A reader of `[start, until)` and its environment."""

    records: Sequence[int]
    start: int
    until: int
    policy: ReadPolicy = FAILING
    low: int = 0
    high: int = 0
    script: dict[int, Step] = field(default_factory=dict)
    sizes: Callable[[int], int] = lambda offset: 10
    identities: Iterable[Identity] = ()
    high_watermark: Callable[[], int] | None = None
    asked_identity: int = 0
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.consumer = FakeConsumer(self.clock, self.records, self.low, self.high, self.script, self.sizes)
        self._identities = iter(self.identities)
        split = Split(TopicPartition("t", 2), self.start, self.until, 1, 0, (1, 3), ("k1:9092", "k3:9092"))
        self.reader = SplitReader(
            split, self.consumer, self.policy, self.identity, self.clock, self.high_watermark, self.clock.sleep
        )

    def identity(self) -> Identity:
        """Return the scripted identities in turn, repeating the last one; "same" without a script."""
        self.asked_identity += 1
        self._last: Identity = next(self._identities, getattr(self, "_last", "same"))
        return self._last

    def batches(self) -> list[list[int]]:
        """All batches; like a task, compares the topic at the end unless the brokers have."""
        found = [batch.column(0).to_pylist() for batch in self.reader.batches()]
        if not self.reader.is_compared:
            self.reader.compare()
        return found

    def read(self) -> list[int]:
        return [offset for batch in self.batches() for offset in batch]


def brings(*offsets: int, **events: Any) -> Step:
    """Return a step: the poll returns these messages and events, whatever is in the log."""
    return lambda consumer: Brought([FakeMessage(o) for o in offsets], events)


def becomes(low: int | None = None, high: int | None = None, records: Sequence[int] | None = None) -> Step:
    """Return a step that changes the log's ends or records."""

    def change(consumer: FakeConsumer) -> None:
        consumer.low = consumer.low if low is None else low
        consumer.high = consumer.high if high is None else high
        consumer.records = consumer.records if records is None else records

    return change
