"""Reading a split from logs that behave, and from logs that do not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.batch.split_reader import Identity, ReadPolicy, SplitReader
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, DataLoss
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Split
from pyspark_zkafka.transport.consumer import Poll
from pyspark_zkafka.transport.python_consumer import MessageBatch

OFFSETS = pa.schema([("offset", pa.int64())])
FAILING, WARNING = ReadPolicy(poll_timeout_ms=1000), ReadPolicy(fail_on_data_loss=False, poll_timeout_ms=1000)


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


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
    """What one poll brings: messages, and events by the names of `Poll`."""

    messages: Sequence[Any] = ()
    events: dict[str, Any] = field(default_factory=dict)


Step = Callable[["FakeConsumer"], "Brought | None"]


@dataclass
class FakeConsumer:
    """Plays a log `[low, high)` as a PartitionConsumer shows it.

    The offsets of `records` are visible, in `high - low` there may be others. `script` holds what happens just before the
    poll of a number: a step that changes the log, or that returns what the poll brings instead. An empty poll takes its
    time-out on the clock.
    """

    clock: Clock
    records: Sequence[int]
    low: int = 0
    high: int = 0
    script: dict[int, Step] = field(default_factory=dict)
    sizes: Callable[[int], int] = lambda offset: 10
    position: int | None = None
    end_told: int | None = None
    seeks: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    batch: MessageBatch = field(default_factory=lambda: MessageBatch(OFFSETS))

    def __post_init__(self) -> None:
        self.high = self.high or max(self.records, default=-1) + 1

    def seek(self, offset: int) -> None:
        self.position, self.end_told = offset, None
        self.seeks.append(offset)

    def poll(self, most_records: int, most_bytes: int, until: int, timeout_s: float) -> Poll:
        wanted = self.batch.wanted(most_records, most_bytes)
        self.asked.append(wanted)
        step = self.script.get(len(self.asked) - 1)
        brought = (step(self) if step is not None else None) or self._fetch(wanted)
        if not brought.messages:
            self.clock.now += timeout_s
        return replace(self.batch.add(brought.messages, until), **brought.events)

    def take(self) -> pa.RecordBatch:
        return self.batch.take()

    def _fetch(self, max_messages: int) -> Brought:
        if self.position is None:
            return Brought()
        if not self.low <= self.position <= self.high:
            self.position = None  # librdkafka says it once and stops
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

    def watermarks(self, timeout_s: float) -> tuple[int, int]:
        assert timeout_s > 0
        return self.low, self.high


@dataclass
class World:
    """A reader of `[start, until)` and all around it."""

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
        self.reader = SplitReader(split, self.consumer, self.policy, self.identity, self.clock, self.high_watermark)

    def identity(self) -> Identity:
        """What was scripted, one after the other; the last one stays; "same" if nothing was."""
        self.asked_identity += 1
        self._last: Identity = next(self._identities, getattr(self, "_last", "same"))
        return self._last

    def batches(self) -> list[list[int]]:
        return [batch.column(0).to_pylist() for batch in self.reader.batches()]

    def read(self) -> list[int]:
        return [offset for batch in self.batches() for offset in batch]


def brings(*offsets: int, **events: Any) -> Step:
    """A step: the poll brings these messages and events, whatever the log holds."""
    return lambda consumer: Brought([FakeMessage(o) for o in offsets], events)


def becomes(low: int | None = None, high: int | None = None, records: Sequence[int] | None = None) -> Step:
    """A step: the log's ends or records change."""

    def change(consumer: FakeConsumer) -> None:
        consumer.low = consumer.low if low is None else low
        consumer.high = consumer.high if high is None else high
        consumer.records = consumer.records if records is None else records

    return change


# --- logs that behave


@pytest.mark.parametrize(
    ("records", "start", "until", "expected"),
    [
        pytest.param(range(20), 0, 20, range(20), id="all"),
        pytest.param(range(20), 5, 15, range(5, 15), id="the middle"),
        pytest.param(range(2000), 3, 1999, range(3, 1999), id="many polls"),
        pytest.param([0, 3, 4, 9, 12], 0, 13, [0, 3, 4, 9, 12], id="compacted"),
        pytest.param([0, 3, 4, 9, 12], 1, 9, [3, 4], id="both ends in gaps"),
        pytest.param([0, 9], 3, 7, [], id="nothing visible before the end"),
        pytest.param(range(20), 7, 8, [7], id="one record"),
        pytest.param(range(20), 7, 7, [], id="empty split"),
    ],
)
def test_a_range_is_read(records: Sequence[int], start: int, until: int, expected: Iterable[int]) -> None:
    """All visible records of `[start, until)` come in order and no others; gaps of the log are no loss."""
    world = World(records, start, until)
    assert world.read() == list(expected)
    assert world.consumer.seeks == [start]


