"""Proxies from members to ZooKeeper and to each broker, which advertises its proxy on a listener."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.testing import LocalCluster
from tests.faults.harness.workloads import BROKERS_LISTENER
from tests.support.rough_wire import RoughWire

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Network", "proxied_ports", "wired_cluster"]

_ADVERTISED = "PROXY"


def wired_cluster(brokers: int = 3, config: Mapping[str, str] | None = None, **settings: Any) -> LocalCluster:
    """Return a cluster, not started, whose brokers have one more listener that clients reach through a `Network`."""
    advertised = f"PLAINTEXT://{{host}}:{{port}},{BROKERS_LISTENER}://{{host}}:{{port:{_ADVERTISED}}}"
    return LocalCluster(
        brokers=brokers,
        listeners={BROKERS_LISTENER: "PLAINTEXT"},
        broker_config={"advertised.listeners": advertised, "replica.lag.time.max.ms": "5000", **(config or {})},
        startup_timeout_s=180,
        **settings,
    )


def proxied_ports(cluster: LocalCluster) -> dict[int, tuple[int, int]]:
    """Return by broker the port of the listener, and the port that it advertises."""
    return {b: (cluster.port(b, BROKERS_LISTENER), cluster.port(b, _ADVERTISED)) for b in cluster.broker_ids}


class Network:
    """Proxies to the servers of a `wired_cluster`, open inside its ``with`` block."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._chroot = "" if cluster.is_kraft else cluster.zookeeper_connect.partition("/")[2]
        self._zookeeper = None if cluster.is_kraft else RoughWire(cluster.port("zookeeper"))
        self.brokers = {broker: RoughWire(*pair) for broker, pair in proxied_ports(cluster).items()}
        self._opened = ExitStack()

    @property
    def zookeeper(self) -> RoughWire:
        """The wire to ZooKeeper, which the cluster must have."""
        assert self._zookeeper is not None
        return self._zookeeper

    @property
    def zookeeper_connect(self) -> str:
        """The ``zookeeper.connect`` of members; empty without ZooKeeper."""
        return f"{self._zookeeper.address}/{self._chroot}" if self._zookeeper else ""

    @property
    def bootstrap_servers(self) -> str:
        """The ``kafka.bootstrap.servers`` of members."""
        return ",".join(wire.address for wire in self.brokers.values())

    def mend(self) -> None:
        """Let all connections through again."""
        for wire in self._wires():
            wire.mend()

    def _wires(self) -> list[RoughWire]:
        return [*filter(None, [self._zookeeper]), *self.brokers.values()]

    def __enter__(self) -> Network:
        for wire in self._wires():
            self._opened.enter_context(wire)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._opened.close()
