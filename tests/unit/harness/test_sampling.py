"""Samples of a group: when they are taken, and what they have."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.faults.harness.history import Event, Rest, merged
from tests.faults.harness.journal import Journal
from tests.faults.harness.sampling import Sampler


class TestSampler:
    """A sampler's thread."""

    def test_samples_that_cannot_be_taken_are_left_out(self, tmp_path: Path) -> None:
        """While a server is down, a sampler continues, and journals the next sample."""
        answers, done = [OSError("down"), [Rest(1.0)], OSError("down"), [Rest(2.0)]], threading.Event()

        def take() -> list[Event]:
            answer = answers.pop(0) if answers else []
            if not answers:
                done.set()
            if isinstance(answer, Exception):
                raise answer
            return answer

        assert _sampled(take, done, tmp_path) == (Rest(1.0), Rest(2.0))

    def test_other_errors_are_raised_at_the_end(self, tmp_path: Path) -> None:
        """An error of the sample itself ends the run, which would otherwise be judged without samples."""
        failed = threading.Event()

        def take() -> list[Event]:
            failed.set()
            raise ValueError("no number")

        with pytest.raises(ValueError, match="no number"):
            _sampled(take, failed, tmp_path)


def _sampled(take, done, folder) -> tuple[Event, ...]:
    """Return the events of a sampler that stops once the last sample was asked for."""
    sampler = Sampler(take, Journal(folder / "journal.jsonl"), 0.001)
    sampler.start()
    assert done.wait(10)
    sampler.stop()
    return merged([folder / "journal.jsonl"]).events