@pytest.mark.parametrize(("records", "high"), [([0, 1, 2], 10), ([], 10), ([0, 1, 2], 9), ([0, 1, 2, 3], 30)])
def test_an_invisible_tail_ends_with_the_log(records: Sequence[int], high: int) -> None:
    """Where only invisible records follow, the end of the log ends the range, at once and without loss."""
    world = World(records, 0, min(high, 10), high=high)
    before = world.clock.now
    assert world.read() == list(records)
    assert world.clock.now - before < 0.2


def test_records_past_the_end_are_left_out() -> None:
    """What a poll brings from behind a gap at the end is not given out, and ends the range."""
    world = World([0, 1, 8, 9], 0, 5)
    assert world.read() == [0, 1]
    assert world.asked_identity == 1


def test_no_more_is_asked_for_than_is_left() -> None:
    """A poll asks for at most the rest of the range."""
    world = World(range(1000), 0, 300)
    assert len(world.read()) == 300
    assert world.consumer.asked == [256, 44]


def test_identity_is_asked_before_the_last_word() -> None:
    """A topic that was created again while its range was read is recognised even if nothing else was odd."""
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\] topic t was created again after the read was planned"):
        World(range(5), 0, 5, identities=["created again"]).read()


def test_identity_is_asked_once_for_ranges_read_together() -> None:
    """A range that another one of its topic follows leaves the question to that one."""
    world = World(range(5), 0, 5, identities=["created again"])
    batches = world.reader.batches(ask_identity=False)
    assert [offset for batch in batches for offset in batch.column(0).to_pylist()] == list(range(5))
    assert world.asked_identity == 0


def test_slow_brokers_are_waited_for() -> None:
    """Empty polls before the time-out are no end: the range is read to its end, in the batches that came."""
    quiet: dict[int, Step] = {n: brings() for n in range(1, 15)}
    world = World(range(400), 0, 400, script=quiet)
    assert world.read() == list(range(400))


def test_the_log_may_end_before_the_range_and_grow_on() -> None:
    """An end of the log before `until`, as a leader just elected may show it, is waited out."""
    world = World(range(3), 0, 6, script={5: becomes(high=6, records=range(6))})
    assert world.read() == [0, 1, 2, 3, 4, 5]
    assert world.consumer.seeks == [0]


def test_growth_sets_the_wait_back() -> None:
    """While the log grows, however slowly, the range is not given up."""
    script: dict[int, Step] = {15 * n: becomes(high=3 + n, records=range(3 + n)) for n in range(1, 4)}
    assert World(range(3), 0, 6, script=script).read() == [0, 1, 2, 3, 4, 5]


def test_the_time_that_spark_takes_does_not_count() -> None:
    """The time between batches is not the brokers': they have the whole time-out after it."""
    world = World(range(20), 0, 20, ReadPolicy(poll_timeout_ms=1000, max_records=10))
    batches = world.reader.batches()
    next(batches)
    world.clock.now += 3600
    world.consumer.script[len(world.consumer.asked)] = brings()
    assert [batch.num_rows for batch in batches] == [10]


# --- bounds of batches


@pytest.mark.parametrize(("most", "expected"), [(10, [10, 10, 5]), (25, [25]), (1000, [25]), (1, [1] * 25)])
def test_batches_are_bounded_in_rows(most: int, expected: list[int]) -> None:
    """No batch has more rows than the policy allows, and batches are full while records are at hand."""
    world = World(range(25), 0, 25, ReadPolicy(max_records=most))
    assert [len(batch) for batch in world.batches()] == expected


def test_batches_are_bounded_in_bytes() -> None:
    """A batch ends with the poll that reaches the bytes allowed."""
    world = World(range(3000), 0, 3000, ReadPolicy(max_bytes=50_000), sizes=lambda offset: 100)
    batches = world.batches()
    assert [offset for batch in batches for offset in batch] == list(range(3000))
    assert all(50_000 <= 100 * len(batch) < 100_000 for batch in batches[1:-1])


def test_polls_grow_while_records_are_small() -> None:
    """Polls ask for four times as many records each time, up to the rows of a batch."""
    world = World(range(40_000), 0, 40_000, ReadPolicy(max_records=10_000))
    world.read()
    assert world.consumer.asked[:4] == [256, 1024, 4096, 4624]
    assert max(world.consumer.asked) == 10_000


