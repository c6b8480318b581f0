"""Replica lists."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.topics import spread


def test_spread() -> None:
    """Replicas are assigned to the brokers in turn, whatever their ids, starting at the first requested partition."""
    assert spread(range(2), 2, [0, 5]) == {0: [0, 5], 1: [5, 0]}
    assert spread(range(3, 4), 1, [0, 1]) == {3: [1]}
    with pytest.raises(LocalClusterError, match="3 replicas are not possible with 2 running brokers; request 1 to 2"):
        spread(range(1), 3, [0, 1])
