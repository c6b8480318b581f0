"""Topics to look up, and bootstrap servers, from the options or from the registered brokers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pytest

from pyspark_zkafka.cluster import bootstrap_servers, of_listener, subscribed_topics
from pyspark_zkafka.errors import ClusterStateError, CodecError
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Endpoint, TopicPartition
from pyspark_zkafka.model.planning import Assign, Listener, Subscribe, SubscribePattern, Subscription
from tests.support.ensemble_client import EnsembleClient
from tests.support.options import broker_connection

SNAPSHOT = ClusterSnapshot(
    {
        n: Broker(n, (Endpoint("IN", "PLAINTEXT", f"k{n}", 9092), Endpoint("OUT", "SSL", f"k{n}.example", 9093)))
        for n in (1, 2)
    }
)


@dataclass
class Source:
    """A cluster of three topics, which counts the requests for their names."""

    requests: int = 0

    def topic_names(self) -> list[str]:
        self.requests += 1
        return ["a", "ab", "b"]

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("subscription", "topics", "requests"),
    [
        (Subscribe(("b", "gone", "b")), ["b", "gone"], 0),
        (Assign((TopicPartition("b", 1), TopicPartition("b", 0))), ["b"], 0),
        (SubscribePattern("a.*"), ["a", "ab"], 1),
        (SubscribePattern("x"), [], 1),
        (SubscribePattern("a.*", excludes=True), ["b"], 1),
    ],
)
def test_topics_to_look_up(subscription: Subscription, topics: list[str], requests: int) -> None:
    """Only the subscription's topics are looked up; the names of all topics are requested only for a pattern."""
    source = Source()
    assert subscribed_topics(subscription, source) == topics
    assert source.requests == requests


def test_malformed_topics() -> None:
    """A malformed topic fails every pattern that could match it, but not reads of other topics."""
    client = EnsembleClient()
    client.put_topic("good")
    client.put("/brokers/topics/bad", b"{")
    for subscription in Subscribe(("good",)), SubscribePattern("go.*"):
        assert list(client.snapshot(subscribed_topics(subscription, client)).topics) == ["good"]
    with pytest.raises(CodecError, match="/brokers/topics/bad"):
        client.snapshot(subscribed_topics(SubscribePattern(".*"), client))


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
