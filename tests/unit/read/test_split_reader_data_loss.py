"""Reading a split of a log that has lost records: by retention, truncation, or deletion of the topic."""

from __future__ import annotations

import logging

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, DataLoss, NoLeader, UnknownTopic
from pyspark_zkafka.read.split_reader import Identity
from tests.support.split_logs import WARNING, Step, World, becomes, brings


def test_retention_that_overtakes_the_reader_is_data_loss() -> None:
    """Records removed before they were read fail the range. The error says which, and why."""
    world = World(range(1000), 0, 1000, script={1: becomes(low=700)})
    with pytest.raises(DataLoss) as caught:
        world.read()
    assert caught.value.condition == "DATA_LOSS"
    assert (
        "t-2: records [256, 700) of the range [0, 1000) are gone; the log now begins at 700: retention or a delete "
        "removed the records; set failOnDataLoss to false to continue without them"
    ) in str(caught.value)


def test_retention_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false the read continues at the new start of the log, with a warning."""
    world = World(range(1000), 0, 1000, WARNING, script={1: becomes(low=700)})
    with caplog.at_level(logging.WARNING):
        assert world.read() == [*range(256), *range(700, 1000)]
    assert world.consumer.seeks == [0, 700]
    assert [r.getMessage() for r in caplog.records] == [
        "t-2: records [256, 700) of the range [0, 1000) are gone; the log now begins at 700: retention or a delete "
        "removed the records. Continuing, because failOnDataLoss is false"
    ]


@pytest.mark.parametrize("low", [10, 15])
def test_a_range_that_is_gone_altogether(low: int) -> None:
    """If the log starts at the end of the range or later, no record of the range is left."""
    assert World(range(20), 0, 10, WARNING, low=low).read() == []
    with pytest.raises(DataLoss, match=r"records \[0, 10\) of the range \[0, 10\) are gone"):
        World(range(20), 0, 10, low=low).read()


def test_a_log_cut_below_the_reader_is_data_loss() -> None:
    """A position beyond the end of the log, after an unclean election, fails the range."""
    script: dict[int, Step] = {1: becomes(high=100)}
    with pytest.raises(DataLoss, match=r"records \[256, 1000\) .* are gone; the log now ends at 100: it was truncated"):
        World(range(1000), 0, 1000, script=script).read()
    assert World(range(1000), 0, 1000, WARNING, script=script).read() == list(range(256))


TRUNCATED: dict[int, Step] = {1: brings(out_of_range=True, truncation="log truncation at offset 256, end offset is 100")}


def test_a_truncated_log_that_has_grown_again_is_data_loss() -> None:
    """A truncation below the position fails the range, although the log has grown past that offset again."""
    with pytest.raises(
        DataLoss, match=r"log was truncated below offset 256, .* found: log truncation at offset 256, end offset"
    ):
        World(range(1000), 0, 1000, script=TRUNCATED).read()


def test_a_truncated_log_that_has_grown_again_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a truncated log that has grown again is read from the position on, with a warning."""
    world = World(range(1000), 0, 1000, WARNING, script=TRUNCATED)
    assert world.read() == list(range(1000))
    assert world.consumer.seeks == [0, 256]
    assert "truncated below offset 256" in caplog.text


def test_the_truncation_of_a_log_that_is_still_short_is_data_loss() -> None:
    """A log that ends below the position is reported with its end, however the end was found."""
    script: dict[int, Step] = {1: lambda consumer: becomes(high=100)(consumer) or TRUNCATED[1](consumer)}
    with pytest.raises(DataLoss, match=r"records \[256, 1000\) .* are gone; the log now ends at 100: it was truncated"):
        World(range(1000), 0, 1000, script=script).read()


OTHER_TOPIC: dict[str, Step] = {
    "unknown to its brokers": brings(gone=True),
    "out of range": brings(out_of_range=True),
    "truncated": TRUNCATED[1],
    "shorter": becomes(high=256),
}


@pytest.mark.parametrize(
    ("event", "identity"), [(event, found) for event in OTHER_TOPIC for found in ("deleted", "created again")]
)
def test_a_topic_that_was_replaced_ends_the_range(event: str, identity: Identity) -> None:
    """No record of a topic created again is read, whichever event shows that the planned topic is gone."""
    script = {1: OTHER_TOPIC[event]}
    with pytest.raises(
        DataLoss, match=rf"\[TOPIC_REPLACED\] topic t was {identity} .*: records \[256, 1000\) of t-2 are gone; plan"
    ):
        World(range(1000), 0, 1000, script=script, identities=[identity]).read()
    assert World(range(1000), 0, 1000, WARNING, script=script, identities=[identity]).read() == list(range(256))


def test_a_log_that_stays_too_short_is_data_loss() -> None:
    """A log that ends before `until` and does not grow within the time-out was truncated."""
    world = World(range(3), 0, 6)
    before = world.clock.now
    with pytest.raises(DataLoss, match=r"\[3, 6\) .* are gone; the log ends at 3, and has not grown for 1000 ms: it was"):
        world.read()
    assert 1.0 < world.clock.now - before < 1.2


