"""Client properties that are translated or checked here, one row each; librdkafka checks all others.

Of the rows with the same name and client, the first one whose `when` is met applies. There is a row for

- a name or a value that Java's clients spell differently, and an alias, so that a property is set once;
- a value that the package computes with, or that librdkafka would misread, or refuse only when a client is created;
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
    def checked_by_librdkafka(self) -> bool:
        """True if librdkafka checks the value that `read` returns: it knows the ranges of numbers, and most words."""
        return self.read in (_whole, _negative_as_zero, _kibibytes, _decimal, _unread)


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip(), re.ASCII):
        raise ValueError("a whole number")
    return int(text)


def _whole(text: str) -> str:
    return str(_integer(text))


def _between(low: int, high: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not low <= _integer(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return _whole(text)

    return read


def _negative_as_zero(text: str) -> str:
    """An integer; Java's -1, for the system's default or no limit, is 0 in librdkafka."""
    return "0" if _integer(text) == -1 else _whole(text)


def _kibibytes(text: str) -> str:
    """Bytes, as kibibytes rounded down, but at least 1."""
    if _integer(text) < 0:
        raise ValueError("a whole number of bytes, 0 or more")
    return str(max(1, _integer(text) // 1024))


def _choice(*values: str, **others: str) -> Reader:
    """One of `values` in any case, as written here; `others` are further spellings of them."""
    known = {value.lower(): value for value in values} | others

    def read(text: str) -> str:
        if text.strip().lower() not in known:
            raise ValueError(f"one of {', '.join(values)}")
        return known[text.strip().lower()]

    return read


def _secret(value: str) -> str:
    """A value that blanks may be part of."""
    if not value:
        raise ValueError("a text that is not empty")
    return value


def _text(value: str) -> str:
    return _secret(value.strip())


def _unread(value: str) -> str:
    """A value that only librdkafka reads."""
    return _text(value)


def _matching(pattern: str, expected: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if not re.fullmatch(pattern, value.strip(), re.ASCII | re.DOTALL):
            raise ValueError(expected)
        return value.strip()

    return read


def _rows(clients: str, read: Reader, *names: str, alias: str = "") -> tuple[ClientProperty, ...]:
    """A row for each name; `alias` is another name of the first one."""
    aliases = [ClientProperty(alias, clients, read, names[0])] if alias else []
    return (*(ClientProperty(name, clients, read) for name in names), *aliases)


_decimal = _matching(r"\d{1,9}(\.\d{1,9})?", "a number of milliseconds")
_version = _matching(r"\d+(\.\d+){2,3}", "a version such as 0.9.0.1")
_ciphers = _matching(
    "(?i:(?!.*_WITH_)[^,]+)",  # not Java's names
    "OpenSSL's names with colons between them, e.g. ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-SHA",
)
# Java's property of this name is the path of kinit alone.
_kinit_command = _matching(
    r"\S+\s.+", "a whole command line, e.g. kinit -t %{sasl.kerberos.keytab} -k %{sasl.kerberos.principal}"
)
_flag = _choice("true", "false")
_mechanism = _choice("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_PASSWORD_LOGIN = ("sasl.mechanism", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OIDC = ("sasl.oauthbearer.method", "oidc")
_PEM_TRUST = ("ssl.truststore.type", "PEM")
_PEM_STORE = ("ssl.keystore.type", "PEM")
_PKCS12_STORE = ("ssl.keystore.type", "PKCS12", None)
_ADVISE_LOGIN = "the default mechanism is Kerberos"
_ADVISE_OIDC = "librdkafka uses the endpoint with this method only"
_ADVISE_PEM_TRUST = "librdkafka reads only PEM: export the certificates to a PEM file, or set ssl.ca.location"
_ADVISE_PEM_TEXT = "keys and certificates as text are PEM"
_ADVISE_STORE = "librdkafka reads PEM and PKCS12, not JKS: convert it with keytool -importkeystore -deststoretype PKCS12"

PROPERTIES: tuple[ClientProperty, ...] = (
    # Connections
    *_rows("CP", _text, "bootstrap.servers", alias="metadata.broker.list"),
    ClientProperty("request.timeout.ms", "C", _whole, "socket.timeout.ms"),
    *_rows("P", _whole, "request.timeout.ms", "transaction.timeout.ms"),
    ClientProperty("send.buffer.bytes", "CP", _negative_as_zero, "socket.send.buffer.bytes"),
    ClientProperty("receive.buffer.bytes", "CP", _negative_as_zero, "socket.receive.buffer.bytes"),
    *_rows("CP", _negative_as_zero, "connections.max.idle.ms"),
    *_rows("CP", _whole, "socket.timeout.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    *_rows("CP", _whole, "message.max.bytes", "receive.message.max.bytes"),
    *_rows("CP", _whole, "max.in.flight.requests.per.connection", alias="max.in.flight"),
    *_rows("CP", _version, "broker.version.fallback"),
    # Java's metadata.max.age.ms is how often to refresh; librdkafka's is how long an entry lives, and follows it.
    ClientProperty("metadata.max.age.ms", "CP", _between(1, 3_600_000), "topic.metadata.refresh.interval.ms"),
    # Reading
    *_rows("C", _whole, "max.partition.fetch.bytes", alias="fetch.message.max.bytes"),
    *_rows("C", _whole, "fetch.max.bytes", "queued.max.messages.kbytes", "queued.min.messages"),
    *_rows("C", _unread, "fetch.wait.max.ms", alias="fetch.max.wait.ms"),
    *_rows("C", _unread, "fetch.error.backoff.ms", "fetch.queue.backoff.ms", "check.crcs"),
    *_rows("C", _between(1, 100_000_000), "fetch.min.bytes"),  # librdkafka refuses others when a client is created
    *_rows("C", _between(1, 86_400_000), "max.poll.interval.ms"),
    *_rows("C", _choice("read_uncommitted", "read_committed"), "isolation.level"),
    # Writing
    *_rows("P", _choice("all", "0", "1", **{"-1": "all"}), "acks", alias="request.required.acks"),
    *_rows("P", _flag, "enable.idempotence", "enable.gapless.guarantee"),
    *_rows("P", _whole, "retries", alias="message.send.max.retries"),
    # From 1 ms: librdkafka's 0 means no limit, and a task would never fail.
    *_rows("P", _between(1, 2**31 - 1), "delivery.timeout.ms", alias="message.timeout.ms"),
    *_rows("P", _decimal, "linger.ms", alias="queue.buffering.max.ms"),
    ClientProperty("buffer.memory", "P", _kibibytes, "queue.buffering.max.kbytes"),
    *_rows("P", _whole, "queue.buffering.max.kbytes", "queue.buffering.max.messages"),
    *_rows("P", _whole, "queue.buffering.backpressure.threshold", "batch.size"),
    *_rows("P", _unread, "sticky.partitioning.linger.ms", "batch.num.messages", "compression.level"),
    *_rows("P", _unread, "compression.type", alias="compression.codec"),
    ClientProperty("max.request.size", "P", _whole, "message.max.bytes"),
    # librdkafka's range is that of all codecs: it would use level 9 for gzip's 12, and its default for zstd's -1.
    ClientProperty("compression.gzip.level", "P", _between(-1, 9), "compression.level", ("compression.type", "gzip")),
    ClientProperty("compression.lz4.level", "P", _between(1, 12), "compression.level", ("compression.type", "lz4")),
    ClientProperty("compression.zstd.level", "P", _between(1, 12), "compression.level", ("compression.type", "zstd")),
    # TLS
    *_rows("CP", _choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), "security.protocol"),
    *_rows("CP", _choice("https", "none", **{"": "none"}), "ssl.endpoint.identification.algorithm"),
    *_rows("CP", _ciphers, "ssl.cipher.suites"),
    ClientProperty("ssl.truststore.type", "CP", _choice("PEM"), "", (), _ADVISE_PEM_TRUST),
    ClientProperty("ssl.truststore.location", "CP", _text, "ssl.ca.location", _PEM_TRUST, _ADVISE_PEM_TRUST),
    ClientProperty("ssl.truststore.certificates", "CP", _secret, "ssl.ca.pem", _PEM_TRUST, _ADVISE_PEM_TRUST),
    ClientProperty("ssl.keystore.type", "CP", _choice("PEM", "PKCS12"), "", (), _ADVISE_STORE),
    ClientProperty(
        "ssl.keystore.location", "CP", _text, "ssl.certificate.location ssl.key.location", _PEM_STORE, _ADVISE_STORE
    ),
    ClientProperty("ssl.keystore.location", "CP", _text, "=", _PKCS12_STORE, _ADVISE_STORE),
    ClientProperty("ssl.keystore.password", "CP", _secret, "=", _PKCS12_STORE, "a PEM key's password is ssl.key.password"),
    ClientProperty("ssl.keystore.key", "CP", _secret, "ssl.key.pem", _PEM_STORE, _ADVISE_PEM_TEXT),
    ClientProperty("ssl.keystore.certificate.chain", "CP", _secret, "ssl.certificate.pem", _PEM_STORE, _ADVISE_PEM_TEXT),
    # SASL
    *_rows("CP", _mechanism, "sasl.mechanism", alias="sasl.mechanisms"),
    ClientProperty("sasl.jaas.config", "CP", credentials, "sasl.username sasl.password", _PASSWORD_LOGIN, _ADVISE_LOGIN),
    *_rows("CP", _kinit_command, "sasl.kerberos.kinit.cmd"),
    *_rows("CP", _flag, "enable.sasl.oauthbearer.unsecure.jwt"),
    *_rows("CP", _choice("default", "oidc"), "sasl.oauthbearer.method"),
    ClientProperty("sasl.oauthbearer.client.credentials.client.id", "CP", _text, "sasl.oauthbearer.client.id"),
    ClientProperty("sasl.oauthbearer.client.credentials.client.secret", "CP", _secret, "sasl.oauthbearer.client.secret"),
    ClientProperty("sasl.oauthbearer.token.endpoint.url", "CP", _text, "=", _OIDC, _ADVISE_OIDC),
)
