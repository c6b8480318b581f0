"""``zkafka groups reset-offsets`` with fake logs, a fake ensemble and fake brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import (
    BrokersUnavailable,
    ClusterStateError,
    CodecError,
    GroupContended,
    GroupError,
    NoLeader,
)
from pyspark_zkafka.inspect.groups import OffsetsStorage
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, AtTimestamp
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.command import parse_partitions
from pyspark_zkafka.tools.group_reset import (
    OffsetResets,
    Scenario,
    ShiftBy,
    clamp,
    list_offsets,
    plan_offsets,
    reset_offsets,
)
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers, active, raising
from tests.support.running import Run, Show

pytestmark = pytest.mark.usefixtures("memberless")

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"
NO_LEADER = NoLeader("NO_LEADER", "t-1 has no leader")


LOGS = {T0: (10, 100), T1: (0, 50)}


def logs(bounds: dict[TopicPartition, tuple[int, int]] = LOGS) -> Callable[..., dict[TopicPartition, int]]:
    """Return the function that finds positions in logs, where the record at offset n has the timestamp n."""
    return lambda wanted: GroupBrokers(bounds).list_offsets_each(wanted)[0]


@pytest.mark.parametrize(
    ("scenario", "offsets"),
    [
        (EARLIEST, {T0: 10, T1: 0}),
        (LATEST, {T0: 100, T1: 50}),
        (AtTimestamp(5), {T0: 10, T1: 5}),
        (AtTimestamp(70), {T0: 70, T1: 50}),
        (60, {T0: 60, T1: 50}),
        (5, {T0: 10, T1: 5}),
        (ShiftBy(-30), {T0: 10, T1: 0}),
        (ShiftBy(1000), {T0: 100, T1: 50}),
        ("current", {T0: 20, T1: 5}),
        ({T1: 7}, {T1: 7}),
    ],
)
def test_scenarios_of_values(scenario: Scenario, offsets: dict[TopicPartition, int]) -> None:
    """Each scenario sets the partitions to offsets within their logs, and a file sets only the partitions it names."""
    assert plan_offsets(scenario, [T0, T1], {T0: 20, T1: 5}, logs())[0] == offsets


def test_to_current_without_an_offset() -> None:
    """A partition without an offset is set to the latest, and the others stay, even outside the log."""
    assert plan_offsets("current", [T0, T1], {T0: 5}, logs({T1: (0, 50)})) == ({T0: 5, T1: 50}, [])


def test_nothing_to_shift() -> None:
    """A partition without an offset cannot be shifted, and the error names it."""
    with pytest.raises(ClusterStateError, match=r"NO_COMMITTED_OFFSET.*t-1 cannot be shifted"):
        plan_offsets(ShiftBy(1), [T0, T1], {T0: 20}, logs())


def test_warnings_are_those_of_kafka() -> None:
    """Offsets outside the log and times after the last record are reported in Kafka's words."""
    earliest, latest = {T0: 10, T1: 0}, {T0: 100, T1: 50}
    assert clamp({T0: 500, T1: 7}, earliest, latest)[1] == [
        "New offset (500) is higher than latest offset for topic partition t-0. Value will be set to 100"
    ]
    assert clamp({T0: 5}, earliest, latest)[1] == [
        "New offset (5) is lower than earliest offset for topic partition t-0. Value will be set to 10"
    ]
    assert plan_offsets(AtTimestamp(70), [T0, T1], {}, logs())[1] == [
        "Partition 1 from topic t has no record at or after that time. Falling back to latest known offset."
    ]


@given(st.integers(-(2**63), 2**63), st.integers(0, 1000), st.integers(0, 1000))
def test_no_reset_leaves_the_log(offset: int, start: int, length: int) -> None:
    """A reset offset is always within the log, and a warning tells if it differs from the requested one."""
    log = logs({T0: (start, start + length)})
    for scenario in (offset, ShiftBy(offset), {T0: offset}):
        offsets, warnings = plan_offsets(scenario, [T0], {T0: start}, log)
        assert start <= offsets[T0] <= start + length
        assert bool(warnings) == (offsets[T0] != (offset + start if isinstance(scenario, ShiftBy) else offset))


# --- in the stores --------------------------------------------------------------------------------------------------


ENDS = {T0: (10, 100), T1: (0, 20)}
Resets = Callable[[OffsetsStorage], OffsetResets]
UNREACHABLE = BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")


@pytest.fixture
def stored() -> EnsembleClient:
    """An ensemble with a topic, and a group that has one offset in it."""
    stored = EnsembleClient()
    stored.put_topic("t", partitions=2)
    stored.put(PATH_0, b"50")
    return stored


