"""The ledger of an exactly-once write, in the offsets of its groups in Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.brokers.properties import client_key, shared_properties
from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.kept import ClientPool, Remembered
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

_idle: ClientPool[GroupAdmin] = ClientPool()
# Each broker lists its own groups. A broker that has just died fails the listing until the metadata no longer has it.
_LISTING_S = 10.0
_LOOK_S, _TIMEOUT_S = 3.0, 30.0
_retry = Retry(12, 0.5, time.sleep)
_widths: Remembered[tuple[str, str], tuple[int, ...]] = Remembered()
"""The widths of the ledgers that this process has seen, by bootstrap servers and query. Almost all have one width."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The entries of the query `name`: metadata of its groups' offsets for the `partitions` of the ledger's `topic`.

    Each call blocks for some requests, and raises ZKafkaError if the brokers do not answer.

    `sink` is the topic of the rows, if known. Entries of a deleted topic of the same name do not count: their rows are
    gone. With `waits`, a read waits for entries of incomplete transactions. Without it, a read returns the previous
    entries. `timeout_s` limits a request, and a wait.
    """

    servers: str
    properties: Mapping[str, Any] = field(repr=False)
    name: QueryName
    topic: str
    partitions: int
    sink: SinkIdentity | None = None
    waits: bool = True
    timeout_s: float = _TIMEOUT_S

    def key(self, slot: int) -> LedgerKey:
        """The key under which a slot's next entry is stored."""
        return key_of(self.name, slot, fitting_width(self._known_widths(), self.partitions))

    def entry(self, slot: int) -> Entry | None:
        """A slot's last entry."""
        return self.entries_of([slot]).get(slot)

    def entries_of(self, slots: Collection[int] | None) -> dict[int, Entry]:
        """The last entry of each of these slots, or of all slots."""
        if slots is None:
            return self.entries()
        if not self._known_widths():
            self._groups()  # finds the widths
        # A broker that takes over as coordinator may not list a group yet. Always look up the keys for the present number
        # of partitions, too.
        widths = {*self._known_widths(), self.partitions}
        partitions: dict[str, list[int]] = {}
        for key in (key_of(self.name, slot, width) for width in sorted(widths) for slot in slots):
            partitions.setdefault(key.group, []).append(key.partition)
        found = newest(self._entries(partitions))
        return {slot: entry for slot, entry in found.items() if slot in slots}

    def present_entry(self, slot: int) -> Entry | None:
        """A slot's last entry of a complete transaction, without waiting for an open one."""
        return replace(self, waits=False).entry(slot)

    def entries(self) -> dict[int, Entry]:
        """The last entry of each slot."""
        return newest(self._entries({str(group): self._partitions_of(group) for group in self._all_groups()}))

    def others(
        self, belongs: Callable[[str], bool], counts: Callable[[str, str], bool] = lambda base, topic: True
    ) -> dict[tuple[str, str], list[Entry]]:
        """The entries of this name under other topics, and of other names that `belongs` accepts, by name and topic.

        Decodes only entries whose name and topic `counts` accepts. Leaves out entries of incomplete transactions.
        """
        base, found = str(self.name), dict[tuple[str, str], list[Entry]]()
        listed = filter(None, map(LedgerGroup.parse, _retry(self._group_names)))
        groups = [group for group in listed if group.base == base or belongs(group.base)]
        committed = _retry(lambda: self._committed(dict.fromkeys(map(str, groups))))
        for group in groups:
            for partition, metadata in committed[str(group)].items():
                name_and_topic = group.base, partition.topic
                if name_and_topic != (base, self.topic) and counts(*name_and_topic):
                    found.setdefault(name_and_topic, []).extend(self._decode(str(group), partition, metadata))
        return found

    def open_slots(self) -> list[int]:
        """The slots with an entry in an incomplete transaction. Blocks for three seconds per such slot, and per group.

        Raises BrokersUnavailable if the brokers do not answer.
        """
        replace(self, waits=False, timeout_s=_TIMEOUT_S).entries()
        patient = replace(self, waits=True, timeout_s=_LOOK_S)
        groups = [group for group in self._all_groups() if patient._is_open(str(group), self._partitions_of(group))]
        keys = ((group, partition) for group in groups for partition in self._partitions_of(group))
        return [group.number * group.width + p for group, p in keys if patient._is_open(str(group), [p])]

    def _is_open(self, group: str, partitions: Iterable[int]) -> bool:
        try:
            list(self._entries({group: partitions}))
        except BrokersUnavailable:
            return True
        return False

    def _all_groups(self) -> set[LedgerGroup]:
        return {*self._groups(), LedgerGroup(str(self.name), self.partitions, 0)}  # the present width, as in `entries_of`

    def _partitions_of(self, group: LedgerGroup) -> range:
        """The partitions under which a group can have entries.

        A recreated topic may have fewer partitions than the width, and any client can put any width into a group's name.
        """
        return range(min(group.width, self.partitions))

    def _known_widths(self) -> tuple[int, ...]:
        return _widths.get((self.servers, str(self.name))) or ()

    def _groups(self) -> list[LedgerGroup]:
        """The groups that may hold entries of slots."""
        found = self.name.groups(_retry(self._group_names))
        if found:
            _widths.put((self.servers, str(self.name)), tuple(sorted({group.width for group in found})))
        return found

    def _group_names(self) -> list[str]:
        with self._lease() as admin:
            return admin.group_names(_LISTING_S)

    def _entries(self, partitions: Mapping[str, Iterable[int]]) -> Iterator[Entry]:
        """Yield the entries of each group that are stored under these partitions."""
        asked = {group: [TopicPartition(self.topic, partition) for partition in some] for group, some in partitions.items()}
        for group, committed in self._committed(asked).items():
            for partition, metadata in committed.items():
                yield from self._decode(group, partition, metadata)

    def _committed(self, asked: Mapping[str, Collection[TopicPartition] | None]) -> dict[str, dict[TopicPartition, str]]:
        with self._lease() as admin:
            return admin.committed_metadata(asked, self.timeout_s, stable=self.waits)

    def _decode(self, group: str, partition: TopicPartition, metadata: str) -> Iterator[Entry]:
        """Yield the entry in the metadata, unless its rows went to a deleted topic."""
        entry = decode(metadata, f"Group {group}, under {partition},")
        if self.sink is None or not self.sink.replaces(entry.sink):
            yield entry

    def _lease(self) -> AbstractContextManager[GroupAdmin]:
        key = {**shared_properties(self.properties), "bootstrap.servers": self.servers}
        return _idle.lease(client_key(key), lambda: GroupAdmin(self.servers, self.properties))


def fitting_width(widths: Iterable[int], partitions: int) -> int:
    """The width of a ledger whose topic has `partitions`: the smallest known width up to that number, else that number.

    >>> fitting_width([], 4), fitting_width([2, 3], 4), fitting_width([8], 4)
    (4, 2, 4)
    """
    return min((width for width in widths if width <= partitions), default=partitions)
