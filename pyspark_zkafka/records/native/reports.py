"""Reports of the compiled path's clients, as confluent-kafka's errors and as log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from ctypes import byref, c_int, create_string_buffer
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.brokers.clients import librdkafka_logger
from pyspark_zkafka.records.native.library import Report, settings_array

__all__ = ["open_client", "take_reports"]

_LOG = 1
_WHY_BYTES = 512
# Syslog's levels, which librdkafka's log uses.
_LEVELS = (logging.CRITICAL,) * 3 + (logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)


def open_client(new: Callable[..., int | None], properties: Mapping[str, Any], *arguments: int) -> int:
    """Create a client by `new`, with librdkafka's properties and further arguments; returns its handle.

    Raises KafkaException if librdkafka refuses the properties.
    """
    code, why = c_int(), create_string_buffer(_WHY_BYTES)
    settings = settings_array({**properties, "log.queue": True})
    handle = new(settings, *arguments, byref(code), why, _WHY_BYTES)
    if not handle:
        raise KafkaException(KafkaError(code.value, why.value.decode(errors="replace")))
    return handle


def take_reports(next_report: Callable[..., bool], handle: int, note: Callable[[KafkaError], None]) -> None:
    """Pass the errors of a client to `note`, and log the lines of its log."""
    report = Report()
    while next_report(handle, byref(report)):
        text = report.text.decode(errors="replace")
        if report.kind == _LOG:
            librdkafka_logger().log(_LEVELS[min(report.code, len(_LEVELS) - 1)], "%s", text)
        else:
            note(KafkaError(report.code, text, fatal=bool(report.fatal)))
