"""Reads of a cluster and of groups, from a fake ensemble and fake brokers, which may be missing or silent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn, cast

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin, GroupState
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, CodecError, GroupError
from pyspark_zkafka.inspect.groups import LogBounds
from pyspark_zkafka.inspect.reads import ClusterReport, read_cluster, read_groups, read_logs
from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.offsets import Position
from pyspark_zkafka.model.znodes.cluster import ControllerInfo
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import MEMBER, GroupBrokers


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
    assert report.snapshot.topics == {}
    assert report.configs is None
    assert report.controller is None


def test_controller_and_administration(client: EnsembleClient) -> None:
    """A report has the controller, its epoch, the cluster's id and pending deletions."""
    report = read_cluster(client, ("controller", "admin"))
    assert report.controller == ControllerInfo(1, "5")
    assert report.controller_epoch == 7
    assert report.cluster_id == "c"
    assert report.admin.deletions == ("b",)
    assert read_cluster(EnsembleClient(), ("controller",)) == ClusterReport()


@pytest.mark.parametrize("topics", [["b"], only_b])
def test_chosen_topics(client: EnsembleClient, topics: list[str]) -> None:
    """Topics are given by name or by a filter of all names, and only their settings are read."""
    report = read_cluster(client, ("topics", "configs"), topics)
    assert list(report.snapshot.topics) == ["b"]
    assert report.configs == {"b": {"retention.ms": "1"}}
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
        assert sorted(report.snapshot.topics) == ["a", "b"]
        assert sorted(report.configs or ()) == ["a", "b"]
        assert sorted(report.unreadable) == malformed[:2]
    assert sorted(read_cluster(client, ("configs",)).unreadable) == ["/config/topics/bad"]
    assert sorted(read_cluster(client, ("topics", "configs"), ["a"]).unreadable) == ["/brokers/ids/2"]
    for part in ("topics", "configs"):
        with pytest.raises(CodecError, match="/topics/bad"):
            read_cluster(client, (part,), ["a", "bad"])


def test_metadata() -> None:
    """Brokers' metadata give neither registrations nor settings, and topics are left out unless requested."""
    report = read_cluster(Metadata(), ("controller",))
    assert report.snapshot.topics == {}
    assert report.registrations is None
    assert report.configs is None
    assert report.controller == ControllerInfo(1)
    assert report.cluster_id == "c"


T0 = TopicPartition("t", 0)


def no_brokers() -> NoReturn:
    """Fail as if no broker were registered."""
    raise ClusterStateError("NO_BROKERS", "No live broker is registered")


def test_logs_without_brokers() -> None:
    """If no partition has a live leader, the bounds of logs are unknown, and no broker is looked up."""
    snapshot = ClusterSnapshot({}, {"t": Topic("t", {0: (1,)})}, {T0: PartitionState(1, 0, (1,), czxid=7)})
    logs = read_logs(no_brokers, snapshot)
    assert logs.bounds == {T0: LogBounds(czxid=7)}
    assert logs.problems == ("No broker leads t-0",)


def outdated(*brokers: int) -> ClusterSnapshot:
    """Return a partition led by broker 1, with only some brokers left in ZooKeeper."""
    states = {T0: PartitionState(1, 0, (1, 2), czxid=7)}
    live = {number: Broker(number, (), None) for number in brokers}
    return ClusterSnapshot(live, {"t": Topic("t", {0: (1, 2)})}, states, kraft_epoch=3)


@pytest.mark.parametrize(
    ("registered", "note"), [((), "All brokers have left ZooKeeper"), ((2,), "some brokers have left")]
)
def test_brokers_that_have_left(registered: tuple[int, ...], note: str) -> None:
    """Brokers that left ZooKeeper for KRaft are found through the others, and still lead their partitions."""
    brokers = cast(GroupAdmin, GroupBrokers({T0: (0, 9)}))
    logs = read_logs(lambda: brokers, outdated(*registered))
    assert logs.bounds[T0].start == 0
    assert logs.bounds[T0].end == 9
    (problem,) = logs.problems
    assert note in problem


def test_all_have_left_unseen() -> None:
    """If all brokers have left ZooKeeper and no address is known, the note says so instead of blaming missing leaders."""
    assert read_logs(no_brokers, outdated()).problems == ("No live broker is registered",)


def test_malformed_topics() -> None:
    """A topic with a malformed znode does not hide a group's other topics, and is listed among the problems of the logs."""
    client = ensemble()
    client.put_topic("t")
    client.put("/brokers/topics/bad", b"?")
    client.put("/consumers/g/offsets/bad/0", b"5")
    found = read_groups(client, lambda: cast(GroupAdmin, GroupBrokers({T0: (0, 9)})))
    assert found.logs.bounds.keys() == {T0}
    assert [text.partition(" cannot")[0] for text in found.logs.problems] == ["Znode /brokers/topics/bad"]


