"""A group member whose thread and planner act in turns: real claims on an in-memory ensemble."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark_zkafka.errors import ZooKeeperError
from pyspark_zkafka.group.assignment import RebalanceStep, step
from pyspark_zkafka.group.claims import Claims
from pyspark_zkafka.group.registration import create_owner_znodes
from pyspark_zkafka.model.assignors import Subscribers, assign
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.model.znodes.groups import consumer_of_thread
from tests.simulation.cluster import Cluster
from tests.simulation.ensemble import Session

GROUP = "g"
IDS = f"/consumers/{GROUP}/ids"
HOLD = 10
"""How long a member keeps partitions that it reads, in the ensemble's time."""


class Member:
    """In-memory stand-in for `GroupMember`, for one session.

    Parameters
    ----------
    topics : collection of str
        The topics that the subscription names; empty for a pattern, which matches all topics.
    """

    group = GROUP

    def __init__(self, consumer: str, session: Session, cluster: Cluster, topics: Collection[str]) -> None:
        self.consumer = consumer
        self.session = session
        self._cluster = cluster
        self._topics = topics
        self._claims = Claims(session, GROUP)  # type: ignore[arg-type]
        self._reading: frozenset[TopicPartition] = frozenset()
        self._step = RebalanceStep()
        self.settled = False

    @property
    def by_name(self) -> bool:
        return bool(self._topics)

    @property
    def owner(self) -> ClaimOwner:
        return ClaimOwner(self.consumer, self.session.session_id)

    def join(self) -> None:
        """Register, and create the znodes of the subscribed topics."""
        self.session.ensemble.ensure(f"/consumers/{GROUP}")
        self.session.ensemble.ensure(IDS)
        self.session.ensemble.ensure(f"/consumers/{GROUP}/owners")
        self.register()
        create_owner_znodes(self.session, GROUP, self._topics)  # type: ignore[arg-type]

    def register(self) -> None:
        """Create the ephemeral znode of the current session."""
        ensemble, path = self.session.ensemble, f"{IDS}/{self.consumer}"
        if path not in ensemble.nodes:
            from pyspark_zkafka.zookeeper.transactions import Create

            ensemble.apply([Create(path, b"", ephemeral=True)], self.session.session_id)

    def lose_session(self, session: Session) -> None:
        """Continue with another session; the claims of the last one are gone."""
        self.session.ensemble.expire(self.session.session_id)
        self._claims.forget()
        self.session = session
        self._claims = Claims(session, GROUP)  # type: ignore[arg-type]
        self.settled = False

    def owned(self) -> Mapping[TopicPartition, Claim]:
        return self._claims.owned

    def set_reading(self, partitions: Collection[TopicPartition]) -> None:
        self._reading = frozenset(partitions)

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        self.set_reading(())
        self.act()
        self._reading = frozenset(self.owned())
        return self.owned()

    def act(self) -> None:
        """Release and claim once, as the member's thread does; leave unanswered requests for later."""
        try:
            self._act()
        except ZooKeeperError:
            self.settled = False

    def _act(self) -> None:
        self.register()
        self._claims.verify(self.owner)
        now = float(self.session.ensemble.now_ms)
        self._step = step(self._target(), self._claims.owned, self._reading, self._step.revoking, now, HOLD)
        self._claims.release(self._step.release, self.owner)
        blockers = self._claims.claim(self._step.claim, self.owner)
        self.settled = not blockers and not self._step.revoking

    def _target(self) -> dict[TopicPartition, str]:
        members = self.session.ensemble.children(IDS)
        names = [name for name in self._cluster.announced if not self._topics or name in self._topics]
        numbers = {name: tuple(range(self._cluster.announced[name])) for name in names}
        threads = {name: tuple(f"{member}-0" for member in members) for name in names}
        everyones = assign("range", Subscribers(threads, numbers))
        return {tp: thread for tp, thread in everyones.items() if consumer_of_thread(thread) == self.consumer}

    def wait_settled(self) -> bool:
        for _ in range(3):
            self.session.turn()
            self.act()
        return self.settled

    def wait(self, timeout_s: float) -> None:
        pass

    def request_rebalance(self) -> None:
        self.settled = False
