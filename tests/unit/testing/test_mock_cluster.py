"""Mock brokers that cannot start. tests/integration/test_mock_cluster.py uses running ones."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing import MockCluster


@pytest.mark.parametrize("library", [None, object()])
def test_a_library_without_mock_brokers(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    """A librdkafka that cannot be loaded, or lacks functions, is reported as such."""
    monkeypatch.setattr("pyspark_zkafka.testing.mock_cluster.load", lambda: library)
    with pytest.raises(LocalClusterError, match=r"NO_MOCK_BROKERS.*; install"), MockCluster():
        pass
