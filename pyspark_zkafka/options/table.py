"""The table of options. The parser takes kinds and defaults from it, and docs/options.md is generated from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pyspark_zkafka.model.assignors import STRATEGIES
from pyspark_zkafka.model.partitioners import PARTITIONERS
from pyspark_zkafka.model.view_tables import VIEWS
from pyspark_zkafka.options import kinds
from pyspark_zkafka.options.client_properties import is_of_connection
from pyspark_zkafka.options.kinds import BOOLEAN, PEM_FILE, TOPIC, choice, integer, text

Scope = Literal["read", "write", "stream"]


@dataclass(frozen=True, slots=True)
class Derived:
    """A default that depends on other options, in words. The code that needs it computes it."""

    words: str


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table: an option's name, kind of values, scopes, documentation and default.

    `default` is a text that a user could write, or None if there is no default. The value of a `secret` option is never
    shown.
    """

    name: str
    kind: kinds.Kind
    scopes: tuple[Scope, ...]
    doc: str
    default: str | Derived | None = None
    secret: bool = False

    def default_value(self) -> Any:
        """The default as the option's kind reads it; None if there is none, or if it is derived."""
        return self.kind.read(self.name, self.default) if isinstance(self.default, str) else None


_ALL: tuple[Scope, ...] = ("read", "stream", "write")
_READS: tuple[Scope, ...] = ("read", "stream")
_READ: tuple[Scope, ...] = ("read",)
_WRITE: tuple[Scope, ...] = ("write",)
STREAM: tuple[Scope, ...] = ("stream",)

CONNECTION: tuple[Option, ...] = (
    Option("zookeeper.connect", kinds.ENSEMBLE, _ALL, "The ensemble, and the chroot that the brokers use."),
    Option(
        "zookeeper.session.timeout.ms",
        integer(1, "ms"),
        _ALL,
        "Time after which a lost session expires, within ZooKeeper's minSessionTimeout and maxSessionTimeout.",
        "6000",
    ),
    Option(
        "zookeeper.connection.timeout.ms", integer(1, "ms"), _ALL, "Connection timeout.", Derived("the session timeout")
    ),
    Option(
        "zookeeper.auth", kinds.ZOOKEEPER_AUTH, _ALL, "Credentials; sasl needs the extra pyspark-zkafka[sasl].", secret=True
    ),
    Option(
        "zookeeper.acl",
        choice("open", "readable", "creator"),
        _ALL,
        "ACL of what is created below `/consumers`. open: everybody may do everything, as with the old consumer; creator: "
        "only who has the same credentials; readable: the same, and others may read. See [Security](security.md).",
        "open",
    ),
    Option("zookeeper.ssl.client.enable", BOOLEAN, _ALL, "Use TLS to ZooKeeper. See [Security](security.md).", "false"),
    Option(
        "zookeeper.ssl.truststore.location", PEM_FILE, _ALL, "Trusted authorities.", Derived("the system's authorities")
    ),
    Option("zookeeper.ssl.endpoint.identification.algorithm", kinds.HOST_NAME_CHECK, _ALL, "Host name check.", "https"),
    Option("zookeeper.ssl.keystore.location", PEM_FILE, _ALL, "The client's certificate and private key."),
    Option("zookeeper.ssl.keystore.password", text(), _ALL, "Password of the private key.", secret=True),
    Option(
        "kafka.bootstrap.servers",
        text("host:port[,host:port...]"),
        _ALL,
        "Initial brokers; required without zookeeper.connect (KRaft). Alias: kafka.metadata.broker.list.",
        Derived("the brokers registered in ZooKeeper"),
    ),
    Option(
        "listener.name", text(), _ALL, "Listener to connect to.", Derived("the first listener with kafka.security.protocol")
    ),
    Option("kafka.*", text(), _ALL, "A [client property](kafka-properties.md), by its name in librdkafka or Java."),
    Option(
        "transport",
        choice("auto", "direct", "librdkafka"),
        _ALL,
        "The code that reads and writes records. auto: the fastest that can be used; direct: reads fetch and decode record "
        "batches themselves, and continue with librdkafka where they cannot, which is a warning in the log; an error where "
        "the compiled code was not built; librdkafka: confluent-kafka alone, without compiled code. Writes always "
        "use librdkafka.",
        "auto",
    ),
)
"""Options of the connection. Some client properties in ``kafka.*`` concern it, too: see `is_connection_option`."""

