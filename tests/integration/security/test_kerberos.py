"""Kerberos with a real KDC: clients log in to a broker, and the broker logs in to ZooKeeper.

Clients are processes with what pip installs: confluent-kafka's wheel, which has no Kerberos, and gssapi, see `Kdc`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster
from tests.support.applications import Application, Request
from tests.support.eventually import eventually
from tests.support.kerberos import REALM, Kdc
from tests.support.security import TEN, Options, read_values

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

BROKER, ZOOKEEPER = "kafka/127.0.0.1", "zookeeper/127.0.0.1"
TICKET_S = 10
SESSION_MS = 4000
"""Time after which a connection to the listener RENEWED must log in again."""
ADVICE = "check kafka.sasl.kerberos.principal, keytab and service.name"
SOON_S = 40
SILENCE_S = 90
"""More than the minute for which MIT Kerberos waits for a KDC that is silent."""
COPY_S = 150
ORDERS = [value.decode() for value in TEN]
ONE_READ = Path(__file__).parents[1] / "drivers" / "one_read.py"


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    """The KDC, with the principals of the servers and of two users."""
    with Kdc(BROKER, ZOOKEEPER, "alice", "mallory") as kdc:
        kdc.shorten_tickets("alice", TICKET_S)
        yield kdc


@pytest.fixture(scope="module")
def cluster(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A broker with two listeners for Kerberos, which itself logs in to ZooKeeper, and protects its znodes; ten orders."""
    jaas = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    jaas.write_text(f"Server {{ {kdc.jaas(ZOOKEEPER)} }};\nClient {{ {kdc.jaas(BROKER)} }};\n")
    jvm = [f"-Djava.security.auth.login.config={jaas}", f"-Djava.security.krb5.conf={kdc.config}"]
    accepts = kdc.jaas(BROKER)
    with LocalCluster(
        brokers=1,
        listeners={"KERBEROS": "SASL_PLAINTEXT", "RENEWED": "SASL_PLAINTEXT"},
        broker_config={
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.kerberos.gssapi.sasl.jaas.config": accepts,
            "listener.name.renewed.gssapi.sasl.jaas.config": accepts,
            "listener.name.renewed.gssapi.connections.max.reauth.ms": str(SESSION_MS),
            "zookeeper.set.acl": "true",
        },
        broker_jvm_options=[*jvm, f"-Dzookeeper.server.principal={ZOOKEEPER}@{REALM}"],
        zookeeper_config={"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
        zookeeper_jvm_options=jvm,
    ) as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.produce("orders", [{"value": value, "partition": n % 2} for n, value in enumerate(TEN)])
        yield cluster


@pytest.fixture(scope="module")
def login(kdc: Kdc, cluster: LocalCluster) -> Callable[..., Options]:
    """Options that log in as alice with her keytab, whose tickets last for some seconds."""
    keytab = kdc.keytab("alice")

    def options(listener: str = "KERBEROS", **others: str) -> Options:
        renamed = {f"kafka.sasl.kerberos.{name.replace('_', '.')}": value for name, value in others.items()}
        return {
            "kafka.bootstrap.servers": cluster.listener_servers(listener),
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.service.name": "kafka",
            "kafka.sasl.kerberos.principal": f"alice@{REALM}",
            "kafka.sasl.kerberos.keytab": keytab,
            **renamed,
        }

    return options


@pytest.fixture
def read(kdc: Kdc, tmp_path: Path) -> Callable[[Options], dict[str, Any]]:
    """Reads the topic orders in a process that has no ticket yet, and returns the values, or the error, and the seconds."""

    def run(options: Options) -> dict[str, Any]:
        environ = {**os.environ, **kdc.environ(f"{tmp_path.name}-{time.monotonic_ns()}")}
        command = [sys.executable, str(ONE_READ), json.dumps({**options, "subscribe": "orders"})]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environ)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def application(kdc: Kdc, tmp_path: Path) -> Iterator[Application]:
    """A Spark application, all of whose processes have gssapi."""
    application = Application(tmp_path / "application", cores=2, environment=kdc.environ(tmp_path.name))
    yield application
    application.close()


