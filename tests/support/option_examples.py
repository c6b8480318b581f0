"""A value for every option, and the options that it needs."""

from __future__ import annotations

from pyspark_zkafka.options.option import Option, Scope
from pyspark_zkafka.options.table import BY_NAME, SUBSCRIPTIONS

__all__ = ["EXAMPLES", "completed", "example"]

EXAMPLES: dict[str, str] = {
    "transport": "librdkafka",
    "zookeeper.connect": "zk1,zk2:2182/kafka",
    "zookeeper.session.timeout.ms": "9000",
    "zookeeper.connection.timeout.ms": "4000",
    "zookeeper.auth": "digest:user:secret",
    "zookeeper.acl": "readable",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.truststore.location": "/etc/ca.pem",
    "zookeeper.ssl.endpoint.identification.algorithm": "https",
    "zookeeper.ssl.keystore.location": "/etc/me.pem",
    "zookeeper.ssl.keystore.password": "secret",
    "kafka.bootstrap.servers": "k1:9092",
    "kafka.*": "",
    "listener.name": "INSIDE",
    "subscribe": "t",
    "subscribePattern": "t.*",
    "subscribeExceptPattern": "t.*",
    "assign": '{"t": [0]}',
    "missingTopics": "wait",
    "view": "partitions",
    "startingOffsets": '{"t": {"0": 5}}',
    "endingOffsets": '{"t": "latest"}',
    "startingTimestamp": "1700000000000",
    "endingTimestamp": "1700000000001",
    "startingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "endingOffsetsByTimestamp": '{"t": {"0": 5}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "auto.offset.reset": "earliest",
    "failOnDataLoss": "false",
    "minPartitions": "9",
    "maxRecordsPerPartition": "1000",
    "minRecordsPerPartition": "10",
    "includeHeaders": "true",
    "kafkaConsumer.pollTimeoutMs": "30000",
    "fetchOffset.numRetries": "5",
    "fetchOffset.retryIntervalMs": "10",
    "offlinePartitions": "skip",
    "groupIdPrefix": "mine",
    **{
        f"{column}.{option}": example
        for column in ("key", "value")
        for option, example in (
            ("format", "string"),
            ("schema", '{"type": "string"}'),
            ("schema.message", "shop.Order"),
            ("schema.version", "3"),
            ("subject", "orders"),
            ("subject.name.strategy", "TopicNameStrategy"),
        )
    },
    "mode": "permissive",
    "schema.registry.url": "http://registry:8081",
    "schema.registry.basic.auth.credentials.source": "USER_INFO",
    "schema.registry.basic.auth.user.info": "alice:secret",
    "schema.registry.bearer.auth.credentials.source": "STATIC_TOKEN",
    "schema.registry.bearer.auth.token": "secret",
    "schema.registry.bearer.auth.issuer.endpoint.url": "http://tokens",
    "schema.registry.bearer.auth.client.id": "me",
    "schema.registry.bearer.auth.client.secret": "secret",
    "schema.registry.bearer.auth.scope": "schemas",
    "schema.registry.bearer.auth.logical.cluster": "lsrc-1",
    "schema.registry.bearer.auth.identity.pool.id": "pool-1",
    "schema.registry.ssl.ca.location": "/etc/ca.pem",
    "schema.registry.ssl.certificate.location": "/etc/me.pem",
    "schema.registry.ssl.key.location": "/etc/me.key",
    "schema.registry.ssl.key.password": "secret",
    "schema.registry.proxy": "http://proxy",
    "auto.register.schemas": "true",
    "use.latest.version": "true",
    "normalize.schemas": "true",
    "group.id": "billing",
    "groupMembership": "none",
    "group.protocol": "consumer",
    "group.instance.id": "one",
    "session.timeout.ms": "6000",
    "consumer.id": "c1",
    "consumer.threads": "2",
    "partition.assignment.strategy": "roundrobin",
    "offsets.storage": "kafka",
    "dual.commit.enabled": "false",
    "rebalance.max.retries": "10",
    "rebalance.backoff.ms": "500",
    "rebalance.hold.ms": "0",
    "topic": "t",
    "partitioner": "crc32",
    "commitOffsets": '{"t": {"0": 23}}',
    "commitOwner": "g_c1@0x1000a",
    "deliveryGuarantee": "exactly-once",
    "transactionalIdPrefix": "team-a.",
    "ledgerTopic": "ledger",
    "writerName": "audit",
    "batchId": "7",
    "maxOffsetsPerTrigger": "9",
    "maxBytesPerTrigger": "9",
    "minOffsetsPerTrigger": "9",
    "maxTriggerDelay": "5m",
}
"""A value for every option of the table except kafka.*, which stands for many and is tested separately."""

NEEDED_BY_VALUES = {
    ("value.format", "protobuf"): {"value.schema": "message Order {}"},
    ("key.format", "protobuf"): {"key.schema": "message Order {}"},
    ("schema.registry.bearer.auth.credentials.source", "STATIC_TOKEN"): {"schema.registry.bearer.auth.token": "secret"},
}
"""Options that are needed by a value of another option, and not by a rule of the table."""


def completed(given: dict[str, str]) -> dict[str, str]:
    """Add the options that the given options need."""
    pending = list(given)
    for name in pending:
        needed = NEEDED_BY_VALUES.get((name, given[name]), {})
        for rule in BY_NAME[name.lower()].rules:
            if not rule.excludes and (not rule.when or given[name].lower() in rule.when):
                alternatives = {other: rule.values[0] if rule.values else EXAMPLES[other] for other in rule.names}
                if not given.keys() & alternatives.keys():
                    needed = {**needed, rule.names[0]: alternatives[rule.names[0]]}
        pending += needed
        given = {**needed, **given}
    return given


def example(option: Option, scope: Scope) -> dict[str, str]:
    """Return an example value of an option, with the other options that it needs in a scope."""
    topics = {} if scope == "write" or option.name == "view" or option in SUBSCRIPTIONS else {"subscribe": "t"}
    return completed({"zookeeper.connect": "zk:2181", **topics, option.name: EXAMPLES[option.name]})
