"""Logins at brokers before 1.0, whose tokens have no headers of Kafka's protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient
from scramp import ScramMechanism

from pyspark_zkafka.testing import LocalCluster
from tests.support.security import MODULES, SECRET, WRONG, Options, password_login

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.long,
    pytest.mark.parametrize("early_fortress", ["0.10.2.2", "0.11.0.3"], indirect=True),
]


@pytest.fixture(scope="session")
def early_fortress(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A broker of the version that the test names, where alice logs in by PLAIN or SCRAM."""
    jaas = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    logins = f'{MODULES}.plain.PlainLoginModule required user_alice="{SECRET}"; {MODULES}.scram.ScramLoginModule required;'
    jaas.write_text(f"KafkaServer {{ {logins} }};\n")
    with LocalCluster(
        brokers=1,
        kafka_version=request.param,
        listeners={"LOGIN": "SASL_PLAINTEXT"},
        broker_config={"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"},
        broker_jvm_options=[f"-Djava.security.auth.login.config={jaas}"],
    ) as cluster:
        add_scram_user(cluster)
        yield cluster


def add_scram_user(cluster: LocalCluster) -> None:
    """Add alice as ``kafka-configs`` does, which writes to ZooKeeper in these versions."""
    salt, stored_key, server_key, iterations = ScramMechanism("SCRAM-SHA-256").make_auth_info(SECRET, 4096)
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in (salt, stored_key, server_key))
    credential = f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={iterations}"
    client = KazooClient(cluster.zookeeper_connect)
    client.start()
    try:
        user = {"version": 1, "config": {"SCRAM-SHA-256": credential}}
        client.create("/config/users/alice", json.dumps(user).encode(), makepath=True)
        change = {"version": 2, "entity_path": "users/alice"}
        client.create("/config/changes/config_change_", json.dumps(change).encode(), sequence=True, makepath=True)
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_login(spark: SparkSession, early_fortress: LocalCluster, mechanism: str) -> None:
    """Rows are written and read through a login, planned from ZooKeeper and from the brokers."""
    topic = f"rows-{mechanism.lower()}"
    early_fortress.create_topic(topic, partitions=2)
    login = {**password_login(), "kafka.sasl.mechanism": mechanism}
    for connection in connections(early_fortress):
        rows = spark.range(20).selectExpr("cast(id AS string) AS value")
        rows.write.format("zkafka").mode("append").options(**login, **connection, topic=topic).save()
        found = spark.read.format("zkafka").options(**login, **connection, subscribe=topic).load()
        assert found.groupBy("value").count().count() == 20
    assert found.count() == 40


def test_wrong_password(spark: SparkSession, early_fortress: LocalCluster) -> None:
    """A refused login, for which these brokers only close the connection, is reported as such."""
    early_fortress.create_topic("refused", partitions=1)
    for connection in connections(early_fortress):
        with pytest.raises(Exception, match="REFUSED_BY_BROKER"):
            spark.read.format("zkafka").options(**password_login(WRONG), **connection, subscribe="refused").load().count()


def connections(cluster: LocalCluster) -> list[Options]:
    """Options that reach the listener of logins, through ZooKeeper and without it."""
    return [
        {"zookeeper.connect": cluster.zookeeper_connect, "listener.name": "LOGIN"},
        {"kafka.bootstrap.servers": cluster.listener_servers("LOGIN")},
    ]
