"""Recorded outputs of ``zkafka groups`` beside those of Kafka's tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_zkafka.tools.offset_files import csv_text, parse_offsets_file

VECTORS = Path(__file__).parent.parent.parent / "vectors" / "cli"
RESETS = sorted(path.stem for path in (VECTORS / "reset-offsets").glob("*.kafka") if path.stem != "export")


def cells(name: str) -> list[str]:
    """The words of an output, without rules: heading and rows."""
    return [word for word in (VECTORS / name).read_text().split() if not set(word) <= {"─"}]


@pytest.mark.parametrize("name", RESETS)
def test_resets(name: str) -> None:
    """The same columns, rows and offsets, beside the current offset, which Kafka's tool does not show."""
    ours = cells(f"reset-offsets/{name}.zkafka")
    assert ours[3::5] == ["CURRENT-OFFSET", "10", "2"]
    del ours[3::5]
    assert ours == cells(f"reset-offsets/{name}.kafka")


def test_export() -> None:
    """The same lines of znodes."""
    assert sorted(cells("export/zk.zkafka")) == sorted(cells("export/zk.kafka"))


def test_csv() -> None:
    """The lines of kafka-consumer-groups --export are read, and written alike."""
    text = (VECTORS / "reset-offsets" / "export.kafka").read_text()
    offsets = parse_offsets_file("export.kafka", text, "billing")
    assert [(*one.partition, one.offset) for one in offsets] == [("orders", 0, 11), ("orders", 1, 3)]
    assert csv_text(offsets, with_group=False) == text.rstrip("\n") + "\n"


def test_deletion() -> None:
    """The same message."""
    assert (VECTORS / "delete/group.kafka").read_text().strip() in (VECTORS / "delete/group.zkafka").read_text()