TABLE: tuple[Option, ...] = (
    *CONNECTION,
    # What to read
    Option("subscribe", kinds.TOPICS, _READS, "Topics to read; exactly one of this and the next three."),
    Option(
        "subscribePattern",
        kinds.PATTERN,
        _READS,
        "Topics to read: those whose whole name matches, see [Patterns](reading.md#patterns).",
    ),
    Option("subscribeExceptPattern", kinds.EXCEPT_PATTERN, _READS, "Topics to exclude: read all others but internal ones."),
    Option("assign", kinds.PARTITIONS, _READS, "Partitions to read."),
    Option(
        "missingTopics",
        choice("fail", "wait"),
        _READS,
        "A topic or partition that does not exist, or a pattern that matches no topic: fail, or wait for it with a warning "
        "each minute. A batch does not wait, but reads the others, and so does a stream with `Trigger.AvailableNow`.",
        Derived("fail; without `Trigger.AvailableNow`, wait for a pattern in a stream, and for a member of a group"),
    ),
    Option(
        "view",
        choice(*VIEWS),
        _READ,
        "Show the cluster's state, or the plan of the read, instead of records; subscribe or subscribePattern restrict the "
        "topics, group.id the groups. See [Views](views.md).",
    ),
    # Where from and to
    Option(
        "startingOffsets",
        kinds.STARTING_OFFSETS,
        _READS,
        'Where to start without a checkpoint. JSON: `{"topic": {"0": 23, "1": -2}, "other": "earliest"}`, with -2 for '
        "earliest, -1 for latest (stream); committed requires group.id.",
        Derived("batch: earliest; stream: committed with group.id, else latest"),
    ),
    Option(
        "endingOffsets", kinds.ENDING_OFFSETS, _READ, "End (exclusive), as for startingOffsets; -1 is latest.", "latest"
    ),
    Option(
        "startingTimestamp", kinds.TIMESTAMP, _READS, "Start at the first record that is not older; overrides other starts."
    ),
    Option(
        "endingTimestamp", kinds.TIMESTAMP, _READ, "End before the first record that is not older, or at the log's end."
    ),
    Option("startingOffsetsByTimestamp", kinds.TIMESTAMPS, _READS, "The same per partition; overrides startingOffsets."),
    Option("endingOffsetsByTimestamp", kinds.TIMESTAMPS, _READ, "The same per partition; overrides endingOffsets."),
    Option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        _READS,
        "Behaviour for partitions without a record at or after the starting timestamp.",
        "error",
    ),
    Option(
        "auto.offset.reset",
        kinds.RESET_POLICY,
        _READS,
        "Where partitions without a committed offset start. If set, also those that startingOffsets does not name.",
        Derived("latest"),
    ),
    # How to read
    Option("failOnDataLoss", BOOLEAN, _READS, "Fail if records of the range are gone; if false, log a warning.", "true"),
    Option("minPartitions", integer(1), _READS, "Approximate minimum of input partitions: large ones are split."),
    Option("maxRecordsPerPartition", integer(1, "records"), _READS, "Maximum of offsets in an input partition."),
    Option(
        "minRecordsPerPartition", integer(1, "records"), _READS, "Minimum of offsets; small Kafka partitions share a task."
    ),
    Option(
        "pushFilters",
        BOOLEAN,
        _READ,
        "Narrow the plan by the query's filters; only for a frame that is used in one query, see docs/reading.md.",
        "false",
    ),
    Option(
        "includeHeaders", BOOLEAN, _ALL, "Read: add the column headers. Write: no effect, it is always written.", "false"
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs", integer(1, "ms"), _READS, "Maximum wait of a task for a broker's data.", "120000"
    ),
    Option("fetchOffset.numRetries", integer(0), _READS, "Retries of failed requests during planning.", "3"),
    Option("fetchOffset.retryIntervalMs", integer(0, "ms"), _READS, "Wait before each of these retries.", "1000"),
    Option(
        "offlinePartitions", choice(fail=False, skip=True), _READS, "Fail, or skip partitions without a leader.", "fail"
    ),
    Option(
        "groupIdPrefix", text(), _READS, "The group.id that tasks' consumers carry, unless kafka.group.id is set.", "zkafka"
    ),
    # Group
    Option(
        "group.id",
        text(),
        _ALL,
        "The consumer group: a stream joins it, see [Consumer groups](groups.md); a batch reads its offsets "
        "(startingOffsets=committed), or commits them (commitOffsets).",
    ),
    Option(
        "groupMembership",
        choice("auto", "zookeeper", "kafka", "none"),
        STREAM,
        "Who coordinates the group that a stream with group.id joins. auto: ZooKeeper with zookeeper.connect, unless the "
        "cluster has left it, else Kafka; none: join no group, read all partitions and only commit.",
        "auto",
    ),
    Option(
        "group.protocol",
        choice("classic", "consumer"),
        STREAM,
        "The protocol of a group that Kafka coordinates; consumer is KIP-848's, of brokers from 4.0 on.",
        "classic",
    ),
    Option(
        "group.instance.id",
        text(),
        STREAM,
        "Name of a static member, which keeps its partitions over a restart within its session timeout.",
    ),
    Option(
        "session.timeout.ms",
        integer(1, "ms"),
        STREAM,
        "Time after which Kafka expels a member without heartbeats; with group.protocol=classic.",
        "45000",
    ),
    Option(
        "consumer.id", text(), STREAM, "Member name: /consumers/<group>/ids/<group>_<consumer.id>.", Derived("generated")
    ),
    Option("consumer.threads", integer(1), STREAM, "Threads for which the member claims partitions: its weight.", "1"),
    Option(
        "partition.assignment.strategy",
        choice(*STRATEGIES, "cooperative-sticky"),
        STREAM,
        "How partitions are assigned; the same for all members. roundrobin-0.8 is that of consumers up to 0.11, sticky "
        "requires that all members use this package; Kafka's groups have range, roundrobin and cooperative-sticky. See "
        "[Consumer groups](groups.md).",
        Derived("range in ZooKeeper, cooperative-sticky in Kafka"),
    ),
    Option(
        "offsets.storage",
        choice(zookeeper=False, kafka=True),
        _ALL,
        "Where the group's offsets are stored: /consumers/<group>/offsets, or __consumer_offsets, as always with "
        "groupMembership=kafka.",
        Derived("zookeeper; kafka with groupMembership=kafka"),
    ),
    Option(
        "dual.commit.enabled",
        BOOLEAN,
        _ALL,
        "Commit to ZooKeeper, too, and read the larger of both, while a group migrates to offsets.storage=kafka.",
        Derived("true with offsets.storage=kafka and zookeeper.connect"),
    ),
    Option("rebalance.max.retries", integer(1), STREAM, "Failed attempts to claim partitions before a warning.", "4"),
    Option("rebalance.backoff.ms", integer(1, "ms"), STREAM, "Approximate wait between two attempts.", "2000"),
    Option(
        "rebalance.hold.ms",
        integer(0, "ms"),
        STREAM,
        "Maximum time for which a member keeps revoked partitions to finish the micro-batch that reads them.",
        Derived("half of rebalance.max.retries x rebalance.backoff.ms; in Kafka a tenth of kafka.max.poll.interval.ms"),
    ),
    # What to write
    Option("topic", TOPIC, _WRITE, "The topic of all rows; takes precedence over the column topic."),
    Option(
        "partitioner", choice(*PARTITIONERS), _WRITE, "How keys map to partitions; murmur2 is Java's default.", "murmur2"
    ),
    Option(
        "commitOffsets",
        kinds.OFFSETS_TO_COMMIT,
        _WRITE,
        "Offsets to commit for the group (of the next records to read) once every row is acknowledged. Requires group.id.",
    ),
    Option(
        "commitOwner",
        kinds.CLAIM_OWNER,
        _WRITE,
        "The committing member of the group, as in `commit_options` of `ConsumerGroup`. Without it, no "
        "partition that commitOffsets names may have an owner.",
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
        "Topic under whose partitions an exactly-once write records what it wrote; it holds no records of the ledger. "
        "Change it only while no micro-batch or job is interrupted.",
        Derived("the option topic"),
    ),
    Option(
        "writerName",
        kinds.ID_PART,
        _WRITE,
        "Name of an exactly-once write in foreachBatch, where two of them write to one topic, or of a batch job. "
        "Change it only while no micro-batch or job is interrupted.",
        Derived("the option topic"),
    ),
    Option(
        "batchId",
        integer(0),
        _WRITE,
        "Number of a named exactly-once batch write, the same when it is run again: in foreachBatch the number that Spark "
        "passes to the function. Required under Spark Connect, in threads and in batch jobs; see [Exactly "
        "once](exactly-once.md#batch-jobs).",
    ),
    # How much a micro-batch reads
    Option("maxOffsetsPerTrigger", integer(1, "records"), STREAM, "Approximate maximum of records in a micro-batch."),
    Option("maxBytesPerTrigger", integer(1, "bytes"), STREAM, "The same in bytes of keys, values and headers, estimated."),
    Option("minOffsetsPerTrigger", integer(1, "records"), STREAM, "Minimum of new records before a micro-batch begins."),
    Option("maxTriggerDelay", kinds.DURATION, STREAM, "Maximum wait for minOffsetsPerTrigger.", "15m"),
)

BY_NAME = {option.name.lower(): option for option in TABLE}
_CONNECTION_NAMES = frozenset(option.name.lower() for option in CONNECTION)


def is_connection_option(name: str) -> bool:
    """True if an option, in any case, concerns the connection, and applies to everything that a group reads and writes.

    >>> is_connection_option("transport"), is_connection_option("kafka.ssl.ca.pem"), is_connection_option("kafka.acks")
    (True, True, False)
    """
    lower = name.lower()
    if lower in _CONNECTION_NAMES:
        return True
    return lower.startswith("kafka.") and is_of_connection(lower.removeprefix("kafka."))
