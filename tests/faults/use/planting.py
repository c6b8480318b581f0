"""A plugin of pytest, ``-p tests.faults.use.planting``, that plants the fault named by ZKAFKA_PLANT."""

from __future__ import annotations

import os

import pytest

from tests.faults.use.plants import PLANTS


def pytest_collection_finish() -> None:
    """Plant it when the tests have imported what they test."""
    PLANTS[os.environ["ZKAFKA_PLANT"]].apply(pytest.MonkeyPatch())
