"""Queries with fixed ends while leaders, owners and stores fail: they reach the ends or raise an error."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from tests.support.planned_stream import T0, T1, T2, Member, Session, driver
from tests.support.stream_offsets import positions
from tests.support.tiers import repetitions

PARTITIONS = [T0, T1, T2]
PATIENCE_S = 20.0
EXPIRY_S = Member.expiry_s


@dataclass(frozen=True)
class Fault:
    """A fault of a partition in ``[begin, end)``: of its leader, or of its owner in the group.

    A ``ghost`` is a dead member that has not expired, a ``quiet`` member lives and commits nothing, a ``live`` one commits
    until it has read the partition, and ``nobody`` means no owner.
    """

    kind: str
    partition: TopicPartition
    begin: float
    end: float


def faults(kinds: dict[str, list[float]]) -> st.SearchStrategy[list[Fault]]:
    """Draw faults of the given kinds, each with a duration of its kind."""

    def fault(kind: str) -> st.SearchStrategy[Fault]:
        begins = st.sampled_from([-1.0, 0.0, 1.0, 5.0])
        made = st.tuples(st.sampled_from(PARTITIONS), begins, st.sampled_from(kinds[kind]))
        return made.map(lambda drawn: Fault(kind, drawn[0], drawn[1], drawn[1] + drawn[2]))

    return st.lists(st.sampled_from(sorted(kinds)).flatmap(fault), max_size=4)


LEADERS = {"offline": [1.0, 15.0, inf], "silent": [1.0, 15.0, inf]}
OWNERS = {"ghost": [1.0, EXPIRY_S, 15.0, inf], "quiet": [inf], "live": [inf], "nobody": [1.0, 15.0, inf]}


class Cluster(Session):
    """A session in which faults happen over time."""

    def __init__(self, happening: list[Fault], member: Member | None) -> None:
        super().__init__(member)
        self.logs = {T0: 40, T1: 25, T2: 20}
        self.happening = happening
        self.while_waiting = self.update
        self.update()

    def update(self) -> None:
        """Apply exactly the faults of the current moment."""
        happening = [fault for fault in self.happening if fault.begin <= self.now < fault.end]
        now = {kind: {fault.partition for fault in happening if fault.kind == kind} for kind in KINDS}
        self.offline, self.silent = now["offline"], now["silent"]
        self.others = {fault.partition: str(fault) for fault in happening if fault.kind in ("ghost", "quiet", "live")}
        for tp in now["live"] - now["ghost"] - now["quiet"]:
            self.stored[tp] = StoredOffset(10 + max(0, int(self.now)))
        if isinstance(self.member, Member):
            lost = self.others.keys() | now["nobody"]
            kept = {tp: claim for tp, claim in self.member.claims.items() if tp not in lost}
            gained = {tp: Claim("c-0", int(self.now * 10) + 10) for tp in PARTITIONS if tp not in lost and tp not in kept}
            self.member.claims = kept | gained


KINDS = [*LEADERS, *OWNERS]


@settings(max_examples=repetitions(150))
@given(happening=faults(LEADERS))
def test_all_partitions(happening: list[Fault]) -> None:
    """A query without a group reads all partitions to their ends, or ends with an error."""
    check(Cluster(happening, None), happening)


@settings(max_examples=repetitions(250))
@given(happening=faults(LEADERS | OWNERS))
def test_member(happening: list[Fault]) -> None:
    """A member and its group read all partitions to their ends, or it ends with an error."""
    check(Cluster(happening, Member(*PARTITIONS)), happening)


def check(cluster: Cluster, happening: list[Fault]) -> None:
    """Run a query as Spark does, and compare its positions, and the group's, with the ends at its start."""
    bounds = dict(cluster.logs)
    read, error = run(cluster)
    lasting = [fault for fault in happening if fault.kind == "offline" or (fault.end == inf and fault.kind != "live")]
    assert error is None or (error.retriable and lasting)
    done = {tp: max(read.get(str(tp.partition), 0), stored.offset) for tp, stored in cluster.stored.items()}
    behind = {tp for tp, end in bounds.items() if done.get(tp, read.get(str(tp.partition), 0)) < end}
    assert error is not None or not behind


def run(cluster: Cluster) -> tuple[dict[str, int], ZKafkaError | None]:
    """Return a query's last positions, and the error that ended it."""
    found = driver(cluster, **{"maxOffsetsPerTrigger": "15", "kafkaConsumer.pollTimeoutMs": str(int(PATIENCE_S * 1000))})
    start = None
    try:
        found.fix_bounds()
        start = found.initial()
        while (end := found.latest(start, limited=True)) != start:
            start = end
            cluster.logs = {tp: end + 7 for tp, end in cluster.logs.items()}
            cluster.sleep(0.5)
    except ZKafkaError as error:
        return {}, error
    return positions(start, "t"), None
