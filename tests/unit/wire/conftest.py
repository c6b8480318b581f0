"""Fixtures of the tests of connections."""

from __future__ import annotations

import pytest

from tests.support.certificates import Authority


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority with its files in its own folder."""
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")
