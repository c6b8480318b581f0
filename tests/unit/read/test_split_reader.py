"""Reading a split: the range, batches, and brokers that do not answer or answer wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, DataLoss
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.split_reader import Identity, ReadPolicy
from tests.support.split_logs import FAILING, WARNING, Step, World, becomes, brings

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
    """All visible records of `[start, until)` arrive in order, and no others. Gaps are no data loss."""
    world = World(records, start, until)
    assert world.read() == list(expected)
    assert world.consumer.seeks == [start]


@pytest.mark.parametrize(("records", "high"), [([0, 1, 2], 10), ([], 10), ([0, 1, 2], 9), ([0, 1, 2, 3], 30)])
def test_an_invisible_tail_ends_with_the_log(records: Sequence[int], high: int) -> None:
    """If only invisible records follow, the end of the log ends the range, at once and without loss."""
    world = World(records, 0, min(high, 10), high=high)
    before = world.clock.now
    assert world.read() == list(records)
    assert world.clock.now - before < 0.2


def test_records_past_the_end_are_left_out() -> None:
    """Records after a gap at the end are dropped, and end the range."""
    world = World([0, 1, 8, 9], 0, 5)
    assert world.read() == [0, 1]
    assert world.asked_identity == 1


def test_no_more_is_asked_for_than_is_left() -> None:
    """A poll asks for at most the rest of the range."""
    world = World(range(1000), 0, 300)
    assert len(world.read()) == 300
    assert world.consumer.asked == [256, 44]


def test_identity_is_asked_before_the_last_word() -> None:
    """A topic that was created again during the read is recognised without any other event."""
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\] topic t was created again after the read was planned"):
        World(range(5), 0, 5, identities=["created again"]).read()


def test_identity_is_asked_once_for_ranges_read_together() -> None:
    """A range does not compare the topic if another range of it follows."""
    world = World(range(5), 0, 5, identities=["created again"])
    batches = world.reader.batches()
    assert [offset for batch in batches for offset in batch.column(0).to_pylist()] == list(range(5))
    assert world.asked_identity == 0
    assert not world.reader.is_compared


def test_identity_is_not_asked_where_brokers_compare_it() -> None:
    """The topic is not compared again if each fetch has compared its id."""
    world = World(range(400), 0, 401, high=401, identities=["created again"])
    world.consumer.by_id = True
    assert len(world.read()) == 400
    assert world.asked_identity == 0
    assert world.reader.is_compared


@pytest.mark.parametrize(
    ("step", "identities"),
    [
        (brings(*range(256, 300), by_id=False), ["created again"]),
        (brings(by_id=False, end=300), ["created again"]),
        (brings(gone=True), ["same", "created again"]),
        (brings(out_of_range=True), ["same", "created again"]),
    ],
    ids=["records by name", "end by name", "gone", "out of range"],
)
def test_identity_is_asked_after_a_doubt(step: Step, identities: list[Identity]) -> None:
    """One fetch by name, or an event that another topic may cause, makes the reader compare the topic at the end."""
    world = World(range(300), 0, 300, identities=identities, script={1: step})
    world.consumer.by_id = True
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\]"):
        world.read()
    assert world.asked_identity == len(identities)


def test_policy_of_options() -> None:
    """The options of a read reach its tasks."""
    options = parse_read(
        {
            "zookeeper.connect": "zk1:2181",
            "subscribe": "t",
            "failOnDataLoss": "false",
            "kafkaConsumer.pollTimeoutMs": "1234",
        }
    )
    assert ReadPolicy.of(options) == ReadPolicy(fail_on_data_loss=False, poll_timeout_ms=1234)


def test_slow_brokers_are_waited_for() -> None:
    """Empty polls before the time-out do not end the range."""
    quiet: dict[int, Step] = {n: brings() for n in range(1, 15)}
    world = World(range(400), 0, 400, script=quiet)
    assert world.read() == list(range(400))


def test_the_log_may_end_before_the_range_and_grow_on() -> None:
    """The reader waits if the log ends before `until`, as on a new leader."""
    world = World(range(3), 0, 6, script={5: becomes(high=6, records=range(6))})
    assert world.read() == [0, 1, 2, 3, 4, 5]
    assert world.consumer.seeks == [0]


def test_growth_sets_the_wait_back() -> None:
    """A range does not time out while the log grows, however slowly."""
    script: dict[int, Step] = {15 * n: becomes(high=3 + n, records=range(3 + n)) for n in range(1, 4)}
    assert World(range(3), 0, 6, script=script).read() == [0, 1, 2, 3, 4, 5]


def test_the_time_that_spark_takes_does_not_count() -> None:
    """The time between batches does not count towards the time-out."""
    world = World(range(20), 0, 20, ReadPolicy(poll_timeout_ms=1000, max_records=10))
    batches = world.reader.batches()
    next(batches)
    world.clock.now += 3600
    world.consumer.script[len(world.consumer.asked)] = brings()
    assert [batch.num_rows for batch in batches] == [10]


# --- bounds of batches


@pytest.mark.parametrize(("most", "expected"), [(10, [10, 10, 5]), (25, [25]), (1000, [25]), (1, [1] * 25)])
def test_batches_are_bounded_in_rows(most: int, expected: list[int]) -> None:
    """No batch has more rows than the policy allows, and batches are full while records are available."""
    world = World(range(25), 0, 25, ReadPolicy(max_records=most))
    assert [len(batch) for batch in world.batches()] == expected


def test_batches_are_bounded_in_bytes() -> None:
    """A batch ends with the poll that reaches the bytes allowed."""
    world = World(range(3000), 0, 3000, ReadPolicy(max_bytes=50_000), sizes=lambda offset: 100)
    batches = world.batches()
    assert [offset for batch in batches for offset in batch] == list(range(3000))
    assert len(batches) > 2
    assert all(50_000 <= 100 * len(batch) < 100_000 for batch in batches[1:-1])


# --- silence and mistakes


def test_silent_brokers_are_an_error() -> None:
    """The time-out error names the offset, the leader, and the client's last error."""
    script: dict[int, Step] = {n: brings(error="k1:9092: refused") for n in range(1, 100)}
    world = World(range(1000), 0, 1000, script=script)
    before = world.clock.now
    with pytest.raises(BrokersUnavailable) as caught:
        world.read()
    assert (
        "t-2: no records from the brokers for 1000 ms at offset 256 (planned leader 1, ISR [1, 3], "
        "endpoints k1:9092, k3:9092; last error: k1:9092: refused). Check the brokers, and that "
        "the addresses in their advertised.listeners can be reached from here, or raise "
        "kafkaConsumer.pollTimeoutMs"
    ) in str(caught.value)
    assert 1.0 < world.clock.now - before < 1.2


