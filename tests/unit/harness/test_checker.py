"""The checker: no violation in correct histories, and every planted violation found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.faults.harness.checker import INVARIANTS, check, figures
from tests.faults.harness.history import (
    Committed,
    Event,
    Fault,
    Finished,
    Gap,
    Healed,
    History,
    Interrupted,
    Life,
    LogEnd,
    Owners,
    Read,
    Reset,
    Rest,
    Sent,
    Stored,
)
from tests.support.right_histories import TERMS, right_history, right_sink

Plant = Callable[[Random, History], "History | None"]
"""Plant a violation in a correct history, or return None if there is no place for it."""

SEEDS = st.integers(0, 2**32)
PLANTS: list[tuple[str, Plant]] = []


def plant(invariant: str) -> Callable[[Plant], Plant]:
    """Register a plant."""

    def register(made: Plant) -> Plant:
        PLANTS.append((invariant, made))
        return made

    return register


def _with(history: History, *events: Event, without: tuple[Event, ...] = ()) -> History:
    left = [event for event in history.events if not any(event is gone for gone in without)]
    return History(tuple(sorted([*left, *events], key=lambda event: event.at)))


def _swap(history: History, old: Event, new: Event) -> History:
    return _with(history, new, without=(old,))


def _counted(history: History) -> list[Read]:
    """Return the reads of completed batches."""
    done = {(f.member, f.batch) for f in history.of(Finished)}
    return [read for read in history.of(Read) if (read.member, read.batch) in done]


def _quiet(history: History) -> list[Event]:
    """Return the events except those that may explain a duplicate, a failure or a wait."""
    return [e for e in history.events if not isinstance(e, Fault | Life | Reset)]


def _one(random: Random, found: list[Event] | tuple[Event, ...]) -> Event | None:
    return random.choice(found) if found else None


def _at_rest(history: History) -> Owners:
    """Return the last sample before the members stop."""
    return [sample for sample in history.of(Owners) if sample.owners][-1]


@plant("I1")
def batch_unread(random: Random, history: History) -> History | None:
    """Leave the only delivery of an acknowledged record out of its batch and of the plan."""
    known = {(s.topic, s.partition, s.offset) for s in history.of(Sent) if s.acknowledged}
    counts: dict[tuple[str, int, int], int] = {}
    for read in _counted(history):
        for offset in read.offsets:
            place = (read.topic, read.partition, offset)
            counts[place] = counts.get(place, 0) + 1
    fit = [r for r in _counted(history) if counts[r.topic, r.partition, r.offsets[-1]] == 1]
    fit = [r for r in fit if (r.topic, r.partition, r.offsets[-1]) in known]
    read = _one(random, fit)
    return read and _swap(history, read, replace(read, offsets=read.offsets[:-1], digests=read.digests[:-1]))


@plant("I1")
def record_unwritten(random: Random, history: History) -> History | None:
    """Lose an acknowledged record at the end of the log."""
    end = random.choice(history.of(LogEnd))
    more = Sent(history.events[1].at, end.topic, end.partition, end.latest, "k", "lost", True)
    return _with(history, more)


@plant("I1")
def record_of_unknown_offset_unread(random: Random, history: History) -> History | None:
    """Lose an acknowledged record whose offset the broker has not reported, at the end of the log."""
    end = random.choice(history.of(LogEnd))
    more = Sent(history.events[1].at, end.topic, end.partition, -1, "k", "lost", True)
    return _swap(_with(history, more), end, replace(end, latest=end.latest + 1))


@plant("I2")
def batch_again(random: Random, history: History) -> History | None:
    """Let a member complete the same records under another number, without any event that explains it."""
    calm = History(tuple(_quiet(history)))
    read = _one(random, _counted(calm))
    if read is None:
        return None
    again = replace(read, at=read.at + 0.01, batch=read.batch + 10_000)
    span = (read.topic, read.partition, read.offsets[0], read.offsets[-1] + 1)
    return _with(calm, again, Finished(again.at, read.member, again.batch, (span,)))


@plant("I2")
def two_members(random: Random, history: History) -> History | None:
    """Let two members complete the same records although no member has come or gone."""
    calm = History(tuple(_quiet(history)))
    read = _one(random, _counted(calm))
    if read is None:
        return None
    again = replace(read, at=read.at + 0.01, member="member-9")
    span = (read.topic, read.partition, read.offsets[0], read.offsets[-1] + 1)
    return _with(calm, again, Finished(again.at, "member-9", read.batch, (span,)))


@plant("I3")
def value_altered(random: Random, history: History) -> History | None:
    """Change the value of a record."""
    read = _one(random, _counted(history))
    return read and _swap(history, read, replace(read, digests=("altered", *read.digests[1:])))


@plant("I3")
def value_of_an_earlier_record(random: Random, history: History) -> History | None:
    """Give an unacknowledged record the value of an earlier record."""
    known = {(s.topic, s.partition, s.offset) for s in history.of(Sent) if s.acknowledged}
    fit = [
        (read, number)
        for read in _counted(history)
        for number, offset in enumerate(read.offsets)
        if number
        and (read.topic, read.partition, offset) not in known
        and (read.topic, read.partition, offset - 1) in known
    ]
    found = _one(random, fit)
    if found is None:
        return None
    read, number = found
    digests = (*read.digests[:number], read.digests[number - 1], *read.digests[number + 1 :])
    return _swap(history, read, replace(read, digests=digests))


@plant("I3")
def values_exchanged(random: Random, history: History) -> History | None:
    """Exchange the values of two acknowledged records."""
    known = {(s.topic, s.partition, s.offset) for s in history.of(Sent) if s.acknowledged}
    fit = [
        read
        for read in _counted(history)
        if len(read.offsets) > 1 and all((read.topic, read.partition, o) in known for o in read.offsets[:2])
    ]
    read = _one(random, fit)
    return read and _swap(history, read, replace(read, digests=(*read.digests[1::-1], *read.digests[2:])))


@plant("I4")
def out_of_order(random: Random, history: History) -> History | None:
    """Swap two records of a batch."""
    read = _one(random, [read for read in _counted(history) if len(read.offsets) > 1])
    return read and _swap(
        history,
        read,
        replace(read, offsets=(*read.offsets[1::-1], *read.offsets[2:]), digests=(*read.digests[1::-1], *read.digests[2:])),
    )


@plant("I4")
def hole(random: Random, history: History) -> History | None:
    """Leave out a record in the middle of a batch."""
    read = _one(random, [read for read in _counted(history) if len(read.offsets) > 2])
    return read and _swap(
        history,
        read,
        replace(read, offsets=(read.offsets[0], *read.offsets[2:]), digests=(read.digests[0], *read.digests[2:])),
    )


@plant("I4")
def run_again_differently(random: Random, history: History) -> History | None:
    """Let a batch that runs again read one record more than before."""
    read = _one(random, [read for read in _counted(history) if len(read.offsets) > 1])
    return read and _with(
        history, replace(read, at=read.at - 0.01, run=read.run - 1, offsets=read.offsets[:-1], digests=read.digests[:-1])
    )


@plant("I4")
def outside_the_plan(random: Random, history: History) -> History | None:
    """Let a batch read a partition that it does not plan."""
    done = _one(random, [f for f in history.of(Finished) if any(start < until for _, _, start, until in f.ranges)])
    return done and _swap(history, done, replace(done, ranges=()))


@plant("I5")
def commit_backward(random: Random, history: History) -> History | None:
    """Move an offset back between two samples without a reset."""
    still = History(tuple(event for event in history.events if not isinstance(event, Reset)))
    commit = _one(random, [commit for commit in still.of(Committed) if commit.offset > 1])
    return commit and _with(still, replace(commit, at=commit.at + 0.01, offset=commit.offset - 1))


@plant("I5")
def commit_ahead(random: Random, history: History) -> History | None:
    """Commit an offset that nobody has finished."""
    commit = _one(random, history.of(Committed))
    return commit and _swap(history, commit, replace(commit, offset=commit.offset + 10_000))


@plant("I5")
def commit_missing(random: Random, history: History) -> History | None:
    """Leave out the commit of the last batch."""
    last = history.of(Committed)[-1]
    if last.offset == 0:
        return None
    return _swap(history, last, replace(last, offset=last.offset - 1))


@plant("I6")
def two_owners(random: Random, history: History) -> History | None:
    """Give a partition two owners in a sample."""
    sample = _one(random, [sample for sample in history.of(Owners) if sample.owners])
    return sample and _swap(history, sample, replace(sample, owners=(*sample.owners, (*sample.owners[0][:2], "member-9"))))


@plant("I6")
def no_owner(random: Random, history: History) -> History | None:
    """Leave a partition without an owner at rest."""
    sample = _at_rest(history)
    return _swap(history, sample, replace(sample, owners=sample.owners[1:]))


@plant("I6")
def dead_owner(random: Random, history: History) -> History | None:
    """Let a member that is not registered own partitions at rest."""
    sample = _at_rest(history)
    return _swap(history, sample, replace(sample, members=()))


@plant("I6")
def batch_during_another_claim(random: Random, history: History) -> History | None:
    """Let a member plan a partition while the claim of another member lasts."""
    times: dict[tuple[int, int], list[float]] = {}
    for sample in history.of(Owners):
        for (_, partition, _), claim in zip(sample.owners, sample.claims, strict=True):
            times.setdefault((partition, claim), []).append(sample.at)
    known_s = TERMS.session_s + TERMS.slack_s
    long = {place: at for place, at in times.items() if len(at) > 1 and at[-1] > at[1] + known_s}
    found = _one(random, [(partition, at[1] + known_s, at[-1]) for (partition, _), at in long.items()])
    if found is None:
        return None
    partition, begin, end = found
    earlier = Finished(begin, "member-9", 0, ())
    return _with(history, earlier, Finished(end, "member-9", 1, (("orders", partition, 0, 0),)))


@plant("I7")
def registered_ghost(random: Random, history: History) -> History | None:
    """Leave a killed member registered after its session time-out."""
    at = history.events[-1].at
    late = at + 2 * TERMS.session_s + 60
    return _with(history, Life(at, "ghost", 0, "killed"), Owners(late, (), ("ghost",)))


@plant("I7")
def owning_ghost(random: Random, history: History) -> History | None:
    """Let a stopped member own a partition after its session time-out."""
    at = history.events[-1].at
    late = at + 2 * TERMS.session_s + 60
    owned = (("orders", 0, "ghost"),)
    return _with(history, Life(at, "ghost", 0, "stopped"), Owners(late, owned, ()))


@plant("I7")
def registered_after_the_stop(random: Random, history: History) -> History | None:
    """Leave a member registered after all members have stopped."""
    sample = history.of(Owners)[-1]
    return _swap(history, sample, replace(sample, members=(_at_rest(history).members[0],)))


@plant("I8")
def late_record(random: Random, history: History) -> History | None:
    """Let a record wait longer than is allowed without a fault."""
    calm = [event for event in history.events if not isinstance(event, Fault | Life)]
    sent = _one(random, [event for event in calm if isinstance(event, Sent) and event.offset >= 0])
    return sent and _swap(History(tuple(calm)), sent, replace(sent, at=sent.at - TERMS.stall_s - 1_000))


@plant("I8")
def unstopped_member(random: Random, history: History) -> History | None:
    """Let a member continue after a request to stop."""
    return _with(history, Life(history.events[-1].at, "stubborn", 0, "stopping"))


@plant("I9")
def failure_without_a_fault(random: Random, history: History) -> History | None:
    """Let a query fail although nothing was broken."""
    calm = [event for event in history.events if not isinstance(event, Fault)]
    at = random.choice(calm[1:]).at
    return _with(History(tuple(calm)), Life(at, "member-0", 0, "failed", "[BROKERS_UNAVAILABLE] No broker answers"))


@plant("I9")
def failure_without_a_cause(random: Random, history: History) -> History | None:
    """Let a query fail during a fault with an error that does not give the reason."""
    at = random.choice(history.events[1:]).at
    failed = Life(at, "member-7", 0, "failed", "[STREAM_FAILED] KeyError: 'leader'")
    return _with(history, Fault(at - 1, at + 1, "broker stopped", "broker 2"), failed)


@plant("I9")
def failure_long_after_a_death(random: Random, history: History) -> History | None:
    """Let a query fail without a cause two batches after the death of its planner."""
    at = history.events[-1].at
    killed, broken = Fault(at, at, "planner killed", "member-7"), Fault(at + 99, at + 100, "broker stopped", "broker 2")
    done = [Finished(at + 40, "member-7", 1, ()), Finished(at + 80, "member-7", 2, ())]
    return _with(history, killed, *done, broken, Life(at + 100, "member-7", 0, "failed", "Broken pipe"))


@plant("I9")
def failure_without_a_cause_after_a_pause(random: Random, history: History) -> History | None:
    """Let a query whose planner was paused fail with an error that does not give the reason."""
    at = random.choice(history.events[1:]).at
    paused = Fault(at - 1, at, "planner paused beyond its session", "member-7")
    return _with(history, paused, Life(at, "member-7", 0, "failed", "[STREAM_FAILED] KeyError: 'leader'"))


@plant("I9")
def process_that_ends_by_itself(random: Random, history: History) -> History | None:
    """Let a process end during a fault, long after it was killed once, without a report."""
    at = random.choice(history.events[1:]).at
    faults = Fault(at - 1, at + 1, "broker killed", "broker 2"), Fault(at - 200, at - 200, "driver killed", "member-7")
    return _with(history, *faults, Life(at, "member-7", 0, "killed"))


@plant("I9")
def false_alarm(random: Random, history: History) -> History | None:
    """Let a query report during a fault that a topic was replaced, or that rows differ, although neither can happen."""
    at = random.choice(history.events[1:]).at
    name = random.choice(("TOPIC_REPLACED", "OFFSET_WENT_BACK", "ROWS_DIFFER", "INVALID_OPTIONS", "MALFORMED_ZNODE"))
    failed = Life(at, "member-7", 0, "failed", f"[STREAM_FAILED] ... [NO_LEADER] ... [{name}]")
    return _with(history, Fault(at - 1, at + 1, "broker killed", "broker 2"), failed)


@plant("I10")
def never_at_rest(random: Random, history: History) -> History | None:
    """Never let the lag reach 0."""
    return _with(history, without=history.of(Rest))


@plant("I10")
def late_rest(random: Random, history: History) -> History | None:
    """Let the lag reach 0 later than is allowed."""
    healed = history.of(Healed)[0]
    return _swap(history, healed, replace(healed, at=healed.at - 10_000))


@plant("I10")
def unread_end(random: Random, history: History) -> History | None:
    """Make the log longer than the committed offsets."""
    end = _one(random, history.of(LogEnd))
    return end and _swap(history, end, replace(end, latest=end.latest + 5))


@given(SEEDS)
def test_right_histories(seed: int) -> None:
    """A correct history with deaths, failures and resets has no violation."""
    assert check(right_history(seed)) == []


@given(SEEDS, st.booleans())
def test_right_sinks(seed: int, exactly_once: bool) -> None:
    """A correct sink has no violation, even if it contains rewritten rows."""
    assert check(right_sink(seed, exactly_once=exactly_once)) == []


def test_each_invariant_is_planted_twice() -> None:
    """Each invariant has at least two plants."""
    assert [i for i in INVARIANTS if sum(planted == i for planted, _ in PLANTS) < 2] == []


@pytest.mark.parametrize(("invariant", "violate"), [pytest.param(*p, id=f"{p[0]}-{p[1].__name__}") for p in PLANTS])
@given(seed=SEEDS)
@settings(max_examples=40)
def test_planted(invariant: str, violate: Plant, seed: int) -> None:
    """A planted violation is found under the name of its invariant."""
    planted = violate(Random(seed), right_history(seed))
    assume(planted is not None)
    assert invariant in {violation.invariant for violation in check(planted)}


@given(SEEDS, st.booleans())
def test_planted_sinks(seed: int, exactly_once: bool) -> None:
    """A missing row, a row that was never sent, and a repeated row in an exactly-once sink are violations."""
    history = right_sink(seed, exactly_once=exactly_once)
    stored = history.of(Stored)[0]
    acknowledged = {sent.digest for sent in history.of(Sent) if sent.acknowledged}
    lost = tuple(row for row in stored.rows if row[0] not in acknowledged)
    assert "I1" in _found(_swap(history, stored, replace(stored, rows=lost)))
    assert "I3" in _found(_swap(history, stored, replace(stored, rows=(*stored.rows, ("strange", 1)))))
    twice = ((stored.rows[0][0], 2), *stored.rows[1:])
    assert ("I2" in _found(_swap(history, stored, replace(stored, exactly_once=True, rows=twice)))) is True


@given(SEEDS)
def test_repetition_without_a_cause(seed: int) -> None:
    """Repeated rows in an at-least-once sink are a violation if nothing has failed."""
    history = right_sink(seed, exactly_once=False)
    calm = History(tuple(event for event in history.events if not isinstance(event, Fault | Life)))
    stored = calm.of(Stored)[0]
    twice = replace(stored, rows=((stored.rows[0][0], 2), *stored.rows[1:]))
    assert "I2" in _found(_swap(calm, stored, twice))


def test_explained_gaps() -> None:
    """Offsets without a record to read are neither gaps of a batch nor losses."""
    history = right_history(7)
    read = max(_counted(history), key=lambda found: len(found.offsets))
    less = replace(read, offsets=(read.offsets[0], *read.offsets[2:]), digests=(read.digests[0], *read.digests[2:]))
    gap = Gap(read.at, read.topic, read.partition, read.offsets[1], read.offsets[1] + 1, "compacted")
    assert check(_with(_swap(history, read, less), gap)) == []


@pytest.mark.parametrize("condition", ["LAYOUT_CHANGED", "LEDGER_FORGOTTEN"])
@pytest.mark.parametrize(
    ("kind", "end", "is_excused"),
    [
        ("broker answers delayed", 10, True),
        ("all brokers killed", 80, True),
        ("all brokers killed", -120, False),
        *((kind, 80, False) for kind in ("driver killed", "worker killed", "worker paused", "broker killed")),
    ],
)
def test_limits_of_exactly_once(condition: str, kind: str, end: float, is_excused: bool) -> None:
    """An exactly-once query may stop with conditions of its limits only if a fault has delayed requests shortly before."""
    broken, failed = Fault(end - 5, end, kind, "m"), Life(90, "m", 1, "failed", f"[STREAM_FAILED] [{condition}]")
    killed = Fault(85, 85, "driver killed", "m")
    assert ("I9" not in _found(History((broken, killed, Life(11, "m", 1, "started"), failed)))) is is_excused


@pytest.mark.parametrize(
    "condition",
    ["ROWS_DIFFER", "CHECKPOINT_ROLLED_BACK", "WRITTEN_TWICE", "UNREADABLE_LEDGER", "LEDGER_MOVED", "CHECKPOINT_SHARED"],
)
def test_self_inflicted_errors(condition: str) -> None:
    """No fault excuses a query that finds that it does not repeat its rows, also within the error of a foreachBatch."""
    killed, delayed = Fault(80, 85, "driver killed", "m"), Fault(70, 89, "broker answers delayed", "network")
    text = f"[STREAM_FAILED] ... [FOREACH_BATCH_USER_FUNCTION_ERROR] ... [{condition}] ... [TASK_WRITE_FAILED]"
    assert "I9" in _found(History((delayed, killed, Life(90, "m", 1, "failed", text))))


def test_death_in_a_long_batch() -> None:
    """A planner that was killed during a micro-batch of a minute may end the query after it, without naming a cause."""
    killed, broken = Fault(10, 10, "planner killed", "m"), Fault(60, 70, "broker killed", "broker 1")
    done, failed = Finished(69, "m", 3, ()), Life(70, "m", 1, "failed", "Broken pipe")
    assert "I9" not in _found(History((Life(1, "m", 1, "started"), killed, broken, done, failed)))
    assert "I9" in _found(History((killed, Life(11, "m", 1, "started"), broken, done, failed)))


def test_java_consumer_without_a_rebalance() -> None:
    """A Java consumer may read a member's records again only if the partition passed to it, or something was disturbed."""
    place = ("t", 0)
    ours = Read(100.0, "a", 0, 0, *place, (0, 1), ("d0", "d1"))
    theirs, done = replace(ours, at=110.0, member="java-0", batch=-1), Finished(101.0, "a", 0, ((*place, 0, 2),))
    history = History((ours, done, theirs))
    assert "I2" in _found(history)
    owned = [Owners(at, ((*place, member),), (member,)) for at, member in ((99.0, "a"), (109.0, "java-0"))]
    assert "I2" not in _found(_with(history, *owned))
    assert "I2" not in _found(_with(history, Life(108.0, "java-0", 0, "started")))


