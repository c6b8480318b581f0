"""Client properties of the connection."""

from __future__ import annotations

from pyspark_zkafka.options.connection_properties import concerns_connection
from tests.support.cases import each


@each(
    ("name", "expected"),
    [
        ("bootstrap.servers", True),
        ("log_level", True),
        ("ssl.ca.pem", True),
        ("socket.keepalive.enable", True),
        ("fetch.min.bytes", False),
        ("message.max.bytes", False),
        ("queue.buffering.max.ms", False),
    ],
)
def test_concerns_connection(name: str, expected: bool) -> None:
    """Sockets, security and logs concern the connection; fetches and queues do not."""
    assert concerns_connection(name) is expected
