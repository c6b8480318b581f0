"""Checks of a member in Kafka, each by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, GroupError, ZKafkaError
from pyspark_zkafka.group.kafka_checks import AdmissionCheck, FinalAssignment, JoinWatchdog, Pauses, SubscribedTopics
from pyspark_zkafka.group.kafka_state import MemberState
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe, SubscribePattern

T0 = TopicPartition("t", 0)
AWAY = BrokersUnavailable("BROKERS_UNAVAILABLE", "the coordinator moves")
REFUSED = GroupError("GROUP_PROTOCOL_UNSUPPORTED", "no")


def refuse() -> list[str]:
    """Fail as a client without a broker."""
    raise AWAY


def test_named_topics() -> None:
    """Named topics are looked up once for each client, without a request."""
    topics = SubscribedTopics(Subscribe(("b", "a")), Pauses())
    assert topics.is_due(0.0)
    assert topics.look_up(0.0, refuse) == ("a", "b")
    assert not topics.is_due(1e9)
    topics.forget()
    assert topics.is_due(0.0)


def test_topics_that_are_gone() -> None:
    """A lookup of a pattern that lacks topics counts once a second lookup agrees; one with more topics counts at once."""
    topics = SubscribedTopics(SubscribePattern("t.*"), Pauses(lookup_s=5.0, confirm_s=2.0))
    found, now = [], 0.0
    for listed in ([], ["t1"], ["t1", "t2"], ["t2"], ["t1", "t2"], ["t2"], ["t2"]):
        found.append(topics.look_up(now, lambda names=listed: names))
        topics.names = topics.names if found[-1] is None else found[-1]
        pause_s = 2.0 if found[-1] is None else 5.0
        assert not topics.is_due(now + pause_s - 0.1)
        now += pause_s
        assert topics.is_due(now)
    assert found == [None, ("t1",), ("t1", "t2"), None, ("t1", "t2"), None, ("t2",)]


def test_failed_lookup() -> None:
    """A lookup without an answer is repeated after the usual pause, and changes nothing."""
    topics = SubscribedTopics(SubscribePattern("t.*"), Pauses(lookup_s=5.0))
    topics.names = ("t1",)
    with pytest.raises(BrokersUnavailable):
        topics.look_up(10.0, refuse)
    assert topics.names == ("t1",)
    assert not topics.is_due(14.9)
    assert topics.is_due(15.0)


def test_patience_of_the_watchdog() -> None:
    """Each client has twice the time of the client before it, from the last change on; an assignment resets the time."""
    watchdog = JoinWatchdog(60.0)
    assert not watchdog.is_overdue(59.0, 0.0, lambda: True)
    assert watchdog.is_overdue(60.0, 0.0, lambda: True)
    assert not watchdog.is_overdue(179.0, 60.0, lambda: True)
    assert watchdog.is_overdue(180.0, 60.0, lambda: True)
    watchdog.reset()
    assert not watchdog.is_overdue(239.0, 180.0, lambda: True)
    assert watchdog.is_overdue(240.0, 180.0, lambda: True)


def test_watchdog_without_topics() -> None:
    """A client whose topics do not exist is not overdue. It has the whole time once a topic exists."""
    watchdog, exists = JoinWatchdog(60.0), iter([False, True, True])
    assert [watchdog.is_overdue(now, 0.0, lambda: next(exists)) for now in (60.0, 119.0, 120.0, 179.0, 180.0)] == [
        *[False] * 4,
        True,
    ]


def answers(*given: bool | ZKafkaError) -> Iterator[bool | ZKafkaError]:
    """Give the answers one by one."""
    yield from given


def test_refusals_of_an_admission() -> None:
    """The third refusal in a row is raised, and a retriable error at once. An answer starts the count again."""
    check = AdmissionCheck(1.5)
    given = answers(REFUSED, AWAY, False, REFUSED, REFUSED, REFUSED, True)

    def ask() -> bool:
        answer = next(given)
        if isinstance(answer, ZKafkaError):
            raise answer
        return answer

    found: list[object] = []
    for _ in range(7):
        try:
            found.append(check.ask(ask))
        except ZKafkaError as error:
            found.append(error)
    assert found == [None, AWAY, False, None, None, REFUSED, True]


def test_pause_of_an_admission() -> None:
    """A check is due after the pause."""
    check = AdmissionCheck(1.5)
    check.postpone(10.0)
    assert not check.is_due(11.4)
    assert check.is_due(11.5)


def test_final_assignment() -> None:
    """An assignment is final until the next change, and only while the member is assigned."""
    state, final = MemberState().assign([T0], "c"), FinalAssignment(lambda *asked: True, 10.0)
    assert not final.covers(state)
    assert not final.judge(state.rebalances, 0.0, is_final=True)
    assert final.covers(state)
    assert not final.covers(state.revoke([T0], until=9.0))
    assert not final.covers(state.assign([T0], "c"))


def test_without_a_question() -> None:
    """Every assignment is final if nobody is asked."""
    final = FinalAssignment(None, 10.0)
    assert not final.covers(MemberState())
    assert final.covers(MemberState().assign([T0], "c"))


def test_final_assignment_resets_the_patience() -> None:
    """A member rejoins after ten seconds, then after forty, and after a final assignment again after ten."""
    final = FinalAssignment(lambda *asked: False, 10.0)
    assert [final.judge(1, now, is_final=False) for now in (0.0, 9.9, 10.0)] == [False, False, True]
    assert [final.judge(2, now, is_final=False) for now in (11.0, 50.9, 51.0)] == [False, False, True]
    final.judge(3, 60.0, is_final=True)
    assert [final.judge(4, now, is_final=False) for now in (70.0, 79.9, 80.0)] == [False, False, True]
