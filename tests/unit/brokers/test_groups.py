"""Groups of scripted coordinators: states, offsets and deletion, each group by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError, ZKafkaError
from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing.processes import LOOPBACK
from pyspark_zkafka.wire.group_messages import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from pyspark_zkafka.wire.metadata_messages import METADATA
from pyspark_zkafka.wire.protocol import NO_TAGS, Address, Api, Reader, array, int16, int32, string
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_groups import (
    SILENT,
    Answers,
    api_ranges,
    classic_groups,
    coordinators,
    deleted_groups,
    listed_groups,
    metadata,
    names_in,
    new_groups,
    offsets_of_group,
    offsets_of_groups,
)

Handler = Callable[[Reader], "bytes | None"]
Described = tuple[int, str, str, Mapping[str, bytes]]

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ASSIGNED = int16(0) + array([string("t") + array([int32(0)])]) + int32(0)
ODD = b'{"tasks": [1]}'
DENIED, MOVED, MISSING = (
    int(ErrorCode.GROUP_AUTHORIZATION_FAILED),
    int(ErrorCode.NOT_COORDINATOR),
    int(ErrorCode.GROUP_ID_NOT_FOUND),
)
OFFSETS_TOPIC = "__consumer_offsets"
LIMIT_S = 20.0
KAFKA_4 = {
    CONSUMER_GROUP_DESCRIBE: 0,
    DESCRIBE_GROUPS: 0,
    OFFSET_FETCH: 8,
    LIST_GROUPS: 0,
    DELETE_GROUPS: 0,
    OFFSET_COMMIT: 1,
    OFFSET_DELETE: 0,
}


class Cluster:
    """Two brokers. The first one answers all clients, and coordinates all groups except `elsewhere`, by handlers by API."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self.topics: dict[str, int] = {OFFSETS_TOPIC: 0}
        self.elsewhere: dict[str, Address | int] = {}

    def open(self, handlers: Mapping[Api, Handler], others: Handler = lambda request: None, **versions: int) -> GroupAdmin:
        """Open the brokers and a client. `versions` are the newest ones that differ from `KAFKA_4`, -1 for none."""
        newest = {**KAFKA_4, **{api: versions[api.name] for api in KAFKA_4 if api.name in versions}}
        ranges = api_ranges((METADATA, 1), (FIND_COORDINATOR, 4), *[(a, v) for a, v in newest.items() if v >= 0])
        self.first = self._opened.enter_context(
            ScriptedBroker(Answers({METADATA: self._metadata, FIND_COORDINATOR: self._find, **handlers}), ranges)
        )
        self.second = self._opened.enter_context(ScriptedBroker(Answers(dict.fromkeys(KAFKA_4, others)), ranges))
        return self.admin(self.first.address)

    def admin(self, address: Address, timeout_s: float = LIMIT_S) -> GroupAdmin:
        """Open a client."""
        properties = {"socket.timeout.ms": int(timeout_s * 1000)}
        return self._opened.enter_context(GroupAdmin("{}:{}".format(*address), properties))

    def asked(self, api: Api) -> int:
        """Return how many requests of an API the first broker has."""
        return sum(request.api == api.key for request in self.first.received)

    def _metadata(self, request: Reader) -> bytes:
        wanted = names_in(request) or self.topics  # without names, all topics
        brokers = {1: self.first.address, 2: self.second.address}
        return metadata(brokers, {name: self.topics.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in wanted})

    def _find(self, request: Reader) -> bytes:
        request.int8()  # the kind
        return coordinators({group: self.elsewhere.get(group, self.first.address) for group in names_in(request)})


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers that are not open yet."""
    with ExitStack() as opened:
        yield Cluster(opened)


def classic(groups: Mapping[str, Described]) -> Handler:
    """Describe these groups of the classic protocol. Others do not exist."""
    return lambda request: classic_groups({name: groups.get(name, (0, "Dead", "", {})) for name in names_in(request)})


def of_new_protocol(states: Mapping[str, tuple[int, str]]) -> Handler:
    """Describe these groups of the protocol of KIP-848 by error and state, with a member each."""
    return lambda request: new_groups({name: (*states.get(name, (MISSING, "")), ["m"]) for name in names_in(request)})


NOT_NEW = of_new_protocol({})
CONSUMERS: Described = (0, "Stable", "consumer", {"m": ASSIGNED})


class TestStates:
    """States and members."""

    def test_protocols(self, cluster: Cluster) -> None:
        """A group that ConsumerGroupDescribe does not find is described by DescribeGroups; the others are not."""
        states = {"new": (0, "Assigning"), "empty": (0, "Empty")}
        asked: list[str] = []

        def describe(request: Reader) -> bytes:
            asked.extend(names_in(request))
            return classic_groups({"old": CONSUMERS, "none": (0, "Dead", "", {})})

        admin = cluster.open({CONSUMER_GROUP_DESCRIBE: of_new_protocol(states), DESCRIBE_GROUPS: describe})
        found = admin.group_states(["new", "old", "none", "empty"])
        assert {name: state.name for name, state in found.items()} == {
            "new": "Assigning",
            "old": "Stable",
            "none": "Dead",
            "empty": "Empty",
        }
        assert sorted(asked) == ["none", "old"]
        assert list(found["new"].members) == ["m"]
        member = found["old"].members["m"]
        assert member.client_id == "client"
        assert member.host == "/10.0.0.1"
        assert member.assigned == frozenset({T0})

    def test_before_kafka_4(self, cluster: Cluster) -> None:
        """A broker without ConsumerGroupDescribe is asked by DescribeGroups."""
        admin = cluster.open({DESCRIBE_GROUPS: classic({"g": CONSUMERS})}, ConsumerGroupDescribe=-1)
        assert admin.group_state("g").name == "Stable"

    def test_protocol_that_is_switched_off(self, cluster: Cluster) -> None:
        """A broker that knows ConsumerGroupDescribe, with the protocol switched off, is asked by DescribeGroups."""
        states = {"g": (int(ErrorCode.UNSUPPORTED_VERSION), "")}
        handlers = {CONSUMER_GROUP_DESCRIBE: of_new_protocol(states), DESCRIBE_GROUPS: classic({"g": CONSUMERS})}
        assert cluster.open(handlers).group_state("g").name == "Stable"

    def test_unknown_to_both(self, cluster: Cluster) -> None:
        """A group that neither request finds is dead, as DescribeGroups of Kafka 4 has an error for it."""
        handlers = {CONSUMER_GROUP_DESCRIBE: NOT_NEW, DESCRIBE_GROUPS: classic({"g": (MISSING, "", "", {})})}
        state = cluster.open(handlers).group_state("g")
        assert state.name == "Dead"
        assert state.member_count == 0
        assert not state.is_active

    def test_groups_of_other_types(self, cluster: Cluster) -> None:
        """A group of Kafka Streams or a share group exists, but cannot be described."""

        def describe(request: Reader) -> bytes:
            names = [request.required_string() for _ in range(request.count())]
            rows = [
                int16(MISSING)
                + string(f"Group {name} is not a classic group.", flexible=True)
                + string(name, flexible=True)
                + 3 * string("", flexible=True)
                + array([], flexible=True)
                + int32(0)
                + NO_TAGS
                for name in names
            ]
            return int32(0) + array(rows, flexible=True) + NO_TAGS

        admin = cluster.open({CONSUMER_GROUP_DESCRIBE: NOT_NEW, DESCRIBE_GROUPS: describe}, DescribeGroups=6)
        state = admin.group_states(["g"])["g"]
        assert state.name == "Unreadable"
        assert state.problem is not None
        assert state.problem.condition == "UNREADABLE_GROUP"

    @pytest.mark.parametrize("name", ["\udcff", "g" * 2**15])
    def test_names_that_no_request_can_have(self, cluster: Cluster, name: str) -> None:
        """A name that is too long, or not UTF-8, does not hide other groups."""
        admin = cluster.open({CONSUMER_GROUP_DESCRIBE: NOT_NEW, DESCRIBE_GROUPS: classic({"g": CONSUMERS})})
        found = admin.group_states([name, "g"])
        assert found["g"].name == "Stable"
        assert "INVALID_GROUP_ID" in str(found[name].problem)

    def test_unreadable_groups(self, cluster: Cluster) -> None:
        """A group that is refused, lost or not of consumers has a problem of its own. Others are described."""
        groups: dict[str, Described] = {
            "good": CONSUMERS,
            "odd": (0, "Stable", "consumer", {"m": ODD}),
            "connect": (0, "Stable", "connect", {"m": ODD}),
            "starting": (0, "PreparingRebalance", "connect", {}),
            "denied": (DENIED, "", "", {}),
        }
        cluster.elsewhere = {"lost": (LOOPBACK, 1), "hidden": DENIED}
        cluster.open({CONSUMER_GROUP_DESCRIBE: NOT_NEW, DESCRIBE_GROUPS: classic(groups)})
        found = cluster.admin(cluster.first.address, timeout_s=1).group_states([*groups, "lost", "hidden"])
        assert found["good"].name == "Stable"
        assert found["good"].member_count == 1
        problems = {name: state.problem for name, state in found.items() if name != "good"}
        assert {name: None if problem is None else problem.condition for name, problem in problems.items()} == {
            "odd": "UNREADABLE_GROUP",
            "connect": "UNREADABLE_GROUP",
            "starting": "UNREADABLE_GROUP",
            "denied": "REFUSED_BY_BROKER",
            "hidden": "REFUSED_BY_BROKER",
            "lost": "BROKERS_UNAVAILABLE",
        }
        for name, problem in problems.items():
            assert name in str(problem)
            assert found[name].name == "Unreadable"
            assert found[name].member_count is None

    def test_problem_of_one_group(self, cluster: Cluster) -> None:
        """The problem of a group is raised if only this group was requested."""
        handlers = {CONSUMER_GROUP_DESCRIBE: NOT_NEW, DESCRIBE_GROUPS: classic({"g": (DENIED, "", "", {})})}
        with pytest.raises(ClusterStateError, match="describing group g: GROUP_AUTHORIZATION_FAILED"):
            cluster.open(handlers).group_state("g")

    def test_silent_listener(self, cluster: Cluster) -> None:
        """Each group has the problem that no broker answers, within the time-out."""
        cluster.open({METADATA: lambda request: SILENT, FIND_COORDINATOR: lambda request: SILENT})
        admin = cluster.admin(cluster.first.address, timeout_s=0.5)
        admin._has_offsets_topic = True
        began = time.monotonic()
        found = admin.group_states(["g", "h"])
        assert time.monotonic() - began < 4
        assert {type(state.problem) for state in found.values()} == {BrokersUnavailable}
        assert list(found) == ["g", "h"]

    def test_silent_coordinator(self, cluster: Cluster) -> None:
        """A coordinator that does not answer is the problem of its groups alone, within the time-out."""
        handlers = {CONSUMER_GROUP_DESCRIBE: NOT_NEW, DESCRIBE_GROUPS: classic({"g": CONSUMERS})}
        cluster.open(handlers, others=lambda request: SILENT)
        cluster.elsewhere = {"h": cluster.second.address}
        admin = cluster.admin(cluster.first.address, timeout_s=0.5)
        began = time.monotonic()
        found = admin.group_states(["g", "h"])
        assert time.monotonic() - began < 4
        assert found["g"].name == "Stable"
        assert isinstance(found["h"].problem, BrokersUnavailable)
        assert "describing group h" in found["h"].problem.message


class TestOffsetsTopic:
    """Clusters in which ``__consumer_offsets`` is missing or hidden."""

    @pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
    def test_reads(self, cluster: Cluster, error: ErrorCode) -> None:
        """Without the topic, no coordinator is asked: the request would create it. A topic that an ACL hides exists."""
        cluster.topics[OFFSETS_TOPIC] = error
        is_hidden = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        states = {"g": (0, "Stable")}
        handlers: dict[Api, Handler] = {
            CONSUMER_GROUP_DESCRIBE: of_new_protocol(states),
            OFFSET_FETCH: lambda request: offsets_of_groups({name: (0, {0: 5}) for name in ("g",)}),
            DELETE_GROUPS: lambda request: deleted_groups(dict.fromkeys(names_in(request), 0)),
        }
        admin = cluster.open(handlers)
        assert admin.group_state("g").name == ("Stable" if is_hidden else "Dead")
        assert admin.committed("g") == ({T0: 5} if is_hidden else {})
        admin.delete_groups(["g"])
        assert (cluster.asked(FIND_COORDINATOR) > 0) == is_hidden
        assert (cluster.asked(DELETE_GROUPS) > 0) == is_hidden

    def test_no_groups(self, cluster: Cluster) -> None:
        """Without names, no broker is asked."""
        admin = cluster.open({})
        assert admin.group_states([]) == {}
        assert admin.committed_many([]) == {}
        assert admin.committed_each([]) == ({}, {})
        assert cluster.asked(FIND_COORDINATOR) == 0


class TestOffsets:
    """Committed offsets, and commits."""

    def test_many_groups(self, cluster: Cluster) -> None:
        """One request reads several groups. Partitions without an offset are left out."""
        answer = offsets_of_groups({"g": (0, {0: 5, 1: -1}), "h": (0, {1: 7}), "i": (0, {})})
        admin = cluster.open({OFFSET_FETCH: lambda request: answer})
        assert admin.committed_many(["g", "h", "i"]) == {"g": {T0: 5}, "h": {T1: 7}, "i": {}}
        assert cluster.asked(OFFSET_FETCH) == 1

    def test_old_brokers(self, cluster: Cluster) -> None:
        """Before Kafka 3.0, each group has a request of its own."""
        offsets = {"g": {0: 5}, "h": {1: 7}}
        requested: list[str] = []

        def fetch(request: Reader) -> bytes:
            requested.append(request.required_string())
            return offsets_of_group(offsets[requested[-1]])

        admin = cluster.open({OFFSET_FETCH: fetch}, OffsetFetch=2)
        assert admin.committed_many(["g", "h"]) == {"g": {T0: 5}, "h": {T1: 7}}
        assert sorted(requested) == ["g", "h"]

    def test_partitions_by_name(self, cluster: Cluster) -> None:
        """Before version 2, OffsetFetch has no request for all offsets: it names the partitions of all topics."""
        cluster.topics["t"] = 0

        def fetch(request: Reader) -> bytes:
            return offsets_of_group({0: 5 if request.required_string() == "g" else -1})

        admin = cluster.open({OFFSET_FETCH: fetch}, OffsetFetch=1)
        assert admin.committed_many(["g", "h"]) == {"g": {T0: 5}, "h": {}}

    @pytest.mark.parametrize("api", [LIST_GROUPS, DESCRIBE_GROUPS])
    def test_before_kafka_0_9(self, cluster: Cluster, api: Api) -> None:
        """Brokers that coordinate no groups are named as the reason."""
        admin = cluster.open({}, **{api.name: -1, CONSUMER_GROUP_DESCRIBE.name: -1})
        with pytest.raises(ZKafkaError, match=r"groups from Kafka 0\.9 on; the broker is too old for this"):
            _ = admin.group_names() if api is LIST_GROUPS else admin.group_state("g")

    @pytest.mark.parametrize("newest", [2, 8])
    def test_groups_by_themselves(self, cluster: Cluster, newest: int) -> None:
        """A group that is refused or lost has an error of its own. Others are read."""
        codes = {"good": 0, "denied": DENIED}

        def fetch(request: Reader) -> bytes:
            if request.version == 2:
                return offsets_of_group({0: 5}, codes[request.required_string()])
            return offsets_of_groups({name: (code, {} if code else {0: 5}) for name, code in codes.items()})

        cluster.open({OFFSET_FETCH: fetch}, OffsetFetch=newest)
        cluster.elsewhere = {"lost": (LOOPBACK, 1)}
        admin = cluster.admin(cluster.first.address, timeout_s=0.5)
        found, failed = admin.committed_each(["good", "denied", "lost"])
        assert found == {"good": {T0: 5}}
        assert {name: error.condition for name, error in failed.items()} == {
            "denied": "REFUSED_BY_BROKER",
            "lost": "BROKERS_UNAVAILABLE",
        }
        with pytest.raises(ClusterStateError, match="reading the offsets of group denied"):
            admin.committed("denied")

    def test_partition_that_a_response_lacks(self, cluster: Cluster) -> None:
        """A commit or a deletion of an offset that the response does not mention is no success."""
        nothing: Handler = lambda request: array([])  # noqa: E731
        admin = cluster.open({OFFSET_COMMIT: nothing, OFFSET_DELETE: lambda request: int16(0) + int32(0) + array([])})
        for change in (lambda: admin.alter_offsets("g", {T0: 5}), lambda: admin.delete_offsets("g", [T0])):
            with pytest.raises(ZKafkaError, match="the response lacks t-0"):
                change()

    @pytest.mark.parametrize("newest", [2, 8])
    def test_metadata(self, cluster: Cluster, newest: int) -> None:
        """Metadata of some partitions of many groups. The zero byte at the end of confluent-kafka's is none of it."""

        def fetch(request: Reader) -> bytes:
            if request.version == 2:
                return offsets_of_group({0: 5}, metadata=f"of {request.required_string()}\0")
            return offsets_of_groups({name: (0, {0: 5, 1: -1}) for name in "gh"}, metadata="of all\0")

        admin = cluster.open({OFFSET_FETCH: fetch}, OffsetFetch=newest)
        expected = {"g": {T0: "of g"}, "h": {T0: "of h"}} if newest == 2 else {name: {T0: "of all"} for name in "gh"}
        assert admin.committed_metadata({"g": [T0], "h": [T0]}) == expected

    def test_open_transaction(self, cluster: Cluster) -> None:
        """A stable read waits for the ends of transactions. A transaction that stays open is a problem of its group."""
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        left = [{"g": (0, {0: 5}), "h": (0, {0: unstable})}, {"h": (0, {0: 7})}]
        admin = cluster.open({OFFSET_FETCH: lambda request: offsets_of_groups(left.pop(0))})
        assert admin.committed_metadata({"g": [T0], "h": [T0]}, stable=True) == {"g": {T0: ""}, "h": {T0: ""}}
        left += [{"g": (0, {0: unstable})}] * 100
        with pytest.raises(BrokersUnavailable, match="group g"):
            admin.committed_metadata({"g": [T0]}, 0.3, stable=True)

    def test_coordinator_that_moved(self, cluster: Cluster) -> None:
        """A group that has another coordinator meanwhile is read there."""

        def fetch(request: Reader) -> bytes:
            cluster.elsewhere = {"g": cluster.second.address}
            return offsets_of_groups({"g": (MOVED, {})})

        admin = cluster.open({OFFSET_FETCH: fetch}, others=lambda request: offsets_of_groups({"g": (0, {0: 5})}))
        assert admin.committed("g") == {T0: 5}

    @pytest.mark.parametrize(
        ("code", "raised"),
        [
            (ErrorCode.UNKNOWN_MEMBER_ID, GroupError),
            (ErrorCode.GROUP_AUTHORIZATION_FAILED, ClusterStateError),
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None),
        ],
    )
    def test_refused_commits(self, cluster: Cluster, code: int, raised: type[ZKafkaError] | None) -> None:
        """A commit to an active group, or without rights, fails as a whole. An error of a partition is returned."""

        def commit(request: Reader) -> bytes:
            return array([string("t") + array([int32(0) + int16(code), int32(1) + int16(0 if raised is None else code)])])

        admin = cluster.open({OFFSET_COMMIT: commit})
        if raised is None:
            assert set(admin.alter_offsets("g", {T0: 1, T1: 1})) == {T0}
        else:
            with pytest.raises(raised, match=r"ommitting offsets of group g"):
                admin.alter_offsets("g", {T0: 1, T1: 1})
        assert cluster.asked(OFFSET_COMMIT) == 1

    def test_deleted_offsets(self, cluster: Cluster) -> None:
        """Offsets of a subscribed topic stay, and the group is active. An error of another partition is returned."""
        codes = [0, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]

        def delete(request: Reader) -> bytes:
            rows = array([int32(number) + int16(code) for number, code in enumerate(codes)])
            return int16(0) + int32(0) + array([string("t") + rows])

        admin = cluster.open({OFFSET_DELETE: delete})
        assert set(admin.delete_offsets("g", [T0, T1])) == {T1}
        codes[0] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        with pytest.raises(GroupError, match="Deleting offsets of group g failed"):
            admin.delete_offsets("g", [T0, T1])


