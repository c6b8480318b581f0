"""Settings of connections, from librdkafka's properties of the same names, and the TLS context."""

from __future__ import annotations

import math
import os
import re
import socket
import ssl
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from pyspark_zkafka import token_providers
from pyspark_zkafka.retries import Backoff
from pyspark_zkafka.wire.protocol import Unsupported

_KAFKA_PORT = 9092
_SERVER = re.compile(r"(?:\[(?P<ipv6>[^]/]+)]|(?P<host>[^]:/[]+))(?::(?P<port>[0-9]{0,5}))?")
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_OF_TLS = ("ssl.", "enable.ssl.")
_OF_TOKENS = ("sasl.oauthbearer.", "enable.sasl.oauthbearer.", "https.")
_OF_KERBEROS = ("sasl.kerberos.",)
_SECURITY = (*_OF_TLS, *_OF_TOKENS, "sasl.")
WITHOUT_EFFECT = frozenset(
    {
        "api.version.request",
        "connections.max.idle.ms",
        "log.connection.close",
        "log_level",
        "metadata.max.age.ms",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "socket.blocking.max.ms",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)
"""Properties that configure librdkafka's queues, threads, group and log."""

_FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Authorities, certificate and key, as files or PEM texts. A key store is a PKCS #12 file."""

    ca_location: str | None
    ca_pem: str | None
    certificate_location: str | None
    certificate_pem: str | None = field(repr=False)
    key_location: str | None
    key_pem: str | None = field(repr=False)
    key_password: str | None = field(repr=False)
    keystore_location: str | None
    keystore_password: str | None = field(repr=False)
    ciphers: str | None
    checks_certificate: bool
    checks_host: bool


@dataclass(frozen=True, slots=True)
class Login:
    """A SASL mechanism with a password."""

    mechanism: str
    user: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A login to a service of the brokers' hosts, with a keytab, or with the tickets of this process's user."""

    mechanism: ClassVar[str] = "GSSAPI"

    service: str
    principal: str | None = None
    keytab: str | None = None


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The endpoint that issues tokens for OAUTHBEARER. Authorities are a file, a folder, or a PEM text."""

    mechanism: ClassVar[str] = "OAUTHBEARER"

    url: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: tuple[str, ...] = ()
    ca_location: str | None = None
    ca_pem: str | None = None


@dataclass(frozen=True, slots=True)
class TokenProvider:
    """The name of the function that provides tokens for OAUTHBEARER, and its configuration."""

    mechanism: ClassVar[str] = "OAUTHBEARER"

    name: str
    config: str = field(repr=False)


AnyLogin = Login | Kerberos | TokenEndpoint | TokenProvider


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """Properties of sockets. A buffer size of 0 is the system's default."""

    family: int
    keepalive: bool
    no_delay: bool
    send_bytes: int
    receive_bytes: int
    setup_timeout_s: float
    request_timeout_s: float
    most_response_bytes: int


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of the connections to a cluster. `tls` and `login` are None if they are not used."""

    servers: tuple[tuple[str, int], ...]
    client_id: str
    tls: TlsSettings | None
    login: AnyLogin | None
    socket: SocketSettings
    reconnect_backoff: Backoff
    retry_backoff: Backoff
    metadata_age_s: float


class Properties:
    """Reads properties one by one. Skips the names in `ignored`."""

    def __init__(self, properties: Mapping[str, Any], ignored: Collection[str]) -> None:
        self._left = {name: value for name, value in properties.items() if name not in ignored}

    def optional(self, name: str) -> str | None:
        value = self._left.pop(name, None)
        return None if value is None else str(value)

    def text(self, name: str, default: str) -> str:
        found = self.optional(name)
        return default if found is None else found

    def number(self, name: str, default: int, least: int = 0) -> int:
        text = self.text(name, str(default)).strip()
        if not text.isdecimal() or int(text) < least:
            raise Unsupported(f"the value of {name}")  # librdkafka reports what is wrong with it
        return int(text)

    def seconds(self, name: str, default_ms: int, *, may_be_endless: bool = False) -> float:
        text = self.text(name, str(default_ms)).strip()
        if may_be_endless and text == "-1":
            return math.inf
        if not text.replace(".", "", 1).isdecimal():
            raise Unsupported(f"the value of {name}")
        return float(text) / 1000

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in _FLAGS:
            raise Unsupported(f"the value of {name}")
        return _FLAGS[text]

    def ignore(self, prefixes: tuple[str, ...]) -> None:
        """Skip the properties with one of these prefixes: they have no effect."""
        self._left = {name: value for name, value in self._left.items() if not name.startswith(prefixes)}

    def finish(self, prefixes: tuple[str, ...] = ("",)) -> None:
        """Raise Unsupported for properties with one of these prefixes that were not read."""
        left = [name for name in self._left if name.startswith(prefixes)]
        if left:
            raise Unsupported(", ".join(sorted(left)))


def client_settings_of(properties: Mapping[str, Any]) -> ClientSettings:
    """The settings for a connection's properties. Ignores librdkafka's own, such as ``debug``.

    Raises Unsupported, with the name of the property, for a property of TLS or of a login that is not supported.
    """
    given = Properties(properties, WITHOUT_EFFECT)
    settings = client_settings(given)
    given.finish(_SECURITY)
    return settings


def client_settings(given: Properties) -> ClientSettings:
    """The settings of connections. Raises Unsupported for a value that cannot be used."""
    protocol = given.text("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        raise Unsupported(f"security.protocol={protocol}")
    tls, found = _tls(given), _login(given)  # read even if they are not used, for `finish`
    login = found if protocol.startswith("sasl") else None
    if isinstance(login, str):
        raise Unsupported(login)
    is_unused = {
        _OF_TLS: not protocol.endswith("ssl"),
        _OF_TOKENS: not isinstance(login, TokenEndpoint | TokenProvider),
        _OF_KERBEROS: not isinstance(login, Kerberos),
    }
    given.ignore(tuple(prefix for prefixes, unused in is_unused.items() if unused for prefix in prefixes))
    return ClientSettings(
        servers=parse_servers(given.text("bootstrap.servers", "")),
        client_id=given.text("client.id", "rdkafka"),
        tls=tls if protocol.endswith("ssl") else None,
        login=login,
        socket=_socket(given),
        reconnect_backoff=_backoff(given, "reconnect.backoff", 10_000),
        retry_backoff=_backoff(given, "retry.backoff", 1_000),
        metadata_age_s=given.seconds("topic.metadata.refresh.interval.ms", 300_000, may_be_endless=True),
    )


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of a list of servers. Raises Unsupported for any other notation.

    >>> parse_servers("a:9093, [::1]:9094,b")
    (('a', 9093), ('::1', 9094), ('b', 9092))
    """
    return tuple(_server(server.strip()) for server in text.split(",") if server.strip())


def _server(text: str) -> tuple[str, int]:
    found = _SERVER.fullmatch(text)
    port = int(found["port"] or _KAFKA_PORT) if found else 0
    if found is None or not 0 < port < 2**16:
        raise Unsupported("a bootstrap server that is not host:port")
    return found["ipv6"] or found["host"], port


def _tls(given: Properties) -> TlsSettings:
    keystore = given.optional("ssl.keystore.location")
    if keystore is not None and find_spec("cryptography") is None:
        raise Unsupported("ssl.keystore.location without the extra pyspark-zkafka[pkcs12]")
    host_check = given.text("ssl.endpoint.identification.algorithm", "https")
    return TlsSettings(
        ca_location=given.optional("ssl.ca.location"),
        ca_pem=given.optional("ssl.ca.pem"),
        certificate_location=given.optional("ssl.certificate.location"),
        certificate_pem=given.optional("ssl.certificate.pem"),
        key_location=given.optional("ssl.key.location"),
        key_pem=given.optional("ssl.key.pem"),
        key_password=given.optional("ssl.key.password"),
        keystore_location=keystore,
        keystore_password=given.optional("ssl.keystore.password"),
        ciphers=given.optional("ssl.cipher.suites"),
        checks_certificate=given.flag("enable.ssl.certificate.verification", True),
        checks_host=host_check == "https",
    )


def _login(given: Properties) -> AnyLogin | str:
    """The login, or the reason why it cannot be used."""
    mechanism = given.optional("sasl.mechanism") or given.optional("sasl.mechanisms") or "GSSAPI"
    user, password = given.optional("sasl.username"), given.optional("sasl.password")
    provider, config = given.optional(token_providers.PROVIDER), given.optional(token_providers.CONFIG)
    service = given.text("sasl.kerberos.service.name", "kafka")
    principal, keytab = given.optional("sasl.kerberos.principal"), given.optional("sasl.kerberos.keytab")
    if mechanism == Kerberos.mechanism and find_spec("gssapi") is None:
        return f"sasl.mechanism={mechanism} without the extra pyspark-zkafka[kerberos]"
    if mechanism == Kerberos.mechanism:
        return Kerberos(service, principal, keytab)
    if mechanism == "OAUTHBEARER" and provider is not None:
        return TokenProvider(provider, config or "")
    if mechanism == "OAUTHBEARER":
        return _token_endpoint(given)
    if mechanism not in ("PLAIN", *_SCRAM):
        return f"sasl.mechanism={mechanism}"
    if user is None or password is None:
        return "a login without user and password"
    if mechanism in _SCRAM and not (_is_prepared(user) and _is_prepared(password)):
        return f"sasl.mechanism={mechanism} with a user or a password that SASLprep changes"
    return Login(mechanism, user, password)


def _is_prepared(text: str) -> bool:
    """True if SASLprep leaves a text as it is: scramp prepares texts, but Kafka and librdkafka do not."""
    if text.isascii():
        return True
    from scramp.core import ScramException, saslprep  # few texts need it

    try:
        return bool(saslprep(text) == text)
    except ScramException:
        return False


def _token_endpoint(given: Properties) -> TokenEndpoint | str:
    if given.text("sasl.oauthbearer.method", "default") != "oidc":
        return "sasl.mechanism=OAUTHBEARER without sasl.oauthbearer.method=oidc"
    url = given.optional("sasl.oauthbearer.token.endpoint.url")
    client_id, secret = given.optional("sasl.oauthbearer.client.id"), given.optional("sasl.oauthbearer.client.secret")
    if url is None or client_id is None or secret is None:
        return "sasl.mechanism=OAUTHBEARER without the id and the secret of a client, and an endpoint for tokens"
    if not url.startswith(("https://", "http://")):
        return "the value of sasl.oauthbearer.token.endpoint.url"
    extensions = (given.optional("sasl.oauthbearer.extensions") or "").split(",")
    return TokenEndpoint(
        url,
        client_id,
        secret,
        given.optional("sasl.oauthbearer.scope"),
        tuple(stripped for extension in extensions if (stripped := extension.strip())),
        given.optional("https.ca.location"),
        given.optional("https.ca.pem"),
    )


def _socket(given: Properties) -> SocketSettings:
    family = given.text("broker.address.family", "any")
    if family not in _FAMILIES:
        raise Unsupported("the value of broker.address.family")
    return SocketSettings(
        family=_FAMILIES[family],
        keepalive=given.flag("socket.keepalive.enable", False),
        no_delay=given.flag("socket.nagle.disable", True),
        send_bytes=given.number("socket.send.buffer.bytes", 0),
        receive_bytes=given.number("socket.receive.buffer.bytes", 0),
        setup_timeout_s=given.seconds("socket.connection.setup.timeout.ms", 30_000),
        request_timeout_s=given.seconds("socket.timeout.ms", 60_000),
        most_response_bytes=given.number("receive.message.max.bytes", 100_000_000),
    )


def _backoff(given: Properties, name: str, most_ms: int) -> Backoff:
    return Backoff(given.seconds(f"{name}.ms", 100), given.seconds(f"{name}.max.ms", most_ms))


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """The TLS context for connections to brokers. Raises Unsupported for a file, key or cipher that cannot be used."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = settings.checks_certificate and settings.checks_host
        context.verify_mode = ssl.CERT_REQUIRED if settings.checks_certificate else ssl.CERT_NONE
        if settings.ciphers is not None:
            context.set_ciphers(settings.ciphers)
        if settings.ca_pem is not None:
            context.load_verify_locations(cadata=settings.ca_pem)
        elif settings.ca_location is None:
            context.load_default_certs()
        elif Path(settings.ca_location).is_dir():
            context.load_verify_locations(capath=settings.ca_location)
        else:
            context.load_verify_locations(cafile=settings.ca_location)
        _load_certificate(context, settings)
        return context
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        # The text of the error may quote a key.
        raise Unsupported(f"TLS settings that Python's ssl refuses ({type(error).__name__})") from None


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    certificate, key = settings.certificate_pem, settings.key_pem
    if settings.keystore_location is not None:
        certificate, key = _keystore(settings.keystore_location, settings.keystore_password)
    if certificate is None and settings.certificate_location is None:
        if key is not None or settings.key_location is not None:
            raise Unsupported("a private key without a certificate")
        return
    with _file(certificate, settings.certificate_location) as cert_file, _file(key, settings.key_location) as key_file:
        # Without a function, OpenSSL asks on the terminal for the password of an encrypted key.
        context.load_cert_chain(str(cert_file), key_file, password=lambda: settings.key_password or "")


def _keystore(location: str, password: str | None) -> tuple[str, str]:
    """Read the certificates and the key from a PKCS #12 file, as PEM texts. Raises ValueError and OSError."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

    data = Path(location).read_bytes()
    key, certificate, others = load_key_and_certificates(data, None if password is None else password.encode())
    if key is None or certificate is None:
        raise ValueError("a key store without a key")
    chain = b"".join(found.public_bytes(Encoding.PEM) for found in (certificate, *others))
    return chain.decode(), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@contextmanager
def _file(pem: str | None, location: str | None) -> Iterator[str | None]:
    """Yield the location, or a file in memory with the PEM text: ssl reads certificates and keys only from files."""
    if pem is None:
        yield location
        return
    if not hasattr(os, "memfd_create"):
        raise Unsupported("keys as PEM texts on this system")
    descriptor = os.memfd_create("pem")
    try:
        os.write(descriptor, pem.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
