"""Time until every partition of a group is owned again, after a member's death, leave and arrival.

Run it as ``.venv/bin/python benchmarks/rebalance.py``; it takes about three minutes. Each member is a separate process,
which owns partitions and reads nothing, so nothing waits for a micro-batch. The ZooKeeper is real, on this machine. The
clock stops when the range assignor's result for the remaining members is in force.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from pyspark_zkafka.model.assignors import Subscribers, assign, java_order
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

SIZES = (2, 5, 20)
PARTITIONS = 60
ROUNDS = 7
SESSION_MS = 6000
GROUP, TOPIC = "rebalance", "shared"
TIMEOUT_S = 60.0

MEMBER = """
import sys
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.options.stream import parse_stream

ensemble, group, topic, name, session_ms = sys.argv[1:]
options = {"zookeeper.connect": ensemble, "zookeeper.session.timeout.ms": session_ms}
options |= {"group.id": group, "subscribe": topic, "consumer.id": name}
parsed = parse_stream(options)
member = GroupMember(parsed.read.connection.zookeeper, parsed.group, parsed.read.subscription)
for line in sys.stdin:
    member.join() if line == "join\\n" else member.leave()
"""


class Member:
    """The process of a member, which joins and leaves on request."""

    def __init__(self, config: ZooKeeperConfig, name: str) -> None:
        self.name, self._config = name, config
        self._start()

    def tell(self, what: str) -> None:
        """Send ``join`` or ``leave``."""
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill the process; `revive` starts another one."""
        self._process.kill()

    def revive(self) -> None:
        """Start another process with the same id, after a kill."""
        self._process.communicate()
        self._start()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _start(self) -> None:
        arguments = [self._config.connect, GROUP, TOPIC, self.name, str(SESSION_MS)]
        self._process = subprocess.Popen([sys.executable, "-c", MEMBER, *arguments], stdin=subprocess.PIPE, text=True)


class Group:
    """The group's state in ZooKeeper."""

    def __init__(self, zookeeper: ZooKeeperClient) -> None:
        self._zookeeper = zookeeper
        partitions = [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
        self._paths = {group_znodes.owner_path(GROUP, tp): tp for tp in partitions}

    def is_owned_by(self, members: list[Member]) -> bool:
        """Return whether each partition is owned by the member that the range assignor chooses."""
        threads = sorted((f"{GROUP}_{member.name}-0" for member in members), key=java_order)
        wanted = assign("range", Subscribers({TOPIC: tuple(threads)}, {TOPIC: tuple(range(PARTITIONS))}))
        found = self._zookeeper.get_many(self._paths)
        return {self._paths[path]: (node.data or b"").decode() for path, node in found.items()} == wanted

    def is_registered(self, member: Member) -> bool:
        """Return whether the member's registration exists, even if the member is dead."""
        path = group_znodes.id_path(GROUP, f"{GROUP}_{member.name}")
        return path in self._zookeeper.exists_many([path])


def until(condition: Callable[[], bool]) -> float:
    """Wait for a condition, and return the time when it became true."""
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the group does not settle")
        time.sleep(0.002)
    return time.monotonic()


def rounds(group: Group, members: list[Member], count: int = ROUNDS) -> Iterator[dict[str, float]]:
    """Yield the times of each round, in which another member leaves, arrives and dies, in seconds."""
    for number in range(count):
        member = members[number * len(members) // count]
        others = [m for m in members if m is not member]
        times = {}
        begin = time.monotonic()
        member.tell("leave")
        times["leave"] = until(lambda: group.is_owned_by(others)) - begin  # noqa: B023
        begin = time.monotonic()
        member.tell("join")
        times["arrival"] = until(lambda: group.is_owned_by(members)) - begin
        begin = time.monotonic()
        member.kill()
        gone = until(lambda: not group.is_registered(member))  # noqa: B023
        end = until(lambda: group.is_owned_by(others))  # noqa: B023
        times |= {"death": end - begin, "death, after the session's end": end - gone}
        member.revive()
        member.tell("join")
        until(lambda: group.is_owned_by(members))
        yield times


@contextmanager
def started(config: ZooKeeperConfig, group: Group, size: int) -> Iterator[list[Member]]:
    """Start this many members that share the topic."""
    with ExitStack() as opened:
        members = [Member(config, f"m{n:02}") for n in range(size)]
        for member in members:
            opened.callback(member.close)
            member.tell("join")
        until(lambda: group.is_owned_by(members))
        yield members
        for member in members:
            member.tell("leave")
        until(lambda: not any(map(group.is_registered, members)))


def main() -> None:
    """Measure, and print a table."""
    title = f"Until all {PARTITIONS} partitions are owned, in seconds\n{ROUNDS} rounds, sessions of {SESSION_MS} ms"
    table = Table(title=title)
    for heading in ("members", "after", "median", "worst"):
        table.add_column(heading, justify="left" if heading == "after" else "right")
    with LocalCluster(brokers=1) as cluster, Progress(transient=True) as progress:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
        config = parse_connection({"zookeeper.connect": cluster.zookeeper_connect}).zookeeper
        with ZooKeeperClient(config) as zookeeper:
            group = Group(zookeeper)
            for size in progress.track(SIZES, description="Groups"):
                with started(config, group, size) as members:
                    found = list(rounds(group, members))
                for what in found[0]:
                    times = [one[what] for one in found]
                    table.add_row(str(size), what, f"{statistics.median(times):.3f}", f"{max(times):.3f}")
                table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
