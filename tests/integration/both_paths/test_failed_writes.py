"""Errors of writes by both transports."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.rows import outgoing
from pyspark_zkafka.options.values import Transport
from pyspark_zkafka.records.producer import CountingProducer, producer_properties
from pyspark_zkafka.records.select import open_producer
from tests.support.both_paths import HASTY, Failed, connection, outcome, same, unnumbered
from tests.support.both_paths_writes import HEADERS, Write, frame, send
from tests.support.topics import arrived

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


NewTopic = Callable[..., str]


def acknowledged(failed: Failed) -> int:
    """Return the number of acknowledged records that an error names."""
    return int(re.search(r"by this task (\d+) were acknowledged", failed.message).group(1))


class TestFailedWrites:
    """Writes that fail: their errors, and their counts of acknowledged records."""

    def test_too_large_for_the_client(self, write: Write) -> None:
        """A record larger than message.max.bytes fails the write with MESSAGE_TOO_LARGE."""
        found = write([(frame(value=[bytes(5000)]), [0])], **{"message.max.bytes": 1000})
        assert found[0].condition == "DELIVERY_FAILED"
        assert re.search("MESSAGE_TOO_LARGE.*of 1 records handed over by this task 0 were acknowledged", found[0].message)
        assert found[1] == {0: []}

    def test_too_large_with_headers(self, write: Write) -> None:
        """A record with headers that is larger than message.max.bytes fails the write."""
        headers = pa.array([[("h", b"x")]], HEADERS)
        found = write([(frame(value=[bytes(5000)], headers=headers), [0])], **{"message.max.bytes": 1000})
        assert "MESSAGE_TOO_LARGE" in found[0].message
        assert found[1] == {0: []}

    def test_too_large_for_the_broker(self, write: Write) -> None:
        """A record that is too large for the broker fails the write; the error has topic, partition, cause and counts."""
        found = write([(frame(value=[bytes(5000)]), [0])], config={"max.message.bytes": "1000"})
        assert re.search(r"topic-\w+-\d+-0: MESSAGE_TOO_LARGE; .*; of 1 records handed over", found[0].message)
        assert found[1] == {0: []}

    @pytest.mark.long
    def test_unknown_partition(self, write: Write) -> None:
        """A row for a partition that the brokers do not have fails the write."""
        found = write([(frame(value=[b"v"]), [4])], partitions=2, **{"delivery.timeout.ms": 2000})
        assert found[0].condition == "DELIVERY_FAILED"
        assert "-4: " in found[0].message
        assert "UNKNOWN_TOPIC_OR_PARTITION" in found[0].message

    @pytest.mark.parametrize("kafka", [{}, {"enable.idempotence": False}], ids=str)
    def test_record_refused_by_the_broker(
        self, zkafka_cluster: LocalCluster, new_topic: NewTopic, kafka: dict[str, Any]
    ) -> None:
        """A compacted topic refuses a record without a key: the write fails, and counts only records that arrived."""
        batches = [(frame(key=[key], value=[b"v"]), [0]) for key in (b"k", None, b"l")]
        servers = zkafka_cluster.bootstrap_servers

        def act(transport: Transport) -> Any:
            topic = new_topic(config={"cleanup.policy": "compact"})
            failed = outcome(lambda _: send(servers, kafka, transport, topic, batches), transport)
            assert acknowledged(failed) == len(arrived(servers, topic)[0])  # how records are batched is left to chance
            return failed

        found = same(act, unnumbered)
        assert found.condition == "DELIVERY_FAILED"
        assert "INVALID_RECORD" in found.message

    def test_missing_topic(self, zkafka_cluster: LocalCluster) -> None:
        """A topic that does not exist fails the write within the time-out."""
        batch = frame(value=[b"v"])
        kafka = {"allow.auto.create.topics": False, "delivery.timeout.ms": 8000, **HASTY}
        servers = zkafka_cluster.bootstrap_servers
        found = same(lambda transport: send(servers, kafka, transport, "no-such-topic", [(batch, [0])]), unnumbered)
        assert "no-such-topic-0: UNKNOWN_TOPIC_OR_PARTITION; " in found.message

    @pytest.mark.long
    def test_deleted_topic(self, zkafka_cluster: LocalCluster) -> None:
        """A missing topic fails the write after delivery.timeout.ms, and the error says that the topic is missing."""
        batch = frame(value=[b"v"])
        kafka = {"allow.auto.create.topics": False, "delivery.timeout.ms": 3000}
        servers = zkafka_cluster.bootstrap_servers
        found = same(lambda transport: send(servers, kafka, transport, "no-such-topic", [(batch, [0])]), unnumbered)
        assert "no-such-topic-0: the brokers did not acknowledge the record within " in found.message
        assert ", and the brokers have no topic no-such-topic; of 1 records" in found.message

    @pytest.mark.long
    def test_no_brokers(self) -> None:
        """Records fail the write after delivery.timeout.ms if no broker is reachable."""
        kafka = {"delivery.timeout.ms": 600, "linger.ms": 0}
        batch = frame(value=[b"v"] * 10)
        found = same(lambda transport: send("127.0.0.1:1", kafka, transport, "t", [(batch, [0] * 10)]), unnumbered)
        assert "t-0: the brokers did not acknowledge the record within " in found.message
        assert "of 10 records handed over by this task 0 were acknowledged and 10 were not" in found.message

    @pytest.mark.parametrize(
        "kafka", [{"no.such": "1"}, {"acks": "many"}, {"enable.idempotence": True, "acks": "1"}], ids=str
    )
    def test_properties(self, kafka: dict[str, Any]) -> None:
        """A property that librdkafka refuses raises an error with librdkafka's message."""
        found = same(lambda transport: send("127.0.0.1:1", kafka, transport, "t", []))
        assert found.message.startswith("making a producer: _INVALID_ARG (")

    def test_error_of_the_caller(
        self, zkafka_cluster: LocalCluster, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An error in the caller closes the producer while rows are still queued, and these never arrive."""
        topics, closed, close = [new_topic(), new_topic()], list[CountingProducer](), CountingProducer.__exit__

        def note(self: CountingProducer, *exc: object) -> None:
            close(self, *exc)
            closed.append(self)

        def act(transport: Transport) -> Any:
            how = connection(zkafka_cluster.bootstrap_servers, transport, {"linger.ms": 60_000})
            rows = next(outgoing(frame(value=[b"v"] * 5000), topics[len(closed)]))
            with open_producer(how, producer_properties(how, zkafka_cluster.bootstrap_servers)) as producer:
                producer.send(rows, np.zeros(5000, dtype=np.int32))
                raise ZKafkaError("STOP", "enough")

        monkeypatch.setattr(CountingProducer, "__exit__", note)
        assert same(act).condition == "STOP"
        assert len(closed) == 2
        assert [arrived(zkafka_cluster.bootstrap_servers, topic)[0] for topic in topics] == [[], []]
