"""The ledger of an exactly-once write, as its groups' offsets in Kafka hold it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark_zkafka.brokers.consumer_properties import lookup_properties
from pyspark_zkafka.brokers.groups import GroupAdmin, KafkaGroupOffsets
from pyspark_zkafka.brokers.pool import ClientPool, configuration
from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.model.ledger import (
    Entry,
    LedgerGroup,
    LedgerKey,
    QueryName,
    SinkIdentity,
    decode,
    key_of,
    newest,
)
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.retries import Retry

_idle: ClientPool[KafkaGroupOffsets] = ClientPool()
_idle_admins: ClientPool[GroupAdmin] = ClientPool()
# Groups are listed by every broker: one that has just died fails the listing, until the others drop it from their metadata.
_LISTING_MS = 10_000
_LOOK_S = 1.0
_retry = Retry(12, 0.5, time.sleep)
_widths: dict[tuple[str, str], tuple[int, ...]] = {}
"""The widths of the ledgers that this process has seen, by bootstrap servers and query: one, as good as always."""


class Ledger:
    """The entries of a query, in the groups of its name, under the partitions of a topic.

    Each call blocks for some requests, and raises ZKafkaError if the brokers do not answer.

    Parameters
    ----------
    topic, partitions : str, int
        The ledger's topic, and the number of its partitions.
    sink : SinkIdentity, optional
        The topic of the rows. Entries of a deleted topic of the same name do not count: their rows are gone.
    waits : bool
        True to wait for entries of incomplete transactions, instead of reading the previous entries.
    timeout_s : float
        The limit of a request, and of a wait.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        name: QueryName,
        topic: str,
        partitions: int,
        *,
        sink: SinkIdentity | None = None,
        waits: bool = True,
        timeout_s: float = 30.0,
    ) -> None:
        self._servers = bootstrap_servers
        self._properties = properties
        self._name = name
        self._topic = topic
        self._partitions = partitions
        self._sink = sink
        self._waits = waits
        self._timeout_s = timeout_s

    def key(self, slot: int) -> LedgerKey:
        """The key under which a slot's next entry is stored."""
        return key_of(self._name, slot, fitting_width(self._known_widths(), self._partitions))

    def entry(self, slot: int) -> Entry | None:
        """A slot's last entry."""
        # A broker that takes over as coordinator may not list a group yet. The key under which entries are stored unless
        # the topic grew is therefore looked up in any case; that also creates __consumer_offsets in a new cluster, whose
        # absence librdkafka's producer does not survive.
        widths = {*(self._known_widths() or self._find_widths()), self._partitions}
        keys = [key_of(self._name, slot, width) for width in widths]
        return newest(entry for key in keys for entry in self._entries(key.group, [key.partition])).get(slot)

    def entries(self) -> dict[int, Entry]:
        """The last entry of each slot."""
        return newest(e for group in self._all_groups() for e in self._entries(str(group), self._partitions_of(group)))

    def others(
        self, belongs: Callable[[str], bool], counts: Callable[[str, str], bool] = lambda base, topic: True
    ) -> dict[tuple[str, str], list[Entry]]:
        """The entries of this name under other topics, and of other names that `belongs` accepts, by name and topic.

        Entries that do not count, by name and topic, are not decoded. Entries of incomplete transactions are left out.
        """
        base, found = str(self._name), dict[tuple[str, str], list[Entry]]()
        listed = filter(None, map(LedgerGroup.parse, _retry(self._group_names)))
        groups = [group for group in listed if group.base == base or belongs(group.base)]
        committed = _retry(lambda: self._committed_metadata(groups))
        for group in groups:
            for partition, metadata in committed[str(group)].items():
                place = group.base, partition.topic
                if place != (base, self._topic) and counts(*place):
                    found.setdefault(place, []).extend(self._decode(str(group), partition, metadata))
        return found

    def open_slots(self) -> list[int]:
        """The slots with an entry in a transaction that is not complete; blocks for a second for each of these.

        Raises BrokersUnavailable if it is the brokers that do not answer.
        """
        self._reading(waits=False).entries()
        patient = self._reading(timeout_s=_LOOK_S)
        keys = ((group, partition) for group in self._all_groups() for partition in self._partitions_of(group))
        return [group.number * group.width + p for group, p in keys if patient._is_open(str(group), p)]

    def _is_open(self, group: str, partition: int) -> bool:
        try:
            list(self._entries(group, [partition]))
        except BrokersUnavailable:
            return True
        return False

    def _reading(self, *, waits: bool = True, timeout_s: float = 30.0) -> Ledger:
        place = self._servers, self._properties, self._name, self._topic, self._partitions
        return Ledger(*place, sink=self._sink, waits=waits, timeout_s=timeout_s)

    def _all_groups(self) -> set[LedgerGroup]:
        return {*self._groups(), LedgerGroup(str(self._name), self._partitions, 0)}  # as in `entry`

    def _partitions_of(self, group: LedgerGroup) -> range:
        """The partitions under which a group can have entries.

        A topic that was created again may have fewer than the width, and anybody can name a group.
        """
        return range(min(group.width, self._partitions))

    def _known_widths(self) -> tuple[int, ...]:
        return _widths.get((self._servers, str(self._name)), ())

    def _find_widths(self) -> tuple[int, ...]:
        self._groups()
        return self._known_widths()

    def _groups(self) -> list[LedgerGroup]:
        """The groups that may hold entries of slots."""
        base = str(self._name)
        found = groups_named(_retry(self._group_names), base)
        if found:
            _widths[self._servers, base] = tuple(sorted({group.width for group in found}))
        return found

    def _group_names(self) -> list[str]:
        with self._lease_admin() as admin:
            return admin.group_names()

    def _committed_metadata(self, groups: Iterable[LedgerGroup]) -> dict[str, dict[TopicPartition, str]]:
        with self._lease_admin() as admin:
            return admin.committed_metadata(map(str, groups))

    def _entries(self, group: str, partitions: Iterable[int]) -> Iterator[Entry]:
        asked = [TopicPartition(self._topic, partition) for partition in partitions]
        with self._lease_offsets(group) as offsets:
            found = offsets.committed_with_metadata(asked)
        for partition, (_, metadata) in found.items():
            yield from self._decode(group, partition, metadata)

    def _decode(self, group: str, partition: TopicPartition, metadata: str) -> Iterator[Entry]:
        """The entry in the metadata, if it counts."""
        entry = decode(metadata, f"Group {group}, under {partition},")
        if self._sink is None or not self._sink.replaces(entry.sink):
            yield entry

    @contextmanager
    def _lease_offsets(self, group: str) -> Iterator[KafkaGroupOffsets]:
        properties = {**lookup_properties(self._properties), "bootstrap.servers": self._servers, "group.id": group}
        place, how = (self._servers, self._properties, group, self._timeout_s), self._waits
        key = configuration(properties), self._timeout_s, how
        with _idle.lease(key, lambda: KafkaGroupOffsets(*place, waits=how)) as client:
            yield client

    @contextmanager
    def _lease_admin(self) -> Iterator[GroupAdmin]:
        given = self._properties
        properties = {**given, "socket.timeout.ms": min(_LISTING_MS, int(given.get("socket.timeout.ms", _LISTING_MS)))}
        key = {**lookup_properties(properties), "bootstrap.servers": self._servers}
        with _idle_admins.lease(configuration(key), lambda: GroupAdmin(self._servers, properties)) as admin:
            yield admin


def fitting_width(widths: Iterable[int], partitions: int) -> int:
    """The width of a ledger for a topic of this many partitions: the least known width, unless the topic had more then.

    >>> fitting_width([], 4), fitting_width([2, 3], 4), fitting_width([8], 4)
    (4, 2, 4)
    """
    return min((width for width in widths if width <= partitions), default=partitions)


def groups_named(names: Iterable[str], base: str) -> list[LedgerGroup]:
    """The groups of a ledger among all groups, by the base of their names."""
    return [group for group in map(LedgerGroup.parse, names) if group is not None and group.base == base]
