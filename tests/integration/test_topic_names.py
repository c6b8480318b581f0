"""Names that no topic can have, on real servers and by both paths that records take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.clients.zookeeper import ZooKeeperClient

if TYPE_CHECKING:
    from conftest import Chroot
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


@pytest.mark.parametrize("path", ["off", "on"])
@pytest.mark.parametrize("bad", [r"concat(good, '\u0000x')", "repeat('x', 600)", "'a/b'", "cast(x'61ff' as string)"])
def test_rows_for_a_topic_that_cannot_be(
    spark: SparkSession, connection: dict[str, str], read: Read, new_topic: NewTopic, path: str, bad: str
) -> None:
    """A row for such a name fails the write before its batch is sent, and no other topic gets it."""
    topic = new_topic()
    rows = spark.range(0, 2, 1, 1).selectExpr("id", f"'{topic}' as good")
    frame = rows.selectExpr(f"if(id = 0, good, {bad}) as topic", "'v' as value")
    writer = frame.write.format("zkafka").options(**connection, nativePath=path).mode("append")
    with pytest.raises(Exception, match=r"\[INVALID_TOPIC\] The column topic is '"):
        writer.save()
    assert read({"subscribe": topic}).collect() == []


def test_znodes_that_are_no_topics(chroot: Chroot) -> None:
    """What somebody has put beside the topics in ZooKeeper, under a name that Kafka does not allow, is no topic."""
    for name in ("t", "two words", "x" * 300):
        chroot.topic(name, 1)
    with ZooKeeperClient(chroot.config) as client:
        assert client.topic_names() == ["t"]
        assert list(client.snapshot().topics) == ["t"]
