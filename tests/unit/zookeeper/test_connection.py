"""Connections to ZooKeeper, and their TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.x509 import DNSName

from pyspark_zkafka.errors import OptionError, ZooKeeperError
from pyspark_zkafka.options.values import ZooKeeperConfig, ZooKeeperTls
from pyspark_zkafka.retries import Retry
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection, tls_context
from tests.support.certificates import Authority


def test_constructing_a_client_does_nothing() -> None:
    """No connection, no thread: only the block opens it; outside of it each call fails, and no retry repeats it."""
    client = ZooKeeperConnection(ZooKeeperConfig("zk1:2181", "/kafka"))
    client.close()
    retry = Retry(3, 0.5, lambda pause_s: pytest.fail("a programming error was repeated"))
    with pytest.raises(ZooKeeperError, match="use it inside its with block"):
        retry(lambda: client.get_many(["/"]))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority of the test's own."""
    return Authority(tmp_path, "authority")


def test_truststore(authority: Authority) -> None:
    """Only the truststore's authorities are trusted, and the server's name is checked unless that is switched off."""
    context = tls_context(ZooKeeperTls(truststore=authority.file))
    assert len(context.get_ca_certs()) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    anybody = tls_context(ZooKeeperTls(truststore=authority.file, check_hostname=False))
    assert (anybody.verify_mode, anybody.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_keystore(authority: Authority) -> None:
    """A key is loaded with its password, and without one if it has none."""
    host = DNSName("localhost")
    tls_context(ZooKeeperTls(authority.file, authority.issue("open", host)))
    tls_context(ZooKeeperTls(authority.file, authority.issue("locked", host, "secret"), "secret"))


@pytest.mark.parametrize("password", [None, "wrong-password"])
def test_wrong_password(authority: Authority, password: str | None) -> None:
    """A wrong or missing password is an error, without a prompt, and is not in the message."""
    file = authority.issue("locked", DNSName("localhost"), "secret")
    with pytest.raises(OptionError, match=r"zookeeper\.ssl\.keystore\.location") as caught:
        tls_context(ZooKeeperTls(authority.file, file, password))
    assert "wrong-password" not in str(caught.value)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_unusable_truststore(tmp_path: Path, content: str | None) -> None:
    """A file that is missing, or has no certificate, is named."""
    file = tmp_path / "trusted.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(OptionError, match=r"UNUSABLE_TLS_FILE\] zookeeper\.ssl\.truststore\.location is '.*trusted\.pem'"):
        tls_context(ZooKeeperTls(truststore=str(file)))