def test_silence_is_an_error_whatever_data_loss_means() -> None:
    """A time-out is an error also with failOnDataLoss=false."""
    script: dict[int, Step] = {n: brings() for n in range(100)}
    with pytest.raises(BrokersUnavailable, match=r"at offset 0 .* last error: none"):
        World(range(10), 0, 10, WARNING, script=script).read()


def test_silence_after_records_behind_an_end_is_no_truncation() -> None:
    """An end of the log below the records of the same poll is no truncation."""
    script: dict[int, Step] = {0: brings(0, 1, 2, end=2), **{n: brings() for n in range(1, 100)}}
    with pytest.raises(BrokersUnavailable, match="at offset 3 "):
        World(range(10), 0, 10, WARNING, script=script).read()


@pytest.mark.parametrize("policy", [FAILING, WARNING])
def test_silence_after_a_low_end_is_no_truncation(policy: ReadPolicy) -> None:
    """A low end of the log is no loss unless a leader confirms it at the time-out."""
    script: dict[int, Step] = {1: brings(), **{n: brings(error="k1:9092: refused") for n in range(2, 100)}}
    world = World(range(6), 0, 11, policy, script=script)
    world.consumer.refusals = [BrokersUnavailable("BROKERS_UNAVAILABLE", "no leader answers")]
    with pytest.raises(BrokersUnavailable, match=r"at offset 6 .*last error: k1:9092: refused"):
        world.read()


def test_silence_after_growth_is_no_truncation() -> None:
    """After the log has grown past a reported end, a missing answer is a time-out, not a loss."""
    script: dict[int, Step] = {0: brings(0, end=1), 1: brings(1), **{n: brings() for n in range(2, 100)}}
    with pytest.raises(BrokersUnavailable, match="at offset 2 "):
        World(range(10), 0, 10, WARNING, script=script).read()


def test_an_offset_out_of_range_may_be_a_mistake() -> None:
    """An offset out of range is fetched again if the leader has it."""
    world = World(range(300), 0, 300, script={1: brings(out_of_range=True)})
    assert world.read() == list(range(300))
    assert world.consumer.seeks == [0, 256]


def test_an_offset_out_of_range_for_ever_is_an_error() -> None:
    """An offset that stays out of range although the leader has it ends in a time-out."""
    script: dict[int, Step] = {n: brings(out_of_range=True) for n in range(200)}
    with pytest.raises(BrokersUnavailable, match="at offset 0 "):
        World(range(300), 0, 300, script=script).read()


@pytest.mark.parametrize("policy", [FAILING, WARNING])
def test_a_transaction_that_stays_open_is_an_error(policy: ReadPolicy) -> None:
    """Records that do not become stable within the time-out fail the range, even with failOnDataLoss=false."""
    with pytest.raises(
        ClusterStateError, match=r"\[TRANSACTION_OPEN\] t-2: records \[5, 9\) of the range \[3, 9\) are not stab"
    ):
        World(range(5), 3, 9, policy, high_watermark=lambda: 10).read()


def test_silent_brokers_are_no_open_transaction() -> None:
    """A time-out is not blamed on transactions if none is known, or if there are stable records to read."""

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
    """Records before the position, or more records than offsets, fail the range."""
    with pytest.raises(
        ClusterStateError, match=r"\[OFFSETS_OUT_OF_ORDER\] t-2: offsets are not ascending: got .*, expected 5 or more"
    ):
        World(range(10), 5, 10, script={0: brings(*offsets)}).read()
