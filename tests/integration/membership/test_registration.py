"""A member's registration: its bytes, its parents and its session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_zkafka.errors import ConsumerIdTaken, GroupContended, GroupError, ZooKeeperRefused
from pyspark_zkafka.group.registration import Registration, registration_of
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Assign, Subscribe, SubscribePattern
from pyspark_zkafka.model.znodes.groups import ConsumerRegistration
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.chroot import JVM
from tests.support.meddled import Meddled
from tests.support.membership import IDS, created
from tests.support.options import group_options

if TYPE_CHECKING:
    from tests.support.chroot import Chroot


class TestRegistration:
    """The znode ``/consumers/G/ids/C``."""

    def register(self, chroot: Chroot, content: ConsumerRegistration) -> bytes:
        with ZooKeeperClient(chroot.config) as client:
            registration = Registration("g", "g_c1", content, clock=lambda: 1795227256.2289)
            registration.write(client, client.session_id or 0)
            data, stat = chroot.other.get(f"{IDS}/g_c1")
            assert stat.ephemeralOwner == client.session_id
            return bytes(data)

    def test_bytes(self, chroot: Chroot) -> None:
        """The bytes equal those of a JVM consumer: compact, same order of keys, timestamp as a text in milliseconds."""
        content = registration_of(group_options("g", threads=2), Subscribe(("peer-a", "peer-b")))
        assert self.register(chroot, content) == (
            b'{"version":1,"subscription":{"peer-a":2,"peer-b":2},"pattern":"static","timestamp":"1795227256228"}'
        )

    @pytest.mark.parametrize(
        ("subscription", "pattern"),
        [(SubscribePattern(" a.*, b"), b"white_list"), (SubscribePattern(" a.*, b", excludes=True), b"black_list")],
    )
    def test_filter(self, chroot: Chroot, subscription: Any, pattern: bytes) -> None:
        """A pattern is registered as a filter with the number of threads, normalised as the JVM does."""
        assert self.register(chroot, registration_of(group_options("g", threads=3), subscription)) == (
            b'{"version":1,"subscription":{"a.*|b":3},"pattern":"%s","timestamp":"1795227256228"}' % pattern
        )

    def test_sticky(self, chroot: Chroot) -> None:
        """A member with the sticky assignor, unknown to JVMs, names it in a key that JVMs skip."""
        content = registration_of(group_options("g", strategy="sticky"), Subscribe(("t",)))
        assert json.loads(self.register(chroot, content))["assignor"] == "sticky"

    def test_assign(self) -> None:
        """A group refuses a subscription to named partitions, since nothing is left to assign."""
        with pytest.raises(GroupError, match="ASSIGN_IN_GROUP"):
            registration_of(group_options("g"), Assign((TopicPartition("t", 0),)))

    def test_parents(self, chroot: Chroot) -> None:
        """Missing parents are created as Kafka 1.1.1 does: group and ids with empty data, /consumers with null."""
        chroot.other.delete("/consumers")
        self.register(chroot, ConsumerRegistration({"t": 1}))
        data = {path: chroot.other.get(path)[0] for path in ("/consumers", "/consumers/g", IDS)}
        assert data == {"/consumers": None, "/consumers/g": b"", IDS: b""}

    def test_twice(self, chroot: Chroot) -> None:
        """A second registration in the same session leaves the znode and its parents unchanged."""
        with ZooKeeperClient(chroot.config) as client:
            registration = Registration("g", "g_c1", ConsumerRegistration({"t": 1}))
            session = client.session_id or 0
            assert registration.session(client) is None
            registration.write(client, session)
            before = created(chroot, f"{IDS}/g_c1")
            registration.write(client, session)
            assert registration.session(client) == session
            assert created(chroot, f"{IDS}/g_c1") == before

    def test_taken(self, chroot: Chroot) -> None:
        """Registering an id that another session holds raises an error that names group, member and session."""
        chroot.register("g", "g_c1", JVM)
        session = f"0x{chroot.other.client_id[0]:x}"
        with (
            ZooKeeperClient(chroot.config) as client,
            pytest.raises(ConsumerIdTaken, match=rf"group g has a member g_c1 already, of session {session}\."),
        ):
            Registration("g", "g_c1", ConsumerRegistration({"t": 1})).write(client, client.session_id or 0)


def test_contended(chroot: Chroot) -> None:
    """A group whose parent znode keeps appearing and disappearing raises a retriable error; nothing is registered."""

    def meddle(transaction: int) -> None:
        if chroot.other.exists("/consumers/g"):
            chroot.other.delete("/consumers/g")
        else:
            chroot.other.create("/consumers/g")

    registration = Registration("g", "g_c1", ConsumerRegistration({"t": 1}))
    with (
        Meddled(chroot.config, meddle) as client,
        pytest.raises(GroupContended, match=r"REGISTRATION_CONTENDED\] g_c1 is not registered: 20 times") as caught,
    ):
        registration.write(client, client.session_id or 0)
    assert caught.value.retriable
    assert chroot.ids("g") == {}


def test_too_large(chroot: Chroot) -> None:
    """A subscription too large for one request raises a permanent error after a single request."""
    topics = [f"{n:05}-{'t' * 240}" for n in range(5000)]
    registration = Registration("g", "g_c1", ConsumerRegistration(dict.fromkeys(topics, 1)))
    with (
        Meddled(chroot.config) as client,
        pytest.raises(ZooKeeperRefused, match=r"REQUEST_TOO_LARGE\].*12\d{5} bytes.*jute\.maxbuffer") as caught,
    ):
        registration.write(client, client.session_id or 0)
    assert not caught.value.retriable
    assert len(client.sent) == 1