def test_commit_before_the_end_of_its_batch() -> None:
    """A member commits what it has finished; only a Java consumer may journal its records after their commit."""
    place, commit = ("t", 0), Committed(9.5, "t", 0, 4)
    ours = Read(9.0, "a", 0, 0, *place, (0, 1, 2, 3), ("d0", "d1", "d2", "d3"))
    done = Finished(10.0, "a", 0, ((*place, 0, 4),))
    assert "I5 t-0: offset 4 is committed while only what is before 0 is finished" in _texts(History((ours, commit, done)))
    assert "I5" not in _found(History((replace(ours, at=10.0, member="java-0", batch=-1), commit)))


def test_handed_over_unfinished() -> None:
    """A partition that moves while a batch reads it may be read twice, if the owners show the move."""
    place, records = ("t", 0), ((0, 1), ("d0", "d1"))
    sent = [Sent(0.0, *place, offset, "k", f"d{offset}", True) for offset in range(2)]
    reads = [Read(at, member, 0, 0, *place, *records) for at, member in ((40.0, "a"), (50.0, "b"))]
    done = [Finished(read.at + 1, read.member, 0, ((*place, 0, 2),)) for read in reads]
    moved = [Owners(at, ((*place, member),), ("a", "b")) for at, member in ((10.0, "a"), (20.0, "b"))]
    stayed = [Owners(at, ((*place, "b"),), ("a", "b")) for at in (10.0, 20.0)]
    assert "I2" not in _found(History((*sent, *moved, *reads, *done)))
    assert "I2" in _found(History((*sent, *stayed, *reads, *done)))


