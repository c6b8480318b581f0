"""The table of options. The parser takes kinds and defaults from it, and docs/options.md is generated from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pyspark_zkafka.model.assignors import STRATEGIES
from pyspark_zkafka.model.partitioners import PARTITIONERS
from pyspark_zkafka.model.view_tables import VIEWS
from pyspark_zkafka.model.znodes.groups import MAX_THREADS
from pyspark_zkafka.options import kinds
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.kinds import BOOLEAN, INT32, PEM_FILE, TOPIC, choice, integer, text
from pyspark_zkafka.options.values import concerns_connection

Scope = Literal["read", "write", "stream"]


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table.

    `doc` is Markdown. `default` is a text that a user could write. A default that depends on other options is `derived`, in
    words; the parsers compute it. The value of a `secret` option is never shown.
    """

    name: str
    kind: kinds.Kind
    scopes: tuple[Scope, ...]
    doc: str
    default: str | None = None
    derived: str = ""
    secret: bool = False

    def default_value(self) -> Any:
        """Return the default as the option's kind reads it; None if there is none, or if it is derived."""
        return None if self.default is None else self.kind.read(self.name, self.default)


_ALL: tuple[Scope, ...] = ("read", "stream", "write")
_READS: tuple[Scope, ...] = ("read", "stream")
_READ: tuple[Scope, ...] = ("read",)
_WRITE: tuple[Scope, ...] = ("write",)
STREAM: tuple[Scope, ...] = ("stream",)

CONNECTION: tuple[Option, ...] = (
    Option("zookeeper.connect", kinds.ENSEMBLE, _ALL, "The ensemble, and the chroot that the brokers use."),
    Option(
        "zookeeper.session.timeout.ms",
        integer(1, "ms", INT32),
        _ALL,
        "Time after which a lost session expires, within ZooKeeper's minSessionTimeout and maxSessionTimeout.",
        "6000",
    ),
    Option(
        "zookeeper.connection.timeout.ms",
        integer(1, "ms", INT32),
        _ALL,
        "Connection timeout.",
        derived="the session timeout",
    ),
    Option(
        "zookeeper.auth", kinds.ZOOKEEPER_AUTH, _ALL, "Credentials; sasl needs the extra pyspark-zkafka[sasl].", secret=True
    ),
    Option(
        "zookeeper.acl",
        choice("open", "readable", "creator"),
        _ALL,
        "ACL of znodes created below `/consumers`. open: everybody has all rights, as with the old consumer; creator: only "
        "clients with the same credentials have them; readable: others may read. See [Security](security-zookeeper.md).",
        "open",
    ),
    Option(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        _ALL,
        "Use TLS to ZooKeeper. See [Security](security-zookeeper.md).",
        "false",
    ),
    Option("zookeeper.ssl.truststore.location", PEM_FILE, _ALL, "Trusted authorities.", derived="the system's authorities"),
    Option("zookeeper.ssl.endpoint.identification.algorithm", kinds.HOST_NAME_CHECK, _ALL, "Host name check.", "https"),
    Option("zookeeper.ssl.keystore.location", PEM_FILE, _ALL, "The client's certificate and private key."),
    Option("zookeeper.ssl.keystore.password", text(), _ALL, "Password of the private key.", secret=True),
    Option(
        "kafka.bootstrap.servers",
        text("host:port[,host:port...]"),
        _ALL,
        "Initial brokers. Required without zookeeper.connect (KRaft). Alias: kafka.metadata.broker.list.",
        derived="the brokers registered in ZooKeeper",
    ),
    Option(
        "listener.name", text(), _ALL, "Listener to connect to.", derived="the first listener with kafka.security.protocol"
    ),
    Option("kafka.*", text(), _ALL, "A [client property](kafka-properties.md), by its name in librdkafka or Java."),
    Option(
        "transport",
        choice("auto", "direct", "librdkafka"),
        _ALL,
        "The code that reads and writes records. auto: the fastest available; direct: fetch, decode, encode and send "
        "record batches without librdkafka, and fail if the compiled code was not built; librdkafka: confluent-kafka "
        "without compiled code, and not exactly once. Where direct does not apply, librdkafka is used, with a warning.",
        "auto",
    ),
)
"""Options of the connection, except for the client properties in ``kafka.*``; see `is_connection_option`."""


