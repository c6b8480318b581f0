"""Every property of Kafka's Java clients and of librdkafka, one row each: what it becomes, or why it is refused.

Of rows with the same name and client, the first one whose `when` holds counts.

All targets are known to librdkafka 2.16. Of them, 2.13 lacks `sasl.oauthbearer.sub.claim.name`: it refuses that itself, by
name. What no row is about, the installed librdkafka is asked for.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_zkafka.options.client_property_values import (
    INT_MAX,
    Reader,
    choice,
    ciphers,
    flag,
    flags,
    kibibytes,
    kinit_command,
    number,
    secret,
    text,
    version,
    whole,
)
from pyspark_zkafka.options.jaas import credentials

__all__ = ["ACCEPTED", "Accepted"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A property that reaches librdkafka.

    `name` is the user's, without ``kafka.``; `clients` has C for consumers and P for producers; `read` turns the value
    into librdkafka's; `targets` are librdkafka's names, blank between them: ``=`` stands for the same name, nothing for a
    property that only says how others are meant. `when` names another property and the values, one of which it must have
    (None: not given); `otherwise` says what to do where it has not.
    """

    name: str
    clients: str
    read: Reader
    targets: str = "="
    when: tuple[str | None, ...] = ()
    otherwise: str = ""

    def target_names(self) -> list[str]:
        """librdkafka's names of the property; none where it only says how others are meant."""
        return self.targets.replace("=", self.name).split()


