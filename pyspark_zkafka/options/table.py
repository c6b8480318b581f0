"""The table of options. The parser takes kinds and defaults from it, and docs/options.md is generated from it."""

from __future__ import annotations

from pyspark_zkafka.model.assignors import STRATEGIES
from pyspark_zkafka.model.partitioners import PARTITIONERS
from pyspark_zkafka.model.view_tables import VIEWS
from pyspark_zkafka.model.znodes.groups import MAX_THREADS
from pyspark_zkafka.options import kinds
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.format_table import FORMATTING
from pyspark_zkafka.options.kinds import BOOLEAN, INT32, PEM_STORE, TOPIC, choice, integer, text
from pyspark_zkafka.options.option import Option, Rule, excludes, needs, of_batch_reads, of_reads, of_streams, of_writes
from pyspark_zkafka.options.values import concerns_connection

KAFKA_STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
"""Assignors of both librdkafka and Java, for groups that Kafka coordinates."""

_TLS = (needs("zookeeper.ssl.client.enable", "true"),)
_ONCE = needs("deliveryGuarantee", "exactly-once")
_GROUP = needs("group.id")
_IN_ZOOKEEPER = (
    _GROUP,
    excludes(
        "groupMembership", "kafka", problem="concerns groups in ZooKeeper, and has no effect with groupMembership=kafka"
    ),
)
_IN_KAFKA = (
    _GROUP,
    needs("groupMembership", "kafka", problem="concerns groups that Kafka coordinates; set groupMembership=kafka"),
)


def _left_to_brokers(by: str) -> Rule:
    problem = f"has no effect with group.protocol=consumer: the brokers' {by} decides"
    return excludes("group.protocol", "consumer", problem=problem)


CONNECTION: tuple[Option, ...] = (
    Option("zookeeper.connect", kinds.ENSEMBLE, "The ensemble, and the chroot that the brokers use."),
    Option(
        "zookeeper.session.timeout.ms",
        integer(1, "ms", INT32),
        "Time after which a lost session expires, within ZooKeeper's minSessionTimeout and maxSessionTimeout.",
        "6000",
    ),
    Option(
        "zookeeper.connection.timeout.ms", integer(1, "ms", INT32), "Connection timeout.", derived="the session timeout"
    ),
    Option("zookeeper.auth", kinds.ZOOKEEPER_AUTH, "Credentials; sasl needs the extra pyspark-zkafka[sasl].", secret=True),
    Option(
        "zookeeper.acl",
        choice("open", "readable", "creator"),
        "ACL of znodes created below `/consumers`. open: everybody has all rights, as with the old consumer; creator: only "
        "clients with the same credentials have them; readable: others may read. See [Security](security-zookeeper.md).",
        "open",
        rules=(
            Rule(
                ("zookeeper.auth", "zookeeper.ssl.keystore.location"),
                (),
                "requires a login; set zookeeper.auth or zookeeper.ssl.keystore.location",
                when=("readable", "creator"),
            ),
        ),
    ),
    Option("zookeeper.ssl.client.enable", BOOLEAN, "Use TLS to ZooKeeper. See [Security](security-zookeeper.md).", "false"),
    Option(
        "zookeeper.ssl.truststore.location",
        PEM_STORE,
        "Trusted authorities.",
        derived="the system's authorities",
        rules=_TLS,
    ),
    Option(
        "zookeeper.ssl.endpoint.identification.algorithm", kinds.HOST_NAME_CHECK, "Host name check.", "https", rules=_TLS
    ),
    Option("zookeeper.ssl.keystore.location", PEM_STORE, "The client's certificate and private key.", rules=_TLS),
    Option("zookeeper.ssl.keystore.password", text(), "Password of the private key.", secret=True, rules=_TLS),
    Option(
        "kafka.bootstrap.servers",
        text("host:port[,host:port...]"),
        "Initial brokers. Required without zookeeper.connect (KRaft). Alias: kafka.metadata.broker.list.",
        derived="the brokers registered in ZooKeeper",
    ),
    Option("listener.name", text(), "Listener to connect to.", derived="the first listener with kafka.security.protocol"),
    Option("kafka.*", text(), "A [client property](kafka-properties.md), by its name in librdkafka or Java."),
    Option(
        "transport",
        choice("auto", "direct", "librdkafka"),
        "The code that reads and writes records. auto: the fastest available; direct: fetch, decode, encode and send "
        "record batches without librdkafka, and fail if the compiled code was not built; librdkafka: confluent-kafka "
        "without compiled code, and not exactly once. Where direct does not apply, librdkafka is used, with a warning.",
        "auto",
    ),
)
"""Options of the connection, except for the client properties in ``kafka.*``; see `is_connection_option`."""

