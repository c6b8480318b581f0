"""The command ``zkafka cluster``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.errors import LocalClusterError, ZKafkaError
from pyspark_zkafka.testing import attach
from pyspark_zkafka.tools import app
from tests.support.eventually import eventually
from tests.support.processes import alive
from tests.support.security import read_values, write_values


@pytest.fixture(autouse=True)
def cache(own_cache: Path) -> Path:
    """A cache folder of the test, so that the developer's clusters stay untouched."""
    return own_cache


@pytest.fixture
def zkafka(cache: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs ``zkafka cluster``, and takes the cluster down at the end."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from pyspark_zkafka.tools import main; main()", "cluster", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    yield run
    run("down")


def status() -> list[dict[str, Any]]:
    """Return the rows of ``zkafka cluster status``, run in this process."""
    shown = CliRunner().invoke(app, ["cluster", "status", "--json"])
    assert shown.exit_code == 0, shown.output
    found: list[dict[str, Any]] = json.loads(shown.stdout)
    return found


def test_command(zkafka: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A cluster runs from `up` until `down`, and `status` shows it.

    Meanwhile other processes can use it, its topics and both of its addresses, but cannot stop its servers.
    """
    assert json.loads(zkafka("status", "--json").stdout) == []
    with pytest.raises(LocalClusterError, match=r"NO_CLUSTER_UP\] No local cluster named 'default' is running"):
        attach()
    up = zkafka("up", "--brokers", "1", "--json")
    assert up.returncode == 0, up.stderr
    (state,) = json.loads(up.stdout)
    assert status() == [state]
    assert state["listening"] == {"zookeeper": True, "broker-0": True}
    assert "listens" in zkafka("status").stdout
    again = zkafka("up")
    assert again.returncode == 1
    assert "CLUSTER_ALREADY_UP" in again.stderr
    use_attached(state)
    assert status() == [state]
    assert zkafka("down").returncode == 0
    eventually(lambda: not alive(state["pid"]))
    assert not Path(state["folder"]).exists()
    assert status() == []
    assert "NO_CLUSTER_UP" in zkafka("down").stderr


def use_attached(state: dict[str, Any]) -> None:
    """Use the cluster through a handle, which refuses requests to stop servers."""
    with attach() as cluster:
        cluster.create_topic("orders", partitions=2)
        assert cluster.produce("orders", [{"value": b"x", "partition": 1}]) == {1: [0]}
        assert cluster.zookeeper_connect == state["zookeeper_connect"]
        assert cluster.bootstrap_servers == state["bootstrap_servers"]
        with cluster.zookeeper() as znodes:
            assert znodes.get_children("/brokers/ids") == ["0"]
        assert cluster.log(0).exists()
        cluster.wait_ready()
        for refused in (lambda: cluster.stop(0), lambda: cluster.kill("zookeeper"), lambda: cluster.pid(0)):
            with pytest.raises(LocalClusterError, match="ATTACHED_CLUSTER"):
                refused()


SHARING = r"""
import os
from pyspark_zkafka.testing.detached import share
servers = share("shared", {"brokers": 1}, os.getppid()).bootstrap_servers
os.write(1, f"{servers}\n".encode())  # print would write the line in two parts
"""


@pytest.mark.long
def test_shared(cache: Path) -> None:
    """Processes that share a cluster start it once; it outlives them, and ends with the process that owns it."""
    sharing = f"{sys.executable} -c '{SHARING}'"
    script = f"{sharing} & {sharing} & wait; read end"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        first, second = owner.stdout.readline(), owner.stdout.readline()  # type: ignore[union-attr]
        assert first == second != ""
        (state,) = status()
        assert state["name"] == "shared"
        assert all(state["listening"].values())
    eventually(lambda: not Path(state["folder"]).exists())
    eventually(lambda: not list((cache / "clusters").iterdir()))


@pytest.mark.long
def test_kraft(zkafka: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """``--kafka 4`` starts the tested version 4.3.1 in KRaft mode, and shows no ZooKeeper address."""
    up = zkafka("up", "--brokers", "1", "--kafka", "4", "--controllers", "1", "--json")
    assert up.returncode == 0, up.stderr
    (state,) = json.loads(up.stdout)
    assert state["kafka_version"] == "4.3.1"
    assert state["zookeeper_connect"] is None
    assert state["listening"] == {"controller-3000": True, "broker-0": True}
    assert "zookeeper.connect" not in zkafka("status").stdout
    assert zkafka("down").returncode == 0


@pytest.mark.long
def test_daemon_killed(zkafka: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """When the daemon of a cluster is killed, the cluster ends, `status` no longer lists it, and `up` works again."""
    (state,) = json.loads(zkafka("up", "--brokers", "1", "--json").stdout)
    os.kill(state["pid"], signal.SIGKILL)
    eventually(lambda: not Path(state["folder"]).exists())
    assert status() == []
    assert zkafka("up", "--brokers", "1").returncode == 0


@pytest.mark.long
def test_command_failure(zkafka: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A cluster that cannot start is reported with the reason, and leaves no state."""
    done = zkafka("up", "--brokers", "1", "--config", "num.io.threads=many")
    assert done.returncode == 1
    assert "broker-0 ended with exit status 1" in done.stderr
    assert json.loads(zkafka("status", "--json").stdout) == []
    assert "NAME=VALUE" in zkafka("up", "--config", "nonsense").stderr


@pytest.mark.long
@pytest.mark.parametrize("kafka", ["3.9.1", "4.3.1"])
def test_secure(zkafka: Callable[..., subprocess.CompletedProcess[str]], kafka: str) -> None:
    """``--secure`` prints the properties with which a job and the command log in, and a wrong password is refused."""
    up = zkafka("up", "--brokers", "2", "--kafka", kafka, "--secure")
    assert up.returncode == 0, up.stderr
    (state,) = status()
    file = Path(state["command_config"])
    assert f"export ZKAFKA_COMMAND_CONFIG={file}" in up.stdout
    shown = CliRunner().invoke(app, ["topics", "create", "orders", "--command-config", str(file), "--yes"])
    assert shown.exit_code == 0, shown.output
    printed = [line.partition("=") for line in up.stdout.splitlines() if not line.startswith("export ")]
    properties = {name: value for name, _, value in printed if re.fullmatch(r"[a-z.]+", name)}
    assert attach().client_properties == properties
    assert properties["bootstrap.servers"] != state["bootstrap_servers"]
    options = {f"kafka.{name}": value for name, value in properties.items()}
    write_values({**options, "topic": "orders"}, [b"1"])
    assert read_values({**options, "subscribe": "orders"}) == [b"1"]
    with pytest.raises(ZKafkaError, match=r"AUTHENTICATION|LOGIN|login"):
        read_values({**options, "subscribe": "orders", "kafka.sasl.password": "wrong"})
    assert properties["sasl.password"] not in zkafka("status").stdout
    assert zkafka("down").returncode == 0
    assert not file.exists()
