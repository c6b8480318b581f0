"""Reports of data loss, and warnings that repeat."""

from __future__ import annotations

import logging

import pytest

from pyspark_zkafka.conditions import PARTITIONS_GONE
from pyspark_zkafka.errors import DataLoss
from pyspark_zkafka.read.stream_session import StreamWarnings


def test_warnings_repeat_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """A text is logged again only after a minute; another text is logged at once."""
    reports = StreamWarnings(fail_on_data_loss=True, clock=iter([0.0, 59.0, 61.0, 61.0]).__next__)
    for text in ("no leader", "no leader", "no leader", "no broker"):
        reports.warn(text)
    assert [record.message for record in caplog.records] == ["no leader", "no leader", "no broker"]


def test_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Data loss raises an error, or logs a warning with failOnDataLoss=false."""
    with pytest.raises(DataLoss, match=r"\[PARTITIONS_GONE\] t-0 is gone; some records may be lost"):
        StreamWarnings(fail_on_data_loss=True, clock=lambda: 0.0).lose(PARTITIONS_GONE, "t-0 is gone")
    with caplog.at_level(logging.WARNING):
        StreamWarnings(fail_on_data_loss=False, clock=lambda: 0.0).lose(PARTITIONS_GONE, "t-0 is gone")
    assert "t-0 is gone; some records may be lost" in caplog.text
