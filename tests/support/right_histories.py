"""Generated histories of a correct group, which sends, reads, commits, dies and recovers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from tests.faults.harness.history import (
    Committed,
    Event,
    Fault,
    Finished,
    Healed,
    History,
    Life,
    LogEnd,
    Owners,
    Read,
    Reset,
    Rest,
    Sent,
    Stored,
    Terms,
)

__all__ = ["TERMS", "right_history", "right_sink"]

TERMS = Terms(session_s=6, slack_s=0.5, settle_s=10, stall_s=20, recovery_s=60)
_TOPIC = "orders"


@dataclass
class _Member:
    name: str
    run: int = 0
    batch: int = 0
    alive: bool = True
    positions: dict[int, int] = field(default_factory=dict)
    """Ends of its own finished batches that are not committed yet."""


@dataclass
class _Group:
    """A group that behaves correctly."""

    random: Random
    reads: bool = True
    now: float = 1000.0
    events: list[Event] = field(default_factory=list)
    logs: dict[int, list[str]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    claims: dict[int, tuple[str, int]] = field(default_factory=dict)
    """The last sampled owner of each partition, and the transaction of its claim."""
    sent: int = 0

    def __post_init__(self) -> None:
        self.logs = {number: [] for number in range(self.random.randint(1, 4))}
        self.members = [_Member(f"member-{n}") for n in range(self.random.randint(1, 3))]
        self.events.append(Terms(0.0, self.reads, True, *(TERMS.session_s, TERMS.slack_s, TERMS.settle_s), TERMS.stall_s))
        for member in self.members:
            self.add(Life(self.now, member.name, 0, "started"))

    def add(self, event: Event) -> None:
        self.events.append(event)

    def owner(self, partition: int) -> _Member | None:
        alive = [member for member in self.members if member.alive]
        return alive[partition % len(alive)] if alive else None

    def wait(self, least: float = 0.6, most: float = 2.0) -> None:
        self.now += self.random.uniform(least, most)

    def send(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            partition = self.random.choice(list(self.logs))
            digest, self.sent = f"d{self.sent}", self.sent + 1
            if self.random.random() < 0.1 and any(isinstance(event, Fault) for event in self.events):
                self.logs[partition].append(digest)  # the producer sends it again, with a new sequence number
            offset, is_acknowledged = len(self.logs[partition]), self.random.random() < 0.9
            if is_acknowledged or self.random.random() < 0.5:
                self.logs[partition].append(digest)
            is_placed = self.random.random() < 0.9 or not any(isinstance(event, Fault) for event in self.events)
            shown = offset if is_acknowledged and is_placed else -1
            self.add(Sent(self.now, _TOPIC, partition, shown, f"k{self.sent % 3}", digest, is_acknowledged))

    def read(self, member: _Member, *, dies: bool = False) -> None:
        """Read a batch after committing earlier ones, or die within it."""
        owned = [number for number in self.logs if self.owner(number) is member]
        starts = {number: member.positions.get(number, self.committed[number]) for number in owned}
        self.commit(member)
        spans = {n: (start, self.random.randint(start, len(self.logs[n]))) for n, start in starts.items()}
        if self.random.random() < 0.4:
            spans = {n: (start, len(self.logs[n])) for n, (start, _) in spans.items()}
        for number, (start, until) in spans.items():
            if until > start and self.reads:
                offsets, values = tuple(range(start, until)), tuple(self.logs[number][start:until])
                self.add(Read(self.now, member.name, member.run, member.batch, _TOPIC, number, offsets, values))
        if dies:
            self.die(member)
            return
        self.wait(0.1, 0.4)
        self.add(Finished(self.now, member.name, member.batch, tuple((_TOPIC, n, *span) for n, span in spans.items())))
        member.positions = {number: until for number, (_, until) in spans.items()}
        member.batch += 1

    def commit(self, member: _Member) -> None:
        for number, until in member.positions.items():
            self.committed[number] = until
        member.positions = {}

    def sample(self) -> None:
        for number in self.logs:
            self.add(Committed(self.now, _TOPIC, number, self.committed[number]))
        alive = tuple(member.name for member in self.members if member.alive)
        owners = {number: owner.name for number in self.logs if (owner := self.owner(number)) is not None}
        kept = {number: claim for number, claim in self.claims.items() if claim[0] == owners.get(number)}
        self.claims = {number: kept.get(number, (name, len(self.events))) for number, name in owners.items()}
        owned = tuple((_TOPIC, number, name) for number, name in owners.items())
        self.add(Owners(self.now, owned, alive, tuple(claim for _, claim in self.claims.values())))

    def die(self, member: _Member) -> None:
        """Kill a member; others get its partitions after its session, and it returns."""
        self.add(Fault(self.now, self.now, "driver killed", member.name))
        self.add(Life(self.now, member.name, member.run, "killed"))
        self._leave(member)
        self.now += TERMS.session_s
        self.add(Life(self.now, member.name, member.run, "started"))
        member.alive = True

    def leave(self, member: _Member) -> None:
        """Stop a member, and start it again."""
        self.add(Life(self.now, member.name, member.run, "stopping"))
        self.wait()
        self.commit(member)
        self.add(Life(self.now, member.name, member.run, "stopped"))
        self._leave(member)
        self.wait()
        self.add(Life(self.now, member.name, member.run, "started"))
        member.alive = True

    def _leave(self, member: _Member) -> None:
        for other in self.members:
            if other is not member:
                self.commit(other)  # a rebalance: finished batches are committed before a partition is released
        if len(self.members) > 1:  # a single member continues from its own checkpoint
            member.positions = {}
        member.alive, member.run, member.batch = False, member.run + 1, member.batch + 1
        self.now += TERMS.slack_s * 2
        self.sample()

    def fail(self, member: _Member) -> None:
        """Stop the brokers for a while, which fails a query."""
        self.add(Fault(self.now, self.now + 3, "broker stopped", "broker 1"))
        self.wait()
        text = "[STREAM_FAILED] ... [BROKERS_UNAVAILABLE] No broker answers"
        self.add(Life(self.now, member.name, member.run, "failed", text))
        self._leave(member)
        self.now += 3
        self.add(Life(self.now, member.name, member.run, "started"))
        member.alive = True

    def reset(self) -> None:
        """Reset a partition to an earlier offset, as an operator does, while no member reads."""
        number = self.random.choice(list(self.logs))
        for member in self.members:
            self.commit(member)
        self.wait()
        self.committed[number] = self.random.randint(0, self.committed[number])
        self.add(Reset(self.now, _TOPIC, number, self.committed[number]))
        self.wait()

    def step(self) -> None:
        self.wait()
        self.send()
        member = self.random.choice(self.members)
        kind = self.random.random()
        if kind < 0.08:
            self.read(member, dies=True)
        elif kind < 0.12:
            self.leave(member)
        elif kind < 0.16:
            self.fail(member)
        elif kind < 0.2:
            self.reset()
        else:
            self.rounds()

    def rounds(self) -> None:
        """Read one batch for each member."""
        for member in self.members:
            self.read(member)
        self.sample()

    def end(self) -> None:
        """End all faults, and read until nothing is left."""
        self.add(Healed(self.now))
        while any(self.committed[number] < len(log) for number, log in self.logs.items()):
            self.wait()
            self.rounds()
        self.wait()
        self.add(Rest(self.now))
        self.wait()
        self.sample()
        for number, log in self.logs.items():
            self.add(LogEnd(self.now, _TOPIC, number, 0, len(log)))
        self.stop()

    def stop(self) -> None:
        """Stop all members, and sample the group after their sessions."""
        for member in self.members:
            self.wait()
            self.add(Life(self.now, member.name, member.run, "stopping"))
            self.wait()
            self.add(Life(self.now, member.name, member.run, "stopped"))
            member.alive = False
        self.now += TERMS.session_s + TERMS.slack_s + 0.1
        self.sample()


def right_history(seed: int, steps: int = 25) -> History:
    """Return a history of a group without a violation."""
    group = _Group(Random(seed))
    group.send()
    for _ in range(steps):
        group.step()
    group.end()
    return _in_order(group.events)


def right_sink(seed: int, *, exactly_once: bool) -> History:
    """Return a history of a group with a sink, without a violation."""
    group = _Group(Random(seed), reads=False)
    group.send()
    for _ in range(10):
        group.step()
    group.end()
    rows = {digest: 1 for log in group.logs.values() for digest in log}
    if not exactly_once and any(type(event) is Fault for event in group.events):
        rows |= dict.fromkeys(group.random.sample(sorted(rows), min(3, len(rows))), 2)
    group.add(Stored(group.now, "invoices", exactly_once, tuple(rows.items())))
    return _in_order(group.events)


def _in_order(events: list[Event]) -> History:
    return History(tuple(sorted(events, key=lambda event: event.at)))
