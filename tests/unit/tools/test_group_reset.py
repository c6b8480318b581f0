"""``zkafka groups reset-offsets`` on an ensemble and brokers of values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import GroupError, OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools.group_reset import reset_offsets
from pyspark_zkafka.tools.group_stores import Storage
from pyspark_zkafka.tools.output import Row
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"


@pytest.fixture
def client(client: EnsembleClient) -> EnsembleClient:
    """The ensemble without members."""
    del client.ensemble.nodes["/consumers/g/ids/g_a"]
    del client.ensemble.nodes["/consumers/g/owners/t/0"]
    return client


def offsets(rows: list[Row]) -> dict[int, int]:
    assert {(row["group"], row["topic"]) for row in rows} <= {("g", "t")}
    return {row["partition"]: row["new_offset"] for row in rows}


@pytest.mark.parametrize(
    ("scenario", "found"),
    [
        ({"to_earliest": True}, {0: 0, 1: 10}),
        ({"to_latest": True}, {0: 100, 1: 20}),
        ({"to_current": True}, {0: 5, 1: 20}),
        ({"to_offset": 12}, {0: 12, 1: 12}),
        ({"to_offset": 0}, {0: 0, 1: 10}),
        ({"by_duration": "P1D"}, {0: 100, 1: 20}),
        ({"to_datetime": "2026-11-21T02:41:05.441"}, {0: 100, 1: 20}),
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def test_scenarios(run: Callable[..., list[Row]], scenario: dict[str, Any], found: dict[int, int]) -> None:
    """Each scenario has its offsets, within the logs: here, no record is as young as the times."""
    assert offsets(run(reset_offsets, "g", topic=["t"], dry_run=True, **scenario)) == found


@pytest.mark.parametrize(("by", "found"), [(3, 8), (-3, 2), (-9, 0), (0, 5)])
def test_shift(run: Callable[..., list[Row]], by: int, found: int) -> None:
    """A shift goes either way, to the ends of the log at most; one by 0 is a scenario, too."""
    assert offsets(run(reset_offsets, "g", all_topics=True, shift_by=by)) == {0: found}


def test_reset(client: EnsembleClient, show: Callable[..., tuple[str, str]]) -> None:
    """Offsets are shown and written, and their number is noted; a dry run writes nothing."""
    text, notes = show(reset_offsets, "g", topic=["t:0"], to_latest=True, dry_run=True)
    assert text.split()[-5:] == ["g", "t", "0", "5", "100"]
    assert (notes, client.data(PATH_0)) == ("Dry run: nothing was changed.\n", b"5")
    assert show(reset_offsets, "g", topic=["t:0"], to_latest=True)[1] == "Reset 1 offset(s) of group g in ZooKeeper.\n"
    assert client.data(PATH_0) == b"100"


@pytest.mark.parametrize(
    ("storage", "current"),
    [(Storage.zookeeper, [60, None]), (Storage.kafka, [5, 15]), (Storage.both, [60, 15])],
)
def test_current_offsets(
    client: EnsembleClient, group_admin: Any, run: Callable[..., list[Row]], storage: Storage, current: list[int | None]
) -> None:
    """The offset that is replaced is shown beside the new one: of two stores, the larger one."""
    client.put(PATH_0, b"60")
    group_admin.stored["g"] = {T0: 5, T1: 15}
    rows = run(reset_offsets, "g", topic=["t"], to_latest=True, dry_run=True, offsets_storage=storage)
    assert [row["current_offset"] for row in rows] == current


@pytest.mark.parametrize(
    ("storage", "place", "in_zookeeper", "in_kafka"),
    [
        (Storage.zookeeper, "ZooKeeper", b"100", {T1: 15}),
        (Storage.kafka, "Kafka", b"5", {T0: 100, T1: 15}),
        (Storage.both, "ZooKeeper and Kafka", b"100", {T0: 100, T1: 15}),
    ],
)
def test_stores(
    client: EnsembleClient,
    group_admin: Any,
    show: Callable[..., tuple[str, str]],
    storage: Storage,
    place: str,
    in_zookeeper: bytes,
    in_kafka: dict[TopicPartition, int],
) -> None:
    """Only the named store is written, and the note says which."""
    notes = show(reset_offsets, "g", topic=["t:0"], to_latest=True, offsets_storage=storage)[1]
    assert notes == f"Reset 1 offset(s) of group g in {place}.\n"
    assert (client.data(PATH_0), group_admin.stored["g"]) == (in_zookeeper, in_kafka)


def test_export(tmp_path: Path, show: Callable[..., tuple[str, str]], run: Callable[..., list[Row]]) -> None:
    """The plan can be written as lines, which are a file for another reset; with JSON, it is JSON."""
    text, _ = show(reset_offsets, "g", topic=["t"], to_earliest=True, export=True, dry_run=True)
    assert text == "t,0,0\nt,1,10\n"
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    assert offsets(run(reset_offsets, "g", from_file=file)) == {0: 0, 1: 10}
    assert offsets(run(reset_offsets, "g", topic=["t:0"], to_latest=True, export=True, dry_run=True)) == {0: 100}


@pytest.mark.parametrize(("text", "bad"), [("t,0,-1\n", "t-0 at -1"), ("t,0,5\nt,1,-1\n", "t-1 at -1")])
def test_file_without_an_offset(tmp_path: Path, run: Callable[..., list[Row]], text: str, bad: str) -> None:
    """Lines without an offset are named, and nothing is reset."""
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    with pytest.raises(OptionError, match=f"has no offset to reset to for {bad}; leave these lines out"):
        run(reset_offsets, "g", from_file=file)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"topic": ["t"]}, "--from-file; found none of them"),
        ({"topic": ["t"], "to_offset": 0, "shift_by": 0}, "found --to-offset and --shift-by"),
        ({"to_latest": True}, "Use one of --topic, --all-topics and --from-file"),
        ({"topic": ["t"], "all_topics": True, "to_latest": True}, "Use one of --topic, --all-topics and --from-file"),
    ],
)
def test_contradictions(run: Callable[..., list[Row]], given: dict[str, Any], text: str) -> None:
    """There is one scenario, of which 0 is a value, and one set of partitions."""
    with pytest.raises(OptionError, match=text):
        run(reset_offsets, "g", **given)


def test_nothing_to_reset(client: EnsembleClient, show: Callable[..., tuple[str, str]]) -> None:
    """Where no partition is left, that is said, and nobody is asked to confirm it."""
    client.put("/consumers/gone/offsets/gone/0", b"1")
    text, notes = show(reset_offsets, "gone", all_topics=True, to_latest=True)
    assert (text, notes.splitlines()) == (
        "",
        [
            "Left as they are: the offsets of gone-0, which do not exist any more.",
            "Group gone has no offsets to reset.",
        ],
    )


def test_active_group(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """A group with a member is not reset."""
    client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        run(reset_offsets, "g", topic=["t"], to_latest=True)
