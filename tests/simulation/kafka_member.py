"""The real member of a Kafka group, with an in-memory coordinator: its turns and its planner's are taken one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any

from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.group.kafka_loop import MemberLoop
from pyspark_zkafka.group.kafka_member import KafkaGroupMember
from pyspark_zkafka.group.kafka_requests import not_running
from pyspark_zkafka.group.kafka_state import is_final
from pyspark_zkafka.group.offsets import KafkaMemberOffsets
from pyspark_zkafka.model.nouns import Claim, TopicPartition
from pyspark_zkafka.options.values import StreamOptions
from pyspark_zkafka.retries import Retry, Timing
from tests.simulation.cluster import Cluster
from tests.simulation.coordinator import ClassicCoordinator, Coordinator, Partitions
from tests.simulation.group_clients import AWAY, ClassicClient, Client, ConsumerClient
from tests.simulation.query import SessionOfValues

__all__ = ["KafkaMember", "KafkaSession"]

Pass = Callable[[float], None]
"""Lets seconds pass, during which others act."""

_WAIT_S = 0.25


class Turns:
    """Runs the loop of a member without a thread: turn by turn, also while a caller waits."""

    def __init__(self, loop: MemberLoop, clock: Callable[[], float], pass_time: Pass) -> None:
        self.loop = loop
        self.on_release: Callable[[Collection[TopicPartition], float, float], None] = lambda *how: None
        self.has_started = self.is_running = False
        self._clock = clock
        self._pass = pass_time
        self._began_at = self._acted_at = self._held_s = 0.0

    @property
    def client(self) -> Client:
        client: Any = self.loop.supervisor.client
        return client  # type: ignore[no-any-return]

    def start(self) -> None:
        self.has_started = self.is_running = True

    def stop(self) -> None:
        self.is_running = False
        if self.has_started:
            self.loop.end()

    def beat(self) -> None:
        """Let the client do its work in the background."""
        if self.has_started:
            self.client.beat()

    def act(self) -> None:
        """Take a turn, or a part of one while a revocation waits."""
        if not self.is_running:
            return
        now = self._clock()
        if self.client.revoking is None:
            self.loop.begin_iteration()
            self._began_at, self._held_s = now, 0.0
        else:
            self.loop.serve_while_holding()
            self._held_s += min(now - self._acted_at, 1.0)
        self._acted_at = now
        if self.client.revoking is not None and not self.loop.ownership.is_holding:
            self.on_release(self.client.revoking, now - self._began_at, self._held_s)
            self.loop.ownership.end_revocation()
            self.client.released()
            self.client.poll()  # the call that contained the revocation continues to the assignment after it
        if self.client.revoking is None:
            self.loop.end_iteration()

    def wait(self, timeout_s: float) -> None:
        self._pass(timeout_s)

    def result(self, answer: Future[Any], timeout_s: float) -> Any:
        until = self._clock() + timeout_s
        self.act()
        while not answer.done():
            if not self.is_running:
                raise not_running("g")
            if self._clock() > until:
                raise BrokersUnavailable("BROKERS_UNAVAILABLE", "the member did not answer")
            self._pass(_WAIT_S)
        return answer.result()


class KafkaMember(KafkaGroupMember):
    """A member without a thread: it takes its `turns` one by one."""

    planned: Collection[TopicPartition] = ()
    """The partitions that were owned when the planner last asked."""

    def __init__(
        self,
        options: StreamOptions,
        coordinator: Coordinator,
        new_id: Callable[[], str],
        chance: random.Random,
        is_calm: Callable[[], bool],
        on_assign: Callable[[Client, Partitions], None],
        pass_time: Pass,
    ) -> None:
        def connect(on_event: Any) -> Client:
            kind = ClassicClient if isinstance(coordinator, ClassicCoordinator) else ConsumerClient
            return kind(coordinator, self.turns.loop, new_id, chance, is_calm, on_assign, group.kafka.instance_id or "")

        def new_turns(loop: MemberLoop) -> Turns:
            self.turns = Turns(loop, coordinator.clock, pass_time)
            return self.turns

        def look(member_id: str, owned: Collection[TopicPartition], topics: Collection[str], _: object) -> bool:
            if not coordinator.is_available:
                raise AWAY
            partitions = [tp for tp in coordinator.cluster.partitions() if tp.topic in topics]
            return coordinator.is_stable and is_final(coordinator.described(), member_id, owned, partitions)

        group, subscription = options.group, options.read.subscription
        assert group is not None
        assert subscription is not None
        timing = Timing(coordinator.clock, coordinator.clock, lambda: 0.0, pass_time)
        looks = look if group.kafka.is_incremental or group.kafka.instance_id else None
        super().__init__(group, subscription, connect, looks, timing, run=new_turns)

    def rebalance(self) -> Mapping[TopicPartition, Claim]:
        owned = super().rebalance()
        self.planned = owned.keys()
        return owned


class StoredOfValues:
    """In-memory stand-in for `KafkaGroupOffsets`: the coordinator's offsets, before whose reading others act."""

    def __init__(self, coordinator: Coordinator, turn: Callable[[], None]) -> None:
        self._coordinator = coordinator
        self._turn = turn

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self._turn()
        if not self._coordinator.is_available:
            raise AWAY
        stored = self._coordinator.offsets
        return {tp: stored[tp] for tp in partitions if tp in stored}


class KafkaSession(SessionOfValues):
    """In-memory stand-in for the `StreamSession` of a member."""

    def __init__(
        self,
        options: StreamOptions,
        cluster: Cluster,
        member: KafkaMember,
        is_stale: Callable[[], bool],
        stored: StoredOfValues,
        pass_time: Pass,
    ) -> None:
        super().__init__(options, cluster, member, is_stale)
        self._member_offsets = stored
        self.retry = Retry(3, 1.0, pass_time)

    def group_offsets(self) -> KafkaMemberOffsets:
        return KafkaMemberOffsets(self.member, self._member_offsets)
