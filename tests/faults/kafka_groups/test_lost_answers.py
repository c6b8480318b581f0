"""A coordinator whose answer to a member's join is lost."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest

from pyspark_zkafka.group.kafka_checks import Pauses
from pyspark_zkafka.model.planning import Subscribe
from tests.faults.harness import network
from tests.support.eventually import eventually
from tests.support.memberships import KINDS, kafka_member
from tests.support.rough_wire import RoughWire
from tests.support.wire import hang_up

pytestmark = pytest.mark.long

_JOIN_GROUP = b"\x00\x0b"


class LosesAJoin(RoughWire):
    """A wire that loses the answer to the next join if it `loses`, and all later answers on that connection."""

    loses = True
    lost: socket.socket | None = None

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if data[4:6] == _JOIN_GROUP and self.loses:
                    self.lost, self.loses = source, False
                sink.sendall(data)
        hang_up(source)
        hang_up(sink)

    def _carry(self, server: socket.socket, client: socket.socket) -> None:
        while data := server.recv(65_536):
            if client is self.lost:
                self.dropped += 1
            else:
                client.sendall(data)


def test_lost_answer_to_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member joins with a new client, long before librdkafka gives its request up."""
    monkeypatch.setattr(network, "RoughWire", LosesAJoin)
    with network.wired_cluster(1) as cluster, network.Network(cluster) as wires:
        (wire,) = wires.brokers.values()
        assert isinstance(wire, LosesAJoin)
        cluster.create_topic("t", partitions=2)
        for kind in ("cooperative-sticky", "range"):
            wire.loses, wire.dropped = True, 0
            options: Any = KINDS[kind]
            pauses = Pauses(join_s=5.0)
            member = kafka_member(wires.bootstrap_servers, f"group-{kind}", Subscribe(("t",)), pauses=pauses, **options)
            member.join()
            eventually(lambda: wire.dropped > 0)
            assert member.wait_settled(60)
            assert len(member.owned()) == 2
            member.leave()
