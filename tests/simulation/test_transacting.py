"""Random schedules of transactions that commit rows and an offset together or not at all, and mistakes that these find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct import transactions
from pyspark_zkafka.records.direct.producer_messages import Answer, InitProducerId, Message
from pyspark_zkafka.records.direct.transactions import DirectTransactions, StepFailed
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.group_messages import Coordinator
from tests.simulation.transacting import Attempt, Schedule

SCHEDULES = 3_000
MOST_SCHEDULES = 6_000


def test_schedules() -> None:
    """After a commit, rows and offset are visible once. After a failure before it, nothing is visible or open."""
    outcomes = Counter(outcome for seed in range(SCHEDULES) for outcome in Schedule(seed).run())
    assert outcomes["committed"] > SCHEDULES / 2
    assert outcomes["failed before the commit"] > SCHEDULES / 20
    assert outcomes["failed in the commit"] > 0


def abort_with_rows_on_their_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "drain", lambda self, timeout_s: True)


def never_add_partitions(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: DirectTransactions, partitions: Collection[TopicPartition], timeout_s: float) -> bool:
        self._is_known_to_brokers = True
        self._sender.register(partitions)
        return True

    patch.setattr(DirectTransactions, "add_partitions", wrong)


def never_end_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DirectTransactions, "_is_known_to_brokers", property(lambda self: False, lambda self, value: None), False)


def take_fencing_for_a_moved_coordinator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions, "_RETRIABLE", transactions._RETRIABLE | {47, 90})


def take_time_outs_for_success(patch: pytest.MonkeyPatch) -> None:
    ask = Attempt.ask

    def wrong(
        self: Attempt, coordinator: Coordinator, message: Message, protocol: int, deadline: Deadline
    ) -> Answer | None:
        found = ask(self, coordinator, message, protocol, deadline)
        timed_out = found is not None and found.error == 7 and not isinstance(message, InitProducerId)
        return Answer(0) if timed_out else found

    patch.setattr(Attempt, "ask", wrong)


def register_again_after_fencing(patch: pytest.MonkeyPatch) -> None:
    def wrong(code: int) -> StepFailed:
        return StepFailed(code, is_retriable=True)

    patch.setattr(transactions, "_fatal_or_abortable", wrong)


def never_add_offsets(patch: pytest.MonkeyPatch) -> None:
    init = DirectTransactions.__init__

    def wrong(self: DirectTransactions, *args: object) -> None:
        init(self, *args)  # type: ignore[arg-type]
        self._added_group = "g"

    patch.setattr(DirectTransactions, "__init__", wrong)


def take_requested_groups_for_added(patch: pytest.MonkeyPatch) -> None:
    add = DirectTransactions._add_group

    def wrong(self: DirectTransactions, group: str, timeout_s: float) -> None:
        if not self._is_group_requested:
            add(self, group, timeout_s)

    patch.setattr(DirectTransactions, "_add_group", wrong)


def keep_the_epoch(patch: pytest.MonkeyPatch) -> None:
    init = DirectTransactions.init

    def wrong(self: DirectTransactions, transactional_id: str, timeout_s: float) -> None:
        if self._producer is None:
            init(self, transactional_id, timeout_s)

    patch.setattr(DirectTransactions, "init", wrong)


MISTAKES = (
    keep_the_epoch,
    abort_with_rows_on_their_way,
    never_add_partitions,
    never_end_transactions,
    take_fencing_for_a_moved_coordinator,
    take_time_outs_for_success,
    register_again_after_fencing,
    never_add_offsets,
    take_requested_groups_for_added,
)


@pytest.mark.parametrize("plant", MISTAKES)
def test_mistakes_are_found(monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Schedules find each planted mistake."""
    plant(monkeypatch)
    for seed in range(MOST_SCHEDULES):
        try:
            Schedule(seed).run()
        except (AssertionError, RuntimeError):
            return
    pytest.fail(f"{plant.__name__} is not found in {MOST_SCHEDULES} schedules")
