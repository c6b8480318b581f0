"""All znodes below a group's offsets."""

from __future__ import annotations

from pyspark_zkafka.inspect.groups import StoredOffsets, decode_groups, stored_in
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.resumption import StoredOffset
from pyspark_zkafka.model.znodes.groups import LegacyPartition
from pyspark_zkafka.zookeeper.connection import Znode, ZnodeStat


def node(data: bytes | None, version: int = 3) -> Znode:
    """Return a znode written by transaction 77."""
    return Znode(data, ZnodeStat(1, version, 0, 0, mzxid=77))


def stored(nodes: dict[str, Znode]) -> StoredOffsets:
    """Return the stored offsets of the group g."""
    return stored_in(decode_groups(["g"], {}, nodes)["g"])


def test_each_kind_of_znode() -> None:
    """Offsets, -1, garbage, positions of Kafka 0.7 and foreign names are distinguished, and none is dropped."""
    path = "/consumers/g/offsets/t/"
    data = {"0": b"5", "1": b"-1", "2": b"7\n", "3": None, "1-4": b"99", "1-5": b"x", "no": b"1", "10": b"0"}
    found = stored({f"{path}{key}": node(value) for key, value in data.items()})
    t0, t10 = TopicPartition("t", 0), TopicPartition("t", 10)
    assert found.offsets == {t0: StoredOffset(5, 77, 0, 3), t10: StoredOffset(0, 77, 0, 3)}
    assert found.values == {t0: 5, t10: 0}
    assert found.unset == {TopicPartition("t", 1)}
    assert found.unreadable.keys() == {TopicPartition("t", 2), TopicPartition("t", 3)}
    assert found.legacy == {LegacyPartition("t", 1, 4): 99}
    assert found.misnamed.keys() == {f"{path}1-5", f"{path}no"}
    assert found.partitions == {TopicPartition("t", p) for p in (0, 1, 2, 3, 10)}
    assert len(found.problems) == 4
    assert set(found.versions.values()) == {3}


def test_name_that_no_topic_has() -> None:
    """An offset below a name that no topic can have is a problem and no value, since no import would accept it."""
    found = stored({"/consumers/g/offsets/a topic/0": node(b"1"), "/consumers/g/offsets/t/0": node(b"2")})
    assert found.misnamed.keys() == {"/consumers/g/offsets/a topic/0"}
    assert found.values == {TopicPartition("t", 0): 2}
