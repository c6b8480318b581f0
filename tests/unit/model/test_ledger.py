"""The ledger of exactly-once writes: names, keys, and entries as metadata, including foreign ones."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.model.ledger import (
    Entry,
    LedgerGroup,
    LedgerKey,
    QueryName,
    SinkIdentity,
    decode,
    encode,
    key_of,
    newest,
)
from pyspark_zkafka.model.nouns import LAST_MS
from tests.support.cases import each

ENTRY = Entry(3, 7, 1000, "0f" * 16, "run", "write", 1_700_000_000_000)
VALUES: dict[str, Any] = json.loads(encode(ENTRY))
MAX_METADATA = 4096


def test_name() -> None:
    """The name includes the writer if there is one."""
    assert str(QueryName("zkafka", "8f1c")) == "zkafka-8f1c"
    assert str(QueryName("zkafka", "8f1c", "orders")) == "zkafka-8f1c-orders"


@each(
    ("group", "owned"),
    [
        ("zkafka-8f1c.slots-4-0", True),
        ("zkafka-8f1c.slots-12-31", True),
        ("zkafka-8f1c", False),
        ("zkafka-8f1c-orders.slots-4-0", False),
        ("zkafka-8f1c.slots-4-0.slots-4-0", False),
        ("zkafka-8f.slots-4-0", False),
    ],
)
def test_owns(group: str, owned: bool) -> None:
    """A query owns the groups of its name, but not those of its other writers."""
    assert bool(QueryName("zkafka", "8f1c").groups([group])) is owned


@each(
    "name",
    [
        "",
        "billing",
        ".slots-4-1",
        "a.slots-4",
        "a.slots--1",
        "a.slots-4-",
        "a.slots-0-1",
        "a.slots-4-1-2",
        "a.slots-4-1 ",
        "a.slots-4-1\n",
        "a.slots-+4-1",
        "a.slots-04-1",
        "a.slots-4-01",
        "a.slots-\u0664-1",
        "a.slots-\u00b2-1",
        "a.slots-4_0-1",
        "a.slots-4-" + "9" * 5_000,
        "a.slots-" + "9" * 5_000 + "-1",
    ],
)
def test_foreign_group(name: str) -> None:
    """A group whose name no ledger would have is not a ledger."""
    assert LedgerGroup.parse(name) is None


def test_keys() -> None:
    """Slots fill one group up to its width before the next."""
    found = [key_of(QueryName("z", "q"), slot, width=2) for slot in range(4)]
    first, second = "z-q.slots-2-0", "z-q.slots-2-1"
    assert found == [LedgerKey(first, 0), LedgerKey(first, 1), LedgerKey(second, 0), LedgerKey(second, 1)]


def test_size() -> None:
    """An entry with the largest numbers and the longest names fits into the metadata that brokers accept."""
    largest = Entry(2**31 - 1, 2**63 - 1, 2**63 - 1, "f" * 32, "r" * 36, "w" * 36, 2**63 - 1)
    assert len(encode(largest)) < MAX_METADATA / 10


def test_unknown_fields() -> None:
    """Fields that this version does not know are ignored."""
    assert decode(json.dumps(VALUES | {"more": [1]})) == ENTRY


@each("sink", [SinkIdentity("orders", "a-b_cdefghijklmnopqrst"), SinkIdentity("orders", 77)])
def test_topic(sink: SinkIdentity) -> None:
    """An entry may name the topic of its rows, which entries of earlier versions lack."""
    assert decode(encode(replace(ENTRY, sink=sink))) == replace(ENTRY, sink=sink)
    assert "sink" not in VALUES


@each("sink", [1, "orders", {}, [], ["orders"], ["orders", None], ["a/b", 7], ["orders", -1], ["orders", True], [7, 7]])
def test_no_topic(sink: Any) -> None:
    """An entry with an invalid topic is unreadable."""
    with pytest.raises(LedgerError):
        decode(json.dumps(VALUES | {"sink": sink}))


@each(
    ("before", "is_replaced"),
    [
        (None, False),
        (SinkIdentity("orders", 77), False),
        (SinkIdentity("orders", 12), True),
        (SinkIdentity("orders", "a-topic-id"), False),
        (SinkIdentity("invoices", 12), False),
    ],
)
def test_topic_created_again(before: SinkIdentity | None, is_replaced: bool) -> None:
    """A topic replaces one of the same name with another id; ids from Kafka and ZooKeeper cannot be compared."""
    assert SinkIdentity("orders", 77).replaces(before) is is_replaced


@each(
    "metadata",
    [
        "",
        " ",
        "consumed by hand",
        "null",
        "true",
        "1",
        '"v"',
        "[]",
        "[1]",
        "{}",
        "{",
        "[" * 4_000,
        '{"v":' * 800,
        "[" * 1_900 + "]" * 1_900,
        "9" * 4_096,
        '{"v":' + "9" * 4_400 + "}",
        "\x00",
        "\ud800",
        "NaN",
        encode(ENTRY)[:-1],
    ],
)
def test_unreadable(metadata: str) -> None:
    """Text that is no entry is an error that quotes its beginning."""
    with pytest.raises(LedgerError, match="cannot be read") as caught:
        decode(metadata)
    assert caught.value.condition == "UNREADABLE_LEDGER"
    assert len(str(caught.value)) < 1_000


@each("name", VALUES)
def test_missing_field(name: str) -> None:
    """An entry that lacks a field is unreadable."""
    with pytest.raises(LedgerError):
        decode(json.dumps({key: value for key, value in VALUES.items() if key != name}))


@each("name", ["v", "slot", "batch", "rows", "at"])
@each(
    "value",
    [-1, 1.0, 7.5, 1e300, 10**30, 2**63, True, False, None, "7", [], [7], {}, float("nan"), float("inf"), float("-inf")],
)
def test_no_number(name: str, value: Any) -> None:
    """A number must be a non-negative integer of 63 bits, and no other JSON value."""
    with pytest.raises(LedgerError):
        decode(json.dumps(VALUES | {name: value}))


def test_impossible_time() -> None:
    """A time that no worker's clock can show is read as 0, and the entry still counts."""
    for at_ms in (LAST_MS + 1, 2**63 - 1):
        assert decode(encode(replace(ENTRY, at_ms=at_ms))) == replace(ENTRY, at_ms=0)


@pytest.mark.parametrize("version", [0, 2])
def test_other_version(version: int) -> None:
    """An entry of another version is refused."""
    with pytest.raises(LedgerError, match="later version"):
        decode(json.dumps(VALUES | {"v": version}))


@each("name", ["digest", "run", "write"])
@each("value", [None, 1, True, ["a"], {"a": "b"}, float("nan")])
def test_no_text(name: str, value: Any) -> None:
    """A text field must be a string."""
    with pytest.raises(LedgerError):
        decode(json.dumps(VALUES | {name: value}))


def test_newest() -> None:
    """The entry of the latest micro-batch counts in any order, and of two for the same micro-batch, the later one."""
    first, second, again = Entry(0, 1, 5, "a", "r1"), Entry(0, 2, 5, "b", "r1"), Entry(0, 2, 5, "b", "r2", at_ms=9)
    other = Entry(1, 1, 5, "c", "r1")
    assert newest([]) == {}
    assert newest([first, other, second]) == newest([second, first, other]) == {0: second, 1: other}
    assert newest([second, again, first]) == newest([again, second]) == {0: again}
