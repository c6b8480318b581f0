"""The sizes of fetches: as large as the records that are left, as far as their size is known."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["FetchSizes"]

# Some records are larger than the mean, and a batch that does not fit whole is fetched again.
_MARGIN = 1.1


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
    """

    first: int
    most: int
    _mean_bytes: dict[str, float] = field(default_factory=dict)

    def note(self, topic: str, offsets: int, size_bytes: int) -> None:
        """Learn from the last fetch of a topic, whose records took so many offsets, gaps included, and bytes."""
        self._mean_bytes[topic] = size_bytes / offsets

    def next(self, topic: str, offsets: int) -> int:
        """The size of the next fetch, where so many offsets are left."""
        needed = round(_MARGIN * offsets * self._mean_bytes.get(topic, 0.0))
        return max(min(needed, self.most), self.first)
