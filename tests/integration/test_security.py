"""Security on real servers: what each option opens, what stays closed without it, how soon an error says so.

One ZooKeeper and one broker serve all tests. The broker has a listener for each way to log in; the ZooKeeper speaks plain
text, SASL and, on a port of its own, TLS with client certificates. The certificates are made here, with `cryptography`.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from kazoo.security import ACL, make_acl, make_digest_acl

from pyspark_zkafka.batch.planner import plan_batch
from pyspark_zkafka.batch.reader import SplitPartition, ZKafkaReader
from pyspark_zkafka.errors import (
    ClusterStateError,
    DeliveryFailed,
    OptionError,
    ZKafkaError,
    ZooKeeperError,
    ZooKeeperRefused,
)
from pyspark_zkafka.kafka.admin import KafkaAdmin
from pyspark_zkafka.options.batch import parse_connection, parse_read, parse_write
from pyspark_zkafka.options.model import ZooKeeperTls
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.offsets import LATEST
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.write.batch_writer import ZKafkaWriter
from pyspark_zkafka.write.task import plan_write
from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.kazoo_handler import BoundedHandler, ReadAhead
from pyspark_zkafka.zookeeper.tls import tls_context

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.server

SECRET = "open-sesame"
WRONG = "wrong-sesame"
MODULES = "org.apache.kafka.common.security"
LISTENERS = {"LOGIN": "SASL_PLAINTEXT", "TLS": "SSL", "ELSEWHERE": "SSL", "MUTUAL": "SSL", "BOTH": "SASL_SSL"}
SCHEMA = pa.schema([("value", pa.binary())])
_KEY = ec.SECP256R1()
Options = dict[str, str]


class Authority:
    """Signs certificates, and writes them as PEM files into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(_KEY)
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._certificate = self._sign(name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.file = self._write(f"{name}.pem", self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, host: x509.GeneralName, password: str | None = None) -> str:
        """The file of a new key, under a password if one is given, and of its certificate for a host."""
        key = ec.generate_private_key(_KEY)
        certificate = self._sign(name, key, x509.SubjectAlternativeName([host]))
        locked: KeySerializationEncryption = NoEncryption()
        if password is not None:
            locked = BestAvailableEncryption(password.encode())
            store = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, locked)
            self._write(f"{name}.p12", store)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
        return self._write(f"{name}.pem", private + certificate.public_bytes(Encoding.PEM))

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self._key, hashes.SHA256())
        )

    def _write(self, name: str, content: bytes) -> str:
        file = self._folder / name
        file.write_bytes(content)
        return str(file)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files: two authorities, and, signed by the first, certificates and keys of servers and clients."""
    folder = tmp_path_factory.mktemp("pem")
    ours, others = Authority(folder, "our-authority"), Authority(folder, "other-authority")
    here, elsewhere = x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("broker.example")
    return {
        "authority": ours.file,
        "other authority": others.file,
        "server": ours.issue("server", here),
        "server elsewhere": ours.issue("elsewhere", elsewhere),
        "client": ours.issue("client", x509.DNSName("client.example")),
        "locked client": ours.issue("locked", x509.DNSName("client.example"), SECRET),
    }


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory, pem: dict[str, str]) -> Iterator[LocalCluster]:
    """The servers, the SCRAM credentials of alice, and a topic with ten records."""
    jaas = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    jaas.write_text(f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="{SECRET}"; }};\n')
    with LocalCluster(
        brokers=1,
        listeners=LISTENERS,
        broker_config=_broker_config(pem),
        zookeeper_config={
            "secureClientPort": "{port:tls}",
            "secureClientPortAddress": "{host}",
            "ssl.keyStore.location": pem["server"],
            "ssl.trustStore.location": pem["authority"],
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        },
        zookeeper_jvm_options=[
            f"-Djava.security.auth.login.config={jaas}",
            "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        ],
    ) as cluster:
        _add_scram_user(cluster)
        cluster.create_topic("orders", partitions=2)
        cluster.produce("orders", [{"value": b"%d" % n, "partition": n % 2} for n in range(10)])
        yield cluster


def _broker_config(pem: dict[str, str]) -> Options:
    config = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    for name in ("login", "both"):
        config[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{MODULES}.plain.PlainLoginModule required user_alice="{SECRET}";'
        )
        config[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = f"{MODULES}.scram.ScramLoginModule required;"
    for name in ("tls", "elsewhere", "mutual", "both"):
        certificate = "server elsewhere" if name == "elsewhere" else "server"
        config[f"listener.name.{name}.ssl.keystore.location"] = pem[certificate]
        config[f"listener.name.{name}.ssl.truststore.location"] = pem["authority"]
    return config | {"listener.name.mutual.ssl.client.auth": "required"}


def _add_scram_user(cluster: LocalCluster) -> None:
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("alice", kind, SECRET.encode())
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.alter_user_scram_credentials([change])["alice"].result(30)


@pytest.fixture
def shown(caplog: pytest.LogCaptureFixture) -> Callable[..., None]:
    """Fails if a password is in the log of any library at any level, or in what it is given: an error, with its causes."""
    caplog.set_level(1)

    def check(*things: object) -> None:
        texts = [caplog.text, *map(repr, things)]
        texts += ["".join(traceback.format_exception(thing)) for thing in things if isinstance(thing, BaseException)]
        for text in texts:
            assert SECRET not in text
            assert WRONG not in text

    return check


def read_values(options: Options) -> list[bytes]:
    """The values of a topic, as tasks read them, sorted."""
    parsed = parse_read({"kafkaConsumer.pollTimeoutMs": "30000", **options})
    plan, reader = plan_batch(parsed), ZKafkaReader(parsed, SCHEMA)
    batches = (b for split in plan.splits for b in reader.read(SplitPartition((split,), plan.bootstrap_servers)))
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


def write_values(options: Options, values: list[bytes]) -> None:
    """Write values as a task does."""
    parsed = parse_write(options)
    ZKafkaWriter(parsed, plan_write(parsed)).write(
        iter([pa.record_batch([pa.array(values, pa.binary())], names=["value"])])
    )


TEN = [b"%d" % n for n in range(10)]


def fails_soon(kind: type[ZKafkaError], match: str, call: Callable[[], object], within_s: float = 15) -> ZKafkaError:
    """The error, which must come much sooner than librdkafka's and our own time-outs."""
    begin = time.monotonic()
    with pytest.raises(kind, match=match) as caught:
        call()
    assert time.monotonic() - begin < within_s
    return caught.value


