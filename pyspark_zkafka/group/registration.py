"""A member's registration: the ephemeral znode ``/consumers/G/ids/C``, written once a session."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark_zkafka.errors import ConsumerIdTaken, GroupContended, GroupError
from pyspark_zkafka.options.model import GroupOptions
from pyspark_zkafka.protocol.model import session_text
from pyspark_zkafka.protocol.planning import Assign, SubscribeExcept, SubscribePattern, Subscription
from pyspark_zkafka.protocol.znodes import groups as group_znodes
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Create, Operation, Reason

__all__ = ["Registration", "consumer_id_of", "registration_of"]


@dataclass(frozen=True, slots=True)
class Registration:
    """A member's registration with its group.

    Parameters
    ----------
    consumer : str
        The id, as the znode is named.
    content : ConsumerRegistration
        Its timestamp is set when it is written.
    clock : callable
        Seconds since the epoch.
    """

    group: str
    consumer: str
    content: ConsumerRegistration
    clock: Callable[[], float] = time.time

    @property
    def path(self) -> str:
        """``/consumers/G/ids/C``."""
        return group_znodes.id_path(self.group, self.consumer)

    def is_there(self, client: ZooKeeperConnection, session: int) -> bool:
        """True if the znode exists and belongs to this session; blocks for a round trip."""
        stat = client.exists_many([self.path]).get(self.path)
        return stat is not None and stat.ephemeral_owner == session

    def write(self, client: ZooKeeperConnection, session: int) -> None:
        """Register, and create missing parents as the consumer of 1.1.1 does: with empty data.

        Raises
        ------
        ConsumerIdTaken
            Another session is registered by the same id; perhaps an old one of this member, which will expire.
        GroupContended
            The znode or its parents were created and deleted repeatedly; retriable.
        """
        for _ in range(_ATTEMPTS):
            conflict = client.transaction(self._operations(client))
            if conflict is None:
                return
            if conflict.operation.path == self.path and conflict.reason is Reason.NODE_EXISTS:
                stat = client.exists_many([self.path]).get(self.path)
                if stat is not None and stat.ephemeral_owner == session:
                    return
                if stat is not None:
                    raise _taken(self, stat.ephemeral_owner)
        raise GroupContended(
            "REGISTRATION_CONTENDED",
            f"{self.consumer} is not registered: {_ATTEMPTS} times {self.path} or its parents were created or deleted; try "
            f"again, and if that does not help, find the client that deletes and creates znodes of group {self.group}",
        )

    def _operations(self, client: ZooKeeperConnection) -> list[Operation]:
        parents = {group_znodes.CONSUMERS: None, group_znodes.group_path(self.group): b""}
        parents[group_znodes.ids_path(self.group)] = b""
        existing = client.exists_many(parents)
        content = replace(self.content, timestamp=str(int(self.clock() * 1000)))
        missing: list[Operation] = [Create(path, data) for path, data in parents.items() if path not in existing]
        return [*missing, Create(self.path, group_znodes.encode_registration(content), ephemeral=True)]


_ATTEMPTS = 20


def registration_of(options: GroupOptions, subscription: Subscription) -> ConsumerRegistration:
    """The registration of a member with these options and subscription."""
    assignor = "sticky" if options.strategy == "sticky" else None
    if isinstance(subscription, (SubscribePattern, SubscribeExcept)):
        regex = group_znodes.normalise_filter(subscription.pattern)
        pattern: group_znodes.Pattern = "white_list" if isinstance(subscription, SubscribePattern) else "black_list"
        return ConsumerRegistration({regex: options.threads}, pattern, assignor=assignor)
    if isinstance(subscription, Assign):
        raise GroupError("ASSIGN_IN_GROUP", "assign leaves nothing for the group to assign; use subscribe")
    return ConsumerRegistration(dict.fromkeys(subscription.topics, options.threads), assignor=assignor)


def consumer_id_of(options: GroupOptions, now: Callable[[], float] = time.time) -> str:
    """The id that the options name, or one made of host, time and a random number, as the JVM consumer makes it."""
    if options.consumer_id is not None:
        return group_znodes.consumer_id(options.name, options.consumer_id)
    upper_half = uuid.uuid4().int >> 64
    return group_znodes.generated_consumer_id(options.name, socket.gethostname(), int(now() * 1000), upper_half)


def _taken(registration: Registration, session: int) -> ConsumerIdTaken:
    return ConsumerIdTaken(
        "CONSUMER_ID_TAKEN",
        f"The group {registration.group} has a member {registration.consumer} already, of session {session_text(session)}; "
        "one that died is gone when its session expires; else stop it, or give this one another consumer.id",
        session=session,
    )
