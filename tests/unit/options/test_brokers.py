"""The brokers to begin with, by either of librdkafka's names."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.table import Scope


@pytest.mark.parametrize("scope", ["read", "stream", "write"])
@pytest.mark.parametrize("name", ["kafka.metadata.broker.list", "Kafka.Metadata.Broker.List"])
@pytest.mark.parametrize("others", [{}, {"zookeeper.connect": "zk:2181"}, {"kafka.bootstrap.servers": "k:1"}], ids=str)
def test_brokers_by_their_old_name(others: dict[str, str], name: str, scope: Scope) -> None:
    """metadata.broker.list is another name of kafka.bootstrap.servers, with ZooKeeper and without."""
    connection = parse_connection({name: " k:1 ", **others}, scope)
    assert connection.bootstrap_servers == "k:1"
    assert "bootstrap.servers" not in connection.kafka


def test_brokers_by_two_names() -> None:
    """The two names may not name different brokers."""
    with pytest.raises(OptionError, match=r"broker\.list contradicts kafka\.Bootstrap\.Servers: both set"):
        parse_connection({"kafka.Bootstrap.Servers": "k:1", "kafka.metadata.broker.list": "k:2"})


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "kafka.metadata.broker.list"])
def test_no_brokers(name: str) -> None:
    """A name without brokers is a problem, rather than as if it was not given."""
    with pytest.raises(OptionError, match=rf"{name} is ' '; expected a text that is not empty"):
        parse_connection({name: " ", "zookeeper.connect": "zk:2181"})
