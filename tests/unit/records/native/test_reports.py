"""Reports of a client in C, from a queue of values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.records.native.library import require
from pyspark_zkafka.records.native.reports import open_client, take_reports

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
