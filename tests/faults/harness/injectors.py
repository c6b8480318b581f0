"""Injection of faults: each kind of `nemesis` as an action on the cluster, the network and the members."""

from __future__ import annotations

import math
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyspark_zkafka.errors import LocalClusterError
from tests.faults.harness.foreign import join_for
from tests.faults.harness.history import Fault, Reset
from tests.faults.harness.members import Member, signal_process
from tests.faults.harness.nemesis import Planned
from tests.faults.harness.sampling import UNREACHABLE, ZooKeeperGroup
from tests.support.eventually import eventually
from tests.support.zookeeper_sessions import session_of

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster
    from tests.faults.harness.network import Network
    from tests.faults.harness.running import Running

__all__ = ["Injectors"]

_FLAP_S = 0.7
_DELAY_S = 0.3
_TRIES = 20
_FILE_BYTES = 4096
_DISK_FULL_S = 60
_MEMBERS = "members"
_Chosen = TypeVar("_Chosen")
_Find = Callable[[Member, float], "int | None"]
"""Finds a process of a member, by the draw of its fault."""


class Injectors:
    """Injects faults; each call of `inject` returns when its fault is over and journaled.

    All workloads journal a fault of servers or connections; only its own workload journals a fault of a process.
    """

    def __init__(self, cluster: LocalCluster, network: Network, running: Sequence[Running], folder: Path) -> None:
        self._cluster, self._network, self._running, self._folder = cluster, network, running, folder
        self._numbers = count()
        self._ends: dict[Planned, float] = {}
        self._actions: dict[str, Callable[[float, float], tuple[str, Sequence[Running]] | None]] = {
            "broker stopped": lambda lasts_s, draw: self._broker_down(lasts_s, draw, self._stop),
            "broker killed": lambda lasts_s, draw: self._broker_down(lasts_s, draw, cluster.kill),
            "broker paused": self._broker_paused,
            "broker paused beyond its session": self._broker_paused,
            "all brokers killed": self._all_brokers_down,
            "broker's disk full": lambda lasts_s, draw: self._broker_down(lasts_s, draw, self._fill_disk),
            "preferred leaders elected": self._elect,
            "partition added": self._add_partition,
            "zookeeper stopped": self._zookeeper_down,
            "zookeeper paused": self._zookeeper_paused,
            "zookeeper paused beyond sessions": self._zookeeper_paused,
            "zookeeper flapping": self._zookeeper_flapping,
            "session expired": self._expire,
            "driver killed": self._kill_driver,
            "planner killed": lambda lasts_s, draw: self._kill_process(draw, _planner),
            "planner paused beyond its session": lambda lasts_s, draw: self._pause_process(lasts_s, draw, _planner),
            "worker killed": lambda lasts_s, draw: self._kill_process(draw, _worker),
            "worker paused": lambda lasts_s, draw: self._pause_process(lasts_s, draw, _worker),
            "zookeeper connections cut": lambda lasts_s, draw: self._zookeeper_wire(lasts_s, "cut"),
            "zookeeper connections silent": lambda lasts_s, draw: self._zookeeper_wire(lasts_s, "silence"),
            "broker connections cut": lambda lasts_s, draw: self._broker_wires(lasts_s, "cut"),
            "broker connections half-closed": lambda lasts_s, draw: self._broker_wires(lasts_s, "half_close"),
            "broker answers delayed": lambda lasts_s, draw: self._broker_wires(lasts_s, delay_s=_DELAY_S),
            "broker answers dropped": lambda lasts_s, draw: self._broker_wires(lasts_s, is_dropping=True),
            "member joined and left": self._join,
            "offsets reset": self._reset,
        }

    def inject(self, planned: Planned) -> None:
        """Inject a fault and end it; skip a fault that finds no target, such as a process that is just starting."""
        begin = time.time()
        if planned.resource != _MEMBERS:
            self._ends[planned] = math.inf
        done = self._actions[planned.kind](planned.lasts_s, planned.draw)
        if planned.resource != _MEMBERS:
            self._ends[planned] = time.time()
        if done is not None:
            target, concerned = done
            for running in concerned:
                running.journal.add(Fault(begin, time.time(), planned.kind, target))

    # -- servers

    def _broker_down(self, lasts_s: float, draw: float, end: Callable[[int], None]) -> tuple[str, Sequence[Running]]:
        broker = self._broker(draw)
        end(broker)
        time.sleep(lasts_s)
        self._cluster.restart(broker)
        return f"broker {broker}", self._running

    def _stop(self, broker: int) -> None:
        """Stop a broker. Kill it if it does not end: before Kafka 1.1, a lost session may prevent that (KAFKA-2729)."""
        try:
            self._cluster.stop(broker)
        except LocalClusterError as error:
            if error.condition != "SERVER_DID_NOT_END":
                raise
            self._cluster.kill(broker)

    def _broker_paused(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]]:
        broker = self._broker(draw)
        self._paused(broker, lasts_s)
        return f"broker {broker}", self._running

    def _all_brokers_down(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]]:
        for broker in self._cluster.broker_ids:
            self._cluster.kill(broker)
        time.sleep(lasts_s)
        self._cluster.restart(*self._cluster.broker_ids)
        return "brokers", self._running

    def _fill_disk(self, broker: int) -> None:
        """Fail each write of a broker beyond the first kilobytes of a file, so that the broker ends by itself.

        The broker sees the same as with a full disk: an IOException of the append, after which it gives up its log folder.
        """
        pid = self._cluster.pid(broker)
        assert pid is not None, f"broker {broker} does not run"
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FILE_BYTES, resource.RLIM_INFINITY))
        eventually(lambda: self._cluster.pid(broker) is None, _DISK_FULL_S, f"broker {broker} goes on with a full disk")
        self._cluster.kill(broker)

    def _elect(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]] | None:
        moved = [running for running in self._running if not running.is_led_as_preferred]
        for running in moved:
            self._cluster.elect_preferred_leaders(running.workload.name, timeout_s=120)
        return ("brokers' leaders", moved) if moved else None

    def _add_partition(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]] | None:
        running = self._chosen([one for one in self._running if not one.workload.is_sink], draw)
        if running is None:
            return None
        topic = running.workload.name
        self._cluster.add_partitions(topic, len(self._cluster.assignment(topic)) + 1)
        return f"topic {topic}", [running]

    def _zookeeper_down(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]]:
        self._cluster.kill("zookeeper")
        time.sleep(lasts_s)
        self._cluster.restart("zookeeper")
        return "zookeeper", self._running

    def _zookeeper_paused(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]]:
        self._paused("zookeeper", lasts_s)
        return "zookeeper", self._running

    def _zookeeper_flapping(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]]:
        end = time.monotonic() + lasts_s
        while time.monotonic() < end:
            self._network.zookeeper.cut()
            time.sleep(_FLAP_S)
            self._network.zookeeper.mend()
            time.sleep(_FLAP_S)
        return "zookeeper connections", self._running

    def _expire(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]] | None:
        """Expire the session of a member, whose password is only in the server's greeting."""
        passwords = dict(session_of(greeting) for greeting in self._network.zookeeper.greetings if len(greeting) >= 36)
        groups = [(running, running.group) for running in self._running if isinstance(running.group, ZooKeeperGroup)]
        try:
            members = [(running, session) for running, group in groups for session in group.sessions()]
            chosen = self._chosen([member for member in members if member[1] in passwords], draw)
            if chosen is None:
                return None
            running, session = chosen
            self._cluster.expire_session(session, passwords[session])
        except UNREACHABLE:
            return None
        return "zookeeper session", [running]

    def _paused(self, server: int | str, lasts_s: float) -> None:
        self._cluster.pause(server)  # type: ignore[arg-type]
        time.sleep(lasts_s)
        self._cluster.resume(server)  # type: ignore[arg-type]
        self._cluster.wait_ready()

    def _broker(self, draw: float) -> int:
        return self._cluster.broker_ids[int(draw * self._cluster.brokers)]

    # -- connections

    def _zookeeper_wire(self, lasts_s: float, fault: str) -> tuple[str, Sequence[Running]]:
        getattr(self._network.zookeeper, fault)()
        time.sleep(lasts_s)
        self._network.zookeeper.mend()
        return "zookeeper connections", self._running

    def _broker_wires(self, lasts_s: float, fault: str = "", **settings: object) -> tuple[str, Sequence[Running]]:
        for wire in self._network.brokers.values():
            if fault:
                getattr(wire, fault)()
            for name, setting in settings.items():
                setattr(wire, name, setting)
        time.sleep(lasts_s)
        for wire in self._network.brokers.values():
            wire.mend()
        return "network", self._running

    # -- processes

    def _kill_driver(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]] | None:
        running, member = self._member(draw)
        return (member.name, [running]) if member.kill() else None

    def _kill_process(self, draw: float, find: _Find) -> tuple[str, Sequence[Running]] | None:
        running, member = self._member(draw)
        pid = find(member, draw)
        if pid is None or not signal_process(pid, signal.SIGKILL):
            return None
        return member.name, [running]

    def _pause_process(self, lasts_s: float, draw: float, find: _Find) -> tuple[str, Sequence[Running]] | None:
        running, member = self._member(draw)
        pid = find(member, draw)
        if pid is None or not signal_process(pid, signal.SIGSTOP):
            return None
        time.sleep(lasts_s)
        signal_process(pid, signal.SIGCONT)
        return member.name, [running]

    def _member(self, draw: float) -> tuple[Running, Member]:
        every = [(running, member) for running in self._running for member in running.members]
        return every[int(draw * len(every))]

    # -- groups

    def _join(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]] | None:
        """Let a Java consumer join and leave; it may fail to start only during another fault, or soon after."""
        begin = time.time()
        running = self._chosen([one for one in self._running if not one.workload.is_sink], draw)
        if running is None:
            return None
        number = next(self._numbers)
        try:
            join_for(self._cluster, running.workload, number, lasts_s, self._folder, running.journal)
        except (*UNREACHABLE, AssertionError):
            if max([0.0, *self._ends.values()]) < begin - running.workload.terms().settle_s:
                raise
            return None
        return f"java-{number}", [running]

    def _reset(self, lasts_s: float, draw: float) -> tuple[str, Sequence[Running]] | None:
        """Stop all members, set an offset back, and start the members again, as an operator does."""
        running = self._chosen([one for one in self._running if not one.workload.is_sink], draw)
        if running is None:
            return None
        for member in running.members:
            member.halt()
        try:
            is_reset = self._set_back(running, draw)
        finally:
            for member in running.members:
                member.resume()
        return (f"group {running.workload.name}", [running]) if is_reset else None

    def _set_back(self, running: Running, draw: float) -> bool:
        """Set an offset back, and journal it. Returns False if the group has no offset, or its store does not answer."""
        offsets = running.offsets()
        if not offsets:
            return False
        partition = sorted(offsets)[int(draw * len(offsets))]
        offset = int(offsets[partition] * (0.9 + draw / 10))
        for _ in range(_TRIES):
            begin = time.time()
            with suppress(*UNREACHABLE):
                running.group.reset(partition, offset)
                running.journal.add(Reset(begin, running.workload.name, partition, offset))
                return True
            time.sleep(1)
        return False

    @staticmethod
    def _chosen(found: Sequence[_Chosen], draw: float) -> _Chosen | None:
        return found[int(draw * len(found))] if found else None


def _planner(member: Member, draw: float) -> int | None:
    return member.planner


def _worker(member: Member, draw: float) -> int | None:
    """Choose a worker by digits of the draw that do not choose the member."""
    workers = member.workers
    return workers[int(draw * 1000 % 1 * len(workers))] if workers else None
