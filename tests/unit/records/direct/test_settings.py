"""Settings from librdkafka's properties."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from pyspark_zkafka.brokers.clients import consumer_properties
from pyspark_zkafka.model.planning import Listener
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.records.direct.settings import (
    Settings,
    TlsSettings,
    TokenEndpoint,
    parse_servers,
    settings_of,
    tls_context,
)
from pyspark_zkafka.wire.protocol import Unsupported
from tests.support.cases import each
from tests.support.certificates import Authority

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "open-sesame"}


def settings(**kafka: Any) -> Settings:
    """Return the settings of a read with properties, in which _ stands for a dot."""
    given = {name.replace("_", "."): value for name, value in kafka.items()}
    return settings_of(
        consumer_properties(ConnectionOptions(None, "b", Listener(), given, "auto"), "b1:1,b2:2", "g", 10**6)
    )


def test_defaults() -> None:
    """The default properties of a read are all honoured."""
    found = settings()
    assert found.servers == (("b1", 1), ("b2", 2))
    assert found.tls is None
    assert found.login is None
    assert found.fetch == (10, 1, 64 * 1024**2, 2 * 1024**2, False, "")
    assert found.reconnect_backoff.first_s == 0.02


def test_given() -> None:
    """A user's properties take effect."""
    found = settings(
        max_partition_fetch_bytes="4096",
        fetch_min_bytes="5",
        isolation_level="read_committed",
        client_rack="a",
        client_id="me",
        socket_timeout_ms="1500",
        broker_address_family="v4",
    )
    assert found.fetch == (10, 5, 64 * 1024**2, 4096, True, "a")
    assert (found.client_id, found.socket.request_timeout_s, found.socket.family.name) == ("me", 1.5, "AF_INET")


@each(
    ("kafka", "why"),
    [
        ({"debug": "fetch"}, "debug"),
        ({"plugin_library_paths": "x", "debug": "all"}, "debug, plugin.library.paths"),
        ({"ssl_crl_location": "x"}, "ssl.crl.location"),
        ({"fetch_min_bytes": "-5"}, "the value of fetch.min.bytes"),
        ({"fetch_error_backoff_ms": "soon"}, "the value of fetch.error.backoff.ms"),
        ({"socket_keepalive_enable": "perhaps"}, "the value of socket.keepalive.enable"),
        ({"broker_address_family": "v5"}, "the value of broker.address.family"),
        ({"isolation_level": "none"}, "the value of isolation.level"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl.mechanism=GSSAPI"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "sasl.mechanism=OAUTHBEARER without sasl.oauthbearer.method=oidc",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_method": "oidc"},
            "sasl.mechanism=OAUTHBEARER without the id and the secret of a client, and an endpoint for tokens",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "a login without user and password"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_username": "alice",
                "sasl_password": "s\u00e9same",
            },
            "sasl.mechanism=SCRAM-SHA-256 with a user or a password outside ASCII",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_username": "al\u00efce",
                "sasl_password": "sesame",
            },
            "sasl.mechanism=SCRAM-SHA-512 with a user or a password outside ASCII",
        ),
        ({"security_protocol": "other"}, "security.protocol=other"),
    ],
)
def test_unsupported(kafka: dict[str, Any], why: str) -> None:
    """Unsupported properties raise an error that names them, so that librdkafka is used."""
    with pytest.raises(Unsupported, match=f"^{why}$"):
        settings(**kafka)


@pytest.mark.parametrize("servers", ["PLAINTEXT://b:1", "b:x", ":1"])
def test_servers(servers: str) -> None:
    """Servers in another notation are left to librdkafka."""
    with pytest.raises(Unsupported, match="a bootstrap server"):
        settings_of({"bootstrap.servers": servers})


def test_secrets() -> None:
    """Passwords and keys appear in no representation."""
    given = {name.replace(".", "_"): value for name, value in LOGIN.items()}
    found = settings(**given, ssl_key_pem="open-sesame", ssl_key_password="open-sesame", ssl_certificate_pem="open-sesame")
    assert found.login is not None
    assert found.login.password == "open-sesame"
    assert found.tls is not None
    assert found.tls.key_pem == "open-sesame"
    assert "open-sesame" not in repr(found)


@pytest.mark.parametrize("protocol", ["ssl", "SSL", "SASL_SSL"])
def test_tls(protocol: str) -> None:
    """TLS checks certificate and host unless configured otherwise."""
    found = settings(**{**{n.replace(".", "_"): v for n, v in LOGIN.items()}, "security_protocol": protocol}).tls
    assert found is not None
    assert (found.checks_certificate, found.checks_host) == (True, True)
    lax = settings(security_protocol=protocol.replace("SASL_", ""), ssl_endpoint_identification_algorithm="none").tls
    assert lax is not None
    assert (lax.checks_certificate, lax.checks_host) == (True, False)


def test_token_endpoint() -> None:
    """OAUTHBEARER needs a client's id and secret, and a token endpoint."""
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "open-sesame",
        "sasl.oauthbearer.token.endpoint.url": "https://login/token",
        "sasl.oauthbearer.extensions": "a=1, b=2",
    }
    found = settings_of({"bootstrap.servers": "b", **given}).login
    assert found == TokenEndpoint("https://login/token", "me", "open-sesame", None, ("a=1", "b=2"))
    assert "open-sesame" not in repr(found)
    for name, value in (("grant.type", "jwt"), ("token.endpoint.url", "file:///etc/passwd")):
        with pytest.raises(Unsupported, match=name):
            settings_of({"bootstrap.servers": "b", **given, f"sasl.oauthbearer.{name}": value})


