"""A cluster's state, read from a fake ensemble."""

from __future__ import annotations

import json

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.cluster import AdminState
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with topic t, a topic of Kafka 0.7, and a znode that is not a topic's."""
    client = EnsembleClient()
    client.put_topic("t", partitions=2)
    client.put("/brokers/topics/old/1")
    client.put("/brokers/topics/not a topic", b"{}")
    client.put("/controller", b'{"version": 1, "brokerid": 1, "timestamp": "1"}')
    client.put("/cluster/id", b'{"version": "1", "id": "c"}')
    return client


@pytest.mark.parametrize("named", [False, True])
def test_snapshot(client: EnsembleClient, named: bool) -> None:
    """A snapshot has all topics, or the existing ones of those named, but never topics in the layout of 0.7."""
    found = client.snapshot(["t", "old", "gone", "not a topic"] if named else None)
    assert list(found.topics) == ["t"]
    assert found.topics["t"].czxid == client.czxid("t")
    assert {tp: state.leader for tp, state in found.states.items()} == {T0: 1, T1: 1}
    assert list(found.brokers) == [1]
    assert found.controller == 1
    assert found.cluster_id == "c"


def test_snapshot_of_an_empty_cluster() -> None:
    """A cluster without controller and id has None for both."""
    found = EnsembleClient().snapshot()
    assert found.brokers == {}
    assert found.topics == {}
    assert found.controller is None
    assert found.cluster_id is None


def test_topics(client: EnsembleClient) -> None:
    """Names that are not topics' are neither listed nor looked up."""
    assert client.topic_names() == ["old", "t"]
    assert list(client.topics(["t", "gone", "not a topic"])) == ["t"]
    assert client.czxid("gone") is None
    assert client.czxid("not a topic") is None


def test_partition_without_a_state(client: EnsembleClient) -> None:
    """A partition without a state from the controller is in the topic, but has no state."""
    del client.ensemble.nodes["/brokers/topics/t/partitions/1/state"]
    found = client.snapshot(["t"])
    assert found.partitions("t") == [T0, T1]
    assert list(found.states) == [T0]


def test_topic_configs(client: EnsembleClient) -> None:
    """Configurations are read for all topics or for named ones; a malformed one does not hide the others."""
    client.put("/config/topics/t", b'{"version": 1, "config": {"retention.ms": "1"}}')
    client.put("/config/topics/bad", b"{")
    assert client.topic_configs().readable == {"t": {"retention.ms": "1"}}
    assert list(client.topic_configs().unreadable) == ["bad"]
    assert client.topic_configs(["u"]).readable == {}


def test_admin_state(client: EnsembleClient) -> None:
    """Operations of all kinds are found, even reassignments that only a topic's znode has."""
    assert client.admin_state() == AdminState({}, (), ())
    adding = {"version": 3, "partitions": {"0": [1, 2]}, "adding_replicas": {"0": [2]}, "removing_replicas": {"0": [1]}}
    client.put("/brokers/topics/moving", json.dumps(adding).encode())
    moves = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]}]}
    client.put("/admin/reassign_partitions", json.dumps(moves).encode())
    client.put("/admin/preferred_replica_election", b'{"version": 1, "partitions": [{"topic": "t", "partition": 1}]}')
    client.put("/admin/delete_topics/u")
    assert client.admin_state() == AdminState({TopicPartition("moving", 0): (2,), T0: (2,)}, (T1,), ("u",))


def test_a_malformed_topic(client: EnsembleClient, caplog: pytest.LogCaptureFixture) -> None:
    """A malformed topic fails only reads that name it; a read of all topics logs it."""
    client.put("/brokers/topics/bad", b"{")
    client.put_topic("worse")
    client.put("/brokers/topics/worse/partitions/0/state", b"?")
    malformed = {"/brokers/topics/bad", "/brokers/topics/worse/partitions/0/state"}
    assert list(client.snapshot(["t"]).topics) == list(client.snapshot().topics) == ["t"]
    assert all(path in caplog.text for path in malformed)
    for named in ("bad", "worse"):
        with pytest.raises(CodecError, match=f"/brokers/topics/{named}"):
            client.snapshot(["t", named])
    for topics in (None, ["t", "bad", "worse"]):
        found = client.survey(topics)
        assert list(found.topics) == ["t"]
        assert set(found.states) == {T0, T1}
        assert found.unreadable.keys() == malformed
    assert client.admin_state().unreadable.keys() == {"/brokers/topics/bad"}


def test_a_malformed_broker(client: EnsembleClient) -> None:
    """A malformed registration fails only reads that need the broker: as leader of a named topic, or as the only one."""
    client.put("/brokers/ids/2", b"?")
    found = client.snapshot(["t"])
    assert list(found.brokers) == [1]
    assert list(found.unreadable) == ["/brokers/ids/2"]
    client.put_topic("u")
    state = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2]}
    client.put("/brokers/topics/u/partitions/0/state", json.dumps(state).encode())
    assert list(client.snapshot(["t"]).topics) == ["t"]
    with pytest.raises(CodecError, match="/brokers/ids/2"):
        client.snapshot(["t", "u"])
    client.put("/brokers/ids/1", b"?")
    with pytest.raises(CodecError, match="/brokers/ids/1"):
        client.snapshot([])


def test_group_members(client: EnsembleClient) -> None:
    """An unreadable registration does not hide the others; an unknown group has no members."""
    registration = {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": "1"}
    client.put("/consumers/g/ids/g_a", json.dumps(registration).encode())
    client.put("/consumers/g/ids/g_b", b"?")
    found = client.group_members("g")
    assert list(found.readable) == ["g_a"]
    assert list(found.unreadable) == ["g_b"]
    assert not client.group_members("unknown").readable


def test_owners_and_offsets(client: EnsembleClient) -> None:
    """Owners and offsets are read by partition, without those of Kafka 0.7; a malformed one raises an error."""
    client.put("/consumers/g/owners/t/0", b"g_a-0")
    client.put("/consumers/g/offsets/t/0", b"5")
    client.put("/consumers/g/offsets/t/1-0", b"4096")
    assert client.groups() == ["g"]
    assert client.group_owners("g") == {T0: "g_a-0"}
    assert client.group_offsets("g") == {T0: 5}
    client.put("/consumers/g/offsets/t/1", b"five")
    with pytest.raises(CodecError, match="/consumers/g/offsets/t/1"):
        client.group_offsets("g")
