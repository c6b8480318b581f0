"""Records to produce."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.topics import producer_arguments


@pytest.mark.parametrize(
    ("record", "arguments"),
    [
        (("k", "v"), {"key": "k", "value": "v"}),
        ((None, b"v", 3, None, 5), {"value": b"v", "partition": 3, "timestamp": 5}),
        ({"value": b"v", "headers": {"h": b"1"}}, {"value": b"v", "headers": [("h", b"1")]}),
        ({"value": b"v", "headers": [("h", None), ("h", b"2")]}, {"value": b"v", "headers": [("h", None), ("h", b"2")]}),
        ({}, {}),
    ],
)
def test_records(record: Any, arguments: dict[str, Any]) -> None:
    """A record is a dict or a tuple, and None values are left out."""
    assert producer_arguments(record) == arguments


@pytest.mark.parametrize("record", ["text", b"bytes", {"value": b"v", "topic": "t"}, (1, 2, 3, 4, 5, 6)])
def test_bad_records(record: Any) -> None:
    """A bare value, an unknown field and a tuple that is too long are refused."""
    with pytest.raises(LocalClusterError, match="BAD_RECORD"):
        producer_arguments(record)
