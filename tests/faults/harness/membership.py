"""Checks of members: owners of partitions (I6), and registrations of dead members (I7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from tests.faults.harness.delivery import name
from tests.faults.harness.evidence import Evidence, Violation
from tests.faults.harness.history import Fault, Life, LogEnd, Owners, Rest

__all__ = ["membership_violations"]

_OUTLASTING = ("zookeeper", "broker", "network")
"""Prefixes of the fault targets without which sessions do not expire."""


def membership_violations(evidence: Evidence) -> Iterator[Violation]:
    """Yield the violations of I6 and I7."""
    for sample in evidence.history.of(Owners):
        yield from _shared(sample)
    yield from _unowned(evidence)
    for life in evidence.history.of(Life):
        if life.stage in ("killed", "stopped", "failed"):
            yield from _lasting(evidence, life)


def _shared(sample: Owners) -> Iterator[Violation]:
    counts = Counter((topic, partition) for topic, partition, _ in sample.owners)
    for place in sorted(place for place, count in counts.items() if count > 1):
        members = sorted(member for *owned, member in sample.owners if tuple(owned) == place)
        yield Violation("I6", name(place), f"has {len(members)} owners at {sample.at:.1f}: {', '.join(members)}")


def _unowned(evidence: Evidence) -> Iterator[Violation]:
    """Yield the partitions without a live owner at rest."""
    samples = evidence.history.of(Owners)
    for rest in evidence.history.of(Rest)[-1:]:
        if not samples or samples[-1].at < rest.at:
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