SUBSCRIPTIONS: tuple[Option, ...] = (
    of_reads("subscribe", kinds.TOPIC_LIST, "Topics to read. Set exactly one of this option and the next three."),
    of_reads(
        "subscribePattern", kinds.PATTERN, "Read the topics whose whole name matches; see [Patterns](reading.md#patterns)."
    ),
    of_reads("subscribeExceptPattern", kinds.EXCEPT_PATTERN, "Read all topics except the matching and internal ones."),
    of_reads("assign", kinds.PARTITIONS, "Partitions to read."),
)
"""The topics or partitions to read: exactly one of these options."""

RANGES: tuple[Option, ...] = (
    of_reads(
        "startingOffsets",
        kinds.STARTING_OFFSETS,
        'Where to start without a checkpoint. JSON: `{"topic": {"0": 23, "1": -2}, "other": "earliest"}`, with -2 for '
        "earliest and -1 for latest (stream). `earliest+100` and `latest-100` count from an edge of the log, also in JSON. "
        "committed requires group.id.",
        derived="batch: earliest; stream: committed with group.id, else latest",
    ),
    of_batch_reads(
        "endingOffsets", kinds.ENDING_OFFSETS, "End (exclusive), as for startingOffsets; -1 is latest.", "latest"
    ),
    of_reads(
        "startingTimestamp",
        kinds.TIMESTAMP,
        "Start at the first record at or after this time; overrides other starts. Without a zone, ISO 8601 is in UTC.",
    ),
    of_batch_reads(
        "endingTimestamp", kinds.TIMESTAMP, "End before the first record at or after this time, or at the log's end."
    ),
    of_reads("startingOffsetsByTimestamp", kinds.TIMESTAMPS, "startingTimestamp by partition. Overrides startingOffsets."),
    of_batch_reads("endingOffsetsByTimestamp", kinds.TIMESTAMPS, "endingTimestamp by partition. Overrides endingOffsets."),
    of_reads(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        "If a partition has no record at or after the starting timestamp: fail, or start at latest.",
        "error",
    ),
    of_reads(
        "auto.offset.reset",
        kinds.RESET_POLICY,
        "Start of partitions without a committed offset. If set, also of partitions that startingOffsets does not name.",
        derived="latest",
    ),
)
"""Where reads start and end."""

