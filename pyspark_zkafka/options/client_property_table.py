"""Client properties that are translated, checked or refused here. librdkafka validates all other properties.

Among rows with the same name and client, the first row with a true `when` applies. The table has a row for

- a name or value that Java's clients spell differently, and for an alias, so that a property is set only once;
- a value that the package computes with, or that differs in meaning between librdkafka and Java or this package;
- a property of only one client, because the other client would ignore it.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16; the properties that
``KafkaSourceProvider`` of Spark 4.2 forbids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark_zkafka.options.kinds import choice
from pyspark_zkafka.token_providers import CONFIG, PRESETS, PROVIDER, is_provider_name

ValueReader: TypeAlias = Callable[[str], "str | Mapping[str, str]"]
"""Returns the value of the row's librdkafka property, or several properties by name.

Raises ValueError with the expected form, but without the value, which may be a secret.
"""


@dataclass(frozen=True, slots=True)
class ClientProperty:
    """A property that is passed to librdkafka, or that determines the meaning of other properties.

    `name` is the user's name, without ``kafka.``. `clients` has C for consumers and P for producers. `read` converts the
    user's value to librdkafka's. `targets` are librdkafka's names, separated by blanks: ``=`` stands for the same name, and
    an empty text marks a property that only determines the meaning of other properties. `when` is another property and its
    permitted values (None: not set). `otherwise` is the advice if `when` is not met. Without `when`, `otherwise` is the
    advice for a malformed value.
    """

    name: str
    clients: str
    read: ValueReader
    targets: str = "="
    when: tuple[str | None, ...] = ()
    otherwise: str = ""

    def target_names(self) -> list[str]:
        """List librdkafka's names of the property. Empty if it only determines the meaning of other properties."""
        return self.targets.replace("=", self.name).split()

    def applies(self, lowered: Mapping[str, str]) -> bool:
        """True if `when` is met. `lowered` has the values of all properties, in lower case."""
        if not self.when:
            return True
        return lowered.get(str(self.when[0])) in [None if value is None else value.lower() for value in self.when[1:]]

    @property
    def condition(self) -> str:
        """`when` in words."""
        name, *values = self.when
        return " or ".join(f"no {name}" if value is None else f"{name}={value}" for value in values)

    @property
    def is_judged(self) -> bool:
        """True if librdkafka can validate the value that `read` returns."""
        return self.read in (_whole, _negative_as_zero, _kibibytes, _decimal, _any)


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


def _refresh_interval(low: int) -> Callable[[str], str]:
    """Shorten an interval to twelve minutes: librdkafka keeps metadata for three intervals, in microseconds of 32 bits.

    After an overflow, metadata are outdated at once, and no request for offsets is sent.
    """
    whole = _between(low, 3_600_000)
    return lambda text: str(min(int(whole(text)), 715_000))


def _negative_as_zero(text: str) -> str:
    """Convert Java's -1, for the system's default or no limit, to librdkafka's 0."""
    return "0" if _integer(text) == -1 else _whole(text)


