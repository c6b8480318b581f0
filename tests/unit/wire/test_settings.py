"""Settings of connections: servers and TLS."""

from __future__ import annotations

import math
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificate

from pyspark_zkafka.wire.protocol import Unsupported
from pyspark_zkafka.wire.settings import Kerberos, TlsSettings, client_settings_of, parse_servers, tls_context
from tests.support.certificates import Authority

HOST = x509.DNSName("localhost")
NOTHING = TlsSettings(*[None] * 10, checks_certificate=True, checks_host=True)


@pytest.fixture
def trusting(authority: Authority) -> TlsSettings:
    """Settings that trust only the authority."""
    return replace(NOTHING, ca_location=authority.file)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[list[str | None]]:
    """The texts of the certificate and key files that ssl has loaded; the key is None if it is in the other file."""
    found: list[list[str | None]] = []
    load = ssl.SSLContext.load_cert_chain

    def record(context: ssl.SSLContext, certificate: str, key: str | None, password: Any) -> None:
        load(context, certificate, key, password)
        found.append([None if file is None else Path(file).read_text() for file in (certificate, key)])

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", record)
    return found


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
    assert context.verify_mode == mode
    assert context.check_hostname is checks_host


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
    authority: Authority, trusting: TlsSettings, password: str | None, loaded: list[list[str | None]]
) -> None:
    """A certificate and its key may be one file, two files, or PEM texts, and the key may be locked."""
    file = authority.issue("client", HOST, password)
    pem = Path(file).read_text()
    for settings in (
        replace(trusting, certificate_location=file),
        replace(trusting, certificate_location=file, key_location=file),
        replace(trusting, certificate_pem=pem, key_pem=pem),
    ):
        tls_context(replace(settings, key_password=password))
    assert loaded == [[pem, None], [pem, pem], [pem, pem]]


def test_key_store(authority: Authority, trusting: TlsSettings, loaded: list[list[str | None]], tmp_path: Path) -> None:
    """The key and the certificates of a PKCS #12 file are used. Its password and its key show in no text."""
    file, store = authority.issue("stored", HOST), tmp_path / "client.p12"
    store.write_bytes(key_store(Path(file).read_bytes(), b"open-sesame"))
    found = replace(trusting, keystore_location=str(store), keystore_password="open-sesame")
    tls_context(found)
    ((certificate, _),) = loaded
    assert certificate is not None
    assert certificate.strip() in Path(file).read_text()
    assert "open-sesame" not in repr(found)
    with pytest.raises(Unsupported, match=r"^TLS settings that Python's ssl refuses \(ValueError\)$"):
        tls_context(replace(found, keystore_password="close-sesame"))


def key_store(pem: bytes, password: bytes) -> bytes:
    """Return a PKCS #12 file with the key and the certificate in a PEM text."""
    key, certificate = load_pem_private_key(pem, None), load_pem_x509_certificate(pem)
    return serialize_key_and_certificates(b"client", key, certificate, None, BestAvailableEncryption(password))


@pytest.mark.parametrize("extra", ["gssapi", "cryptography"])
def test_missing_extras(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs an extra names it."""
    monkeypatch.setattr("pyspark_zkafka.wire.settings.find_spec", lambda name: None)
    kerberos = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}
    given, name = (kerberos, "kerberos") if extra == "gssapi" else ({"ssl.keystore.location": "a.p12"}, "pkcs12")
    with pytest.raises(Unsupported, match=rf"without the extra pyspark-zkafka\[{name}\]"):
        client_settings_of(given)


def test_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kerberos has a service, and a principal and a keytab if they are given; librdkafka's kinit is not needed."""
    monkeypatch.setattr("pyspark_zkafka.wire.settings.find_spec", lambda name: name)
    given = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}
    assert client_settings_of(given).login == Kerberos("kafka")
    named = {"service.name": "k", "principal": "me@HERE", "keytab": "/me.keytab", "kinit.cmd": "kinit -k"}
    given |= {f"sasl.kerberos.{name}": value for name, value in named.items()}
    assert client_settings_of(given).login == Kerberos("k", "me@HERE", "/me.keytab")


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
def test_settings_that_ssl_refuses(wrong: dict[str, str]) -> None:
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


@pytest.mark.parametrize(
    "server", ["[::1", "[::1]9094", "[]:1", "::1", "a:0", "a:65536", "a:99999999", "a:b", "PLAINTEXT://a:1", "a]:1"]
)
def test_server_of_another_form(server: str) -> None:
    """A server that is not host:port is left to librdkafka."""
    with pytest.raises(Unsupported, match="a bootstrap server that is not host:port"):
        parse_servers(server)


LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}


@pytest.mark.parametrize(
    ("used", "unused"),
    [
        pytest.param({}, {"ssl.crl.location": "x", "enable.ssl.certificate.verification": "true"}, id="TLS"),
        pytest.param({}, {"sasl.mechanism": "PLAIN", "sasl.username": "a"}, id="login"),
        pytest.param(LOGIN, {"https.ca.pem": "x", "sasl.oauthbearer.method": "oidc"}, id="tokens"),
        pytest.param(LOGIN, {"sasl.kerberos.kinit.cmd": "kinit", "sasl.kerberos.keytab": "x"}, id="Kerberos"),
    ],
)
def test_properties_without_effect(used: dict[str, str], unused: dict[str, str]) -> None:
    """Properties of TLS and of logins that the connection does not use change nothing."""
    assert client_settings_of({**used, **unused}) == client_settings_of(used)


def test_metadata_that_is_never_renewed() -> None:
    """The interval -1, as in librdkafka, keeps what a broker has said until an error."""
    assert client_settings_of({"topic.metadata.refresh.interval.ms": "-1"}).metadata_age_s == math.inf


@pytest.mark.parametrize(
    ("used", "name"),
    [
        pytest.param({"security.protocol": "SSL"}, "ssl.crl.location", id="TLS"),
        pytest.param({**LOGIN, "sasl.mechanism": "SCRAM-SHA-256"}, "sasl.unknown", id="login"),
    ],
)
def test_properties_that_would_be_ignored(used: dict[str, str], name: str) -> None:
    """A property of the security in use that is not supported is named."""
    with pytest.raises(Unsupported, match=f"^{name}$"):
        client_settings_of({**used, name: "x"})
