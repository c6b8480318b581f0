"""A stream's reports: data loss, which ends the query or is logged, and warnings, repeated at most once a minute."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from pyspark_zkafka.conditions import report_data_loss
from pyspark_zkafka.errors import Condition, DataLoss
from pyspark_zkafka.model.nouns import ClusterSnapshot
from pyspark_zkafka.model.planning import describe_missing, missing_topics
from pyspark_zkafka.options.values import ReadOptions

__all__ = ["StreamWarnings"]

_log = logging.getLogger(__name__)

_REPEAT_S = 60.0


class StreamWarnings:
    """Data loss and warnings of one run of a query, by a monotonic clock."""

    def __init__(self, fail_on_data_loss: bool, clock: Callable[[], float]) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self._clock = clock
        self._warned: dict[str, float] = {}
        self._complete: ClusterSnapshot | None = None

    def lose(self, condition: Condition[DataLoss], text: str) -> None:
        """Raise DataLoss, or, without failOnDataLoss, log a warning."""
        report_data_loss(condition, f"{text}; some records may be lost", fail=self._fail_on_data_loss)

    def warn(self, text: str) -> None:
        """Log a warning, unless it was logged within the last minute."""
        if self._is_due(text):
            _log.warning("%s", text)

    def check_topics(
        self,
        read: ReadOptions,
        snapshot: ClusterSnapshot,
        names: Callable[[], Collection[str]],
        *,
        may_fail: bool,
        has_end: bool = False,
    ) -> None:
        """Warn of subscribed topics that do not exist, or raise UnknownTopic.

        It `may_fail` if `missingTopics` is fail, or is not set and the query `has_end`, at which it cannot wait. `names`
        returns the names of all topics, to suggest the nearest. It is called once a minute at the most.
        """
        if snapshot is self._complete:
            return
        subscription = read.require_subscription()
        missing = missing_topics(subscription, snapshot)
        self._complete = None if missing else snapshot
        fails = may_fail and (read.missing_topics == "fail" or (has_end and read.missing_topics is None))
        if not missing or not (fails or self._is_due(f"missing: {missing}")):
            return
        error = describe_missing(subscription, missing, names(), may_wait=not fails)
        if fails:
            raise error
        _log.warning("%s: %s", "left out" if has_end else "waiting for topics", error)

    def _is_due(self, subject: str) -> bool:
        """True, once a minute, for each subject of a warning."""
        now = self._clock()
        if now - self._warned.get(subject, float("-inf")) <= _REPEAT_S:
            return False
        self._warned[subject] = now
        return True
