"""Records for topics whose contents do not matter to a test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["fill"]


def fill(
    cluster: LocalCluster,
    topic: str,
    records: int | Iterable[bytes | str] = 10,
    partition: int | Iterable[int] = 0,
    *,
    value: str = "",
    size_bytes: int = 0,
    timestamp: int | None = None,
) -> dict[int, list[int]]:
    """Produce records to one or several partitions; return their offsets by partition.

    Parameters
    ----------
    records : int or iterable
        The number of records in each partition, with values ``{value}0``, ``{value}1``, ...; or their values.
    size_bytes : int
        The minimal size of a value: shorter ones are padded with dots.
    timestamp : int, optional
        The timestamp of all records, in milliseconds.

    Examples
    --------
    ::

        fill(cluster, topic, 5)  # into partition 0
        fill(cluster, topic, 5, range(3), value="old")  # 15 records
        fill(cluster, topic, [b"a", b"b"], 1)
    """
    texts = [f"{value}{n}" for n in range(records)] if isinstance(records, int) else records
    values = [(text.encode() if isinstance(text, str) else text).ljust(size_bytes, b".") for text in texts]
    partitions = [partition] if isinstance(partition, int) else list(partition)
    when = {} if timestamp is None else {"timestamp": timestamp}
    return cluster.produce(topic, [{"value": v, "partition": p, **when} for p in partitions for v in values])
