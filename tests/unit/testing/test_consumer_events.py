"""Events of a consumer's process."""

from __future__ import annotations

from pathlib import Path

from pyspark_zkafka.testing.jvm_clients import Events, OldRecord

RECORD = b'{"event":"record","topic":"t","partition":1,"offset":2,"key":null,"value":"dg=="}\n'


def test_whole_lines(tmp_path: Path) -> None:
    """Events are read while the file grows, and an incomplete line is read later."""
    file = tmp_path / "events"
    file.write_bytes(RECORD + b'{"event":"rea')
    events = Events(file)
    assert events.records() == [OldRecord("t", 1, 2, None, b"v")]
    assert events.others("ready") == []
    with file.open("ab") as growing:
        growing.write(b'dy"}\n' + RECORD)
    assert events.others("ready") == [{"event": "ready"}]
    assert len(events.records()) == 2


def test_missing_file(tmp_path: Path) -> None:
    """If the file is gone, earlier events remain."""
    file = tmp_path / "events"
    file.write_bytes(RECORD)
    events = Events(file)
    assert len(events.records()) == 1
    file.unlink()
    assert len(events.records()) == 1