@pytest.fixture
def brokers() -> GroupBrokers:
    """Brokers of the topic, with the group's offset in the other partition."""
    return GroupBrokers(ENDS, {"g": {T1: 5}})


@pytest.fixture
def resets(stored: EnsembleClient, brokers: Any) -> Resets:
    """A factory of resets in a store: ``resets("kafka")``."""
    return lambda storage: OffsetResets(storage, stored, brokers)


@pytest.mark.parametrize(("storage", "offsets"), [("zookeeper", {T0: 10}), ("kafka", {T1: 0}), ("both", {T0: 10, T1: 0})])
def test_partitions_of_the_stores(resets: Resets, storage: OffsetsStorage, offsets: dict[TopicPartition, int]) -> None:
    """Without a scope, the partitions are those with an offset in the store, or in either of both stores."""
    assert resets(storage).plan("g", None, EARLIEST).offsets == offsets


def test_shift_that_is_contended(resets: Resets, stored: EnsembleClient) -> None:
    """The error of a shift that another client interferes with warns of repeating the shift."""
    found = resets("zookeeper")
    planned = found.plan("g", parse_partitions(["t:0"]), ShiftBy(1))
    stored.put(PATH_0, b"7")
    with pytest.raises(GroupContended, match=r"OFFSETS_CHANGED.*repeated, --shift-by would shift offsets again that are"):
        found.apply(planned)


