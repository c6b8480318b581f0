"""TLS to ZooKeeper."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyspark_zkafka.errors import OptionError, ZooKeeperError
from pyspark_zkafka.options.batch import parse_connection, parse_read
from pyspark_zkafka.options.values import ZooKeeperTls
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.kazoo_client import BoundedHandler, ReadAhead, tls_context
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.security import SECRET, TEN, WRONG, Options, connecting, fails_soon, read_values


class TestZooKeeperTls:
    """TLS to a ZooKeeper whose secure port requires a client certificate."""

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
        """A locked private key works with its password; without it an error names the file, and nobody is prompted."""
        locked = {**tls, self.KEY: pem["locked client"]}
        options = {**locked, "zookeeper.ssl.keystore.password": SECRET}
        assert read_values(options) == TEN
        shown(parse_read(options), parse_read(options).connection.zookeeper)
        for password in ({}, {"zookeeper.ssl.keystore.password": WRONG}):
            wrong = parse_read({**locked, **password})
            match = r"UNUSABLE_TLS_FILE.*keystore\.location is '\S+locked.pem'.*zookeeper\.ssl\.keystore\.password"
            shown(fails_soon(OptionError, match, lambda wrong=wrong: plan_batch(wrong), within_s=3))

    def test_with_auth(self, tls: Options, fortress: LocalCluster) -> None:
        """Digest and SASL credentials work over TLS."""
        for auth in ("digest", "sasl:DIGEST-MD5"):
            connection = parse_connection({**connecting(tls), "zookeeper.auth": f"{auth}:alice:{SECRET}"})
            assert connection.zookeeper is not None
            with ZooKeeperClient(connection.zookeeper) as client:
                assert "orders" in client.topic_names()

    def test_many_answers(self, tls: Options) -> None:
        """Thousands of requests in flight are answered without a pause: no response waits in TLS for the next one.

        A response that waits is read with the next ping, some seconds later. A busy machine only delays all responses a
        little.
        """
        connection = parse_connection({**connecting(tls), "zookeeper.connection.timeout.ms": "15000"})
        assert connection.zookeeper is not None
        paths = ["/brokers/topics/orders", "/brokers/ids/0", "/no/such/znode"]
        with ZooKeeperConnection(connection.zookeeper) as client:
            took_s = []
            for _ in range(1000):
                begin = time.monotonic()
                assert sorted(client.get_many(paths)) == sorted(paths[:2])
                took_s.append(time.monotonic() - begin)
            assert sum(seconds > 1 for seconds in took_s) < 10
            begin = time.monotonic()
            wide = client.exists_many(f"/no/such/znode-{n}" for n in range(6000))
            assert time.monotonic() - begin < 20
        assert wide == {}

    def test_two_answers_in_one_record(self, pem: dict[str, str]) -> None:
        """Bytes that TLS has decrypted count as readable, although the socket below has no more data."""
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
            pytest.param(
                {CA: None}, "CERTIFICATE_VERIFY_FAILED.*a TLS port that matches zookeeper.ssl", marks=pytest.mark.long
            ),
            ({KEY: None}, "within 2000 ms.*a TLS port that matches zookeeper.ssl"),
        ],
        ids=["other authority", "system's authorities", "no certificate"],
    )
    def test_wrong(self, tls: Options, pem: dict[str, str], change: dict[str, str | None], match: str) -> None:
        """A certificate that one side does not trust raises an error within the connection time-out."""
        kept = {name: value for name, value in tls.items() if name not in change}
        options = parse_read(kept | {name: pem[file] for name, file in change.items() if file is not None})
        fails_soon(ZooKeeperError, match, lambda: plan_batch(options), within_s=5)

    def test_host_name(self, tls: Options) -> None:
        """A certificate for another host name is refused, unless the check is off."""
        other = {**tls, "zookeeper.connect": tls["zookeeper.connect"].replace("127.0.0.1", "localhost")}
        fails_soon(ZooKeeperError, "CERTIFICATE_VERIFY_FAILED", lambda: plan_batch(parse_read(other)), within_s=5)
        assert read_values({**other, "zookeeper.ssl.endpoint.identification.algorithm": ""}) == TEN

    @pytest.mark.long
    def test_wrong_port(self, tls: Options, fortress: LocalCluster) -> None:
        """TLS on the plain port, and plain text on the TLS port, fail within the time-out."""
        plain = {**tls, "zookeeper.connect": fortress.zookeeper_connect}
        fails_soon(ZooKeeperError, "a TLS port", lambda: plan_batch(parse_read(plain)), within_s=5)
        naked = {k: v for k, v in tls.items() if ".ssl." not in k}
        fails_soon(ZooKeeperError, "ZOOKEEPER_UNREACHABLE", lambda: plan_batch(parse_read(naked)), within_s=5)

    @pytest.mark.parametrize("name", [CA, KEY])
    def test_key_store_of_java(self, tls: Options, name: str) -> None:
        """A .jks file is refused before any connection, and the error says what to do."""
        with pytest.raises(OptionError, match=r"/a/b\.jks is not a PEM file; convert it.*keytool"):
            parse_read({**tls, name: "/a/b.jks"})

    def test_missing_file(self, tls: Options) -> None:
        """A missing file raises an error that names it."""
        options = parse_read({**tls, self.CA: "/no/such/file.pem"})
        match = r"UNUSABLE_TLS_FILE.*truststore\.location is '/no/such/file\.pem'"
        fails_soon(OptionError, match, lambda: plan_batch(options), within_s=3)
