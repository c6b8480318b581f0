"""Properties of Kafka's Java clients and of librdkafka that are refused, with the reasons.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16; the properties that
``KafkaSourceProvider`` of Spark 4.2 forbids.
"""

from __future__ import annotations

__all__ = ["REFUSED"]

_REMOVE = "remove it"
_METRICS = f"Java-only: metrics of the JVM client; {_REMOVE}, and see statistics.interval.ms"
_MEMBERSHIP = f"set by the data source for members of a group that Kafka coordinates; {_REMOVE}"
_COMMITS = f"offsets are committed when Spark commits a micro-batch, or by commitOffsets; {_REMOVE}"
_LEGACY = f"belongs to librdkafka's legacy consumer, which is not used; {_REMOVE}"
_GONE = f"obsolete, without effect; {_REMOVE}"
_RESERVED = f"set by the data source, which depends on its value; {_REMOVE}"
_ENGINE = "OpenSSL engines load native code into every worker, and are deprecated; use ssl.providers"
_STREAMS = f"Java-only: an internal property of Kafka Streams; {_REMOVE}"


def _all(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


REFUSED: dict[str, str] = {
    # Spark's own, by other names
    "auto.offset.reset": "use startingOffsets, or the option auto.offset.reset without the prefix kafka.",
    **_all(_COMMITS, "enable.auto.commit auto.commit.enable auto.commit.interval.ms"),
    **_all("keys and values are read as bytes; cast them with DataFrame operations", "key.deserializer value.deserializer"),
    **_all("keys and values are written as bytes; cast them with DataFrame operations", "key.serializer value.serializer"),
    "interceptor.classes": "an interceptor could change or drop records unknown to Spark; use DataFrame operations",
    **_all(
        f"a callback of librdkafka's C interface, which cannot be set as text; {_REMOVE}",
        """
        interceptors error_cb throttle_cb stats_cb log_cb background_event_cb socket_cb connect_cb closesocket_cb
        open_cb resolve_cb opaque default_topic_conf consume_cb rebalance_cb offset_commit_cb dr_cb dr_msg_cb
        partitioner_cb msg_order_cmp ssl.certificate.verify_cb oauthbearer_token_refresh_cb ssl_engine_callback_data
        """,
    ),
    # The group
    "group.id": "use the option group.id without the prefix kafka.",
    "group.instance.id": "use the option group.instance.id without the prefix kafka.",
    "group.protocol": "use the option group.protocol without the prefix kafka.",
    "session.timeout.ms": "use the option session.timeout.ms without the prefix kafka.; in ZooKeeper, "
    "zookeeper.session.timeout.ms",
    "partition.assignment.strategy": "use the option partition.assignment.strategy without the prefix kafka.",
    **_all(_MEMBERSHIP, "group.protocol.type group.remote.assignor heartbeat.interval.ms coordinator.query.interval.ms"),
    # Reading
    "default.api.timeout.ms": "Java-only: the limit of blocking calls; use kafkaConsumer.pollTimeoutMs",
    "max.poll.records": f"Java-only: rows are read in Arrow batches, not in polls; {_REMOVE}",
    "exclude.internal.topics": "Java-only: use a subscribePattern that matches only the intended topics",
    "topic.blacklist": "it would hide topics that Spark plans to read; use a subscribePattern that does not match them",
    **_all(_RESERVED, "enable.partition.eof enable.auto.offset.store delivery.report.only.error enabled_events log.queue"),
    **_all(_LEGACY, "offset.store.method offset.store.path offset.store.sync.interval.ms consume.callback.max.messages"),
    "share.acknowledgement.mode": f"belongs to share groups, which are not used; {_REMOVE}",
    **_all(_STREAMS, "internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported"),
    # Writing
    "transactional.id": "each task of a write has its own; use deliveryGuarantee=exactly-once, and transactionalIdPrefix",
    "partitioner": "use the option partitioner without the prefix kafka.",
    "partitioner.class": "Java-only: a Java class; use the option partitioner",
    "partitioner.ignore.keys": "Java-only: use the option partitioner=roundrobin",
    "partitioner.adaptive.partitioning.enable": f"Java-only: rows without a key are distributed evenly; {_REMOVE}",
    "partitioner.availability.timeout.ms": f"Java-only: rows without a key go to partitions with a leader; {_REMOVE}",
    "max.block.ms": "Java-only: the limit of a blocking send(); use delivery.timeout.ms, which includes that wait",
    "metadata.max.idle.ms": f"Java-only: the lifetime of the metadata of an unused topic; {_REMOVE}",
    "queuing.strategy": f"lifo would write rows out of order, and is deprecated; {_REMOVE}",
    # librdkafka's internals
    "builtin.features": f"read-only: lists the features of librdkafka; {_REMOVE}",
    "plugin.library.paths": "plugins load native code, and could change records unknown to Spark; use DataFrame operations",
    "internal.termination.signal": f"signals belong to Spark's workers; {_REMOVE}",
    **_all(
        _GONE, "produce.offset.report topic.metadata.refresh.fast.cnt socket.blocking.max.ms reconnect.backoff.jitter.ms"
    ),
    "ssl_key": "use ssl.key.pem or ssl.key.location",
    "ssl_certificate": "use ssl.certificate.pem or ssl.certificate.location",
    "ssl_ca": "use ssl.ca.pem or ssl.ca.location",
    # TLS and SASL
    "ssl.truststore.password": f"PEM files of certificates have no password; {_REMOVE}, and see ssl.truststore.type",
    **_all(
        f"Java-only: selects among the JVM's TLS implementations; {_REMOVE}: librdkafka negotiates the best of OpenSSL's",
        """
        ssl.protocol ssl.enabled.protocols ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm
        ssl.secure.random.implementation ssl.engine.factory.class security.providers
        """,
    ),
    **_all(_ENGINE, "ssl.engine.location ssl.engine.id"),
    "ssl.ca.certificate.stores": "it names certificate stores of Windows; use ssl.ca.location",
    **_all(
        f"Java-only: configures Java's login threads; {_REMOVE}, and see sasl.kerberos.* and sasl.oauthbearer.*",
        """
        sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.oauthbearer.header.urlencode
        """,
    ),
    **_all(
        f"Java-only: configures how a broker validates tokens; {_REMOVE}",
        """
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name
        """,
    ),
    # Metrics
    **_all(_METRICS, "auto.include.jmx.reporter metric.reporters"),
    **_all(_METRICS, "metrics.num.samples metrics.recording.level metrics.sample.window.ms"),
    # Connections
    "socket.connection.setup.timeout.max.ms": f"Java-only: librdkafka's set-up time-out does not grow; {_REMOVE}, and see "
    "socket.connection.setup.timeout.ms",
}