def test_polls_shrink_as_records_grow() -> None:
    """Large records are asked for in small numbers, so that a poll holds about the bytes of a batch."""
    world = World(range(2000), 0, 2000, ReadPolicy(max_bytes=10_000), sizes=lambda o: 1 if o < 256 else 1000)
    batches = world.batches()
    assert world.consumer.asked == [256, 1024] + [10] * 72
    assert sum(map(len, batches)) == 2000


def test_one_record_larger_than_a_batch_is_read() -> None:
    """A record over the limit in bytes is a batch of its own."""
    world = World(range(300), 0, 300, ReadPolicy(max_bytes=100), sizes=lambda offset: 500)
    batches = world.batches()
    assert [len(batch) for batch in batches] == [256] + [1] * 44
    assert set(world.consumer.asked[1:]) == {1}


# --- logs that do not behave


def test_retention_that_overtakes_the_reader_is_data_loss() -> None:
    """Records removed from the range before they were read fail it, with what is gone and why."""
    world = World(range(1000), 0, 1000, script={1: becomes(low=700)})
    with pytest.raises(DataLoss) as caught:
        world.read()
    assert caught.value.condition == "DATA_LOSS"
    assert (
        "t-2: records [256, 700) of the range [0, 1000) are gone; the log now begins at 700: retention or a delete "
        "removed the records; set failOnDataLoss to false to go on without them"
    ) in str(caught.value)


def test_retention_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false the read goes on where the log now begins, with a warning."""
    world = World(range(1000), 0, 1000, WARNING, script={1: becomes(low=700)})
    with caplog.at_level(logging.WARNING):
        assert world.read() == [*range(256), *range(700, 1000)]
    assert world.consumer.seeks == [0, 700]
    assert [r.getMessage() for r in caplog.records] == [
        "t-2: records [256, 700) of the range [0, 1000) are gone; the log now begins at 700: retention or a delete "
        "removed the records; continuing, as failOnDataLoss is false"
    ]


@pytest.mark.parametrize("low", [10, 15])
def test_a_range_that_is_gone_altogether(low: int) -> None:
    """If the log begins at the end of the range or later, nothing of it is left."""
    assert World(range(20), 0, 10, WARNING, low=low).read() == []
    with pytest.raises(DataLoss, match=r"records \[0, 10\) of the range \[0, 10\) are gone"):
        World(range(20), 0, 10, low=low).read()


def test_a_log_cut_below_the_reader_is_data_loss() -> None:
    """A position behind the log's end, after an unclean election, fails the range."""
    script: dict[int, Step] = {1: becomes(high=100)}
    with pytest.raises(DataLoss, match=r"records \[256, 1000\) .* are gone; the log now ends at 100: it was truncated"):
        World(range(1000), 0, 1000, script=script).read()
    assert World(range(1000), 0, 1000, WARNING, script=script).read() == list(range(256))


TRUNCATED: dict[int, Step] = {1: brings(out_of_range=True, truncation="log truncation at offset 256, end offset is 100")}


def test_a_truncated_log_that_has_grown_again_is_data_loss() -> None:
    """A truncation below the position fails the range, though the log has an offset of that number again."""
    with pytest.raises(
        DataLoss, match=r"log was truncated below offset 256, .* found: log truncation at offset 256, end offset"
    ):
        World(range(1000), 0, 1000, script=TRUNCATED).read()


def test_a_truncated_log_that_has_grown_again_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false such a log is read on at the position, with a warning; no offset comes twice."""
    world = World(range(1000), 0, 1000, WARNING, script=TRUNCATED)
    assert world.read() == list(range(1000))
    assert world.consumer.seeks == [0, 256]
    assert "truncated below offset 256" in caplog.text


def test_the_truncation_of_a_log_that_is_still_short_is_data_loss() -> None:
    """A log that ends below the position is reported by its end, whichever way that was found."""
    script: dict[int, Step] = {1: lambda consumer: becomes(high=100)(consumer) or TRUNCATED[1](consumer)}
    with pytest.raises(DataLoss, match=r"records \[256, 1000\) .* are gone; the log now ends at 100: it was truncated"):
        World(range(1000), 0, 1000, script=script).read()


def test_another_topic_is_no_truncated_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a topic that was created again is recognised as such; one warning is enough to read it on."""
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\]"):
        World(range(1000), 0, 1000, script=TRUNCATED, identities=["created again"]).read()
    assert World(range(1000), 0, 1000, WARNING, script=TRUNCATED, identities=["created again"]).read() == list(range(1000))
    assert len(caplog.records) == 1