@pytest.mark.parametrize(
    "trouble",
    [
        {"refused": {T1: ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")}},
        {"before_change": raising(GroupError("GROUP_ACTIVE", "consumers are active; stop them, and run this again"))},
    ],
    ids=["refused in part", "stopped"],
)
def test_shift_that_kafka_stops(stored: EnsembleClient, trouble: dict[str, Any]) -> None:
    """The error of a shift that brokers stop or refuse in part warns of repeating the shift, because some are written."""
    kafka = OffsetResets("kafka", stored, GroupBrokers(ENDS, {"g": {T0: 60, T1: 5}}, **trouble))
    with pytest.raises(GroupError, match="repeated, --shift-by would shift offsets again that are written"):
        kafka.apply(kafka.plan("g", None, ShiftBy(1)))


def test_shift_of_two_stores(resets: Resets, brokers: GroupBrokers) -> None:
    """A shift starts at the larger offset of two stores, where consumers with dual commits continue."""
    brokers.stored["g"][T0] = 60
    assert resets("both").plan("g", parse_partitions(["t:0"]), ShiftBy(1)).offsets == {T0: 61}


@pytest.mark.parametrize(
    ("storage", "note"),
    [
        ("zookeeper", ["Kafka has higher offsets of t-0, where consumers that commit to both stores continue"]),
        ("kafka", ["ZooKeeper has higher offsets of t-0, where consumers that commit to both stores continue"]),
        ("both", []),
    ],
)
def test_higher_offset_in_the_other_store(
    resets: Resets, brokers: GroupBrokers, storage: OffsetsStorage, note: list[str]
) -> None:
    """A reset of one store does not set back consumers that also have a higher offset in the other one."""
    brokers.stored["g"] = {T0: 60, T1: 0}
    found = resets(storage).plan("g", parse_partitions(["t:0"]), 30)
    assert [text.partition(". ")[0] for text in found.notes if "stores" in text] == note


def test_unknown_offsets_in_the_other_store(stored: EnsembleClient) -> None:
    """Offsets in ZooKeeper are reset without a coordinator, and a note says that Kafka's are unknown."""
    found = OffsetResets("zookeeper", stored, GroupBrokers(ENDS, unread={"g": UNREACHABLE})).plan("g", None, EARLIEST)
    assert found.notes == ("Whether Kafka has offsets of the group, too, is unknown: no broker answered.",)


def test_gone_partitions(resets: Resets, stored: EnsembleClient) -> None:
    """Offsets of partitions that no longer exist stay, with a note."""
    stored.put("/consumers/g/offsets/gone/0", b"1")
    planned = resets("zookeeper").plan("g", None, EARLIEST)
    assert planned.offsets == {T0: 10}
    assert planned.notes == ("Left as they are: the offsets of gone-0, which do not exist any more.",)


def test_group_without_offsets(resets: Resets) -> None:
    """A group without offsets needs named topics, and a note says that it has no offsets."""
    zookeeper = resets("zookeeper")
    with pytest.raises(GroupError, match=r"\[UNKNOWN_GROUP\] The group has no offsets to reset"):
        zookeeper.plan("new", None, EARLIEST)
    assert zookeeper.plan("new", parse_partitions(["t"]), EARLIEST).notes == ("The group has no offsets yet.",)


def test_partitions_of_a_file(resets: Resets) -> None:
    """A file names the partitions, which must exist."""
    zookeeper = resets("zookeeper")
    assert zookeeper.plan("g", None, {T1: 7}).offsets == {T1: 7}
    with pytest.raises(ClusterStateError, match="t-9"):
        zookeeper.plan("g", None, {TopicPartition("t", 9): 7})


def test_unreadable_offset(resets: Resets, stored: EnsembleClient) -> None:
    """An unreadable offset prevents a shift, but no scenario that does not need it."""
    stored.put(PATH_0, b"five")
    zookeeper = resets("zookeeper")
    with pytest.raises(CodecError):
        zookeeper.plan("g", parse_partitions(["t"]), ShiftBy(1))
    assert zookeeper.plan("g", parse_partitions(["t:0"]), EARLIEST).offsets == {T0: 10}


def test_active_in_zookeeper(resets: Resets, stored: EnsembleClient) -> None:
    """A member in ZooKeeper prevents a reset in Kafka, too, since it may commit there."""
    stored.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match=r"GROUP_ACTIVE\] The offsets were not reset: group g must be inactive"):
        resets("kafka").plan("g", None, EARLIEST)


@pytest.mark.parametrize(("storage", "is_refused"), [("zookeeper", False), ("kafka", True), ("both", True)])
def test_active_in_kafka(resets: Resets, brokers: GroupBrokers, storage: OffsetsStorage, is_refused: bool) -> None:
    """Members that Kafka coordinates prevent a reset of offsets in Kafka."""
    brokers.states["g"] = active(1)
    wanted = resets(storage)
    if is_refused:
        with pytest.raises(GroupError, match="the current state is Stable, with 1 member"):
            wanted.plan("g", None, EARLIEST)
    else:
        wanted.plan("g", None, EARLIEST)


def test_partly_refused(resets: Resets, brokers: GroupBrokers) -> None:
    """If brokers refuse some partitions, the error names them and says that the others are written."""
    brokers.refused = {T1: ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")}
    kafka = resets("kafka")
    with pytest.raises(GroupError, match=r"refused the offsets of 1 of 2 partition\(s\) of group g, t-1, the others are"):
        kafka.apply(kafka.plan("g", parse_partitions(["t"]), LATEST))


@pytest.mark.parametrize("place", ["zookeeper", "kafka"])
def test_member_that_joins_before_the_reset(
    resets: Resets, stored: EnsembleClient, brokers: GroupBrokers, place: str
) -> None:
    """A member that joins after the plan prevents the reset of offsets in Kafka alone."""
    kafka = resets("kafka")
    planned = kafka.plan("g", None, LATEST)
    before = dict(brokers.stored["g"])
    if place == "zookeeper":
        stored.put("/consumers/g/ids/g_a")
    else:
        brokers.states["g"] = active(1)
    with pytest.raises(GroupError, match="The offsets were not reset"):
        kafka.apply(planned)
    assert brokers.stored["g"] == before


@pytest.mark.parametrize(
    ("storage", "error", "text"),
    [
        ("kafka", BrokersUnavailable, "no broker answered"),
        ("both", GroupError, "are reset in ZooKeeper, but not all in Kafka"),
    ],
)
def test_unreachable_brokers(stored: EnsembleClient, storage: OffsetsStorage, error: type[Exception], text: str) -> None:
    """If brokers do not respond, the error says whether ZooKeeper has already been written."""
    wanted = OffsetResets(storage, stored, GroupBrokers(ENDS, {"g": {T0: 50}}, before_change=raising(UNREACHABLE)))
    with pytest.raises(error, match=text):
        wanted.apply(wanted.plan("g", None, ShiftBy(1)))
    assert stored.data(PATH_0) == (b"51" if storage == "both" else b"50")


def test_logs_of_leaders(brokers: Any) -> None:
    """Partitions without a leader are one error, but any other error takes precedence."""
    assert list_offsets(brokers, {}) == {}
    assert list_offsets(brokers, {T0: LATEST}) == {T0: 100}
    brokers.offline = {T1: NO_LEADER}
    with pytest.raises(NoLeader, match="The partitions t-1 have no leader"):
        list_offsets(brokers, {T0: LATEST, T1: LATEST})
    brokers.offline = {T1: NO_LEADER, T0: BrokersUnavailable("BROKERS_UNAVAILABLE", "silent")}
    with pytest.raises(BrokersUnavailable):
        list_offsets(brokers, {T0: LATEST, T1: LATEST})


# --- the command ----------------------------------------------------------------------------------------------------


def offsets(rows: list[Row]) -> dict[int, int]:
    assert {(row["group"], row["topic"]) for row in rows} <= {("g", "t")}
    return {row["partition"]: row["new_offset"] for row in rows}


@pytest.mark.parametrize(
    ("scenario", "found"),
    [
        ({"to_offset": 0}, {0: 0, 1: 10}),
        ({"by_duration": "P1D"}, {0: 100, 1: 20}),
        ({"to_datetime": "2026-11-21T02:41:05.441"}, {0: 100, 1: 20}),
        ({"to_datetime": "1970-01-01T00:00:00.012"}, {0: 12, 1: 12}),
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def test_scenarios(run: Run, scenario: dict[str, Any], found: dict[int, int]) -> None:
    """A scenario may have the value 0, and gives offsets within the logs; after the last record's time, the latest ones.

    tests/unit/tools/test_group_offset_vectors.py tries the others.
    """
    assert offsets(run(reset_offsets, "g", topic=["t"], dry_run=True, **scenario)) == found


@pytest.mark.parametrize(("by", "found"), [(-3, 2), (0, 5)])
def test_shift_of_all_topics(run: Run, by: int, found: int) -> None:
    """A shift may be 0. `--all-topics` means the topics for which the group has offsets."""
    assert offsets(run(reset_offsets, "g", all_topics=True, shift_by=by)) == {0: found}


def test_reset(client: EnsembleClient, show: Show) -> None:
    """Offsets are shown, written and counted in a note, and a dry run writes nothing."""
    text, notes = show(reset_offsets, "g", topic=["t:0"], to_latest=True, dry_run=True)
    assert text.split()[-5:] == ["g", "t", "0", "5", "100"]
    assert notes == "Dry run: nothing was changed.\n"
    assert client.data(PATH_0) == b"5"
    assert show(reset_offsets, "g", topic=["t:0"], to_latest=True)[1] == "Reset 1 offset(s) of group g in ZooKeeper.\n"
    assert client.data(PATH_0) == b"100"


@pytest.mark.parametrize(
    ("storage", "current"),
    [("zookeeper", [60, None]), ("kafka", [5, 15]), ("both", [60, 15])],
)
def test_current_offsets(
    client: EnsembleClient, group_admin: Any, run: Run, storage: OffsetsStorage, current: list[int | None]
) -> None:
    """The replaced offset is shown next to the new one, and is the larger one of two stores."""
    client.put(PATH_0, b"60")
    group_admin.stored["g"] = {T0: 5, T1: 15}
    rows = run(reset_offsets, "g", topic=["t"], to_latest=True, dry_run=True, offsets_storage=storage)
    assert [row["current_offset"] for row in rows] == current


@pytest.mark.parametrize(
    ("storage", "place", "in_zookeeper", "in_kafka"),
    [
        ("zookeeper", "ZooKeeper", b"100", {T1: 15}),
        ("kafka", "Kafka", b"5", {T0: 100, T1: 15}),
        ("both", "ZooKeeper and Kafka", b"100", {T0: 100, T1: 15}),
    ],
)
def test_stores(
    client: EnsembleClient,
    group_admin: Any,
    show: Show,
    storage: OffsetsStorage,
    place: str,
    in_zookeeper: bytes,
    in_kafka: dict[TopicPartition, int],
) -> None:
    """Only the chosen store is written, and the note names it."""
    notes = show(reset_offsets, "g", topic=["t:0"], to_latest=True, offsets_storage=storage)[1]
    assert notes == f"Reset 1 offset(s) of group g in {place}.\n"
    assert client.data(PATH_0) == in_zookeeper
    assert group_admin.stored["g"] == in_kafka


def test_file(tmp_path: Path, run: Run) -> None:
    """A file contains partitions and their offsets."""
    file = tmp_path / "offsets.csv"
    file.write_text("t,0,0\nt,1,10\n")
    assert offsets(run(reset_offsets, "g", from_file=file)) == {0: 0, 1: 10}


def test_nothing_to_reset(client: EnsembleClient, show: Show) -> None:
    """If no partition is left, nothing is reset, and a note says so."""
    client.put("/consumers/gone/offsets/gone/0", b"1")
    text, notes = show(reset_offsets, "gone", all_topics=True, to_latest=True)
    assert text == ""
    assert notes.splitlines() == [
        "Left as they are: the offsets of gone-0, which do not exist any more.",
        "Group gone has no offsets to reset.",
    ]