@pytest.fixture
def copy(cluster: LocalCluster, tmp_path: Path) -> Callable[..., Request]:
    """Makes a query that copies a new topic, which a login reads and whose copy is written without one."""

    def make(topic: str, login: Options) -> Request:
        for name in (topic, f"{topic}-copy"):
            cluster.create_topic(name)
        return Request(
            checkpoint=str(tmp_path / "checkpoint"),
            source={**login, "subscribe": topic, "startingOffsets": "earliest"},
            writes=[{"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": f"{topic}-copy"}],
            trigger={"processingTime": "1 second"},
        )

    return make


def assert_fails_soon(found: Mapping[str, Any], within_s: float = SOON_S) -> None:
    """Fail unless a read ended in time, with an error that says what to do."""
    assert "REFUSED_BY_BROKER" in found["error"]
    assert ADVICE in found["error"]
    assert found["seconds"] < within_s


def copies_for(seconds: float, cluster: LocalCluster, topic: str) -> None:
    """Fail unless a running query copies what is produced during some seconds, each record in time."""
    plain = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": f"{topic}-copy"}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = b"%d" % time.monotonic_ns()
        cluster.produce(topic, [{"value": value}])
        eventually(lambda value=value: value in read_values(plain), COPY_S, poll_s=0.5)


def test_reads_and_writes(
    login: Callable[..., Options], application: Application, cluster: LocalCluster, tmp_path: Path
) -> None:
    """A batch read, a batch write and an exactly-once write, all of them by Kerberos."""
    cluster.create_topic("copied", partitions=2)
    cluster.create_topic("copied-once", partitions=2)
    source = {**login(), "subscribe": "orders", "startingOffsets": "earliest"}
    batch = Request(checkpoint="", source=source, writes=[{**login(), "topic": "copied"}], is_batch=True)
    stream = Request(
        checkpoint=str(tmp_path / "checkpoint"),
        source=source,
        writes=[{**login(), "topic": "copied-once", "deliveryGuarantee": "exactly-once"}],
    )
    assert application.run(batch).error is None
    assert application.run(stream).error is None
    plain = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "kafka.isolation.level": "read_committed"}
    for topic in ("copied", "copied-once"):
        assert read_values({**plain, "subscribe": topic}) == TEN


def test_streams_of_groups(
    login: Callable[..., Options], application: Application, cluster: LocalCluster, tmp_path: Path
) -> None:
    """A member commits to ZooKeeper, a stream without membership to Kafka, and a member in Kafka is refused by name."""

    def run(group: str, options: Options) -> str | None:
        source = {"subscribe": "orders", "group.id": group, "auto.offset.reset": "earliest", **options}
        write = {**login(), "topic": f"copied-by-{group}"}
        return application.run(Request(checkpoint=str(tmp_path / group), source=source, writes=[write])).error

    plain = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    by_listener = {name: value for name, value in login().items() if name != "kafka.bootstrap.servers"}
    of_group = {
        "member": {**by_listener, "zookeeper.connect": cluster.zookeeper_connect},
        "single": {**login(), "groupMembership": "none"},
    }
    for group, options in of_group.items():
        cluster.create_topic(f"copied-by-{group}", partitions=2)
        for _ in range(2):  # a micro-batch is committed when the next one is planned
            assert run(group, options) is None
        assert read_values({**plain, "subscribe": f"copied-by-{group}"}) == TEN
    with cluster.zookeeper() as client:
        assert [client.get(f"/consumers/member/offsets/orders/{p}")[0] for p in range(2)] == [b"5", b"5"]
    places = [TopicPartition("orders", p) for p in range(2)]
    with KafkaGroupOffsets(cluster.bootstrap_servers, {}, "single") as offsets:
        assert offsets.committed(places) == dict.fromkeys(places, 5)
    nobody = {**login(), "kafka.bootstrap.servers": "127.0.0.1:1"}
    refusal = (
        "a member of a group that Kafka coordinates, with kafka.sasl.mechanism=GSSAPI, needs a librdkafka with Kerberos"
    )
    assert refusal in str(run("refused", nobody))