HOST = x509.DNSName("localhost")
NOTHING = TlsSettings(None, None, None, None, None, None, None, None, checks_certificate=True, checks_host=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority with its files in its own folder."""
    return Authority(tmp_path_factory.mktemp("certificates"), "authority")


@pytest.fixture
def trusting(authority: Authority) -> TlsSettings:
    """Settings that trust only the authority."""
    return replace(NOTHING, ca_location=authority.file)


@pytest.mark.parametrize(
    ("certificate", "host", "mode", "checks_host"),
    [
        (True, True, ssl.CERT_REQUIRED, True),
        (True, False, ssl.CERT_REQUIRED, False),
        (False, True, ssl.CERT_NONE, False),
        (False, False, ssl.CERT_NONE, False),
    ],
)
def test_checks(trusting: TlsSettings, certificate: bool, host: bool, mode: ssl.VerifyMode, checks_host: bool) -> None:
    """The host is checked only if the certificate is."""
    context = tls_context(replace(trusting, checks_certificate=certificate, checks_host=host))
    assert (context.verify_mode, context.check_hostname) == (mode, checks_host)


def test_authorities(authority: Authority, trusting: TlsSettings, tmp_path: Path) -> None:
    """Only authorities in the file or the PEM text are trusted; a folder is searched on demand."""
    pem = Path(authority.file).read_text()
    for settings in (trusting, replace(NOTHING, ca_pem=pem), replace(NOTHING, ca_pem=pem, ca_location="/nowhere")):
        (found,) = tls_context(settings).get_ca_certs()
        assert found["subject"] == ((("commonName", "authority"),),)
    assert tls_context(replace(NOTHING, ca_location=str(tmp_path))).get_ca_certs() == []


def test_authorities_of_the_system() -> None:
    """Without a file, the system's authorities are trusted."""
    assert tls_context(NOTHING).verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("password", [None, "open-sesame"])
def test_certificate_of_the_client(
    authority: Authority, trusting: TlsSettings, password: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate and its key may be one file, two files, or PEM texts, and the key may be locked."""
    loaded = []
    load = ssl.SSLContext.load_cert_chain

    def record(context: ssl.SSLContext, certificate: str, key: str | None, password: Any) -> None:
        load(context, certificate, key, password)
        loaded.append([None if file is None else Path(file).read_text() for file in (certificate, key)])

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", record)
    file = authority.issue("client", HOST, password)
    pem = Path(file).read_text()
    for settings in (
        replace(trusting, certificate_location=file),
        replace(trusting, certificate_location=file, key_location=file),
        replace(trusting, certificate_pem=pem, key_pem=pem),
    ):
        tls_context(replace(settings, key_password=password))
    assert loaded == [[pem, None], [pem, pem], [pem, pem]]


@pytest.mark.parametrize("password", [None, "close-sesame"])
def test_locked_key(authority: Authority, trusting: TlsSettings, password: str | None) -> None:
    """A locked key without its password is refused without a prompt, and the text has neither key nor password."""
    file = authority.issue("locked", HOST, "open-sesame")
    settings = replace(trusting, certificate_location=file, key_password=password)
    with pytest.raises(Unsupported, match=r"^TLS settings that Python's ssl refuses \(\w+\)$"):
        tls_context(settings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ca_location": "/nowhere/ca.pem"},
        {"ca_pem": "secret"},
        {"ciphers": "secret"},
        {"certificate_location": "/nowhere/secret.pem"},
        {"certificate_pem": "secret", "key_pem": "secret"},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_refused(wrong: dict[str, str]) -> None:
    """Settings that ssl refuses are left to librdkafka, in a text without their values, which may be keys."""
    with pytest.raises(Unsupported, match=r"^TLS settings that Python's ssl refuses \(\w+\)$") as caught:
        tls_context(replace(NOTHING, **wrong))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["key_pem", "key_location"])
def test_key_without_certificate(trusting: TlsSettings, name: str) -> None:
    """A key needs a certificate."""
    with pytest.raises(Unsupported, match=r"^a private key without a certificate$"):
        tls_context(replace(trusting, **{name: "secret"}))


def test_ciphers(trusting: TlsSettings) -> None:
    """The property ssl.cipher.suites sets the ciphers before TLS 1.3."""
    name = "ECDHE-ECDSA-AES256-GCM-SHA384"
    offered = tls_context(replace(trusting, ciphers=name)).get_ciphers()
    assert [c["name"] for c in offered if c["protocol"] != "TLSv1.3"] == [name]


@each("server", ["[::1", "[::1]9094", "[]:1", "::1", "a:0", "a:65536", "a:99999999", "a:b", "PLAINTEXT://a:1", "a]:1"])
def test_server_of_another_form(server: str) -> None:
    """A server that is not host:port is left to librdkafka."""
    with pytest.raises(Unsupported, match="a bootstrap server that is not host:port"):
        parse_servers(server)
