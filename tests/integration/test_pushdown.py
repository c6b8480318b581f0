"""Filters that narrow a batch read on Sail, which plans each scan of a frame by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.read import readers
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_zkafka.model.planning import Split
    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.only_on("sail")

NewTopic = Callable[..., str]
Read = Callable[..., "DataFrame"]


@pytest.fixture
def topic(zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
    """A topic with the offsets 0 to 99 in each of three partitions."""
    topic = new_topic(partitions=3, config=KEPT)
    records = [{"value": b"v", "partition": n % 3, "timestamp": 1_700_000_000_000 + n} for n in range(300)]
    zkafka_cluster.produce(topic, records)
    return topic


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of offsets that each scan with any plans to read; Sail plans in this process."""
    sizes: list[int] = []
    pack = readers.split_partitions

    def spy(options: Any, splits: Iterable[Split], servers: str) -> Any:
        kept = list(splits)
        sizes.append(sum(split.size for split in kept))
        return pack(options, kept, servers)

    monkeypatch.setattr(readers, "split_partitions", spy)
    return sizes


@pytest.mark.parametrize(
    ("where", "offsets", "rows"),
    [
        ("partition = 1", 100, 100),
        ("partition > 0 AND partition <= 2", 200, 200),
        ("partition = 1 AND offset >= 90", 10, 10),
        ("offset < 5", 15, 15),
        ("offset > 1000", 0, 0),
        ("topic = 'other'", 0, 0),
        ("partition = 1 OR offset < 5", 300, 110),
        ("timestamp >= timestamp_millis(1700000000297)", 300, 3),
        ("value = 'v'", 300, 300),
    ],
)
def test_narrowed(read: Read, topic: str, planned: list[int], where: str, offsets: int, rows: int) -> None:
    """A plan has only partitions and offsets that can match, and the rows are the same."""
    assert read({"subscribe": topic}).where(where).count() == rows
    assert sum(planned) == offsets


@pytest.mark.parametrize(
    ("use", "rows"),
    [
        pytest.param(lambda f: f.where("partition = 0").union(f.where("partition = 1")), 200, id="union"),
        pytest.param(lambda f: f.where("partition = 0").union(f), 400, id="union with the whole frame"),
        pytest.param(lambda f: f.where("partition = 1").join(f, "offset"), 300, id="self-join"),
        pytest.param(lambda f: f.alias("a").join(f.alias("b"), "offset").where("a.partition = 1"), 300, id="filtered join"),
        pytest.param(lambda f: f.limit(300).where("partition = 2"), 100, id="filter after a limit"),
        pytest.param(lambda f: f.groupBy("partition").count().where("partition = 2"), 1, id="filter of groups"),
        pytest.param(lambda f: f.join(f.where("partition = 1 and offset < 5"), "offset", "left_anti"), 285, id="anti-join"),
    ],
)
def test_uses_of_one_frame(read: Read, topic: str, use: Callable[[DataFrame], DataFrame], rows: int) -> None:
    """Each use of a frame within a query has its own rows, whatever filters another use has."""
    assert use(read({"subscribe": topic})).count() == rows


def test_several_queries(read: Read, topic: str) -> None:
    """Several queries on one frame get their own rows, also of a frame that is to be cached."""
    frame = read({"subscribe": topic}).cache()
    assert frame.where("offset >= 90").count() == 30
    assert frame.count() == 300
    assert frame.where("partition = 1").count() == 100
