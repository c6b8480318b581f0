"""JVM consumers and our queries that share a topic, join, leave and die: the group reads every record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support.tiers import seldom

if TYPE_CHECKING:
    from conftest import Group

AT_ONCE_S = 15  # sessions of our queries expire after 30 s
NewTopic = Callable[..., str]


@pytest.mark.parametrize("version", ["1.1.1", *seldom("0.8.2.2")])
def test_a_query_and_a_jvm_consumer_share(group: Group, new_topic: NewTopic, version: str) -> None:
    """When a member of either kind joins, stops or dies, the others own and read all partitions; no record is lost."""
    topic = new_topic(partitions=4)
    with group.journal({topic: 4}) as journal:
        ours = group.query("ours", {"subscribe": topic}, wait=False)
        journal.require_owners_read({"ours": ours}, group.settle("ours", after="our query came, and was alone"))
        a = group.jvm("a", version, topics={topic: 2}, start=False).start(wait=False)
        journal.require_owners_read({"ours": ours, "a": a}, group.settle("a", "ours", after="a JVM came"))
        a.stop()
        journal.require_owners_read({"ours": ours}, group.settle("ours", after="the JVM was stopped"))
        z = group.jvm("z", version, topics={topic: 1})
        journal.require_owners_read({"ours": ours, "z": z}, group.settle("ours", "z"))
        z.kill()
        journal.require_owners_read({"ours": ours}, group.settle("ours", after="the JVM was killed"))
        b = group.jvm("b", version, topics={topic: 1})
        journal.require_owners_read({"ours": ours, "b": b}, group.settle("b", "ours"))
        ours.stop()
        journal.require_owners_read({"b": b}, group.settle("b", after="our query was stopped", timeout_s=AT_ONCE_S))
    group.note("read again", journal.require_all_read([ours, a, z, b]))


@pytest.mark.long
def test_both_kinds_of_jvm_consumers_and_two_queries(group: Group, new_topic: NewTopic) -> None:
    """Four members of three kinds share a topic; after one is killed and one stopped, the queries take over."""
    topic = new_topic(partitions=4)
    with group.journal({topic: 4}) as journal:
        old, new = (group.jvm(n, v, topics={topic: 1}, start=False) for n, v in (("a", "0.8.2.2"), ("n", "1.1.1")))
        for jvm in (old, new):
            jvm.start(wait=False)
        ours = {name: group.query(name, {"subscribe": topic}, wait=False) for name in ("m", "z")}
        owners = group.settle("a", "m", "n", "z", after="four came at once")
        assert sorted(owners.values()) == [f"{group.name}_{name}-0" for name in "amnz"]
        journal.require_owners_read({**ours, "a": old, "n": new}, owners)
        old.kill()
        new.stop()
        journal.require_owners_read(ours, group.settle("m", "z", after="one JVM was killed, the other stopped"))
        ours["m"].stop()
        journal.require_owners_read(
            {"z": ours["z"]}, group.settle("z", after="one of two queries was stopped", timeout_s=AT_ONCE_S)
        )
    group.note("read again", journal.require_all_read([*ours.values(), old, new]))


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.1.1", "0.8.2.2"])
def test_an_idle_query_takes_over(group: Group, new_topic: NewTopic, version: str) -> None:
    """A query without partitions stays active, and takes over when an owner leaves or dies."""
    topic = new_topic(partitions=2)
    with group.journal({topic: 2}) as journal:
        a, b = (group.jvm(name, version, topics={topic: 1}) for name in "ab")
        idle = group.query("idle", {"subscribe": topic})
        owners = group.settle("a", "b", "idle")
        assert sorted(owners.values()) == [f"{group.name}_{name}-0" for name in "ab"]
        journal.require_owners_read({"a": a, "b": b, "idle": idle}, owners)
        assert idle.active
        assert idle.places == []
        a.stop()
        journal.require_owners_read({"b": b, "idle": idle}, group.settle("b", "idle", after="an owner left"))
        b.kill()
        journal.require_owners_read({"idle": idle}, group.settle("idle", after="the last owner was killed"))
    group.note("read again", journal.require_all_read([a, b, idle]))


@pytest.mark.long
def test_a_jvm_that_was_paused_comes_back(group: Group, new_topic: NewTopic) -> None:
    """A JVM consumer paused beyond its session loses its share and regains it later; no record is lost."""
    topic = new_topic(partitions=2)
    with group.journal({topic: 2}) as journal:
        a, ours = group.jvm("a", topics={topic: 1}), group.query("ours", {"subscribe": topic})
        readers = {"a": a, "ours": ours}
        journal.require_owners_read(readers, group.settle(*readers))
        a.pause()
        journal.require_owners_read({"ours": ours}, group.settle("ours", after="the JVM was paused"))
        a.resume()
        journal.require_owners_read(readers, group.settle(*readers, after="the JVM was resumed"))
    group.note("read again", journal.require_all_read(readers.values()))
