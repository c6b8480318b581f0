"""`Registration` against a real ZooKeeper that somebody else changes, or that cannot hold it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.errors import GroupContended, ZooKeeperRefused
from pyspark_zkafka.group.registration import Registration
from pyspark_zkafka.options.model import ZooKeeperConfig
from pyspark_zkafka.protocol.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Operation, Outcome

if TYPE_CHECKING:
    from conftest import Chroot

GROUP = "/consumers/g"


class Meddled(ZooKeeperClient):
    """A client before whose transactions something happens."""

    def __init__(self, config: ZooKeeperConfig, before: Callable[[], object]) -> None:
        super().__init__(config)
        self._before = before

    def transact(self, operations: Sequence[Operation]) -> Outcome:
        self._before()
        return super().transact(operations)


def test_contended(chroot: Chroot) -> None:
    """A group whose znode comes and goes all the time is an error that is worth another try; nothing is registered."""

    def meddle() -> None:
        if chroot.other.exists(GROUP):
            chroot.other.delete(GROUP)
        else:
            chroot.other.create(GROUP)

    registration = Registration("g", "g_c1", ConsumerRegistration({"t": 1}))
    with (
        Meddled(chroot.config, meddle) as client,
        pytest.raises(GroupContended, match=r"REGISTRATION_CONTENDED\] g_c1 is not registered: 20 times") as caught,
    ):
        registration.write(client, client.session_id or 0)
    assert caught.value.retriable
    assert chroot.ids("g") == {}


def test_too_large(chroot: Chroot) -> None:
    """A subscription to more topics than a request can name is an error that says so, at once, and is not tried again."""
    topics = [f"{n:05}-{'t' * 240}" for n in range(5000)]
    sent: list[None] = []
    registration = Registration("g", "g_c1", ConsumerRegistration(dict.fromkeys(topics, 1)))
    with (
        Meddled(chroot.config, lambda: sent.append(None)) as client,
        pytest.raises(ZooKeeperRefused, match=r"REQUEST_TOO_LARGE\].*12\d{5} bytes.*jute\.maxbuffer") as caught,
    ):
        registration.write(client, client.session_id or 0)
    assert not caught.value.retriable
    assert len(sent) == 1
