"""The direct transport's consumer of a partition on a scripted broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.records.direct.consumer import DirectConsumer
from pyspark_zkafka.records.direct.settings import settings_of
from pyspark_zkafka.retries import Deadline
from tests.support.fake_partition import FETCH, LIST_OFFSETS, METADATA, TP, FakePartition, records
from tests.support.scripted_broker import ScriptedBroker

NOT_LEADER, REFUSED = 6, 29
SCHEMA = pa.schema([("offset", pa.int64())])


@contextmanager
def consumer(partition: FakePartition) -> Iterator[DirectConsumer]:
    """Yield a consumer at offset 0."""
    with ScriptedBroker(partition) as broker:
        partition.port = broker.address[1]
        server = f"127.0.0.1:{partition.port}"
        split = Split(TP, 0, 20, 0, 1, (0,), (server,))
        with (
            DirectClient(settings_of({"bootstrap.servers": server})) as client,
            DirectConsumer(client, split, SCHEMA) as opened,
        ):
            opened.seek(0)
            yield opened


def test_end_of_a_range_in_a_batch() -> None:
    """Records beyond the end of a range stay for a later poll with another end."""
    with consumer(FakePartition(records(0, 10), records(10, 20))) as opened:
        assert opened.poll(100, 1000, 5, Deadline.after(5)).last == 4
        assert opened.poll(100, 1000, 5, Deadline.after(5)).first is None
        assert opened.poll(100, 1000, 20, Deadline.after(5)).last == 9
        assert opened.poll(100, 1000, 20, Deadline.after(5)).last == 19
        assert opened.take()["offset"].to_pylist() == list(range(20))


def test_as_many_records_as_wanted() -> None:
    """A poll returns at most the requested number of records, and the next one continues."""
    with consumer(FakePartition(records(0, 10))) as opened:
        assert [opened.poll(4, 1000, 10, Deadline.after(5)).records for _ in range(3)] == [4, 4, 2]
        assert opened.take()["offset"].to_pylist() == list(range(10))


def test_seek_drops_what_was_fetched() -> None:
    """After a seek, fetched records that were not taken are dropped, and the offset is fetched again."""
    partition = FakePartition(records(0, 10), records(0, 10))
    with consumer(partition) as opened:
        assert opened.poll(2, 1000, 10, Deadline.after(5)).last == 1
        opened.seek(5)
        found = opened.poll(100, 1000, 10, Deadline.after(5))
        assert (found.first, found.last) == (5, 9)


def test_ends_of_the_log() -> None:
    """The ends of the log take two requests to the planned leader, without a metadata request."""
    partition = FakePartition(b"")
    partition.ends = [(3, 20)]
    with consumer(partition) as opened:
        assert opened.watermarks(Deadline.after(5)) == (3, 20)
    assert partition.asked == [LIST_OFFSETS, LIST_OFFSETS]


def test_ends_of_the_log_after_a_lost_connection() -> None:
    """After a lost connection, the ends of the log are requested from the leader in metadata."""
    partition = FakePartition(b"")
    partition.ends = [None, (3, 20)]
    with consumer(partition) as opened:
        assert opened.watermarks(Deadline.after(10)) == (3, 20)
    assert partition.asked == [LIST_OFFSETS, METADATA, LIST_OFFSETS, LIST_OFFSETS]


def test_ends_of_the_log_in_time() -> None:
    """A connection lost with no time left raises a retriable error that names the request."""
    partition = FakePartition(b"")
    partition.ends = [None]
    doing = "asking the leader of t-0 for the ends of its log"
    with consumer(partition) as opened, pytest.raises(BrokersUnavailable, match=f"{doing}: _TRANSPORT"):
        opened.watermarks(Deadline.after(0.05))
    assert FETCH not in partition.asked


@pytest.mark.parametrize(("error", "is_retriable"), [(NOT_LEADER, True), (REFUSED, False)])
def test_ends_of_the_log_that_are_refused(error: int, is_retriable: bool) -> None:
    """A broker's error is raised at once, and the leader is looked up again."""
    partition = FakePartition(b"")
    partition.ends = [error, (3, 20)]
    with consumer(partition) as opened:
        with pytest.raises(ClusterStateError, match="asking the leader of t-0 for the ends of its log") as caught:
            opened.watermarks(Deadline.after(5))
        assert caught.value.retriable is is_retriable
        assert opened.watermarks(Deadline.after(5)) == (3, 20)
    assert partition.asked[:2] == [LIST_OFFSETS, METADATA]
