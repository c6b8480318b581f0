"""SASL with a real ZooKeeper, with the right and a wrong password."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from pyspark_zkafka.errors import ZooKeeperRefused
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.options import ensemble_config

pytestmark = [pytest.mark.server, pytest.mark.long]

LOGIN = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="open-sesame"; };\n'


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperConfig]:
    """A ZooKeeper that knows alice, with znodes that only she may read."""
    jaas: Path = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    jaas.write_text(LOGIN)
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    with LocalCluster(
        brokers=1,
        zookeeper_config={"authProvider.1": provider},
        zookeeper_jvm_options=[f"-Djava.security.auth.login.config={jaas}"],
    ) as cluster:
        hosts = cluster.zookeeper_connect.partition("/")[0]
        _make_private(hosts)
        yield ensemble_config(hosts, "/private")


def _make_private(hosts: str) -> None:
    other = KazooClient(hosts=hosts)
    other.start()
    other.ensure_path("/private/brokers/ids")
    other.create("/private/brokers/topics", acl=[make_acl("sasl", "alice", all=True)])
    other.stop()
    other.close()


def test_the_right_password_opens_what_the_acl_closes(config: ZooKeeperConfig) -> None:
    """DIGEST-MD5 authenticates the user that the ACL names; without it, the read is refused."""
    with ZooKeeperClient(replace(config, auth=("sasl", "DIGEST-MD5:alice:open-sesame"))) as client:
        assert client.topic_names() == []
    with ZooKeeperClient(config) as client, pytest.raises(ZooKeeperRefused, match="/private/brokers/topics was refused"):
        client.topic_names()


def test_a_wrong_password_is_refused(config: ZooKeeperConfig, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong password raises an error that mentions the credentials without showing them."""
    caplog.set_level(1)
    wrong = replace(config, auth=("sasl", "DIGEST-MD5:alice:wrong-sesame"), connection_timeout_ms=3000)
    with pytest.raises(ZooKeeperRefused, match=r"does not accept the credentials .* check zookeeper\.auth") as error:
        ZooKeeperClient(wrong).__enter__()
    assert "wrong-sesame" not in caplog.text + str(error.value)


def test_a_refusal_is_told_to_a_thread_that_asks_late(config: ZooKeeperConfig) -> None:
    """A refused login is reported to a thread that notices it late, when kazoo has already closed."""
    wrong = replace(config, auth=("sasl", "DIGEST-MD5:alice:wrong-sesame"))
    caller = threading.current_thread()

    def slow_clock() -> float:
        if threading.current_thread() is caller:
            time.sleep(1)
        return time.monotonic()

    with pytest.raises(ZooKeeperRefused, match="does not accept the credentials"):
        ZooKeeperClient(wrong, clock=slow_clock).__enter__()
