"""Rows of the views that show consumer groups, from znodes that real consumers wrote, and from broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.views.group_rows import (
    committed_partitions,
    group_rows,
    member_rows,
    offset_rows,
    owner_rows,
    with_lag,
)
from tests.support.cases import each

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "znodes.json").read_text())
GROUPS = sorted(name for name in VECTORS if not name.startswith("brokers"))


def recorded(name: str, part: str) -> dict[str, bytes | None]:
    """The recorded znodes below a group's ids, owners or offsets by path, without their parents."""
    depth = 4 if part == "ids" else 5
    found = [z for z in VECTORS[name]["znodes"] if f"/{part}/" in z["path"] and z["path"].count("/") == depth]
    return {z["path"]: None if z["value"] is None else z["value"].encode() for z in reversed(found)}


def offsets(data: dict[str, bytes | None]) -> list[Any]:
    """The rows of offsets, all of them written one second after the epoch."""
    return offset_rows(data, dict.fromkeys(data, 1000))


@each("name", GROUPS)
def test_recorded_groups_are_readable(name: str) -> None:
    """All that the consumers of 1.1.1 and 0.8.2.2 wrote is readable, a row a znode, sorted."""
    members, owners = recorded(name, "ids"), recorded(name, "owners")
    committed = recorded(name, "offsets")
    assert len(member_rows(members)) == len(members)
    assert all(row["readable"] and row["timestamp"] for row in member_rows(members))
    for rows, data in ((owner_rows(owners), owners), (offsets(committed), committed)):
        assert len(rows) == len(data)
        assert not any("error" in row for row in rows)
        places = [(row["topic"], row["partition"]) for row in rows]
        assert places == sorted(places)


def test_members() -> None:
    """A member's row has what it subscribes to and since when."""
    (row,) = member_rows(recorded("whitelist", "ids"))
    assert row == {
        "group": "g-wl",
        "consumer": "g-wl_c1",
        "pattern": "white_list",
        "subscription": [("peer.w.*", 2)],
        "timestamp": 1_795_228_875_338_000,
        "readable": True,
    }


@pytest.mark.parametrize("data", [None, b"", b"peer-a", b"\xff", b'{"pattern":"static"}'])
def test_unreadable_member(data: bytes | None) -> None:
    """A foreign znode that nobody can read is a row that says so; the others are there, too."""
    rows = member_rows({"/consumers/g/ids/h:uuid": data, **recorded("whitelist", "ids")})
    assert [(row["group"], row["readable"]) for row in rows] == [("g", False), ("g-wl", True)]
    assert rows[0]["consumer"] == "h:uuid"
    assert "Znode /consumers/g/ids/h:uuid cannot be read" in rows[0]["error"]


def test_owners() -> None:
    """An owner's row has the thread, and the consumer that it belongs to."""
    rows = owner_rows(recorded("two_consumers_two_topics_two_threads_range", "owners"))
    assert len(rows) == 8
    assert rows[3] == {
        "group": "g-two",
        "topic": "peer-a",
        "partition": 3,
        "thread": "g-two_c2-0",
        "consumer": "g-two_c2",
    }


def test_partitions_sort_as_numbers() -> None:
    """Partition 10 comes after partition 9."""
    rows = owner_rows(recorded("range_12_partitions_12_threads_lexical", "owners"))
    assert [row["partition"] for row in rows] == list(range(12))


def test_owners_of_0_7_and_broken_ones() -> None:
    """A claim of 0.7 names its broker; a name or a value that cannot be read is told, with what could be read."""
    base = "/consumers/g/owners/t"
    rows = owner_rows({f"{base}/1-3": b"g_h-0", f"{base}/x": b"g_h-0", f"{base}/2": b""})
    shown = [(r.get("partition"), r.get("broker"), r.get("thread"), "error" in r) for r in rows]
    assert shown == [(None, None, None, True), (2, None, None, True), (3, 1, "g_h-0", False)]
    assert f"Znode {base}/2 cannot be read" in rows[1]["error"]


def test_offsets_and_lag() -> None:
    """The lag is the distance to the latest offset, negative beyond the log's end, null where either is missing."""
    base = "/consumers/g/offsets/t"
    data: dict[str, bytes | None] = {f"{base}/{n}": v for n, v in enumerate((b"5", b"20", b"-1", b"7"))}
    rows = offsets(data)
    assert committed_partitions(rows) == [TopicPartition("t", n) for n in range(4)]
    latest = {TopicPartition("t", n): 12 for n in range(3)}
    shown = [(r["offset"], r.get("latest"), r.get("lag")) for r in with_lag(rows, latest)]
    assert shown == [(5, 12, 7), (20, 12, -8), (-1, 12, None), (7, None, None)]
    assert {r["timestamp"] for r in rows} == {1_000_000}


def test_offsets_of_0_7_and_broken_ones() -> None:
    """Byte positions of 0.7 and offsets that cannot be read are shown, and never compared with the log."""
    base = "/consumers/g/offsets/t"
    rows = offsets({f"{base}/0-1": b"4096", f"{base}/0": b"7\n", f"{base}/x": b"7"})
    assert committed_partitions(rows) == []
    rows = with_lag(rows, {TopicPartition("t", 0): 10, TopicPartition("t", 1): 10})
    shown = [(r.get("partition"), r.get("broker"), r.get("offset"), r.get("lag"), "error" in r) for r in rows]
    assert shown == [(None, None, None, None, True), (0, None, None, None, True), (1, 0, 4096, None, False)]


def test_groups() -> None:
    """A group's row counts its members and lists the topics it owns or committed; unknown groups have no row."""
    children = {
        "/consumers/b": ["ids", "offsets", "owners"],
        "/consumers/b/ids": ["b_1", "b_2"],
        "/consumers/b/owners": ["t2"],
        "/consumers/b/offsets": ["t1", "t2"],
        "/consumers/a": [],
    }
    rows = group_rows(["b", "a", "unknown"], children)
    assert rows == [{"group": "a", "members": 0, "topics": []}, {"group": "b", "members": 2, "topics": ["t1", "t2"]}]
    assert group_rows(["b", "a"], children, {"t1"}) == [{"group": "b", "members": 2, "topics": ["t1"]}]


def test_no_groups() -> None:
    """Without groups there are no rows."""
    assert group_rows([], {}) == member_rows({}) == owner_rows({}) == offsets({}) == committed_partitions([]) == []
