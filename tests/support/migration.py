"""A local cluster of Kafka 3.9.1 that migrates from ZooKeeper to KRaft in phases, and upgrades to Kafka 4."""

from __future__ import annotations

import json
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import javaproperties

from pyspark_zkafka.testing import LocalCluster, run_kafka_tool, spec
from pyspark_zkafka.testing.jars import kafka_classpath
from pyspark_zkafka.testing.processes import LOOPBACK, Wait
from pyspark_zkafka.testing.servers import format_storage
from pyspark_zkafka.testing.spec import CONTROLLER_LISTENER, ClusterSpec, Server
from pyspark_zkafka.testing.topics import AdminTopics, ZnodeTopics
from tests.support.eventually import eventually

__all__ = ["CONTROLLER", "MigratingCluster"]

CONTROLLER = 3000
"""The id of the KRaft controller."""

_NAME = f"controller-{CONTROLLER}"
_EXIT_TIMEOUT_S = 30
_FEATURES = "org.apache.kafka.tools.FeatureCommand"


class MigratingCluster(LocalCluster):
    """A cluster with ZooKeeper, and the steps of Kafka's migration guide."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(kafka_version="3.9.1", **arguments)
        self._target = ClusterSpec(kafka_version="3.9.1", brokers=self.brokers, controllers=1)
        self._is_migrating = False
        self._moved: set[Server] = set()
        self._upgraded: dict[Server, str] = {}

    def begin(self) -> None:
        """Start the KRaft controller, and restart the brokers so that it takes over and dual writes start."""
        with self.zookeeper() as client:
            cluster_id = json.loads(client.get("/cluster/id")[0])["id"]
        self._is_migrating = True
        file = self._write_controller_properties()
        format_storage(self._java, self._classpaths["3.9.1"], cluster_id, [file])
        self._start_controller(file)
        for broker in self.broker_ids:
            self.restart(broker)
        with self.zookeeper() as client:
            eventually(lambda: json.loads(client.get("/controller")[0]).get("kraftControllerEpoch", -1) >= 0, 60)

    def move(self, broker: int) -> None:
        """Restart a broker in KRaft mode, without ZooKeeper."""
        self.stop(broker)
        self._moved.add(broker)
        self._launch(broker)
        self._wait_ready(self._deadline())

    def finalize(self) -> None:
        """Restart the controller without ZooKeeper, which ends dual writes."""
        self._is_migrating = False
        self._restart_controller()
        self.create_topic("after-migration")

    def upgrade(self, server: Server, version: str) -> None:
        """Restart a broker or the controller with the jars of another version and the same data."""
        self._classpaths[version] = kafka_classpath(version)
        self._upgraded[server] = version
        if server == CONTROLLER:
            self._restart_controller()
        else:
            self.restart(server)

    def finalize_upgrade(self, version: str) -> str:
        """Finalize a version's features, after which older servers cannot start; return the tool's description."""
        servers = ("--bootstrap-server", self.bootstrap_servers)
        release = ".".join(version.split(".")[:2])
        run_kafka_tool(version, _FEATURES, *servers, "upgrade", "--release-version", release)
        return run_kafka_tool(version, _FEATURES, *servers, "describe")

    def _restart_controller(self) -> None:
        self._processes.end(_NAME, signal.SIGTERM, _EXIT_TIMEOUT_S)
        self._start_controller(self._write_controller_properties())

    def _write_controller_properties(self) -> Path:
        return self._write(_NAME, self._kraft_properties(CONTROLLER))

    def _start_controller(self, file: Path) -> None:
        command = spec.server_command(self._target, CONTROLLER, self._java, file)
        self._processes.start(_NAME, command, {"CLASSPATH": self._classpath(CONTROLLER)})

    def _classpath(self, server: Server) -> str:
        upgraded = self._upgraded.get(server)
        return super()._classpath(server) if upgraded is None else self._classpaths[upgraded]

    def _kraft_properties(self, node: int) -> dict[str, str]:
        name = _NAME if node == CONTROLLER else f"broker-{node}"

        def port(purpose: str) -> int:
            return self._processes.port(name, purpose)

        config = spec.server_properties(self._target, node, self._processes.folder / name, port, self._voters)
        return {**config, **(self._migrating if node == CONTROLLER and self._is_migrating else {})}

    @property
    def _voters(self) -> str:
        return f"{CONTROLLER}@{LOOPBACK}:{self._processes.port(_NAME, CONTROLLER_LISTENER)}"

    @property
    def _migrating(self) -> dict[str, str]:
        return {"zookeeper.metadata.migration.enable": "true", "zookeeper.connect": self.zookeeper_connect}

    def _write_properties(self, server: Server) -> Path:
        if server in self._moved:
            return self._write(f"broker-{server}", self._kraft_properties(int(server)))
        file = super()._write_properties(server)
        if server in self.broker_ids and self._is_migrating:
            names = {"controller.quorum.voters": self._voters, "controller.listener.names": CONTROLLER_LISTENER}
            security = f"PLAINTEXT:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT"
            more = {**self._migrating, **names, "listener.security.protocol.map": security}
            file.write_text(
                file.read_text(encoding="latin-1") + javaproperties.dumps(more, timestamp=None), encoding="latin-1"
            )
        return file

    def _write(self, name: str, config: dict[str, str]) -> Path:
        file = self._processes.folder / f"{name}.properties"
        file.write_text(javaproperties.dumps(config, timestamp=None), encoding="latin-1")
        return file

    def _topic_state(self) -> AbstractContextManager[AdminTopics | ZnodeTopics]:
        return self._open_topics(through_brokers=bool(self._moved))  # the KRaft controller ignores elections in ZooKeeper

    def _wait_registered(self, deadline: Wait) -> set[int]:
        return set(self.running_broker_ids) if self._moved else super()._wait_registered(deadline)

    def _wait_until_unregistered(self, broker: int, deadline: Wait) -> None:
        if broker not in self._moved:
            super()._wait_until_unregistered(broker, deadline)
