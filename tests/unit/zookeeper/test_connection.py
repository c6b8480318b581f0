"""A client that is not open."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import ZooKeeperError
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.retries import Retry
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection


def test_constructing_a_client_does_nothing() -> None:
    """No connection, no thread: only the block opens it; outside of it each call fails, and no retry repeats it."""
    client = ZooKeeperConnection(ZooKeeperConfig("zk1:2181", "/kafka"))
    client.close()
    retry = Retry(3, 0.5, lambda pause_s: pytest.fail("a programming error was repeated"))
    with pytest.raises(ZooKeeperError, match="use it inside its with block"):
        retry(lambda: client.get_many(["/"]))
