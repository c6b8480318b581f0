"""Places of a ledger's entries. Reads of entries need brokers, and are tested with these."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.brokers.ledger_offsets import Ledger, fitting_width
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE
from pyspark_zkafka.errors import BrokersUnavailable, LedgerError
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

    def entries(_: Ledger, group: str, partitions: range) -> list[Entry]:
        asked.append(len(partitions))
        return []

    monkeypatch.setattr(Ledger, "_group_names", lambda _: [f"{NAME}.slots-9999999999-0", f"{NAME}.slots-2-0"])
    monkeypatch.setattr(Ledger, "_entries", entries)
    assert Ledger("127.0.0.1:1", {}, NAME, "ledger", 4).entries() == {}
    assert sorted(asked) == [2, 4, 4]


class Offsets:
    """A client of a group with one committed offset or none."""

    def __init__(self, entry: Entry | None) -> None:
        self._entry = entry

    def committed_with_metadata(self, asked: list[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """Return the offset, for the first requested partition."""
        return {} if self._entry is None else {asked[0]: (0, encode(self._entry))}


def test_topic_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries whose rows are gone with a deleted topic are ignored, even those of a later micro-batch."""
    old, new = SinkIdentity("orders", 12), SinkIdentity("orders", 77)
    gone = Entry(0, 8, 5, "aa", "run", sink=old)
    kept = Entry(0, 7, 5, "aa", "run", sink=new)
    committed = {f"{NAME}.slots-1-0": gone, f"{NAME}.slots-2-0": kept}
    monkeypatch.setattr(Ledger, "_group_names", lambda _: list(committed))
    monkeypatch.setattr(Ledger, "_lease_offsets", lambda _, group: nullcontext(Offsets(committed.get(group))))
    assert Ledger("127.0.0.1:2", {}, NAME, "ledger", 2, sink=new).entry(0) == kept
    assert Ledger("127.0.0.1:2", {}, NAME, "ledger", 2, sink=new).entries() == {0: kept}
    assert Ledger("127.0.0.1:2", {}, NAME, "ledger", 2).entries() == {0: gone}


class TestManyGroups:
    """Reads of several groups: at once where possible, else by several clients at a time."""

    committed = {f"{NAME}.slots-1-{slot}": Entry(slot, 7, 5, "aa", "run") for slot in range(4)}  # noqa: RUF012

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return the groups for which a client of their own is leased."""
        asked: list[str] = []

        def lease(_: Ledger, group: str) -> nullcontext[Offsets]:
            asked.append(group)
            return nullcontext(Offsets(self.committed.get(group)))

        monkeypatch.setattr(Ledger, "_group_names", lambda _: list(self.committed))
        monkeypatch.setattr(Ledger, "_lease_offsets", lease)
        return asked

    def test_groups_found_at_once(self, asked: list[str]) -> None:
        """A client of its own asks only for a group that was left out, because a transaction is open or an error came."""
        requests: list[tuple[Mapping[str, Collection[TopicPartition]], bool]] = []

        def find(groups: Mapping[str, Collection[TopicPartition]], stable: bool) -> dict[str, dict[TopicPartition, str]]:
            requests.append((groups, stable))
            found = {group: {TopicPartition("ledger", 0): encode(self.committed[group])} for group in groups}
            return {group: metadata for group, metadata in found.items() if group != f"{NAME}.slots-1-2"}

        ledger = Ledger("127.0.0.1:3", {}, NAME, "ledger", 1, find_metadata=find)
        assert ledger.entries_of([1, 2, 3]) == {slot: self.committed[f"{NAME}.slots-1-{slot}"] for slot in (1, 2, 3)}
        assert asked == [f"{NAME}.slots-1-2"]
        groups = {f"{NAME}.slots-1-{slot}": [TopicPartition("ledger", 0)] for slot in (1, 2, 3)}
        assert requests == [(groups, True)]
        assert len(replace(ledger, waits=False).entries()) == 4
        assert requests[-1][1] is False

    def test_one_group(self, asked: list[str]) -> None:
        """A task's read of its slot needs one client, which it keeps for its next task."""
        ledger = Ledger("127.0.0.1:3", {}, NAME, "ledger", 1, find_metadata=lambda *_: pytest.fail("read at once"))
        assert ledger.entry(2) == self.committed[f"{NAME}.slots-1-2"]
        assert asked == [f"{NAME}.slots-1-2"]

    def test_groups_at_a_time(self, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
        """Without a read at once, several clients connect at the same time: one after the other took seconds."""
        meeting = Barrier(4)
        lease = Ledger._lease_offsets

        def meet(ledger: Ledger, group: str) -> object:
            meeting.wait(10)
            return lease(ledger, group)

        monkeypatch.setattr(Ledger, "_lease_offsets", meet)
        assert len(Ledger("127.0.0.1:3", {}, NAME, "ledger", 1).entries()) == 4

    def test_brokers_that_do_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After an error, no more groups are asked for: each would last until its time-out."""
        failed: list[str] = []

        def lease(_: Ledger, group: str) -> nullcontext[Offsets]:
            failed.append(group)
            raise BROKERS_UNAVAILABLE("no answer")

        monkeypatch.setattr(Ledger, "_lease_offsets", lease)
        monkeypatch.setattr(Ledger, "_group_names", lambda _: [f"{NAME}.slots-1-{slot}" for slot in range(2000)])
        with pytest.raises(BrokersUnavailable):
            Ledger("127.0.0.1:3", {}, NAME, "ledger", 1).entries()
        assert len(failed) < 2000


def test_topic_created_again_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries under other names of the query are ignored, too, if their rows are gone with a deleted topic."""
    entry = Entry(0, 8, 5, "aa", "run", sink=SinkIdentity("orders", 12))
    group = "team-8f1c.slots-1-0"
    found = {group: {TopicPartition("ledger", 0): encode(entry)}}
    monkeypatch.setattr(Ledger, "_group_names", lambda _: [group])
    monkeypatch.setattr(Ledger, "_committed_metadata", lambda *_: found)
    for sink, expected in ((12, [entry]), (77, [])):
        ledger = Ledger("127.0.0.1:1", {}, NAME, "ledger", 2, sink=SinkIdentity("orders", sink))
        assert ledger.others(lambda base: True) == {("team-8f1c", "ledger"): expected}


def test_unreadable_entry_of_another_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of another query, for a topic that is not requested, is not parsed."""
    found = {"zkafka-9.slots-1-0": {TopicPartition("invoices", 0): "by hand"}}
    monkeypatch.setattr(Ledger, "_group_names", lambda _: list(found))
    monkeypatch.setattr(Ledger, "_committed_metadata", lambda *_: found)
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
