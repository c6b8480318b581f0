"""Proxies from members to ZooKeeper and to each broker, which advertises its proxy on a listener."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from pyspark_zkafka.testing import LocalCluster
from tests.faults.harness.workloads import BROKERS_LISTENER
from tests.support.rough_wire import RoughWire

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Network", "wired_cluster"]

_ADVERTISED = "PROXY"


def wired_cluster(brokers: int = 3, config: Mapping[str, str] | None = None) -> LocalCluster:
    """Return a cluster, not started, whose brokers have one more listener that clients reach through a `Network`."""
    advertised = f"PLAINTEXT://{{host}}:{{port}},{BROKERS_LISTENER}://{{host}}:{{port:{_ADVERTISED}}}"
    return LocalCluster(
        brokers=brokers,
        listeners={BROKERS_LISTENER: "PLAINTEXT"},
        broker_config={"advertised.listeners": advertised, "replica.lag.time.max.ms": "5000", **(config or {})},
        startup_timeout_s=180,
    )


class Network:
    """Proxies to the servers of a `wired_cluster`, open inside its ``with`` block."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._chroot = cluster.zookeeper_connect.partition("/")[2]
        self.zookeeper = RoughWire(cluster.port("zookeeper"))
        ports = {b: (cluster.port(b, BROKERS_LISTENER), cluster.port(b, _ADVERTISED)) for b in cluster.broker_ids}
        self.brokers = {broker: RoughWire(*pair) for broker, pair in ports.items()}
        self._opened = ExitStack()

    @property
    def zookeeper_connect(self) -> str:
        """The ``zookeeper.connect`` of members."""
        return f"{self.zookeeper.address}/{self._chroot}"

    @property
    def bootstrap_servers(self) -> str:
        """The ``kafka.bootstrap.servers`` of members."""
        return ",".join(wire.address for wire in self.brokers.values())

    def mend(self) -> None:
        """Let all connections through again."""
        for wire in (self.zookeeper, *self.brokers.values()):
            wire.mend()

    def __enter__(self) -> Network:
        for wire in (self.zookeeper, *self.brokers.values()):
            self._opened.enter_context(wire)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._opened.close()
