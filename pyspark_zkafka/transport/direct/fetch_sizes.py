"""The sizes of fetches: as large as the records that are left, as far as their size is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["FetchSizes"]

# Some records are larger than the mean, and a batch that does not fit whole is fetched again.
_MARGIN = 1.1
# Of what is known already: a single fetch of unusual records must not decide how large the next one is.
_DECAY = 0.9
# On a slow link, a response must not take longer, so that records keep arriving.
_MOST_WAIT_S = 1.0


class _Seen(NamedTuple):
    offsets: float
    size_bytes: float


@dataclass
class FetchSizes:
    """Sizes of fetches by topic, in bytes: at least `first`, at most `most`, unless `first` is more.

    Each request costs the broker and the client about the same, whatever it brings. So a range is best read in few fetches,
    none of which brings much from beyond its end.

    >>> sizes = FetchSizes(first=1_000, most=50_000)
    >>> sizes.next("clicks", 300)
    1000
    >>> sizes.note("clicks", offsets=10, size_bytes=1_000)
    >>> sizes.next("clicks", 5), sizes.next("clicks", 300), sizes.next("clicks", 1_000_000)
    (1000, 33000, 50000)
    >>> sizes.note_wait(1_000, waited_s=0.05)
    >>> sizes.next("clicks", 1_000_000)
    20000
    """

    first: int
    most: int
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _arriving_bytes: float = math.inf

    def note(self, topic: str, offsets: int, size_bytes: int) -> None:
        """Learn from a fetch of a topic, whose records took so many offsets, gaps included, and bytes."""
        seen = self._seen.get(topic, _Seen(0.0, 0.0))
        self._seen[topic] = _Seen(_DECAY * seen.offsets + offsets, _DECAY * seen.size_bytes + size_bytes)

    def note_wait(self, size_bytes: int, waited_s: float) -> None:
        """Learn how long the client had to wait for so many bytes of records; of few it says nothing."""
        if size_bytes < self.first:
            return
        self._arriving_bytes = size_bytes * _MOST_WAIT_S / waited_s if waited_s > 0 else math.inf

    def next(self, topic: str, offsets: int) -> int:
        """The size of the next fetch, where so many offsets are left."""
        seen = self._seen.get(topic)
        needed = 0.0 if seen is None else _MARGIN * offsets * seen.size_bytes / seen.offsets
        return max(round(min(needed, self.most, self._arriving_bytes)), self.first)
