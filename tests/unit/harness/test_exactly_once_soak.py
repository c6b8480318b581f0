"""The soak of exactly-once writes: rows that are not sent, and errors that count as violations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.exactly_once import soak
from tests.support.eventually import eventually


class Brokers:
    """A producer that reports an outcome for each row, or raises an error."""

    def __init__(self, outcome: Exception | str | None) -> None:
        self.outcome = outcome

    def produce(self, *row: object, on_delivery: Callable[[Any, Any], None], **place: object) -> None:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        on_delivery(self.outcome, None)

    def poll(self, timeout_s: float) -> None:
        """Wait for nothing."""

    def flush(self, timeout_s: float) -> int:
        return 0


def sent(monkeypatch: pytest.MonkeyPatch, outcome: Exception | str | None) -> soak.Rows:
    """Return rows that were sent with an outcome, until now or until the thread ended."""
    monkeypatch.setattr(soak, "Producer", lambda settings: Brokers(outcome))
    rows = soak.Rows("127.0.0.1:1")
    rows.start()
    eventually(lambda: rows.count or not rows.is_alive())
    return rows


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows count if all of them were acknowledged, and their thread lived to the end."""
    assert sent(monkeypatch, None).stop() > 0
    with pytest.raises(AssertionError, match="and 0 acknowledged"):
        sent(monkeypatch, "timed out").stop()
    with pytest.raises(BufferError):
        sent(monkeypatch, BufferError()).stop()


def test_conditions() -> None:
    """An error of the ledger is preferred to the last condition that an error names."""
    for name in ("LEDGER_MOVED", "LEDGER_FORGOTTEN", "ROWS_DIFFER"):
        assert soak.condition_of(f"[STREAM_FAILED] ... [{name}] ... [TASK_WRITE_FAILED]") == name
    assert soak.condition_of("[STREAM_FAILED] ... [NO_LEADER]") == "NO_LEADER"
    assert soak.condition_of("no condition") == "of Spark"
