"""Deletion of topics, on an ensemble of values."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import ClusterStateError, OptionError, UnknownTopic
from pyspark_zkafka.tools.deletion import existing_topics, require_deletable, require_enabled, start
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with three topics."""
    client = EnsembleClient()
    for topic in ("t", "u", "__consumer_offsets"):
        client.put_topic(topic)
    client.put("/admin/delete_topics")
    return client


def test_deletable(client: EnsembleClient) -> None:
    """Topics must exist, and must not be Kafka's own."""
    snapshot = client.snapshot()
    require_deletable(["t", "u"], snapshot)
    with pytest.raises(UnknownTopic, match=r"Topics do not exist: gone, none"):
        require_deletable(["none", "t", "gone"], snapshot)
    with pytest.raises(OptionError, match="__consumer_offsets is an internal topic"):
        require_deletable(["__consumer_offsets"], snapshot)


@pytest.mark.parametrize(("value", "is_refused"), [("true", False), (None, False), ("false", True)])
def test_enabled(value: str | None, is_refused: bool) -> None:
    """Only a controller that is known to drop requests prevents one."""
    if is_refused:
        with pytest.raises(ClusterStateError, match=r"delete\.topic\.enable is false at broker 1, the controller"):
            require_enabled(1, value)
    else:
        require_enabled(1, value)


def test_start(client: EnsembleClient) -> None:
    """A topic is marked for deletion once, and is left as long as its znode or the mark exists."""
    client.put("/admin/delete_topics/u")
    start(client, ["t", "u"])
    assert client.admin_state().deletions == ("t", "u")
    del client.ensemble.nodes["/brokers/topics/t"]
    del client.ensemble.nodes["/admin/delete_topics/u"]
    assert existing_topics(client, ["u", "t"]) == ["u", "t"]
    del client.ensemble.nodes["/admin/delete_topics/t"]
    assert existing_topics(client, ["u", "t"]) == ["u"]
