"""A query that copies numbered rows between topics exactly once, and checks of its result."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient

from pyspark_zkafka.model.ledger import LedgerGroup
from tests.support.applications import Application, Outcome, Request, Rule
from tests.support.numbered_rows import fill_numbered, numbers
from tests.support.parity import SPARK_VERSION

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

__all__ = ["ROWS", "Copy", "fail", "kill"]

ROWS = 1200
_PER_BATCH = 400
_TRANSACTION_MS = 60_000
_SLOTS = 4
_FIRST_FILE_S = 1_700_000_000
_KEY_AND_VALUE = "substring(value, -1) AS key", "value"


def kill(point: str, slot: int = -1, *, batch: int = 1, after: Sequence[str] = (), seconds: float = 0.0) -> Rule:
    """Return a rule that kills the application at a point, of a slot or on the driver."""
    return {"point": point, "batch": batch, "slot": slot, "after": after, "seconds": seconds, "action": "kill"}


def fail(point: str, slot: int = -1, *, batch: int = 1, after: Sequence[str] = ()) -> Rule:
    """Return a rule that raises an error at a point, of a slot or on the driver, which fails the query."""
    return {"point": point, "batch": batch, "slot": slot, "after": after, "action": "raise"}


class Copy:
    """A source topic with numbered rows, a sink topic, a checkpoint, and the query between them.

    Before Spark 4.2, the source is a folder of text files: streams of zkafka cannot limit their micro-batches there.

    Arguments of `run` with the names of fields of `Request` change the request for one run; assign to `request` to change
    it for all.
    """

    def __init__(
        self, cluster: LocalCluster, application: Application, source: str, sink: str, checkpoint: Path, **options: str
    ) -> None:
        self.cluster = cluster
        self.application = application
        self.source, self.sink, self.checkpoint = source, sink, checkpoint
        self.rows = 0
        connection = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **options}
        reading = {
            **connection,
            "subscribe": source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(_PER_BATCH),
        }
        self._connection = connection
        self.request = Request(checkpoint=str(checkpoint), source=reading, writes=[self.sink_options()])
        self._files: Path | None = None
        if SPARK_VERSION < (4, 2):
            self._files = checkpoint.parent / "rows"
            self._files.mkdir()
            files = {"path": str(self._files), "maxFilesPerTrigger": str(_SLOTS)}
            self.request = replace(self.request, format="text", source=files, select=_KEY_AND_VALUE)
        self.add_rows()

    def sink_options(self, topic: str | None = None, **more: str) -> dict[str, str]:
        """Return options of an exactly-once write, by default to the sink."""
        once = {"deliveryGuarantee": "exactly-once", "kafka.transaction.timeout.ms": str(_TRANSACTION_MS)}
        return {**self._connection, "topic": topic or self.sink, **once, **more}

    def at_least_once(self, topic: str | None = None) -> dict[str, str]:
        """Return options of an at-least-once write."""
        return {**self._connection, "topic": topic or self.sink}

    def set_sink(self, **options: str) -> None:
        """Add options to the write."""
        self.request = replace(self.request, writes=[self.sink_options(**options)])

    def add_rows(self, count: int = ROWS) -> None:
        """Append rows to the source, alternating between its partitions."""
        if self._files is not None:
            self._add_files(self._files, count)
            self.rows += count
            return
        partitions = len(self.cluster.assignment(self.source))
        fill_numbered(self.cluster, self.source, range(self.rows, self.rows + count), partitions)
        self.rows += count

    def _add_files(self, folder: Path, count: int) -> None:
        """Write files that Spark reads in this order, one in each slot."""
        per_file = _PER_BATCH // _SLOTS
        for start in range(self.rows, self.rows + count, per_file):
            path = folder / f"{start:08}.txt"
            path.write_text("".join(f"{number}\n" for number in range(start, start + per_file)))
            os.utime(path, (_FIRST_FILE_S + start,) * 2)

    def run(self, *rules: Rule, on: Application | None = None, **changes: Any) -> Outcome:
        """Run the query once, on the test's application or another, and return the outcome."""
        return (on or self.application).run(replace(self.request, **changes), *rules)

    def complete(self, *, on: Application | None = None, **changes: Any) -> Outcome:
        """Run the query, check that it ends without an error, and return the outcome."""
        outcome = self.run(on=on, **changes)
        assert outcome.error is None, outcome.error
        assert not outcome.killed
        return outcome

    def killed(self, *rules: Rule, on: Application | None = None, **changes: Any) -> None:
        """Run until a rule kills the application."""
        outcome = self.run(*rules, on=on, **changes)
        assert outcome.killed, outcome.error or "no rule has killed the application"
        marks = (on or self.application).marks
        kills = [number for number, rule in enumerate(rules) if rule["action"] == "kill"]
        assert any((marks / f"fired-{number}").exists() for number in kills), "the application has died by itself"

    def failed(self, *rules: Rule, on: Application | None = None, **changes: Any) -> None:
        """Run until the rules fail the query; the application survives."""
        error = self.run(*rules, on=on, **changes).error
        assert error is not None
        assert "injected at" in error, error

    def refused(self, condition: str, *rules: Rule, on: Application | None = None, **changes: Any) -> str:
        """Run the query, check that it fails with a condition (a regular expression), and return the error's text."""
        error = self.run(*rules, on=on, **changes).error
        assert error is not None
        assert re.search(rf"\[({condition})\]", error), error
        return error

    def counts(self, topic: str | None = None, *, committed: bool = True) -> Counter[int]:
        """Return how often a reader finds each number in the sink."""
        return numbers(self.cluster.bootstrap_servers, topic or self.sink, committed=committed)

    def expect_each_once(self, topic: str | None = None, *, rows: Sequence[int] | None = None) -> None:
        """Fail unless a reader of committed records finds each number once."""
        expected = Counter(range(self.rows) if rows is None else rows)
        found = self.counts(topic)
        lost, twice = expected - found, found - expected
        assert not lost and not twice, f"{len(lost)} lost: {sorted(lost)[:10]}, {len(twice)} twice: {sorted(twice)[:10]}"  # noqa: PT018

    def expect_none_twice(self, topic: str | None = None) -> None:
        """Fail if a reader of committed records finds a number more than once."""
        twice = {number for number, count in self.counts(topic).items() if count > 1}
        assert not twice, f"{len(twice)} twice: {sorted(twice)[:10]}"

    @property
    def query_id(self) -> str:
        """The query's id in the checkpoint."""
        return str(json.loads((self.checkpoint / "metadata").read_text())["id"])

    @property
    def ledger_groups(self) -> list[str]:
        """The groups of the query's ledger, sorted."""
        with AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers}) as admin:
            listed = admin.list_consumer_groups(request_timeout=30).result(30).valid
        named = filter(None, (LedgerGroup.parse(group.group_id) for group in listed))
        return sorted(str(group) for group in named if self.query_id in group.base)
