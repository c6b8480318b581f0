"""The thread that owns the client of a member in Kafka, and takes its turns."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Protocol, TypeVar

from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.group.kafka_requests import not_running
from pyspark_zkafka.group.kafka_turns import TICK_S, MemberTurns
from pyspark_zkafka.group.member import Timing

__all__ = ["MemberThread", "Runner"]

T = TypeVar("T")

_CLOSE_S = 4.0
_LOOK_S = 0.5


class Runner(Protocol):
    """Whatever takes a member's turns, from `start` to `stop`, beside its callers."""

    @property
    def is_running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def wait(self, timeout_s: float) -> None: ...
    def result(self, answer: Future[T], timeout_s: float) -> T: ...


class MemberThread:
    """A daemon thread that takes a member's turns until it is told to stop, and then has it leave its group."""

    def __init__(self, turns: MemberTurns, group: str, timing: Timing) -> None:
        self._turns = turns
        self._group = group
        self._timing = timing
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """True from the start until the member has left."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin to take turns."""
        self._thread = threading.Thread(target=self._serve, name=f"zkafka-member-{self._group}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group; blocks for four seconds at the most, and the thread goes on leaving."""
        self._turns.requests.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)

    def wait(self, timeout_s: float) -> None:
        """Wait until the ownership may have changed, or the time is over."""
        self._turns.changed.wait(timeout_s)
        self._turns.changed.clear()

    def result(self, answer: Future[T], timeout_s: float) -> T:
        """The answer to a request; raises GroupError if the thread has ended, and BrokersUnavailable on time-out."""
        deadline = self._timing.clock() + timeout_s
        while True:
            try:
                return answer.result(_LOOK_S)
            except FutureTimeoutError:
                if not self.is_running:
                    raise not_running(self._group) from None
                if self._timing.clock() > deadline:
                    raise BrokersUnavailable(
                        "BROKERS_UNAVAILABLE",
                        f"The member of group {self._group} did not answer within {timeout_s:g} s; check that the brokers "
                        "with __consumer_offsets run and are reachable from here",
                    ) from None

    def _serve(self) -> None:
        try:
            while not self._turns.closing:
                self._turns.requests.wait(TICK_S)
                self._turns.turn()
            self._turns.finish_joining()
        finally:
            self._turns.end()
