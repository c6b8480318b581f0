"""The table of options: each one's name, kind of values, default, scopes and documentation.

docs/options.md is generated from it, and the parser reads kinds and defaults from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pyspark_zkafka.options import kinds
from pyspark_zkafka.options.client_properties import is_of_connection
from pyspark_zkafka.options.kinds import BOOLEAN, PEM_FILE, Choice, Integer, Text, words
from pyspark_zkafka.protocol.assignors import STRATEGIES
from pyspark_zkafka.protocol.partitioners import PARTITIONERS

__all__ = ["BY_NAME", "STREAM", "TABLE", "VIEWS", "Derived", "Option", "Scope", "is_connection_option", "table_markdown"]

VIEWS = ("brokers", "topics", "partitions", "controller", "groups", "members", "owners", "offsets", "admin", "configs")
Scope = Literal["read", "write", "stream"]


@dataclass(frozen=True, slots=True)
class Derived:
    """A default that depends on other settings, in words; the code that needs it computes it."""

    words: str


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table: an option's name, kind of values, default, scopes and documentation.

    `default` is written as a user would write it, and None where there is none. The value of a `secret` option is never
    shown.
    """

    name: str
    kind: kinds.Kind
    default: str | Derived | None
    scopes: tuple[Scope, ...]
    doc: str
    secret: bool = False

    def default_value(self) -> Any:
        """The default as the option's kind reads it; None where there is none, or where it is derived."""
        return self.kind.read(self.name, self.default) if isinstance(self.default, str) else None


_ALL: tuple[Scope, ...] = ("read", "stream", "write")
_READS: tuple[Scope, ...] = ("read", "stream")
_READ: tuple[Scope, ...] = ("read",)
_WRITE: tuple[Scope, ...] = ("write",)
STREAM: tuple[Scope, ...] = ("stream",)

CONNECTION: tuple[Option, ...] = (
    Option("zookeeper.connect", kinds.ENSEMBLE, None, _ALL, "The ensemble, and the chroot that the brokers use."),
    Option(
        "zookeeper.session.timeout.ms",
        Integer(1, "ms"),
        "6000",
        _ALL,
        "After which ZooKeeper ends a lost session; it keeps this within its own minSessionTimeout and maxSessionTimeout.",
    ),
    Option(
        "zookeeper.connection.timeout.ms",
        Integer(1, "ms"),
        Derived("zookeeper.session.timeout.ms"),
        _ALL,
        "How long to wait for a connection to the ensemble.",
    ),
    Option(
        "zookeeper.auth",
        kinds.ZOOKEEPER_AUTH,
        None,
        _ALL,
        "How to authenticate with ZooKeeper; sasl needs the extra pyspark-zkafka[sasl].",
        secret=True,
    ),
    Option("zookeeper.ssl.client.enable", BOOLEAN, "false", _ALL, "Use TLS to ZooKeeper. See [Security](security.md)."),
    Option(
        "zookeeper.ssl.truststore.location",
        PEM_FILE,
        Derived("the system's authorities"),
        _ALL,
        "The authorities that ZooKeeper's certificate is checked by.",
    ),
    Option(
        "zookeeper.ssl.endpoint.identification.algorithm",
        kinds.HOST_NAME_CHECK,
        "https",
        _ALL,
        "Whether ZooKeeper's certificate must bear the host's name.",
    ),
    Option("zookeeper.ssl.keystore.location", PEM_FILE, None, _ALL, "The client's certificate and private key."),
    Option("zookeeper.ssl.keystore.password", Text(), None, _ALL, "The private key's password.", secret=True),
    Option(
        "kafka.bootstrap.servers",
        Text("host:port[,host:port...]"),
        Derived("the brokers registered in ZooKeeper"),
        _ALL,
        "Brokers to begin with; by itself it serves clusters without ZooKeeper (KRaft). "
        "Also as kafka.metadata.broker.list.",
    ),
    Option(
        "listener.name",
        Text(),
        Derived("the first listener with kafka.security.protocol"),
        _ALL,
        "Which of the registered listeners of each broker to use.",
    ),
    Option(
        "kafka.*",
        Text(),
        None,
        _ALL,
        "A client property for librdkafka; Java's spellings are translated. See [Client properties](kafka-properties.md).",
    ),
    Option(
        "nativePath",
        Choice({"auto": None, "on": True, "off": False}, "auto, on or off"),
        "auto",
        _ALL,
        "Whether records go the compiled way. auto: where it was built; on: an error where it was not; off: pure Python.",
    ),
)
"""Options of the connection. Of the client properties in ``kafka.*``, some are, too: see `is_connection_option`."""

