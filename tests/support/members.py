"""Members of consumer groups: some as processes of their own, and the state of several together."""

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
"""The session timeout of members and queries whose deaths are awaited; ZooKeeper's tick of 500 ms allows for 1 s."""

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
"""A member that is a process: it prints its session when it has joined, and leaves at SIGTERM."""

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
    """A monotonic clock that a test stops, and sets forward: of a member, only events and `pass_s` are left.

    While it stands still, no back-off, sweep or hold of the member ends by itself.
    """

    def __init__(self) -> None:
        self._stopped_at: float | None = None

    def __call__(self) -> float:
        """The time, in seconds."""
        return time.monotonic() if self._stopped_at is None else self._stopped_at

    def stop(self) -> None:
        """Stand still from now on."""
        self._stopped_at = self()

    def pass_s(self, seconds: float) -> None:
        """Stop, and set the clock forward."""
        self._stopped_at = self() + seconds


class MemberProcesses:
    """Members of the group ``g`` that are processes; `close` ends all."""

    def __init__(self, config: ZooKeeperConfig) -> None:
        self._config = config
        self._running: list[subprocess.Popen[str]] = []

    def start(self, consumer: str, session_s: float = SESSION_S, program: str = MEMBER) -> subprocess.Popen[str]:
        """Start one more."""
        arguments = [self._config.hosts, self._config.chroot, consumer, str(int(session_s * 1000))]
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
        self._running.append(process)
        return process

    def joined(self, consumer: str, session_s: float = SESSION_S) -> tuple[subprocess.Popen[str], str]:
        """Start one more; the process and its session, once it has joined."""
        process = self.start(consumer, session_s)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    def close(self) -> None:
        """End all."""
        for process in self._running:
            process.kill()
            process.communicate()


def numbers(member: GroupMember) -> list[int]:
    """The partitions that a member owns, in order."""
    return sorted(tp.partition for tp in member.owned())


def settled(members: Collection[GroupMember], partitions: int) -> bool:
    """Whether all members own what they are assigned, and together that number of partitions, each once."""
    owned = [tp for m in members for tp in m.owned()]
    return len(owned) == len(set(owned)) == partitions and all(m.wait_settled(0) for m in members)


def caught_up(members: Iterable[GroupMember]) -> list[int]:
    """The members' numbers of rebalances, once they have handled all that happened before the call."""
    members = list(members)
    for member in members:
        member.client.topic_names()  # a session is notified of earlier changes before it gets an answer
    eventually(lambda: all(member.settled for member in members))
    return [member.rebalances for member in members]


def at_rest(members: Collection[GroupMember]) -> bool:
    """Whether no member has rebalanced for a second."""
    before = caught_up(members)
    time.sleep(1)
    return caught_up(members) == before


def together(members: Collection[GroupMember], action: Callable[[GroupMember], None]) -> None:
    """Have all members do something at the same moment."""
    with ThreadPoolExecutor(len(members)) as pool:
        list(pool.map(action, members))


def seconds(action: Callable[[], object]) -> float:
    """The duration of an action."""
    begin = time.monotonic()
    action()
    return time.monotonic() - begin
