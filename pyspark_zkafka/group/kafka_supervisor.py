"""The client of a member in Kafka: subscribes it, checks its admission, and replaces it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from pyspark_zkafka.brokers.group_consumer import GroupConsumer, GroupEvent
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.kafka_checks import (
    CHECK_TIMEOUT_S,
    AdmissionCheck,
    FinalAssignment,
    JoinWatchdog,
    Pauses,
    SubscribedTopics,
)
from pyspark_zkafka.group.kafka_ownership import Ownership
from pyspark_zkafka.model.planning import Subscription

_log = logging.getLogger(__name__)

Connect: TypeAlias = Callable[[Callable[[GroupEvent], None]], GroupConsumer]
"""Makes a client, which reports its events to the argument."""


class ClientSupervisor:
    """Keeps a client in its group, and replaces a client that can no longer be used.

    The member's thread calls all methods but `open`, which comes before, and `request_rejoin`. Errors are noted in
    `ownership`, and the next call tries again.
    """

    client: GroupConsumer
    """The present client, from `open` on."""
    _on_event: Callable[[GroupEvent], None]

    def __init__(
        self,
        connect: Connect,
        subscription: Subscription,
        ownership: Ownership,
        final: FinalAssignment,
        clock: Callable[[], float],
        *,
        is_consumer_protocol: bool,
        pauses: Pauses,
    ) -> None:
        self._connect = connect
        self._ownership = ownership
        self._final = final
        self._clock = clock
        self._is_consumer_protocol = is_consumer_protocol
        self._topics = SubscribedTopics(subscription, pauses)
        self._watchdog = JoinWatchdog(pauses.join_s)
        self._admission = AdmissionCheck(pauses.check_s)
        self._must_rejoin = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to which the client is subscribed."""
        return self._topics.names

    def open(self, on_event: Callable[[GroupEvent], None]) -> None:
        """Make the first client, which reports to `on_event`. Raises ZKafkaError if librdkafka refuses the properties."""
        self._on_event = on_event
        self.client = self._connect(on_event)
        self.client.open()
        self._admission.postpone(self._clock())

    def request_rejoin(self) -> None:
        """Have the next call of `subscribe` leave the group and join it again."""
        self._must_rejoin = True

    def subscribe(self) -> None:
        """Subscribe the client if the topics have changed. Blocks for a request if a pattern must be looked up."""
        now = self._clock()
        if not self._topics.is_due(now) and not self._must_rejoin:
            return
        own = self._ownership
        try:
            if self._must_rejoin:
                _log.info("%s rejoins its group, which left partitions without an owner", own.name)
                self.client.subscribe(())
                self._must_rejoin = False
                self._topics.forget()
            topics = self._topics.look_up(now, self.client.topic_names)
            if topics is None:
                return
            if topics != self._topics.names:
                self._topics.names = topics
                own.change(replace(own.state, is_assigned=False))
                self.client.subscribe(topics)
            if not topics:
                own.state = replace(own.state, is_assigned=True)
                self._final.accept(own.state.rebalances)
        except ZKafkaError as error:
            own.note_error(error)

    def check_client(self) -> None:
        """Replace a client that waits for a lost answer, or that may send an old commit with the next generation."""
        self._check_join()
        if self._ownership.state.must_replace_client:
            self._replace_client()

    def _check_join(self) -> None:
        """Give up a client whose join takes too long. A failed client stays: a static one would fence its successor."""
        own = self._ownership
        if own.state.is_assigned or not self.topics or self._is_consumer_protocol:
            self._watchdog.reset()
        elif (own.error is None or own.error.retriable) and self._watchdog.is_overdue(
            self._clock(), own.changed_at, self._has_topic
        ):
            own.warn("joining takes long; a new client joins, since an answer of the coordinator may be lost")
            own.change(replace(own.state.expel(), must_replace_client=True))

    def _has_topic(self) -> bool:
        """False if no subscribed topic exists. Blocks for a request, for at most a second."""
        try:
            return not set(self.topics).isdisjoint(self.client.topic_names())
        except ZKafkaError:
            return True

    def _replace_client(self) -> None:
        own = self._ownership
        try:
            client = self._connect(self._on_event)
            client.open()
        except ZKafkaError as error:
            own.note_error(error)
            return
        own.state = replace(own.state, must_replace_client=False)
        self.client.discard()
        self.client = client
        self._topics.forget()

    def check_admission(self) -> None:
        """Check the admission of a client without an assignment. Blocks for some seconds without a coordinator."""
        own = self._ownership
        is_needed = self._is_consumer_protocol and not own.state.is_assigned and bool(self.topics)
        if is_needed and not self._admission.is_due(self._clock()):
            return
        ask = self._final.ask
        if is_needed and ask is not None:
            own.consumer = self.client.member_id
            try:
                answer = self._admission.ask(
                    lambda: ask(own.consumer, own.state.claims.keys(), self.topics, CHECK_TIMEOUT_S)
                )
                if answer:
                    own.state = replace(own.state, is_assigned=True, is_member=True)
                    self._final.accept(own.state.rebalances)
                if answer is not None:
                    own.changed.set()
            except ZKafkaError as error:
                own.note_error(error)
        self._admission.postpone(self._clock())
