"""Start and end of a read, resolved against a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from pyspark_zkafka.errors import ClusterStateError, OptionError
from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import (
    EARLIEST,
    LATEST,
    Ago,
    AtTimestamp,
    FromEdge,
    NamedPosition,
    OffsetSpec,
    Outside,
    Position,
    Resolution,
    canonical_json,
    is_behind,
)
from pyspark_zkafka.model.offsets import resolve as resolve_with
from pyspark_zkafka.retries import Retry

resolve = partial(resolve_with, retry=Retry(0, 0.0, lambda s: None))
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_canonical_json_of_nothing() -> None:
    """No offsets give an empty object, and names are not escaped."""
    assert canonical_json({}) == "{}"
    assert canonical_json({TopicPartition("tä", 0): 1}) == '{"tä":{"0":1}}'


def test_partition_wins_over_topic_and_topic_over_everywhere() -> None:
    """The most specific position takes precedence, even if it is 0."""
    spec = OffsetSpec("o", everywhere=7, by_topic={"a": LATEST}, by_partition={A1: 0})
    assert [spec.of(tp) for tp in (A0, A1, B0)] == [LATEST, 0, 7]


@dataclass
class Log:
    """A log `[earliest, latest)` with the timestamps of its records."""

    earliest: int
    latest: int
    times: dict[int, int] = field(default_factory=dict)  # offset -> ms
    high_watermark: int | None = None  # the end with open transactions, if later than latest

    def at(self, position: Position) -> int:
        if isinstance(position, AtTimestamp):
            return min((o for o, ms in self.times.items() if ms >= position.timestamp_ms), default=-1)
        return {EARLIEST: self.earliest, LATEST: self.latest}[position]


class FakeLogs:
    """Logs that do not change, with a list of the requests."""

    def __init__(self, logs: Mapping[TopicPartition, Log], committed: Mapping[TopicPartition, int] | None = None) -> None:
        self.logs = logs
        self.offsets = dict(committed or {})
        self.asked: list[dict[TopicPartition, Position]] = []
        self.asked_high: list[list[TopicPartition]] = []
        self.timeouts_s: list[float] = []

    def list_offsets(self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> dict[TopicPartition, int]:
        self.asked.append(dict(wanted))
        self.timeouts_s.append(timeout_s)
        return {tp: self.logs[tp].at(position) for tp, position in wanted.items()}

    def high_watermarks(self, partitions: Collection[TopicPartition], timeout_s: float = 0) -> dict[TopicPartition, int]:
        self.asked_high.append(list(partitions))
        self.timeouts_s.append(timeout_s)
        found = {tp: self.logs[tp].high_watermark for tp in partitions}
        return {tp: high for tp, high in found.items() if high is not None}


def log() -> Log:
    """Return the log `[10, 20)`, with one record per second from 10 s on."""
    return Log(10, 20, {offset: offset * 1000 for offset in range(10, 20)})


def everywhere(position: Any, option: str = "o") -> OffsetSpec:
    return OffsetSpec(option, everywhere=position)


def of_a0(position: NamedPosition, option: str = "o") -> OffsetSpec:
    return OffsetSpec(option, by_partition={A0: position})


STARTS: dict[str, tuple[OffsetSpec, int]] = {
    "earliest": (everywhere(EARLIEST), 10),
    "exact": (of_a0(13), 13),
    "exact at the end": (of_a0(20), 20),
    "timestamp": (everywhere(AtTimestamp(14_500)), 15),
    "timestamp of a partition": (of_a0(AtTimestamp(12_000)), 12),
    "timestamp before all": (everywhere(AtTimestamp(0)), 10),
    "committed": (everywhere("committed"), 16),
}
ENDS: dict[str, tuple[OffsetSpec, int]] = {
    "latest": (everywhere(LATEST), 20),
    "exact": (of_a0(18), 18),
    "exact latest": (of_a0(LATEST), 20),
    "timestamp": (everywhere(AtTimestamp(17_000)), 17),
    "timestamp of a partition": (of_a0(AtTimestamp(18_001)), 19),
    "timestamp after all": (everywhere(AtTimestamp(99_000)), 20),
}


PAIRS = [(start, end) for start in STARTS for end in ENDS if (start, end) != ("exact at the end", "exact")]


@pytest.mark.parametrize(("start", "end"), PAIRS)
def test_every_start_meets_every_end(start: str, end: str) -> None:
    """Each form of start works with each form of end, and an end before the start in time gives an empty range.

    Offsets are requested twice, and a third time only if a timestamp needs the log's end.
    """
    (start_spec, begin), (end_spec, until) = STARTS[start], ENDS[end]
    logs = FakeLogs({A0: log()}, {A0: 16})
    found = resolve([A0], start_spec, end_spec, logs, committed=logs.offsets)
    assert found.ranges == (OffsetRange(A0, begin, max(begin, until)),)
    assert found.outside == ()
    start_may_be_past_log = start == "exact at the end" and end.startswith("timestamp")
    assert len(logs.asked) == (3 if end == "timestamp after all" or start_may_be_past_log else 2)


def test_a_record_that_arrives_while_offsets_are_requested() -> None:
    """A start at a timestamp that no record reaches does not skip a record that arrives before the log's end is known."""

    class Growing(FakeLogs):
        def list_offsets(
            self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0
        ) -> dict[TopicPartition, int]:
            found = super().list_offsets(wanted)
            self.logs[A0].times[self.logs[A0].latest] = 50_000
            self.logs[A0].latest += 1
            return found

    start = everywhere(AtTimestamp(50_000))
    found = resolve([A0], start, everywhere(LATEST), Growing({A0: log()}), no_match="latest")
    assert found.ranges[0].start == 20


