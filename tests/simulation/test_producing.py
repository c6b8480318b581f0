"""Random schedules of an idempotent producer, and mistakes that these find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from pyspark_zkafka.model import producing
from pyspark_zkafka.model.producing import Batch, Producing
from tests.simulation.producing import Schedule
from tests.support.tiers import repetitions, seldom

SCHEDULES = repetitions(1_500, everyday=300)
MOST_SCHEDULES = 5_000


def test_schedules() -> None:
    """Acknowledged records are in the log once and in order; records reported as unwritten are not in it."""
    ends = Counter(schedule.run().failed is None for schedule in map(Schedule, range(SCHEDULES)))
    assert ends[True] > SCHEDULES / 2
    assert ends[False] > SCHEDULES / 50


def retry_with_a_new_sequence(patch: pytest.MonkeyPatch) -> None:
    put_back = producing._Partition.put_back

    def wrong(self: producing._Partition, batch: Batch) -> None:
        put_back(self, batch)
        batch.sequence = None

    patch.setattr(producing._Partition, "put_back", wrong)


def retry_while_others_are_in_flight(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing._Partition, "is_retrying", False)


def retry_after_the_others(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: producing._Partition, batch: Batch) -> None:
        self.in_flight.remove(batch)
        self.waiting.append(batch)

    patch.setattr(producing._Partition, "put_back", wrong)


def take_duplicates_for_errors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing, "DUPLICATE", -99)


def fail_a_batch_behind_a_refused_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing, "_is_before", lambda first, second: False)


def call_lost_batches_unwritten(patch: pytest.MonkeyPatch) -> None:
    end = Producing._end

    def wrong(self: Producing, batch: Batch, code: int | None, now: float) -> None:
        end(self, batch, code, now)
        batch.may_be_written = False

    patch.setattr(Producing, "_end", wrong)


def send_more_than_brokers_remember(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing, "MOST_IN_FLIGHT", 12)


def renew_the_producer_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing._Partition, "is_ambiguous", False)


def never_wrap_sequences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing, "SEQUENCES", 2**62)


def drop_lost_requests(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Producing, broker: int, now: float) -> None:
        for request in self._requests_in_flight.pop(broker, {}).values():
            for batch in request.batches:
                self._end(batch, producing.NONE, now)

    patch.setattr(Producing, "lose", wrong)


def retry_what_the_broker_refuses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing, "RETRIABLE", frozenset({*range(200)}))


def send_the_second_half_first(patch: pytest.MonkeyPatch) -> None:
    halves = Schedule.halves
    patch.setattr(Schedule, "halves", lambda self, batch: halves(self, batch)[::-1])


def change_after_a_split(patch: pytest.MonkeyPatch, change: Callable[[producing._Partition], None]) -> None:
    next_of = Producing._next

    def wrong(self: Producing, partition: producing._Partition) -> Batch:
        before = len(partition.waiting)
        found = next_of(self, partition)
        if len(partition.waiting) > before:
            change(partition)
        return found

    patch.setattr(Producing, "_next", wrong)


def give_the_second_half_a_new_sequence(patch: pytest.MonkeyPatch) -> None:
    change_after_a_split(patch, lambda partition: setattr(partition.waiting[1], "sequence", None))


def call_halves_unwritten(patch: pytest.MonkeyPatch) -> None:
    def change(partition: producing._Partition) -> None:
        for batch in partition.waiting:
            batch.may_be_written = False

    change_after_a_split(patch, change)


def split_what_may_be_written(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Producing, batch: Batch) -> bool:
        refused = self._refused_bytes.get(batch.partition.topic)
        return batch.records > 1 and refused is not None and batch.size_bytes >= refused

    patch.setattr(Producing, "_must_split", wrong)


def never_split(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producing, "_TOO_LARGE", frozenset())


MISTAKES = (
    send_the_second_half_first,
    give_the_second_half_a_new_sequence,
    call_halves_unwritten,
    split_what_may_be_written,
    never_split,
    retry_with_a_new_sequence,
    retry_while_others_are_in_flight,
    retry_after_the_others,
    take_duplicates_for_errors,
    fail_a_batch_behind_a_refused_one,
    call_lost_batches_unwritten,
    send_more_than_brokers_remember,
    *seldom(renew_the_producer_at_once),
    never_wrap_sequences,
    drop_lost_requests,
    retry_what_the_broker_refuses,
)


@pytest.mark.parametrize("plant", MISTAKES)
def test_mistakes_are_found(monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Schedules find each planted mistake."""
    plant(monkeypatch)
    for seed in range(MOST_SCHEDULES):
        try:
            Schedule(seed).run()
        except (AssertionError, ValueError):
            return
    pytest.fail(f"{plant.__name__} is not found in {MOST_SCHEDULES} schedules")
