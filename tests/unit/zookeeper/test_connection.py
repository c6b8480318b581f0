"""Connections to ZooKeeper: TLS, clients that are not open, and the duration of sessions."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.x509 import DNSName

from pyspark_zkafka.errors import OptionError, ZKafkaError, ZooKeeperError
from pyspark_zkafka.options.values import ZooKeeperTls
from pyspark_zkafka.retries import Retry
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.kazoo_client import Client, tls_context
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.options import ensemble_config


def test_constructing_a_client_does_nothing() -> None:
    """The constructor opens nothing; outside the with block each call fails, and is not retried."""
    client = ZooKeeperConnection(ensemble_config("zk1:2181", "/kafka"))
    client.close()
    retry = Retry(3, 0.5, lambda pause_s: pytest.fail("a programming error was repeated"))
    with pytest.raises(ZooKeeperError, match="use it inside its with block"):
        retry(lambda: client.get_many(["/"]))


def test_missing_sasl_support_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice names the extra, before anything is opened."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    config = replace(ensemble_config("zk1:2181", "/kafka"), auth=("sasl", "digest-md5:me:secret"))
    with pytest.raises(OptionError, match=r"SASL_MISSING\] .*pip install 'pyspark-zkafka\[sasl\]'"):
        ZooKeeperConnection(config).__enter__()


def test_a_connection_cannot_be_opened_twice() -> None:
    """A second block on an open client is a programming error, which no retry repeats."""
    client = ZooKeeperConnection(ensemble_config("zk1:2181", "/kafka"))
    client._kazoo = object()
    with pytest.raises(ZooKeeperError, match="already open") as caught:
        client.__enter__()
    assert not caught.value.retriable


def test_interrupted_while_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C, kazoo's threads end, and the connection can be opened again."""

    class Interrupted(Client):
        def start_async(self) -> object:
            super().start_async()
            raise KeyboardInterrupt

    monkeypatch.setattr("pyspark_zkafka.zookeeper.connection.Client", Interrupted)
    before = set(threading.enumerate())
    client = ZooKeeperConnection(ensemble_config("127.0.0.1:1", ""))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            client.__enter__()
    eventually(lambda: set(threading.enumerate()) <= before, timeout_s=20)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority for the test."""
    return Authority(tmp_path, "authority")


def test_truststore(authority: Authority) -> None:
    """Only the truststore's authorities are trusted, and the server's name is checked unless that is off."""
    context = tls_context(ZooKeeperTls(truststore=authority.file))
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname is True
    anybody = tls_context(ZooKeeperTls(truststore=authority.file, check_hostname=False))
    assert anybody.verify_mode == ssl.CERT_REQUIRED
    assert anybody.check_hostname is False


def test_keystore(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is loaded with its password, or without one if it has none."""
    loaded = []
    load = ssl.SSLContext.load_cert_chain

    def record(context: ssl.SSLContext, file: str, *arguments: Any) -> None:
        load(context, file, *arguments)
        loaded.append(file)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", record)
    host = DNSName("localhost")
    unlocked, locked = authority.issue("open", host), authority.issue("locked", host, "secret")
    tls_context(ZooKeeperTls(authority.file, unlocked))
    tls_context(ZooKeeperTls(authority.file, locked, "secret"))
    assert loaded == [unlocked, locked]


@pytest.mark.parametrize("password", [None, "wrong-password"])
def test_wrong_password(authority: Authority, password: str | None) -> None:
    """A wrong or missing password raises an error without a prompt, and does not appear in it."""
    file = authority.issue("locked", DNSName("localhost"), "secret")
    with pytest.raises(OptionError, match=r"zookeeper\.ssl\.keystore\.location") as caught:
        tls_context(ZooKeeperTls(authority.file, file, password))
    assert "wrong-password" not in str(caught.value)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_unusable_truststore(tmp_path: Path, content: str | None) -> None:
    """A missing file, or one without a certificate, raises an error that names it."""
    file = tmp_path / "trusted.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(OptionError, match=r"UNUSABLE_TLS_FILE\] zookeeper\.ssl\.truststore\.location is '.*trusted\.pem'"):
        tls_context(ZooKeeperTls(truststore=str(file)))


