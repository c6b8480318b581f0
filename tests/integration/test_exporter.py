"""The exporter on a real cluster, scraped over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyspark_zkafka.testing import LocalCluster
from tests.support.wire import Wire

pytestmark = pytest.mark.server

_MAIN = [sys.executable, "-c", "from pyspark_zkafka.tools import main; main()"]
_COMMAND = [*_MAIN, "exporter", "--listen-address", "127.0.0.1:0", "--timeout", "30"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Exporter:
    """A running exporter."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        line = process.stderr.readline()
        found = re.search(r"http://\S+/metrics", line)
        assert found, line + process.stderr.read()
        self.url = found.group()
        self.log = ""  # complete after its end

    def scrape(self) -> Samples:
        """Return the values of one scrape, by name and labels."""
        with urlopen(self.url, timeout=60) as response:
            text = response.read().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@contextmanager
def running(zookeeper: str, *options: str) -> Iterator[Exporter]:
    """Run an exporter, and end it with Ctrl-C."""
    environment = {**os.environ, "ZKAFKA_ZOOKEEPER": zookeeper}
    command = [*_COMMAND, *options]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            exporter = Exporter(process)
            yield exporter
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert process.stderr is not None
            exporter.log = process.stderr.read()
        finally:
            process.kill()


def value(samples: Samples, name: str, **labels: object) -> float | None:
    """Return a sample's value, or None without such a sample."""
    return samples.get((name, frozenset((label, str(text)) for label, text in labels.items())))


def test_a_scrape(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """A scrape has a group's offset, lag, owner, last commit and members, and the cluster's partitions and brokers."""
    topic, group = new_topic(partitions=2, replication=2), "exported"
    zkafka_cluster.produce(topic, [{"value": b"v", "partition": 0}] * 10)
    with zkafka_cluster.zookeeper() as znodes:
        subscription = f'{{"version":1,"subscription":{{"{topic}":1}},"pattern":"static","timestamp":"1795227256228"}}'
        root = f"/consumers/{group}"
        znodes.create(f"{root}/ids/{group}_c", subscription.encode(), ephemeral=True, makepath=True)
        znodes.create(f"{root}/owners/{topic}/0", f"{group}_c-0".encode(), ephemeral=True, makepath=True)
        znodes.create(f"{root}/offsets/{topic}/0", b"4", makepath=True)
        committed = znodes.get(f"{root}/offsets/{topic}/0")[1].mtime / 1000
        leader = zkafka_cluster.assignment(topic)[0][0]
        with running(zkafka_cluster.zookeeper_connect, "--group-filter", f"^{group}$") as exporter:
            found = exporter.scrape()
        znodes.delete(root, recursive=True)
    place = {"topic": topic, "partition": 0}
    owned = {"consumergroup": group, **place}
    assert value(found, "zkafka_up") == value(found, "zkafka_brokers_up") == 1
    assert value(found, "kafka_brokers") == len(zkafka_cluster.broker_ids)
    assert value(found, "zkafka_controller_id") in zkafka_cluster.broker_ids
    assert value(found, "zkafka_controller_epoch")
    assert value(found, "kafka_topic_partitions", topic=topic) == 2
    assert value(found, "kafka_topic_partition_leader", **place) == leader
    assert value(found, "kafka_topic_partition_replicas", **place) == 2
    assert value(found, "kafka_topic_partition_current_offset", **place) == 10
    assert value(found, "kafka_topic_partition_oldest_offset", **place) == 0
    assert value(found, "kafka_consumergroup_current_offset", **owned) == 4
    assert value(found, "kafka_consumergroup_lag", **owned) == 6
    assert value(found, "kafka_consumergroup_lag_sum", consumergroup=group, topic=topic) == 6
    assert value(found, "kafka_consumergroup_members", consumergroup=group) == 1
    assert value(found, "zkafka_consumergroup_last_commit_timestamp_seconds", **owned) == committed
    assert value(found, "zkafka_consumergroup_owner_info", **owned, consumer_id=f"{group}_c", host="") == 1
    assert value(found, "zkafka_consumergroup_partition_owned", **{**owned, "partition": 1}) == 0


@pytest.mark.long
def test_zookeeper_fails(zkafka_cluster: LocalCluster) -> None:
    """While ZooKeeper is unreachable, scrapes return zkafka_up 0; the exporter recovers afterwards."""
    _, _, chroot = zkafka_cluster.zookeeper_connect.partition("/")
    with Wire(zkafka_cluster.port("zookeeper")) as wire, running(f"{wire.address}/{chroot}") as exporter:
        assert value(exporter.scrape(), "zkafka_up") == 1
        wire.cut()
        cut = exporter.scrape()
        assert (value(cut, "zkafka_up"), value(cut, "kafka_brokers")) == (0, None)
        wire.mend()
        assert value(exporter.scrape(), "zkafka_up") == 1
    assert "ZooKeeper cannot be read" in exporter.log
    assert "Connection dropped" not in exporter.log  # one line for each attempt to connect
