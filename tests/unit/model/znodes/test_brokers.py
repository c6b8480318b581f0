"""Brokers' registrations of every version."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import Broker, Endpoint
from pyspark_zkafka.model.znodes import brokers
from tests.support.cases import each

BROKERS = [
    (b"creator-1:kafka1:9092", 0),  # 0.7, as it was
    (b"kafka1:9092", 0),  # 0.7, as documented
    (b'{"jmx_port":-1,"timestamp":"1","host":"kafka1","version":1,"port":9092}', 1),
    (
        b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://kafka1:9092"],"host":"kafka1","version":2,"port":9092}',
        2,
    ),
    (
        b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://kafka1:9092"],"host":"kafka1","version":3,"port":9092}',
        3,
    ),
    (
        b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://kafka1:9092"],'
        b'"jmx_port":-1,"host":"kafka1","timestamp":"1","port":9092,"version":4}',
        4,
    ),
    (
        b'{"features":{"f":{"min_version":1,"max_version":2}},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://kafka1:9092"],"jmx_port":-1,"port":9092,"host":"kafka1","version":5,"timestamp":"1"}',
        5,
    ),
]


@pytest.mark.parametrize(("data", "version"), BROKERS)
def test_versions(data: bytes, version: int) -> None:
    """All versions of a registration are decoded to the same broker."""
    found = brokers.decode_broker("/brokers/ids/7", data)
    assert found.broker == Broker(7, (Endpoint("PLAINTEXT", "PLAINTEXT", "kafka1", 9092),))
    assert (found.version, found.host, found.port) == (version, "kafka1", 9092)


def test_broker_without_plaintext_listener() -> None:
    """Without PLAINTEXT, host is null and port -1; listeners may have IPv6 addresses and empty hosts; a rack is decoded."""
    data = (
        b'{"listener_security_protocol_map":{"IN":"SSL","OUT":"SASL_SSL"},"endpoints":["IN://[::1]:9093","OUT://:9094"],'
        b'"rack":"r1","jmx_port":9999,"host":null,"timestamp":"1","port":-1,"version":4}'
    )
    found = brokers.decode_broker("/brokers/ids/7", data)
    assert (found.host, found.port, found.timestamp) == (None, -1, "1")
    assert found.broker == Broker(7, (Endpoint("IN", "SSL", "::1", 9093), Endpoint("OUT", "SASL_SSL", "", 9094)), "r1")


def test_listener_without_entry_in_the_map() -> None:
    """A listener that is not in the map has its name as protocol, and a newer version may have more keys."""
    found = brokers.decode_broker(
        "/brokers/ids/7",
        b'{"version":9,"host":"h","port":1,"endpoints":["SSL://h:2"],"listener_security_protocol_map":{},"x":1}',
    )
    assert found.broker.endpoints == (Endpoint("SSL", "SSL", "h", 2),)


BAD_BROKERS = [
    None,
    b"",
    b"\xff\xfe",
    b"kafka1",
    b"kafka1:port",
    b"kafka1:99999",
    b"[]",
    b"7",
    b'{"host":"h","port":1}',
    b'{"version":0,"host":"h","port":1}',
    b'{"version":true,"host":"h","port":1}',
    b'{"version":1,"host":null,"port":-1}',
    b'{"version":1,"host":"h","port":"9092"}',
    b'{"version":1,"host":"h","port":9092.0}',
    b'{"version":1,"host":"h","port":70000}',
    b'{"version":2,"host":"h","port":1}',
    b'{"version":2,"host":"h","port":1,"endpoints":"PLAINTEXT://h:1"}',
    b'{"version":2,"host":"h","port":1,"endpoints":[1]}',
    b'{"version":2,"host":"h","port":1,"endpoints":["h:1"]}',
    b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://::1:1"]}',
    b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://h:99999"]}',
    b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}',
    b'{"version":4,"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{"A":1}}',
    b'{"version":4,"host":"h","port":1,"endpoints":[],"listener_security_protocol_map":{},"rack":7}',
    b'{"version":5,"host":"h","port":NaN}',
    b'{"version":1,"host":"\\ud800","port":1}',
]


@each("data", BAD_BROKERS)
def test_malformed_brokers(data: bytes | None) -> None:
    """Wrong JSON, wrong types and missing keys are errors that name the znode."""
    with pytest.raises(CodecError, match="Znode /brokers/ids/7 cannot be read"):
        brokers.decode_broker("/brokers/ids/7", data)


def test_znode_whose_name_is_not_a_number() -> None:
    """The broker's id is the znode's name, which must be a number."""
    with pytest.raises(CodecError, match="/brokers/ids/seven"):
        brokers.decode_broker("/brokers/ids/seven", b"kafka1:9092")