def test_a_log_that_stays_too_short_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false the remaining records of a truncated log are read, with a warning."""
    assert World(range(3), 0, 6, WARNING).read() == [0, 1, 2]
    assert "the log ends at 3, and has not grown for 1000 ms" in caplog.text


def test_a_deleted_topic_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a deleted topic ends the range with one warning, even if it is created again meanwhile."""
    identities: list[Identity] = ["deleted", "created again"]
    world = World(range(1000), 0, 1000, WARNING, script={1: brings(gone=True)}, identities=identities)
    assert world.read() == list(range(256))
    assert len(caplog.records) == 1
    assert "topic t was deleted after the read was planned: records [256, 1000) of t-2 are gone" in caplog.text


def test_a_topic_deleted_after_its_last_record_is_no_loss() -> None:
    """A range that was read to its end is complete even if the topic was then deleted, but not if it was created again."""
    assert World(range(10), 0, 10, identities=["deleted"]).read() == list(range(10))
    with pytest.raises(DataLoss, match="created again"):
        World(range(10), 0, 10, identities=["created again"]).read()


def test_a_topic_that_is_gone_for_a_moment_is_waited_for() -> None:
    """Requests are repeated while brokers do not know an existing topic, as after a restart."""
    script: dict[int, Step] = {n: brings(gone=True) for n in range(1, 5)}
    assert World(range(300), 0, 300, script=script).read() == list(range(300))


def test_a_topic_that_stays_unknown_to_its_brokers_is_an_error() -> None:
    """If brokers never know a topic that the cluster has, the read times out."""
    script: dict[int, Step] = {n: brings(gone=True, error="UNKNOWN_TOPIC_OR_PART") for n in range(200)}
    with pytest.raises(BrokersUnavailable, match="last error: UNKNOWN_TOPIC_OR_PART"):
        World(range(300), 0, 300, script=script).read()


UNKNOWN = UnknownTopic("UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


def test_watermarks_of_a_partition_unknown_for_a_while() -> None:
    """The bounds of the log are requested again while no leader is known. Then retention is recognised."""
    world = World(range(1000), 0, 1000, WARNING, script={1: becomes(low=700)})
    world.consumer.refusals = [UNKNOWN, NoLeader("NO_LEADER", "NOT_LEADER_FOR_PARTITION"), UNKNOWN]
    assert world.read() == [*range(256), *range(700, 1000)]
    assert world.consumer.refusals == []


def test_watermarks_of_a_partition_that_stays_unknown() -> None:
    """If the bounds of the log stay unavailable, the error is raised after the poll time-out."""
    world = World(range(1000), 0, 1000, script={1: becomes(low=700)})
    world.consumer.refusals, before = [UNKNOWN] * 100, world.clock.now
    with pytest.raises(UnknownTopic, match="_UNKNOWN_PARTITION"):
        world.read()
    assert 1.0 < world.clock.now - before < 1.5


def test_watermarks_of_a_deleted_topic() -> None:
    """If the topic is gone when the bounds of the log are requested, the rest of the range is lost."""
    world = World(range(1000), 0, 1000, WARNING, script={1: becomes(low=700)}, identities=["deleted"])
    world.consumer.refusals = [UNKNOWN]
    assert world.read() == list(range(256))
    world = World(range(1000), 0, 1000, script={1: becomes(low=700)}, identities=["deleted"])
    world.consumer.refusals = [UNKNOWN]
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\] topic t was deleted after the read was planned"):
        world.read()


@pytest.mark.parametrize("high", [3, 0])
def test_a_topic_created_again_is_data_loss(high: int) -> None:
    """A shorter log of a topic created again is recognised at once."""
    world = World(range(1000), 0, 1000, script={1: becomes(high=high)}, identities=["created again"])
    before = world.clock.now
    with pytest.raises(DataLoss, match=r"\[TOPIC_REPLACED\] topic t was created again after the read was planned"):
        world.read()
    assert world.clock.now - before < 0.1


def test_an_open_transaction_is_no_truncation() -> None:
    """With read_committed, an offset in an open transaction that is wrongly out of range is fetched again."""
    script: dict[int, Step] = {0: brings(out_of_range=True), 1: becomes(high=20, records=range(20))}
    assert World(range(5), 7, 9, script=script, high_watermark=lambda: 10).read() == [7, 8]


def test_a_truncation_is_found_by_the_high_watermark() -> None:
    """With read_committed, a position beyond the high watermark is data loss."""
    with pytest.raises(DataLoss, match=r"records \[15, 18\) .* are gone; the log now ends at 10: it was truncated"):
        World(range(5), 15, 18, high_watermark=lambda: 10).read()


def test_a_log_that_ends_before_a_transaction_could_is_data_loss() -> None:
    """With read_committed, a log that ends before `until` and does not grow was truncated."""
    with pytest.raises(DataLoss, match="the log ends at 5, and has not grown for 1000 ms: it was truncated"):
        World(range(5), 3, 9, high_watermark=lambda: 5).read()
