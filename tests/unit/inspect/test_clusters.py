"""Reports of a cluster from a fake ensemble and from fake brokers' metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.inspect.clusters import ClusterReport, read_cluster
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, Topic
from pyspark_zkafka.model.znodes.topics import ControllerInfo
from tests.support.ensemble_client import EnsembleClient


class Metadata:
    """Brokers that know the topics a and b."""

    def topic_names(self) -> list[str]:
        return ["a", "b"]

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        shown = self.topic_names() if topics is None else topics
        return ClusterSnapshot({1: Broker(1, ())}, {name: Topic(name, {}) for name in shown}, controller=1, cluster_id="c")


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble with the topics a and b, which have settings; b is being deleted."""
    client = EnsembleClient()
    for topic in ("a", "b"):
        client.put_topic(topic)
        client.put(f"/config/topics/{topic}", b'{"version": 1, "config": {"retention.ms": "1"}}')
    client.put("/config/topics/gone", b'{"version": 1, "config": {}}')
    client.put("/controller", b'{"version": 1, "brokerid": 1, "timestamp": "5"}')
    client.put("/controller_epoch", b"7")
    client.put("/cluster/id", b'{"version": "1", "id": "c"}')
    client.put("/admin/delete_topics/b")
    return client


def only_b(names: Iterable[str]) -> list[str]:
    return [name for name in names if name == "b"]


def test_only_what_is_asked_for(client: EnsembleClient) -> None:
    """Parts that are not requested are empty."""
    assert read_cluster(client, ()) == ClusterReport()
    report = read_cluster(client, ("brokers",))
    assert [found.broker.id for found in report.registrations or ()] == [1]
    assert (report.snapshot.topics, report.configs, report.controller) == ({}, None, None)


def test_controller_and_administration(client: EnsembleClient) -> None:
    """A report has the controller, its epoch, the cluster's id and pending deletions."""
    report = read_cluster(client, ("controller", "admin"))
    assert (report.controller, report.controller_epoch, report.cluster_id) == (ControllerInfo(1, "5"), 7, "c")
    assert report.admin.deletions == ("b",)
    assert read_cluster(EnsembleClient(), ("controller",)) == ClusterReport()


@pytest.mark.parametrize("topics", [["b"], only_b])
def test_chosen_topics(client: EnsembleClient, topics: list[str]) -> None:
    """Topics are given by name or by a filter of all names, and only their settings are read."""
    report = read_cluster(client, ("topics", "configs"), topics)
    assert (list(report.snapshot.topics), report.configs) == (["b"], {"b": {"retention.ms": "1"}})
    assert read_cluster(client, ("configs",), topics).configs == {"b": {"retention.ms": "1"}}
    assert list(read_cluster(Metadata(), ("topics", "configs"), topics).snapshot.topics) == ["b"]


def test_all_topics(client: EnsembleClient) -> None:
    """By default, all topics are read; settings of deleted topics are read only if topics are not."""
    assert sorted(read_cluster(client, ("topics", "configs")).configs or ()) == ["a", "b"]
    assert sorted(read_cluster(client, ("configs",)).configs or ()) == ["a", "b", "gone"]


def test_malformed_znodes(client: EnsembleClient) -> None:
    """Reports of all or filtered topics list malformed znodes, and a report of topics given by name fails for theirs."""
    malformed = ["/brokers/ids/2", "/brokers/topics/bad", "/config/topics/bad"]
    for path in malformed:
        client.put(path, b"{")
    for topics in (None, sorted):
        report = read_cluster(client, ("brokers", "topics", "configs", "admin"), topics)
        assert [found.broker.id for found in report.registrations or ()] == [1]
        assert (sorted(report.snapshot.topics), sorted(report.configs or ())) == (["a", "b"], ["a", "b"])
        assert sorted(report.unreadable) == malformed[:2] if topics is None else malformed
    assert sorted(read_cluster(client, ("configs",)).unreadable) == ["/config/topics/bad"]
    assert sorted(read_cluster(client, ("topics", "configs"), ["a"]).unreadable) == ["/brokers/ids/2"]
    for part in ("topics", "configs"):
        with pytest.raises(CodecError, match="/topics/bad"):
            read_cluster(client, (part,), ["a", "bad"])


def test_metadata() -> None:
    """Brokers' metadata give neither registrations nor settings, and topics are left out unless requested."""
    report = read_cluster(Metadata(), ("controller",))
    assert (report.snapshot.topics, report.registrations, report.configs) == ({}, None, None)
    assert (report.controller, report.cluster_id) == (ControllerInfo(1), "c")