def _kibibytes(text: str) -> str:
    """Convert bytes to kibibytes, rounded down, but at least 1."""
    if _integer(text) < 0:
        raise ValueError("a whole number of bytes, 0 or more")
    return str(max(1, _integer(text) // 1024))


def _choice(*values: str, **others: str) -> ValueReader:
    """Accept each of `values` in any case. `others` maps further spellings to values."""
    kind = choice(*values, form=f"one of {', '.join(values)}", **others)
    return lambda text: kind.read("", text.strip())


def _secret(value: str) -> str:
    """Keep blanks, which may be part of the value."""
    if not value:
        raise ValueError("a text that is not empty")
    return value


def _text(value: str) -> str:
    return _secret(value.strip())


def _pkcs12(value: str) -> str:
    if value.strip().lower().endswith(".jks"):
        raise ValueError(f"a PKCS12 file; {_ADVISE_STORE}")
    return _text(value)


def _any(value: str) -> str:
    """Leave the value to librdkafka's judgement."""
    return _text(value)


def _matching(pattern: str, expected: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if not re.fullmatch(pattern, value.strip(), re.ASCII | re.DOTALL):
            raise ValueError(expected)
        return value.strip()

    return read


def _token_provider(value: str) -> str:
    if not is_provider_name(value.strip()):
        raise ValueError(f"package.module:function, or one of {', '.join(PRESETS)}")
    return value.strip()


_SECURITY = "org.apache.kafka.common.security."
_PASSWORD_MODULES = (f"{_SECURITY}plain.PlainLoginModule", f"{_SECURITY}scram.ScramLoginModule")
_REPLACEMENTS = {
    "Krb5LoginModule": "sasl.kerberos.principal, sasl.kerberos.keytab and sasl.kerberos.service.name",
    "OAuthBearerLoginModule": "sasl.oauthbearer.method=oidc, sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret "
    "and sasl.oauthbearer.token.endpoint.url, or sasl.oauthbearer.token.provider,",
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_FORM = '<login module> required username="..." password="...";'

_TOKEN = r"""(?:\s|//[^\n]*|/\*.*?\*/)+
    | (?P<quote>["'])(?P<quoted>(?:\\[^\n]|(?!(?P=quote))[^\\\n])*)(?P=quote)
    | (?P<word>[A-Za-z_$\u00a0-\uffff-][\w$.\u00a0-\uffff-]*)
    | (?P<sign>[=;])
    | (?P<other>.)"""
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def jaas_credentials(text: str) -> dict[str, str]:
    """Read ``sasl.username`` and ``sasl.password`` from Java's `sasl.jaas.config` of a PLAIN or SCRAM login.

    Raises ValueError if the text is malformed or names a login module that has no equivalent in librdkafka. The error
    contains no value from the text.

    >>> jaas_credentials('org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a;b";')
    {'sasl.username': 'me', 'sasl.password': 'a;b'}
    """
    module, options = parse_jaas(text)
    # A shaded client's module, such as Databricks' kafkashaded.org.apache.kafka..., is the same module.
    if not module.endswith(_PASSWORD_MODULES):
        replacement = _REPLACEMENTS.get(module.rpartition(".")[2])
        expected = f"{replacement} instead" if replacement else "PlainLoginModule or ScramLoginModule"
        raise ValueError(f"{expected}, since librdkafka does not run Java's login modules")
    unknown = sorted(set(options) - {"username", "password"})
    if unknown:
        raise ValueError(f"only username and password: librdkafka has no {', '.join(unknown)}")
    if not (options.get("username") and options.get("password")):
        raise ValueError(f"both a username and a password: {_FORM}")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the login module's class and its options. Raises ValueError, without any value from the text.

    Follows ``JaasConfig`` and ``JaasContext`` of kafka-clients 3.9.1, with the grammar of ``java.io.StreamTokenizer``:
    ``LoginModule flag (name=value)* ;`` with ``"`` or ``'`` around values other than plain words.
    """
    tokens = list(_tokens(text))
    kinds = "".join(kind for kind, _ in tokens)
    if not re.fullmatch(r"w[wq]([wq]=[wq])*;", kinds) or tokens[1][1].lower() not in _FLAGS:
        raise ValueError(f"one login module, its flag and its options, followed by a semicolon: {_FORM}")
    values = [value for _, value in tokens[2:-1]]
    return tokens[0][1], dict(zip(values[0::3], values[2::3], strict=True))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield each token's kind and value. The kind is w (word), q (quoted), =, ; or ? (anything else)."""

    def unescape(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape, 8)) if escape[0] in "01234567" else _CONTROLS.get(escape, escape)

    for found in re.finditer(_TOKEN, text, re.VERBOSE | re.DOTALL | re.ASCII):
        if found["quoted"] is not None:
            yield "q", _ESCAPE.sub(unescape, found["quoted"])
        elif found["word"] is not None:
            yield "w", found["word"]
        elif found["sign"] or found["other"]:
            yield found["sign"] or "?", ""


def _rows(clients: str, read: ValueReader, *names: str, alias: str = "") -> tuple[ClientProperty, ...]:
    """Make a row for each name. `alias` is another name for the first name."""
    aliases = [ClientProperty(alias, clients, read, names[0])] if alias else []
    return (*(ClientProperty(name, clients, read) for name in names), *aliases)


_decimal = _matching(r"\d{1,9}(\.\d{1,9})?", "a number of milliseconds")
# In Java, this property is only the path of kinit.
_kinit_command = _matching(
    r"\S+\s.+", "a whole command line, e.g. kinit -t %{sasl.kerberos.keytab} -k %{sasl.kerberos.principal}"
)
_flag = _choice("true", "false")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_known_mechanism = _choice("GSSAPI", *PASSWORD_MECHANISMS, "OAUTHBEARER")


def _mechanism(text: str) -> str | Mapping[str, str]:
    if text.strip().upper() == "AWS_MSK_IAM":  # of Amazon's Java library
        raise ValueError("OAUTHBEARER, with kafka.sasl.oauthbearer.token.provider=aws-msk-iam")
    return _known_mechanism(text)


_PASSWORD_LOGIN = ("sasl.mechanism", *PASSWORD_MECHANISMS)
_OIDC = ("sasl.oauthbearer.method", "oidc")
_PEM_TRUST = ("ssl.truststore.type", "PEM")
_PEM_STORE = ("ssl.keystore.type", "PEM")
_PKCS12_STORE = ("ssl.keystore.type", "PKCS12", None)
_ADVISE_LOGIN = (
    "with OAUTHBEARER, set sasl.oauthbearer.* instead, and with GSSAPI (Kerberos), the default, sasl.kerberos.*; see "
    "docs/security.md"
)
_ADVISE_CODEC = "set it, or remove the level"
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
    # Java's metadata.max.age.ms is the refresh interval; librdkafka's is the life of an entry.
    ClientProperty("metadata.max.age.ms", "CP", _refresh_interval(1), "topic.metadata.refresh.interval.ms"),
    ClientProperty("topic.metadata.refresh.interval.ms", "CP", _refresh_interval(-1)),
    # Reading
    *_rows("C", _whole, "max.partition.fetch.bytes", alias="fetch.message.max.bytes"),
    *_rows("C", _whole, "fetch.max.bytes", "queued.max.messages.kbytes", "queued.min.messages"),
    *_rows("C", _any, "fetch.wait.max.ms", alias="fetch.max.wait.ms"),
    *_rows("C", _any, "fetch.error.backoff.ms", "fetch.queue.backoff.ms", "fetch.min.bytes", "check.crcs"),
    *_rows("C", _whole, "max.poll.interval.ms"),
    *_rows("C", _choice("read_uncommitted", "read_committed"), "isolation.level"),
    # Writing
    *_rows("P", _choice("all", "0", "1", **{"-1": "all"}), "acks", alias="request.required.acks"),
    *_rows("P", _flag, "enable.idempotence"),
    *_rows("P", _whole, "retries", alias="message.send.max.retries"),
    # At least 1 ms: librdkafka's 0 means no limit, and a task would never fail.
    *_rows("P", _between(1, 2**31 - 1), "delivery.timeout.ms", alias="message.timeout.ms"),
    *_rows("P", _decimal, "linger.ms", alias="queue.buffering.max.ms"),
    ClientProperty("buffer.memory", "P", _kibibytes, "queue.buffering.max.kbytes"),
    *_rows("P", _whole, "queue.buffering.max.kbytes", "queue.buffering.max.messages"),
    *_rows("P", _any, "queue.buffering.backpressure.threshold", "enable.gapless.guarantee", "batch.size"),
    *_rows("P", _any, "sticky.partitioning.linger.ms", "batch.num.messages", "compression.level"),
    *_rows("P", _any, "compression.type", alias="compression.codec"),
    ClientProperty("max.request.size", "P", _whole, "message.max.bytes"),
    # librdkafka has one range for all codecs: it would use 9 for gzip's 12, and its default for zstd's -1.
    *(
        ClientProperty(
            f"compression.{codec}.level", "P", level, "compression.level", ("compression.type", codec), _ADVISE_CODEC
        )
        for codec, level in {"gzip": _between(-1, 9), "lz4": _between(1, 12), "zstd": _between(1, 12)}.items()
    ),
    # TLS
    *_rows("CP", _choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), "security.protocol"),
    *_rows("CP", _choice("https", "none", **{"": "none"}), "ssl.endpoint.identification.algorithm"),
    ClientProperty("ssl.truststore.type", "CP", _choice("PEM"), "", (), _ADVISE_PEM_TRUST),
    ClientProperty("ssl.truststore.location", "CP", _text, "ssl.ca.location", _PEM_TRUST, _ADVISE_PEM_TRUST),
    ClientProperty("ssl.truststore.certificates", "CP", _secret, "ssl.ca.pem", _PEM_TRUST, _ADVISE_PEM_TRUST),
    ClientProperty("ssl.keystore.type", "CP", _choice("PEM", "PKCS12"), "", (), _ADVISE_STORE),
    ClientProperty(
        "ssl.keystore.location", "CP", _text, "ssl.certificate.location ssl.key.location", _PEM_STORE, _ADVISE_STORE
    ),
    ClientProperty("ssl.keystore.location", "CP", _pkcs12, "=", _PKCS12_STORE, _ADVISE_STORE),
    ClientProperty("ssl.keystore.password", "CP", _secret, "=", _PKCS12_STORE, "a PEM key's password is ssl.key.password"),
    ClientProperty("ssl.keystore.key", "CP", _secret, "ssl.key.pem", _PEM_STORE, _ADVISE_PEM_TEXT),
    ClientProperty("ssl.keystore.certificate.chain", "CP", _secret, "ssl.certificate.pem", _PEM_STORE, _ADVISE_PEM_TEXT),
    # SASL
    *_rows("CP", _mechanism, "sasl.mechanism", alias="sasl.mechanisms"),
    ClientProperty(
        "sasl.jaas.config", "CP", jaas_credentials, "sasl.username sasl.password", _PASSWORD_LOGIN, _ADVISE_LOGIN
    ),
    *_rows("CP", _kinit_command, "sasl.kerberos.kinit.cmd"),
    *_rows("CP", _flag, "enable.sasl.oauthbearer.unsecure.jwt"),
    *_rows("CP", _choice("default", "oidc"), "sasl.oauthbearer.method"),
    *_rows("CP", _token_provider, PROVIDER),
    *_rows("CP", _secret, CONFIG),
    ClientProperty("sasl.oauthbearer.client.credentials.client.id", "CP", _text, "sasl.oauthbearer.client.id"),
    ClientProperty("sasl.oauthbearer.client.credentials.client.secret", "CP", _secret, "sasl.oauthbearer.client.secret"),
    ClientProperty("sasl.oauthbearer.token.endpoint.url", "CP", _text, "=", _OIDC, _ADVISE_OIDC),
)

_REMOVE = "remove it"
_REFUSALS = (
    # Spark's own, by other names
    ("use startingOffsets, or the option auto.offset.reset without the prefix kafka.", "auto.offset.reset"),
    (
        f"offsets are committed when Spark plans the next micro-batch, or by commitOffsets; {_REMOVE}",
        "enable.auto.commit auto.commit.enable auto.commit.interval.ms",
    ),
    ("keys and values are read as bytes; cast them with DataFrame operations", "key.deserializer value.deserializer"),
    ("keys and values are written as bytes; cast them with DataFrame operations", "key.serializer value.serializer"),
    ("an interceptor could change or drop records unknown to Spark; use DataFrame operations", "interceptor.classes"),
    (
        "plugins load native code, and could change records unknown to Spark; use DataFrame operations",
        "plugin.library.paths",
    ),
    # The group
    (
        "use the option group.id without the prefix kafka.; in a read, kafka.group.id only names the tasks' consumers",
        "group.id",
    ),
    *(
        (f"use the option {name} without the prefix kafka.", name)
        for name in ("group.instance.id", "group.protocol", "partition.assignment.strategy")
    ),
    (
        "in a group, use the option session.timeout.ms without the prefix kafka. (in ZooKeeper, "
        f"zookeeper.session.timeout.ms); without a group, {_REMOVE}",
        "session.timeout.ms",
    ),
    (
        f"set by the data source for members of a group that Kafka coordinates; {_REMOVE}",
        "group.protocol.type group.remote.assignor heartbeat.interval.ms coordinator.query.interval.ms",
    ),
    (f"belongs to share groups, which are not used; {_REMOVE}", "share.acknowledgement.mode"),
    # Reading
    (
        f"Java-only: the time limit of blocking calls; in a read, use kafkaConsumer.pollTimeoutMs; elsewhere, {_REMOVE}",
        "default.api.timeout.ms",
    ),
    (f"Java-only: rows are read in Arrow batches, not in polls; {_REMOVE}", "max.poll.records"),
    ("Java-only: use a subscribePattern that matches only the intended topics", "exclude.internal.topics"),
    (
        "it would hide topics that Spark plans to read; use a subscribePattern that does not match them",
        "topic.blacklist",
    ),
    (
        f"set by the data source, which depends on its value; {_REMOVE}",
        "enable.partition.eof enable.auto.offset.store delivery.report.only.error enabled_events log.queue",
    ),
    (
        f"belongs to librdkafka's legacy consumer, which is not used; {_REMOVE}",
        "offset.store.method offset.store.path offset.store.sync.interval.ms consume.callback.max.messages",
    ),
    # Writing
    (
        "each task of a write has its own id; use deliveryGuarantee=exactly-once and transactionalIdPrefix",
        "transactional.id",
    ),
    ("use the option partitioner without the prefix kafka.", "partitioner"),
    ("Java-only: a Java class; use the option partitioner", "partitioner.class"),
    ("Java-only: use the option partitioner=roundrobin", "partitioner.ignore.keys"),
    (
        f"Java-only: rows without a key are distributed evenly to partitions with a leader; {_REMOVE}",
        "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms",
    ),
    (
        f"Java-only: the time limit of send(); in a write, use delivery.timeout.ms, which includes that wait; elsewhere, "
        f"{_REMOVE}",
        "max.block.ms",
    ),
    (f"lifo would write rows out of order, and is deprecated; {_REMOVE}", "queuing.strategy"),
    # TLS, SASL and librdkafka's process
    (f"PEM files of certificates have no password; {_REMOVE}, and see ssl.truststore.type", "ssl.truststore.password"),
    (
        "OpenSSL engines load native code into every worker, and are deprecated; use ssl.providers",
        "ssl.engine.location ssl.engine.id",
    ),
    ("it names certificate stores of Windows; use ssl.ca.location", "ssl.ca.certificate.stores"),
    (f"signals belong to Spark's workers; {_REMOVE}", "internal.termination.signal"),
    (
        f"without effect; {_REMOVE}",
        """
        builtin.features produce.offset.report topic.metadata.refresh.fast.cnt socket.blocking.max.ms
        reconnect.backoff.jitter.ms
        """,
    ),
    (
        f"a callback or an object of librdkafka's C interface, which cannot be set as text; {_REMOVE}",
        """
        interceptors error_cb throttle_cb stats_cb log_cb background_event_cb socket_cb connect_cb closesocket_cb
        open_cb resolve_cb opaque default_topic_conf consume_cb rebalance_cb offset_commit_cb dr_cb dr_msg_cb
        partitioner_cb msg_order_cmp ssl.certificate.verify_cb oauthbearer_token_refresh_cb ssl_engine_callback_data
        ssl_key ssl_certificate ssl_ca
        """,
    ),
    (
        f"Java-only: a Java class; {_REMOVE}, and see sasl.oauthbearer.* and sasl.kerberos.*",
        "sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class",
    ),
    (
        f"Java-only: librdkafka has no such property; {_REMOVE}",
        """
        auto.include.jmx.reporter metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        metadata.max.idle.ms socket.connection.setup.timeout.max.ms
        internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported
        ssl.protocol ssl.enabled.protocols ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm
        ssl.secure.random.implementation ssl.engine.factory.class security.providers
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.oauthbearer.header.urlencode
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name
        """,
    ),
)
REFUSED: dict[str, str] = {name: reason for reason, names in _REFUSALS for name in names.split()}
"""The reason to refuse each property that would have no effect, or would change what is read or written."""
