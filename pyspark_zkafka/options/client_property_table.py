"""Client properties that are translated or checked here, one row each; librdkafka checks all others.

Of rows with the same name and client, the first one whose `when` is met applies. There is a row for

- a name or a value that Java's clients spell differently, and an alias, so that a property is set once;
- a value that is read here, or that librdkafka would misread, or refuse only when a client is created;
- a property of only one client: the other one would ignore it.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark_zkafka.options.jaas import credentials

__all__ = ["PROPERTIES", "ClientProperty"]

Reader: TypeAlias = Callable[[str], "str | Mapping[str, str]"]
"""Returns the value of the row's librdkafka property, or several properties by name.

It raises ValueError with what it expects, never with what it got: the value may be a secret.
"""


@dataclass(frozen=True, slots=True)
class ClientProperty:
    """A property that is passed to librdkafka, or that determines the meaning of others.

    `name` is the user's, without ``kafka.``; `clients` has C for consumers and P for producers; `read` converts the value
    to librdkafka's; `targets` are librdkafka's names, separated by blanks: ``=`` is the same name, and an empty text is
    for a property that only determines the meaning of others. `when` is another property and the values, one of which it
    must have (None: not set); `otherwise` is the advice if it has none of them.
    """

    name: str
    clients: str
    read: Reader
    targets: str = "="
    when: tuple[str | None, ...] = ()
    otherwise: str = ""

    def target_names(self) -> list[str]:
        """librdkafka's names of the property; none if it only determines the meaning of others."""
        return self.targets.replace("=", self.name).split()

    @property
    def range_is_librdkafkas(self) -> bool:
        """True if the value is a number whose range librdkafka checks."""
        return self.read in (_whole, _negative_as_zero, _kibibytes, _decimal)


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip(), re.ASCII):
        raise ValueError("a whole number")
    return int(text)