class TestGroups:
    """Lists of groups, and their deletion."""

    def test_names(self, cluster: Cluster) -> None:
        """Groups of consumers, also those with offsets alone, are listed from all brokers, sorted."""
        first = listed_groups({"b": "consumer", "connect": "connect", "empty": ""})
        admin = cluster.open({LIST_GROUPS: lambda request: first}, others=lambda request: listed_groups({"a": "consumer"}))
        assert admin.group_names() == ["a", "b", "empty"]

    def test_names_of_all_brokers(self, cluster: Cluster) -> None:
        """A list without a broker's groups is an error, which names the broker."""
        cluster.open({LIST_GROUPS: lambda request: listed_groups({})}, others=lambda request: None)
        with pytest.raises(BrokersUnavailable, match="listing the groups of broker 2"):
            cluster.admin(cluster.first.address, timeout_s=0.5).group_names()

    def test_deletion(self, cluster: Cluster) -> None:
        """Groups are deleted by one request. A group that does not exist is ignored, an active one is an error."""
        codes = {"g": 0, "gone": MISSING}
        admin = cluster.open({DELETE_GROUPS: lambda request: deleted_groups(codes)})
        admin.delete_groups(["g", "gone"])
        assert cluster.asked(DELETE_GROUPS) == 1
        codes["g"] = ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(GroupError, match="Deleting group g failed"):
            admin.delete_groups(["gone", "g"])

    def test_deletion_of_others(self, cluster: Cluster) -> None:
        """If the coordinator of a group is lost, groups of other coordinators are deleted, and the error is raised."""
        deleted: list[str] = []

        def delete(request: Reader) -> bytes:
            deleted.extend(names := names_in(request))
            return deleted_groups(dict.fromkeys(names, 0))

        cluster.open({DELETE_GROUPS: delete})
        cluster.elsewhere = {"lost": (LOOPBACK, 1)}
        with pytest.raises(BrokersUnavailable, match="deleting group lost"):
            cluster.admin(cluster.first.address, timeout_s=0.5).delete_groups(["lost", "g"])
        assert deleted == ["g"]
