"""Options of a write: of a batch, and of a stream."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.options import parse_append
from tests.support.cases import each

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


def test_options_that_spark_reads() -> None:
    """The options that belong to Spark are let through, and change nothing."""
    raw = {**NOWHERE, "checkpointLocation": "/tmp/c", "queryName": "q"}
    assert parse_append(raw, overwrite=False, is_stream=True) == parse_write(NOWHERE)


@each(
    ("more", "overwrite", "is_stream", "expected"),
    [
        ({"commitOffsets": "{}"}, False, True, r"\[INVALID_OPTIONS\] commitOffsets .* readStream"),
        ({"COMMITOFFSETS": "{}"}, False, True, "commitOffsets"),
        ({"batchId": "7"}, False, True, r"\[INVALID_OPTIONS\] batchId is an option of batch writes"),
        ({}, True, True, r"\[OUTPUT_MODE\] .* complete .* foreachBatch"),
        ({"queryNames": "q"}, False, True, "unknown option queryNames"),
        ({}, True, False, r"\[SAVE_MODE\] .* cannot be overwritten"),
        ({"queryName": "q"}, False, False, "unknown option queryName"),
    ],
)
def test_refused(more: dict[str, str], overwrite: bool, is_stream: bool, expected: str) -> None:
    """All modes but append are errors, and of a stream, fixed offsets; so are unknown names."""
    with pytest.raises(OptionError, match=expected):
        parse_append({**NOWHERE, **more}, overwrite=overwrite, is_stream=is_stream)


@each(
    ("more", "expected"),
    [
        ({"writerName": "a"}, r"writerName need\(s\) deliveryGuarantee=exactly-once"),
        ({"batchId": "1"}, r"batchId need\(s\) deliveryGuarantee=exactly-once"),
        ({"deliveryGuarantee": "exactly-once", "batchId": "1"}, "batchId numbers a named write: set writerName"),
        (
            {"deliveryGuarantee": "exactly-once", "batchId": "1", "commitOffsets": "{}", "group.id": "g"},
            "batchId and commitOffsets exclude each other",
        ),
        ({"deliveryGuarantee": "exactly-once", "writerName": "a", "batchId": "-1"}, "batchId is '-1'; expected a whole"),
        ({"kafka.transaction.timeout.ms": "9"}, r"kafka.transaction.timeout.ms need\(s\)"),
        ({"deliveryGuarantee": "exactly-once", "topic": ""}, "set topic, or ledgerTopic"),
        ({"deliveryGuarantee": "exactly-once", "kafka.acks": "1"}, "needs kafka.enable.idempotence=true"),
        ({"deliveryGuarantee": "exactly-once", "ledgerTopic": "a b"}, "ledgerTopic"),
        ({"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "a/b"}, "transactionalIdPrefix is 'a/b'"),
        ({"deliveryGuarantee": "twice"}, "deliveryGuarantee is 'twice'; expected at-least-once or exactly-once"),
        (
            {
                "deliveryGuarantee": "exactly-once",
                "kafka.transaction.timeout.ms": "5000",
                "kafka.delivery.timeout.ms": "6000",
            },
            "delivery.timeout.ms must not be greater than transaction.timeout.ms",
        ),
    ],
)
def test_refused_exactly_once(more: dict[str, str], expected: str) -> None:
    """Options of exactly-once writes need each other, and are refused for other writes."""
    raw = {name: value for name, value in {**NOWHERE, **more}.items() if value}
    with pytest.raises(OptionError, match=expected):
        parse_write(raw)


def test_exactly_once() -> None:
    """The ledger is under the topic's partitions, unless it has a topic of its own."""
    once = {**NOWHERE, "deliveryGuarantee": "Exactly-Once"}
    assert parse_write(once).ledger_topic == "t"
    assert parse_write({**once, "ledgerTopic": "ledger"}).ledger_topic == "ledger"
    assert parse_write(NOWHERE).once is None
