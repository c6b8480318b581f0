"""Events of a consumer's process."""

from __future__ import annotations

from pathlib import Path

from pyspark_zkafka.testing.old_consumer import Events, OldRecord

RECORD = b'{"event":"record","topic":"t","partition":1,"offset":2,"key":null,"value":"dg=="}\n'


def test_whole_lines(tmp_path: Path) -> None:
    """Events are read as the file grows, a line that is not complete yet later."""
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
    """When the file is gone, the events read before stay."""
    file = tmp_path / "events"
    file.write_bytes(RECORD)
    events = Events(file)
    assert len(events.records()) == 1
    file.unlink()
    assert len(events.records()) == 1