_SIZE = whole(0, 100_000_000, java={-1: 0})
_CODEC = choice("none", "gzip", "snappy", "lz4", "zstd")
_MECHANISM = choice("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_ACKS = choice("all", "0", "1", **{"-1": "all"})
_DEBUG = flags(
    "generic, broker, topic, metadata, feature, queue, msg, protocol, cgrp, security, fetch, interceptor, plugin, "
    "consumer, admin, eos, mock, assignor, conf, telemetry, all"
)

_PASSWORD_LOGIN = ("sasl.mechanism", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OIDC = ("sasl.oauthbearer.method", "oidc")
_PEM_TRUST = ("ssl.truststore.type", "PEM")
_PEM_STORE = ("ssl.keystore.type", "PEM")
_PKCS12_STORE = ("ssl.keystore.type", "PKCS12", None)
_SAY_PEM_TRUST = "librdkafka reads PEM alone: export the certificates to a PEM file, or set ssl.ca.location"
_SAY_PEM_STORE = "keys and certificates as text are PEM"
_SAY_STORE = "librdkafka reads PEM and PKCS12, not JKS: convert it with keytool -importkeystore -deststoretype PKCS12"

ACCEPTED: tuple[Accepted, ...] = (
    # Connections
    Accepted("bootstrap.servers", "CP", text),
    Accepted("metadata.broker.list", "CP", text, "bootstrap.servers"),
    Accepted("client.id", "CP", text),
    Accepted("client.rack", "CP", text),
    Accepted("client.dns.lookup", "CP", choice("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    Accepted("request.timeout.ms", "C", whole(10, 300_000), "socket.timeout.ms"),
    Accepted("request.timeout.ms", "P", whole(1, 900_000)),
    Accepted("socket.timeout.ms", "CP", whole(10, 300_000)),
    Accepted("socket.connection.setup.timeout.ms", "CP", whole(1000, INT_MAX)),
    Accepted("socket.keepalive.enable", "CP", flag),
    Accepted("socket.nagle.disable", "CP", flag),
    Accepted("socket.max.fails", "CP", whole(0, 1_000_000)),
    Accepted("send.buffer.bytes", "CP", _SIZE, "socket.send.buffer.bytes"),
    Accepted("receive.buffer.bytes", "CP", _SIZE, "socket.receive.buffer.bytes"),
    Accepted("socket.send.buffer.bytes", "CP", whole(0, 100_000_000)),
    Accepted("socket.receive.buffer.bytes", "CP", whole(0, 100_000_000)),
    Accepted("connections.max.idle.ms", "CP", whole(0, INT_MAX, java={-1: 0})),
    Accepted("reconnect.backoff.ms", "CP", whole(0, 3_600_000)),
    Accepted("reconnect.backoff.max.ms", "CP", whole(0, 3_600_000)),
    Accepted("retry.backoff.ms", "CP", whole(1, 300_000)),
    Accepted("retry.backoff.max.ms", "CP", whole(1, 300_000)),
    Accepted("broker.address.ttl", "CP", whole(0, 86_400_000)),
    Accepted("broker.address.family", "CP", choice("any", "v4", "v6")),
    Accepted("broker.version.fallback", "CP", version),
    Accepted("api.version.request", "CP", flag),
    Accepted("api.version.request.timeout.ms", "CP", whole(1, 300_000)),
    Accepted("api.version.fallback.ms", "CP", whole(0, 604_800_000)),
    Accepted("message.max.bytes", "CP", whole(1000, 1_000_000_000)),
    Accepted("message.copy.max.bytes", "CP", whole(0, 1_000_000_000)),
    Accepted("receive.message.max.bytes", "CP", whole(1000, INT_MAX)),
    Accepted("max.in.flight.requests.per.connection", "CP", whole(1, 1_000_000)),
    Accepted("max.in.flight", "CP", whole(1, 1_000_000), "max.in.flight.requests.per.connection"),
    # Metadata. Java's metadata.max.age.ms is how often to refresh; librdkafka's is how long an entry lives, and follows it.
    Accepted("metadata.max.age.ms", "CP", whole(1, 3_600_000), "topic.metadata.refresh.interval.ms"),
    Accepted("topic.metadata.refresh.interval.ms", "CP", whole(-1, 3_600_000)),
    Accepted("topic.metadata.refresh.fast.interval.ms", "CP", whole(1, 60_000)),
    Accepted("topic.metadata.refresh.sparse", "CP", flag),
    Accepted("topic.metadata.propagation.max.ms", "CP", whole(0, 3_600_000)),
    Accepted("metadata.recovery.strategy", "CP", choice("none", "rebootstrap")),
    Accepted("metadata.recovery.rebootstrap.trigger.ms", "CP", whole(0, INT_MAX)),
    Accepted("allow.auto.create.topics", "CP", flag),
    # Reading
    Accepted("fetch.min.bytes", "C", whole(1, 100_000_000)),
    Accepted("fetch.max.bytes", "C", whole(0, INT_MAX - 512)),
    Accepted("max.partition.fetch.bytes", "C", whole(1, 1_000_000_000)),
    Accepted("fetch.message.max.bytes", "C", whole(1, 1_000_000_000), "max.partition.fetch.bytes"),
    Accepted("fetch.max.wait.ms", "C", whole(0, 300_000), "fetch.wait.max.ms"),
    Accepted("fetch.wait.max.ms", "C", whole(0, 300_000)),
    Accepted("fetch.error.backoff.ms", "C", whole(0, 300_000)),
    Accepted("fetch.queue.backoff.ms", "C", whole(0, 300_000)),
    Accepted("queued.min.messages", "C", whole(1, 10_000_000)),
    Accepted("queued.max.messages.kbytes", "C", whole(1, 2_097_151)),
    Accepted("max.poll.interval.ms", "C", whole(45_000, 86_400_000)),  # librdkafka: at least session.timeout.ms
    Accepted("isolation.level", "C", choice("read_uncommitted", "read_committed")),
    Accepted("check.crcs", "C", flag),
    # Writing
    Accepted("acks", "P", _ACKS),
    Accepted("request.required.acks", "P", _ACKS, "acks"),
    Accepted("enable.idempotence", "P", flag),
    Accepted("enable.gapless.guarantee", "P", flag),
    Accepted("retries", "P", whole(0, INT_MAX)),
    Accepted("message.send.max.retries", "P", whole(0, INT_MAX), "retries"),
    # From 1 ms: librdkafka's 0 means for ever, and a task would never fail.
    Accepted("delivery.timeout.ms", "P", whole(1, INT_MAX)),
    Accepted("message.timeout.ms", "P", whole(1, INT_MAX), "delivery.timeout.ms"),
    Accepted("linger.ms", "P", number(0, 900_000)),
    Accepted("queue.buffering.max.ms", "P", number(0, 900_000), "linger.ms"),
    Accepted("sticky.partitioning.linger.ms", "P", whole(0, 900_000)),
    Accepted("batch.size", "P", whole(1, INT_MAX)),
    Accepted("batch.num.messages", "P", whole(1, 1_000_000)),
    Accepted("buffer.memory", "P", kibibytes, "queue.buffering.max.kbytes"),
    Accepted("queue.buffering.max.kbytes", "P", whole(1, INT_MAX)),
    Accepted("queue.buffering.max.messages", "P", whole(0, INT_MAX)),
    Accepted("queue.buffering.backpressure.threshold", "P", whole(1, 1_000_000)),
    Accepted("max.request.size", "P", whole(1000, 1_000_000_000), "message.max.bytes"),
    Accepted("compression.type", "P", _CODEC),
    Accepted("compression.codec", "P", _CODEC, "compression.type"),
    Accepted("compression.level", "P", whole(-1, 12)),
    Accepted("compression.gzip.level", "P", whole(-1, 9), "compression.level", ("compression.type", "gzip")),
    Accepted("compression.lz4.level", "P", whole(1, 12), "compression.level", ("compression.type", "lz4")),
    Accepted("compression.zstd.level", "P", whole(1, 12), "compression.level", ("compression.type", "zstd")),
    # TLS
    Accepted("security.protocol", "CP", choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    Accepted("ssl.endpoint.identification.algorithm", "CP", choice("https", "none", **{"": "none"})),
    Accepted("enable.ssl.certificate.verification", "CP", flag),
    Accepted("ssl.cipher.suites", "CP", ciphers),
    Accepted("ssl.curves.list", "CP", text),
    Accepted("ssl.sigalgs.list", "CP", text),
    Accepted("ssl.ca.location", "CP", text),
    Accepted("ssl.ca.pem", "CP", secret),
    Accepted("ssl.crl.location", "CP", text),
    Accepted("ssl.certificate.location", "CP", text),
    Accepted("ssl.certificate.pem", "CP", secret),
    Accepted("ssl.key.location", "CP", text),
    Accepted("ssl.key.pem", "CP", secret),
    Accepted("ssl.key.password", "CP", secret),
    Accepted("ssl.truststore.type", "CP", choice("PEM"), "", (), _SAY_PEM_TRUST),
    Accepted("ssl.truststore.location", "CP", text, "ssl.ca.location", _PEM_TRUST, _SAY_PEM_TRUST),
    Accepted("ssl.truststore.certificates", "CP", secret, "ssl.ca.pem", _PEM_TRUST, _SAY_PEM_TRUST),
    Accepted("ssl.keystore.type", "CP", choice("PEM", "PKCS12"), "", (), _SAY_STORE),
    Accepted("ssl.keystore.location", "CP", text, "ssl.certificate.location ssl.key.location", _PEM_STORE, _SAY_STORE),
    Accepted("ssl.keystore.location", "CP", text, "=", _PKCS12_STORE, _SAY_STORE),
    Accepted("ssl.keystore.password", "CP", secret, "=", _PKCS12_STORE, "a PEM key's password is ssl.key.password"),
    Accepted("ssl.keystore.key", "CP", secret, "ssl.key.pem", _PEM_STORE, _SAY_PEM_STORE),
    Accepted("ssl.keystore.certificate.chain", "CP", secret, "ssl.certificate.pem", _PEM_STORE, _SAY_PEM_STORE),
    Accepted("ssl.providers", "CP", text),
    Accepted("https.ca.location", "CP", text),
    Accepted("https.ca.pem", "CP", secret),
    # SASL
    Accepted("sasl.mechanism", "CP", _MECHANISM),
    Accepted("sasl.mechanisms", "CP", _MECHANISM, "sasl.mechanism"),
    Accepted("sasl.username", "CP", secret),
    Accepted("sasl.password", "CP", secret),
    Accepted("sasl.jaas.config", "CP", credentials, "=", _PASSWORD_LOGIN, "with no mechanism, Kerberos is meant"),
    Accepted("sasl.kerberos.service.name", "CP", text),
    Accepted("sasl.kerberos.principal", "CP", text),
    Accepted("sasl.kerberos.keytab", "CP", text),
    Accepted("sasl.kerberos.kinit.cmd", "CP", kinit_command),
    Accepted("sasl.kerberos.min.time.before.relogin", "CP", whole(0, 86_400_000)),
    Accepted("enable.sasl.oauthbearer.unsecure.jwt", "CP", flag),
    Accepted("sasl.oauthbearer.config", "CP", secret),
    Accepted("sasl.oauthbearer.method", "CP", choice("default", "oidc")),
    Accepted("sasl.oauthbearer.client.id", "CP", text),
    Accepted("sasl.oauthbearer.client.credentials.client.id", "CP", text, "sasl.oauthbearer.client.id"),
    Accepted("sasl.oauthbearer.client.secret", "CP", secret),
    Accepted("sasl.oauthbearer.client.credentials.client.secret", "CP", secret, "sasl.oauthbearer.client.secret"),
    Accepted(
        "sasl.oauthbearer.token.endpoint.url", "CP", text, "=", _OIDC, "librdkafka asks the endpoint for this method alone"
    ),
    Accepted("sasl.oauthbearer.scope", "CP", text),
    Accepted("sasl.oauthbearer.extensions", "CP", text),
    Accepted("sasl.oauthbearer.sub.claim.name", "CP", text),
    Accepted(
        "sasl.oauthbearer.grant.type", "CP", choice("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")
    ),
    Accepted("sasl.oauthbearer.metadata.authentication.type", "CP", choice("none", "azure_imds")),
    Accepted("sasl.oauthbearer.assertion.algorithm", "CP", choice("RS256", "ES256")),
    Accepted("sasl.oauthbearer.assertion.private.key.file", "CP", text),
    Accepted("sasl.oauthbearer.assertion.private.key.passphrase", "CP", secret),
    Accepted("sasl.oauthbearer.assertion.private.key.pem", "CP", secret),
    Accepted("sasl.oauthbearer.assertion.file", "CP", text),
    Accepted("sasl.oauthbearer.assertion.claim.aud", "CP", text),
    Accepted("sasl.oauthbearer.assertion.claim.exp.seconds", "CP", whole(1, INT_MAX)),
    Accepted("sasl.oauthbearer.assertion.claim.iss", "CP", text),
    Accepted("sasl.oauthbearer.assertion.claim.jti.include", "CP", flag),
    Accepted("sasl.oauthbearer.assertion.claim.nbf.seconds", "CP", whole(0, INT_MAX)),
    Accepted("sasl.oauthbearer.assertion.claim.sub", "CP", text),
    Accepted("sasl.oauthbearer.assertion.jwt.template.file", "CP", text),
    # Watching
    Accepted("debug", "CP", _DEBUG),
    Accepted("log_level", "CP", whole(0, 7)),
    Accepted("log.thread.name", "CP", flag),
    Accepted("log.connection.close", "CP", flag),
    Accepted("statistics.interval.ms", "CP", whole(0, 86_400_000)),
    Accepted("enable.metrics.push", "CP", flag),
    Accepted("enable.random.seed", "CP", flag),
)
