"""Checks that a member in Kafka makes itself, because librdkafka does not: topics, joins, admission, final assignments.

Each check receives the time as an argument, and only decides. `pyspark_zkafka.group.kafka_supervisor` acts on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.kafka_state import MemberState
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe, Subscription, requested_topics

CHECK_TIMEOUT_S = 4.0  # below the pause after which ownership counts as doubtful
_REFUSALS = 3  # a coordinator may refuse a member at first, and admit it a moment later
_PATIENCE_GROWTH = 4

IsFinal: TypeAlias = Callable[[str, Collection[TopicPartition], Collection[str], float], bool]
"""Asks the coordinator whether a member's assignment is final.

The arguments are the member's id, owned partitions and topics, and the time-out of a request in seconds. The call blocks,
and raises ZKafkaError for a member that the coordinator does not admit.
"""


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long a member in Kafka waits, in seconds."""

    lookup_s: float = 5.0  # between two lookups of a pattern's topics
    confirm_s: float = 2.0  # before a lookup that found fewer topics is repeated
    join_s: float = 60.0  # for the first assignment of a client
    check_s: float = 1.5  # between two checks of the admission
    finish_s: float = 2.0  # for a pending join, when the member leaves
    margin_s: float = 15.0  # in addition to the hold, or to the time-out of a request


class SubscribedTopics:
    """The topics to which a client is subscribed. A pattern is resolved again every few seconds."""

    def __init__(self, subscription: Subscription, pauses: Pauses) -> None:
        self.names: tuple[str, ...] = ()
        self._subscription = subscription
        self._is_named = isinstance(subscription, Subscribe)
        self._pauses = pauses
        self._looked_up: tuple[str, ...] | None = None
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """True if the topics must be looked up. Named topics are looked up once for each client."""
        return now >= self._due

    def forget(self) -> None:
        """Start with a client that has no subscription. The topics must be looked up."""
        self.names = ()
        self._due = 0.0

    def look_up(self, now: float, topic_names: Callable[[], Collection[str]]) -> tuple[str, ...] | None:
        """Look up the topics to subscribe to. Returns None if another lookup must confirm that topics are gone.

        `topic_names` lists all topics of the cluster. A broker that has just started may list none.

        >>> from pyspark_zkafka.model.planning import SubscribePattern
        >>> topics = SubscribedTopics(SubscribePattern("t.*"), Pauses())
        >>> topics.names = topics.look_up(0.0, lambda: ["t1", "t2", "u"])
        >>> topics.names, topics.is_due(4.9), topics.is_due(5.0)
        (('t1', 't2'), False, True)
        >>> topics.look_up(5.0, list), topics.is_due(7.0), topics.look_up(7.0, list)
        (None, True, ())
        """
        self._due = float("inf") if self._is_named else now + self._pauses.lookup_s
        found = tuple(requested_topics(self._subscription, () if self._is_named else topic_names()))
        before, self._looked_up = self._looked_up, found
        has_fewer = not found or not {*found}.issuperset(self.names)
        if has_fewer and found != before and not self._is_named:
            self._due = now + self._pauses.confirm_s
            return None
        return found


class JoinWatchdog:
    """Finds clients of the classic protocol whose join does not end.

    librdkafka waits for a lost answer to its join for `max.poll.interval.ms`. Other members may need as long to rejoin, and
    a new client must not disturb them: each client gets twice the time of the client before it.
    """

    def __init__(self, join_s: float) -> None:
        self._join_s = self._patience_s = join_s
        self._waited_until = 0.0
        self._lacks_topics = False

    def reset(self) -> None:
        """Give the next client the shortest time. The present client has an assignment, or nothing to join."""
        self._patience_s, self._lacks_topics = self._join_s, False

    def is_overdue(self, now: float, changed_at: float, has_topic: Callable[[], bool]) -> bool:
        """Return True if the client must be replaced. `changed_at` is the time of the last change of the assignment.

        A client joins only once one of its topics exists, and has the whole time from then on.

        >>> watchdog = JoinWatchdog(60.0)
        >>> [watchdog.is_overdue(now, 0.0, lambda: True) for now in (59.0, 60.0)]
        [False, True]
        >>> [watchdog.is_overdue(now, 60.0, lambda: True) for now in (179.0, 180.0)]
        [False, True]
        """
        if now < max(changed_at, self._waited_until) + self._patience_s:
            return False
        lacked_topics, self._lacks_topics = self._lacks_topics, not has_topic()
        if lacked_topics or self._lacks_topics:
            self._waited_until = now
            return False
        self._patience_s *= 2
        return True


class AdmissionCheck:
    """Finds out whether the coordinator has admitted a member and assigns it nothing.

    With KIP-848, no callback reports that. A coordinator without KIP-848 refuses the member.
    """

    def __init__(self, check_s: float) -> None:
        self._check_s = check_s
        self._due = 0.0
        self._refusals = 0

    def postpone(self, now: float) -> None:
        """Check next after a pause."""
        self._due = now + self._check_s

    def is_due(self, now: float) -> bool:
        """True after the pause."""
        return now >= self._due

    def ask(self, is_final: Callable[[], bool]) -> bool | None:
        """Ask the coordinator whether the assignment is final. Returns None if it refuses the member.

        Raises retriable errors, and the third refusal in a row.
        """
        try:
            answer = is_final()
        except ZKafkaError as error:
            self._refusals += 1
            if error.retriable or self._refusals >= _REFUSALS:
                raise
            return None
        self._refusals = 0
        return answer


class FinalAssignment:
    """The last assignment that was final, by its number: how often the assignment had changed.

    `ask` is None if every assignment is final. Any thread may call the methods.

    A static member rejoins if its assignment is not final for `stall_s`. Nobody is assigned partitions and topics that were
    added while the member restarted: its return causes no rebalance, and its client sees no change of metadata.
    """

    def __init__(self, ask: IsFinal | None, stall_s: float) -> None:
        self.ask = ask
        self._stall_s = self._patience_s = stall_s
        self._number = -1
        self._pending: tuple[int, float] | None = None  # an assignment that is not final, and the time of the first check

    def accept(self, number: int) -> None:
        """Note that an assignment is final."""
        self._number = number

    def covers(self, state: MemberState) -> bool:
        """True if the present assignment is final."""
        return state.is_assigned and (self.ask is None or self._number == state.rebalances)

    def judge(self, number: int, now: float, *, is_final: bool) -> bool:
        """Note the coordinator's answer. Returns True if the member must rejoin.

        Each rejoin rebalances the whole group, and a leader with old metadata assigns nothing new for minutes. Each rejoin
        therefore comes later than the one before.

        >>> final = FinalAssignment(lambda *asked: False, stall_s=10.0)
        >>> [final.judge(1, now, is_final=False) for now in (0.0, 9.0, 10.0)]
        [False, False, True]
        >>> [final.judge(2, now, is_final=False) for now in (11.0, 50.0, 51.0)]
        [False, False, True]
        """
        if is_final:
            self.accept(number)
            self._patience_s = self._stall_s
        elif self._pending is None or self._pending[0] != number:
            self._pending = number, now
        elif now - self._pending[1] >= self._patience_s:
            self._pending = None
            self._patience_s *= _PATIENCE_GROWTH
            return True
        return False
