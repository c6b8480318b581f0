"""Queries with fixed ends next to other members of their group, which live, die or fall silent."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager

import pytest
from pyspark.errors import StreamingQueryException

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition, session_text
from pyspark_zkafka.model.znodes.groups import owner_path
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_session import StreamSession
from pyspark_zkafka.testing import LocalCluster
from tests.support.fill import fill
from tests.support.memberships import SESSION_MS, MemberGroup
from tests.support.stream import Stream

PARTITIONS = range(4)
ROWS = 10
EVERYTHING = {(number, offset) for number in PARTITIONS for offset in range(ROWS)}
LONG_SESSIONS = {
    "zookeeper": {"zookeeper.session.timeout.ms": "40000"},
    "cooperative-sticky": {"session.timeout.ms": "60000"},
}
SHORT_SESSION = {"zookeeper": {"zookeeper.session.timeout.ms": str(SESSION_MS)}, "cooperative-sticky": {}}

PLANNER = """
import json, sys, time
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read.stream_driver import StreamDriver

driver = StreamDriver(parse_stream(json.loads(sys.argv[1])))
start = driver.initial()
driver.latest(start, limited=False)
print("joined", flush=True)
while True:
    time.sleep(0.2)
    driver.latest(start, limited=False)
"""
"""The planning process of a query that owns its share, and never finishes a micro-batch."""


@contextmanager
def silent_member(options: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A joined member that commits nothing, as a process that a test may kill."""
    with subprocess.Popen([sys.executable, "-c", PLANNER, json.dumps(options)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "joined\n"
            yield other
        finally:
            other.kill()


@pytest.fixture(params=LONG_SESSIONS)
def group(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> MemberGroup:
    """A group with a topic of four partitions with ten records each, in ZooKeeper or in Kafka."""
    made = MemberGroup(zkafka_cluster, request.param, new_topic(partitions=len(PARTITIONS)))
    fill(zkafka_cluster, made.topic, ROWS, PARTITIONS)
    return made


@pytest.mark.spark(4, 2)
@pytest.mark.long
@pytest.mark.parametrize("is_patient", [True, False])
def test_dead_member_with_a_longer_session(group: MemberGroup, stream: Callable[..., Stream], is_patient: bool) -> None:
    """A query does not take a killed member for alive because the member's session outlasts the query's own.

    It reads the member's partitions after that session has expired, or fails if its patience ends earlier.
    """
    patience = {} if is_patient else {"kafkaConsumer.pollTimeoutMs": "4000"}
    query = stream(group.options() | SHORT_SESSION[group.kind] | patience, connection={})
    with silent_member(group.options() | LONG_SESSIONS[group.kind]) as other:
        query.in_batch = lambda frame, number: other.kill()
        if is_patient:
            query.run(timeout_s=150)
            assert {(row.partition, row.offset) for row in query.rows} == EVERYTHING
        else:
            with pytest.raises(StreamingQueryException, match=r"ENDS_NOT_REACHED.*did not commit"):
                query.run(timeout_s=100)
            assert len(query.rows) == 2 * ROWS


@pytest.mark.spark(4, 2)
@pytest.mark.long
def test_queries_that_end_at_different_times(group: MemberGroup, stream: Callable[..., Stream]) -> None:
    """Two queries of one group with fixed ends both succeed, although one takes longer to read its share."""
    options = group.options(maxOffsetsPerTrigger="4") | SHORT_SESSION[group.kind]
    slow, fast = queries = [stream(options, connection={}, name=name) for name in ("slow", "fast")]
    pause = threading.Event()
    slow.in_batch = lambda frame, number: pause.wait(2) or None
    running = [query.start(availableNow=True) for query in queries]
    for query in running:
        assert query.awaitTermination(120)
    assert [query.exception() for query in running] == [None, None]
    read = [(row.partition, row.offset) for query in queries for row in query.rows]
    assert set(read) == EVERYTHING
    assert slow.rows
    assert fast.rows


@pytest.mark.spark(4, 2)
@pytest.mark.long
def test_queries_that_start_at_different_times(group: MemberGroup, stream: Callable[..., Stream]) -> None:
    """A query with later ends than another query reads what the other query leaves."""
    options = group.options(maxOffsetsPerTrigger="4") | SHORT_SESSION[group.kind]
    early, late = (stream(options, connection={}, name=name) for name in ("early", "late"))
    early.in_batch = lambda frame, number: threading.Event().wait(1) or None
    running = [early.start(availableNow=True)]
    early.wait_for(1)
    fill(group.cluster, group.topic, ROWS, PARTITIONS)
    running.append(late.start(availableNow=True))
    for query in running:
        assert query.awaitTermination(120)
        assert query.exception() is None
    read = {(row.partition, row.offset) for query in (early, late) for row in query.rows}
    assert read == {(number, offset) for number in PARTITIONS for offset in range(2 * ROWS)}


def test_owners(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """An owner in ZooKeeper is a session. A claim without a session is none."""
    group = MemberGroup(zkafka_cluster, "zookeeper", new_topic())
    owned, abandoned = TopicPartition(group.topic, 0), TopicPartition(group.topic, 9)
    with zkafka_cluster.zookeeper() as znodes, closing(StreamSession(parse_stream(group.options()))) as session:
        session.open()
        member = session.member
        assert isinstance(member, GroupMember)
        assert member.wait_settled(20)
        znodes.create(owner_path(group.name, abandoned), b"other-0")
        assert session.owners([owned, abandoned]) == {owned: f"session {session_text(member.require_owner().session)}"}
