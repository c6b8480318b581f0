"""Responses about configurations; test_vectors.py has their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.wire.protocol import MalformedResponse, Reader
from pyspark_zkafka.wire.topic_messages import read_alter_config, read_describe_config


@pytest.mark.parametrize(
    ("read", "resource"),
    [(read_describe_config, "0000 ffff 02 000161 00000000"), (read_alter_config, "0000 ffff 02 000161")],
)
def test_other_number_of_resources(read: Callable[[Reader], Any], resource: str) -> None:
    """A response about no resource or several is malformed: one was requested."""
    for count in (0, 2):
        data = bytes(4) + count.to_bytes(4, "big") + bytes.fromhex(resource) * count
        with pytest.raises(MalformedResponse, match=f"{count} resources where one was requested"):
            read(Reader(data))
