"""Sticky assignment of partitions among threads that read the same topics.

Each thread has a quota: partitions by threads, rounded down (the lower quota) or up (the higher one).

1. The higher quotas go to the threads that own more than the lower quota, then to the others; within each of the two, to
   the first threads.
2. A thread keeps what it owns; one that owns more than its quota keeps its first partitions.
3. The partitions that no thread keeps are assigned, in order, to the threads under quota, in order: to each all that it
   lacks.

No assignment with even counts keeps more: a higher quota saves one partition for a thread that owns more than the lower
quota, and none for any other.

Members read the owners at different moments, while others release and claim, and still compute the same target. Take any
state and one move toward its target: a partition that its owner must release becomes free, or its new owner claims a free
one. Then

- the quotas stay. A thread with a higher quota that owned more than the lower one still does, and a thread with a lower
  quota never comes to own more than that. So a release can take a thread with a lower quota out of those above it, and a
  claim can bring one with a higher quota in; either way, the same threads come first again. (To rank by the number of owned
  partitions would not do: a claim could put a thread with a lower quota ahead of one with a higher.)
- what is kept stays: a thread over its quota releases only partitions that come after those that it keeps, and no thread
  claims beyond its quota.
- what is assigned stays: a release leaves the list of these partitions as it is, and a claim removes a partition from the
  list, and a place from those of the very thread that this partition was assigned to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat

from pyspark_zkafka.model.nouns import TopicPartition

__all__ = ["balance"]


def balance(
    threads: Sequence[str], partitions: Sequence[TopicPartition], owners: Mapping[TopicPartition, str]
) -> dict[TopicPartition, str]:
    """The owner of each partition; the counts of any two threads differ by 1 at most.

    There is at least one thread; their order breaks ties. `partitions` are ascending, of all topics that just these threads
    read. Of `owners`, the current ones, those that are not among the threads are ignored, as are other partitions.

    Examples
    --------
    >>> partitions = [TopicPartition("t", n) for n in range(4)]
    >>> owners = dict(zip(partitions, ["a", "b", "b", "b"]))
    >>> [owner for _, owner in sorted(balance(["a", "b"], partitions, owners).items())]
    ['a', 'b', 'b', 'a']
    """
    owned: dict[str, list[TopicPartition]] = {thread: [] for thread in threads}
    for tp in partitions:
        if owners.get(tp) in owned:
            owned[owners[tp]].append(tp)
    quotas = _quotas({thread: len(found) for thread, found in owned.items()}, len(partitions))
    kept = {tp: thread for thread, found in owned.items() for tp in found[: quotas[thread]]}
    places = chain.from_iterable(repeat(thread, quotas[thread] - len(found)) for thread, found in owned.items())
    return kept | dict(zip((tp for tp in partitions if tp not in kept), places, strict=True))


def _quotas(counts: Mapping[str, int], partitions: int) -> dict[str, int]:
    lower, higher = divmod(partitions, len(counts))
    ranked = sorted(counts, key=lambda thread: counts[thread] <= lower)
    return {thread: lower + (rank < higher) for rank, thread in enumerate(ranked)}
