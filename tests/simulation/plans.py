"""Rows of a query's micro-batches, and their distribution over slots, which a restart may change."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from functools import cache

from tests.simulation.transactions import Row

LAYOUTS = 3


class Repeats(Enum):
    """The rows of a second computation of a slot."""

    THE_SAME = "the same"
    OTHER_VALUES = "as many, with other values: uuid()"
    OTHER_ROWS = "others of the same: a filter by rand()"
    MOVED = "rows that have moved to or from another slot: a source that does not repeat itself"


class Plan:
    """The rows of a query's writes by micro-batch; all of it follows from the seed, except values that do not repeat.

    Layout 0 is the first one. Another layout has some or all rows in other slots, or another number of slots.
    """

    def __init__(self, seed: int, repeats: Repeats) -> None:
        self.repeats = repeats
        self._seed = seed
        self._computations = 0
        self._computed: set[tuple[int, int, int, int]] = set()
        self._moved: dict[tuple[int, int, int], list[list[tuple[int, ...]]]] = {}
        self.slots = cache(self._slots)

    def rows(self, batch: int, write: int) -> Sequence[tuple[int, ...]]:
        """Return the identities of a write's rows; two writes of a micro-batch often have the same values."""
        chance = self._chance("rows", batch)
        size = chance.choice((0, 1, 3, 4, 5, 6))
        return [(batch, write, n) for n in range(size if chance.random() < 0.7 else chance.randint(0, 3) + write)]

    def _slots(self, batch: int, write: int, layout: int) -> Sequence[Sequence[tuple[int, ...]]]:
        """Return the identities in each slot of a layout."""
        rows = self.rows(batch, write)
        numbers = [self._chance("slots", 0).randint(1, 5)] * (LAYOUTS - 1) + [self._chance("slots", LAYOUTS).randint(1, 5)]
        chance = self._chance("layout", batch)
        slot_of = [chance.randrange(numbers[0]) for _ in rows]
        if layout:
            other = self._chance(f"layout {layout}", batch)
            few = layout == 1 and len(rows) > 0
            for n in other.sample(range(len(rows)), 1) if few else range(len(rows)):
                slot_of[n] = other.randrange(numbers[layout])
        return [[row for row, slot in zip(rows, slot_of, strict=True) if slot == n] for n in range(numbers[layout])]

    def compute(self, batch: int, write: int, layout: int, slot: int, chance: random.Random) -> Sequence[Row]:
        """Return the rows of a slot as one attempt computes them, in any order."""
        identities = list(self._present(batch, write, layout, slot, chance)[slot])
        chance.shuffle(identities)
        if self.repeats is Repeats.OTHER_ROWS:
            identities = [one for one in identities if chance.random() < 0.7]
        self._computations += 1
        suffix = f"#{self._computations}" if self.repeats is Repeats.OTHER_VALUES else ""
        return [Row(one, f"{one[0]}.{one[2]}{suffix}") for one in identities]

    def _present(
        self, batch: int, write: int, layout: int, slot: int, chance: random.Random
    ) -> Sequence[Sequence[tuple[int, ...]]]:
        """Return the identities in each slot. A row may move from a slot that is computed again."""
        slots = self.slots(batch, write, layout)
        if self.repeats is not Repeats.MOVED:
            return slots
        found = self._moved.setdefault((batch, write, layout), [list(slot) for slot in slots])
        place = batch, write, layout, slot
        if place in self._computed and found[slot] and chance.random() < 0.5:
            row = found[slot].pop(chance.randrange(len(found[slot])))
            chance.choice(found).append(row)
        self._computed.add(place)
        return found

    def _chance(self, what: str, batch: int) -> random.Random:
        return random.Random(f"{self._seed} {what} {batch}")