def _of_column(column: str) -> tuple[Option, ...]:
    return (
        Option(
            f"{column}.format",
            kinds.FORMAT,
            _ALL,
            f"Format of the column {column}. The formats of Confluent look schemas up in schema.registry.url. See "
            "[Formats](formats.md).",
            "binary",
        ),
        Option(
            f"{column}.schema",
            kinds.SCHEMA,
            _ALL,
            "Read: the schema that gives the column's type. Write: the schema to encode by.",
            derived="read: the subject's schema; write: made from the column's type",
        ),
        Option(
            f"{column}.schema.message",
            text(),
            _ALL,
            "Name of the Protobuf message, with its package.",
            derived="the file's first message",
        ),
        Option(
            f"{column}.schema.version",
            kinds.SCHEMA_VERSION,
            _READS,
            "Version of the subject's schema that gives the column's type.",
            "latest",
        ),
        Option(
            f"{column}.subject",
            text(),
            _ALL,
            "The subject in the registry.",
            derived="named by the strategy, the next option",
        ),
        Option(
            f"{column}.subject.name.strategy",
            kinds.SUBJECT_STRATEGY,
            _ALL,
            f"How subjects are named. A read without `{column}.schema` needs the default.",
            "TopicNameStrategy",
        ),
    )


_REGISTRY = "schema.registry."
REGISTRY: tuple[Option, ...] = (
    Option(
        f"{_REGISTRY}url",
        text("http(s)://host:port[,...]"),
        _ALL,
        "Addresses of a schema registry that has Confluent's API. Each is tried in turn.",
        secret=True,
    ),
    Option(
        f"{_REGISTRY}basic.auth.credentials.source",
        kinds.CREDENTIALS_SOURCE,
        _ALL,
        "Where user and password are: in the next option, or in the URL.",
        derived="USER_INFO if the next option is set, URL if the address has a login",
    ),
    Option(f"{_REGISTRY}basic.auth.user.info", text("user:password"), _ALL, "User and password.", secret=True),
    Option(f"{_REGISTRY}bearer.auth.credentials.source", kinds.TOKEN_SOURCE, _ALL, "Where bearer tokens come from."),
    Option(f"{_REGISTRY}bearer.auth.token", text(), _ALL, "The token, with STATIC_TOKEN.", secret=True),
    Option(f"{_REGISTRY}bearer.auth.issuer.endpoint.url", text("URL"), _ALL, "The endpoint that issues tokens."),
    Option(f"{_REGISTRY}bearer.auth.client.id", text(), _ALL, "The client's id there."),
    Option(f"{_REGISTRY}bearer.auth.client.secret", text(), _ALL, "The client's secret there.", secret=True),
    Option(f"{_REGISTRY}bearer.auth.scope", text(), _ALL, "The scope of tokens."),
    Option(f"{_REGISTRY}bearer.auth.logical.cluster", text(), _ALL, "The registry's logical cluster."),
    Option(f"{_REGISTRY}bearer.auth.identity.pool.id", text(), _ALL, "The identity pool."),
    Option(
        f"{_REGISTRY}ssl.ca.location",
        PEM_FILE,
        _ALL,
        "Trusted authorities.",
        derived="SSL_CERT_FILE or SSL_CERT_DIR of the environment, else the package certifi",
    ),
    Option(f"{_REGISTRY}ssl.certificate.location", PEM_FILE, _ALL, "The client's certificate."),
    Option(f"{_REGISTRY}ssl.key.location", PEM_FILE, _ALL, "The client's private key."),
    Option(f"{_REGISTRY}ssl.key.password", text(), _ALL, "Password of the private key.", secret=True),
    Option(f"{_REGISTRY}proxy", text("URL"), _ALL, "A proxy for requests to the registry.", secret=True),
)
"""Options of a schema registry: names of Confluent's client, with a prefix."""

