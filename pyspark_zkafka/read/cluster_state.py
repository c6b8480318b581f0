"""The cluster's state between micro-batches: a current snapshot, and an admin client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.cluster import bootstrap_servers, current_snapshot, describe_migration, subscribed_topics
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, MIGRATED_TO_KRAFT
from pyspark_zkafka.errors import ClusterStateError, ZKafkaError, listing
from pyspark_zkafka.model.nouns import WITHOUT_LEADER, ClusterSnapshot
from pyspark_zkafka.model.planning import Assign, Subscribe, requested_topics
from pyspark_zkafka.model.znodes import cluster as znodes
from pyspark_zkafka.options.values import ReadOptions
from pyspark_zkafka.retries import Retry

if TYPE_CHECKING:
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

_log = logging.getLogger(__name__)

_WATCHED_AGE_S = 60.0  # watches report changes
_POLLED_AGE_S = 1.0  # brokers must be polled
_LEADERLESS_AGE_S = 0.5
_RECONNECTED_AGE_S = 0.5
RESTARTED_S = 30.0
"""Longer than a restart of a broker, or the replacement of its expired session."""


class ClusterState:
    """A cluster's snapshot, bootstrap servers and admin client. For one thread of one process.

    `zookeeper` is open, or None to read only the brokers' metadata. `group` is a group with members in ZooKeeper, or None.
    With a group, a read fails once all brokers have left ZooKeeper.
    """

    def __init__(
        self,
        read: ReadOptions,
        zookeeper: ZooKeeperClient | None,
        group: str | None,
        clock: Callable[[], float],
        retry: Retry,
    ) -> None:
        self._retry = retry
        self._read = read
        self._subscription = read.require_subscription()
        self._clock = clock
        self._opened = ExitStack()
        self._zookeeper = zookeeper
        self._brokers: KafkaAdmin | None = None
        self._group_in_zookeeper = group
        self._servers: str | None = None
        self._snapshot: ClusterSnapshot | None = None
        self._stale = threading.Event()
        self._read_at = 0.0
        self._max_age_s = 0.0
        self._is_cut_off = False
        self._is_polled = False
        self._is_migration_reported = False
        self._have_brokers_left = False
        self._left_at: float | None = None
        self._deleted: set[str] = set()

    def close(self) -> None:
        """Close the admin client. The caller closes ZooKeeper's client."""
        self._opened.close()

    @property
    def brokers(self) -> KafkaAdmin:
        """The admin client. With ZooKeeper, its bootstrap servers are the brokers of the first snapshot."""
        if self._brokers is None:
            servers = None if self._zookeeper is None else self.servers()
            self._brokers = self._opened.enter_context(KafkaAdmin.of(self._read.connection, servers))
        return self._brokers

    def servers(self, snapshot: ClusterSnapshot | None = None) -> str:
        """Return the bootstrap servers of a snapshot, by default the current one, as ``host:port,...``.

        While no broker is registered, returns the last known servers. Adds the present brokers to the user's servers, which
        may all be replaced while the query runs.
        """
        snapshot = self.snapshot() if snapshot is None else snapshot
        if snapshot.brokers or self._servers is None:
            self._servers = bootstrap_servers(self._read.connection, snapshot)
        is_given = self._read.connection.bootstrap_servers is not None
        return self._brokers.servers if is_given and self._brokers is not None else self._servers

    @property
    def last_servers(self) -> str:
        """The bootstrap servers of the last snapshot. Any thread may read them once there is a snapshot."""
        return self.servers(self._snapshot)

    def snapshot(self, *, anew: bool = False, expected: Collection[str] = ()) -> ClusterSnapshot:
        """Return the cluster with the subscribed topics that exist.

        Reads the cluster again if `anew`, after a watch has reported a change of brokers or topics, after a reconnection,
        while a partition has no leader, and once a minute; without ZooKeeper, once a second. If the read fails with a
        retriable error, returns the last snapshot. Another read confirms the deletion of an `expected` topic, and without
        ZooKeeper of any topic.
        """
        before = found = self._snapshot
        if found is None:
            found = self._snapshot = self._retry(self._read_cluster)
        elif anew or self._is_old():
            found = self._refresh(found)
        known = before.topics.keys() if self._is_polled and before is not None else set()
        missing = {*expected, *known} - found.topics.keys()
        self._deleted &= missing
        confirmed = found if missing <= self._deleted else self._confirm_deleted(missing, found)
        if confirmed is not None:
            is_new = self._is_polled and confirmed is not before
            if before is None or not (is_new and _lacks_partitions(before, confirmed)):
                return confirmed  # else the broker has not caught up: topics never lose partitions
        self._snapshot = before
        if before is None:
            raise BROKERS_UNAVAILABLE(
                f"Whether {listing(sorted(missing))} exist is unknown: one broker knows no such topics, and then none "
                "answered, or they disagree; check the brokers",
            )
        return before

    def snapshot_of(self, topics: Collection[str]) -> ClusterSnapshot:
        """Return the present cluster with some topics, subscribed or not. Confirms that missing topics are deleted."""
        return self._retry.until(  # a broker that has just started may know no topic
            lambda found: not self._is_polled or found.topics.keys() >= set(topics),
            lambda: (self._ensemble or self.brokers).snapshot(topics),
        )

    def topic_names(self) -> list[str]:
        """Return the names of all topics, for the text of an error. Empty if the names cannot be read now."""
        try:
            return (self._ensemble or self.brokers).topic_names()
        except ZKafkaError as error:
            _log.info("Topics of a similar name are not suggested, because the topics cannot be listed: %s", error)
            return []

    def settled_snapshot(self) -> ClusterSnapshot:
        """Return a snapshot in which all leaders are registered, if the controller elects them within the retries."""
        found = self.snapshot()  # before that, another leader may return in the same epoch
        for _ in range(self._retry.retries):
            if not any(s.leader != WITHOUT_LEADER and s.leader not in found.brokers for s in found.states.values()):
                break
            self._retry.sleep(self._retry.interval_s)
            found = self.snapshot(anew=True)
        return found

    def has_same_topics_as(self, snapshot: ClusterSnapshot) -> bool:
        """Return True if the cluster still has the topics of a snapshot. Requests metadata if there are no watches."""
        return has_same_topics(snapshot, self.snapshot(anew=self._is_polled))

    def _is_old(self) -> bool:
        age_s = self._clock() - self._read_at
        if self._is_cut_off and self._zookeeper is not None and self._zookeeper.connected and age_s > _RECONNECTED_AGE_S:
            return True
        return self._stale.is_set() or age_s > self._max_age_s

    def _refresh(self, before: ClusterSnapshot) -> ClusterSnapshot:
        """Return a new snapshot, or `before` if the cluster cannot be read."""
        problem: object = "there is no connection to ZooKeeper"
        ensemble = self._ensemble
        if ensemble is None or ensemble.connected:
            try:
                found = self._snapshot = self._read_cluster()
            except ZKafkaError as error:
                if not error.retriable:
                    raise
                problem = error
            else:
                self._is_cut_off = False
                if ensemble is not None and self._brokers is not None:
                    self._brokers.follow(self.servers(found))
                    self._brokers.forget_leaders(moved_topics(before, found))
                return found
        elif (refused := ensemble.refused) is not None:
            raise refused
        if not self._is_cut_off:
            _log.warning("The last snapshot of the cluster is used, because no new one can be read: %s", problem)
        self._stale.clear()
        self._is_cut_off, self._read_at = ensemble is not None, self._clock()
        return before

    def _confirm_deleted(self, missing: Collection[str], found: ClusterSnapshot) -> ClusterSnapshot | None:
        """Confirm that topics are deleted. Return a snapshot, or None if the brokers do not answer or do not agree.

        ZooKeeper knows all topics, but a broker that has just started may know no topic.
        """
        is_answered, seen = not self._is_polled, set[str]()
        for _ in range(max(self._retry.retries, 1) if self._is_polled else 1):
            if self._is_polled:
                self._retry.sleep(self._retry.interval_s)
            before, found = found, self._refresh(found)
            is_answered = is_answered or found is not before
            seen |= found.topics.keys()
            if found.topics.keys() >= set(missing):
                break
        if not is_answered or not seen.intersection(missing) <= found.topics.keys():
            return None
        self._deleted = set(missing) - found.topics.keys()
        return found

    def _read_cluster(self) -> ClusterSnapshot:
        self._stale.clear()
        self._read_at = self._clock()
        ensemble = self._ensemble
        if ensemble is None:
            snapshot = self.brokers.snapshot(subscribed_topics(self._subscription, self.brokers))
        else:
            snapshot = self._read_znodes(ensemble)
        self._is_polled = ensemble is None or snapshot.is_outdated
        if snapshot.brokers:
            self._left_at = None
        if snapshot.is_outdated:
            snapshot = self._complete(snapshot)
        self._max_age_s = max_age_s(snapshot, is_watched=not self._is_polled)
        return snapshot

    def _complete(self, outdated: ClusterSnapshot) -> ClusterSnapshot:
        """Complete the snapshot of a cluster whose brokers leave ZooKeeper for KRaft.

        Raises if the group has its members in ZooKeeper, and all brokers have left.
        """
        if self._group_in_zookeeper is not None and not outdated.brokers:
            raise self._without_brokers(self._group_in_zookeeper)
        if self._brokers is None:
            self._brokers = self._opened.enter_context(KafkaAdmin.of(self._read.connection, self.servers(outdated)))
        if not self._is_migration_reported:
            self._is_migration_reported = True
            _log.warning("%s", describe_migration(outdated))
        if outdated.brokers:
            return current_snapshot(outdated, self._brokers, self._read.connection, ())
        self._have_brokers_left = True
        topics = subscribed_topics(self._subscription, self._brokers)
        return current_snapshot(outdated, self._brokers, self._read.connection, topics)

    def _without_brokers(self, group: str) -> ClusterStateError:
        """Return the error for a member in ZooKeeper without brokers. Retriable while the last broker may be restarting.

        Members divide the partitions that ZooKeeper has. New partitions do not appear there after the last broker has left.
        """
        if self._left_at is None:
            self._left_at = self._clock()
        if self._snapshot is not None and self._clock() - self._left_at < RESTARTED_S:
            return BROKERS_UNAVAILABLE(
                "No broker is registered in ZooKeeper, during a migration to KRaft: the last broker is restarting, or has "
                f"left; waiting {RESTARTED_S:.0f} s for a broker",
            )
        return MIGRATED_TO_KRAFT(
            f"All brokers have left ZooKeeper for KRaft; group {group} has its members in ZooKeeper, where new partitions "
            "do not appear. Stop all members, copy the offsets with zkafka groups migrate, and start the members with "
            "groupMembership=kafka and kafka.bootstrap.servers",
        )

    @property
    def _ensemble(self) -> ZooKeeperClient | None:
        """ZooKeeper's client. None without ZooKeeper, and once all brokers have left it."""
        return None if self._have_brokers_left else self._zookeeper

    def _read_znodes(self, zookeeper: ZooKeeperClient) -> ClusterSnapshot:
        by_name = isinstance(self._subscription, (Subscribe, Assign))
        lists = [znodes.BROKER_IDS] if by_name else [znodes.BROKER_IDS, znodes.TOPICS]
        found = zookeeper.children_many(lists, self._on_event)
        topics = requested_topics(self._subscription, found.get(znodes.TOPICS, ()))
        zookeeper.exists_many(map(znodes.topic_path, topics), self._on_event)
        return zookeeper.snapshot(topics)

    def _on_event(self, event: object) -> None:
        """Mark the snapshot as stale. Called on kazoo's thread."""
        self._stale.set()


