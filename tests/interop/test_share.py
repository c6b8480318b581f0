"""Members of both kinds share a topic, come and go; whatever happens, the group as a whole reads every record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Group

VERSIONS = ("1.1.1", "0.8.2.2")
NewTopic = Callable[..., str]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_query_and_a_jvm_consumer_share(group: Group, new_topic: NewTopic, version: str) -> None:
    """Whoever comes, leaves, dies or is stopped: the others own all by range, read it, and no record is lost."""
    topic = new_topic(partitions=6)
    with group.journal({topic: 6}) as journal:
        ours = group.query("ours", {"subscribe": topic})
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
        journal.require_owners_read({"b": b}, group.settle("b", after="our query was stopped"))
    group.note("read again", journal.require_all_read([ours, a, z, b]))
