"""The real direct sender in random schedules against scripted brokers, and mistakes that these find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.producing import Produce, ProducerId, Producing
from pyspark_zkafka.records.direct import leaders, sender
from pyspark_zkafka.records.direct.leaders import LeaderConnections
from pyspark_zkafka.records.native.record_encoder import EncodedBatch
from pyspark_zkafka.wire import protocol
from tests.simulation.direct_writes import DirectSchedule
from tests.support.tiers import seldom

MOST_SCHEDULES = 600


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_METADATA_PAUSE_S", 0.002)
    monkeypatch.setattr(sender, "_SETUP_S", 0.5)
    monkeypatch.setattr(leaders, "_LATE_RESPONSE_S", 0.5)


def ends(seeds: Iterable[int]) -> Iterator[bool]:
    """Run schedules, several at a time because they mostly wait."""

    def ended(seed: int) -> bool:
        try:
            return DirectSchedule(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error

    with ThreadPoolExecutor(6) as threads:
        yield from threads.map(ended, seeds)


@pytest.mark.parametrize("seeds", [range(100), *seldom(range(100, 1_000))], ids=len)
def test_schedules(seeds: range) -> None:
    """All rows are written once and in order; a failed write has written at least what it acknowledged."""
    found = list(ends(seeds))
    assert found.count(True) > 0.8 * len(found)
    assert found.count(False) > 0


def acknowledge_without_an_answer(patch: pytest.MonkeyPatch) -> None:
    answer = Producing.answer

    def wrong(self: Producing, number: int, broker: int, codes: Any, *more: Any) -> None:
        request = self._requests_in_flight.get(broker, {}).get(number)
        every = {batch.partition: NONE for batch in request.batches} if request is not None else {}
        answer(self, number, broker, {**every, **codes}, *more)

    patch.setattr(Producing, "answer", wrong)


def take_any_response_for_the_next(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol.Request, "read_header", lambda self, response, correlation_id: response.int32())


def seal_with_another_producer(patch: pytest.MonkeyPatch) -> None:
    sealed = EncodedBatch.sealed
    patch.setattr(EncodedBatch, "sealed", lambda self, producer, first: sealed(self, ProducerId(id(self), 0), 0))


def forget_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Producing, broker: int, now: float) -> None:
        for request in self._requests_in_flight.pop(broker, {}).values():
            for batch in request.batches:
                self._end(batch, NONE, now)

    patch.setattr(Producing, "lose", wrong)


def send_twice(patch: pytest.MonkeyPatch) -> None:
    send = LeaderConnections.send

    def wrong(self: LeaderConnections, request: Produce) -> None:
        producer = self._producing.producer
        send(self, request)
        if producer is not None and request.number % 7 == 0:
            send(self, request._replace(producer=producer._replace(epoch=producer.epoch + 1)))

    patch.setattr(LeaderConnections, "send", wrong)


MISTAKES = (
    acknowledge_without_an_answer,
    take_any_response_for_the_next,
    seal_with_another_producer,
    forget_what_is_in_flight,
    send_twice,
)


@pytest.mark.long
@pytest.mark.parametrize("plant", MISTAKES)
def test_mistakes_are_found(monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Schedules find each planted mistake."""
    plant(monkeypatch)
    for first in range(0, MOST_SCHEDULES, 20):
        try:
            list(ends(range(first, first + 20)))
        except (AssertionError, ValueError, KeyError, IndexError):
            return
    pytest.fail(f"{plant.__name__} is not found in {MOST_SCHEDULES} schedules")
