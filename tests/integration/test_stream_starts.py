"""Starting offsets of a new streaming read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import ClusterStateError, DataLoss, OptionError
from pyspark_zkafka.read.stream_driver import StreamDriver
from tests.support.fill import fill
from tests.support.stream_offsets import initial, positions
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]
NewDriver = Callable[..., StreamDriver]
NewStream = Callable[..., Any]
"""Makes a `Stream`, see conftest.py."""


class TestStarts:
    """Starting offsets, with every option."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [10, 10, 0]),
            ({"startingOffsets": "latest"}, [10, 10, 0]),
            ({"startingOffsets": "earliest"}, [4, 0, 0]),
            ({"startingOffsets": '{"TOPIC": {"0": 7, "1": -2, "2": -1}}'}, [7, 0, 0]),
            ({"startingOffsets": '{"TOPIC": "earliest"}'}, [4, 0, 0]),
            ({"startingOffsets": '{"TOPIC": {"0": 10}}', "auto.offset.reset": "earliest"}, [10, 0, 0]),
            ({"startingTimestamp": "1005", "startingOffsetsByTimestampStrategy": "latest"}, [5, 5, 0]),
            ({"startingTimestamp": "9999", "startingOffsetsByTimestampStrategy": "latest"}, [10, 10, 0]),
            (
                {
                    "startingOffsetsByTimestamp": '{"TOPIC": {"0": 1006, "1": 1001, "2": 0}}',
                    "startingOffsetsByTimestampStrategy": "latest",
                },
                [6, 1, 0],
            ),
            ({"assign": '{"TOPIC": [1]}', "startingOffsets": '{"TOPIC": {"1": 3}}'}, [3]),
            ({"assign": '{"TOPIC": [0, 1]}', "startingTimestamp": "1009"}, [9, 9]),
        ],
    )
    def test_start(self, new_driver: NewDriver, timed: str, options: dict[str, str], expected: list[int]) -> None:
        """Each partition starts at the given offset, end of the log, or timestamp."""
        given = {name: value.replace("TOPIC", timed) for name, value in options.items()}
        found = initial(new_driver(given if "assign" in given else {"subscribe": timed, **given}))
        assert list(positions(found, timed).values()) == expected

    @pytest.fixture
    def timed(self, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> str:
        """A topic with ten records from 1000 ms on in two partitions, the first lacking four, and an empty partition."""
        topic = new_topic(partitions=3, config=KEPT)
        zkafka_cluster.produce(topic, [{"partition": n % 2, "timestamp": 1000 + n // 2} for n in range(20)])
        zkafka_cluster.delete_records(topic, {0: 4})
        return topic

    def test_refused(self, new_driver: NewDriver, timed: str) -> None:
        """A start that does not fit the partitions or the log raises an error that names the partitions."""
        subscribe = {"subscribe": timed}
        with pytest.raises(OptionError, match=f"startingOffsets does not name {timed}-1, {timed}-2"):
            initial(new_driver({**subscribe, "startingOffsets": f'{{"{timed}": {{"0": 7}}}}'}))
        with pytest.raises(OptionError, match=f"startingOffsets names {timed}-3"):
            initial(new_driver({**subscribe, "startingOffsets": f'{{"{timed}": {{"0": 7, "1": 7, "2": 0, "3": 0}}}}'}))
        with pytest.raises(ClusterStateError, match=rf"NO_OFFSET_FOR_TIMESTAMP.*{timed}-2"):
            initial(new_driver({**subscribe, "startingTimestamp": "1005"}))
        outside = {**subscribe, "startingOffsets": f'{{"{timed}": {{"0": 3, "1": 11, "2": 0}}}}'}
        with pytest.raises(DataLoss, match=rf"OFFSET_OUT_OF_RANGE.*{timed}-0: .* 3 .*\[4, 10\).*{timed}-1: .* 11 "):
            initial(new_driver(outside))
        lenient = initial(new_driver({**outside, "failOnDataLoss": "false"}))
        assert positions(lenient, timed) == {"0": 4, "1": 10, "2": 0}

    @pytest.mark.long
    def test_latest(self, stream: NewStream, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
        """By default a query reads only records produced after its start."""
        topic = new_topic()
        fill(zkafka_cluster, topic, 5)
        new = stream({"subscribe": topic})
        query = new.begin()
        query.processAllAvailable()
        fill(zkafka_cluster, topic, 3)
        query.processAllAvailable()
        assert new.offsets() == [5, 6, 7]
