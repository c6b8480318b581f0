"""What a member in Kafka owns, without a client and without a thread."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from pyspark_zkafka.errors import BrokersUnavailable, GroupError, UnknownTopic
from pyspark_zkafka.group.kafka_ownership import Ownership
from pyspark_zkafka.group.kafka_state import PendingCommit
from pyspark_zkafka.model.nouns import TopicPartition
from tests.support.clock import Clock
from tests.support.options import group_options, kafka_group_options

T0, T1 = (TopicPartition("t", n) for n in range(2))
AWAY = BrokersUnavailable("BROKERS_UNAVAILABLE", "the coordinator moves")


def assigned(clock: Clock, **kafka: Any) -> Ownership:
    """Return the ownership of two partitions, which its caller knows about."""
    own = Ownership(group_options("g", membership="kafka", kafka=kafka_group_options(**kafka)), clock)
    own.start_iteration()
    own.assign([T0, T1], "c-1")
    own.changed.clear()
    return own


def test_assignment() -> None:
    """An assignment names the member, ends an error, and wakes waiting threads."""
    own = Ownership(group_options("g", membership="kafka", kafka=kafka_group_options(instance_id="one")), Clock(1.0))
    assert own.name == "one"
    assert own.owned() == {}
    own.note_error(GroupError("REFUSED", "no"))
    own.changed.clear()
    own.start_iteration()
    own.assign([T0], "c-1")
    assert own.name == "c-1"
    assert own.owned().keys() == {T0}
    assert own.error is None
    assert own.changed_at == 1.0
    assert own.changed.is_set()


def test_hold() -> None:
    """A revocation waits for partitions that are being read, until the hold ends or the member leaves."""
    clock = Clock(1.0)
    own = assigned(clock, hold_ms=5000)
    own.reading = frozenset([T0])
    own.begin_revocation([T0])
    assert own.is_holding
    clock.now += 5
    assert not own.is_holding
    clock.now -= 1
    own.is_leaving = True
    assert not own.is_holding
    own.is_leaving, own.reading = False, frozenset([T1])
    assert not own.is_holding
    own.end_revocation()
    assert own.owned().keys() == {T1}
    assert own.changed.is_set()


@pytest.mark.parametrize(("protocol", "is_assigned"), [("classic", False), ("consumer", True)])
def test_assignment_after_a_revocation(protocol: str, is_assigned: bool) -> None:
    """In the classic protocol, an assignment follows each revocation. With KIP-848, none may follow."""
    own = assigned(Clock(1.0), protocol=protocol)
    own.begin_revocation([T0])
    own.end_revocation()
    assert own.state.is_assigned is is_assigned


def test_revocation_within_a_commit(caplog: pytest.LogCaptureFixture) -> None:
    """A member that releases a partition before the answer to its commit loses all, and must replace its client."""
    own = assigned(Clock(1.0), hold_ms=0)
    commit = PendingCommit(1, {T0: 5}, incarnation=0, deadline=30.0, sent={T0: 5})
    own.state = replace(own.state, commits=own.state.commits.add(commit))
    own.begin_revocation([T0])
    own.end_revocation()
    assert own.owned() == {}
    assert own.state.must_replace_client
    assert own.state.incarnation == 1
    assert "c-1 released partitions before their commit was answered, and joins again. Records of t-1" in caplog.text


def test_expulsion(caplog: pytest.LogCaptureFixture) -> None:
    """A lost assignment is logged if the member owned anything."""
    own = assigned(Clock(1.0))
    own.lose()
    own.lose()
    assert own.owned() == {}
    (text,) = caplog.messages
    assert text == "c-1 was expelled from group g, and joins again. Records of t-0, t-1 may be read twice"


def test_leaving(caplog: pytest.LogCaptureFixture) -> None:
    """A member that leaves owns nothing, and logs nothing."""
    own = assigned(Clock(1.0))
    own.leave()
    assert own.owned() == {}
    assert caplog.messages == []


def test_pause_of_the_process(caplog: pytest.LogCaptureFixture) -> None:
    """After a pause of the process, the ownership is in doubt for two seconds from the next iteration on."""
    clock = Clock(1.0)
    own = assigned(clock)
    clock.now += 7.5
    assert own.is_doubtful
    own.start_iteration()
    assert own.owned() == {}
    assert "c-1 did not run for 7.5 s, and checks whether it is still a member" in caplog.text
    clock.now += 2
    own.start_iteration()
    assert not own.is_doubtful
    assert own.owned().keys() == {T0, T1}


def test_errors(caplog: pytest.LogCaptureFixture) -> None:
    """A retriable error is logged, and every error is kept and wakes waiting threads, unless a topic is missing."""
    own = assigned(Clock(1.0))
    own.note_error(None)
    own.note_error(UnknownTopic("UNKNOWN_TOPIC", "t is not there"))
    assert own.error is None
    assert not own.changed.is_set()
    refused = GroupError("REFUSED", "no")
    for error in (AWAY, refused):
        own.note_error(error)
        assert own.error is error
    assert own.changed.is_set()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
