"""Queries while new leaders briefly report log ends that are too low (KAFKA-7703): no record is lost or repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, Position
from tests.support.planned_stream import T0, T1, Member, Session, driver
from tests.support.tiers import repetitions

SHORTER_THAN_RETRIES_S = 2.5


@dataclass(frozen=True)
class LowEnd:
    """A newly elected leader that reports too few records in ``[begin, end)``."""

    partition: TopicPartition
    begin: float
    end: float
    missing: int


class Cluster(Session):
    """A session whose leaders report low ends."""

    def __init__(self, elections: list[LowEnd], member: Member | None) -> None:
        super().__init__(member)
        self.elections = elections

    def reported(self, partition: TopicPartition) -> int:
        missing = [e.missing for e in self.elections if e.partition == partition and e.begin <= self.now < e.end]
        return max(10, self.logs[partition] - max(missing, default=0))

    def list_offsets(self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> dict[TopicPartition, int]:
        return {tp: 10 if position == EARLIEST else self.reported(tp) for tp, position in wanted.items()}

    def log_ends(self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int]) -> Any:
        return {tp: self.reported(tp) for tp in partitions}, {}


def election() -> st.SearchStrategy[LowEnd]:
    """Draw low ends that last less than the retries and do not overlap in a partition."""
    turns = st.sampled_from([0.0, 10.0, 20.0, 30.0])
    lasting = st.sampled_from([0.5, 1.5, SHORTER_THAN_RETRIES_S])
    made = st.tuples(st.sampled_from([T0, T1]), turns, lasting, st.sampled_from([1, 20, 1000]))
    return made.map(lambda drawn: LowEnd(drawn[0], drawn[1], drawn[1] + drawn[2], drawn[3]))


STEPS = st.lists(st.sampled_from(["produce", "plan", "restart", "claim again", "wait"]), min_size=5, max_size=20)


@settings(max_examples=repetitions(150))
@given(elections=st.lists(election(), max_size=5), steps=STEPS, is_member=st.booleans())
def test_low_ends(elections: list[LowEnd], steps: list[str], is_member: bool) -> None:
    """Each micro-batch starts at the end of the last one, and all records are read, through restarts and rebalances."""
    member = Member(T0, T1) if is_member else None
    cluster = Cluster(elections, member)
    found = driver(cluster)
    start = found.initial()
    read: dict[TopicPartition, int] = {T0: 10, T1: 10}
    for step in [*steps, "past all elections", "plan"]:
        if step == "produce":
            cluster.logs = {tp: end + 15 for tp, end in cluster.logs.items()}
        elif step == "restart":
            found = driver(cluster)
        elif step == "claim again" and member is not None:
            member.claims = {tp: Claim("c-0", claim.sequence + 10) for tp, claim in member.claims.items()}
        elif step == "plan":
            start = found.latest(start, limited=True)
            for tp, span in StreamOffset.from_json(start).ranges.items():
                assert span.start <= read[tp] <= span.until
                assert span.start == read[tp] or span.until == read[tp]
                read[tp] = span.until
        else:
            cluster.sleep(5.0 if step == "wait" else 60.0)
    assert read == cluster.logs
