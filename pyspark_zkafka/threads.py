"""Threads of this package, whose failures are always logged or passed on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from pyspark_zkafka.conditions import THREAD_FAILED
from pyspark_zkafka.errors import ZKafkaError

_log = logging.getLogger(__name__)
T = TypeVar("T")


def thread_failed(who: str, cause: BaseException) -> ZKafkaError:
    """Return the error for everyone who depends on a thread that has ended with an unexpected exception."""
    text = f"{who} after an unexpected error: {type(cause).__name__}: {cause}. Restart the query or job"
    error = THREAD_FAILED(f"{text}, and report the error with the traceback in the log")
    error.__cause__ = cause
    return error


def start_thread(
    work: Callable[[], object], name: str, on_failure: Callable[[BaseException], object] = lambda cause: None
) -> threading.Thread:
    """Run `work` in a daemon thread. An exception is logged once, with its traceback. `on_failure` is called after that.

    Raises RuntimeError if no thread can be started.
    """
    thread = threading.Thread(target=_watched, args=(work, name, on_failure), name=name, daemon=True)
    thread.start()
    return thread


def start_timer(delay_s: float, work: Callable[[], object], name: str) -> None:
    """Run `work` in a daemon thread after a delay. An exception is logged once. Raises RuntimeError like `start_thread`."""
    timer = threading.Timer(delay_s, _watched, (work, name))
    timer.daemon = True
    timer.start()


def _watched(
    work: Callable[[], object], name: str, on_failure: Callable[[BaseException], object] = lambda cause: None
) -> None:
    try:
        work()
    except BaseException as cause:  # noqa: BLE001 - nobody else would hear of it
        _log.exception("The thread %s failed", name)
        on_failure(cause)


def call_in_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Start a call in a daemon thread. The future raises the call's exception, whatever its class."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by the future
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return answer
