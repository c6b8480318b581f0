"""Reads and deletions of ledgers, with brokers of values."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.operations.ledger import delete_ledger, read_ledgers
from pyspark_zkafka.protocol.ledger import Entry, QueryName, encode, key_of
from pyspark_zkafka.protocol.model import TopicPartition

WIDTH = 2


class Brokers:
    """What `GroupAdmin` is to ledgers: groups with the metadata of their offsets."""

    def __init__(self) -> None:
        self.metadata: dict[str, dict[TopicPartition, str]] = {}
        self.asked: list[list[str]] = []

    def write(self, query: str, slot: int, batch: int) -> None:
        """Store the entry of a slot."""
        key = key_of(QueryName("zkafka", query), slot, WIDTH)
        entry = encode(Entry(slot, batch, 10, "0" * 32, "run", at_ms=1))
        self.metadata.setdefault(key.group, {})[TopicPartition("t", key.partition)] = entry

    def group_names(self) -> list[str]:
        return sorted([*self.metadata, "billing"])

    def committed_metadata(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, str]]:
        self.asked.append(list(groups))
        return {name: dict(self.metadata.get(name, {})) for name in self.asked[-1]}

    def delete_groups(self, groups: Collection[str]) -> None:
        for name in groups:
            del self.metadata[name]


@pytest.fixture
def brokers() -> Brokers:
    """Brokers with the ledgers of two queries, of which one has two groups."""
    brokers = Brokers()
    for slot in range(3):
        brokers.write("q", slot, batch=7)
    brokers.write("other", 0, batch=1)
    return brokers


def test_all_ledgers(brokers: Brokers) -> None:
    """All ledgers are those of groups that have a ledger's name; no other group's offsets are read."""
    found = read_ledgers(brokers)
    assert {query: sorted(ledger.entries) for query, ledger in found.items()} == {
        "zkafka-other": [0],
        "zkafka-q": [0, 1, 2],
    }
    assert "billing" not in brokers.asked[0]


def test_one_ledger(brokers: Brokers) -> None:
    """Of named queries, only the groups of these are read."""
    assert list(read_ledgers(brokers, ["zkafka-q"])) == ["zkafka-q"]
    assert brokers.asked == [["zkafka-q.slots-2-0", "zkafka-q.slots-2-1"]]


def test_unknown_ledger(brokers: Brokers) -> None:
    """A query without a ledger is an error, also beside others."""
    with pytest.raises(LedgerError, match=r"UNKNOWN_LEDGER.*zkafka-x"):
        read_ledgers(brokers, ["zkafka-q", "zkafka-x"])


def test_deletion(brokers: Brokers) -> None:
    """A ledger that is as it was is deleted with all of its groups, and no other one is."""
    delete_ledger(brokers, read_ledgers(brokers)["zkafka-q"])
    assert list(brokers.metadata) == ["zkafka-other.slots-2-0"]


def test_ledger_that_has_changed(brokers: Brokers) -> None:
    """A ledger that was written meanwhile is of a query that is running, and is not deleted unless by force."""
    ledger = read_ledgers(brokers)["zkafka-q"]
    brokers.write("q", 2, batch=8)
    with pytest.raises(LedgerError, match="The ledger of zkafka-q was not deleted, as it has changed") as caught:
        delete_ledger(brokers, ledger)
    assert (caught.value.condition, caught.value.parameters["queries"]) == ("LEDGER_IN_USE", ["zkafka-q"])
    assert len(brokers.metadata) == 3
    delete_ledger(brokers, ledger, force=True)
    assert list(brokers.metadata) == ["zkafka-other.slots-2-0"]


def test_other_ledgers_do_not_matter(brokers: Brokers) -> None:
    """What another query writes meanwhile does not prevent a deletion."""
    ledger = read_ledgers(brokers)["zkafka-q"]
    brokers.write("other", 0, batch=2)
    delete_ledger(brokers, ledger)
    assert list(brokers.metadata) == ["zkafka-other.slots-2-0"]