TABLE: tuple[Option, ...] = (
    *CONNECTION,
    # What to read
    Option("subscribe", Text("topic[,topic...]"), None, _READS, "Topics to read; exactly one of this and the next three."),
    Option("subscribePattern", kinds.PATTERN, None, _READS, "Topics to read: those whose whole name matches."),
    Option(
        "subscribeExceptPattern",
        kinds.EXCEPT_PATTERN,
        None,
        _READS,
        "Topics to read: all whose whole name does not match, but Kafka's internal ones (the old consumer's black list).",
    ),
    Option("assign", kinds.PARTITIONS, None, _READS, "Partitions to read."),
    Option(
        "view",
        words(*VIEWS),
        None,
        _READ,
        "Show the cluster's state instead of records; subscribe or subscribePattern then restrict the topics, "
        "group.id the groups. See [Views](views.md).",
    ),
    # Where from and to
    Option(
        "startingOffsets",
        kinds.STARTING_OFFSETS,
        Derived("batch: earliest; stream: committed with group.id, else latest"),
        _READS,
        'Where to start; a stream that has a checkpoint goes on from it. JSON: `{"topic": {"0": 23, "1": -2}, "other": '
        '"earliest"}`, with -2 for earliest, -1 for latest (stream); committed needs group.id.',
    ),
    Option(
        "endingOffsets",
        kinds.ENDING_OFFSETS,
        "latest",
        _READ,
        "Where to end (exclusive). JSON as for startingOffsets, with -1 for latest.",
    ),
    Option(
        "startingTimestamp",
        kinds.TIMESTAMP,
        None,
        _READS,
        "Start at the first record that is not older; wins over the two below and startingOffsets.",
    ),
    Option(
        "endingTimestamp",
        kinds.TIMESTAMP,
        None,
        _READ,
        "End before the first record that is not older; at the log's end if there is none.",
    ),
    Option(
        "startingOffsetsByTimestamp", kinds.TIMESTAMPS, None, _READS, "The same by partition; wins over startingOffsets."
    ),
    Option("endingOffsetsByTimestamp", kinds.TIMESTAMPS, None, _READ, "The same by partition; wins over endingOffsets."),
    Option(
        "startingOffsetsByTimestampStrategy",
        words("error", "latest"),
        "error",
        _READS,
        "What to do where no record is as late as the starting timestamp.",
    ),
    Option(
        "auto.offset.reset",
        kinds.RESET_POLICY,
        Derived("latest"),
        _READS,
        "Where a partition starts that has no committed offset. "
        "If set, also where one starts that startingOffsets does not name.",
    ),
    # How to read
    Option(
        "failOnDataLoss",
        BOOLEAN,
        "true",
        _READS,
        "Whether records that are gone from the range end the query, or are warned of.",
    ),
    Option(
        "minPartitions",
        Integer(1),
        None,
        _READS,
        "At least about so many Spark partitions: large Kafka partitions are split.",
    ),
    Option(
        "maxRecordsPerPartition", Integer(1, "records"), None, _READS, "At most so many offsets in one Spark partition."
    ),
    Option(
        "minRecordsPerPartition",
        Integer(1, "records"),
        None,
        _READS,
        "At least so many offsets in one Spark partition, if there are: it reads several Kafka partitions, one after the "
        "other. For many small ones, or small micro-batches; each task has its cost.",
    ),
    Option(
        "includeHeaders",
        BOOLEAN,
        "false",
        _ALL,
        "Read: add the column headers. Write: accepted for likeness; headers are written if the column is there.",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        Integer(1, "ms"),
        "120000",
        _READS,
        "How long a task waits for a broker that gives nothing before it fails.",
    ),
    Option("fetchOffset.numRetries", Integer(0), "3", _READS, "How often planning asks again after a failed request."),
    Option(
        "fetchOffset.retryIntervalMs", Integer(0, "ms"), "1000", _READS, "How long planning waits between those requests."
    ),
    Option(
        "offlinePartitions",
        Choice({"fail": False, "skip": True}),
        "fail",
        _READS,
        "Whether a partition without leader fails the plan, or is left out with a warning.",
    ),
    Option(
        "groupIdPrefix",
        Text(),
        "zkafka",
        _READS,
        "The group.id that the consumers of tasks carry, unless kafka.group.id is set; they join no group, commit nothing.",
    ),
    # Group
    Option(
        "group.id",
        Text(),
        None,
        _ALL,
        "The consumer group: a stream joins it, see [Consumer groups](groups.md); a batch reads its offsets "
        "(startingOffsets=committed), or commits them (commitOffsets).",
    ),
    Option(
        "groupMembership",
        Choice({"join": True, "none": False}),
        "join",
        STREAM,
        "Whether a stream with group.id becomes a member in ZooKeeper, or reads all partitions and only commits.",
    ),
    Option(
        "consumer.id",
        Text(),
        Derived("generated, from the host's name, the time and a random number"),
        STREAM,
        "The member's name: /consumers/<group>/ids/<group>_<consumer.id>.",
    ),
    Option("consumer.threads", Integer(1), "1", STREAM, "For how many threads the member claims partitions: its weight."),
    Option(
        "partition.assignment.strategy",
        words(*STRATEGIES),
        "range",
        STREAM,
        "Who gets which partition; all members must have the same. roundrobin-0.8 is that of consumers up to 0.11, sticky "
        "needs members of this package alone. See [Consumer groups](groups.md).",
    ),
    Option(
        "offsets.storage",
        Choice({"zookeeper": False, "kafka": True}),
        "zookeeper",
        _ALL,
        "Where the group's offsets are: /consumers/<group>/offsets, or __consumer_offsets.",
    ),
    Option(
        "dual.commit.enabled",
        BOOLEAN,
        Derived("true with offsets.storage=kafka and zookeeper.connect"),
        _ALL,
        "Commit to ZooKeeper, too, and read the larger of both, while a group moves to offsets.storage=kafka.",
    ),
    Option(
        "rebalance.max.retries",
        Integer(1),
        "4",
        STREAM,
        "After how many tries to claim its partitions a member warns of who holds them; it goes on trying.",
    ),
    Option("rebalance.backoff.ms", Integer(1, "ms"), "2000", STREAM, "About how long to wait between two tries."),
    Option(
        "rebalance.hold.ms",
        Integer(0, "ms"),
        Derived("half of rebalance.max.retries x rebalance.backoff.ms"),
        STREAM,
        "How long a member may keep partitions that it must give away, to finish the micro-batch that reads them.",
    ),
    # What to write
    Option("topic", Text(), None, _WRITE, "The topic of all rows; wins over the column topic."),
    Option(
        "partitioner",
        words(*PARTITIONERS),
        "murmur2",
        _WRITE,
        "How a row's key chooses its partition; murmur2 is what Java producers do.",
    ),
    Option(
        "commitOffsets",
        kinds.OFFSETS_TO_COMMIT,
        None,
        _WRITE,
        "The next offsets to read, committed to the group in ZooKeeper after every row is acknowledged, and not otherwise. "
        "Needs group.id.",
    ),
    Option(
        "commitOwner",
        kinds.CLAIM_OWNER,
        None,
        _WRITE,
        "The group's member that commits: what `ConsumerGroup` puts into its `commit_options`. Without it, no "
        "partition that commitOffsets names may have an owner.",
    ),
    # How much a micro-batch reads
    Option(
        "maxOffsetsPerTrigger",
        Integer(1, "records"),
        None,
        STREAM,
        "At most about so many records in a micro-batch, shared by the partitions in proportion to their backlogs.",
    ),
    Option(
        "maxBytesPerTrigger",
        Integer(1, "bytes"),
        None,
        STREAM,
        "The same in bytes of keys, values and headers, by the measured mean size of each partition's records.",
    ),
    Option(
        "minOffsetsPerTrigger",
        Integer(1, "records"),
        None,
        STREAM,
        "Wait for so many new records before a micro-batch begins.",
    ),
    Option("maxTriggerDelay", kinds.DURATION, "15m", STREAM, "With minOffsetsPerTrigger: do not wait for longer."),
)

BY_NAME = {option.name.lower(): option for option in TABLE}
_CONNECTION_NAMES = frozenset(option.name.lower() for option in CONNECTION)


def is_connection_option(name: str) -> bool:
    """True if an option, in any case, concerns the connection: it then applies to all that a group reads and writes.

    >>> is_connection_option("nativePath"), is_connection_option("kafka.ssl.ca.pem"), is_connection_option("kafka.acks")
    (True, True, False)
    """
    lower = name.lower()
    if lower in _CONNECTION_NAMES:
        return True
    return lower.startswith("kafka.") and is_of_connection(lower.removeprefix("kafka."))


def table_markdown() -> str:
    """The table as Markdown, for docs/options.md."""
    rows = ["| option | takes | default | for | what it does |", "|---|---|---|---|---|"]
    for o in TABLE:
        takes = o.kind.takes.replace("|", "\\|")
        default = o.default.words if isinstance(o.default, Derived) else o.default or "-"
        doc = f"{o.doc} Secret." if o.secret else o.doc
        rows.append(f"| `{o.name}` | {takes} | {default} | {', '.join(o.scopes)} | {doc} |")
    return "\n".join(rows) + "\n"