READING: tuple[Option, ...] = (
    of_batch_reads(
        "view",
        choice(*VIEWS),
        "Show the cluster's state, or the plan of the read, instead of records. subscribe or subscribePattern restricts "
        "the topics, group.id the groups. See [Views](views.md).",
        rules=(
            needs(
                "zookeeper.connect",
                problem="reads ZooKeeper and needs zookeeper.connect",
                when=tuple(name for name, view in VIEWS.items() if view.needs_zookeeper),
            ),
        ),
    ),
    of_reads(
        "missingTopics",
        choice("fail", "wait"),
        "If a topic or partition does not exist, or a pattern matches no topic: fail, or wait with a warning each minute. "
        "A batch and a stream with `Trigger.AvailableNow` do not wait, but read the other topics.",
        derived="wait for a pattern in a stream, and for a member of a group, without `Trigger.AvailableNow`; else fail",
    ),
    of_reads("failOnDataLoss", BOOLEAN, "Fail if records of the range are gone. If false, log a warning.", "true"),
    of_reads("minPartitions", integer(1, at_most=INT32), "Approximate minimum of input partitions; large ones are split."),
    of_reads("maxRecordsPerPartition", integer(1, "records"), "Maximum number of offsets in an input partition."),
    of_reads(
        "minRecordsPerPartition",
        integer(1, "records"),
        "Small partitions share a task until it has this number of offsets, or would exceed maxRecordsPerPartition.",
        rules=(
            excludes("minPartitions", problem="merges input partitions, minPartitions divides them; set only one of them"),
        ),
    ),
    Option("includeHeaders", BOOLEAN, "Read: add the column headers. Writes always include it.", "false"),
    of_reads(
        "kafkaConsumer.pollTimeoutMs",
        integer(1, "ms", read_as_most=INT32),
        "Maximum wait of a task for a broker's data.",
        "120000",
    ),
    of_reads("fetchOffset.numRetries", integer(0), "Retries of failed requests during planning.", "3"),
    of_reads(
        "fetchOffset.retryIntervalMs", integer(0, "ms", read_as_most=INT32), "Wait before each of these retries.", "1000"
    ),
    of_reads("offlinePartitions", choice(fail=False, skip=True), "Fail, or skip partitions without a leader.", "fail"),
    of_reads("groupIdPrefix", text(), "The group.id of the tasks' consumers, unless kafka.group.id is set.", "zkafka"),
)
"""How to read a range, or what to show of it."""

GROUP: tuple[Option, ...] = (
    Option(
        "group.id",
        text(),
        "The consumer group. A stream joins it; see [Consumer groups](groups.md). A batch starts at its offsets "
        "(startingOffsets=committed), or commits offsets for it (commitOffsets).",
    ),
    of_streams(
        "groupMembership",
        choice("auto", "zookeeper", "kafka", "none"),
        "Who coordinates the group that a stream with group.id joins. auto: ZooKeeper if zookeeper.connect is set and the "
        "cluster has not migrated to KRaft, else Kafka; none: join no group, read all partitions and only commit: then no "
        "other query, and no other load() of this one, may have the same group.id.",
        "auto",
        rules=(
            _GROUP,
            needs(
                "zookeeper.connect",
                problem="registers members there; set zookeeper.connect, or groupMembership to kafka or none",
                when=("zookeeper",),
            ),
        ),
    ),
    of_streams(
        "group.protocol",
        choice("classic", "consumer"),
        "The protocol of a group that Kafka coordinates. consumer is the protocol of KIP-848, for brokers 4.0 or later.",
        "classic",
        rules=_IN_KAFKA,
    ),
    of_streams(
        "group.instance.id",
        text(),
        "Name of a static member, which keeps its partitions if it restarts within its session timeout.",
        rules=_IN_KAFKA,
    ),
    of_streams(
        "session.timeout.ms",
        integer(1, "ms", 3_600_000),
        "Time after which Kafka removes a member without heartbeats, with group.protocol=classic.",
        "45000",
        rules=(*_IN_KAFKA, _left_to_brokers("group.consumer.session.timeout.ms")),
    ),
    of_streams(
        "consumer.id",
        text(),
        "Member name: /consumers/<group>/ids/<group>_<consumer.id>.",
        derived="generated",
        rules=_IN_ZOOKEEPER,
    ),
    of_streams(
        "consumer.threads",
        integer(1, at_most=MAX_THREADS),
        "Number of threads for which the member claims partitions: its weight.",
        "1",
        rules=_IN_ZOOKEEPER,
    ),
    of_streams(
        "partition.assignment.strategy",
        choice(*STRATEGIES, "cooperative-sticky"),
        "How partitions are assigned. All members need it; members in Kafka may offer others, too. roundrobin-0.8 is "
        "the roundrobin of consumers up to 0.11. sticky requires that all members use this package. Kafka's groups support "
        "range, roundrobin and cooperative-sticky. See [Strategies](groups-zookeeper.md#strategies).",
        derived="range in ZooKeeper, cooperative-sticky in Kafka",
        rules=(
            _GROUP,
            _left_to_brokers("group.consumer.assignors"),
            excludes(
                *("groupMembership", "kafka"),
                problem=f"is not a strategy of Kafka's groups; use one of {', '.join(KAFKA_STRATEGIES)}",
                when=tuple(name for name in STRATEGIES if name not in KAFKA_STRATEGIES),
            ),
            needs(
                *("groupMembership", "kafka", "none"),
                problem="is not a strategy of groups in ZooKeeper; use one of "
                f"{', '.join(STRATEGIES)}, or set groupMembership=kafka",
                when=tuple(name for name in KAFKA_STRATEGIES if name not in STRATEGIES),
            ),
        ),
    ),
    of_streams(
        "rebalance.max.retries",
        integer(1, at_most=INT32),
        "Number of failed attempts to claim partitions before a warning.",
        "4",
        rules=_IN_ZOOKEEPER,
    ),
    of_streams(
        "rebalance.backoff.ms",
        integer(1, "ms", INT32),
        "Approximate wait between two attempts.",
        "2000",
        rules=_IN_ZOOKEEPER,
    ),
    of_streams(
        "rebalance.hold.ms",
        integer(0, "ms", INT32),
        "Maximum time for which a member keeps revoked partitions, to finish the micro-batch that reads them.",
        derived="half of rebalance.max.retries x rebalance.backoff.ms; in Kafka a tenth of kafka.max.poll.interval.ms",
        rules=(_GROUP,),
    ),
)
"""The consumer group, and a stream's membership in it."""

