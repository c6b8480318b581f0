"""Znodes that a member creates when it joins: its registration, and the owner znodes of its topics.

The registration is the ephemeral znode ``/consumers/G/ids/C``, written once per session: see `RegisteredSession`.

The owner znode ``/consumers/G/owners/T`` shows when the group subscribed to a topic. `auto.offset.reset` sets the start of
partitions that existed then. The group reads partitions that were created later from their first record. By ZooKeeper's
transaction ids, every member sees the same order, also later. The state of a partition is created before its first record.
A member creates owner znodes for the topics that it names when it joins; JVM consumers do so with their first claim. A
pattern also covers topics that do not exist yet: for them, the group's own znode counts.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark_zkafka.conditions import (
    ASSIGN_IN_GROUP,
    CONSUMER_ID_TAKEN,
    GROUP_CONTENDED,
    NO_SESSION,
    REGISTRATION_CONTENDED,
)
from pyspark_zkafka.errors import ZooKeeperError
from pyspark_zkafka.model.assignors import STRATEGIES
from pyspark_zkafka.model.nouns import ClaimOwner, ClusterSnapshot, TopicPartition, session_text
from pyspark_zkafka.model.planning import Assign, SubscribePattern, Subscription
from pyspark_zkafka.model.znodes import groups as group_znodes
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.options.values import GroupOptions
from pyspark_zkafka.zookeeper.connection import SessionState, ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Create, Operation, Reason, pieces

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Registration:
    """A member's registration. `write` sets its timestamp from `clock` (seconds since the epoch)."""

    group: str
    consumer: str
    content: ConsumerRegistration
    clock: Callable[[], float] = time.time

    @property
    def path(self) -> str:
        """``/consumers/G/ids/C``."""
        return group_znodes.id_path(self.group, self.consumer)

    def session(self, client: ZooKeeperConnection) -> int | None:
        """The session that owns the znode, or None if there is no znode. Blocks for a round trip."""
        stat = client.exists_many([self.path]).get(self.path)
        return None if stat is None else stat.ephemeral_owner

    def write(self, client: ZooKeeperConnection, session: int) -> None:
        """Register, and create missing parents with empty data, as the consumer of 1.1.1 does.

        Raises ConsumerIdTaken if another session has registered the id. That may be an old session of this member, which
        will expire. Raises GroupContended, which is retriable, if other clients keep changing the parents.
        """
        for _ in range(_ATTEMPTS):
            conflict = client.transact(self._operations(client)).conflict
            if conflict is None:
                return
            if conflict.operation.path == self.path and conflict.reason is Reason.NODE_EXISTS:
                other = self.session(client)
                if other == session:
                    return
                if other is not None:
                    raise CONSUMER_ID_TAKEN(
                        f"The group {self.group} has a member {self.consumer} already, of session {session_text(other)}. "
                        "If that member is dead, wait until its session expires; otherwise stop it, or give this member "
                        "another consumer.id",
                        session=other,
                    )
        raise REGISTRATION_CONTENDED(
            f"{self.consumer} is not registered: {_ATTEMPTS} times other clients created or deleted {self.path} or its "
            f"parents. Try again, and if that does not help, find the client that changes znodes of group {self.group}",
        )

    def _operations(self, client: ZooKeeperConnection) -> list[Operation]:
        group, ids = group_znodes.group_path(self.group), group_znodes.ids_path(self.group)
        parents = {group_znodes.CONSUMERS: None, group: b"", ids: b""}
        existing = client.exists_many(parents)
        content = replace(self.content, timestamp=str(int(self.clock() * 1000)))
        missing: list[Operation] = [Create(path, data) for path, data in parents.items() if path not in existing]
        return [*missing, Create(self.path, group_znodes.encode_registration(content), ephemeral=True)]


