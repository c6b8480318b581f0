"""Sessions beside those of the members that are tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

if TYPE_CHECKING:
    from tests.support.chroot import Chroot


@pytest.fixture
def third(chroot: Chroot) -> Iterator[KazooClient]:
    """One more session, to end at will."""
    client = KazooClient(chroot.config.connect)
    client.start()
    yield client
    client.stop()
    client.close()