# --- Kafka


@pytest.fixture
def brokers(fortress: LocalCluster) -> Options:
    """The options that reach the brokers through ZooKeeper."""
    return {"zookeeper.connect": fortress.zookeeper_connect}


def jaas_config(module: str, password: str = SECRET) -> str:
    """A login in Java's spelling."""
    return f'{MODULES}.{module} required username="alice" password="{password}";'


def password_login(password: str = SECRET) -> Options:
    """A login in librdkafka's spelling."""
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": password,
    }


JAVA_PLAIN = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas_config("plain.PlainLoginModule")}
JAVA_SCRAM = {"kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.sasl.jaas.config": jaas_config("scram.ScramLoginModule")}


class TestLogin:
    """SASL to the brokers."""

    _numbers = count()

    @pytest.fixture
    def topic(self, fortress: LocalCluster) -> str:
        name = f"login-{next(self._numbers)}"
        fortress.create_topic(name)
        return name

    @pytest.mark.parametrize(
        "login",
        [
            password_login(),
            password_login() | {"kafka.sasl.mechanism": "SCRAM-SHA-256"},
            {"kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_PLAIN},
            {"kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_SCRAM},
            {"kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_PLAIN, "listener.name": "login"},
        ],
        ids=["librdkafka's PLAIN", "librdkafka's SCRAM", "Java's PLAIN", "Java's SCRAM", "by name"],
    )
    def test_right(
        self, fortress: LocalCluster, brokers: Options, topic: str, login: Options, shown: Callable[..., None]
    ) -> None:
        """Both spellings of PLAIN and SCRAM open the listener that ZooKeeper tells of, to write and to read."""
        options = parse_read({**brokers, **login, "subscribe": topic})
        write_values({**brokers, **login, "topic": topic}, [b"a", b"b"])
        assert read_values({**brokers, **login, "subscribe": topic}) == [b"a", b"b"]
        assert plan_batch(options).bootstrap_servers == fortress.listener_servers("LOGIN")
        shown(options)

    def test_wrong_when_planning(self, brokers: Options, shown: Callable[..., None]) -> None:
        """A wrong password ends the plan of a read soon, with what to check."""
        options = parse_read({**brokers, **password_login(WRONG), "subscribe": "orders"})
        match = r"REFUSED_BY_BROKER.*Authentication failed.*check kafka\.security\.protocol.*user and password"
        shown(fails_soon(ClusterStateError, match, lambda: plan_batch(options)), options)

    def test_wrong_without_zookeeper(self, fortress: LocalCluster, shown: Callable[..., None]) -> None:
        """So it does where the brokers alone are asked, for names and for topics."""
        wrong = {"kafka.bootstrap.servers": fortress.listener_servers("LOGIN"), **password_login(WRONG)}
        for which in ({"subscribe": "orders"}, {"subscribePattern": "or.*"}):
            options = parse_read({**wrong, **which})
            shown(fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda options=options: plan_batch(options)))

    def test_wrong_in_a_task(self, brokers: Options, shown: Callable[..., None]) -> None:
        """A task of a read whose password has become wrong ends soon, too."""
        plan = plan_batch(parse_read({**brokers, **password_login(), "subscribe": "orders"}))
        options = parse_read({**brokers, **password_login(WRONG), "subscribe": "orders"})
        split = SplitPartition(plan.splits[:1], plan.bootstrap_servers)
        shown(fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda: list(ZKafkaReader(options, SCHEMA).read(split))))

    def test_wrong_in_a_write(self, brokers: Options, topic: str, shown: Callable[..., None]) -> None:
        """A task of a write says that nothing was acknowledged, and why; no record is there."""
        wrong = {**brokers, **password_login(WRONG), "topic": topic}
        match = r"brokers refuse.*Authentication failed.*user and password.*of 2 records .* 0 were acknowledged and 2 were"
        shown(fails_soon(DeliveryFailed, match, lambda: write_values(wrong, [b"a", b"b"])))
        assert read_values({**brokers, "subscribe": topic}) == []

    def test_wrong_mechanism(self, brokers: Options) -> None:
        """A mechanism that the listener does not have is an error that lists those that it has."""
        login = password_login() | {"kafka.sasl.mechanism": "SCRAM-SHA-512"}
        options = parse_read({**brokers, **login, "subscribe": "orders"})
        fails_soon(ClusterStateError, "REFUSED_BY_BROKER.*PLAIN,SCRAM-SHA-256", lambda: plan_batch(options))

    def test_through_spark(self, spark: SparkSession, brokers: Options, topic: str) -> None:
        """Frames are written and read with a login, and a wrong one fails with text that says what to check."""
        options = {**brokers, "kafka.security.protocol": "SASL_PLAINTEXT", **JAVA_PLAIN}
        frame = spark.createDataFrame([("a",), ("b",)], "value string")
        frame.write.format("zkafka").options(**options, topic=topic).mode("append").save()
        found = spark.read.format("zkafka").options(**options, subscribe=topic).load()
        assert sorted(row.value for row in found.collect()) == [b"a", b"b"]
        wrong = spark.read.format("zkafka").options(**brokers, **password_login(WRONG), subscribe=topic).load()
        with pytest.raises(Exception, match=r"REFUSED_BY_BROKER.*user and password") as error:
            wrong.collect()
        assert WRONG not in str(error.value)


class TestListeners:
    """Which endpoint of the registration is used."""

    def test_unknown(self, brokers: Options) -> None:
        """A name that no broker has is an error that lists the names and protocols that there are."""
        options = parse_read({**brokers, "listener.name": "BACKDOOR", "subscribe": "orders"})
        listed = r"BOTH \(SASL_SSL\), ELSEWHERE \(SSL\), LOGIN \(SASL_PLAINTEXT\), MUTUAL \(SSL\), PLAINTEXT \(PLAINTEXT\)"
        fails_soon(ClusterStateError, f"NO_LISTENER.*BACKDOOR.*{listed}", lambda: plan_batch(options))

    def test_wrong_protocol(self, brokers: Options) -> None:
        """A listener that is named, and speaks another protocol than we, is an error at once."""
        options = parse_read({**brokers, "listener.name": "LOGIN", "subscribe": "orders"})
        match = r"WRONG_SECURITY_PROTOCOL.*LOGIN.*set it to SASL_PLAINTEXT"
        fails_soon(ClusterStateError, match, lambda: plan_batch(options), within_s=3)
        write = parse_write({**brokers, "listener.name": "LOGIN", "topic": "orders"})
        fails_soon(ClusterStateError, match, lambda: plan_write(write), within_s=3)


class FailsOnce:
    """A gate before a TLS listener of one broker, open within a ``with`` block, that breaks off the first handshake."""

    ALERT = bytes.fromhex("15 0303 0002 0228")  # fatal: handshake_failure

    def __init__(self, servers: str) -> None:
        self._host, _, port = servers.rpartition(":")
        self._port = int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.refused = 0

    def __enter__(self) -> FailsOnce:
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            with client:
                client.recv(4096)
                client.sendall(self.ALERT)
                self.refused += 1
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._host, self._port))
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), target:
            while data := source.recv(65536):
                target.sendall(data)


