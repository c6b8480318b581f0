"""Checks of members: owners of partitions (I6), and registrations of dead members (I7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import takewhile

from tests.faults.harness.delivery import name
from tests.faults.harness.evidence import Evidence, Violation
from tests.faults.harness.history import Fault, Finished, Life, LogEnd, Owners, Place, Rest

__all__ = ["membership_violations"]

_OUTLASTING = ("zookeeper", "broker", "network")
"""Prefixes of the fault targets without which sessions do not expire."""


def membership_violations(evidence: Evidence) -> Iterator[Violation]:
    """Yield the violations of I6 and I7."""
    for sample in evidence.history.of(Owners):
        yield from _shared(sample)
    yield from _planned_by_others(evidence)
    yield from _unowned(evidence)
    for life in evidence.history.of(Life):
        if life.stage in ("killed", "stopped", "failed"):
            yield from _lasting(evidence, life)


def _shared(sample: Owners) -> Iterator[Violation]:
    counts = Counter((topic, partition) for topic, partition, _ in sample.owners)
    for place in sorted(place for place, count in counts.items() if count > 1):
        members = sorted(member for *owned, member in sample.owners if tuple(owned) == place)
        yield Violation("I6", name(place), f"has {len(members)} owners at {sample.at:.1f}: {', '.join(members)}")


def _planned_by_others(evidence: Evidence) -> Iterator[Violation]:
    """Yield the batches for which a member planned a partition during another member's claim, in ZooKeeper.

    A partition has one claim there, so that no sample shows two owners.
    """
    claims, before = _claims(evidence), dict[str, float]()
    for done in sorted(evidence.history.of(Finished), key=lambda done: (done.member, done.batch)):
        since = before.get(done.member, 0.0)  # a batch is planned after the one before it
        before[done.member] = max(done.at, since)
        for place, owner, begin, end in claims if since else ():
            if owner != done.member and begin <= since and done.at <= end and any(r[:2] == place for r in done.ranges):
                yield Violation("I6", name(place), f"is in batch {done.batch} of {done.member}, and owned by {owner}")


def _claims(evidence: Evidence) -> list[tuple[Place, str, float, float]]:
    """Return the place, the owner, and the time of each claim: from when former owners must have noticed it, until when.

    A sample takes time, and may show a claim that is younger than the sample's start. Only the second sample of a claim
    proves that it existed.
    """
    seen: dict[tuple[Place, str, int], list[float]] = defaultdict(list)
    for sample in evidence.history.of(Owners):
        for (topic, partition, owner), claim in zip(sample.owners, sample.claims, strict=False):  # none in Kafka
            seen[(topic, partition), owner, claim].append(sample.at)
    learned_s = evidence.terms.session_s + evidence.terms.slack_s
    return [(place, owner, at[1] + learned_s, at[-1]) for (place, owner, _), at in seen.items() if len(at) > 1]


def _unowned(evidence: Evidence) -> Iterator[Violation]:
    """Yield partitions that no live member owns, from the rest until the first member stops."""
    stops = [life.at for life in evidence.history.of(Life) if life.stage == "stopping"]
    for rest in evidence.history.of(Rest)[-1:]:
        end = min((at for at in stops if at >= rest.at), default=float("inf"))
        samples = [sample for sample in evidence.history.of(Owners) if rest.at <= sample.at <= end]
        if not samples:
            continue
        owners = {(topic, partition): member for topic, partition, member in samples[-1].owners}
        for end in evidence.history.of(LogEnd):
            owner = owners.get((end.topic, end.partition))
            if owner is None:
                yield Violation("I6", name((end.topic, end.partition)), "has no owner at rest")
            elif owner not in samples[-1].members:
                yield Violation("I6", name((end.topic, end.partition)), f"is owned at rest by {owner}, which is no member")


def _lasting(evidence: Evidence, ended: Life) -> Iterator[Violation]:
    """Yield the first sample after a dead member's session timeout in which it is still registered or an owner."""
    deadline = _deadline(evidence, ended)
    born = (life.at for life in evidence.history.of(Life) if life.member == ended.member and life.stage == "started")
    again = min((at for at in born if at > ended.at), default=float("inf"))
    samples = takewhile(lambda sample: sample.at < again, (s for s in evidence.history.of(Owners) if s.at > deadline))
    for sample in samples:
        owned = [name((topic, partition)) for topic, partition, member in sample.owners if member == ended.member]
        if owned or ended.member in sample.members:
            what = f"owns {', '.join(owned)}" if owned else "is registered"
            text = f"{what} {sample.at - ended.at:.1f} s after run {ended.run} was {ended.stage}"
            yield Violation("I7", ended.member, text)
            return


def _deadline(evidence: Evidence, ended: Life) -> float:
    """Return the time by which a dead member's session has ended; no session expires while its server is out."""
    session_s, slack_s = evidence.terms.session_s, evidence.terms.slack_s
    found = ended.at + session_s + slack_s
    outages = (fault for fault in evidence.history.of(Fault) if fault.target.startswith(_OUTLASTING))
    for fault in sorted(outages, key=lambda fault: fault.at):
        if fault.at <= found and fault.end >= ended.at:
            found = max(found, fault.end + session_s + slack_s)
    return found
