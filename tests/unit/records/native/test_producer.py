"""The compiled path's producer, at the edge between Python and C."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_int, c_int32
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.native.arrays import CArray
from pyspark_zkafka.records.native.library import Counts as CCounts
from pyspark_zkafka.records.native.library import require
from pyspark_zkafka.records.native.producer import ArrowSender
from pyspark_zkafka.records.native.reports import open_client
from pyspark_zkafka.records.sender import Counts, QueueLimits

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
TOO_LONG = b"x" * 600


@pytest.fixture
def producer() -> Iterator[int]:
    """The C code's handle."""
    functions = require()
    handle = open_client(functions.producer_new, NOBODY, 1000, 1_000_000, 1_000_000)
    yield handle
    functions.producer_close(handle)


def test_the_c_code_refuses_rows_for_a_name_that_librdkafka_refuses(producer: int) -> None:
    """Without a handle of the topic no row is taken, and nothing of it is left behind to close."""
    functions, value, routed = require(), CArray.of(pa.array([b"v"])), np.zeros(1, np.int32)
    arrays: list[Any] = [value.address, False, None, False, None, None]
    assert not functions.producer_add(producer, TOO_LONG, routed.ctypes.data, 1, *arrays)
    assert functions.producer_send(producer, 0)
    counts = CCounts()
    functions.producer_counts(producer, byref(counts))
    assert counts.handed_over == 0


def test_the_c_code_asks_nothing_of_a_name_that_librdkafka_refuses(producer: int) -> None:
    """Such a topic has no leaders, and the code says why."""
    leaders, code = (c_int32 * 1)(), c_int()
    assert require().producer_leaders(producer, TOO_LONG, 100, leaders, 1, byref(code)) == -1
    assert code.value != 0


@pytest.mark.parametrize("name", ["a\0b", "x" * 600, ""], ids=lambda name: ascii(name)[:8])
def test_names_that_c_cannot_hold(name: str) -> None:
    """A name that C would read as another, or librdkafka not at all, does not get there."""
    rows = OutgoingBatch(name, pa.array([b"v"]), None, None, None, None)
    with ArrowSender(NOBODY, QueueLimits(), lambda error: None) as sender:
        with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
            sender.add(rows, np.zeros(1, np.int32), 1)
        with pytest.raises(InvalidRow, match="INVALID_TOPIC"):
            sender.leaders(name, 0.1)
        assert sender.counts == Counts(0, 0)
        assert sender.delivered(name) == {}