def _lacks_partitions(before: ClusterSnapshot, found: ClusterSnapshot) -> bool:
    """Return True if a topic with an unchanged id has fewer partitions than before."""
    both = [(topic, found.topics[name]) for name, topic in before.topics.items() if name in found.topics]
    return any(
        now.topic_id is not None and now.topic_id == topic.topic_id and len(now.partitions) < len(topic.partitions)
        for topic, now in both
    )


def max_age_s(snapshot: ClusterSnapshot, *, is_watched: bool) -> float:
    """Return the age, in seconds, at which to replace a snapshot if no watch has reported a change."""
    if any(snapshot.leader(tp) is None for tp in snapshot.all_partitions()):
        return _LEADERLESS_AGE_S
    return _WATCHED_AGE_S if is_watched else _POLLED_AGE_S


def has_same_topics(snapshot: ClusterSnapshot, now: ClusterSnapshot) -> bool:
    """Return True if each topic of a snapshot still exists with the same identity."""
    found = now.topics
    topics = snapshot.topics.items()
    return all(n in found and (found[n].topic_id, found[n].czxid) == (t.topic_id, t.czxid) for n, t in topics)


def moved_topics(before: ClusterSnapshot, now: ClusterSnapshot) -> set[str]:
    """Return the topics in which a partition has a new leader. The loss of a leader does not count."""
    return {tp.topic for tp in now.states if (leader := now.leader(tp)) is not None and leader != before.leader(tp)}