class RegisteredSession:
    """The session under which a member is registered. It ends with the session, before the member's thread notices.

    kazoo's thread calls `note_state`, which takes no lock: that thread must not wait. Any thread may read the attributes.
    The member calls the other methods under its lock.
    """

    def __init__(self) -> None:
        self.is_suspended = False
        self.losses = 0
        self._registered: tuple[ClaimOwner, int] | None = None  # with the number of losses before

    @property
    def owner(self) -> ClaimOwner | None:
        """The owner in the member's claims, or None without a session."""
        registered = self._registered
        return None if registered is None or registered[1] != self.losses else registered[0]

    def note_state(self, state: SessionState) -> None:
        """Note a change of the connection. A lost session has no owner."""
        if state == "LOST":
            self.losses += 1
        self.is_suspended = state != "CONNECTED"

    def register(self, owner: ClaimOwner, losses: int) -> None:
        """Note a registration. `losses` was read before the session's id: the session may be lost already."""
        self._registered = owner, losses

    def end(self) -> None:
        """Own nothing from now on."""
        self._registered = None

    def require(self, owner: ClaimOwner) -> None:
        """Raise if the owner's session has ended: its claims ended with it, and no other client has deleted them."""
        if self.owner != owner:
            raise no_session()


def no_session() -> ZooKeeperError:
    """The error of a member without a session."""
    return NO_SESSION("The member has no session with ZooKeeper. It retries by itself")


def registration_of(options: GroupOptions, subscription: Subscription) -> ConsumerRegistration:
    """The registration of a member with these options and subscription."""
    assignor = options.strategy if STRATEGIES[options.strategy].is_registered else None
    if isinstance(subscription, SubscribePattern):
        regex = group_znodes.normalise_filter(subscription.pattern)
        pattern: group_znodes.Pattern = "black_list" if subscription.excludes else "white_list"
        return ConsumerRegistration({regex: options.threads}, pattern, assignor=assignor)
    if isinstance(subscription, Assign):
        raise ASSIGN_IN_GROUP("assign leaves nothing for the group to assign; use subscribe")
    return ConsumerRegistration(dict.fromkeys(subscription.topics, options.threads), assignor=assignor)


def consumer_id_of(options: GroupOptions, now: Callable[[], float] = time.time) -> str:
    """The id in the options, or an id made of host, time and a random number, like a JVM consumer's."""
    if options.consumer_id is not None:
        return group_znodes.consumer_id(options.name, options.consumer_id)
    upper_half = uuid.uuid4().int >> 64
    return group_znodes.generated_consumer_id(options.name, socket.gethostname(), int(now() * 1000), upper_half)


def create_owner_znodes(client: ZooKeeperConnection, group: str, topics: Collection[str]) -> None:
    """Create missing ``owners/T`` with null data, as JVM consumers do. The group's znode exists."""
    paths = [group_znodes.owners_path(group), *(group_znodes.topic_owners_path(group, topic) for topic in topics)]
    for piece in pieces(paths, lambda path: [Create(path, None)], client.config.chroot):
        for _ in range(_ATTEMPTS):
            existing = client.exists_many(piece)
            conflict = client.transact([Create(path, None) for path in piece if path not in existing]).conflict
            if conflict is None or conflict.reason is not Reason.NODE_EXISTS:
                break
        if conflict is not None:
            raise GROUP_CONTENDED(
                f"{piece[0]} was not created, because other clients create or delete znodes of group {group} "
                f"({conflict.operation.path}: {conflict.reason.value}). Try again",
            )


def subscribed_since(
    client: ZooKeeperConnection, group: str, topics: Collection[str], *, by_pattern: bool
) -> dict[str, int]:
    """The ZooKeeper transaction by which the group subscribed to each topic. Topics without a znode are absent."""
    if by_pattern:
        path = group_znodes.group_path(group)
        return {topic: stat.czxid for stat in client.exists_many([path]).values() for topic in topics}
    paths = {t: (group_znodes.topic_owners_path(group, t), group_znodes.topic_offsets_path(group, t)) for t in topics}
    stats = client.exists_many(path for both in paths.values() for path in both)
    created = {topic: [stats[path].czxid for path in both if path in stats] for topic, both in paths.items()}
    return {topic: min(found) for topic, found in created.items() if found}


def created_after_subscription(
    partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot, since: Mapping[str, int]
) -> set[TopicPartition]:
    """The partitions created after the group subscribed to their topics.

    >>> from pyspark_zkafka.model.nouns import PartitionState
    >>> state = PartitionState(1, 0, (1,), czxid=70)
    >>> t0 = TopicPartition("t", 0)
    >>> created_after_subscription([t0], ClusterSnapshot({}, states={t0: state}), {"t": 60})
    {TopicPartition(topic='t', partition=0)}
    """
    created = {tp: snapshot.states[tp].czxid for tp in partitions if tp in snapshot.states}
    return {tp for tp, czxid in created.items() if czxid is not None and czxid > since.get(tp.topic, czxid)}
