"""``zkafka admin delete-topic`` with a fake ensemble."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import ClusterStateError, OptionError, UnknownTopic
from pyspark_zkafka.tools.admin import delete_topic, remaining_topics, request_deletion, require_deletable
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run, Show


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with three topics."""
    client = EnsembleClient()
    for topic in ("t", "u", "__consumer_offsets"):
        client.put_topic(topic)
    client.put("/admin/delete_topics")
    return client


def test_deletable(client: EnsembleClient) -> None:
    """Topics to delete must exist, and must not be Kafka's own."""
    snapshot = client.snapshot()
    require_deletable(["t", "u"], snapshot)
    with pytest.raises(UnknownTopic, match=r"Topics do not exist: gone, none"):
        require_deletable(["none", "t", "gone"], snapshot)
    with pytest.raises(OptionError, match="__consumer_offsets is an internal topic"):
        require_deletable(["__consumer_offsets"], snapshot)


@pytest.mark.parametrize(("value", "is_refused"), [("true", False), (None, False), ("false", True)])
def test_deletion_that_the_controller_ignores_is_refused(
    client: EnsembleClient, validator: Any, run: Run, value: str | None, is_refused: bool
) -> None:
    """A request is refused only if the controller is known to ignore it."""
    client.put("/controller", b'{"version": 1, "brokerid": 1, "timestamp": "1"}')
    validator.setting = value
    if is_refused:
        with pytest.raises(ClusterStateError, match=r"delete\.topic\.enable is false at broker 1, the controller"):
            run(delete_topic, ["t"], no_wait=True)
    else:
        assert [row["topic"] for row in run(delete_topic, ["t"], no_wait=True)] == ["t"]
    assert client.admin_state().deletions == (() if is_refused else ("t",))


def test_deletion_that_is_not_waited_for(client: EnsembleClient, show: Show) -> None:
    """Without waiting, the command ends with a confirmation of the request."""
    client.put("/controller", b'{"version": 1, "brokerid": 1, "timestamp": "1"}')
    notes = show(delete_topic, ["t"], no_wait=True)[1].splitlines()
    assert notes[-1] == "The deletion was requested. `zkafka admin show` lists it while it is pending."


def test_request(client: EnsembleClient) -> None:
    """A topic is marked for deletion once, and remains while its znode or its mark exists, unless it was created again."""
    client.put("/admin/delete_topics/u")
    before = client.snapshot(["u", "t"])
    request_deletion(client, ["t", "u"])
    assert client.admin_state().deletions == ("t", "u")
    del client.ensemble.nodes["/brokers/topics/t"]
    del client.ensemble.nodes["/admin/delete_topics/u"]
    assert remaining_topics(client, before) == ["u", "t"]
    del client.ensemble.nodes["/admin/delete_topics/t"]
    assert remaining_topics(client, before) == ["u"]
    client.put("/brokers/topics/t", b'{"version": 1, "partitions": {"0": [1]}}')
    assert remaining_topics(client, before) == ["u"]
