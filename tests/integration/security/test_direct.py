"""TLS and logins of the direct transport, and logins that it leaves to librdkafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import SplitPartition, ZKafkaReader
from tests.support.security import (
    JAVA_SCRAM,
    SCHEMA,
    SECRET,
    TEN,
    WRONG,
    Options,
    fails_soon,
    password_login,
    read_values,
)
from tests.support.tiers import seldom
from tests.support.web_server import WebServer, unsecured_token

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

USED, NOT_USED, LEFT = "The direct transport is used", "The direct transport is not used", "librdkafka continues"
TLS = {"kafka.security.protocol": "SSL"}


@pytest.fixture
def read(brokers: Options) -> Callable[[Options], list[bytes]]:
    """Reads the ten records of the topic orders."""
    return lambda options: read_values({**brokers, "subscribe": "orders", "transport": "direct", **options})


Read = Callable[[Options], list[bytes]]


@pytest.mark.parametrize(
    "login", [password_login(), password_login() | {"kafka.sasl.mechanism": "SCRAM-SHA-256"}], ids=["PLAIN", "SCRAM"]
)
def test_login(read: Read, login: Options, shown: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    """The direct transport logs in with PLAIN and SCRAM, and no password reaches a log."""
    assert read(login) == TEN
    assert USED in caplog.text
    assert LEFT not in caplog.text
    shown()


def test_token(brokers: Options, shown: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    """OAUTHBEARER uses one token for all connections of a process; no log has the token or the client secret."""
    token = unsecured_token("alice")
    with WebServer({"access_token": token, "expires_in": 3600, "token_type": "Bearer"}) as server:
        login = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.method": "oidc",
            "kafka.sasl.oauthbearer.client.id": "alice",
            "kafka.sasl.oauthbearer.client.secret": SECRET,
            "kafka.sasl.oauthbearer.token.endpoint.url": server.url,
        }
        options = parse_read({**brokers, **login, "subscribe": "orders", "transport": "direct"})
        plan = plan_batch(options)
        reader = ZKafkaReader(options, SCHEMA)
        batches = (b for s in plan.splits for b in reader.read(SplitPartition((s,), plan.bootstrap_servers)))
        assert sorted(value for batch in batches for value in batch.column("value").to_pylist()) == TEN
        assert len(server.received) == 1
    assert USED in caplog.text
    assert LEFT not in caplog.text
    assert token not in caplog.text
    shown()


def test_wrong_login(brokers: Options, shown: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    """A refused login fails a read at once; its repetitions do not log in again, and the corrected login does."""
    plan = plan_batch(parse_read({**brokers, **password_login(), "subscribe": "orders"}))
    wrong = {**brokers, **password_login(WRONG), "subscribe": "orders", "kafka.sasl.mechanism": "SCRAM-SHA-256"}
    options = parse_read({**wrong, "transport": "direct"})
    split = SplitPartition(plan.splits[:1], plan.bootstrap_servers)
    error = fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda: list(ZKafkaReader(options, SCHEMA).read(split)))
    shown(error, options)
    again = fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda: list(ZKafkaReader(options, SCHEMA).read(split)), 1)
    assert LEFT not in caplog.text
    shown(again, options)
    right = {**brokers, **password_login(), "subscribe": "orders", "kafka.sasl.mechanism": "SCRAM-SHA-256"}
    assert read_values({**right, "transport": "direct"}) == TEN
    assert USED in caplog.text


def test_tls(read: Read, pem: dict[str, str], shown: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    """The direct transport accepts authorities as file or text, disabled checks of certificates, and TLS with a login."""
    authority = {"kafka.ssl.ca.location": pem["authority"]}
    assert read({**TLS, **authority}) == TEN
    assert read({**TLS, "kafka.ssl.ca.pem": Path(pem["authority"]).read_text()}) == TEN
    no_host_check = {"kafka.ssl.endpoint.identification.algorithm": "none", "listener.name": "ELSEWHERE"}
    assert read({**TLS, **authority, **no_host_check}) == TEN
    assert read({**TLS, "kafka.enable.ssl.certificate.verification": "false"}) == TEN
    assert read({**authority, **JAVA_SCRAM, "kafka.security.protocol": "SASL_SSL"}) == TEN
    assert USED in caplog.text
    assert LEFT not in caplog.text
    assert NOT_USED not in caplog.text
    shown()


def test_client_certificate(
    read: Read, pem: dict[str, str], shown: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """Client certificates from PEM files, locked or not, from text, and from PKCS12 are used."""
    mutual = {**TLS, "listener.name": "MUTUAL", "kafka.ssl.ca.location": pem["authority"]}
    location, kind = "kafka.ssl.keystore.location", "kafka.ssl.keystore.type"
    text = Path(pem["client"]).read_text()
    for store in (
        {kind: "PEM", location: pem["client"]},
        {kind: "PEM", location: pem["locked client"], "kafka.ssl.key.password": SECRET},
        {kind: "PEM", "kafka.ssl.keystore.key": text, "kafka.ssl.keystore.certificate.chain": text},
        {kind: "PKCS12", location: pem["locked client"][:-3] + "p12", "kafka.ssl.keystore.password": SECRET},
    ):
        assert read({**mutual, **store}) == TEN
    assert LEFT not in caplog.text
    assert NOT_USED not in caplog.text
    shown()


@pytest.mark.parametrize(
    ("more", "listener"),
    [({"kafka.ssl.ca.location": "other authority"}, "TLS"), *seldom(({}, "TLS"), ({}, "ELSEWHERE"))],
)
def test_distrust(
    fortress: LocalCluster,
    brokers: Options,
    pem: dict[str, str],
    more: Options,
    listener: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A certificate of an unknown authority or for another host is refused, and fails the task."""
    trusting = {**brokers, **TLS, "kafka.ssl.ca.location": pem["authority"], "subscribe": "orders"}
    plan = plan_batch(parse_read(trusting))
    mine = {name: pem[file] for name, file in more.items()} or {"kafka.ssl.ca.location": pem["authority"]}
    if not more and listener == "TLS":
        mine = {"kafka.ssl.ca.location": pem["other authority"], "kafka.ssl.endpoint.identification.algorithm": "none"}
    options = parse_read({**brokers, **TLS, **mine, "subscribe": "orders", "transport": "direct"})
    servers = fortress.listener_servers(listener)
    split = SplitPartition(tuple(s._replace(endpoints=(servers,)) for s in plan.splits[:1]), servers)
    error = fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda: list(ZKafkaReader(options, SCHEMA).read(split)))
    assert f"reading orders-0: {servers}: the TLS handshake failed" in error.message
    assert LEFT not in caplog.text
