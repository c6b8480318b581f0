"""A stream planner's connections between micro-batches: to the cluster, to the group, and to the group's offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.conditions import INVALID_OPTION, report_data_loss
from pyspark_zkafka.errors import Condition, DataLoss, ZKafkaError
from pyspark_zkafka.model.nouns import Claim, ClusterSnapshot, TopicPartition
from pyspark_zkafka.model.offsets import HIGH_WATERMARK, LATEST
from pyspark_zkafka.model.planning import Assign, Subscribe, describe_missing, missing_topics
from pyspark_zkafka.model.znodes.groups import owner_path
from pyspark_zkafka.options.values import ReadOptions, StreamOptions
from pyspark_zkafka.read.cluster_state import ClusterState
from pyspark_zkafka.retries import Retry

if TYPE_CHECKING:
    from pyspark_zkafka.group.claims import NoOwner, OwnedBy
    from pyspark_zkafka.group.membership import Membership
    from pyspark_zkafka.group.offsets import GroupOffsets, KafkaMemberOffsets
    from pyspark_zkafka.options.values import GroupOptions, ZooKeeperConfig
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_log = logging.getLogger(__name__)

_SAMPLE_S = 3.0
_REPEAT_S = 60.0
ANSWER_S = 5.0  # a leader that does not answer in time is asked again later, so that the others do not wait
_UNCLAIMED = Claim("", 0)

EndsAndErrors = tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]
"""The ends of logs, and the errors of leaders that do not answer."""


class StreamSession:
    """A planner's session, open from ``__enter__`` to ``close``; for one thread, in the process that created it.

    `cluster` is the state of the cluster, and `member` the member of the group, None without membership; both exist while
    the session is open.
    """

    cluster: ClusterState

    def __init__(
        self,
        options: StreamOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.retry = Retry(options.read.retries, options.read.retry_interval_ms / 1000, sleep)
        self._read = options.read
        self._group = options.group
        self._subscription = options.read.require_subscription()
        self._clock = clock
        self._sleep = sleep
        self._opened = ExitStack()
        self._zookeeper: ZooKeeperClient | None = None
        self._subscribed: tuple[ClusterSnapshot, Mapping[TopicPartition, Claim]] | None = None
        self.member: Membership | None = None
        self._member_offsets: KafkaMemberOffsets | None = None

    def __enter__(self) -> StreamSession:
        """Connect, and join the group if the options require it; raises ZKafkaError if either is refused or impossible.

        Nothing is left open then.
        """
        with ExitStack() as failed:
            failed.callback(self.close)
            self._connect()
            failed.pop_all()
        return self

    def _connect(self) -> None:
        connection = self._read.connection
        membership = "none" if self._group is None else self._group.membership
        ensemble, may_join = connection.zookeeper, membership in ("auto", "zookeeper")
        if ensemble is not None and not (may_join and self._join_in_zookeeper(ensemble)):
            self._open_zookeeper(ensemble)
            membership = "kafka" if membership == "auto" else membership
        group = None if self.member is None else self.member.group
        self.cluster = ClusterState(self._read, self._zookeeper, group, self._clock, self._sleep)
        self._opened.callback(self.cluster.close)
        if membership == "kafka":
            self._join_in_kafka()

    def _open_zookeeper(self, ensemble: ZooKeeperConfig) -> None:
        from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

        client = ZooKeeperClient(ensemble)
        self.retry(client.__enter__)
        self._opened.callback(client.close)
        self._zookeeper = client

    def _join_in_zookeeper(self, ensemble: ZooKeeperConfig) -> bool:
        """Join, unless the options leave it open who coordinates the group, and all brokers have left ZooKeeper."""
        from pyspark_zkafka.group.member import GroupMember

        group = self._required_group
        member = GroupMember(ensemble, group, self._subscription)
        self.retry(member.join)
        with ExitStack() as leaving:
            leaving.callback(member.leave)
            if group.membership == "auto" and self.retry(member.client.is_left):
                from pyspark_zkafka.group.membership import refuse_unmigrated

                if "kafka" not in self._read.stores:
                    self.retry(lambda: refuse_unmigrated(member.client, group.name))
                return False
            leaving.pop_all()
        self._opened.callback(member.leave)
        self.member, self._zookeeper = member, member.client
        _log.info("%s joined group %s in ZooKeeper (groupMembership=%s)", member.consumer, group.name, group.membership)
        return True

    def _join_in_kafka(self) -> None:
        from pyspark_zkafka.group.membership import KafkaJoin

        servers = self.cluster.servers()
        join = KafkaJoin(self._read.connection, servers, self._required_group, self._subscription)
        self.member, self._member_offsets = join.open(self._opened, self._zookeeper)
        group = self._required_group
        _log.info("joining group %s in Kafka (groupMembership=%s)", group.name, group.membership)

    def close(self) -> None:
        """Leave the group at once, and close all connections; idempotent; blocks for some seconds at the most."""
        self._opened.close()

    @cached_property
    def offsets(self) -> GroupOffsets | KafkaMemberOffsets:
        """The group's offsets, in their stores."""
        return self._member_offsets or self._stored_offsets

    @cached_property
    def _stored_offsets(self) -> GroupOffsets:
        from pyspark_zkafka.group.offsets import GroupOffsets

        name, servers = self._required_group.name, self.cluster.servers()
        offsets = GroupOffsets(self._read.connection, servers, name, self._read.stores, self._zookeeper, self._sleep)
        return self._opened.enter_context(offsets)

    def copy_to_lagging_store(self, partitions: Collection[TopicPartition], proof: OwnedBy | NoOwner) -> None:
        """Commit the offsets of a group with two stores to the one that lags; see `GroupOffsets.level`."""
        if self._member_offsets is None:
            self._stored_offsets.level(partitions, proof)

    @property
    def commits_as_member(self) -> bool:
        """True if only the member itself can commit, as in a group that Kafka coordinates."""
        return self._member_offsets is not None

    @property
    def _required_group(self) -> GroupOptions:
        if self._group is None:
            raise INVALID_OPTION("Offsets of a group are read, and no group is named; set group.id")
        return self._group

    def log_ends(self, partitions: Iterable[TopicPartition], epochs: dict[TopicPartition, int]) -> EndsAndErrors:
        """The ends of logs; adds their leader epochs to `epochs`. Blocks for 5 s or a little more."""
        return self.cluster.brokers.list_offsets_each(dict.fromkeys(partitions, LATEST), ANSWER_S, epochs)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> EndsAndErrors:
        """The ends of logs including open transactions, where `log_ends` stops before these."""
        return self.cluster.brokers.list_offsets_each(dict.fromkeys(partitions, HIGH_WATERMARK), ANSWER_S)

    def record_bytes(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """The mean sizes of records from each position on; blocks for at most 3 s. See `kafka.log_probes`."""
        from pyspark_zkafka.brokers.log_probes import sample_record_bytes

        return sample_record_bytes(self.consumer_properties(), starts, _SAMPLE_S)

    def consumer_properties(self, records: int | None = None) -> dict[str, Any]:
        """librdkafka's properties for a consumer that reads so many records."""
        from pyspark_zkafka.brokers.consumer_properties import consumer_properties

        servers = self.cluster.servers()
        return consumer_properties(self._read.connection, servers, self._read.client_group, records)

    def created_after_subscription(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions created after the group subscribed to their topics; none without membership."""
        if self.member is None or not partitions:
            return set()
        if self._member_offsets is not None or self._zookeeper is None:
            return self._without_start(partitions)
        from pyspark_zkafka.group.registration import subscribed_since, younger

        by_pattern = not isinstance(self._subscription, Subscribe)
        topics = sorted({tp.topic for tp in partitions})
        since = subscribed_since(self._zookeeper, self.member.group, topics, by_pattern=by_pattern)
        return younger(partitions, self.cluster.snapshot(), since)

    def owners(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """The incarnation of the member that owns, or is being assigned, each partition; absent where there is none.

        Blocks for one or two requests.
        """
        group = self._required_group.name
        if self._member_offsets is None and self._zookeeper is not None:
            paths = {owner_path(group, tp): tp for tp in partitions}
            return {paths[path]: str(stat.czxid) for path, stat in self._zookeeper.exists_many(paths).items()}
        from pyspark_zkafka.brokers.groups import GroupAdmin

        with GroupAdmin.of(self._read.connection, self.cluster.servers()) as admin:
            assigned = admin.group_states([group])[group].assigned
        return {tp: member for member, theirs in assigned.items() for tp in theirs.intersection(partitions)}

    def _without_start(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions without an offset in topics of which the group has some, in Kafka: it began before them.

        A member that begins to read a topic commits its starts in all partitions that it owns.
        """
        topics = {tp.topic for tp in partitions}
        states = self.cluster.snapshot().states
        committed = self.offsets.committed([tp for tp in states if tp.topic in topics])
        begun = {tp.topic for tp in committed}
        return {tp for tp in partitions if tp.topic in begun and tp not in committed}

    def owned(self, snapshot: ClusterSnapshot) -> Mapping[TopicPartition, Claim]:
        """The partitions to read: those that the member owns, or, without membership, all that are subscribed to."""
        if self.member is not None:
            return self.member.owned()
        if self._subscribed is None or self._subscribed[0] is not snapshot:
            everything = [tp for topic in snapshot.topics for tp in snapshot.partitions(topic)]
            if isinstance(self._subscription, Assign):
                everything = [tp for tp in self._subscription.partitions if tp in snapshot.states]
            self._subscribed = snapshot, dict.fromkeys(everything, _UNCLAIMED)
        return self._subscribed[1]


class StreamWarnings:
    """Data loss and warnings of one run of a query, by a monotonic clock."""

    def __init__(self, fail_on_data_loss: bool, clock: Callable[[], float]) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self._clock = clock
        self._warned: dict[str, float] = {}
        self._complete: ClusterSnapshot | None = None

    def lose(self, condition: Condition[DataLoss], text: str) -> None:
        """Raise DataLoss, or, without failOnDataLoss, log a warning."""
        report_data_loss(condition, f"{text}; some records may be lost", fail=self._fail_on_data_loss)

    def warn(self, text: str) -> None:
        """Log a warning, unless it was logged within the last minute."""
        if self._is_due(text):
            _log.warning("%s", text)

    def check_topics(
        self,
        read: ReadOptions,
        snapshot: ClusterSnapshot,
        names: Callable[[], Collection[str]],
        *,
        may_fail: bool,
        has_end: bool = False,
    ) -> None:
        """Warn of subscribed topics that do not exist, or raise UnknownTopic.

        It `may_fail` if `missingTopics` is fail, or is not set and the query `has_end`, at which it cannot wait. `names`
        returns the names of all topics, to suggest the nearest. It is called once a minute at the most.
        """
        if snapshot is self._complete:
            return
        subscription = read.require_subscription()
        missing = missing_topics(subscription, snapshot)
        self._complete = None if missing else snapshot
        fails = may_fail and (read.missing_topics == "fail" or (has_end and read.missing_topics is None))
        if not missing or not (fails or self._is_due(f"missing: {missing}")):
            return
        error = describe_missing(subscription, missing, names(), may_wait=not fails)
        if fails:
            raise error
        _log.warning("%s: %s", "left out" if has_end else "waiting for topics", error)

    def _is_due(self, subject: str) -> bool:
        """True, once a minute, for each subject of a warning."""
        now = self._clock()
        if now - self._warned.get(subject, float("-inf")) <= _REPEAT_S:
            return False
        self._warned[subject] = now
        return True
