"""pytest plugin, ``-p tests.faults.use.planting``, that plants the fault named by ZKAFKA_PLANT."""

from __future__ import annotations

import os

import pytest

from tests.faults.use.plants import PLANTS


def pytest_collection_finish() -> None:
    """Plant the fault once the tests have imported the code."""
    PLANTS[os.environ["ZKAFKA_PLANT"]].apply(pytest.MonkeyPatch())
