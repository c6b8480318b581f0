"""Bootstrap servers, from the options or from the registered brokers."""

from __future__ import annotations

import pytest

from pyspark_zkafka.cluster import bootstrap_servers, of_listener
from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint
from pyspark_zkafka.model.planning import Listener
from tests.support.options import broker_connection

SNAPSHOT = ClusterSnapshot(
    {
        n: Broker(n, (Endpoint("IN", "PLAINTEXT", f"k{n}", 9092), Endpoint("OUT", "SSL", f"k{n}.example", 9093)))
        for n in (1, 2)
    }
)


def servers(listener: Listener, given: str | None = None, snapshot: ClusterSnapshot = SNAPSHOT) -> str:
    """Return the bootstrap servers of a connection through ZooKeeper."""
    return bootstrap_servers(broker_connection(given, listener), snapshot)


def test_servers() -> None:
    """The bootstrap servers are the user's, or else the listener's endpoints of all brokers."""
    assert servers(Listener(), "k:1") == "k:1"
    assert servers(Listener()) == "k1:9092,k2:9092"
    assert servers(Listener("out", "SSL")) == "k1.example:9093,k2.example:9093"


@pytest.mark.parametrize(
    ("listener", "snapshot", "condition"),
    [
        (Listener(), ClusterSnapshot({}), "NO_BROKERS"),
        (Listener(), ClusterSnapshot({}, kraft_epoch=5), "MIGRATED_TO_KRAFT"),
        (Listener(security_protocol="SASL_SSL"), SNAPSHOT, "NO_LISTENER"),
        (Listener("OUT", "PLAINTEXT"), SNAPSHOT, "WRONG_SECURITY_PROTOCOL"),
    ],
)
def test_no_servers(listener: Listener, snapshot: ClusterSnapshot, condition: str) -> None:
    """An error says whether brokers, the listener or its security protocol are missing."""
    with pytest.raises(ClusterStateError) as caught:
        servers(listener, snapshot=snapshot)
    assert caught.value.condition == condition


def test_of_a_listener() -> None:
    """A broker from the metadata gets the name of the requested listener, which metadata lack."""
    broker = Broker(3, (Endpoint("SSL", "SSL", "k3.example", 9093),))
    assert of_listener(broker, Listener()) == broker
    assert Listener("OUT", "SSL").endpoint(of_listener(broker, Listener("OUT", "SSL"))) == Endpoint(
        "OUT", "SSL", "k3.example", 9093
    )