def test_third_request_asks_only_for_open_partitions() -> None:
    """Only partitions whose end is after all records are requested again."""
    logs = FakeLogs({A0: log(), A1: Log(0, 5, {4: 50_000}), B0: Log(3, 3)})
    found = resolve([A0, A1, B0], everywhere(EARLIEST), everywhere(AtTimestamp(30_000)), logs)
    assert logs.asked[2:] == [{A0: LATEST, B0: LATEST}]
    assert found.ranges == (OffsetRange(A0, 10, 20), OffsetRange(A1, 0, 4), OffsetRange(B0, 3, 3))


def test_ranges_keep_the_given_order() -> None:
    """Ranges are in the order of the given partitions."""
    logs = FakeLogs({tp: log() for tp in (A0, A1, B0)})
    found = resolve([B0, A1, A0], everywhere(EARLIEST), everywhere(LATEST), logs)
    assert [r.partition for r in found.ranges] == [B0, A1, A0]


@pytest.mark.parametrize(
    ("start", "end", "expected", "outside"),
    [
        (3, LATEST, (10, 20), [("starting", 3)]),
        (25, LATEST, (20, 20), [("starting", 25)]),
        (20, LATEST, (20, 20), []),
        (10, 20, (10, 20), []),
        (15, 15, (15, 15), []),
        (EARLIEST, 25, (10, 20), [("ending", 25)]),
        (EARLIEST, 20, (10, 20), []),
        (EARLIEST, 10, (10, 10), []),
        (EARLIEST, 4, (10, 10), []),
        (3, 25, (10, 20), [("starting", 3), ("ending", 25)]),
        (3, 5, (10, 10), [("starting", 3)]),
        (22, 25, (20, 20), [("starting", 22), ("ending", 25)]),
        (25, AtTimestamp(15_000), (20, 20), [("starting", 25)]),
        (25, AtTimestamp(99_000), (20, 20), [("starting", 25)]),
        (18, AtTimestamp(15_000), (18, 18), []),
        (3, AtTimestamp(15_000), (10, 15), [("starting", 3)]),
        (AtTimestamp(15_000), 12, (15, 15), []),
    ],
)
def test_offsets_outside_the_log_are_moved_and_reported(
    start: Position, end: Position, expected: tuple[int, int], outside: list[tuple[Any, int]]
) -> None:
    """An exact offset outside the log is moved to the nearer end and reported."""
    found = resolve([A0], of_a0(start), of_a0(end), FakeLogs({A0: log()}))
    assert found.ranges == (OffsetRange(A0, *expected),)
    assert found.outside == tuple(Outside(A0, bound, offset, 10, 20) for bound, offset in outside)


