"""Recorded output of ``zkafka groups``, compared with that of Kafka's tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_zkafka.tools.offset_files import csv_text, parse_offsets_file

VECTORS = Path(__file__).parent.parent.parent / "vectors" / "cli"
RESETS = sorted(path.stem for path in (VECTORS / "reset-offsets").glob("*.kafka") if path.stem != "export")


def cells(name: str) -> list[str]:
    """Return the words of an output without rules, which are its heading and rows."""
    return [word for word in (VECTORS / name).read_text().split() if not set(word) <= {"─"}]


@pytest.mark.parametrize("name", RESETS)
def test_resets(name: str) -> None:
    """A reset shows the same columns, rows and offsets as Kafka's tool, plus the current offset."""
    ours = cells(f"reset-offsets/{name}.zkafka")
    assert ours[3::5] == ["CURRENT-OFFSET", "10", "2"]
    del ours[3::5]
    assert ours == cells(f"reset-offsets/{name}.kafka")


def test_export() -> None:
    """An export has the same lines of znodes as Kafka's tool."""
    assert sorted(cells("export/zk.zkafka")) == sorted(cells("export/zk.kafka"))


def test_csv() -> None:
    """The lines of kafka-consumer-groups --export are read, and written in the same format."""
    text = (VECTORS / "reset-offsets" / "export.kafka").read_text()
    offsets = parse_offsets_file("export.kafka", text, "billing")
    assert [(*one.partition, one.offset) for one in offsets] == [("orders", 0, 11), ("orders", 1, 3)]
    assert csv_text(offsets, with_group=False) == text.rstrip("\n") + "\n"


def test_deletion() -> None:
    """A deletion shows the same message as Kafka's tool."""
    assert (VECTORS / "delete/group.kafka").read_text().strip() in (VECTORS / "delete/group.zkafka").read_text()
