"""Places of a ledger's entries. Reads of entries need brokers, and are tested with these."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.brokers.ledger_offsets import Ledger, fitting_width
from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.ledger import Entry, LedgerGroup, LedgerKey, QueryName, SinkIdentity, encode, key_of
from pyspark_zkafka.model.nouns import TopicPartition

NAME = QueryName("zkafka", "8f1c")
WIDTH = st.integers(1, 10)


@pytest.mark.parametrize(("slot", "key"), [(0, ("zkafka-8f1c.slots-4-0", 0)), (6, ("zkafka-8f1c.slots-4-1", 2))])
def test_key_of_a_new_ledger(slot: int, key: tuple[str, int]) -> None:
    """A new ledger has a key for each partition of its topic, without a request to a broker."""
    assert Ledger("127.0.0.1:1", {}, NAME, "ledger", 4).key(slot) == LedgerKey(*key)


def test_group_of_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group named for more partitions than the topic has is asked only for existing partitions."""
    asked: list[int] = []

    def committed(_: Ledger, groups: Mapping[str, Collection[TopicPartition]]) -> dict[str, dict[TopicPartition, str]]:
        asked.extend(map(len, groups.values()))
        return {}

    monkeypatch.setattr(Ledger, "_group_names", lambda _: [f"{NAME}.slots-9999999999-0", f"{NAME}.slots-2-0"])
    monkeypatch.setattr(Ledger, "_committed", committed)
    assert Ledger("127.0.0.1:1", {}, NAME, "ledger", 4).entries() == {}
    assert sorted(asked) == [2, 4, 4]


def store(monkeypatch: pytest.MonkeyPatch, groups: Mapping[str, Mapping[TopicPartition, str]]) -> None:
    """Have the brokers store this metadata of groups' offsets."""

    def committed(
        _: Ledger, asked: Mapping[str, Collection[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, str]]:
        return {
            group: {tp: text for tp, text in groups.get(group, {}).items() if wanted is None or tp in wanted}
            for group, wanted in asked.items()
        }

    monkeypatch.setattr(Ledger, "_group_names", lambda _: list(groups))
    monkeypatch.setattr(Ledger, "_committed", committed)


def test_topic_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries whose rows are gone with a deleted topic are ignored, even those of a later micro-batch."""
    old, new = SinkIdentity("orders", 12), SinkIdentity("orders", 77)
    gone = Entry(0, 8, 5, "aa", "run", sink=old)
    kept = Entry(0, 7, 5, "aa", "run", sink=new)
    place = TopicPartition("ledger", 0)
    store(monkeypatch, {f"{NAME}.slots-1-0": {place: encode(gone)}, f"{NAME}.slots-2-0": {place: encode(kept)}})
    assert Ledger("127.0.0.1:2", {}, NAME, "ledger", 2, sink=new).entry(0) == kept
    assert Ledger("127.0.0.1:2", {}, NAME, "ledger", 2, sink=new).entries() == {0: kept}
    assert Ledger("127.0.0.1:2", {}, NAME, "ledger", 2).entries() == {0: gone}


def test_topic_created_again_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries under other names of the query are ignored, too, if their rows are gone with a deleted topic."""
    entry = Entry(0, 8, 5, "aa", "run", sink=SinkIdentity("orders", 12))
    group = "team-8f1c.slots-1-0"
    found = {group: {TopicPartition("ledger", 0): encode(entry)}}
    store(monkeypatch, found)
    for sink, expected in ((12, [entry]), (77, [])):
        ledger = Ledger("127.0.0.1:1", {}, NAME, "ledger", 2, sink=SinkIdentity("orders", sink))
        assert ledger.others(lambda base: True) == {("team-8f1c", "ledger"): expected}


def test_unreadable_entry_of_another_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of another query, for a topic that is not requested, is not parsed."""
    found = {"zkafka-9.slots-1-0": {TopicPartition("invoices", 0): "by hand"}}
    store(monkeypatch, found)
    ledger = Ledger("127.0.0.1:1", {}, NAME, "ledger", 2)
    assert ledger.others(lambda base: True, lambda base, topic: topic in ("orders", "ledger")) == {}
    with pytest.raises(LedgerError, match="UNREADABLE_LEDGER"):
        ledger.others(lambda base: True)


@given(st.lists(WIDTH), WIDTH)
def test_width(widths: list[int], partitions: int) -> None:
    """A width never exceeds the topic's partitions, and stays when partitions are added."""
    width = fitting_width(widths, partitions)
    assert width <= partitions
    assert width == partitions or width in widths
    assert fitting_width([*widths, width], partitions + 1) == width


@given(st.lists(st.tuples(WIDTH, st.integers(0, 40)), unique=True), st.sampled_from(["zkafka-8f1", "zkafka-8f1c-w"]))
def test_groups_of_a_ledger(slots: list[tuple[int, int]], other: str) -> None:
    """A ledger's groups are found among others, even among those of queries with a common prefix."""
    names = [key_of(NAME, slot, width).group for width, slot in slots]
    others = ["billing", f"{other}.slots-4-0", "zkafka-8f1c", "zkafka-8f1c.slots-0-1"]
    found = NAME.groups([*names, *others])
    assert found == [LedgerGroup(str(NAME), width, slot // width) for width, slot in slots]
    assert list(map(str, found)) == names
