"""State of a Kafka cluster and its consumer groups in ZooKeeper, read in few rounds of requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark_zkafka.conditions import GROUP_ACTIVE, NO_CHROOT, NO_KAFKA_CLUSTER
from pyspark_zkafka.errors import CodecError, ZooKeeperRefused, listing
from pyspark_zkafka.kept import ClientPool
from pyspark_zkafka.model.nouns import ClusterSnapshot, Topic, TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.znodes import cluster as znodes
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.cluster import AdminState, BrokerRegistration
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.zookeeper.connection import Watch, Znode, ZooKeeperConnection

if TYPE_CHECKING:
    from typing_extensions import Self

_log = logging.getLogger(__name__)
T = TypeVar("T")
_SHOWN = 3
_idle: ClientPool[ZooKeeperClient] = ClientPool()


def lease_zookeeper(config: ZooKeeperConfig) -> AbstractContextManager[ZooKeeperClient]:
    """Lease an open client from the pool of this process: see `ClientPool`."""
    return _idle.lease(config, lambda: ZooKeeperClient(config))


@dataclass(frozen=True, slots=True)
class DecodedZnodes(Generic[T]):
    """Decoded znodes by name. `unreadable` has the errors of malformed znodes."""

    readable: dict[str, T] = field(default_factory=dict)
    unreadable: dict[str, CodecError] = field(default_factory=dict)


class ZooKeeperClient(ZooKeeperConnection):
    """A `ZooKeeperConnection` to a Kafka cluster.

    Results are not atomic: while the cluster changes, they may be partly old and partly new. A znode that is deleted
    between two rounds is left out. Malformed bytes raise `CodecError`, unless the result has a part `unreadable`.
    """

    def __enter__(self) -> Self:
        """Connect, and check that a Kafka cluster is there.

        Raises ChrootMissing if the chroot does not exist, ClusterStateError if it contains no Kafka cluster, and the errors
        of `ZooKeeperConnection`.
        """
        super().__enter__()
        try:
            self._require_kafka()
        except BaseException:
            self.close()
            raise
        return self

    def topic_names(self) -> list[str]:
        """The names of all topics, sorted. Blocks for one round of requests."""
        names = self.children_many([znodes.TOPICS]).get(znodes.TOPICS, [])
        return [name for name in names if is_topic_name(name)]

    def all_brokers_migrated(self) -> bool:
        """True if all brokers have left ZooKeeper for KRaft. Blocks for one round of requests."""
        found = self.ask(get=[znodes.CONTROLLER], children=[znodes.BROKER_IDS])
        node = found.nodes.get(znodes.CONTROLLER)
        is_kraft = node is not None and znodes.decode_controller(znodes.CONTROLLER, node.data).kraft_epoch >= 0
        return is_kraft and not found.children.get(znodes.BROKER_IDS)

    def snapshot(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """Return brokers, controller, cluster id, and the requested topics that exist. All topics by default.

        Blocks for three rounds of requests, or two if topics are named. Topics in the layout of 0.7 are left out.

        Raises
        ------
        CodecError
            ``/controller``, ``/cluster/id`` or the znodes of all brokers are malformed. If topics are named, also for a
            malformed znode of a named topic or of a leader. Without names, brokers and topics with a malformed znode are
            left out with a warning.
        """
        found = self.survey(topics)
        leaders = {f"{znodes.BROKER_IDS}/{state.leader}" for state in found.states.values()}
        for path, error in found.unreadable.items():
            is_broker = path.startswith(znodes.BROKER_IDS + "/")
            if (is_broker and not found.brokers) or (topics is not None and (not is_broker or path in leaders)):
                raise error
            if topics is None:
                _log.warning("A broker or topic with a malformed znode is left out: %s", error)
        return found

    def survey(self, topics: Collection[str] | None = None) -> ClusterSnapshot:
        """Return a snapshot, with the errors of malformed znodes of brokers and topics in `unreadable`; see `snapshot`."""
        named = None if topics is None else [znodes.topic_path(topic) for topic in topics if is_topic_name(topic)]
        first = self.ask(
            get=[znodes.CONTROLLER, znodes.CLUSTER_ID, *(named or [])],
            children=[znodes.BROKER_IDS, *([znodes.TOPICS] if named is None else [])],
        )
        nodes, below = first.nodes, [f"{path}/{name}" for path, names in first.children.items() for name in names]
        if named is None:
            nodes |= self.get_many(below)
            below = []
        found = _topics(nodes)
        existing = [TopicPartition(topic.name, n) for topic in found.readable.values() for n in topic.partitions]
        partitions = {znodes.partition_state_path(tp): tp for tp in existing}
        nodes |= self.get_many([*below, *partitions])
        return _snapshot(nodes, found, partitions)

    def registrations(self) -> DecodedZnodes[BrokerRegistration]:
        """The znodes of the live brokers, by name. Blocks for two rounds of requests."""
        ids = self.children_many([znodes.BROKER_IDS]).get(znodes.BROKER_IDS, [])
        nodes = self.get_many(f"{znodes.BROKER_IDS}/{name}" for name in ids)
        return _by_name(nodes, lambda path, node: znodes.decode_broker(path, node.data))

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """The named topics that exist. Blocks for one round of requests."""
        found = _topics(self.get_many(znodes.topic_path(name) for name in names if is_topic_name(name)))
        for error in found.unreadable.values():
            raise error
        return found.readable

    def czxid(self, topic: str) -> int | None:
        """The transaction that created a topic's znode, which identifies the topic. None for an unknown topic.

        The answer is no older than the call, also in a session that has been open for long.
        """
        paths = [znodes.topic_path(topic)] if is_topic_name(topic) else []
        stat = next(iter(self.ask(exists=paths, sync=True).stats.values()), None)
        return None if stat is None else stat.czxid

    def topic_configs(self, topics: Collection[str] | None = None) -> DecodedZnodes[dict[str, str]]:
        """Configurations of topics, all by default. Unknown topics are left out."""
        if topics is None:
            topics = self.children_many([znodes.TOPIC_CONFIGS]).get(znodes.TOPIC_CONFIGS, [])
        nodes = self.get_many(znodes.topic_config_path(topic) for topic in topics if is_topic_name(topic))
        return _by_name(nodes, lambda path, node: znodes.decode_topic_config(path, node.data))

    def admin_state(self) -> AdminState:
        """Running reassignments, preferred replica elections and deletions. Blocks for two rounds of requests.

        Reassignments requested from brokers, since 2.4, are only in the topics' znodes.
        """
        paths = [znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_REPLICA_ELECTION]
        found = self.ask(get=paths, children=[znodes.DELETE_TOPICS, znodes.TOPICS])
        moves, elections = (found.nodes.get(path) for path in paths)
        requested = {} if moves is None else dict(znodes.decode_reassignment(paths[0], moves.data))
        names = filter(is_topic_name, found.children.get(znodes.TOPICS, ()))
        nodes = {path: node for path, node in self.get_many(map(znodes.topic_path, names)).items() if node.data}
        targets = _by_name(nodes, lambda path, node: znodes.decode_target_replicas(path, node.data))
        noted = {TopicPartition(name, p): to for name, moved in targets.readable.items() for p, to in moved.items()}
        return AdminState(
            {**noted, **requested},
            () if elections is None else znodes.decode_preferred_election(paths[1], elections.data),
            tuple(found.children.get(znodes.DELETE_TOPICS, [])),
            {znodes.topic_path(name): error for name, error in targets.unreadable.items()},
        )

    def groups(self) -> list[str]:
        """The names of all present and former groups, sorted. Blocks for one round of requests."""
        return self.children_many([group_znodes.CONSUMERS]).get(group_znodes.CONSUMERS, [])

    def group_members(self, group: str, watch: Watch | None = None) -> DecodedZnodes[ConsumerRegistration]:
        """The group's consumers by id. Blocks for two rounds of requests. `watch` reports changes of the set of ids."""
        ids = group_znodes.ids_path(group)
        names = self.children_many([ids], watch).get(ids, [])
        nodes = self.get_many(f"{ids}/{name}" for name in names)
        return _by_name(nodes, lambda path, node: group_znodes.decode_registration(path, node.data))

    def group_owners(self, group: str) -> dict[TopicPartition, str]:
        """The threads that own partitions, without claims of Kafka 0.7. Blocks for three rounds of requests."""
        return self._by_partition(group_znodes.owners_path(group), group_znodes.decode_owner)

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return committed offsets, without those of Kafka 0.7. Blocks for three rounds of requests.

        A negative number means that there is no offset.
        """
        return self._by_partition(group_znodes.offsets_path(group), group_znodes.decode_offset)

    def _by_partition(self, parent: str, decode: Callable[[str, bytes | None], T]) -> dict[TopicPartition, T]:
        nodes = read_group_znodes(self, self.children_many([parent]))
        keys = {path: group_znodes.parse_key(path, _name(path.rpartition("/")[0]), _name(path)) for path in nodes}
        return {tp: decode(path, nodes[path].data) for path, tp in keys.items() if isinstance(tp, TopicPartition)}

    def _require_kafka(self) -> None:
        found = self.exists_many(["/", znodes.BROKER_IDS])
        if "/" not in found:
            raise NO_CHROOT(
                f"The chroot {self.config.chroot} of zookeeper.connect does not exist at {self.config.hosts}"
                f"{self._others()}; correct the part of zookeeper.connect that follows the hosts",
                chroot=self.config.chroot,
            )
        if znodes.BROKER_IDS not in found:
            raise NO_KAFKA_CLUSTER(
                f"There is no Kafka cluster at {self.config.connect}: it has no /brokers/ids{self._others()}; check the "
                "chroot in zookeeper.connect, or, if the cluster runs without ZooKeeper (KRaft), set "
                "kafka.bootstrap.servers instead",
            )

    def _others(self) -> str:
        with ZooKeeperConnection(replace(self.config, chroot="")) as root:
            try:
                chroots = ["", *(f"/{name}" for name in root.children_many(["/"]).get("/", []))]
            except ZooKeeperRefused:
                chroots = []
            found = root.exists_many(chroot + znodes.BROKER_IDS for chroot in chroots)
        clusters = [chroot or "/" for chroot in chroots if chroot + znodes.BROKER_IDS in found]
        if not clusters:
            return ", and the ensemble shows no other Kafka cluster"
        return f"; a Kafka cluster is under {' and '.join(clusters)}"


def group_children(zookeeper: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, list[str]]:
    """The names below each group, and below its ids, owners and offsets, by path. Blocks for one round of requests."""
    parts = (group_znodes.group_path, group_znodes.ids_path, group_znodes.owners_path, group_znodes.offsets_path)
    return zookeeper.children_many(part(group) for group in groups for part in parts)


def read_group_znodes(
    zookeeper: ZooKeeperConnection,
    children: Mapping[str, list[str]],
    choose: Callable[[Iterable[str]], Iterable[str]] = list,
) -> dict[str, Znode]:
    """The undecoded znodes of consumers, claims and offsets, by path. Blocks for one or two rounds of requests.

    `children` has the names below ``/consumers/G/ids``, ``owners`` or ``offsets``, by path; ``/consumers/G`` is ignored.
    `choose` selects topics below ``owners`` or ``offsets``.
    """
    consumers, topics = [], []
    for path, names in children.items():
        part = path.split("/")[3:]
        if part == ["ids"]:
            consumers += [f"{path}/{name}" for name in names]
        elif part:
            topics += [f"{path}/{name}" for name in choose(names)]
    partitions = zookeeper.children_many(topics) if topics else {}
    return zookeeper.get_many([*consumers, *(f"{path}/{name}" for path, names in partitions.items() for name in names)])


@dataclass(frozen=True, slots=True)
class Activity:
    """A group's registered members, and the claims ``T/P`` under its owners, both in the order of their znodes' names."""

    members: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.members or self.claims)


def group_activity(client: ZooKeeperConnection, groups: Iterable[str]) -> dict[str, Activity]:
    """The activity of each group. Blocks for two rounds of requests for any number of groups."""
    names = list(dict.fromkeys(groups))
    parents = [path(group) for group in names for path in (group_znodes.ids_path, group_znodes.owners_path)]
    children = client.children_many(parents)
    owners = [group_znodes.owners_path(group) for group in names]
    claims = client.children_many(f"{path}/{topic}" for path in owners for topic in children.get(path, []))
    found: dict[str, Activity] = {}
    for group, path in zip(names, owners, strict=True):
        claimed = (f"{topic}/{key}" for topic in children.get(path, []) for key in claims.get(f"{path}/{topic}", []))
        found[group] = Activity(tuple(children.get(group_znodes.ids_path(group), ())), tuple(claimed))
    return found


def require_inactive(group: str, activity: Activity, not_done: str) -> None:
    """Raise GroupError if a group has members or claims. The message starts with `not_done`."""
    if not activity:
        return
    members, claims = listing(activity.members, _SHOWN), listing(activity.claims, _SHOWN)
    found = f"it has the members {members}" if members else f"its partitions {claims} have owners"
    raise GROUP_ACTIVE(
        f"{not_done}: group {group} must be inactive, but {found}; stop its consumers, wait until "
        "the sessions of dead ones have expired, and run this again",
        group=group,
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _by_name(nodes: Mapping[str, Znode], decode: Callable[[str, Znode], T]) -> DecodedZnodes[T]:
    """Decode znodes. The keys are the last parts of their paths."""
    found: DecodedZnodes[T] = DecodedZnodes()
    for path, node in nodes.items():
        try:
            found.readable[_name(path)] = decode(path, node)
        except CodecError as error:
            found.unreadable[_name(path)] = error
    return found


def _topics(nodes: Mapping[str, Znode]) -> DecodedZnodes[Topic]:
    below = f"{znodes.TOPICS}/"
    topics = {path: node for path, node in nodes.items() if path.startswith(below) and is_topic_name(_name(path))}
    described = {path: node for path, node in topics.items() if node.data}  # without data, a topic has the layout of 0.7
    return _by_name(described, lambda path, node: znodes.decode_topic(path, node.data, node.stat.czxid))


def _snapshot(
    nodes: dict[str, Znode], topics: DecodedZnodes[Topic], partitions: Mapping[str, TopicPartition]
) -> ClusterSnapshot:
    """Decode all znodes. Removes partition states from `nodes`: memory would otherwise hold 100,000 of them twice."""
    elected, cluster_id = nodes.get(znodes.CONTROLLER), nodes.get(znodes.CLUSTER_ID)
    controller = None if elected is None else znodes.decode_controller(znodes.CONTROLLER, elected.data)
    registered = {path: node for path, node in nodes.items() if path.startswith(znodes.BROKER_IDS + "/")}
    brokers = _by_name(registered, lambda path, node: znodes.decode_broker(path, node.data).broker)
    unreadable = {f"{znodes.BROKER_IDS}/{name}": error for name, error in brokers.unreadable.items()}
    unreadable |= {znodes.topic_path(name): error for name, error in topics.unreadable.items()}
    states, malformed = {}, set()
    for path, tp in partitions.items():
        try:
            if (node := nodes.pop(path, None)) is not None:
                states[tp] = znodes.decode_partition_state(path, node.data, node.stat.czxid)
        except CodecError as error:
            unreadable[path] = error
            malformed.add(tp.topic)
    return ClusterSnapshot(
        {broker.id: broker for broker in sorted(brokers.readable.values(), key=lambda broker: broker.id)},
        {name: topic for name, topic in topics.readable.items() if name not in malformed},
        {tp: state for tp, state in states.items() if tp.topic not in malformed},
        None if controller is None else controller.broker,
        None if cluster_id is None else znodes.decode_cluster_id(znodes.CLUSTER_ID, cluster_id.data),
        -1 if controller is None else controller.kraft_epoch,
        unreadable,
    )