TABLE: tuple[Option, ...] = (
    *CONNECTION,
    # What to read
    Option("subscribe", kinds.TOPIC_LIST, _READS, "Topics to read. Set exactly one of this option and the next three."),
    Option(
        "subscribePattern",
        kinds.PATTERN,
        _READS,
        "Read the topics whose whole name matches; see [Patterns](reading.md#patterns).",
    ),
    Option(
        "subscribeExceptPattern", kinds.EXCEPT_PATTERN, _READS, "Read all topics except the matching and internal ones."
    ),
    Option("assign", kinds.PARTITIONS, _READS, "Partitions to read."),
    Option(
        "missingTopics",
        choice("fail", "wait"),
        _READS,
        "If a topic or partition does not exist, or a pattern matches no topic: fail, or wait with a warning each minute. "
        "A batch and a stream with `Trigger.AvailableNow` do not wait, but read the other topics.",
        derived="wait for a pattern in a stream, and for a member of a group, without `Trigger.AvailableNow`; else fail",
    ),
    Option(
        "view",
        choice(*VIEWS),
        _READ,
        "Show the cluster's state, or the plan of the read, instead of records. subscribe or subscribePattern restricts "
        "the topics, group.id the groups. See [Views](views.md).",
    ),
    # Where from and to
    Option(
        "startingOffsets",
        kinds.STARTING_OFFSETS,
        _READS,
        'Where to start without a checkpoint. JSON: `{"topic": {"0": 23, "1": -2}, "other": "earliest"}`, with -2 for '
        "earliest and -1 for latest (stream). `earliest+100` and `latest-100` count from an edge of the log, also in JSON. "
        "committed requires group.id.",
        derived="batch: earliest; stream: committed with group.id, else latest",
    ),
    Option(
        "endingOffsets", kinds.ENDING_OFFSETS, _READ, "End (exclusive), as for startingOffsets; -1 is latest.", "latest"
    ),
    Option(
        "startingTimestamp",
        kinds.TIMESTAMP,
        _READS,
        "Start at the first record at or after this time; overrides other starts. Without a zone, ISO 8601 is in UTC.",
    ),
    Option(
        "endingTimestamp", kinds.TIMESTAMP, _READ, "End before the first record at or after this time, or at the log's end."
    ),
    Option(
        "startingOffsetsByTimestamp", kinds.TIMESTAMPS, _READS, "startingTimestamp by partition. Overrides startingOffsets."
    ),
    Option("endingOffsetsByTimestamp", kinds.TIMESTAMPS, _READ, "endingTimestamp by partition. Overrides endingOffsets."),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        _READS,
        "If a partition has no record at or after the starting timestamp: fail, or start at latest.",
        "error",
    ),
    Option(
        "auto.offset.reset",
        kinds.RESET_POLICY,
        _READS,
        "Start of partitions without a committed offset. If set, also of partitions that startingOffsets does not name.",
        derived="latest",
    ),
    # How to read
    Option("failOnDataLoss", BOOLEAN, _READS, "Fail if records of the range are gone. If false, log a warning.", "true"),
    Option(
        "minPartitions", integer(1, at_most=INT32), _READS, "Approximate minimum of input partitions; large ones are split."
    ),
    Option("maxRecordsPerPartition", integer(1, "records"), _READS, "Maximum number of offsets in an input partition."),
    Option(
        "minRecordsPerPartition",
        integer(1, "records"),
        _READS,
        "Small partitions share a task until it has this number of offsets, or would exceed maxRecordsPerPartition.",
    ),
    Option(
        "pushFilters",
        BOOLEAN,
        _READ,
        "Narrow the plan by the query's filters. Only for a frame that is used once; see [Reading](reading.md).",
        "false",
    ),
    Option("includeHeaders", BOOLEAN, _ALL, "Read: add the column headers. Writes always include it.", "false"),
    Option(
        "kafkaConsumer.pollTimeoutMs", integer(1, "ms"), _READS, "Maximum wait of a task for a broker's data.", "120000"
    ),
    Option("fetchOffset.numRetries", integer(0), _READS, "Retries of failed requests during planning.", "3"),
    Option("fetchOffset.retryIntervalMs", integer(0, "ms"), _READS, "Wait before each of these retries.", "1000"),
    Option(
        "offlinePartitions", choice(fail=False, skip=True), _READS, "Fail, or skip partitions without a leader.", "fail"
    ),
    Option(
        "groupIdPrefix", text(), _READS, "The group.id of the tasks' consumers, unless kafka.group.id is set.", "zkafka"
    ),
    # Formats
    *_of_column("value"),
    *_of_column("key"),
    Option(
        "mode",
        kinds.PARSE_MODE,
        _READS,
        "If a record cannot be decoded: fail; return null, with the record's bytes and the reason in the columns "
        "`_corrupt_record` and `_corrupt_reason`; or leave the record out.",
        "FAILFAST",
    ),
    *REGISTRY,
    Option(
        "auto.register.schemas",
        BOOLEAN,
        _WRITE,
        "Register the schema under the subject. If false, the schema must be registered.",
        derived="true, unless use.latest.version is true",
    ),
    Option("use.latest.version", BOOLEAN, _WRITE, "Encode by the latest schema of the subject.", "false"),
    Option("normalize.schemas", BOOLEAN, _WRITE, "Let the registry normalize the schema before it compares it.", "false"),
    # Group
    Option(
        "group.id",
        text(),
        _ALL,
        "The consumer group. A stream joins it; see [Consumer groups](groups.md). A batch starts at its offsets "
        "(startingOffsets=committed), or commits offsets for it (commitOffsets).",
    ),
    Option(
        "groupMembership",
        choice("auto", "zookeeper", "kafka", "none"),
        STREAM,
        "Who coordinates the group that a stream with group.id joins. auto: ZooKeeper if zookeeper.connect is set and the "
        "cluster has not migrated to KRaft, else Kafka; none: join no group, read all partitions and only commit: then no "
        "other query, and no other load() of this one, may have the same group.id.",
        "auto",
    ),
    Option(
        "group.protocol",
        choice("classic", "consumer"),
        STREAM,
        "The protocol of a group that Kafka coordinates. consumer is the protocol of KIP-848, for brokers 4.0 or later.",
        "classic",
    ),
    Option(
        "group.instance.id",
        text(),
        STREAM,
        "Name of a static member, which keeps its partitions if it restarts within its session timeout.",
    ),
    Option(
        "session.timeout.ms",
        integer(1, "ms", 3_600_000),
        STREAM,
        "Time after which Kafka removes a member without heartbeats, with group.protocol=classic.",
        "45000",
    ),
    Option(
        "consumer.id", text(), STREAM, "Member name: /consumers/<group>/ids/<group>_<consumer.id>.", derived="generated"
    ),
    Option(
        "consumer.threads",
        integer(1, at_most=MAX_THREADS),
        STREAM,
        "Number of threads for which the member claims partitions: its weight.",
        "1",
    ),
    Option(
        "partition.assignment.strategy",
        choice(*STRATEGIES, "cooperative-sticky"),
        STREAM,
        "How partitions are assigned. All members need it; members in Kafka may offer others, too. roundrobin-0.8 is "
        "the roundrobin of consumers up to 0.11. sticky requires that all members use this package. Kafka's groups support "
        "range, roundrobin and cooperative-sticky. See [Strategies](groups-zookeeper.md#strategies).",
        derived="range in ZooKeeper, cooperative-sticky in Kafka",
    ),
    Option(
        "offsets.storage",
        choice(zookeeper=False, kafka=True),
        _ALL,
        "Where the group's offsets are stored: /consumers/<group>/offsets, or __consumer_offsets.",
        derived="zookeeper; kafka without zookeeper.connect, and in a stream with groupMembership=kafka",
    ),
    Option(
        "dual.commit.enabled",
        BOOLEAN,
        _ALL,
        "Also commit to ZooKeeper, and read the larger offset, while a group migrates to offsets.storage=kafka.",
        derived="true with offsets.storage=kafka and zookeeper.connect, except for a member in Kafka",
    ),
    Option(
        "rebalance.max.retries",
        integer(1, at_most=INT32),
        STREAM,
        "Number of failed attempts to claim partitions before a warning.",
        "4",
    ),
    Option("rebalance.backoff.ms", integer(1, "ms", INT32), STREAM, "Approximate wait between two attempts.", "2000"),
    Option(
        "rebalance.hold.ms",
        integer(0, "ms", INT32),
        STREAM,
        "Maximum time for which a member keeps revoked partitions, to finish the micro-batch that reads them.",
        derived="half of rebalance.max.retries x rebalance.backoff.ms; in Kafka a tenth of kafka.max.poll.interval.ms",
    ),
    # What to write
    Option("topic", TOPIC, _WRITE, "The topic of all rows. Takes precedence over the column topic."),
    Option(
        "partitioner", choice(*PARTITIONERS), _WRITE, "How keys map to partitions. murmur2 is Java's default.", "murmur2"
    ),
    Option(
        "commitOffsets",
        kinds.OFFSETS_TO_COMMIT,
        _WRITE,
        "Offsets (of the next records to read) to commit for the group when all rows are acknowledged. Requires group.id.",
    ),
    Option(
        "commitOwner",
        kinds.CLAIM_OWNER,
        _WRITE,
        "The committing member in ZooKeeper, from `commit_options` of a `ConsumerGroup`'s batch. Without it, no partition "
        "in commitOffsets may have an owner.",
    ),
    Option(
        "deliveryGuarantee",
        choice("at-least-once", "exactly-once"),
        _WRITE,
        "exactly-once: a reader with isolation.level=read_committed sees each row once. See [Exactly "
        "once](exactly-once.md).",
        "at-least-once",
    ),
    Option(
        "transactionalIdPrefix",
        kinds.ID_PART,
        _WRITE,
        "Prefix of the transactional ids of an exactly-once write, and of the groups of its ledger. Change it only "
        "while no micro-batch or job is interrupted.",
        "zkafka",
    ),
    Option(
        "ledgerTopic",
        TOPIC,
        _WRITE,
        "Topic under whose partitions an exactly-once write keeps its ledger. The ledger adds no records to the topic. "
        "Change it only while no micro-batch or job is interrupted. Where rows name their topics, delete the ledger when "
        "one of these is deleted and created again.",
        derived="the option topic",
    ),
    Option(
        "writerName",
        kinds.ID_PART,
        _WRITE,
        "Name of a batch job, or of one of several writes to a topic in foreachBatch, with exactly-once. Change it only "
        "while no micro-batch or job is interrupted.",
        derived="the option topic in foreachBatch; required with batchId",
    ),
    Option(
        "batchId",
        integer(0, at_most=10**18 - 1),
        _WRITE,
        "Number of a named exactly-once batch write, the same when the write is repeated; in "
        "foreachBatch, the number that Spark passes to the function. Set it, or leave it out, only while no micro-batch or "
        "job is interrupted. Required under Spark Connect, in threads, and in batch jobs without commitOffsets; see "
        "[Exactly once](exactly-once.md#batch-jobs).",
    ),
    # How much a micro-batch reads
    Option("maxOffsetsPerTrigger", integer(1, "records"), STREAM, "Approximate maximum of records in a micro-batch."),
    Option(
        "maxBytesPerTrigger",
        integer(1, "bytes"),
        STREAM,
        "Estimated maximum of key, value and header bytes in a micro-batch.",
    ),
    Option(
        "minOffsetsPerTrigger", integer(1, "records"), STREAM, "Minimum number of new records before a micro-batch starts."
    ),
    Option("maxTriggerDelay", kinds.DURATION, STREAM, "Maximum wait for minOffsetsPerTrigger.", "15m"),
)

BY_NAME = {option.name.lower(): option for option in TABLE}


def is_connection_option(name: str) -> bool:
    """True if an option concerns the connection, which all reads and writes of a group share; case-insensitive.

    >>> is_connection_option("transport"), is_connection_option("kafka.ssl.ca.pem"), is_connection_option("kafka.acks")
    (True, True, False)
    """
    lower = name.strip().lower()
    if not lower.startswith("kafka."):
        return BY_NAME.get(lower) in CONNECTION
    prop = lower.removeprefix("kafka.")
    targets = {target for row in PROPERTIES if row.name == prop for target in row.target_names()}
    return any(map(concerns_connection, targets | {prop}))