def test_handed_over_and_finished_later() -> None:
    """A member that has lost a partition may end its batch only after the new owner has read the same records."""
    place, records = ("t", 0), ((0, 1), ("d0", "d1"))
    sent = [Sent(0.0, *place, offset, "k", f"d{offset}", True) for offset in range(2)]
    begun = [Finished(at, member, 0, ()) for at, member in ((5.0, "a"), (36.0, "b"))]
    reads = [Read(at, member, 0, 1, *place, *records) for at, member in ((40.0, "b"), (50.0, "a"))]
    done = [Finished(read.at + 1, read.member, 1, ((*place, 0, 2),)) for read in reads]
    moved = [Owners(at, ((*place, member),), ("a", "b")) for at, member in ((10.0, "a"), (20.0, "b"))]
    before = [replace(sample, at=sample.at - 9) for sample in moved]
    assert "I2" not in _found(History((*sent, *begun, *moved, *reads, *done)))
    assert "I2" in _found(History((*sent, *before, *begun, *reads, *done)))


def test_claim_while_another_member_reads() -> None:
    """A member may plan a partition during another claim only as long as it may not know that it has lost its own."""
    place, learned_s = ("t", 0), TERMS.session_s + TERMS.slack_s
    claimed = [Owners(at, ((*place, "a"),), ("a", "b"), (7,)) for at in (10.0, 11.0, 40.0)]
    claimed_again = [claimed[0], claimed[1], replace(claimed[2], claims=(8,))]
    unknown = [replace(sample, claims=()) for sample in claimed]  # as in Kafka

    def found(samples: list[Owners], planned_after: float, member: str = "b", end: float = 30.0) -> bool:
        done = [Finished(planned_after, member, 1, ()), Finished(end, member, 2, ((*place, 0, 5),))]
        return "I6" in _found(History((TERMS, *samples, *done)))

    assert found(claimed, 11 + learned_s)
    assert not found(claimed, 10.9 + learned_s)
    assert not found(claimed, 11 + learned_s, end=41.0)
    assert not found(claimed, 11 + learned_s, member="a")
    assert not found(claimed_again, 11 + learned_s)
    assert not found(unknown, 11 + learned_s)


