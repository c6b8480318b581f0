"""What went wrong in consumers that ZooKeeper balances, one test for each kind; on real servers, with real deaths."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyspark_zkafka.errors import ConsumerIdTaken
from pyspark_zkafka.group.commits import commit_offsets
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.options.model import GroupOptions, ZooKeeperConfig
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.planning import Subscribe, SubscribePattern
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.connection import Results, Watch
from tests.support.wire import Wire

if TYPE_CHECKING:
    from conftest import Chroot
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from pyspark_zkafka.testing import LocalCluster

Eventually = Callable[..., bool]
NewMember = Callable[..., GroupMember]
NewStream = Callable[..., Any]
NewTopic = Callable[..., str]

IDS = "/consumers/g/ids"
JVM = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
IDLE_JVM = JVM.replace(b'"t"', b'"nothing"')
SESSION_S = 2.0
"""What members and queries have here; ZooKeeper's tick of 500 ms allows for 1 s."""

MEMBER = """
import signal, sys, threading
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.options.model import GroupOptions, ZooKeeperConfig
from pyspark_zkafka.protocol.planning import Subscribe

hosts, chroot, consumer, session_ms = sys.argv[1:]
member = GroupMember(
    ZooKeeperConfig(hosts, chroot, int(session_ms), 6000),
    GroupOptions("g", consumer_id=consumer, backoff_ms=200, hold_ms=0),
    Subscribe(("t",)),
)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # as the planning process of a query has it
with member:
    print(f"0x{member.owner.session:x}", flush=True)
    threading.Event().wait()
"""
"""A member that is a process: it tells its session when it has joined, and leaves at SIGTERM."""

FORKING = (
    MEMBER.partition("signal.signal")[0]
    + """
import os, time
with member:
    if os.fork() == 0:
        child = GroupMember(member.client.config, GroupOptions("g", consumer_id="child", backoff_ms=200), Subscribe(("t",)))
        child.join()
        child.wait_settled(5)
        print("child", len(child.owned()), flush=True)
        os._exit(0)  # without leaving
    os.wait()
    end = time.monotonic() + 20
    while len(member.owned()) < 4 and time.monotonic() < end:
        member.wait(0.2)
    print("parent", len(member.owned()), flush=True)
"""
)


class Processes:
    """Members of the group ``g`` that are processes; all end with the test."""

    def __init__(self, config: ZooKeeperConfig) -> None:
        self._config = config
        self._running: list[subprocess.Popen[str]] = []

    def start(self, consumer: str, session_s: float = SESSION_S, program: str = MEMBER) -> subprocess.Popen[str]:
        """One more, as soon as it is told to be."""
        arguments = [self._config.hosts, self._config.chroot, consumer, str(int(session_s * 1000))]
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
        self._running.append(process)
        return process

    def joined(self, consumer: str, session_s: float = SESSION_S) -> tuple[subprocess.Popen[str], str]:
        """One more, once it has joined, with its session."""
        process = self.start(consumer, session_s)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    def close(self) -> None:
        """End all."""
        for process in self._running:
            process.kill()
            process.communicate()


@pytest.fixture
def processes(chroot: Chroot) -> Iterator[Processes]:
    """Starts members that are processes."""
    made = Processes(chroot.config)
    yield made
    made.close()


@pytest.fixture
def wire(zkafka_cluster: LocalCluster) -> Iterator[Wire]:
    """A way to ZooKeeper that can be cut."""
    with Wire(zkafka_cluster.port("zookeeper")) as way:
        yield way


