"""When a member by KIP-848 looks whether it is admitted."""

from __future__ import annotations

from pyspark_zkafka.errors import BrokersUnavailable, GroupError
from pyspark_zkafka.group.kafka_admission import Admission

REFUSED = GroupError("GROUP_PROTOCOL_UNSUPPORTED", "no")


def test_pause() -> None:
    """A look is due a while after the last one."""
    looked = Admission().postpone(10.0)
    assert not looked.is_due(11.4)
    assert looked.is_due(11.5)


def test_refusals() -> None:
    """A refusal is reported when it was repeated, without an answer in between; an error that passes is at once."""
    once, is_reported = Admission().fail(REFUSED)
    assert not is_reported
    twice, is_reported = once.fail(REFUSED)
    assert not is_reported
    assert twice.fail(REFUSED)[1]
    assert not twice.answer().fail(REFUSED)[1]
    assert Admission().fail(BrokersUnavailable("BROKERS_UNAVAILABLE", "no answer"))[1]