def test_reset_before_a_repeated_batch() -> None:
    """After a reset while its member is stopped, a planned batch is repeated, and the next one starts at the reset."""
    place, records = ("t", 0), ((4, 5), ("d4", "d5"))
    sent = [Sent(0.0, *place, offset, "k", f"d{offset}", True) for offset in range(6)]
    first = Finished(20.0, "a", 0, ((*place, 0, 4),))
    lives = [Life(1.0, "a", 0, "started"), Life(25.0, "a", 0, "stopped"), Life(35.0, "a", 1, "started")]
    reads = [Read(19.0, "a", 0, 0, *place, (0, 1, 2, 3), ("d0", "d1", "d2", "d3"))]
    reads += [Read(at, "a", 1, batch, *place, *records) for at, batch in ((50.0, 1), (60.0, 2))]
    done = [first, *(Finished(read.at + 1, "a", read.batch, ((*place, 4, 6),)) for read in reads[1:])]
    history = History((*sent, *lives, *reads, *done))
    assert "I2" not in _found(_with(history, Reset(30.0, *place, 4)))
    assert "I2" in _found(_with(history, Reset(10.0, *place, 4)))
    assert "I2" in _found(history)


def test_interrupted_runs() -> None:
    """Runs that ended with a part of their micro-batch written are counted."""
    history = right_sink(7, exactly_once=True)
    ended = [Interrupted(history.events[-1].at, "member-0", run, 2) for run in range(3)]
    assert figures(_with(history, *ended)).interrupted == 3
    assert figures(history).interrupted == 0


def test_duplicates_after_a_death() -> None:
    """Records that another member reads again after a death are counted, and are no violation."""
    found = [figures(right_history(seed)) for seed in range(40)]
    assert sum(figure.duplicated for figure in found) > 0
    assert sum(figure.lost for figure in found) == 0


def _texts(history: History) -> list[str]:
    return list(map(str, check(history)))


def _found(history: History) -> set[str]:
    return {violation.invariant for violation in check(history)}
