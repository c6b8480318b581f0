"""The producer of records: outcomes in its journal, and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.harness import producing
from tests.faults.harness.history import Sent, merged
from tests.faults.harness.journal import Journal
from tests.support.eventually import eventually


class Brokers:
    """A producer that reports an outcome for each record, or raises an error."""

    def __init__(self, outcome: Exception | str | None, left: int = 0) -> None:
        self.outcome, self.left, self.records = outcome, left, 0

    def produce(self, topic: str, value: bytes, key: str, on_delivery: Callable[[Any, Any], None]) -> None:
        self.records += 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        place = SimpleNamespace(topic=lambda: topic, partition=lambda: 0, offset=lambda: self.records)
        on_delivery(self.outcome, place)

    def poll(self, timeout_s: float) -> None:
        """Wait for nothing."""

    def flush(self, timeout_s: float) -> int:
        return self.left


@pytest.fixture
def send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Brokers], list[bool]]:
    """Send some records; returns whether each was acknowledged, by the journal."""

    def act(brokers: Brokers) -> list[bool]:
        monkeypatch.setattr(producing, "Producer", lambda settings: brokers)
        records = producing.Records("127.0.0.1:1", "t", 100, Journal(tmp_path / "journal.jsonl"))
        records.start()
        eventually(lambda: brokers.records >= 10 or not records.is_alive())
        records.stop()
        return [sent.acknowledged for sent in merged([tmp_path / "journal.jsonl"]).of(Sent)]

    return act


@pytest.mark.parametrize(("outcome", "is_acknowledged"), [(None, True), ("timed out", False)])
def test_outcomes(send: Callable[[Brokers], list[bool]], outcome: str | None, is_acknowledged: bool) -> None:
    """Each record is journaled with its outcome."""
    brokers = Brokers(outcome)
    assert send(brokers) == [is_acknowledged] * brokers.records


def test_full_queue(send: Callable[[Brokers], list[bool]]) -> None:
    """A record that does not fit into the producer's queue is not sent, and is tried again."""
    assert send(Brokers(BufferError())) == []


def test_errors(send: Callable[[Brokers], list[bool]]) -> None:
    """An error that ends the thread early is raised, and so are records without an outcome."""
    with pytest.raises(ValueError, match="no topic"):
        send(Brokers(ValueError("no topic")))
    with pytest.raises(AssertionError, match="not acknowledged"):
        send(Brokers(None, left=1))