def test_committed_offset_outside_the_log_is_reported() -> None:
    """A committed offset outside the log is moved and reported like an exact one."""
    logs = FakeLogs({A0: log(), A1: log()}, {A0: 2, A1: 30})
    found = resolve([A0, A1], everywhere("committed"), everywhere(LATEST), logs, committed=logs.offsets)
    assert found.ranges == (OffsetRange(A0, 10, 20), OffsetRange(A1, 20, 20))
    assert [str(o) for o in found.outside] == [
        "a-0: starting offset 2 is outside the log, which spans [10, 20)",
        "a-1: starting offset 30 is outside the log, which spans [10, 20)",
    ]


@pytest.mark.parametrize(
    ("start", "end", "expected", "requests"),
    [
        (EARLIEST, AtTimestamp(0), (0, 0), 2),
        (AtTimestamp(0), LATEST, (0, 5), 2),
        (AtTimestamp(0), AtTimestamp(0), (0, 0), 2),
        (0, 0, (0, 0), 2),
        (EARLIEST, 0, (0, 0), 2),
        (3, AtTimestamp(0), (3, 3), 3),
    ],
)
def test_the_first_record_of_a_topic(start: Position, end: Position, expected: tuple[int, int], requests: int) -> None:
    """Offset 0 is an offset like any other: of an exact position, and of the first record at a timestamp."""
    logs = FakeLogs({A0: Log(0, 5, {offset: offset * 1000 for offset in range(5)})})
    assert resolve([A0], of_a0(start), of_a0(end), logs) == Resolution((OffsetRange(A0, *expected),))
    assert len(logs.asked) == requests
    assert logs.asked_high == []


def test_an_empty_log_needs_no_more_requests() -> None:
    """The end of a log without records is not requested again."""
    logs = FakeLogs({A0: Log(0, 0)})
    assert resolve([A0], everywhere(EARLIEST), everywhere(LATEST), logs) == Resolution((OffsetRange(A0, 0, 0),))
    assert len(logs.asked) == 2
    assert logs.asked_high == []


def test_the_time_out_limits_each_request() -> None:
    """Every request has the caller's time-out: for edges, timestamps, open transactions and retries."""
    logs = FakeLogs({tp: log() for tp in (A0, A1, B0)})
    start = OffsetSpec("s", by_partition={A0: FromEdge(EARLIEST, 2), A1: 25, B0: EARLIEST})
    end = OffsetSpec("e", everywhere=LATEST, by_partition={B0: AtTimestamp(99_000)})
    found = resolve_with([A0, A1, B0], start, end, logs, retry=Retry(1, 0.0, lambda _: None), timeout_s=7.0)
    assert found.ranges == (OffsetRange(A0, 12, 20), OffsetRange(A1, 20, 20), OffsetRange(B0, 10, 20))
    assert [len(logs.asked), len(logs.asked_high)] == [6, 2]
    assert logs.timeouts_s == [7.0] * 8


def unstable() -> Log:
    """Return the log `[10, 20)`, with open transactions up to 30."""
    return replace(log(), high_watermark=30)


@pytest.mark.parametrize(
    ("start", "end", "expected", "outside"),
    [
        (25, LATEST, (25, 25), []),
        (30, LATEST, (30, 30), []),
        (31, LATEST, (30, 30), [("starting", 31)]),
        (20, LATEST, (20, 20), []),
        (15, 25, (15, 25), []),
        (EARLIEST, 31, (10, 30), [("ending", 31)]),
        (25, 28, (25, 28), []),
        (25, AtTimestamp(15_000), (25, 25), []),
        (25, AtTimestamp(99_000), (25, 25), []),
        (LATEST, LATEST, (20, 20), []),
    ],
)
def test_open_transactions_are_inside_the_log(
    start: Position, end: Position, expected: tuple[int, int], outside: list[tuple[Any, int]]
) -> None:
    """An exact offset among open transactions is kept; `latest` and timestamps after all records stop before them."""
    found = resolve([A0], of_a0(start), of_a0(end), FakeLogs({A0: unstable()}))
    assert found.ranges == (OffsetRange(A0, *expected),)
    assert found.outside == tuple(Outside(A0, bound, offset, 10, 30) for bound, offset in outside)


