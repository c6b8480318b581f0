"""Properties of Kafka's Java clients and of librdkafka that are refused, with the reasons.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16; the properties that
``KafkaSourceProvider`` of Spark 4.2 forbids.
"""

from __future__ import annotations

__all__ = ["REFUSED"]

_REMOVE = "remove it"
_CALLBACK = f"a callback of librdkafka's C interface, which text cannot give; {_REMOVE}"
_METRICS = f"Java-only: metrics of the JVM client; {_REMOVE}, and see statistics.interval.ms"
_LOGIN = (
    f"Java-only: a class or a timing of Java's login threads; {_REMOVE}, and see sasl.kerberos.* and sasl.oauthbearer.*"
)
_BROKER_SIDE = f"Java-only: it is a broker that checks tokens by it; {_REMOVE}"
_JVM_TLS = f"Java-only: it chooses among the JVM's own TLS parts; {_REMOVE}: librdkafka takes the best that OpenSSL has"
_NO_GROUP = f"it rules members of a group that brokers coordinate, and reads assign their partitions themselves; {_REMOVE}"
_COMMITS = f"offsets are committed when Spark says that a batch is done, or by commitOffsets; {_REMOVE}"
_LEGACY = f"it belongs to librdkafka's legacy consumer, which is not used; {_REMOVE}"
_GONE = f"librdkafka no longer looks at it; {_REMOVE}"
_TRANSACTIONS = (
    "writes are idempotent, not transactional: Spark's Python sinks cannot join a transaction over tasks; " + _REMOVE
)
_SHARE = f"it belongs to share groups, which are not used; {_REMOVE}"
_OURS = f"reading and writing stand on its value, which the connector sets; {_REMOVE}"
_ENGINE = "OpenSSL engines load machine code into every worker, and are deprecated; use ssl.providers"


def _all(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


REFUSED: dict[str, str] = {
    # Spark's own, by other names
    "auto.offset.reset": "use startingOffsets, or the option auto.offset.reset without the prefix kafka.",
    "enable.auto.commit": _COMMITS,
    "auto.commit.enable": _COMMITS,
    "auto.commit.interval.ms": _COMMITS,
    "key.deserializer": "keys are read as bytes; cast them with DataFrame operations",
    "value.deserializer": "values are read as bytes; cast them with DataFrame operations",
    "key.serializer": "keys are written as bytes; cast them to binary or string with DataFrame operations",
    "value.serializer": "values are written as bytes; cast them to binary or string with DataFrame operations",
    "interceptor.classes": "an interceptor may change or drop records behind Spark's back; use DataFrame operations",
    **_all(
        _CALLBACK,
        """
        interceptors error_cb throttle_cb stats_cb log_cb background_event_cb socket_cb connect_cb closesocket_cb
        open_cb resolve_cb opaque default_topic_conf consume_cb rebalance_cb offset_commit_cb dr_cb dr_msg_cb
        partitioner_cb msg_order_cmp ssl.certificate.verify_cb oauthbearer_token_refresh_cb ssl_engine_callback_data
        """,
    ),
    # The group
    "group.id": "use the option group.id without the prefix kafka.",
    **_all(
        _NO_GROUP,
        """
        group.instance.id group.protocol group.protocol.type group.remote.assignor heartbeat.interval.ms
        coordinator.query.interval.ms
        """,
    ),
    "session.timeout.ms": f"{_NO_GROUP}; for a group in ZooKeeper, see zookeeper.session.timeout.ms",
    "partition.assignment.strategy": f"{_NO_GROUP}; for a group in ZooKeeper, give it without the prefix kafka.",
    # Reading
    "default.api.timeout.ms": "Java-only: how long Java's calls may block; use kafkaConsumer.pollTimeoutMs",
    "max.poll.records": f"Java-only: rows come in Arrow batches, not in polls; {_REMOVE}",
    "exclude.internal.topics": "Java-only: write a subscribePattern that says which topics are meant",
    "topic.blacklist": "a topic that Spark plans to read would not be found; write a subscribePattern that leaves it out",
    **_all(
        _OURS,
        """
        enable.partition.eof enable.auto.offset.store delivery.report.only.error enabled_events log.queue
        """,
    ),
    "offset.store.method": _LEGACY,
    "offset.store.path": _LEGACY,
    "offset.store.sync.interval.ms": _LEGACY,
    "consume.callback.max.messages": _LEGACY,
    "share.acknowledgement.mode": _SHARE,
    "internal.leave.group.on.close": f"Java-only: an internal property of Kafka Streams; {_REMOVE}",
    "internal.throw.on.fetch.stable.offset.unsupported": f"Java-only: an internal property of Kafka Streams; {_REMOVE}",
    # Writing
    "transactional.id": _TRANSACTIONS,
    "transaction.timeout.ms": _TRANSACTIONS,
    "partitioner": "use the option partitioner without the prefix kafka.",
    "partitioner.class": "Java-only: a Java class; use the option partitioner",
    "partitioner.ignore.keys": "Java-only: use the option partitioner=roundrobin",
    "partitioner.adaptive.partitioning.enable": f"Java-only: rows without key take even turns; {_REMOVE}",
    "partitioner.availability.timeout.ms": f"Java-only: rows without key go to partitions that have a leader; {_REMOVE}",
    "max.block.ms": "Java-only: how long Java's send() may block; use delivery.timeout.ms, which includes that wait",
    "metadata.max.idle.ms": f"Java-only: how long Java remembers an unused topic; {_REMOVE}",
    "queuing.strategy": f"lifo would write rows out of order, and is deprecated; {_REMOVE}",
    "produce.offset.report": _GONE,
    # librdkafka's inside
    "builtin.features": f"it says what librdkafka can do and cannot be set; {_REMOVE}",
    "plugin.library.paths": "a plugin loads machine code into every worker and may change records behind Spark's back; "
    "use DataFrame operations",
    "internal.termination.signal": f"signals belong to Spark's workers; {_REMOVE}",
    "topic.metadata.refresh.fast.cnt": _GONE,
    "socket.blocking.max.ms": _GONE,
    "reconnect.backoff.jitter.ms": _GONE,
    "ssl_key": "use ssl.key.pem or ssl.key.location",
    "ssl_certificate": "use ssl.certificate.pem or ssl.certificate.location",
    "ssl_ca": "use ssl.ca.pem or ssl.ca.location",
    # TLS and SASL
    "ssl.truststore.password": f"PEM files of certificates have no password; {_REMOVE}, and see ssl.truststore.type",
    **_all(
        _JVM_TLS,
        """
        ssl.protocol ssl.enabled.protocols ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm
        ssl.secure.random.implementation ssl.engine.factory.class security.providers
        """,
    ),
    "ssl.engine.location": _ENGINE,
    "ssl.engine.id": _ENGINE,
    "ssl.ca.certificate.stores": "it names certificate stores of Windows; use ssl.ca.location",
    **_all(
        _LOGIN,
        """
        sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.oauthbearer.header.urlencode
        """,
    ),
    **_all(
        _BROKER_SIDE,
        """
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name
        """,
    ),
    # Metrics
    **_all(
        _METRICS,
        """
        auto.include.jmx.reporter metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        """,
    ),
    # Connections
    "socket.connection.setup.timeout.max.ms": f"Java-only: librdkafka's set-up time-out does not grow; {_REMOVE}, and see "
    "socket.connection.setup.timeout.ms",
}