def test_groups(kdc: Kdc, login: Callable[..., Options], cluster: LocalCluster, tmp_path: Path) -> None:
    """The tools for groups log in with a keytab, in a process without a ticket."""
    place = TopicPartition("orders", 0)
    with KafkaGroupOffsets(cluster.bootstrap_servers, {}, "billing") as offsets:
        offsets.commit({place: 3})
    options = {name.removeprefix("kafka."): value for name, value in login().items()}
    config = tmp_path / "login.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in options.items() if name != "bootstrap.servers"))
    command = [sys.executable, "-m", "pyspark_zkafka.tools", "groups", "describe", "billing", "--json"]
    command += ["--bootstrap-server", options["bootstrap.servers"], "--command-config", str(config)]
    environ = {**os.environ, **kdc.environ("tools")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environ)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["topic"], row["partition"], row["offset"], row["lag"]) == (*place, 3, len(TEN) / 2 - 3)


def test_wrong_logins(kdc: Kdc, login: Callable[..., Options], read: Callable[[Options], dict[str, Any]]) -> None:
    """A principal that the keytab lacks, an old key and an unknown service are errors within seconds, with what to do."""
    old = kdc.keytab("mallory")
    kdc.change_keys("mallory")
    mallory = f"mallory@{REALM}"
    wrong = [login(principal=mallory), login(principal=mallory, keytab=old), login(service_name="kavka")]
    for options in wrong:
        assert_fails_soon(read(options))
    assert read(login())["values"] == ORDERS


def test_tickets_that_expire(
    kdc: Kdc, login: Callable[..., Options], application: Application, cluster: LocalCluster, copy: Callable[..., Request]
) -> None:
    """A query reads for some lifetimes of a ticket, while the broker asks for a new login every few seconds."""
    application.start(copy("renewed", login("RENEWED")))
    copies_for(3 * TICKET_S, cluster, "renewed")
    granted = kdc.logins("alice")
    copies_for(TICKET_S, cluster, "renewed")
    assert kdc.logins("alice") > granted


def test_kdc_that_is_down(
    kdc: Kdc,
    login: Callable[..., Options],
    application: Application,
    cluster: LocalCluster,
    copy: Callable[..., Request],
    read: Callable[[Options], dict[str, Any]],
) -> None:
    """Without the KDC, a query reads on, also after the end of its ticket, and new logins fail in bounded time."""
    application.start(copy("connected", login()))
    copies_for(1, cluster, "connected")
    with kdc.down():
        copies_for(2 * TICKET_S, cluster, "connected")
        assert_fails_soon(read(login()))
    with kdc.silent():
        assert_fails_soon(read(login()), SILENCE_S)
    assert read(login())["values"] == ORDERS
    copies_for(1, cluster, "connected")


def test_zookeeper(cluster: LocalCluster) -> None:
    """Where only brokers log in to ZooKeeper by Kerberos, reads need no login there, and neither do members of groups."""
    connect = cluster.zookeeper_connect
    with cluster.zookeeper() as client, ConsumerGroup(connect, "billing", subscribe=["orders"]):
        acl, _ = client.get_acls("/brokers/topics/orders")
        assert {(entry.id.scheme, entry.id.id) for entry in acl} == {("sasl", f"{BROKER}@{REALM}"), ("world", "anyone")}
        assert len(client.get_children("/consumers/billing/ids")) == 1
    assert read_values({"zookeeper.connect": connect, "subscribe": "orders"}) == TEN
