"""Every property of Kafka's Java clients and of librdkafka that is not passed on, one row each, with the reason.

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
    "interceptors": _CALLBACK,
    # The group
    "group.id": "use the option group.id without the prefix kafka.",
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.protocol.type": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "session.timeout.ms": f"{_NO_GROUP}; for a group in ZooKeeper, see zookeeper.session.timeout.ms",
    "heartbeat.interval.ms": _NO_GROUP,
    "coordinator.query.interval.ms": _NO_GROUP,
    "partition.assignment.strategy": f"{_NO_GROUP}; for a group in ZooKeeper, give it without the prefix kafka.",
    # Reading
    "default.api.timeout.ms": "Java-only: how long Java's calls may block; use kafkaConsumer.pollTimeoutMs",
    "max.poll.records": f"Java-only: rows come in Arrow batches, not in polls; {_REMOVE}",
    "exclude.internal.topics": "Java-only: write a subscribePattern that says which topics are meant",
    "topic.blacklist": "a topic that Spark plans to read would not be found; write a subscribePattern that leaves it out",
    "enable.partition.eof": _OURS,
    "enable.auto.offset.store": _OURS,
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
    "delivery.report.only.error": _OURS,
    "queuing.strategy": f"lifo would write rows out of order, and is deprecated; {_REMOVE}",
    "produce.offset.report": _GONE,
    # librdkafka's inside
    "builtin.features": f"it says what librdkafka can do and cannot be set; {_REMOVE}",
    "plugin.library.paths": "a plugin loads machine code into every worker and may change records behind Spark's back; "
    "use DataFrame operations",
    "enabled_events": _OURS,
    "log.queue": _OURS,
    "internal.termination.signal": f"signals belong to Spark's workers; {_REMOVE}",
    "topic.metadata.refresh.fast.cnt": _GONE,
    "socket.blocking.max.ms": _GONE,
    "reconnect.backoff.jitter.ms": _GONE,
    "error_cb": _CALLBACK,
    "throttle_cb": _CALLBACK,
    "stats_cb": _CALLBACK,
    "log_cb": _CALLBACK,
    "background_event_cb": _CALLBACK,
    "socket_cb": _CALLBACK,
    "connect_cb": _CALLBACK,
    "closesocket_cb": _CALLBACK,
    "open_cb": _CALLBACK,
    "resolve_cb": _CALLBACK,
    "opaque": _CALLBACK,
    "default_topic_conf": _CALLBACK,
    "consume_cb": _CALLBACK,
    "rebalance_cb": _CALLBACK,
    "offset_commit_cb": _CALLBACK,
    "dr_cb": _CALLBACK,
    "dr_msg_cb": _CALLBACK,
    "partitioner_cb": _CALLBACK,
    "msg_order_cmp": _CALLBACK,
    "ssl.certificate.verify_cb": _CALLBACK,
    "oauthbearer_token_refresh_cb": _CALLBACK,
    "ssl_engine_callback_data": _CALLBACK,
    "ssl_key": "use ssl.key.pem or ssl.key.location",
    "ssl_certificate": "use ssl.certificate.pem or ssl.certificate.location",
    "ssl_ca": "use ssl.ca.pem or ssl.ca.location",
    # TLS and SASL
    "ssl.truststore.password": f"PEM files of certificates have no password; {_REMOVE}, and see ssl.truststore.type",
    "ssl.protocol": _JVM_TLS,
    "ssl.enabled.protocols": _JVM_TLS,
    "ssl.provider": _JVM_TLS,
    "ssl.keymanager.algorithm": _JVM_TLS,
    "ssl.trustmanager.algorithm": _JVM_TLS,
    "ssl.secure.random.implementation": _JVM_TLS,
    "ssl.engine.factory.class": _JVM_TLS,
    "security.providers": _JVM_TLS,
    "ssl.engine.location": _ENGINE,
    "ssl.engine.id": _ENGINE,
    "ssl.ca.certificate.stores": "it names certificate stores of Windows; use ssl.ca.location",
    "sasl.client.callback.handler.class": _LOGIN,
    "sasl.login.callback.handler.class": _LOGIN,
    "sasl.login.class": _LOGIN,
    "sasl.login.connect.timeout.ms": _LOGIN,
    "sasl.login.read.timeout.ms": _LOGIN,
    "sasl.login.refresh.buffer.seconds": _LOGIN,
    "sasl.login.refresh.min.period.seconds": _LOGIN,
    "sasl.login.refresh.window.factor": _LOGIN,
    "sasl.login.refresh.window.jitter": _LOGIN,
    "sasl.login.retry.backoff.max.ms": _LOGIN,
    "sasl.login.retry.backoff.ms": _LOGIN,
    "sasl.kerberos.ticket.renew.jitter": _LOGIN,
    "sasl.kerberos.ticket.renew.window.factor": _LOGIN,
    "sasl.oauthbearer.header.urlencode": _LOGIN,
    "sasl.oauthbearer.clock.skew.seconds": _BROKER_SIDE,
    "sasl.oauthbearer.expected.audience": _BROKER_SIDE,
    "sasl.oauthbearer.expected.issuer": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKER_SIDE,
    "sasl.oauthbearer.jwks.endpoint.url": _BROKER_SIDE,
    "sasl.oauthbearer.scope.claim.name": _BROKER_SIDE,
    # Metrics
    "auto.include.jmx.reporter": _METRICS,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    # Connections
    "socket.connection.setup.timeout.max.ms": f"Java-only: librdkafka's set-up time-out does not grow; {_REMOVE}, and see "
    "socket.connection.setup.timeout.ms",
}
