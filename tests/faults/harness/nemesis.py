"""Choice of faults and their times, from a seed: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from random import Random

__all__ = ["KINDS", "Kind", "Planned", "kinds", "schedule"]

EVERY = frozenset({"reader", "sink"})
READERS = frozenset({"reader"})
ZOOKEEPER = frozenset({"zookeeper"})
ENSEMBLE = frozenset({"ensemble"})
EPOCHS = frozenset({"leader epochs"})


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Parameters
    ----------
    resource : str
        The resource that it breaks; at most one fault of a resource lasts at a time.
    lasts_s : tuple of float
        Its least and greatest duration.
    concerns : frozenset
        The workloads that it concerns: readers or sinks, in ``zookeeper`` or in ``kafka``; with an ``ensemble``; with
        brokers that have ``leader epochs``.
    after : str
        The kind without which it has no effect; empty for most.
    """

    name: str
    resource: str
    lasts_s: tuple[float, float] = (0.0, 0.0)
    concerns: frozenset[str] = EVERY
    after: str = ""


KINDS = (
    Kind("broker stopped", "servers", (2, 10)),
    Kind("broker killed", "servers", (1, 10)),
    Kind("broker paused", "servers", (2, 5)),
    Kind("broker paused beyond its session", "servers", (8, 14)),
    Kind("all brokers killed", "servers", (3, 8), EPOCHS),  # without KIP-101, all truncate what they acknowledged
    Kind("broker's disk full", "servers", (2, 10)),
    Kind("preferred leaders elected", "servers", after="broker stopped"),
    Kind("partition added", "servers", concerns=READERS),
    Kind("zookeeper stopped", "servers", (2, 10), ENSEMBLE),
    Kind("zookeeper paused", "servers", (1, 3), ENSEMBLE),
    Kind("zookeeper paused beyond sessions", "servers", (8, 14), ENSEMBLE),
    Kind("zookeeper flapping", "servers", (4, 10), ENSEMBLE),
    Kind("session expired", "servers", concerns=ZOOKEEPER),
    Kind("driver killed", "processes"),
    Kind("planner killed", "processes"),
    Kind("planner paused beyond its session", "processes", (8, 14)),
    Kind("worker killed", "processes"),
    Kind("worker paused", "processes", (1, 20)),
    Kind("zookeeper connections cut", "wires", (1, 4), ZOOKEEPER),
    Kind("zookeeper connections silent", "wires", (8, 14), ZOOKEEPER),
    Kind("broker connections cut", "wires", (0.5, 4)),
    Kind("broker connections half-closed", "wires", (0.5, 2)),
    Kind("broker answers delayed", "wires", (3, 10)),
    Kind("broker answers dropped", "wires", (1, 5)),
    Kind("member joined and left", "members", (8, 15), READERS),
    Kind("offsets reset", "members", concerns=READERS),
)
_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True)
class Planned:
    """A fault to inject `at_s` seconds after the start; `draw`, from [0, 1), chooses its target."""

    at_s: float
    lasts_s: float
    kind: str
    draw: float

    @property
    def resource(self) -> str:
        """The resource that it breaks."""
        return _BY_NAME[self.kind].resource

    @property
    def end_s(self) -> float:
        """The time at which it should end."""
        return self.at_s + self.lasts_s


def kinds(traits: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds that concern a workload with any of the traits.

    >>> [kind.name for kind in kinds({"reader", "zookeeper"}) if kind.resource == "members"]
    ['member joined and left', 'offsets reset']
    """
    return tuple(kind for kind in KINDS if kind.concerns & set(traits))


def schedule(
    seed: int, duration_s: float, choice: Sequence[Kind], quiet_s: tuple[float, float] = (2.0, 8.0)
) -> tuple[Planned, ...]:
    """Return faults in the order of their times. All end within the duration.

    Faults of different resources may overlap. Each kind occurs once before any occurs again, as far as time allows.
    """
    random, free_at = Random(seed), dict[str, float]()
    deck, now, found = _deck(random, choice), 0.0, list[Planned]()
    while (now := now + random.uniform(*quiet_s)) < duration_s:
        kind = next(deck)
        begin, lasts_s = max(now, free_at.get(kind.resource, 0.0)), random.uniform(*kind.lasts_s)
        draw = random.random()
        if begin + lasts_s <= duration_s:
            found.append(Planned(begin, lasts_s, kind.name, draw))
            free_at[kind.resource] = begin + lasts_s + quiet_s[0]
    return tuple(sorted(found, key=lambda planned: planned.at_s))


def _deck(random: Random, choice: Sequence[Kind]) -> Iterator[Kind]:
    while True:
        yield from random.sample(choice, len(choice))
