"""`Registration` against a real ZooKeeper that somebody else changes, or that cannot hold it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.clients.transactions import Operation, Outcome
from pyspark_zkafka.clients.zookeeper import ZooKeeperClient
from pyspark_zkafka.errors import GroupContended
from pyspark_zkafka.group.registration import Registration
from pyspark_zkafka.option_values import ZooKeeperConfig
from pyspark_zkafka.protocol.group_znodes import ConsumerRegistration

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
