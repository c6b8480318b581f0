"""Batch jobs that write exactly once and commit their group's offsets, and jobs that die between the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import canonical_json
from tests.support.fill import fill
from tests.support.numbered_rows import numbers
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.server

NewTopic = Callable[..., str]


@dataclass(frozen=True)
class Job:
    """A job that copies its group's unread records from two partitions to another topic."""

    spark: SparkSession
    cluster: LocalCluster
    source: str
    sink: str
    options: dict[str, str]

    @property
    def group(self) -> str:
        """The name of the job's group."""
        return f"g-{self.source}"

    def fill(self, begin: int, end: int) -> None:
        """Write records numbered from `begin` to `end` to partition 0, and from 1,000 more to partition 1."""
        fill(self.cluster, self.source, [str(n) for n in range(begin, end)], 0)
        fill(self.cluster, self.source, [str(n) for n in range(1000 + begin, 1000 + end)], 1)

    def run(self, end: int, tasks: int | None = None) -> None:
        """Copy up to offset `end` of each partition."""
        ends = canonical_json({TopicPartition(self.source, p): end for p in (0, 1)})
        shared = {**self.options, "group.id": self.group}
        reads = {"subscribe": self.source, "startingOffsets": "committed", "auto.offset.reset": "smallest"}
        frame = self.spark.read.format("zkafka").options(**shared, **reads, endingOffsets=ends).load().select("value")
        once = {"topic": self.sink, "deliveryGuarantee": "exactly-once", "commitOffsets": ends}
        frame = frame if tasks is None else frame.coalesce(tasks)
        frame.write.format("zkafka").options(**shared, **once).mode("append").save()

    @contextmanager
    def uncommitted(self) -> Iterator[None]:
        """Block commits: jobs inside the ``with`` block write all rows, then fail because a member owns a partition."""
        with self.cluster.zookeeper() as client:
            path = f"/consumers/{self.group}/owners/{self.source}/1"
            client.create(path, b"member-0", ephemeral=True, makepath=True)
            with pytest.raises(Exception, match="PARTITION_OWNED"):
                yield
            client.delete(path)

    def expect_each_once(self, end: int) -> None:
        """Check that a reader of committed records finds each record up to `end` once."""
        found = numbers(self.cluster.bootstrap_servers, self.sink)
        assert found == dict.fromkeys([*range(end), *range(1000, 1000 + end)], 1)


@pytest.fixture(params=["zookeeper", *seldom("dual")])
def job(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    zookeeper: dict[str, str],
    new_topic: NewTopic,
) -> Job:
    """A job whose source has ten records per partition, with offsets in ZooKeeper, or in ZooKeeper and Kafka."""
    stores = {} if request.param == "zookeeper" else {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
    made = Job(spark, zkafka_cluster, new_topic(partitions=2), new_topic(partitions=3), {**zookeeper, **stores})
    made.fill(0, 10)
    return made


@pytest.mark.long
@pytest.mark.parametrize("job", ["zookeeper", "dual"], indirect=True)
def test_next_jobs(job: Job) -> None:
    """Consecutive jobs write each record once, also after a job without new records or without its commit.

    A job that wrote its rows but did not commit writes nothing when it is repeated, and commits.
    """
    job.run(5)
    job.run(5)
    job.run(8)
    job.fill(10, 20)
    with job.uncommitted():
        job.run(20)
    job.expect_each_once(20)
    job.run(20)
    job.expect_each_once(20)


def test_another_job_is_refused(job: Job) -> None:
    """A job after an unfinished one is refused before it writes; the error has the offsets that finish the earlier one."""
    with job.uncommitted():
        job.run(5)
    with pytest.raises(Exception, match=rf"UNFINISHED_JOB.*{job.source}.*:5.*endingOffsets"):
        job.run(10)
    job.run(5)
    job.run(10)
    job.expect_each_once(10)


def test_other_tasks(job: Job) -> None:
    """A job repeated with another number of tasks is refused, because its rows would be in other slots."""
    with job.uncommitted():
        job.run(10)
    with pytest.raises(Exception, match="ROWS_DIFFER"):
        job.run(10, tasks=1)
    job.run(10)
    job.expect_each_once(10)


def test_groups_of_one_topic(job: Job, new_topic: NewTopic) -> None:
    """An unfinished job of one group does not affect the jobs of another group."""
    other = replace(job, source=new_topic(partitions=2))
    with job.uncommitted():
        job.run(10)
    other.fill(2000, 2010)
    other.run(10)
    job.run(10)
    found: Any = numbers(job.cluster.bootstrap_servers, job.sink)
    assert set(found.values()) == {1}
    assert len(found) == 40
