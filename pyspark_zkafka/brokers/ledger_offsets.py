"""The ledger of an exactly-once write, in the offsets of its groups in Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_zkafka.brokers.clients import client_key, lookup_properties
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.client_pool import ClientPool
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

FindMetadata = Callable[[Mapping[str, Collection[TopicPartition]], bool], Mapping[str, Mapping[TopicPartition, str]]]
"""Reads the metadata of offsets of many groups at once; with True, not in groups that have one in an open transaction.

May leave out any group.
"""

_idle: ClientPool[KafkaGroupOffsets] = ClientPool()
_idle_admins: ClientPool[GroupAdmin] = ClientPool()
# Groups are listed by every broker: one that has just died fails the listing, until the others drop it from their metadata.
_LISTING_MS = 10_000
_LOOK_S, _TIMEOUT_S = 3.0, 30.0
_AT_ONCE = 8  # as many as the pool keeps: mostly they wait for brokers, and more of them gain little
_retry = Retry(12, 0.5, time.sleep)
_widths: dict[tuple[str, str], tuple[int, ...]] = {}
"""The widths of the ledgers that this process has seen, by bootstrap servers and query: almost always one."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The entries of the query `name`: metadata of its groups' offsets for the `partitions` of the ledger's `topic`.

    Each call blocks for some requests, and raises ZKafkaError if the brokers do not answer.

    `sink` is the topic of the rows, if known. Entries of a deleted topic of the same name do not count: their rows are
    gone. With `waits`, a read waits for entries of incomplete transactions, else it returns the previous entries.
    `timeout_s` is the limit of a request, and of a wait. `find_metadata` is used for several groups, if given.
    """

    servers: str
    properties: Mapping[str, Any] = field(repr=False)
    name: QueryName
    topic: str
    partitions: int
    sink: SinkIdentity | None = None
    waits: bool = True
    timeout_s: float = _TIMEOUT_S
    find_metadata: FindMetadata | None = field(default=None, repr=False, compare=False)

    def key(self, slot: int) -> LedgerKey:
        """The key under which a slot's next entry is stored."""
        return key_of(self.name, slot, fitting_width(self._known_widths(), self.partitions))

    def entry(self, slot: int) -> Entry | None:
        """A slot's last entry."""
        return self.entries_of([slot]).get(slot)

    def entries_of(self, slots: Collection[int] | None) -> dict[int, Entry]:
        """The last entry of each of these slots, or of all slots. Blocks for a request for each group, some at a time."""
        if slots is None:
            return self.entries()
        if not self._known_widths():
            self._groups()  # finds the widths
        # A broker that takes over as coordinator may not list a group yet. Always look up the keys for the present number
        # of partitions, too. In a new cluster, this creates __consumer_offsets, which librdkafka's producer needs.
        widths = {*self._known_widths(), self.partitions}
        partitions: dict[str, list[int]] = {}
        for key in (key_of(self.name, slot, width) for width in sorted(widths) for slot in slots):
            partitions.setdefault(key.group, []).append(key.partition)
        found = newest(self._entries_of_groups(partitions))
        return {slot: entry for slot, entry in found.items() if slot in slots}

    def present_entry(self, slot: int) -> Entry | None:
        """A slot's last entry of a complete transaction, without waiting for an open one."""
        return replace(self, waits=False).entry(slot)

    def entries(self) -> dict[int, Entry]:
        """The last entry of each slot."""
        return newest(self._entries_of_groups({str(group): self._partitions_of(group) for group in self._all_groups()}))

    def others(
        self, belongs: Callable[[str], bool], counts: Callable[[str, str], bool] = lambda base, topic: True
    ) -> dict[tuple[str, str], list[Entry]]:
        """The entries of this name under other topics, and of other names that `belongs` accepts, by name and topic.

        Decodes only entries whose name and topic `counts` accepts. Leaves out entries of incomplete transactions.
        """
        base, found = str(self.name), dict[tuple[str, str], list[Entry]]()
        listed = filter(None, map(LedgerGroup.parse, _retry(self._group_names)))
        groups = [group for group in listed if group.base == base or belongs(group.base)]
        committed = _retry(lambda: self._committed_metadata(groups))
        for group in groups:
            for partition, metadata in committed[str(group)].items():
                place = group.base, partition.topic
                if place != (base, self.topic) and counts(*place):
                    found.setdefault(place, []).extend(self._decode(str(group), partition, metadata))
        return found

    def open_slots(self) -> list[int]:
        """The slots with an entry in an incomplete transaction. Blocks for three seconds for each of them.

        Raises BrokersUnavailable if the brokers do not answer.
        """
        replace(self, waits=False, timeout_s=_TIMEOUT_S).entries()
        patient = replace(self, waits=True, timeout_s=_LOOK_S)
        keys = ((group, partition) for group in self._all_groups() for partition in self._partitions_of(group))
        return [group.number * group.width + p for group, p in keys if patient._is_open(str(group), p)]

    def _is_open(self, group: str, partition: int) -> bool:
        try:
            list(self._entries(group, [partition]))
        except BrokersUnavailable:
            return True
        return False

    def _all_groups(self) -> set[LedgerGroup]:
        return {*self._groups(), LedgerGroup(str(self.name), self.partitions, 0)}  # as in `entry`

    def _partitions_of(self, group: LedgerGroup) -> range:
        """The partitions under which a group can have entries.

        A recreated topic may have fewer partitions than the width, and any client can put any width into a group's name.
        """
        return range(min(group.width, self.partitions))

    def _known_widths(self) -> tuple[int, ...]:
        return _widths.get((self.servers, str(self.name)), ())

    def _groups(self) -> list[LedgerGroup]:
        """The groups that may hold entries of slots."""
        found = self.name.groups(_retry(self._group_names))
        if found:
            _widths[self.servers, str(self.name)] = tuple(sorted({group.width for group in found}))
        return found

    def _group_names(self) -> list[str]:
        with self._lease_admin() as admin:
            return admin.group_names()

    def _committed_metadata(self, groups: Iterable[LedgerGroup]) -> dict[str, dict[TopicPartition, str]]:
        with self._lease_admin() as admin:
            return admin.committed_metadata(map(str, groups))

    def _entries_of_groups(self, partitions: Mapping[str, Iterable[int]]) -> Iterator[Entry]:
        """The entries under these partitions of each group. After an error, starts no further request.

        A consumer reads one group, and waits for transactions. It must connect first, so several threads read the groups
        that `find_metadata` leaves out. An admin client reads many groups, but ends the process if a broker refuses because
        it no longer coordinates one (see `GroupAdmin`).
        """
        found = self._found_at_once(partitions)
        for group, committed in found.items():
            for partition, metadata in committed.items():
                yield from self._decode(group, partition, metadata)
        left = [group for group in partitions if group not in found]
        if len(left) == 1:
            yield from self._entries(left[0], partitions[left[0]])
        elif left:
            with ThreadPoolExecutor(min(len(left), _AT_ONCE), "zkafka-ledger") as threads:
                for entries in threads.map(lambda group: list(self._entries(group, partitions[group])), left):
                    yield from entries

    def _found_at_once(self, partitions: Mapping[str, Iterable[int]]) -> Mapping[str, Mapping[TopicPartition, str]]:
        if self.find_metadata is None or len(partitions) < 2:
            return {}
        asked = {group: [TopicPartition(self.topic, p) for p in some] for group, some in partitions.items()}
        return self.find_metadata(asked, self.waits)

    def _entries(self, group: str, partitions: Iterable[int]) -> Iterator[Entry]:
        asked = [TopicPartition(self.topic, partition) for partition in partitions]
        with self._lease_offsets(group) as offsets:
            found = offsets.committed_with_metadata(asked)
        for partition, (_, metadata) in found.items():
            yield from self._decode(group, partition, metadata)

    def _decode(self, group: str, partition: TopicPartition, metadata: str) -> Iterator[Entry]:
        """The entry in the metadata, if it counts."""
        entry = decode(metadata, f"Group {group}, under {partition},")
        if self.sink is None or not self.sink.replaces(entry.sink):
            yield entry

    def _lease_offsets(self, group: str) -> AbstractContextManager[KafkaGroupOffsets]:
        properties = {**lookup_properties(self.properties), "bootstrap.servers": self.servers, "group.id": group}
        place, waits = (self.servers, self.properties, group, self.timeout_s), self.waits
        key = client_key(properties), self.timeout_s, waits
        return _idle.lease(key, lambda: KafkaGroupOffsets(*place, waits=waits))

    def _lease_admin(self) -> AbstractContextManager[GroupAdmin]:
        given = self.properties
        properties = {**given, "socket.timeout.ms": min(_LISTING_MS, int(given.get("socket.timeout.ms", _LISTING_MS)))}
        key = {**lookup_properties(properties), "bootstrap.servers": self.servers}
        return _idle_admins.lease(client_key(key), lambda: GroupAdmin(self.servers, properties))


def fitting_width(widths: Iterable[int], partitions: int) -> int:
    """The width of a ledger whose topic has `partitions`: the smallest known width up to that number, else that number.

    >>> fitting_width([], 4), fitting_width([2, 3], 4), fitting_width([8], 4)
    (4, 2, 4)
    """
    return min((width for width in widths if width <= partitions), default=partitions)