def test_leader_that_does_not_answer() -> None:
    """A silent leader is asked once, all requests share a deadline, and one line lists its partitions."""
    partitions = range(14)
    requests: list[int] = []
    timeouts_s: list[float] = []

    class Silent(GroupBrokers):
        def list_offsets_each(self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0) -> Any:
            requests.append(len(wanted))
            timeouts_s.append(timeout_s)
            return super().list_offsets_each(wanted, timeout_s)

    silent = BrokersUnavailable("BROKERS_UNAVAILABLE", "the leader did not answer")
    brokers = Silent(
        {TopicPartition("t", n): (0, 9) for n in partitions},
        offline={TopicPartition("t", n): silent for n in partitions if n % 2},
    )
    logs = read_logs(lambda: cast(GroupAdmin, brokers), brokers.snapshot(["t"]))
    assert {tp.partition: (found.start, found.end) for tp, found in logs.bounds.items()} == {
        n: (None, None) if n % 2 else (0, 9) for n in partitions
    }
    assert requests == [14, 7]
    assert timeouts_s[1] <= timeouts_s[0] <= 10
    reason = "no answer from the leaders; check that these brokers run and are reachable from here"
    assert logs.problems == (f"No offsets of t-1, t-3, t-5, t-7, t-9 and 2 more: {reason}",)


# --- members and offsets in Kafka ----------------------------------------------------------------------------------------


def ensemble(version: int = 2) -> EnsembleClient:
    """Return an ensemble with the groups g and h, and a broker whose registration has this version."""
    client = EnsembleClient()
    endpoints = '"endpoints":["PLAINTEXT://b:1"],' if version > 1 else ""
    client.put("/brokers/ids/1", b'{"version":%d,%s"host":"b","port":1}' % (version, endpoints.encode()))
    for group in ("g", "h"):
        client.put(f"/consumers/{group}/offsets/t/0", b"5")
    return client


def coordinators() -> GroupAdmin:
    """Return coordinators of the group g with two members, and of h without any."""
    state = GroupState("Stable", {"m1": MEMBER, "m2": MEMBER})
    return cast(GroupAdmin, GroupBrokers({}, {"g": {T0: 7}}, {"g": state}))


def test_members_in_kafka() -> None:
    """Members in Kafka are counted by group, and are unknown unless brokers are asked."""
    found = read_groups(ensemble(), brokers_with_short_timeout=coordinators)
    assert found.member_counts == {"g": (0, 2), "h": (0, 0)}
    assert found.kafka_problem is None
    assert [group.kafka_members for group in read_groups(ensemble()).groups.values()] == [None, None]


def test_unreadable_group() -> None:
    """A group in Kafka that cannot be read does not hide the members of others."""
    odd = GroupState.unreadable(GroupError("UNREADABLE_GROUP", "h is odd"))
    states = {"g": GroupState("Stable", {"m1": MEMBER}), "h": odd}
    brokers = cast(GroupAdmin, GroupBrokers({}, {"g": {T0: 7}}, states))
    found = read_groups(ensemble(), brokers_with_short_timeout=lambda: brokers)
    assert [group.kafka_members for group in found.groups.values()] == [1, None]
    assert "Members in Kafka are unknown: h is odd" in found.member_notes


def test_old_brokers() -> None:
    """Brokers too old to coordinate groups are not asked, and there are no members."""
    found = read_groups(ensemble(version=1), brokers_with_short_timeout=no_brokers)
    assert found.member_counts == {"g": (0, 0), "h": (0, 0)}
    assert found.member_notes == []


def test_unknown_members() -> None:
    """If brokers cannot be asked, a note has the reason."""
    found = read_groups(ensemble(), brokers_with_short_timeout=no_brokers)
    assert found.member_notes == ["Members in Kafka are unknown: No live broker is registered"]


def test_offsets_in_kafka() -> None:
    """Brokers are asked for the groups' offsets only if these are requested."""
    found = read_groups(ensemble(), coordinators, ["g"], storage="both")
    assert [(row.offset, row.zookeeper_offset, row.kafka_offset) for row in found.partitions] == [(7, 5, 7)]
    alone = read_groups(ensemble(), coordinators, ["g"])
    assert [(row.offset, row.kafka_offset) for row in alone.partitions] == [(5, None)]


def test_refused_offsets_in_kafka() -> None:
    """A group whose offsets in Kafka are refused has no current offset, and a note says why."""
    refused = GroupBrokers({}, {"g": {T0: 7}}, unread={"g": GroupError("REFUSED_BY_BROKER", "g may not be read")})
    found = read_groups(ensemble(), lambda: cast(GroupAdmin, refused), ["g"], storage="both")
    assert [(row.offset, row.zookeeper_offset, row.kafka_offset) for row in found.partitions] == [(None, 5, None)]
    assert found.kafka_problem == "g may not be read"