def test_open_transactions_are_asked_for_only_where_they_matter() -> None:
    """Open transactions are requested only for partitions with an offset after the latest."""
    logs = FakeLogs({A0: unstable(), A1: unstable(), B0: unstable()}, {A0: 20, A1: 21, B0: 3})
    resolve([A0, A1, B0], everywhere("committed"), everywhere(LATEST), logs, committed=logs.offsets)
    assert logs.asked_high == [[A1]]
    still = FakeLogs({A0: unstable()}, {A0: 20})
    resolve([A0], everywhere("committed"), everywhere(LATEST), still, committed=still.offsets)
    assert still.asked_high == []


def elected(logs: FakeLogs, after: Log, pauses: list[float]) -> Callable[[float], None]:
    """Return a sleep whose second call lets the log's new leader learn its end."""

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            logs.logs[A0] = after

    return sleep


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (18, LATEST, (18, 20)),
        (18, 19, (18, 19)),
        (11, 19, (11, 19)),
        (18, AtTimestamp(15_000), (18, 18)),
        (18, AtTimestamp(99_000), (18, 20)),
    ],
)
def test_the_end_of_a_new_leader_is_asked_for_again(start: Position, end: Position, expected: tuple[int, int]) -> None:
    """An offset beyond the log's end is no loss if the newly elected leader soon reports a later end."""
    logs, pauses = FakeLogs({A0: replace(log(), latest=13)}), list[float]()
    found = resolve_with([A0], of_a0(start), of_a0(end), logs, retry=Retry(3, 0.5, elected(logs, log(), pauses)))
    assert found == Resolution((OffsetRange(A0, *expected),))
    assert pauses == [0.5] * 2


def test_the_end_of_open_transactions_is_asked_for_again() -> None:
    """With read_committed, a new leader's end of open transactions is requested again, too."""
    logs, pauses = FakeLogs({A0: replace(log(), latest=13, high_watermark=13)}), list[float]()
    retry = Retry(3, 0.5, elected(logs, replace(log(), latest=17, high_watermark=20), pauses))
    assert resolve_with([A0], of_a0(18), everywhere(LATEST), logs, retry=retry) == Resolution((OffsetRange(A0, 18, 18),))


def test_only_offsets_beyond_the_end_are_confirmed() -> None:
    """Only ends of partitions with an offset beyond the end are requested again, and the last retry counts."""
    logs, pauses = FakeLogs({A0: log(), A1: log()}, {A0: 20, A1: 21}), list[float]()
    retry = Retry(2, 0.5, pauses.append)
    found = resolve_with([A0, A1], everywhere("committed"), everywhere(LATEST), logs, committed=logs.offsets, retry=retry)
    assert logs.asked[2:] == [{A1: LATEST}] * 2
    assert found.outside == (Outside(A1, "starting", 21, 10, 20),)
    assert pauses == [0.5] * 2


@pytest.mark.parametrize("end", [LATEST, 20, AtTimestamp(19_000), AtTimestamp(99_000)])
def test_start_after_all_records_is_an_error_by_default(end: Position) -> None:
    """If no record reaches a starting timestamp, the plan fails with the names of the partitions."""
    logs = FakeLogs({A0: log(), A1: Log(0, 0)})
    start, ending = everywhere(AtTimestamp(19_000)), everywhere(end)
    with pytest.raises(ClusterStateError, match=r"\[NO_OFFSET_FOR_TIMESTAMP\].* in a-1; .*Strategy to latest"):
        resolve([A0, A1], start, ending, logs)


@pytest.mark.parametrize(("end", "requests"), [(LATEST, 2), (20, 2), (12, 2), (AtTimestamp(99_000), 3)])
def test_start_after_all_records_may_mean_latest(end: Position, requests: int) -> None:
    """With the strategy latest, a partition without a record at the starting timestamp reads nothing."""
    logs = FakeLogs({A0: log()})
    found = resolve([A0], everywhere(AtTimestamp(50_000)), everywhere(end), logs, no_match="latest")
    assert [r.size for r in found.ranges] == [0]
    assert 10 <= found.ranges[0].start <= 20
    assert found.outside == ()
    assert len(logs.asked) == requests


@pytest.mark.parametrize(("reset", "start"), [(None, 20), ("latest", 20), ("earliest", 10)])
def test_partition_without_committed_offset_is_reset(reset: Any, start: int) -> None:
    """A partition without a committed offset starts by the reset policy, which defaults to latest."""
    logs = FakeLogs({A0: log(), A1: log()}, {A0: 0})
    found = resolve([A0, A1], everywhere("committed"), everywhere(LATEST), logs, committed=logs.offsets, reset=reset)
    assert found.ranges[1] == OffsetRange(A1, start, 20)
    assert found.ranges[0] == OffsetRange(A0, 10, 20), "offset 0 is a committed offset"


