"""TLS to the brokers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.errors import REFUSED_FOR_S
from pyspark_zkafka.errors import ClusterStateError, OptionError, ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.testing import LocalCluster
from tests.support.security import JAVA_SCRAM, SECRET, TEN, Options, connecting, fails_soon, read_values, write_values


class FailsOnce:
    """A proxy in front of a broker's TLS listener that breaks off the first handshake."""

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
    """TLS to the brokers. The first TLS listener has a certificate for 127.0.0.1."""

    JAVA = "kafka.ssl.truststore.location"
    OURS = "kafka.ssl.ca.location"

    @pytest.fixture
    def tls(self, brokers: Options, pem: dict[str, str]) -> Options:
        authority = {"kafka.ssl.truststore.type": "PEM", self.JAVA: pem["authority"]}
        return {**brokers, "kafka.security.protocol": "SSL", "subscribe": "orders", **authority}

    def test_java_spelling(self, fortress: LocalCluster, tls: Options) -> None:
        """A PEM trust store in Java's spelling works, and the listener is found by its protocol."""
        assert read_values(tls) == TEN
        assert plan_batch(parse_read(tls)).bootstrap_servers == fortress.listener_servers("TLS")

    def test_librdkafka_spelling(self, brokers: Options, pem: dict[str, str]) -> None:
        """ssl.ca.location works, and so do certificates as text in the option."""
        for authority in (
            {self.OURS: pem["authority"]},
            {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": Path(pem["authority"]).read_text()},
        ):
            assert read_values({**brokers, "kafka.security.protocol": "SSL", "subscribe": "orders", **authority}) == TEN

    def test_write(self, fortress: LocalCluster, tls: Options) -> None:
        """A write goes through TLS."""
        fortress.create_topic("tls-write")
        write_values({**connecting(tls), "topic": "tls-write"}, [b"a"])
        assert read_values({**tls, "subscribe": "tls-write"}) == [b"a"]

    @pytest.mark.long
    def test_other_authority(self, tls: Options, pem: dict[str, str]) -> None:
        """A certificate that the trust store does not trust fails soon, with an error that says what to check."""
        options = parse_read({**tls, self.JAVA: pem["other authority"]})
        match = r"REFUSED_BY_BROKER.*certificate verify failed.*check kafka\.ssl"
        fails_soon(ClusterStateError, match, lambda: plan_batch(options))

    def test_host_name(self, tls: Options) -> None:
        """A certificate for another host is refused, unless Java's property turns the check off."""
        elsewhere = {**tls, "listener.name": "ELSEWHERE"}
        fails_soon(ClusterStateError, "REFUSED_BY_BROKER.*certificate", lambda: plan_batch(parse_read(elsewhere)))
        assert read_values({**elsewhere, "kafka.ssl.endpoint.identification.algorithm": ""}) == TEN

    def test_a_handshake_that_fails_once(self, fortress: LocalCluster, tls: Options) -> None:
        """A request succeeds after a failed handshake."""
        connection = parse_read(tls).connection
        with FailsOnce(fortress.listener_servers("TLS")) as gate, KafkaAdmin(gate.address, connection.kafka) as admin:
            assert "orders" in admin.topic_names()
            assert admin.list_offsets({TopicPartition("orders", 0): LATEST, TopicPartition("orders", 1): LATEST})
            assert gate.refused == 1

    @pytest.mark.long
    def test_a_handshake_that_failed_long_ago(self, fortress: LocalCluster, tls: Options) -> None:
        """A handshake refused before a request does not fail that request, however slow its response is."""
        connection = parse_read(tls).connection
        with FailsOnce(fortress.listener_servers("TLS")) as gate, KafkaAdmin(gate.address, connection.kafka) as admin:
            assert "orders" in admin.topic_names()
            assert gate.refused == 1
            fortress.pause(0)
            later = threading.Timer(REFUSED_FOR_S + 1, fortress.resume, (0,))
            later.start()
            assert admin.list_offsets({TopicPartition("orders", 0): LATEST})
            later.join()

    def test_missing_file(self, tls: Options) -> None:
        """A missing trust store raises an error that names the property and the file."""
        options = parse_read({**tls, self.JAVA: "/no/such/file.pem"})
        match = r"kafka\.ssl\.ca\.location .* names /no/such/file\.pem, .*No such file.*on the driver and on every executor"
        fails_soon(OptionError, match, lambda: plan_batch(options))

    @pytest.mark.parametrize("listener", ["TLS", "BOTH"])
    def test_without_tls(self, fortress: LocalCluster, listener: str) -> None:
        """Without TLS, a TLS listener only closes connections. The error names the protocol first."""
        servers = fortress.listener_servers(listener)
        options = parse_read({"kafka.bootstrap.servers": servers, "subscribe": "orders", "fetchOffset.numRetries": "0"})
        match = r"BROKERS_UNAVAILABLE.*do not answer\. Check first that kafka\.security\.protocol"
        fails_soon(ClusterStateError, match, lambda: plan_batch(options))

    @pytest.mark.long
    def test_client_certificate(self, tls: Options, pem: dict[str, str], shown: Callable[..., None]) -> None:
        """A listener with client authentication accepts PEM, locked or not, and PKCS12, and refuses clients without any."""
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
        """SASL_SSL works: TLS together with a login."""
        assert read_values({**tls, **JAVA_SCRAM, "kafka.security.protocol": "SASL_SSL"}) == TEN
