"""The policy of `failOnDataLoss`, for everything that reads."""

from __future__ import annotations

import logging

from pyspark_zkafka.errors import DataLoss

__all__ = ["report_data_loss"]

_log = logging.getLogger(__name__)


def report_data_loss(
    condition: str,
    text: str,
    *,
    fail: bool,
    remedy: str = "set failOnDataLoss to false to go on",
    otherwise: str = "continuing",
) -> None:
    """Raise DataLoss with the remedy, or log a warning with what is done otherwise.

    Parameters
    ----------
    text : str
        What happened and what was found.
    fail : bool
        `failOnDataLoss`.
    """
    if fail:
        raise DataLoss(condition, f"{text}; {remedy}")
    _log.warning("%s; %s, as failOnDataLoss is false", text, otherwise)
