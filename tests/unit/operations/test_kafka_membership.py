"""Members in Kafka beside those in ZooKeeper, and brokers that do not tell."""

from __future__ import annotations

from typing import NoReturn, cast

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.kafka.group_admin import GroupAdmin, GroupState
from pyspark_zkafka.operations.kafka_membership import KafkaMembership, read_kafka_membership
from tests.support.ensemble_client import EnsembleClient


class FakeBrokers:
    """Coordinators of a group with two members, and of one without."""

    def group_states(self, groups: list[str]) -> dict[str, GroupState]:
        return {name: GroupState("STABLE", ("m1", "m2")) if name == "g" else GroupState("DEAD") for name in groups}


def no_brokers() -> NoReturn:
    raise ClusterStateError("NO_BROKERS", "No live broker is registered")


def ensemble(version: int = 2) -> EnsembleClient:
    """An ensemble with a broker whose registration has this version."""
    client = EnsembleClient()
    endpoints = '"endpoints":["PLAINTEXT://b:1"],' if version > 1 else ""
    client.put("/brokers/ids/1", b'{"version":%d,%s"host":"b","port":1}' % (version, endpoints.encode()))
    return client


def test_counts() -> None:
    """Members are counted by group."""
    found = read_kafka_membership(ensemble(), lambda: cast(GroupAdmin, FakeBrokers()), ["g", "h"])
    assert found == KafkaMembership({"g": 2, "h": 0})


def test_old_brokers() -> None:
    """Brokers that coordinate no groups are not asked, and there are no members."""
    assert read_kafka_membership(ensemble(version=1), no_brokers, ["g"]) == KafkaMembership()


def test_unknown() -> None:
    """Where brokers cannot be asked, the reason is noted."""
    found = read_kafka_membership(ensemble(), no_brokers, ["g"])
    assert list(found.notes({"g": 1})) == ["Members in Kafka are unknown: No live broker is registered"]


def test_notes() -> None:
    """Members of both kinds, and those in Kafka alone, are noted in a line each; there is none for groups without these."""
    both, alone = KafkaMembership({"a": 1, "b": 2, "c": 0, "d": 3}).notes({"a": 3, "b": 0, "c": 1})
    assert both.startswith("Members in ZooKeeper and in Kafka at the same time: a (3 and 1); neither kind sees the other")
    assert alone.startswith("Members in Kafka, which ZooKeeper does not show: b (2), d (3); see kafka-consumer-groups")
    assert list(KafkaMembership({"c": 0}).notes({"c": 1})) == []