def test_reset_may_be_an_error() -> None:
    """With the policy error, the error names all partitions without an offset."""
    logs = FakeLogs({A0: log(), A1: log(), B0: log()}, {A1: 12})
    with pytest.raises(ClusterStateError, match=r"\[NO_COMMITTED_OFFSET\] No offset is known for a-0, b-0, and"):
        resolve([B0, A1, A0], everywhere("committed"), everywhere(LATEST), logs, committed=logs.offsets, reset="error")
    assert logs.asked == []


@pytest.mark.parametrize(("reset", "start"), [("latest", 20), ("earliest", 10)])
def test_reset_serves_partitions_that_the_start_does_not_name(reset: Any, start: int) -> None:
    """A partition that startingOffsets leaves out starts by the reset policy, if one is given."""
    found = resolve([A0, A1], of_a0(15), everywhere(LATEST), FakeLogs({A0: log(), A1: log()}), reset=reset)
    assert found.ranges == (OffsetRange(A0, 15, 20), OffsetRange(A1, start, 20))


def test_reset_error_serves_partitions_that_the_start_does_not_name() -> None:
    """With the policy error, a partition that startingOffsets leaves out fails the plan."""
    with pytest.raises(ClusterStateError, match=r"No offset is known for a-1, and auto\.offset\.reset is error"):
        resolve([A0, A1], of_a0(15), everywhere(LATEST), FakeLogs({A0: log(), A1: log()}), reset="error")


@pytest.mark.parametrize(("start", "end"), [(15, 14), (1, 0), (8, 6), (30, 25)])
def test_start_after_end_is_an_error(start: int, end: int) -> None:
    """An explicit start after an explicit end is refused, whatever the log contains."""
    with pytest.raises(OptionError, match=rf"\[START_AFTER_END\] a-0 starts at {start} and ends at {end}; "):
        resolve([A0], of_a0(start), of_a0(end), FakeLogs({A0: log()}))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (FromEdge(LATEST, -3), LATEST, (17, 20)),
        (FromEdge(LATEST, -100), LATEST, (10, 20)),
        (FromEdge(EARLIEST, 4), LATEST, (14, 20)),
        (FromEdge(EARLIEST, 100), LATEST, (20, 20)),
        (EARLIEST, FromEdge(LATEST, -3), (10, 17)),
        (12, FromEdge(EARLIEST, 4), (12, 14)),
        (FromEdge(LATEST, -5), FromEdge(LATEST, -2), (15, 18)),
        (FromEdge(EARLIEST, 8), FromEdge(LATEST, -8), (18, 18)),
        (FromEdge(LATEST, 0), FromEdge(LATEST, 0), (20, 20)),
        (AtTimestamp(14_500), FromEdge(LATEST, -1), (15, 19)),
    ],
)
def test_a_number_of_records_from_an_edge(start: NamedPosition, end: NamedPosition, expected: tuple[int, int]) -> None:
    """Records are counted from an edge of the log, but never beyond the other edge."""
    logs = FakeLogs({A0: log(), B0: Log(0, 5)})
    found = resolve(
        [A0, B0], of_a0(start, "s") if start != LATEST else everywhere(start), everywhere(end), logs, reset="earliest"
    )
    assert found.ranges[0] == OffsetRange(A0, *expected)
    assert found.outside == ()