OFFSET_STORES: tuple[Option, ...] = (
    Option(
        "offsets.storage",
        choice(zookeeper=False, kafka=True),
        "Where the group's offsets are stored: /consumers/<group>/offsets, or __consumer_offsets.",
        derived="zookeeper; kafka without zookeeper.connect, and in a stream with groupMembership=kafka",
        rules=(
            excludes(
                *("groupMembership", "kafka"),
                problem="contradicts groupMembership=kafka: the member commits to Kafka; leave offsets.storage out",
                when=("zookeeper",),
            ),
        ),
    ),
    Option(
        "dual.commit.enabled",
        BOOLEAN,
        "Also commit to ZooKeeper, and read the larger offset, while a group migrates to offsets.storage=kafka.",
        derived="true with offsets.storage=kafka and zookeeper.connect, except for a member in Kafka",
        rules=(
            excludes(
                *("groupMembership", "kafka"),
                problem="contradicts groupMembership=kafka: the member commits to Kafka alone; set it to false",
                when=("true",),
            ),
            needs(
                "zookeeper.connect",
                problem="also writes /consumers/<group>/offsets and needs zookeeper.connect",
                when=("true",),
            ),
            needs(
                *("offsets.storage", "kafka"),
                problem="has an effect only with offsets.storage=kafka; leave it out",
                when=("true",),
            ),
        ),
    ),
)
"""Where a group's offsets are, which all reads and writes of the group must agree on."""