def serve(server: socket.socket, granted_ms: int) -> None:
    """Serve one client like a ZooKeeper that grants sessions of this duration. Answers each request as a sync of ``/``."""
    connected, _ = server.accept()
    with connected, connected.makefile("rb") as requests:
        answer = struct.pack(">iiqi16s?", 0, granted_ms, 7, 16, b"", False)
        while size := requests.read(4):
            request = requests.read(int.from_bytes(size, "big"))
            answer = answer or request[:4] + struct.pack(">qii", 1, 0, 1) + b"/"
            connected.sendall(struct.pack(">i", len(answer)) + answer)
            answer = b""


def test_a_session_lasts_as_long_as_granted() -> None:
    """A session lasts for the time the server grants, whether more or less was requested."""
    for asked_ms, granted_ms in ((30_000, 6000), (2000, 6000)):
        with socket.create_server(("127.0.0.1", 0)) as server:
            serving = threading.Thread(target=serve, args=(server, granted_ms))
            serving.start()
            hosts = f"127.0.0.1:{server.getsockname()[1]}"
            config = ensemble_config(hosts, session_timeout_ms=asked_ms, connection_timeout_ms=60_000)
            started = time.monotonic()
            with ZooKeeperConnection(config) as client:
                assert client.session_timeout_ms == granted_ms
                assert started <= client.session_ends_at - granted_ms / 1000 <= time.monotonic()
            serving.join(10)


def test_closed_because_of_a_failure() -> None:
    """Requests of a connection that was closed because of a failure raise it; the first one counts."""
    connection = ZooKeeperConnection(ensemble_config("127.0.0.1:1"))
    connection.close(lambda: ZKafkaError("THREAD_FAILED", "first"))
    connection.close()
    connection.close(lambda: ZKafkaError("THREAD_FAILED", "second"))
    with pytest.raises(ZKafkaError, match="first"):
        connection.get_many(["/a"])


def test_session_that_cannot_be_reopened(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """If the thread that opens another session fails, requests say so at once, rather than that there is no session yet."""
    connection = ZooKeeperConnection(ensemble_config("127.0.0.1:1"))

    class Ended:
        refusals = 0

        @property
        def has_ended(self) -> bool:
            raise RuntimeError("boom")

        def stop(self) -> None: ...

        def close(self) -> None: ...

    kazoo = connection._kazoo = Ended()
    connection._handler.deadline = float("inf")
    connection._on_kazoo_state(kazoo, "LOST")
    eventually(lambda: connection._kazoo is None)
    with pytest.raises(ZKafkaError, match=r"\[THREAD_FAILED\] No session with ZooKeeper at .*RuntimeError: boom"):
        connection.get_many(["/a"])
    assert caplog.text.count("RuntimeError: boom") == 1


def test_answer_that_is_not_older_than_the_question() -> None:
    """The identity of a topic is read after a sync: the server of a session that has been open for long may lag behind."""
    client, asked = ZooKeeperClient(ensemble_config("127.0.0.1:1", "/kafka")), list[tuple[str, str]]()

    class Answer:
        def __init__(self, value: object) -> None:
            self.value = value

        def get(self, timeout: float) -> object:
            return self.value

    class Kazoo:
        client_state = "CONNECTED"
        stat = SimpleNamespace(czxid=7, version=0, mtime=0, ephemeralOwner=0, mzxid=7)
        get_async = get_children_async = None

        def sync_async(self, path: str) -> Answer:
            asked.append(("sync", path))
            return Answer(path)

        def exists_async(self, path: str, watch: object) -> Answer:
            asked.append(("exists", path))
            return Answer(self.stat)

    client._kazoo = Kazoo()
    assert client.czxid("t") == 7
    assert asked == [("sync", "/kafka"), ("exists", "/kafka/brokers/topics/t")]
