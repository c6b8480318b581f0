"""The compiled sender: its reports, and its transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_int32
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.errors import InvalidRow
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.library import CArray, CCounts, require
from pyspark_zkafka.records.native.producer import ArrowSender, ArrowTransactions, open_client, take_reports
from pyspark_zkafka.records.sender import Counts, GroupOffset, QueueLimits

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
TOO_LONG = b"x" * 600


@pytest.fixture
def producer() -> Iterator[int]:
    """The C code's handle."""
    functions = require()
    handle = open_client(functions.producer_new, NOBODY, 1000, 1_000_000, 1_000_000)
    yield handle
    functions.producer_close(handle)


def test_the_c_code_refuses_rows_for_a_name_that_librdkafka_refuses(producer: int) -> None:
    """Without a handle of the topic no row is taken, and nothing of it is left behind to close."""
    functions, value, routed = require(), CArray.of(pa.array([b"v"])), np.zeros(1, np.int32)
    arrays: list[Any] = [value.address, False, None, False, None, None]
    assert not functions.producer_add(producer, TOO_LONG, routed.ctypes.data, 1, *arrays)
    assert functions.producer_send(producer, 0)
    counts = CCounts()
    functions.producer_counts(producer, byref(counts))
    assert counts.handed_over == 0


def test_the_c_code_asks_nothing_of_a_name_that_librdkafka_refuses(producer: int) -> None:
    """Such a topic has no leaders, and the code says why."""
    leaders, code = (c_int32 * 1)(), c_int()
    assert require().producer_leaders(producer, TOO_LONG, 100, leaders, 1, byref(code)) == -1
    assert code.value != 0


@pytest.mark.parametrize("name", ["a\0b", "x" * 600, ""], ids=lambda name: ascii(name)[:8])
def test_names_that_c_cannot_hold(name: str) -> None:
    """A name that C would read as another, or librdkafka not at all, does not get there."""
    rows = OutgoingBatch(name, pa.array([b"v"]), None, None, None, None)
    with ArrowSender(NOBODY, QueueLimits(), lambda error: None) as sender:
        with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
            sender.add(rows, np.zeros(1, np.int32), 1)
        with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
            sender.leaders(name, 0.1)
        assert sender.counts == Counts(0, 0)
        assert sender.delivered(name) == {}


ERROR, LOG = range(2)
HANDLE = 7

Queued = tuple[int, int, int, bytes]


def queue(*reports: Queued) -> Callable[[int, Any], bool]:
    """The function of a client in C that takes its next report: kind, code, fatal and text."""
    waiting = list(reports)

    def next_report(handle: int, place: Any) -> bool:
        assert handle == HANDLE
        if not waiting:
            return False
        report = place._obj
        report.kind, report.code, report.fatal, report.text = waiting.pop(0)
        return True

    return next_report


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """librdkafka's logger, which is silent by default."""
    found = logging.getLogger("pyspark_zkafka.librdkafka")
    before = found.level
    found.setLevel(logging.DEBUG)
    yield found
    found.setLevel(before)


def test_errors() -> None:
    """Errors of the client are noted, in order."""
    noted: list[KafkaError] = []
    reports = queue(
        (ERROR, KafkaError._TRANSPORT, 0, b"broker1:9092: refused"),
        (ERROR, KafkaError._FENCED, 1, b"fenced"),
    )
    take_reports(reports, HANDLE, noted.append)
    assert [(error.code(), error.str(), error.fatal()) for error in noted] == [
        (KafkaError._TRANSPORT, "broker1:9092: refused", False),
        (KafkaError._FENCED, "fenced", True),
    ]


@pytest.mark.parametrize(
    ("syslog", "level"),
    [
        (0, logging.CRITICAL),
        (2, logging.CRITICAL),
        (3, logging.ERROR),
        (4, logging.WARNING),
        (5, logging.INFO),
        (6, logging.INFO),
        (7, logging.DEBUG),
        (8, logging.DEBUG),
    ],
)
def test_log_lines(logger: logging.Logger, caplog: pytest.LogCaptureFixture, syslog: int, level: int) -> None:
    """A log line has the level of Python for syslog's, its text as it is, and is no error."""
    noted: list[KafkaError] = []
    take_reports(queue((LOG, syslog, 0, b"%s of 100%")), HANDLE, noted.append)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(level, "%s of 100%")]
    assert noted == []


def test_text_that_is_not_utf8() -> None:
    """A text that was cut within a character does not prevent the report."""
    noted: list[KafkaError] = []
    take_reports(queue((ERROR, KafkaError._FAIL, 0, b"gr\xc3")), HANDLE, noted.append)
    assert noted[0].str() == "gr\N{REPLACEMENT CHARACTER}"


def test_refused_properties() -> None:
    """Properties that librdkafka refuses are its error, with its text."""
    with pytest.raises(KafkaException, match="Invalid value") as caught:
        open_client(require().producer_new, {"socket.timeout.ms": "soon"}, 1, 1, 1)
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG


HANDLE = 7
OFFSET = GroupOffset("gr\u00fcn", "t", 2, 2**40, '{"slot": 2}')


class Functions:
    """The functions of the library, which note their arguments, and fail with an error if there is one."""

    def __init__(self, error: dict[str, Any] | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., bool]:
        def call(*arguments: Any) -> bool:
            *given, place = arguments
            self.calls.append((name, *given))
            for field, value in (self._error or {}).items():
                setattr(place._obj, field, value)
            return self._error is None

        return call


def test_calls() -> None:
    """Each step is one call with the client's handle, texts as UTF-8, and times in milliseconds."""
    functions = Functions()
    transactions = ArrowTransactions(functions, HANDLE)
    transactions.init(30)
    transactions.begin()
    transactions.commit_offset(OFFSET, 0.25)
    transactions.commit(1.5)
    transactions.abort(2)
    assert functions.calls == [
        ("transaction_init", HANDLE, 30_000),
        ("transaction_begin", HANDLE),
        (
            "transaction_commit_offset",
            HANDLE,
            "gr\u00fcn".encode(),
            b"t",
            2,
            2**40,
            b'{"slot": 2}',
            250,
        ),
        ("transaction_commit", HANDLE, 1_500),
        ("transaction_abort", HANDLE, 2_000),
    ]


@pytest.mark.parametrize("flag", ["fatal", "retriable", "requires_abort"])
def test_errors_of_transactions(flag: str) -> None:
    """A failure is librdkafka's error, with its code, its text and what follows from it."""
    transactions = ArrowTransactions(Functions({"code": 90, "text": b"fenced gr\xc3", flag: 1}), HANDLE)
    with pytest.raises(KafkaException) as caught:
        transactions.commit(1)
    error = caught.value.args[0]
    assert (error.code(), error.str()) == (90, "fenced gr\N{REPLACEMENT CHARACTER}")
    found = {"fatal": error.fatal(), "retriable": error.retriable(), "requires_abort": error.txn_requires_abort()}
    assert found == {name: name == flag for name in found}


def test_topic_that_c_cannot_hold() -> None:
    """A topic whose name C would cut off is refused before anything is committed."""
    functions = Functions()
    with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
        ArrowTransactions(functions, HANDLE).commit_offset(GroupOffset("g", "t\0u", 0, 1, ""), 1)
    assert functions.calls == []
