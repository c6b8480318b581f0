"""An ensemble in memory for the tests of groups."""

from __future__ import annotations

import pytest

from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def client() -> EnsembleClient:
    """A session with an empty ensemble."""
    return EnsembleClient()
