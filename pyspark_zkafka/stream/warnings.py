"""A stream's reports: data loss, which ends the query or is logged, and warnings, repeated at most once a minute."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark_zkafka.data_loss import report_data_loss

__all__ = ["StreamWarnings"]

_log = logging.getLogger(__name__)

_REPEAT_S = 60.0


class StreamWarnings:
    """Data loss and warnings of one run of a query.

    Parameters
    ----------
    fail_on_data_loss : bool
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, fail_on_data_loss: bool, clock: Callable[[], float]) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self._clock = clock
        self._warned: dict[str, float] = {}

    def lose(self, condition: str, text: str) -> None:
        """Raise DataLoss, or, without failOnDataLoss, log a warning."""
        report_data_loss(condition, f"{text}; some records may be lost", fail=self._fail_on_data_loss)

    def warn(self, text: str) -> None:
        """Log a warning, unless it was logged within the last minute."""
        now = self._clock()
        if now - self._warned.get(text, float("-inf")) > _REPEAT_S:
            self._warned[text] = now
            _log.warning("%s", text)
