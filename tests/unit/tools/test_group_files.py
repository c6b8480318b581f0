"""``zkafka groups export`` and ``import`` with a fake ensemble and fake brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from pyspark_zkafka.errors import ClusterStateError, GroupContended, GroupError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import LegacyPartition
from pyspark_zkafka.tools.group_files import export_offsets, import_offsets, plan_import
from pyspark_zkafka.tools.offset_files import OffsetLine
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers
from tests.support.running import Run, Show

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
pytestmark = pytest.mark.usefixtures("memberless")

BROKERS: Any = GroupBrokers({T0: (10, 100), T1: (0, 20)})


def test_export(run: Run) -> None:
    """The offsets of the named groups, or of all groups, are exported sorted by group."""
    assert [(row["group"], row["partition"], row["offset"]) for row in run(export_offsets, None, all_groups=True)] == [
        ("g", 0, 5),
        ("idle", 1, 7),
    ]
    with pytest.raises(GroupError, match="Group nobody does not exist"):
        run(export_offsets, ["g", "nobody"])


def test_left_out(client: EnsembleClient, run: Run) -> None:
    """Partitions without an offset and, in CSV, positions of Kafka 0.7 are left out without an error."""
    client.put("/consumers/g/offsets/t/1", b"-1")
    client.put("/consumers/g/offsets/t/1-0", b"4096")
    assert [row["partition"] for row in run(export_offsets, ["g"], format="csv")] == [0]
    assert [row["partition"] for row in run(export_offsets, ["g"])] == [0, "1-0"]


def test_unreadable_offset(client: EnsembleClient, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """An unreadable offset fails the command after the other offsets were written."""
    client.put("/consumers/g/offsets/t/1", b"five")
    with pytest.raises(typer.Exit) as caught:
        run(export_offsets, ["g"])
    assert caught.value.exit_code == 1
    assert '"offset": 5' in capsys.readouterr().out


def test_import_of_a_file(client: EnsembleClient, tmp_path: Path, run: Run, show: Show) -> None:
    """Old and new offsets are shown, and written unless it is a dry run; lines without an offset are left out."""
    file = tmp_path / "offsets.csv"
    file.write_text("idle,t,1,12\nnew,t,0,3\nnew,t,1,-1\n")
    rows = run(import_offsets, file, dry_run=True)
    assert [(row["group"], row["current_offset"], row["new_offset"]) for row in rows] == [("idle", 7, 12), ("new", None, 3)]
    assert client.data("/consumers/idle/offsets/t/1") == b"7"
    assert show(import_offsets, file)[1].splitlines() == [
        "Left out: 1 line(s) without an offset (below 0).",
        "Imported 2 offset(s) of 2 group(s).",
    ]
    assert client.data("/consumers/idle/offsets/t/1") == b"12"
    assert client.data("/consumers/new/offsets/t/0") == b"3"
    file.write_text("idle,t,1,11\n")
    assert "1 offset(s) go back." in show(import_offsets, file)[1]


def test_import_that_stops(
    client: EnsembleClient, tmp_path: Path, new_target: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """If a group cannot be written, it and the groups written before are named."""
    file = tmp_path / "offsets.csv"
    file.write_text("idle,t,1,12\nlast,t,0,3\n")

    def commit() -> None:
        if client.data("/consumers/idle/offsets/t/1") == b"12":
            client.put("/consumers/last/offsets/t/0", b"4")

    client.meanwhile = commit
    with pytest.raises(GroupContended):
        import_offsets.__wrapped__(new_target(as_json=True, dry_run=False), file)  # type: ignore[attr-defined]
    notes = "Group last may be written in part; run the import again. The others are as they were.\n"
    assert capsys.readouterr().err == f"Imported: idle. {notes}"


def test_import(client: EnsembleClient) -> None:
    """Each group gets its offsets, and an offset outside its log is moved to the nearer end with a warning."""
    planned = plan_import(client, BROKERS, [OffsetLine("g", T0, 5), OffsetLine("h", T1, 7)])
    assert planned.offsets == {"g": {T0: 10}, "h": {T1: 7}}
    assert len(planned.warnings) == 1
    assert planned.warnings[0].startswith("g: ")
    assert planned.stored["g"].values.get(T0) == 5
    assert planned.stored["h"].values.get(T1) is None


def test_unchecked(client: EnsembleClient) -> None:
    """Unchecked offsets are accepted unchanged, even of unknown partitions."""
    gone = TopicPartition("gone", 3)
    planned = plan_import(client, None, [OffsetLine("g", T0, 5), OffsetLine("g", gone, 1)])
    assert planned.offsets == {"g": {T0: 5, gone: 1}}
    assert planned.warnings == ()


def test_unknown_partition(client: EnsembleClient) -> None:
    """A partition that does not exist is refused before anything is written."""
    with pytest.raises(ClusterStateError, match="t-9"):
        plan_import(client, BROKERS, [OffsetLine("g", T0, 5), OffsetLine("g", TopicPartition("t", 9), 5)])


def test_positions_of_kafka_07(client: EnsembleClient) -> None:
    """Positions of Kafka 0.7 are not compared with logs."""
    legacy = LegacyPartition("t", 1, 0)
    client.put("/consumers/g/offsets/t/1-0", b"4096")
    planned = plan_import(client, BROKERS, [OffsetLine("g", legacy, 8192)])
    assert planned.offsets == {"g": {legacy: 8192}}
    assert planned.stored["g"].positions[legacy] == 4096


def test_active_group(client: EnsembleClient) -> None:
    """A group with a member prevents the whole import."""
    client.put("/consumers/h/ids/h_a")
    with pytest.raises(GroupError, match="The offsets were not imported: group h must be inactive"):
        plan_import(client, BROKERS, [OffsetLine("g", T0, 50), OffsetLine("h", T0, 50)])