def _between(low: int, high: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not low <= _integer(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return str(_integer(text))

    return read


_whole = _between(-(2**31), 2**31 - 1)  # librdkafka would overflow for others


def _negative_as_zero(text: str) -> str:
    """An integer; Java's -1, for the system's default or no limit, is 0 in librdkafka."""
    return "0" if _integer(text) == -1 else _whole(text)


def _decimal(text: str) -> str:
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text.strip(), re.ASCII):
        raise ValueError("a number of milliseconds")
    return text.strip()


def _kibibytes(text: str) -> str:
    """Bytes, as kibibytes rounded down, but at least 1."""
    if not 0 <= _integer(text) // 1024 < 2**31:
        raise ValueError(f"a whole number of bytes from 0 to {2**41 - 1024}")
    return str(max(1, _integer(text) // 1024))


def _choice(*values: str, **others: str) -> Reader:
    """One of `values` in any case, as written here; `others` are further spellings of them."""
    known = {value.lower(): value for value in values} | others

    def read(text: str) -> str:
        if text.strip().lower() not in known:
            raise ValueError(f"one of {', '.join(values)}")
        return known[text.strip().lower()]

    return read


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def _secret(value: str) -> str:
    """A value that blanks may be part of."""
    if not value:
        raise ValueError("a text that is not empty")
    return value


def _version(text: str) -> str:
    if not re.fullmatch(r"\d+(\.\d+){2,3}", text.strip(), re.ASCII):
        raise ValueError("a version such as 0.9.0.1")
    return text.strip()


def _ciphers(text: str) -> str:
    """Cipher suites by OpenSSL's names, which are not Java's."""
    if "_WITH_" in text.upper() or "," in text or not text.strip():
        raise ValueError("OpenSSL's names with colons between them, e.g. ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-SHA")
    return text.strip()


def _kinit_command(text: str) -> str:
    """librdkafka's whole command line; Java's property of this name is the path of kinit alone."""
    if not re.search(r"\S\s+\S", text):
        raise ValueError("a whole command line, e.g. kinit -t %{sasl.kerberos.keytab} -k %{sasl.kerberos.principal}")
    return text.strip()


def _each(clients: str, read: Reader, *names: str) -> tuple[ClientProperty, ...]:
    return tuple(ClientProperty(name, clients, read) for name in names)


_flag = _choice("true", "false")
_mechanism = _choice("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_codec = _choice("none", "gzip", "snappy", "lz4", "zstd")
_acks = _choice("all", "0", "1", **{"-1": "all"})
# From 1 ms: librdkafka's 0 means no limit, and a task would never fail.
_delivery_time = _between(1, 2**31 - 1)

_PASSWORD_LOGIN = ("sasl.mechanism", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OIDC = ("sasl.oauthbearer.method", "oidc")
_PEM_TRUST = ("ssl.truststore.type", "PEM")
_PEM_STORE = ("ssl.keystore.type", "PEM")
_PKCS12_STORE = ("ssl.keystore.type", "PKCS12", None)
_SAY_KERBEROS = "without a mechanism, Kerberos is used"
_SAY_OIDC = "librdkafka uses the endpoint with this method only"
_SAY_PEM_TRUST = "librdkafka reads only PEM: export the certificates to a PEM file, or set ssl.ca.location"
_SAY_PEM_STORE = "keys and certificates as text are PEM"
_SAY_STORE = "librdkafka reads PEM and PKCS12, not JKS: convert it with keytool -importkeystore -deststoretype PKCS12"

PROPERTIES: tuple[ClientProperty, ...] = (
    # Connections
    *_each("CP", _text, "bootstrap.servers"),
    ClientProperty("metadata.broker.list", "CP", _text, "bootstrap.servers"),
    ClientProperty("request.timeout.ms", "C", _whole, "socket.timeout.ms"),
    *_each("P", _whole, "request.timeout.ms"),
    ClientProperty("send.buffer.bytes", "CP", _negative_as_zero, "socket.send.buffer.bytes"),
    ClientProperty("receive.buffer.bytes", "CP", _negative_as_zero, "socket.receive.buffer.bytes"),
    *_each("CP", _negative_as_zero, "connections.max.idle.ms"),
    *_each("CP", _whole, "socket.timeout.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    *_each("CP", _whole, "message.max.bytes", "receive.message.max.bytes", "max.in.flight.requests.per.connection"),
    ClientProperty("max.in.flight", "CP", _whole, "max.in.flight.requests.per.connection"),
    *_each("CP", _version, "broker.version.fallback"),
    # Java's metadata.max.age.ms is how often to refresh; librdkafka's is how long an entry lives, and follows it.
    ClientProperty("metadata.max.age.ms", "CP", _between(1, 3_600_000), "topic.metadata.refresh.interval.ms"),
    # Reading
    *_each("C", _whole, "fetch.max.bytes", "max.partition.fetch.bytes", "queued.max.messages.kbytes"),
    *_each("C", _whole, "fetch.wait.max.ms", "fetch.error.backoff.ms", "fetch.queue.backoff.ms"),
    *_each("C", _whole, "queued.min.messages"),
    *_each("C", _between(1, 100_000_000), "fetch.min.bytes"),  # librdkafka refuses 0 when a client is made
    ClientProperty("fetch.message.max.bytes", "C", _whole, "max.partition.fetch.bytes"),
    ClientProperty("fetch.max.wait.ms", "C", _whole, "fetch.wait.max.ms"),
    *_each("C", _between(45_000, 86_400_000), "max.poll.interval.ms"),  # librdkafka: at least session.timeout.ms
    *_each("C", _choice("read_uncommitted", "read_committed"), "isolation.level"),
    *_each("C", _flag, "check.crcs"),
    # Writing
    *_each("P", _acks, "acks"),
    ClientProperty("request.required.acks", "P", _acks, "acks"),
    *_each("P", _flag, "enable.idempotence", "enable.gapless.guarantee"),
    *_each("P", _whole, "retries"),
    ClientProperty("message.send.max.retries", "P", _whole, "retries"),
    *_each("P", _delivery_time, "delivery.timeout.ms"),
    ClientProperty("message.timeout.ms", "P", _delivery_time, "delivery.timeout.ms"),
    *_each("P", _decimal, "linger.ms"),
    ClientProperty("queue.buffering.max.ms", "P", _decimal, "linger.ms"),
    ClientProperty("buffer.memory", "P", _kibibytes, "queue.buffering.max.kbytes"),
    *_each("P", _whole, "queue.buffering.max.kbytes", "queue.buffering.max.messages"),
    *_each("P", _whole, "queue.buffering.backpressure.threshold", "sticky.partitioning.linger.ms"),
    *_each("P", _whole, "batch.size", "batch.num.messages"),
    ClientProperty("max.request.size", "P", _whole, "message.max.bytes"),
    *_each("P", _codec, "compression.type"),
    ClientProperty("compression.codec", "P", _codec, "compression.type"),
    *_each("P", _whole, "compression.level"),
    ClientProperty("compression.gzip.level", "P", _between(-1, 9), "compression.level", ("compression.type", "gzip")),
    ClientProperty("compression.lz4.level", "P", _between(1, 12), "compression.level", ("compression.type", "lz4")),
    ClientProperty("compression.zstd.level", "P", _between(1, 12), "compression.level", ("compression.type", "zstd")),
    # TLS
    *_each("CP", _choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), "security.protocol"),
    *_each("CP", _choice("https", "none", **{"": "none"}), "ssl.endpoint.identification.algorithm"),
    *_each("CP", _ciphers, "ssl.cipher.suites"),
    ClientProperty("ssl.truststore.type", "CP", _choice("PEM"), "", (), _SAY_PEM_TRUST),
    ClientProperty("ssl.truststore.location", "CP", _text, "ssl.ca.location", _PEM_TRUST, _SAY_PEM_TRUST),
    ClientProperty("ssl.truststore.certificates", "CP", _secret, "ssl.ca.pem", _PEM_TRUST, _SAY_PEM_TRUST),
    ClientProperty("ssl.keystore.type", "CP", _choice("PEM", "PKCS12"), "", (), _SAY_STORE),
    ClientProperty(
        "ssl.keystore.location", "CP", _text, "ssl.certificate.location ssl.key.location", _PEM_STORE, _SAY_STORE
    ),
    ClientProperty("ssl.keystore.location", "CP", _text, "=", _PKCS12_STORE, _SAY_STORE),
    ClientProperty("ssl.keystore.password", "CP", _secret, "=", _PKCS12_STORE, "a PEM key's password is ssl.key.password"),
    ClientProperty("ssl.keystore.key", "CP", _secret, "ssl.key.pem", _PEM_STORE, _SAY_PEM_STORE),
    ClientProperty("ssl.keystore.certificate.chain", "CP", _secret, "ssl.certificate.pem", _PEM_STORE, _SAY_PEM_STORE),
    # SASL
    *_each("CP", _mechanism, "sasl.mechanism"),
    ClientProperty("sasl.mechanisms", "CP", _mechanism, "sasl.mechanism"),
    ClientProperty("sasl.jaas.config", "CP", credentials, "sasl.username sasl.password", _PASSWORD_LOGIN, _SAY_KERBEROS),
    *_each("CP", _kinit_command, "sasl.kerberos.kinit.cmd"),
    *_each("CP", _flag, "enable.sasl.oauthbearer.unsecure.jwt"),
    *_each("CP", _choice("default", "oidc"), "sasl.oauthbearer.method"),
    ClientProperty("sasl.oauthbearer.client.credentials.client.id", "CP", _text, "sasl.oauthbearer.client.id"),
    ClientProperty("sasl.oauthbearer.client.credentials.client.secret", "CP", _secret, "sasl.oauthbearer.client.secret"),
    ClientProperty("sasl.oauthbearer.token.endpoint.url", "CP", _text, "=", _OIDC, _SAY_OIDC),
)
