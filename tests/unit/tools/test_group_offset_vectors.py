"""Recorded outputs of ``zkafka groups`` beside those of Kafka's tools."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["reset-offsets/export", "export/zk"])
def test_files(name: str) -> None:
    """The same lines."""
    assert sorted(cells(f"{name}.zkafka")) == sorted(cells(f"{name}.kafka"))


def test_deletion() -> None:
    """The same message."""
    assert (VECTORS / "delete/group.kafka").read_text().strip() in (VECTORS / "delete/group.zkafka").read_text()