@pytest.fixture
def third(chroot: Chroot) -> Iterator[KazooClient]:
    """One more session, to end at will."""
    client = KazooClient(chroot.config.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def numbers(member: GroupMember) -> list[int]:
    """The partitions that a member owns, in order."""
    return sorted(tp.partition for tp in member.owned())


def settled(members: Iterable[GroupMember], partitions: int) -> bool:
    """Whether all members have what they are given, and together own so many partitions, each once."""
    owned = [tp for m in members for tp in m.owned()]
    return all(m.settled for m in members) and len(owned) == len(set(owned)) == partitions


def seconds(action: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


# --- queries: what needs records ---------------------------------------------------------------------------------------


class Group:
    """A topic of the shared cluster, and the group ``group-of-<topic>`` that reads it with queries and members."""

    def __init__(self, cluster: LocalCluster, topic: str, znodes: KazooClient) -> None:
        self.cluster, self.topic, self.name, self.znodes = cluster, topic, f"group-of-{topic}", znodes
        hosts, _, chroot = cluster.zookeeper_connect.partition("/")
        self.config = ZooKeeperConfig(hosts, f"/{chroot}", int(SESSION_S * 1000), 6000)
        self.opened = ExitStack()

    def options(self, consumer: str, **more: str) -> dict[str, str]:
        """Of a query that joins."""
        return {
            "subscribe": self.topic,
            "group.id": self.name,
            "consumer.id": consumer,
            "auto.offset.reset": "earliest",
            "rebalance.backoff.ms": "200",
            "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
            "zookeeper.connection.timeout.ms": "6000",
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def member(self, consumer: str) -> GroupMember:
        """A member in this process, whose session lasts: it owns, and reads nothing."""
        options = GroupOptions(self.name, consumer_id=consumer, backoff_ms=200, hold_ms=0)
        config = replace(self.config, session_timeout_ms=20_000)
        return self.opened.enter_context(GroupMember(config, options, Subscribe((self.topic,))))

    def produce(self, records: int, *partitions: int) -> None:
        """So many records in each of the partitions."""
        self.cluster.produce(self.topic, [{"value": b"v", "partition": p} for p in partitions for _ in range(records)])

    def owners(self, topic: str | None = None) -> dict[int, str]:
        """The consumers that own partitions."""
        path = f"/consumers/{self.name}/owners/{topic or self.topic}"
        found = self._values(path)
        return {int(p): data.decode().rpartition("-")[0].removeprefix(f"{self.name}_") for p, data in found.items()}

    def offsets(self) -> dict[int, int]:
        """What is committed."""
        return {int(p): int(data) for p, data in self._values(f"/consumers/{self.name}/offsets/{self.topic}").items()}

    def registered(self, consumer: str) -> str | None:
        """When a consumer has registered, None if it has not."""
        data = self._values(f"/consumers/{self.name}/ids").get(f"{self.name}_{consumer}")
        return None if data is None else str(json.loads(data)["timestamp"])

    def _values(self, path: str) -> dict[str, bytes]:
        return {name: data for name in self._read(self.znodes.get_children, path, []) if (data := self._data(path, name))}

    def _data(self, path: str, name: str) -> bytes | None:
        return self._read(lambda at: self.znodes.get(at)[0], f"{path}/{name}", None)

    def _read(self, read: Callable[[str], Any], path: str, missing: Any) -> Any:
        try:
            return self.znodes.retry(read, path)
        except NoNodeError:
            return missing


@pytest.fixture
def new_group(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> Iterator[Callable[..., Group]]:
    """Makes groups, each with a topic of its own: ``new_group(partitions=2)``."""
    with zkafka_cluster.zookeeper() as znodes, ExitStack() as opened:

        def make(**topic: Any) -> Group:
            group = Group(zkafka_cluster, new_topic(**topic), znodes)
            opened.callback(group.opened.close)
            return group

        yield make


@pytest.fixture
def planner(spark: SparkSession) -> Callable[[], int]:
    """The process that plans the only query of this Spark session."""
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]

    def find() -> int:
        found = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _plans_for(p, jvm)]
        assert len(found) == 1
        return found[0]

    return find


def _plans_for(process: Path, jvm: int) -> bool:
    try:
        command, stat = (process / "cmdline").read_bytes(), (process / "stat").read_text()
    except OSError:
        return False
    return b"python_streaming_source_runner" in command and int(stat.rpartition(")")[2].split()[1]) == jvm


@contextmanager
def halted(pid: int) -> Iterator[None]:
    """A process that does nothing."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Gate:
    """Holds micro-batches back: each waits, with its rows gathered, until they are let through."""

    def __init__(self) -> None:
        self.waiting, self._open = threading.Event(), threading.Event()

    def open(self) -> None:
        """Let this one and all others through."""
        self._open.set()

    def hold(self, frame: object, number: int) -> None:
        """What a stream does in a micro-batch."""
        self.waiting.set()
        assert self._open.wait(60)


@pytest.fixture
def gate(stream: NewStream) -> Iterator[Gate]:
    """Is open by the time that the test's streams are stopped."""
    made = Gate()
    yield made
    made.open()


# --- the rows ----------------------------------------------------------------------------------------------------------


def test_row_01_partial_claim_left_behind(
    chroot: Chroot, new_member: NewMember, third: KazooClient, eventually: Eventually
) -> None:
    """A claim that fails leaves no owner's znode, try after try, so that the peer in the way can have what it wants."""
    chroot.topic("t", 6)
    chroot.claim("g", TopicPartition("t", 4), b"g_jvm-0", third)
    member = new_member("c1", "t", backoff_ms=50)
    seen: list[dict[int, str]] = []
    with member:
        assert eventually(lambda: seen.append(chroot.owners("g")) or member.rebalances >= 5)
        assert seen == [{4: "g_jvm-0"}] * len(seen)
        assert member.owned() == {}
        chroot.claim("g", TopicPartition("t", 3), b"g_jvm-0", third)
        assert eventually(lambda: member.rebalances >= 7)
        assert chroot.owners("g") == {3: "g_jvm-0", 4: "g_jvm-0"}
        third.stop()
        assert eventually(lambda: settled([member], 6))


def test_row_02_ghost_of_the_old_session(
    chroot: Chroot, new_member: NewMember, processes: Processes, eventually: Eventually
) -> None:
    """While it lives, the holder of an id is named with its session; once killed, a member by the same id takes over."""
    chroot.topic("t", 3)
    process, session = processes.joined("c1", session_s=1)
    with pytest.raises(ConsumerIdTaken, match=rf"group g has a member g_c1 already, of session {session};"):
        new_member("c1", "t", session_ms=1000).join()
    process.kill()
    member = new_member("c1", "t", session_ms=2000)
    assert seconds(member.join) < 3
    assert numbers(member) == [0, 1, 2]
    assert {chroot.other.exists(f"/consumers/g/owners/t/{n}").ephemeralOwner for n in range(3)} == {member.owner.session}
    assert eventually(lambda: settled([member], 3))


def test_row_03_reading_on_after_expiry(
    new_group: Callable[..., Group],
    stream: NewStream,
    planner: Callable[[], int],
    eventually: Eventually,
) -> None:
    """A query whose session has expired drops what it owned, registers anew by its id, and reads nothing of another's."""
    group = new_group(partitions=2)
    group.produce(5, 0, 1)
    member = group.member("c2")
    query = stream(group.options("c1"))
    query.start()
    query.wait_for(5)
    assert eventually(lambda: group.owners() == {0: "c1", 1: "c2"})
    registered = group.registered("c1")
    with halted(planner()):
        assert eventually(lambda: group.owners() == {0: "c2", 1: "c2"}, timeout_s=SESSION_S + 4)
        group.produce(5, 0, 1)
    assert eventually(lambda: settled([member], 1) and group.owners() == {0: "c1", 1: "c2"})
    assert (group.registered("c1") or "") > (registered or "")
    query.wait_for(10)
    assert query.offsets(0) == list(range(10))
    assert query.offsets(1) == []


def test_row_04_unowned_after_a_network_failure(
    chroot: Chroot, new_member: NewMember, wire: Wire, eventually: Eventually
) -> None:
    """After a failure that ended all sessions, every partition is owned by a live member again, without any restart."""
    chroot.topic("t", 7)
    members = [new_member(f"c{n}", "t", session_ms=1000, hosts=wire.address) for n in range(3)]
    for member in members:
        member.join()
    for break_wire in (wire.silence, wire.cut):
        assert eventually(lambda: settled(members, 7))
        break_wire()
        assert eventually(lambda: chroot.owners("g") == {} and chroot.ids("g") == {})
        assert [member.owned() for member in members] == [{}] * 3
        wire.mend()
    assert eventually(lambda: settled(members, 7))
    alive = {member.owner.session for member in members}
    assert {chroot.other.exists(f"/consumers/g/owners/t/{n}").ephemeralOwner for n in range(7)} == alive


def test_row_05_a_member_that_registers_during_a_rebalance(
    chroot: Chroot, new_member: NewMember, eventually: Eventually
) -> None:
    """Twenty members that start at the same moment settle within seconds, each after a few rebalances."""
    chroot.topic("t", 50)
    members = [new_member(f"c{n:02}", "t", session_ms=10_000) for n in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(GroupMember.join, members))
    assert eventually(lambda: settled(members, 50), timeout_s=20)
    assert [len(m.owned()) for m in members] == [3] * 10 + [2] * 10
    assert max(m.rebalances for m in members) <= 20
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(GroupMember.leave, members[::2]))
    assert eventually(lambda: settled(members[1::2], 50), timeout_s=20)


def test_row_06_herd(chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
    """What concerns nobody of the group makes nobody rebalance; a burst of events makes a few rebalances at the most."""
    chroot.topic("t", 6)
    chroot.topic("p-1", 3)
    members = [new_member("c1", "t"), new_member("c2", "t"), new_member("c3", SubscribePattern("p-.*"))]
    for member in members:
        member.join()
    assert eventually(lambda: settled(members, 9))

    def looks() -> list[int]:
        return [member.rebalances for member in members]

    before = looks()
    while eventually(lambda was=before: looks() != was, timeout_s=0.3):  # what the last arrival still brings about
        before = looks()
    for n in range(10):
        chroot.topic(f"unread-{n}", 1)
        chroot.register("h", f"h_{n}", JVM)
        chroot.claim("g", TopicPartition("unread", n), b"g_jvm-0")
    assert not eventually(lambda: looks() != before, timeout_s=0.5)
    for n in range(60):
        chroot.other.delete(chroot.register("g", f"g_{n}", IDLE_JVM))
    chroot.topic("t", 8)
    assert eventually(lambda: settled(members, 11))
    assert max(now - was for now, was in zip(looks(), before, strict=True)) < 30


def test_row_07_retries_too_few(
    chroot: Chroot, new_member: NewMember, third: KazooClient, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """A member that cannot claim tells what is in its way, goes on trying, and claims at once when the way is free."""
    chroot.topic("t", 3)
    chroot.claim("g", TopicPartition("t", 1), b"g_jvm-0", third)
    session = f"0x{third.client_id[0]:x}"
    with new_member("c1", "t", max_retries=3) as member:
        holder = f"t-1 is owned by g_jvm-0 (session {session})"
        told = f"g_c1 cannot claim its partitions after 6 tries, and goes on trying: {holder}"
        assert eventually(lambda: told in caplog.text)
        assert member.owned() == {}
        assert not member.settled
        assert seconds(lambda: third.stop() or eventually(lambda: settled([member], 3))) < 0.7


def test_row_08_lost_watches(chroot: Chroot, new_member: NewMember, wire: Wire, eventually: Eventually) -> None:
    """Whatever changes while the connection is away is found when it is back, in the same session."""
    chroot.topic("t", 4)
    chroot.topic("p-1", 1)
    with (
        new_member("c1", "t", hosts=wire.address) as plain,
        new_member("c2", SubscribePattern("p-.*"), hosts=wire.address) as by_filter,
    ):
        sessions = [plain.owner, by_filter.owner]
        wire.cut()
        chroot.topic("t", 6)
        chroot.topic("p-2", 1)
        chroot.other.delete(f"{IDS}/g_c1")
        with new_member("c3", "t") as newcomer:
            wire.mend()
            assert eventually(lambda: settled([plain, by_filter, newcomer], 8))
            assert (numbers(plain), numbers(newcomer)) == ([0, 1, 2], [3, 4, 5])
            assert [plain.owner, by_filter.owner] == sessions


def test_row_09_stop_and_fork(
    chroot: Chroot, new_member: NewMember, wire: Wire, processes: Processes, eventually: Eventually
) -> None:
    """Leaving ends within seconds though ZooKeeper is silent; a forked child is a member of its own, and harms no other."""
    chroot.topic("t", 4)
    members = [new_member(f"c{n}", "t", hosts=wire.address, session_ms=int(SESSION_S * 1000)) for n in range(3)]
    for member in members:
        member.join()
    wire.silence()
    threading.Thread(target=members[0].look_again).start()
    with ThreadPoolExecutor(3) as pool:
        assert max(pool.map(lambda member: seconds(member.leave), members)) < 4.5
    assert eventually(lambda: chroot.ids("g") == {}, timeout_s=SESSION_S + 4)
    output, _ = processes.start("parent", program=FORKING).communicate(timeout=30)
    assert output.split("\n") == ["child 2", "parent 4", ""]


def test_row_10_dead_consumers_that_live_on(
    chroot: Chroot, new_member: NewMember, processes: Processes, eventually: Eventually
) -> None:
    """A member that has left is garbage and has no threads; one whose process is killed is gone with its session."""
    chroot.topic("t", 4)
    process, _ = processes.joined("c2")
    survivor = new_member("c3", "t")
    survivor.join()
    leaver = GroupMember(chroot.config, GroupOptions("g", consumer_id="c1"), Subscribe(("t",)))
    leaver.join()
    leaver.leave()
    chroot.other.delete(chroot.register("g", "g_after", IDLE_JVM))
    ghost = weakref.ref(leaver)
    del leaver
    gc.collect()
    assert ghost() is None
    assert "zkafka-member-g_c1" not in [thread.name for thread in threading.enumerate()]
    assert eventually(lambda: numbers(survivor) == [2, 3])
    process.kill()
    assert eventually(lambda: set(chroot.ids("g")) == {"g_c3"}, timeout_s=SESSION_S + 2)
    assert eventually(lambda: numbers(survivor) == [0, 1, 2, 3])


def test_row_11_partition_without_leader(
    zkafka_cluster: LocalCluster, new_group: Callable[..., Group], stream: NewStream, eventually: Eventually
) -> None:
    """A partition that has no leader waits for one, owned, while the others are read."""
    group = new_group(assignment={0: [0], 1: [1]})
    group.produce(3, 0, 1)
    zkafka_cluster.stop(1)
    try:
        query = stream(group.options("c1"))
        running = query.start()
        query.wait_for(3)
        assert group.owners() == {0: "c1", 1: "c1"}
        assert query.offsets(1) == []
    finally:
        zkafka_cluster.restart(1)
    query.wait_for(6)
    assert query.offsets(1) == [0, 1, 2]
    assert running.isActive


def test_row_12_leader_in_the_path(chroot: Chroot, new_member: NewMember, eventually: Eventually) -> None:
    """Claims are named after the partition alone: a leader that moves neither orphans one nor makes anybody rebalance."""
    chroot.topic("t", 3)
    state = '{{"controller_epoch":1,"leader":{},"version":1,"leader_epoch":0,"isr":[2,1]}}'
    for n in range(3):
        chroot.other.create(f"/brokers/topics/t/partitions/{n}/state", state.format(1).encode(), makepath=True)
    with new_member("c1", "t") as member:
        claims, before = member.owned(), member.rebalances
        for n in range(3):
            chroot.other.set(f"/brokers/topics/t/partitions/{n}/state", state.format(2).encode())
        assert not eventually(lambda: member.rebalances != before, timeout_s=0.3)
        assert sorted(chroot.other.get_children("/consumers/g/owners/t")) == ["0", "1", "2"]
        assert member.owned() == claims


def test_row_13_new_partitions_and_topics(
    zkafka_cluster: LocalCluster, new_group: Callable[..., Group], stream: NewStream, eventually: Eventually
) -> None:
    """Partitions and topics that come while a query runs are claimed, in numerical order, and read from their beginning."""
    group = new_group(partitions=2)
    group.produce(2, 0, 1)
    options = group.options("c1", subscribePattern=f"{group.topic}.*")
    del options["subscribe"]
    query = stream(options)
    query.start()
    query.wait_for(4)
    peer = GroupMember(
        group.config, GroupOptions(group.name, consumer_id="c2", backoff_ms=200), SubscribePattern(f"{group.topic}.*")
    )
    group.opened.enter_context(peer)
    zkafka_cluster.add_partitions(group.topic, 12)
    group.produce(2, 2, 5, 10)
    shares = dict.fromkeys(range(6), "c1") | dict.fromkeys(range(6, 12), "c2")
    assert eventually(lambda: group.owners() == shares)
    query.wait_for(8)
    assert (query.offsets(2), query.offsets(5), query.offsets(10)) == ([0, 1], [0, 1], [])
    zkafka_cluster.create_topic(f"{group.topic}-more")
    zkafka_cluster.produce(f"{group.topic}-more", [{"value": b"v"}] * 3)
    query.wait_for(11)
    assert query.offsets(0, f"{group.topic}-more") == [0, 1, 2]
    assert group.owners(f"{group.topic}-more") == {0: "c1"}


def test_row_14_commit_by_a_member_that_lost_ownership(
    new_group: Callable[..., Group],
    stream: NewStream,
    gate: Gate,
    planner: Callable[[], int],
    eventually: Eventually,
) -> None:
    """A query that slept through its session's end does not commit what it has done over the new owner's progress."""
    group = new_group()
    group.produce(10, 0)
    query = stream(group.options("c2"))
    query.in_batch = gate.hold
    query.start()
    assert gate.waiting.wait(60)
    seen: list[int] = []

    def watch() -> bool:
        seen.append(group.offsets().get(0, 0))
        return seen[-1] > 7

    with halted(planner()):
        member = group.member("c1")
        assert eventually(lambda: settled([member], 1), timeout_s=SESSION_S + 4)
        partition = TopicPartition(group.topic, 0)
        assert commit_offsets(member.client, group.name, {partition: 7}, owner=member.owner).written == {partition: 7}
        gate.open()
    assert eventually(lambda: group.registered("c2") is not None)
    assert not eventually(watch, timeout_s=2.5)
    assert set(seen) == {7}
    assert group.owners() == {0: "c1"}
    member.leave()
    group.produce(2, 0)
    query.wait_for(15)
    assert query.offsets(0) == [*range(10), *range(7, 12)]  # it goes on where the new owner was
    assert eventually(lambda: group.offsets() == {0: 12})


def test_row_15_commit_during_a_rebalance(
    new_group: Callable[..., Group], stream: NewStream, gate: Gate, eventually: Eventually
) -> None:
    """A rebalance while a micro-batch runs commits nothing of it: only what is done, and still owned, is ever committed."""
    group = new_group(partitions=2)
    group.produce(4, 0, 1)
    query = stream(group.options("c1", rebalance_hold_ms="500"))
    query.in_batch = gate.hold
    query.start()
    assert gate.waiting.wait(60)
    assert group.owners() == {0: "c1", 1: "c1"}
    member = group.member("c2")
    assert eventually(lambda: settled([member], 1) and group.owners() == {0: "c1", 1: "c2"})
    assert group.offsets() == {0: 0, 1: 0}  # where it has begun
    gate.open()
    assert eventually(lambda: group.offsets() == {0: 4, 1: 0})
    assert not eventually(lambda: group.offsets() != {0: 4, 1: 0}, timeout_s=0.5)


def test_row_16_more_consumers_than_partitions(
    new_group: Callable[..., Group],
    stream: NewStream,
    planner: Callable[[], int],
    eventually: Eventually,
) -> None:
    """A query without a partition waits without work, takes over when the owner leaves, and leaves at once when stopped."""
    group = new_group()
    group.produce(3, 0)
    member = group.member("c1")
    query = stream(group.options("c2", zookeeper_session_timeout_ms="30000"))
    running: StreamingQuery = query.start()
    assert eventually(lambda: group.registered("c2") is not None, timeout_s=30)
    begin, spent = time.monotonic(), _cpu_s(planner())
    assert not eventually(lambda: query.rows or not running.isActive, timeout_s=2.5)
    assert _cpu_s(planner()) - spent < 0.2 * (time.monotonic() - begin)
    assert group.owners() == {0: "c1"}
    member.leave()
    query.wait_for(3)
    assert group.owners() == {0: "c2"}
    assert eventually(lambda: group.offsets() == {0: 3})
    running.stop()
    assert eventually(lambda: group.registered("c2") is None and group.owners() == {}, timeout_s=4)


def _cpu_s(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Vanishing(ZooKeeperClient):
    """A client before whose eyes a znode vanishes: it is deleted as soon as it was listed."""

    def __init__(self, config: ZooKeeperConfig, other: KazooClient, path: str) -> None:
        super().__init__(config)
        self._other, self._path = other, path

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
    ) -> Results:
        answers = super().ask(get, children, exists, watch)
        parent, _, name = self._path.rpartition("/")
        if name in answers.children.get(parent, ()) and self._other.exists(self._path):
            self._other.delete(self._path)
        return answers


GARBAGE = [
    None,
    b"",
    b"\xff\xfe",
    b"null",
    b"[]",
    b'{"version":1,"subscription":{"t":"1"},"pattern":"static"}',
    b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
    b'{"version":1,"subscription":{"\\ud800":1},"pattern":"static"}',
]
ODD = [
    b'{"version":1,"subscription":{"a/b":1,"..":1,"":1,"\\u0000":1,"\xc3\xa4":1},"pattern":"static"}',
    b'{"version":1,"subscription":{},"pattern":"static"}',
]


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_row_17_bytes_and_nulls(
    chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture, strategy: str
) -> None:
    """Names are text; what others write in bad form, or delete after it was listed, stops nobody, and is told of once."""
    chroot.topic("t", 4)
    chroot.other.create("/brokers/topics/nothing", None)
    for n, data in enumerate([*GARBAGE, *ODD]):
        chroot.register("g", f"g_{n}", data)
    chroot.claim("g", TopicPartition("u", 0), None)
    with new_member("c1", "t", strategy=strategy) as member, new_member("c2", "t", "nothing", strategy=strategy) as second:
        assert eventually(lambda: settled([member, second], 4))
        assert chroot.other.get_children("/consumers") == ["g"]
        assert set(chroot.owners("g").values()) == {"g_c1-0", "g_c2-0"}
        path = chroot.register("g", "g_late", ODD[0])
        assert eventually(lambda: caplog.text.count("g_c1: left out of the assignment") == len(GARBAGE))
        with Vanishing(chroot.config, chroot.other, path) as client:
            assert "g_late" not in client.group_members("g").readable
        assert eventually(lambda: settled([member, second], 4))
    assert "could not follow" not in caplog.text


def test_row_18_shutdown_races(
    zkafka_cluster: LocalCluster, chroot: Chroot, processes: Processes, third: KazooClient, eventually: Eventually
) -> None:
    """SIGTERM ends a member within seconds: while it tries again and again, at once; while ZooKeeper is halted, too."""
    chroot.topic("t", 3)
    path = chroot.claim("g", TopicPartition("t", 1), b"g_jvm-0", third)
    trying, _ = processes.joined("c1", session_s=30)
    trying.terminate()
    assert seconds(lambda: trying.wait(10)) < 2
    assert trying.returncode == 128 + signal.SIGTERM
    assert eventually(lambda: chroot.ids("g") == {}, timeout_s=1)
    chroot.other.delete(path)
    owning, _ = processes.joined("c2")
    zkafka_cluster.pause("zookeeper")
    try:
        owning.terminate()
        assert seconds(lambda: owning.wait(10)) < 5
    finally:
        zkafka_cluster.resume("zookeeper")
    assert eventually(lambda: chroot.ids("g") == {} and chroot.owners("g") == {}, timeout_s=SESSION_S + 4)


def test_row_19_foreign_formats(
    chroot: Chroot, new_member: NewMember, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    """The znodes of pykafka, a bare topic for a registration and claims of names that no other has, break no planning."""
    chroot.topic("t", 4)
    chroot.register("g", "host:7c9e6679-7425-40de-944b-e07fc1f90ae7", b"t")
    pykafka = "/consumers/g/owners/b't'"
    chroot.other.ensure_path(pykafka)
    for n in range(4):
        chroot.other.create(f"{pykafka}/0-{n}", b"host:7c9e6679-7425-40de-944b-e07fc1f90ae7", ephemeral=True)
    with new_member("c1", "t") as first, new_member("c2", "t") as second:
        assert eventually(lambda: settled([first, second], 4))
        assert commit_offsets(first.client, "g", dict.fromkeys(first.owned(), 5), owner=first.owner).lost == frozenset()
        assert sorted(chroot.other.get_children(pykafka)) == ["0-0", "0-1", "0-2", "0-3"]
    assert "host:7c9e6679-7425-40de-944b-e07fc1f90ae7 cannot be read: found b't'" in caplog.text


def test_row_20_broker_that_vanishes_while_it_is_listed(chroot: Chroot, new_member: NewMember) -> None:
    """A broker whose znode goes between the list and the look is left out; a group is shared even without any broker."""
    chroot.topic("t", 2)
    for n in (1, 2):
        broker = f'{{"jmx_port":-1,"timestamp":"1","host":"127.0.0.1","version":1,"port":{29100 + n}}}'
        chroot.other.create(f"/brokers/ids/{n}", broker.encode())
    with Vanishing(chroot.config, chroot.other, "/brokers/ids/1") as client:
        assert list(client.snapshot().brokers) == [2]
    chroot.other.delete("/brokers/ids/2")
    with new_member("c1", "t") as member:
        assert numbers(member) == [0, 1]
