"""Options of a write: of a batch, and of a stream."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.write.options import parse_append

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


def test_options_that_spark_reads() -> None:
    """The options that belong to Spark are let through, and change nothing."""
    raw = {**NOWHERE, "checkpointLocation": "/tmp/c", "queryName": "q"}
    assert parse_append(raw, overwrite=False, is_stream=True) == parse_write(NOWHERE)


@pytest.mark.parametrize(
    ("more", "overwrite", "is_stream", "expected"),
    [
        ({"commitOffsets": "{}"}, False, True, r"\[INVALID_OPTIONS\] commitOffsets .* readStream"),
        ({"COMMITOFFSETS": "{}"}, False, True, "commitOffsets"),
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
