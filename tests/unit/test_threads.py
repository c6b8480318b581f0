"""Threads that fail: in the log, and with whoever depends on them."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import pyspark_zkafka
from pyspark_zkafka.threads import call_in_thread, start_thread, thread_failed


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(3)])
def test_thread_that_fails(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """A failure is logged once, with its traceback, and handed to the owner of the thread."""

    def fail() -> None:
        raise error

    found: list[BaseException] = []
    start_thread(fail, "zkafka-some", found.append).join(10)
    assert found == [error]
    (logged,) = caplog.records
    assert logged.levelno == logging.ERROR
    assert logged.getMessage() == "The thread zkafka-some failed"
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error


def test_error_of_a_failure() -> None:
    """The error for others names who is concerned, and the cause."""
    cause = KeyError("x")
    error = thread_failed("c has left group g", cause)
    assert str(error) == (
        "[THREAD_FAILED] c has left group g after an unexpected error: KeyError: 'x'. Restart the query or job, and report "
        "the error with the traceback in the log"
    )
    assert error.__cause__ is cause


def test_call() -> None:
    """A call on a thread of its own returns its result, or raises its exception, also one that ends a program."""
    assert call_in_thread(lambda: 7, "seven").result(10) == 7

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        call_in_thread(leave, "leave").result(10)


def test_all_threads() -> None:
    """Threads start in one module only, which sees to it that none ends in silence."""
    package = Path(pyspark_zkafka.__file__).parent
    starts = re.compile(r"\bThread\(|\bTimer\(|start_new_thread")
    found = {file.name for file in package.rglob("*.py") if starts.search(file.read_text(encoding="utf-8"))}
    assert found == {"threads.py"}
