"""Properties of librdkafka's clients, confluent-kafka's consumer, and librdkafka's logger."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pyspark_zkafka.brokers.clients import MessageClient, client_config, ignore, librdkafka_logger, make_consumer
from pyspark_zkafka.brokers.librdkafka_errors import ErrorReports
from pyspark_zkafka.brokers.properties import CLIENT_DEFAULTS, consumer_properties, lookup_properties
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection


def test_fetch_within_a_response() -> None:
    """A fetch is at least as large as a message, and fits the response that the user allows."""
    large = parse_connection({"kafka.bootstrap.servers": "b:1", "kafka.message.max.bytes": "100000000"})
    assert consumer_properties(large, "b:1", "g")["fetch.max.bytes"] == 100_000_000
    small = parse_connection({"kafka.bootstrap.servers": "b:1", "kafka.receive.message.max.bytes": "60000000"})
    assert consumer_properties(small, "b:1", "g")["fetch.max.bytes"] == 60_000_000 - 512


@pytest.mark.parametrize("response", [1_000, 1_512, 2_000_000, 100_000_000])
def test_lookups(response: int) -> None:
    """The limits of a consumer that fetches nothing fit each other, whatever a producer may receive."""
    found = lookup_properties({"receive.message.max.bytes": str(response), "linger.ms": "5"})
    assert found["message.max.bytes"] <= found["fetch.max.bytes"] <= found["receive.message.max.bytes"] - 512
    assert found["receive.message.max.bytes"] >= response
    assert "linger.ms" not in found


def test_lookups_without_limits() -> None:
    """Without a user's limit, librdkafka's limits apply."""
    assert lookup_properties({"linger.ms": "5"}) == CLIENT_DEFAULTS


def test_rack() -> None:
    """A task resolves the rack in its own environment; the driver's consumers have no rack."""
    connection = parse_connection({"kafka.bootstrap.servers": "b:1", "kafka.client.rack": "${env:ZONE}"})
    assert consumer_properties(connection, "b:1", "g", 1, {"ZONE": "a"})["client.rack"] == "a"
    assert "client.rack" not in consumer_properties(connection, "b:1", "g")
    fixed = parse_connection({"kafka.bootstrap.servers": "b:1", "kafka.client.rack": "a"})
    assert consumer_properties(fixed, "b:1", "g")["client.rack"] == "a"


def test_short_poll_interval() -> None:
    """A short poll interval of a group's member also fits a task's consumer."""
    connection = parse_connection({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.poll.interval.ms": "10000"})
    found = consumer_properties(connection, "127.0.0.1:1", "g")
    make_consumer(found, ErrorReports()).close()
    assert found["session.timeout.ms"] == 10_000


PROPERTIES = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}


def test_logger(caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka's messages are not logged unless the application has set a level."""
    logger = librdkafka_logger()
    assert not logger.isEnabledFor(logging.ERROR)
    caplog.set_level(logging.DEBUG, logger.name)
    assert librdkafka_logger().isEnabledFor(logging.DEBUG)


def test_properties_that_librdkafka_refuses(tmp_path: Path) -> None:
    """Properties that librdkafka refuses raise an option error."""
    authority = tmp_path / "ca.pem"
    authority.write_text("no certificate")
    with (
        pytest.raises(OptionError, match=r"UNUSABLE_KAFKA_PROPERTY.*ssl\.ca\.location failed"),
        MessageClient({**PROPERTIES, "security.protocol": "ssl", "ssl.ca.location": str(authority)}),
    ):
        pass


def test_unreadable_files(tmp_path: Path) -> None:
    """A file that cannot be read is named, unless its name may be a secret. Folders, and the system's, are librdkafka's."""
    for name, shown in (("ssl.ca.location", "/no/such.pem"), ("ssl.key.location", "a file")):
        with pytest.raises(OptionError, match=rf"kafka\.{name} \(ssl.* names {shown}, which .*: No such file") as caught:
            client_config({"security.protocol": "ssl", name: "/no/such.pem"}, ignore)
        assert ("/no/such.pem" in str(caught.value)) is (shown != "a file")
        client_config({name: "/no/such.pem"}, ignore)  # without TLS, no file is read
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (str(tmp_path), str(pipe), "probe"):
        properties = {"security.protocol": "SASL_SSL", "ssl.ca.location": place}
        assert client_config(properties, ignore)["ssl.ca.location"] == place


def test_closed() -> None:
    """A client is usable only inside its with block, and can be opened again."""
    client = MessageClient(PROPERTIES)
    for _ in range(2):
        with client:
            assert client.consumer.assignment() == []
        with pytest.raises(RuntimeError, match="with block"):
            _ = client.consumer
