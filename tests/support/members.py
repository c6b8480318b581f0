"""Members of consumer groups: separate processes, and the joint state of several members."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from pyspark_zkafka.group.member import GroupMember
    from pyspark_zkafka.options.values import ZooKeeperConfig

__all__ = [
    "FORKING",
    "SESSION_S",
    "MemberProcesses",
    "StoppingClock",
    "at_rest",
    "caught_up",
    "numbers",
    "seconds",
    "settled",
    "together",
]

SESSION_S = 2.0
"""The session time-out of members and queries whose deaths are awaited. ZooKeeper's tick of 500 ms allows for 1 s."""

MEMBER = """
import signal, sys, threading
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.options.stream import parse_stream

hosts, chroot, consumer, session_ms = sys.argv[1:]
options = {"zookeeper.connect": hosts + chroot, "group.id": "g", "consumer.id": consumer, "subscribe": "t"}
options |= {"zookeeper.session.timeout.ms": session_ms, "zookeeper.connection.timeout.ms": "6000"}
options |= {"rebalance.backoff.ms": "200", "rebalance.hold.ms": "0"}
parsed = parse_stream(options)
member = GroupMember(parsed.read.connection.zookeeper, parsed.group, parsed.read.subscription)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # as the planning process of a query has it
with member:
    print(f"0x{member.owner.session:x}", flush=True)
    threading.Event().wait()
"""
"""The program of a member: it prints its session after joining, and leaves at SIGTERM."""

FORKING = (
    MEMBER.partition("signal.signal")[0]
    + """
import os, time
with member:
    if os.fork() == 0:
        forked = parse_stream({**options, "consumer.id": "child"}).group
        child = GroupMember(member.client.config, forked, parsed.read.subscription)
        child.join()
        child.wait_settled(20)
        print("child", len(child.owned()), flush=True)
        os._exit(0)  # without leaving
    os.wait()
    end = time.monotonic() + 20
    while len(member.owned()) < 4 and time.monotonic() < end:
        member.wait(0.2)
    print("parent", len(member.owned()), flush=True)
"""
)


class StoppingClock:
    """A monotonic clock that a test stops and sets forward, so that only events and `pass_s` make a member act.

    While it is stopped, no back-off, sweep or hold of the member ends.
    """

    def __init__(self) -> None:
        self._stopped_at: float | None = None

    def __call__(self) -> float:
        """Return the time in seconds."""
        return time.monotonic() if self._stopped_at is None else self._stopped_at

    def stop(self) -> None:
        """Stop the clock."""
        self._stopped_at = self()

    def pass_s(self, seconds: float) -> None:
        """Stop the clock and set it forward."""
        self._stopped_at = self() + seconds


class MemberProcesses:
    """Processes of members of the group ``g``; `close` ends them all."""

    def __init__(self, config: ZooKeeperConfig) -> None:
        self._config = config
        self._running: list[subprocess.Popen[str]] = []

    def start(self, consumer: str, session_s: float = SESSION_S, program: str = MEMBER) -> subprocess.Popen[str]:
        """Start another process."""
        arguments = [self._config.hosts, self._config.chroot, consumer, str(int(session_s * 1000))]
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
        self._running.append(process)
        return process

    def joined(self, consumer: str, session_s: float = SESSION_S) -> tuple[subprocess.Popen[str], str]:
        """Start another process; return it and its session once it has joined."""
        process = self.start(consumer, session_s)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    def close(self) -> None:
        """Kill all processes."""
        for process in self._running:
            process.kill()
            process.communicate()


def numbers(member: GroupMember) -> list[int]:
    """Return the partitions that a member owns, in order."""
    return sorted(tp.partition for tp in member.owned())


def settled(members: Collection[GroupMember], partitions: int) -> bool:
    """Return whether all members are settled, and together own this number of partitions, each once."""
    owned = [tp for m in members for tp in m.owned()]
    return len(owned) == len(set(owned)) == partitions and all(m.wait_settled(0) for m in members)


def caught_up(members: Iterable[GroupMember]) -> list[int]:
    """Return the members' numbers of rebalances, once they have handled all events before the call."""
    members = list(members)
    for member in members:
        member.client.topic_names()  # a session is notified of earlier changes before it gets a response
    eventually(lambda: all(member.settled for member in members))
    return [member.rebalances for member in members]


def at_rest(members: Collection[GroupMember]) -> bool:
    """Return whether no member has rebalanced for a second."""
    before = caught_up(members)
    time.sleep(1)
    return caught_up(members) == before


def together(members: Collection[GroupMember], action: Callable[[GroupMember], None]) -> None:
    """Run an action for all members at the same time."""
    with ThreadPoolExecutor(len(members)) as pool:
        list(pool.map(action, members))


def seconds(action: Callable[[], object]) -> float:
    """Return the duration of an action."""
    begin = time.monotonic()
    action()
    return time.monotonic() - begin
