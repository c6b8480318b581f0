"""The policy of `failOnDataLoss`."""

from __future__ import annotations

import logging

import pytest

from pyspark_zkafka.data_loss import report_data_loss
from pyspark_zkafka.errors import DataLoss


def test_failing() -> None:
    """The error has the condition, what was found, and the remedy."""
    with pytest.raises(DataLoss) as caught:
        report_data_loss("PARTITIONS_GONE", "t-0 is gone", fail=True)
    assert str(caught.value) == "[PARTITIONS_GONE] t-0 is gone; set failOnDataLoss to false to go on"


def test_another_remedy() -> None:
    """The caller may state another remedy."""
    with pytest.raises(DataLoss, match=r"t-0 is gone; plan again$"):
        report_data_loss("DATA_LOSS", "t-0 is gone", fail=True, remedy="plan again")


def test_continuing(caplog: pytest.LogCaptureFixture) -> None:
    """With failOnDataLoss=false, a warning states what was found and what is done."""
    with caplog.at_level(logging.WARNING):
        report_data_loss("DATA_LOSS", "t-0 is gone", fail=False, otherwise="reading the rest")
    assert caplog.messages == ["t-0 is gone; reading the rest, as failOnDataLoss is false"]
