"""Placement of replicas on brokers, as Kafka places those of new topics.

References
----------
kafka.admin.AdminUtils.assignReplicasToBrokers, Kafka 1.1.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_zkafka.conditions import INVALID_OPTION

__all__ = ["place_replicas"]


def place_replicas(
    racks: Mapping[int, str | None], partitions: int, replication: int, start: int, shift: int
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first.

    Parameters
    ----------
    racks : mapping
        The rack of each broker; None for all of them places replicas without regard to racks.
    start, shift : int
        The index of the first leader, and the distance of its first follower: random numbers below the number of brokers.

    Raises
    ------
    OptionError
        There are fewer brokers than replicas, or only some of the brokers have a rack.

    Examples
    --------
    >>> place_replicas({0: None, 1: None, 2: None}, 4, 2, start=0, shift=0)
    [(0, 1), (1, 2), (2, 0), (0, 2)]
    >>> place_replicas({0: "a", 1: "a", 2: "b"}, 2, 2, start=0, shift=0)
    [(0, 2), (2, 1)]
    """
    if replication > len(racks):
        raise INVALID_OPTION(f"{replication} replicas need as many brokers, and {len(racks)} are listed")
    without = sorted(broker for broker, rack in racks.items() if rack is None)
    if 0 < len(without) < len(racks):
        raise INVALID_OPTION(
            f"Brokers {', '.join(map(str, without))} have no rack, and others have one; use --disable-rack-aware",
        )
    order = sorted(racks) if without else _alternating(racks)
    return [_replicas(number, order, racks, replication, start, shift) for number in range(partitions)]


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers in an order in which neighbours are in different racks, as far as possible."""
    by_rack = {rack: iter(sorted(b for b in racks if racks[b] == rack)) for rack in sorted(map(str, set(racks.values())))}
    order: list[int] = []
    while len(order) < len(racks):
        order += [broker for brokers in by_rack.values() if (broker := next(brokers, None)) is not None]
    return order


def _replicas(
    partition: int, order: Sequence[int], racks: Mapping[int, str | None], replication: int, start: int, shift: int
) -> tuple[int, ...]:
    count, rack_count = len(order), len(set(racks.values()))
    first = (partition + start) % count
    aware = racks[order[0]] is not None
    offset = (shift + partition // count) * (rack_count if aware else 1)
    chosen = [order[first]]
    step = 0
    while len(chosen) < replication:
        broker = order[(first + 1 + (offset + step) % (count - 1)) % count]
        used = {racks[other] for other in chosen}
        if broker not in chosen and (racks[broker] not in used or len(used) == rack_count):
            chosen.append(broker)
        step += 1
    return tuple(chosen)