def test_a_log_that_stays_too_short_is_data_loss() -> None:
    """A log that ends before `until` and does not grow within the time-out was truncated."""
    world = World(range(3), 0, 6)
    before = world.clock.now
    with pytest.raises(DataLoss, match=r"\[3, 6\) .* are gone; the log has ended at 3 for 1000 ms: it was truncated"):
        world.read()
    assert 1.0 < world.clock.now - before < 1.2


def test_a_log_that_stays_too_short_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false what there is of a truncated log is given out, with a warning."""
    assert World(range(3), 0, 6, WARNING).read() == [0, 1, 2]
    assert "the log has ended at 3 for 1000 ms" in caplog.text


def test_a_deleted_topic_is_data_loss() -> None:
    """A topic that the brokers do not know any more, nor the cluster, fails the range."""
    script: dict[int, Step] = {1: brings(gone=True)}
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\] topic t was deleted after the read was planned; plan"):
        World(range(1000), 0, 1000, script=script, identities=["deleted"]).read()


def test_a_deleted_topic_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false a deleted topic ends the range, with one warning."""
    world = World(range(1000), 0, 1000, WARNING, script={1: brings(gone=True)}, identities=["deleted"])
    assert world.read() == list(range(256))
    assert len(caplog.records) == 1
    assert "topic t was deleted after the read was planned" in caplog.text


def test_a_topic_deleted_after_its_last_record_is_no_loss() -> None:
    """A range that was read to its end is whole, though the topic is gone by then; another topic's would not be."""
    assert World(range(10), 0, 10, identities=["deleted"]).read() == list(range(10))
    with pytest.raises(DataLoss, match="created again"):
        World(range(10), 0, 10, identities=["created again"]).read()


def test_a_topic_that_is_gone_for_a_moment_is_waited_for() -> None:
    """Brokers that do not know the topic while the cluster does, as after a restart, are asked again."""
    script: dict[int, Step] = {n: brings(gone=True) for n in range(1, 5)}
    assert World(range(300), 0, 300, script=script).read() == list(range(300))


def test_a_topic_that_stays_unknown_to_its_brokers_is_an_error() -> None:
    """Brokers that never know a topic which the cluster has are not waited for without end."""
    script: dict[int, Step] = {n: brings(gone=True, error="UNKNOWN_TOPIC_OR_PART") for n in range(200)}
    with pytest.raises(BrokersUnavailable, match="last error: UNKNOWN_TOPIC_OR_PART"):
        World(range(300), 0, 300, script=script).read()


@pytest.mark.parametrize("high", [3, 0])
def test_a_topic_created_again_is_data_loss(high: int) -> None:
    """A shorter log of the same name is recognised as another topic's, at once."""
    world = World(range(1000), 0, 1000, script={1: becomes(high=high)}, identities=["created again"])
    before = world.clock.now
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\] topic t was created again after the read was planned"):
        world.read()
    assert world.clock.now - before < 0.1