WRITING: tuple[Option, ...] = (
    of_writes("topic", TOPIC, "The topic of all rows. Takes precedence over the column topic."),
    of_writes("partitioner", choice(*PARTITIONERS), "How keys map to partitions. murmur2 is Java's default.", "murmur2"),
    of_writes(
        "commitOffsets",
        kinds.OFFSETS_TO_COMMIT,
        "Offsets (of the next records to read) to commit for the group when all rows are acknowledged. Requires group.id.",
        rules=(
            _GROUP,
            excludes(
                "batchId",
                problem="and batchId exclude each other: the offsets identify a job that commits them; set only one",
            ),
        ),
    ),
    of_writes(
        "commitOwner",
        kinds.CLAIM_OWNER,
        "The committing member in ZooKeeper, from `commit_options` of a `ConsumerGroup`'s batch. Without it, no partition "
        "in commitOffsets may have an owner.",
        rules=(
            needs("commitOffsets", problem="names who commits commitOffsets; set both, or leave commitOwner out"),
            needs("zookeeper.connect", problem="is verified in ZooKeeper; set zookeeper.connect, or leave commitOwner out"),
        ),
    ),
    of_writes(
        "deliveryGuarantee",
        choice("at-least-once", "exactly-once"),
        "exactly-once: a reader with isolation.level=read_committed sees each row once. See [Exactly "
        "once](exactly-once.md).",
        "at-least-once",
        rules=(
            Rule(
                ("topic", "ledgerTopic"),
                (),
                "keeps a ledger under a topic's partitions; set topic, or ledgerTopic if the rows name their topics",
                when=("exactly-once",),
            ),
            excludes(
                "transport",
                "librdkafka",
                problem="does not support transport=librdkafka; leave transport out",
                when=("exactly-once",),
            ),
        ),
    ),
    of_writes(
        "transactionalIdPrefix",
        kinds.ID_PART,
        "Prefix of the transactional ids of an exactly-once write, and of the groups of its ledger. Change it only "
        "while no micro-batch or job is interrupted.",
        "zkafka",
        rules=(_ONCE,),
    ),
    of_writes(
        "ledgerTopic",
        TOPIC,
        "Topic under whose partitions an exactly-once write keeps its ledger. The ledger adds no records to the topic. "
        "Change it only while no micro-batch or job is interrupted. Where rows name their topics, delete the ledger when "
        "one of these is deleted and created again.",
        derived="the option topic",
        rules=(_ONCE,),
    ),
    of_writes(
        "writerName",
        kinds.ID_PART,
        "Name of a batch job, or of one of several writes to a topic in foreachBatch, with exactly-once. Change it only "
        "while no micro-batch or job is interrupted.",
        derived="the option topic in foreachBatch; required with batchId",
        rules=(_ONCE,),
    ),
    of_writes(
        "batchId",
        integer(0, at_most=10**18 - 1),
        "Number of a named exactly-once batch write, the same when the write is repeated; in "
        "foreachBatch, the number that Spark passes to the function. Set it, or leave it out, only while no micro-batch or "
        "job is interrupted. Required under Spark Connect, in threads, and in batch jobs without commitOffsets; see "
        "[Exactly once](exactly-once.md#batch-jobs).",
        rules=(_ONCE, needs("writerName", problem="numbers a named write; set writerName")),
    ),
)
"""What to write, where to, and how safely."""

TRIGGERS: tuple[Option, ...] = (
    of_streams(
        "maxOffsetsPerTrigger", integer(1, "records"), "Approximate maximum of records in a micro-batch. Needs Spark 4.2."
    ),
    of_streams(
        "maxBytesPerTrigger",
        integer(1, "bytes"),
        "Estimated maximum of key, value and header bytes in a micro-batch. Needs Spark 4.2.",
    ),
    of_streams(
        "minOffsetsPerTrigger",
        integer(1, "records"),
        "Minimum number of new records before a micro-batch starts. Needs Spark 4.2.",
    ),
    of_streams("maxTriggerDelay", kinds.DURATION, "Maximum wait for minOffsetsPerTrigger.", "15m"),
)
"""How much a micro-batch reads."""

TABLE = (*CONNECTION, *SUBSCRIPTIONS, *RANGES, *READING, *FORMATTING, *GROUP, *OFFSET_STORES, *WRITING, *TRIGGERS)
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