def test_retention_after_an_edge_was_found() -> None:
    """Records that retention removes during the resolution are no loss if the start is relative to the log's edge."""
    logs = FakeLogs({A0: log()})
    whole = logs.list_offsets

    def shrinking(wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> dict[TopicPartition, int]:
        found = whole(wanted, timeout_s)
        if len(logs.asked) == 2:
            logs.logs = {A0: Log(15, 20)}
        return found

    logs.list_offsets = shrinking  # type: ignore[method-assign]
    found = resolve([A0], everywhere(FromEdge(EARLIEST, 2)), everywhere(LATEST), logs)
    assert found == Resolution((OffsetRange(A0, 15, 20),))


def test_times_before_the_plan() -> None:
    """A time relative to the plan is converted to a timestamp once, not before 1970."""
    spec = OffsetSpec("o", everywhere=Ago(1000), by_topic={"b": LATEST}, by_partition={A0: Ago(99), A1: 7})
    expected = OffsetSpec("o", AtTimestamp(0), {"b": LATEST}, {A0: AtTimestamp(401), A1: 7})
    assert spec.at(500) == expected


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        (FromEdge(LATEST, -1), FromEdge(LATEST, -2), "starts at latest-1 and ends at latest-2"),
        (FromEdge(EARLIEST, 2), FromEdge(EARLIEST, 1), "starts at earliest+2 and ends at earliest+1"),
        (Ago(1), Ago(2), "starts at 1 ms ago and ends at 2 ms ago"),
    ],
)
def test_start_after_end_in_every_log(start: NamedPosition, end: NamedPosition, says: str) -> None:
    """A start that is after the end in every log is refused before any request."""
    with pytest.raises(OptionError) as caught:
        resolve([A0], everywhere(start), everywhere(end), FakeLogs({}))
    assert caught.value.message == f"a-0 {says}; set a start that is not after the end"


@pytest.mark.parametrize("position", [15, LATEST, AtTimestamp(5), Ago(5), FromEdge(LATEST, -5)], ids=str)
@pytest.mark.parametrize("end", [LATEST, AtTimestamp(9), Ago(5), FromEdge(LATEST, -5)], ids=str)
def test_starts_that_may_be_before_the_end(position: NamedPosition, end: NamedPosition) -> None:
    """A start is not after an equal end, nor after an end of another kind, which may be later."""
    assert not is_behind(position, position)
    assert not is_behind(position, end)


@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        (EARLIEST, None, "an end is never committed, and names each partition"),
        (EARLIEST, "committed", "an end is never committed, and names each partition"),
        (Ago(1), LATEST, r"a time before the plan is resolved by OffsetSpec\.at first"),
    ],
)
def test_ends_that_callers_must_not_pass(start: Any, end: Any, says: str) -> None:
    """A caller that passes an end without a position, or a time that depends on the present, gets a TypeError."""
    with pytest.raises(TypeError, match=f"^{says}$"):
        resolve([A0], everywhere(start), everywhere(end), FakeLogs({A0: log()}))


def test_start_after_end_in_time_is_an_error() -> None:
    """A starting timestamp after the ending timestamp is refused."""
    with pytest.raises(OptionError, match="a-0 starts at timestamp 15000 and ends at timestamp 14999; "):
        resolve([A0], of_a0(AtTimestamp(15_000)), of_a0(AtTimestamp(14_999)), FakeLogs({A0: log()}))


def test_committed_behind_the_end_is_empty() -> None:
    """A committed start after an explicit end reads nothing, since a batch may be repeated."""
    logs = FakeLogs({A0: log()}, {A0: 15})
    assert resolve([A0], everywhere("committed"), of_a0(12), logs, committed=logs.offsets).ranges[0].size == 0


@pytest.mark.parametrize(("start", "end"), [(12, LATEST), ("committed", AtTimestamp(99_000))], ids=str)
def test_thousands_of_partitions_take_no_time(start: Any, end: Position) -> None:
    """Resolution is linear in the number of partitions, even if each is named or has no offset."""
    partitions = [TopicPartition("t", n) for n in range(20_000)]
    logs = FakeLogs(dict.fromkeys(partitions, log()))
    spec = everywhere(start) if start == "committed" else OffsetSpec("s", by_partition=dict.fromkeys(partitions, start))
    assert len(resolve(partitions, spec, everywhere(end), logs, committed=logs.offsets).ranges) == 20_000


def test_a_record_that_arrives_while_an_end_is_asked_for_again() -> None:
    """A start at a time that no record reaches is the log's first end, so records that arrive meanwhile are read."""
    logs = FakeLogs({A0: Log(0, 50)})

    def grow(_: float) -> None:
        logs.logs = {A0: Log(0, 100, {60: 2000})}

    start, retry = everywhere(AtTimestamp(1500)), Retry(3, 0.01, grow)
    assert resolve([A0], start, everywhere(100), logs, retry=retry, no_match="latest").ranges == (OffsetRange(A0, 50, 100),)
