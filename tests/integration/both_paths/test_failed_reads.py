"""Errors and logs of reads by both transports."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Split
from pyspark_zkafka.options.values import Transport
from pyspark_zkafka.read.split_reader import ReadPolicy
from pyspark_zkafka.records.select import open_consumer
from pyspark_zkafka.retries import Deadline
from tests.support.both_paths import HASTY, connection, same
from tests.support.both_paths_reads import VALUE, Range, Read

TopicOf = Callable[..., str]

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


class TestFailedReads:
    """Reads that fail, and their errors."""

    def test_offset_out_of_range(self, read: Read, zkafka_cluster: LocalCluster, topic_of: TopicOf) -> None:
        """Deleted records fail the read, or are skipped with `fail_on_data_loss=False`."""
        topic = topic_of([{"value": b"%d" % n} for n in range(100)])
        zkafka_cluster.delete_records(topic, {0: 40})
        found = read(topic, 100, shown=lambda text: text, columns=VALUE)
        assert found.condition == "DATA_LOSS"
        assert f"{topic}-0: records [0, 40) of the range [0, 100) are gone; the log now begins at 40" in found.message
        lenient = ReadPolicy(fail_on_data_loss=False, poll_timeout_ms=20_000)
        assert read(topic, 100, columns=VALUE, policy=lenient).column("offset").to_pylist() == list(range(40, 100))

    def test_log_that_ends_too_early(self, read: Read, topic_of: TopicOf) -> None:
        """A log that stays shorter than the range is reported as data loss."""
        topic = topic_of([{"value": b"v"}] * 10)
        for start, cause in ((3, "the log ends at 10, and has not grown for 2000 ms"), (15, "the log now ends at 10")):
            found = read(topic, 20, start=start, shown=lambda text: text, policy=ReadPolicy(poll_timeout_ms=2000))
            assert found.condition == "DATA_LOSS"
            assert cause in found.message

    def test_unknown_topic(self, read: Read) -> None:
        """A topic that the brokers do not know is reported as replaced if the cluster says that it was deleted."""
        found = read("no-such-topic", 10, columns=VALUE, identity="deleted", kafka=HASTY)
        assert found.condition == "TOPIC_REPLACED"

    @pytest.mark.long
    def test_topic_that_only_the_brokers_do_not_know(self, read: Read) -> None:
        """A topic unknown only to brokers is retried until the time-out, and the error quotes the brokers' last error."""
        impatient = ReadPolicy(poll_timeout_ms=1500)

        def brokers_word(found: Any) -> str:
            return re.search(r"last error: \w+", found.message)[0]

        found = read("no-such-topic", 10, shown=brokers_word, columns=VALUE, policy=impatient, kafka=HASTY)
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert brokers_word(found) == "last error: UNKNOWN_TOPIC_OR_PARTITION"

    @pytest.mark.long
    def test_no_brokers(self, read: Read) -> None:
        """Unreachable brokers raise an error that states how long the read waited."""
        impatient = ReadPolicy(poll_timeout_ms=700)
        found = read("t", 10, columns=VALUE, policy=impatient, servers="127.0.0.1:1")
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert "t-0: no records from the brokers for 700 ms at offset 0" in found.message
        assert "last error: " in found.message

    def test_no_brokers_for_the_ends_of_a_log(self, zkafka_cluster: LocalCluster) -> None:
        """Asking unreachable brokers for the ends of a log raises an error that quotes the client's error."""

        def ends(transport: Transport) -> Any:
            how = connection("127.0.0.1:1", transport, {})
            split = Split(TopicPartition("t", 0), 0, 1, 0, 0, (0,), ("127.0.0.1:1",))
            with open_consumer(how, consumer_properties(how, "127.0.0.1:1", "g"), split, VALUE) as consumer:
                return consumer.watermarks(Deadline.after(0.3))

        found = same(ends, lambda found: (found.kind, found.condition, found.message.partition("its log: ")[0]))
        assert found.condition == "BROKERS_UNAVAILABLE"
        assert "asking the leader of t-0 for the ends of its log: " in found.message

    @pytest.mark.parametrize(
        ("kafka", "expected"),
        [
            ({"no.such.property": "1"}, 'No such configuration property: "no.such.property"'),
            ({"fetch.error.backoff.ms": "soon"}, 'Invalid value for configuration property "fetch.error.backoff.ms"'),
            ({"fetch.min.bytes": "-5"}, 'Configuration property "fetch.min.bytes" value -5 is outside allowed range'),
            ({"security.protocol": "ssl", "ssl.ca.location": __file__}, "Failed to create consumer: "),
            ({"partition.assignment.strategy": "none"}, "Failed to create consumer: "),
        ],
    )
    def test_properties(self, read: Read, kafka: dict[str, str], expected: str) -> None:
        """A property that librdkafka refuses raises an error with librdkafka's message."""
        found = read("t", 10, shown=lambda text: text, columns=VALUE, kafka=kafka)
        assert found.message.startswith("making a consumer: _INVALID_ARG (")
        assert expected in found.message

    def test_log_of_librdkafka(self, read: Read, topic_of: TopicOf, caplog: pytest.LogCaptureFixture) -> None:
        """librdkafka's log lines reach its Python logger under the client's name."""
        wanted = Range(topic_of([{"value": b"v"}]), 1, columns=VALUE)
        with caplog.at_level(logging.DEBUG, "pyspark_zkafka.librdkafka"):
            read.batches(wanted, "librdkafka", {"debug": "fetch,topic", "client.id": "me"})
        lines = [r.getMessage() for r in caplog.records if r.name == "pyspark_zkafka.librdkafka"]
        assert any(re.match(r"FETCH \[me#consumer-\d+\] \[thrd:", line) for line in lines)
        assert {r.levelno for r in caplog.records} <= {logging.DEBUG, logging.INFO, logging.WARNING}
