"""Samples of a group: when they are taken, and what they have."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from kazoo.exceptions import NoNodeError

from tests.faults.harness.history import Committed, Event, Owners, Rest, merged
from tests.faults.harness.journal import Journal
from tests.faults.harness.sampling import Sampler, ZooKeeperGroup

ZNODES = {
    "/consumers/g/ids/g_a": (b"{}", 3),
    "/consumers/g/owners/t/0": (b"g_a-0", 7),
    "/consumers/g/owners/t/1": (b"g_b-1-0", 8),
    "/consumers/g/offsets/t/0": (b"12", 5),
    "/consumers/g/offsets/t/1": (b"", 6),
}
"""The data of znodes, and the transactions that created them."""


class FakeClient:
    """A client of these znodes."""

    def get_children(self, path: str) -> list[str]:
        """Return the children of a znode."""
        found = [name.removeprefix(f"{path}/").partition("/")[0] for name in ZNODES if name.startswith(f"{path}/")]
        if not found:
            raise NoNodeError
        return found

    def get(self, path: str) -> tuple[bytes, SimpleNamespace]:
        """Return the data and the state of a znode."""
        data, czxid = ZNODES[path]
        return data, SimpleNamespace(czxid=czxid)


def test_owners_and_their_claims() -> None:
    """A sample of a group in ZooKeeper has the owners, the transactions of their claims, and the offsets."""
    cluster = SimpleNamespace(zookeeper=lambda: nullcontext(FakeClient()))
    owners, *offsets = ZooKeeperGroup(cluster, "g", "t").sample()
    assert owners == Owners(owners.at, (("t", 0, "a"), ("t", 1, "b-1")), ("a",), (7, 8))
    assert [(one.partition, one.offset) for one in offsets if isinstance(one, Committed)] == [(0, 12)]


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
    sampler.raise_failure()
    return merged([folder / "journal.jsonl"]).events