class TestTls:
    """TLS to the brokers. The first listener with it has a certificate for 127.0.0.1."""

    JAVA = "kafka.ssl.truststore.location"
    OURS = "kafka.ssl.ca.location"

    @pytest.fixture
    def tls(self, brokers: Options, pem: dict[str, str]) -> Options:
        authority = {"kafka.ssl.truststore.type": "PEM", self.JAVA: pem["authority"]}
        return {**brokers, "kafka.security.protocol": "SSL", "subscribe": "orders", **authority}

    def test_java_spelling(self, fortress: LocalCluster, tls: Options) -> None:
        """A PEM trust store in Java's spelling; the listener is found by its protocol."""
        assert read_values(tls) == TEN
        assert plan_batch(parse_read(tls)).bootstrap_servers == fortress.listener_servers("TLS")

    def test_librdkafka_spelling(self, brokers: Options, pem: dict[str, str]) -> None:
        """The same with ssl.ca.location, and the certificates as text in the option."""
        for authority in (
            {self.OURS: pem["authority"]},
            {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": Path(pem["authority"]).read_text()},
        ):
            assert read_values({**brokers, "kafka.security.protocol": "SSL", "subscribe": "orders", **authority}) == TEN

    def test_write(self, fortress: LocalCluster, tls: Options) -> None:
        """Writes go through it, too."""
        fortress.create_topic("tls-write")
        write_values({**{k: v for k, v in tls.items() if k != "subscribe"}, "topic": "tls-write"}, [b"a"])
        assert read_values({**tls, "subscribe": "tls-write"}) == [b"a"]

    def test_other_authority(self, tls: Options, pem: dict[str, str]) -> None:
        """A certificate that the trust store does not vouch for is an error soon, with what to check."""
        options = parse_read({**tls, self.JAVA: pem["other authority"]})
        match = r"REFUSED_BY_BROKER.*certificate verify failed.*check kafka\.ssl"
        fails_soon(ClusterStateError, match, lambda: plan_batch(options))

    def test_host_name(self, tls: Options) -> None:
        """A certificate for another host is refused, unless the check is off in Java's way."""
        elsewhere = {**tls, "listener.name": "ELSEWHERE"}
        fails_soon(ClusterStateError, "REFUSED_BY_BROKER.*certificate", lambda: plan_batch(parse_read(elsewhere)))
        assert read_values({**elsewhere, "kafka.ssl.endpoint.identification.algorithm": ""}) == TEN

    def test_a_handshake_that_fails_once(self, fortress: LocalCluster, tls: Options) -> None:
        """A request waits for librdkafka's second try, and is answered where that one succeeds."""
        connection = parse_read(tls).connection
        with FailsOnce(fortress.listener_servers("TLS")) as gate, KafkaAdmin(gate.address, connection.kafka) as admin:
            assert "orders" in admin.topic_names()
            assert admin.list_offsets({TopicPartition("orders", 0): LATEST, TopicPartition("orders", 1): LATEST})
            assert gate.refused == 1

    def test_a_handshake_that_failed_long_ago(self, fortress: LocalCluster, tls: Options) -> None:
        """What was refused before a request does not fail it, however slow its answer is."""
        connection = parse_read(tls).connection
        with FailsOnce(fortress.listener_servers("TLS")) as gate, KafkaAdmin(gate.address, connection.kafka) as admin:
            admin.refresh_metadata(["orders"])
            assert gate.refused == 1
            with ThreadPoolExecutor(1) as pool:
                fortress.pause(0)
                try:
                    asked = pool.submit(admin.list_offsets, {TopicPartition("orders", 0): LATEST})
                    with pytest.raises(FutureTimeoutError):
                        asked.result(3)
                finally:
                    fortress.resume(0)
                assert asked.result(30)

    def test_missing_file(self, tls: Options) -> None:
        """A trust store that is not there is an error that names librdkafka's property."""
        options = parse_read({**tls, self.JAVA: "/no/such/file.pem"})
        fails_soon(
            OptionError, r"ssl\.ca\.location failed.*on the driver and on every executor", lambda: plan_batch(options)
        )

    def test_client_certificate(self, tls: Options, pem: dict[str, str], shown: Callable[..., None]) -> None:
        """A listener that asks for a certificate takes one from PEM, locked or not, and PKCS12; without it is an error."""
        mutual = {**tls, "listener.name": "MUTUAL"}
        location, kind = "kafka.ssl.keystore.location", "kafka.ssl.keystore.type"
        for store in (
            {kind: "PEM", location: pem["client"]},
            {kind: "PEM", location: pem["locked client"], "kafka.ssl.key.password": SECRET},
            {kind: "PKCS12", location: pem["locked client"][:-3] + "p12", "kafka.ssl.keystore.password": SECRET},
        ):
            options = {**mutual, **store}
            assert read_values(options) == TEN
            shown(parse_read(options))
        with pytest.raises(ZKafkaError, match=r"REFUSED_BY_BROKER|BROKERS_UNAVAILABLE"):
            plan_batch(parse_read({**mutual, "kafka.request.timeout.ms": "3000", "fetchOffset.numRetries": "0"}))

    def test_with_login(self, tls: Options) -> None:
        """TLS and a login together: SASL_SSL."""
        assert read_values({**tls, **JAVA_SCRAM, "kafka.security.protocol": "SASL_SSL"}) == TEN


# --- ZooKeeper


def _copy(source: KazooClient, path: str, target: str, acl: list[ACL]) -> None:
    source.create(target, source.get(path)[0], acl=acl)
    for child in source.get_children(path):
        _copy(source, f"{path}/{child}", f"{target}/{child}", acl)


def private_copy(fortress: LocalCluster, name: str, acl: ACL) -> str:
    """The connect string of a copy of the cluster's znodes, under an ACL, which tells of the same brokers."""
    with fortress.zookeeper() as client:
        source, client.chroot = client.chroot, ""
        nodes = dict(_below(client, source, "/brokers"))
        for path, data in {"": b"", **nodes}.items():
            client.create(f"/{name}{path}", data)
        for path in ["", *nodes]:
            client.set_acls(f"/{name}{path}", [acl])
    return f"{fortress.zookeeper_connect.partition('/')[0]}/{name}"


def _below(client: KazooClient, prefix: str, path: str) -> Iterator[tuple[str, bytes]]:
    yield path, client.get(prefix + path)[0]
    for child in client.get_children(prefix + path):
        yield from _below(client, prefix, f"{path}/{child}")


@pytest.fixture(scope="module")
def digest(fortress: LocalCluster) -> Options:
    """The options that reach znodes for the digest user alice alone, but for her password."""
    return {"zookeeper.connect": private_copy(fortress, "digest", make_digest_acl("alice", SECRET, all=True))}


@pytest.fixture(scope="module")
def sasl(fortress: LocalCluster) -> Options:
    """The same for the SASL user alice."""
    return {"zookeeper.connect": private_copy(fortress, "sasl", make_acl("sasl", "alice", all=True))}


class TestAcl:
    """Znodes that only some may read."""

    @pytest.mark.parametrize("scheme", ["digest", "sasl"])
    def test_without(self, request: pytest.FixtureRequest, scheme: str) -> None:
        """Without zookeeper.auth a plan is refused: the error names the znode and the option."""
        options = parse_read({**request.getfixturevalue(scheme), "subscribe": "orders"})
        match = rf"/{scheme}\S* was refused: an ACL forbids it, asked anonymously.*set zookeeper\.auth"
        fails_soon(ZooKeeperRefused, match, lambda: plan_batch(options), within_s=3)

    @pytest.mark.parametrize(("scheme", "auth"), [("digest", "digest"), ("sasl", "sasl:DIGEST-MD5")])
    def test_right(self, request: pytest.FixtureRequest, scheme: str, auth: str, shown: Callable[..., None]) -> None:
        """With the right password it works as if there were no ACL."""
        options = {**request.getfixturevalue(scheme), "zookeeper.auth": f"{auth}:alice:{SECRET}", "subscribe": "orders"}
        assert read_values(options) == TEN
        shown(parse_read(options), parse_read(options).connection.zookeeper)

    def test_wrong_digest(self, digest: Options, shown: Callable[..., None]) -> None:
        """A wrong password makes us somebody else, whom the ACL does not know."""
        options = parse_read({**digest, "zookeeper.auth": f"digest:alice:{WRONG}", "subscribe": "orders"})
        match = r"/digest\S* was refused: an ACL forbids it, asked as the digest user of zookeeper\.auth.*check its user"
        shown(fails_soon(ZooKeeperRefused, match, lambda: plan_batch(options), within_s=3), options)

    def test_wrong_sasl(self, sasl: Options, shown: Callable[..., None]) -> None:
        """With SASL a wrong password gives no session."""
        options = parse_read({**sasl, "zookeeper.auth": f"sasl:DIGEST-MD5:alice:{WRONG}", "subscribe": "orders"})
        match = r"does not accept the credentials.*check zookeeper\.auth"
        shown(fails_soon(ZooKeeperRefused, match, lambda: plan_batch(options)), options)

    def test_sasl_needs_its_extra(self, sasl: Options, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without pure-sasl the error says what to install."""
        monkeypatch.setitem(sys.modules, "puresasl", None)
        options = parse_read({**sasl, "zookeeper.auth": f"sasl:DIGEST-MD5:alice:{SECRET}", "subscribe": "orders"})
        match = r"SASL_MISSING.*pip install 'pyspark-zkafka\[sasl\]'"
        fails_soon(OptionError, match, lambda: plan_batch(options), within_s=3)


class TestZooKeeperTls:
    """TLS to ZooKeeper, whose secure port asks for a client's certificate."""

    CA = "zookeeper.ssl.truststore.location"
    KEY = "zookeeper.ssl.keystore.location"

    @pytest.fixture
    def tls(self, fortress: LocalCluster, pem: dict[str, str]) -> Options:
        chroot = fortress.zookeeper_connect.partition("/")[2]
        return {
            "zookeeper.connect": f"127.0.0.1:{fortress.port('zookeeper', 'tls')}/{chroot}",
            "zookeeper.connection.timeout.ms": "2000",
            "zookeeper.ssl.client.enable": "true",
            self.CA: pem["authority"],
            self.KEY: pem["client"],
            "subscribe": "orders",
        }

    def test_right(self, tls: Options) -> None:
        """With the right files a read works."""
        assert read_values(tls) == TEN

    def test_locked_key(self, tls: Options, pem: dict[str, str], shown: Callable[..., None]) -> None:
        """A private key may have a password; without the right one the file is named, and nobody is asked for it."""
        locked = {**tls, self.KEY: pem["locked client"]}
        options = {**locked, "zookeeper.ssl.keystore.password": SECRET}
        assert read_values(options) == TEN
        shown(parse_read(options), parse_read(options).connection.zookeeper)
        for password in ({}, {"zookeeper.ssl.keystore.password": WRONG}):
            wrong = parse_read({**locked, **password})
            match = r"UNUSABLE_TLS_FILE.*keystore\.location is '\S+locked.pem'.*zookeeper\.ssl\.keystore\.password"
            shown(fails_soon(OptionError, match, lambda wrong=wrong: plan_batch(wrong), within_s=3))

    def test_with_auth(self, tls: Options, fortress: LocalCluster) -> None:
        """Credentials go through TLS as well."""
        for auth in ("digest", "sasl:DIGEST-MD5"):
            connection = parse_connection(
                {
                    **{k: v for k, v in tls.items() if k != "subscribe"},
                    "zookeeper.auth": f"{auth}:alice:{SECRET}",
                }
            )
            assert connection.zookeeper is not None
            with ZooKeeperClient(connection.zookeeper) as client:
                assert "orders" in client.topic_names()

    def test_many_answers(self, tls: Options) -> None:
        """Thousands of requests in flight are answered without a pause: none waits in TLS for the next."""
        connection = parse_connection({k: v for k, v in tls.items() if k != "subscribe"})
        assert connection.zookeeper is not None
        paths = ["/brokers/topics/orders", "/brokers/ids/0", "/no/such/znode"]
        with ZooKeeperConnection(connection.zookeeper) as client:
            begin = time.monotonic()
            for _ in range(1000):
                assert sorted(client.get_many(paths)) == sorted(paths[:2])
            wide = client.exists_many(f"/no/such/znode-{n}" for n in range(6000))
            assert time.monotonic() - begin < 20
        assert wide == {}

    def test_two_answers_in_one_record(self, pem: dict[str, str]) -> None:
        """What TLS has decrypted is ready to read, though the socket below it has nothing more."""
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(pem["server"])
        ours, theirs = socket.socketpair()
        with ThreadPoolExecutor(1) as pool, ours, theirs:
            accepted = pool.submit(server.wrap_socket, theirs, server_side=True)
            client = tls_context(ZooKeeperTls(pem["authority"])).wrap_socket(ours, server_hostname="127.0.0.1")
            with client, accepted.result(10) as peer:
                peer.sendall(b"first second")
                ahead = ReadAhead(client, time.monotonic)
                assert ahead.recv(6) == b"first "
                assert BoundedHandler(time.monotonic).select([ahead], [], [], 5) == ([ahead], [], [])
                assert ahead.pending() == len("second")

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({CA: "other authority"}, "CERTIFICATE_VERIFY_FAILED.*a TLS port that matches zookeeper.ssl"),
            ({CA: None}, "CERTIFICATE_VERIFY_FAILED.*a TLS port that matches zookeeper.ssl"),
            ({KEY: None}, "within 2000 ms.*a TLS port that matches zookeeper.ssl"),
        ],
        ids=["other authority", "system's authorities", "no certificate"],
    )
    def test_wrong(self, tls: Options, pem: dict[str, str], change: dict[str, str | None], match: str) -> None:
        """A certificate that is not vouched for, theirs or ours, is an error within the connection time-out."""
        kept = {name: value for name, value in tls.items() if name not in change}
        options = parse_read(kept | {name: pem[file] for name, file in change.items() if file is not None})
        fails_soon(ZooKeeperError, match, lambda: plan_batch(options), within_s=5)

    def test_host_name(self, tls: Options) -> None:
        """A certificate for another name than the one connected to is refused, unless the check is off."""
        other = {**tls, "zookeeper.connect": tls["zookeeper.connect"].replace("127.0.0.1", "localhost")}
        fails_soon(ZooKeeperError, "CERTIFICATE_VERIFY_FAILED", lambda: plan_batch(parse_read(other)), within_s=5)
        assert read_values({**other, "zookeeper.ssl.endpoint.identification.algorithm": ""}) == TEN

    def test_wrong_port(self, tls: Options, fortress: LocalCluster) -> None:
        """TLS on the plain port, and plain text on the TLS port, are errors in time."""
        plain = {**tls, "zookeeper.connect": fortress.zookeeper_connect}
        fails_soon(ZooKeeperError, "a TLS port", lambda: plan_batch(parse_read(plain)), within_s=5)
        naked = {k: v for k, v in tls.items() if ".ssl." not in k}
        fails_soon(ZooKeeperError, "ZOOKEEPER_UNREACHABLE", lambda: plan_batch(parse_read(naked)), within_s=5)

    @pytest.mark.parametrize("name", [CA, KEY])
    def test_key_store_of_java(self, tls: Options, name: str) -> None:
        """A .jks file is refused before anything connects, with what to do."""
        with pytest.raises(OptionError, match=r"/a/b\.jks is not a PEM file; convert it.*keytool"):
            parse_read({**tls, name: "/a/b.jks"})

    def test_missing_file(self, tls: Options) -> None:
        """A file that is not there is named."""
        options = parse_read({**tls, self.CA: "/no/such/file.pem"})
        match = r"UNUSABLE_TLS_FILE.*truststore\.location is '/no/such/file\.pem'"
        fails_soon(OptionError, match, lambda: plan_batch(options), within_s=3)
