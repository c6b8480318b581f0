"""Changes that users make between the runs of a query, drawn from a seed."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

__all__ = ["KINDS", "Step", "Use", "steps_of"]

KINDS = ("alone", "member", "pair")
"""A query without a group; a query that joins and leaves a group and changes its store; two queries in one group."""

_MEMBERS = ("zookeeper", "zookeeper", "zookeeper", "kafka", "static")
_CUTS = ("planned", "read", "done", "idle")


class Use(NamedTuple):
    """The options and the trigger of one run.

    `topics` is ``a``, ``ab``, ``pattern`` or ``assign``, which is partition 0 of a. `group` is empty, ``commits``,
    ``zookeeper``, ``kafka`` or ``static``. `cut` is the point of its second micro-batch at which the process is killed:
    ``planned``, ``read``, ``done``, or ``idle``, after the next call of `latestOffset`, which commits it.
    `unknown` names a partition in startingOffsets that does not exist.
    """

    query: int = 0
    trigger: str = "available"
    topics: str = "ab"
    group: str = ""
    stores: str = "zookeeper"
    way: str = "zookeeper"
    start: str = "earliest"
    limit: int = 0
    fails: bool = True
    cut: str = ""
    unknown: bool = False


class Step(NamedTuple):
    """A step: the name of the method that takes it, and its arguments. A step that does not apply does nothing."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


def steps_of(seed: int, kind: str, length: int = 14) -> list[Step]:
    """Return the schedule of a seed; a shorter one is a prefix of a longer one."""
    chance = random.Random(f"{seed} {kind}")
    draw = _Draw(chance, kind)
    return [Step("produce", ("a", 3, False)), Step("produce", ("b", 2, False)), *(draw.step() for _ in range(length))]


class _Draw:
    def __init__(self, chance: random.Random, kind: str) -> None:
        self.chance, self.kind = chance, kind
        self.queries = 2 if kind == "pair" else 1
        self.group = chance.choice(_MEMBERS) if kind == "pair" else ""
        self.stores = chance.choice(("zookeeper", "kafka", "dual"))

    def step(self) -> Step:
        chance, topic = self.chance, self.chance.choice("aab")
        query = chance.randrange(self.queries)
        make = chance.choices(
            [
                lambda: Step("start", (self.use(query), self.disturbance())),
                lambda: Step("trigger", (query, chance.randint(1, 3))),
                lambda: Step("stop", (query,)),
                lambda: Step("kill", (query, chance.choice(_CUTS))),
                lambda: Step("produce", (topic, chance.randint(1, 6), chance.random() < 0.15)),
                lambda: Step("grow", (topic,)),
                lambda: Step("recreate", (topic, chance.randint(1, 3), chance.random() < 0.4)),
                lambda: Step("delete", ("b",)),
                lambda: Step("truncate", (topic,)),
                lambda: Step("compact", (topic,)),
                lambda: Step("fresh", (query,)),
            ],
            [8, 2, 1, 1.2, 6, 1.5, 1.2, 0.7, 0.5, 0.5, 1],
        )
        return make[0]()

    def use(self, query: int) -> Use:
        chance = self.chance
        group, stores = self.group, self.stores
        if self.kind == "member":
            group = chance.choice(("", "", "commits", "zookeeper", "zookeeper", "zookeeper", "kafka", "static"))
            stores = chance.choice((self.stores, self.stores, "zookeeper", "kafka", "dual"))
        choices = {
            "alone": ("a", "a", "ab", "pattern", "assign", "assign"),
            "member": ("a", "ab", "ab", "pattern"),
            "pair": ("ab",),
        }
        return Use(
            query=query,
            trigger=chance.choice(("available", "available", "available", "running", "running", "once")),
            topics=chance.choice(choices[self.kind]),
            group=group,
            stores=stores,
            way=chance.choice(("zookeeper", "brokers")),
            start="latest" if self.kind == "alone" and chance.random() < 0.4 else "earliest",
            limit=chance.choice((0, 2, 4, 7)),
            fails=chance.random() < 0.7,
            cut=chance.choice(_CUTS) if chance.random() < 0.2 else "",
            unknown=chance.random() < 0.08,
        )

    def disturbance(self) -> Step | None:
        """Draw an event after the first micro-batch of a run, or None."""
        chance, topic = self.chance, self.chance.choice("ab")
        if chance.random() < 0.5:
            return None
        return chance.choice(
            [
                Step("pause", ("broker",)),
                Step("pause", (chance.choice(("broker", "zookeeper")),)),
                Step("produce", (topic, chance.randint(1, 4), False)),
                Step("grow", (topic,)),
                Step("recreate", (topic, chance.randint(1, 2), chance.random() < 0.5)),
            ]
        )
