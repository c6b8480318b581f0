"""Injectors: a fault is journaled only if it was injected."""

from __future__ import annotations

import signal
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_zkafka.conditions import NO_LEADER
from tests.faults.harness import injectors
from tests.faults.harness.history import Event, Fault, Reset
from tests.faults.harness.injectors import Injectors
from tests.faults.harness.nemesis import Planned
from tests.faults.harness.sampling import ZooKeeperGroup
from tests.faults.harness.workloads import workload


class Group(ZooKeeperGroup):
    """A group whose members have the given sessions."""

    def __init__(self, *sessions: int) -> None:
        self.found = sessions

    def sessions(self) -> list[int]:
        return list(self.found)

    def reset(self, partition: int, offset: int) -> None:
        """Accept any offset."""


class Running:
    """A workload with one member, and the events that it journals."""

    def __init__(self, group: Group, offsets: dict[int, int] | None = None) -> None:
        self.workload, self.group, self.found = workload("stream-zookeeper"), group, offsets or {}
        self.members = [
            SimpleNamespace(name="m", halt=lambda: None, resume=lambda: None, kill=lambda: self.has_processes, workers=[])
        ]
        self.events: list[Event] = []
        self.journal = SimpleNamespace(add=lambda *events: self.events.extend(events))
        self.is_led_as_preferred = True
        self.has_processes = True

    def offsets(self) -> dict[int, int]:
        return self.found


class Cluster:
    """A cluster that notes expired sessions and elections."""

    def __init__(self) -> None:
        self.stop = self.kill = lambda server: None
        self.expired: list[tuple[int, bytes]] = []
        self.elected: list[str] = []

    def expire_session(self, session: int, password: bytes) -> None:
        self.expired.append((session, password))

    def elect_preferred_leaders(self, topic: str, timeout_s: float) -> None:
        self.elected.append(topic)


def greeting(session: int) -> bytes:
    """Return a server's answer to a client that connects."""
    return struct.pack(">iiiqi16s", 36, 0, 6000, session, 16, b"password of %4d" % session)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def inject(cluster: Cluster, tmp_path: Path) -> Callable[..., list[str]]:
    """Inject a kind of fault; returns the kinds of journaled faults."""

    def act(kind: str, running: Running, *greetings: bytes, draw: float = 0.0) -> list[str]:
        network: Any = SimpleNamespace(zookeeper=SimpleNamespace(greetings=list(greetings)))
        found: Any = [running]
        Injectors(cluster, network, found, tmp_path).inject(Planned(0.0, 0.0, kind, draw))  # type: ignore[arg-type]
        return [event.kind for event in running.events if isinstance(event, Fault)]

    return act


@pytest.mark.parametrize("draw", [0.0, 0.99])
def test_expired_session(cluster: Cluster, inject: Callable[..., list[str]], draw: float) -> None:
    """Only the session of a registered member expires, and only if its password was seen on the wire."""
    running = Running(Group(7, 9))
    greetings = [greeting(7), b"", greeting(8), greeting(8)]
    assert inject("session expired", running, *greetings, draw=draw) == ["session expired"]
    assert cluster.expired == [(7, b"password of    7")]
    assert inject("session expired", Running(Group()), *greetings) == []


def test_election(cluster: Cluster, inject: Callable[..., list[str]]) -> None:
    """Preferred leaders are elected only where other brokers lead."""
    running = Running(Group())
    assert inject("preferred leaders elected", running) == []
    running.is_led_as_preferred = False
    assert inject("preferred leaders elected", running) == ["preferred leaders elected"]
    assert cluster.elected == [running.workload.name]


def test_reset(inject: Callable[..., list[str]]) -> None:
    """A group without offsets is not reset."""
    assert inject("offsets reset", Running(Group())) == []
    running = Running(Group(), {0: 100})
    assert inject("offsets reset", running) == ["offsets reset"]
    assert [event.offset for event in running.events if isinstance(event, Reset)] == [90]


def test_kill(inject: Callable[..., list[str]]) -> None:
    """A driver without processes is not killed."""
    running = Running(Group())
    assert inject("driver killed", running) == ["driver killed"]
    running = Running(Group())
    running.has_processes = False
    assert inject("driver killed", running) == []


def test_workers(inject: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Any worker may be killed, or paused and resumed; without workers, nothing happens."""
    sent: list[tuple[int, signal.Signals]] = []
    monkeypatch.setattr(injectors, "signal_process", lambda pid, number: sent.append((pid, number)) or True)
    running = Running(Group())
    assert inject("worker paused", running) == []
    running.members[0].workers = [71, 72, 73]
    assert inject("worker paused", running, draw=0.5001) == ["worker paused"]
    assert sent == [(71, signal.SIGSTOP), (71, signal.SIGCONT)]
    assert inject("worker killed", running, draw=0.5009) == ["worker paused", "worker killed"]
    assert sent[2:] == [(73, signal.SIGKILL)]


def test_java_consumer_that_fails(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java consumer may fail while another fault lasts, or soon after; then it counts as not injected."""

    def fail(*given: object) -> None:
        raise NO_LEADER("orders-0")

    monkeypatch.setattr(injectors, "join_for", fail)
    running: Any = Running(Group())
    found = Injectors(cluster, SimpleNamespace(), [running], tmp_path)  # type: ignore[arg-type]
    joined = Planned(0.0, 0.0, "member joined and left", 0.0)
    with pytest.raises(Exception, match="NO_LEADER"):
        found.inject(joined)
    found.inject(Planned(0.0, 0.0, "driver killed", 0.0))
    found.inject(joined)
    assert [event.kind for event in running.events] == ["driver killed"]