def test_the_end_of_a_new_topic_ends_the_range(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false the new topic's log is read to its end, without waiting for more."""
    world = World(range(3), 0, 6, WARNING, identities=["created again"])
    assert world.read() == [0, 1, 2]
    assert [r.getMessage().split(";")[0] for r in caplog.records] == [
        "topic t was created again after the read was planned",
        "t-2: records [3, 6) of the range [0, 6) are gone",
    ]


def test_silent_brokers_are_an_error() -> None:
    """When nothing comes for the time-out, the error says where, from whom, and what the client heard last."""
    script: dict[int, Step] = {n: brings(error="_TRANSPORT: refused") for n in range(1, 100)}
    world = World(range(1000), 0, 1000, script=script)
    before = world.clock.now
    with pytest.raises(BrokersUnavailable) as caught:
        world.read()
    assert (
        "t-2: no records from the brokers for 1000 ms at offset 256 (planned leader 1, ISR [1, 3], "
        "endpoints k1:9092, k3:9092; last error: _TRANSPORT: refused); check the brokers, or raise "
        "kafkaConsumer.pollTimeoutMs"
    ) in str(caught.value)
    assert 1.0 < world.clock.now - before < 1.2


def test_silence_is_an_error_whatever_data_loss_means() -> None:
    """failOnDataLoss=false does not turn silence into an end."""
    script: dict[int, Step] = {n: brings() for n in range(100)}
    with pytest.raises(BrokersUnavailable, match=r"at offset 0 .* last error: none"):
        World(range(10), 0, 10, WARNING, script=script).read()


def test_silence_after_records_behind_an_end_is_no_truncation() -> None:
    """An end of the log that records of the same poll have left behind does not pass for a truncation."""
    script: dict[int, Step] = {0: brings(0, 1, 2, end=2), **{n: brings() for n in range(1, 100)}}
    with pytest.raises(BrokersUnavailable, match="at offset 3 "):
        World(range(10), 0, 10, WARNING, script=script).read()


def test_silence_after_growth_is_no_truncation() -> None:
    """Once the log has grown past an end that was told, silence is silence."""
    script: dict[int, Step] = {0: brings(0, end=1), 1: brings(1), **{n: brings() for n in range(2, 100)}}
    with pytest.raises(BrokersUnavailable, match="at offset 2 "):
        World(range(10), 0, 10, WARNING, script=script).read()


def test_an_offset_out_of_range_may_be_a_mistake() -> None:
    """A broker that calls an offset out of range which its leader has is asked again."""
    world = World(range(300), 0, 300, script={1: brings(out_of_range=True)})
    assert world.read() == list(range(300))
    assert world.consumer.seeks == [0, 256]


def test_an_offset_out_of_range_for_ever_is_an_error() -> None:
    """A broker that never gives an offset which its leader has is not asked without end."""
    script: dict[int, Step] = {n: brings(out_of_range=True) for n in range(200)}
    with pytest.raises(BrokersUnavailable, match="at offset 0 "):
        World(range(300), 0, 300, script=script).read()


def test_an_open_transaction_is_no_truncation() -> None:
    """With read_committed a mistaken offset out of range among the records of an open transaction is asked for again."""
    script: dict[int, Step] = {0: brings(out_of_range=True), 1: becomes(high=20, records=range(20))}
    assert World(range(5), 7, 9, script=script, high_watermark=lambda: 10).read() == [7, 8]


def test_a_truncation_is_found_by_the_high_watermark() -> None:
    """With read_committed a position behind the high watermark, too, is data loss."""
    with pytest.raises(DataLoss, match=r"records \[15, 18\) .* are gone; the log now ends at 10: it was truncated"):
        World(range(5), 15, 18, high_watermark=lambda: 10).read()


@pytest.mark.parametrize("policy", [FAILING, WARNING])
def test_a_transaction_that_stays_open_is_an_error(policy: ReadPolicy) -> None:
    """Records that do not become stable within the time-out fail the range, whatever data loss means."""
    with pytest.raises(
        ClusterStateError, match=r"\[TRANSACTION_OPEN\] t-2: records \[5, 9\) of the range \[3, 9\) are not stab"
    ):
        World(range(5), 3, 9, policy, high_watermark=lambda: 10).read()


def test_a_log_that_ends_before_a_transaction_could_is_data_loss() -> None:
    """With read_committed, too, a log that ends before `until` and does not grow was truncated."""
    with pytest.raises(DataLoss, match="the log has ended at 5 for 1000 ms: it was truncated"):
        World(range(5), 3, 9, high_watermark=lambda: 5).read()


def test_silent_brokers_are_no_open_transaction() -> None:
    """Where nobody tells of transactions, and where there are stable records to read, silence is silence."""

    def silent() -> int:
        raise BrokersUnavailable("BROKERS_UNAVAILABLE", "nobody answers")

    script: dict[int, Step] = {n: brings() for n in range(100)}
    for high_watermark in (silent, lambda: 20):
        with pytest.raises(BrokersUnavailable, match="at offset 3 "):
            World(range(10), 3, 9, script=script, high_watermark=high_watermark).read()


@pytest.mark.parametrize(
    "offsets",
    [(3, 4), (5, 5), (7, 6), (9, 5, 6), (5, 6, 6), (5, 8, 7, 9)],
    ids=["before", "twice", "falling", "back", "repeated", "among gaps"],
)
def test_records_out_of_order_are_an_error(offsets: tuple[int, ...]) -> None:
    """Records before the position, or more of them than their offsets leave room for, fail the range."""
    with pytest.raises(
        ClusterStateError, match=r"\[OFFSETS_OUT_OF_ORDER\] t-2: offsets are not ascending: got .*, expected 5 or more"
    ):
        World(range(10), 5, 10, script={0: brings(*offsets)}).read()


# --- the collector
