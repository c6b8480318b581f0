"""ONE table of options: every name, what it takes, its default, where it belongs, what it does.

docs/options.md is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark_zkafka.options.client_properties import is_of_connection
from pyspark_zkafka.protocol.assignors import STRATEGIES
from pyspark_zkafka.protocol.partitioners import PARTITIONERS

__all__ = ["BY_NAME", "CONNECTION", "STREAM", "TABLE", "VIEWS", "Option", "Scope", "is_connection_option", "table_markdown"]

VIEWS = (
    "brokers",
    "topics",
    "partitions",
    "controller",
    "groups",
    "members",
    "owners",
    "offsets",
    "admin",
    "configs",
)
Scope = Literal["read", "write", "stream"]


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table: what an option is called, takes, is by default, and does."""

    name: str
    takes: str
    default: str
    scopes: tuple[Scope, ...]
    doc: str


_ALL: tuple[Scope, ...] = ("read", "stream", "write")
_READS: tuple[Scope, ...] = ("read", "stream")
_READ: tuple[Scope, ...] = ("read",)
_WRITE: tuple[Scope, ...] = ("write",)
STREAM: tuple[Scope, ...] = ("stream",)

CONNECTION: tuple[Option, ...] = (
    Option(
        "zookeeper.connect",
        "host:port[,host:port...][/chroot]",
        "",
        _ALL,
        "The ensemble, and the chroot that the brokers use.",
    ),
    Option(
        "zookeeper.session.timeout.ms",
        "integer > 0, ms",
        "6000",
        _ALL,
        "After which ZooKeeper ends a lost session; it keeps this within its own minSessionTimeout and maxSessionTimeout.",
    ),
    Option(
        "zookeeper.connection.timeout.ms",
        "integer > 0, ms",
        "zookeeper.session.timeout.ms",
        _ALL,
        "How long to wait for a connection to the ensemble.",
    ),
    Option(
        "zookeeper.auth",
        "digest:user:password or sasl:DIGEST-MD5:user:password",
        "",
        _ALL,
        "How to authenticate with ZooKeeper; sasl needs the extra pyspark-zkafka[sasl]. Secret.",
    ),
    Option(
        "zookeeper.ssl.client.enable", "true or false", "false", _ALL, "Use TLS to ZooKeeper. See [Security](security.md)."
    ),
    Option(
        "zookeeper.ssl.truststore.location",
        "PEM file",
        "the system's authorities",
        _ALL,
        "The authorities that ZooKeeper's certificate is checked by.",
    ),
    Option(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "https, or none or nothing",
        "https",
        _ALL,
        "Whether ZooKeeper's certificate must bear the host's name.",
    ),
    Option("zookeeper.ssl.keystore.location", "PEM file", "", _ALL, "The client's certificate and private key."),
    Option("zookeeper.ssl.keystore.password", "text", "", _ALL, "The private key's password. Secret."),
    Option(
        "kafka.bootstrap.servers",
        "host:port[,host:port...]",
        "the brokers registered in ZooKeeper",
        _ALL,
        "Brokers to begin with; by itself it serves clusters without ZooKeeper (KRaft). "
        "Also as kafka.metadata.broker.list.",
    ),
    Option(
        "listener.name",
        "text",
        "the first listener with kafka.security.protocol",
        _ALL,
        "Which of the registered listeners of each broker to use.",
    ),
    Option(
        "kafka.*",
        "text",
        "",
        _ALL,
        "A client property for librdkafka; Java's spellings are translated. See [Client properties](kafka-properties.md).",
    ),
    Option(
        "nativePath",
        "auto, on or off",
        "auto",
        _ALL,
        "Whether records go the compiled way. auto: where it was built; on: an error where it was not; off: pure Python.",
    ),
)
"""Where and how to connect. Of the client properties in ``kafka.*``, only some are of these: see `is_connection_option`."""

TABLE: tuple[Option, ...] = (
    *CONNECTION,
    # What to read
    Option("subscribe", "topic[,topic...]", "", _READS, "Topics to read; exactly one of this and the next three."),
    Option("subscribePattern", "regular expression", "", _READS, "Topics to read: those whose whole name matches."),
    Option(
        "subscribeExceptPattern",
        "regular expression",
        "",
        _READS,
        "Topics to read: all whose whole name does not match, but Kafka's internal ones (the old consumer's black list).",
    ),
    Option("assign", 'JSON {"topic": [0, 1]}', "", _READS, "Partitions to read."),
    Option(
        "view",
        " or ".join(VIEWS),
        "",
        _READ,
        "Show the cluster's state instead of records; subscribe or subscribePattern then restrict the topics, "
        "group.id the groups. See [Views](views.md).",
    ),
    # Where from and to
    Option(
        "startingOffsets",
        "earliest, latest (stream), committed, or JSON",
        "batch: earliest; stream: committed with group.id, else latest",
        _READS,
        'Where to start; a stream that has a checkpoint goes on from it. JSON: `{"topic": {"0": 23, "1": -2}, "other": '
        '"earliest"}`, with -2 for earliest, -1 for latest (stream); committed needs group.id.',
    ),
    Option(
        "endingOffsets",
        "latest, or JSON",
        "latest",
        _READ,
        "Where to end (exclusive). JSON as for startingOffsets, with -1 for latest.",
    ),
    Option(
        "startingTimestamp",
        "integer, ms since the epoch",
        "",
        _READS,
        "Start at the first record that is not older; wins over the two below and startingOffsets.",
    ),
    Option(
        "endingTimestamp",
        "integer, ms since the epoch",
        "",
        _READ,
        "End before the first record that is not older; at the log's end if there is none.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        'JSON {"topic": {"0": ms}}',
        "",
        _READS,
        "The same by partition; wins over startingOffsets.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        'JSON {"topic": {"0": ms}}',
        "",
        _READ,
        "The same by partition; wins over endingOffsets.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "error or latest",
        "error",
        _READS,
        "What to do where no record is as late as the starting timestamp.",
    ),
    Option(
        "auto.offset.reset",
        "earliest (smallest), latest (largest) or error",
        "latest",
        _READS,
        "Where a partition starts that has no committed offset. "
        "If set, also where one starts that startingOffsets does not name.",
    ),
    # How to read
    Option(
        "failOnDataLoss",
        "true or false",
        "true",
        _READS,
        "Whether records that are gone from the range end the query, or are warned of.",
    ),
    Option(
        "minPartitions",
        "integer > 0",
        "",
        _READS,
        "At least about so many Spark partitions: large Kafka partitions are split.",
    ),
    Option("maxRecordsPerPartition", "integer > 0, records", "", _READS, "At most so many offsets in one Spark partition."),
    Option(
        "minRecordsPerPartition",
        "integer > 0, records",
        "",
        _READS,
        "At least so many offsets in one Spark partition, if there are: it reads several Kafka partitions, one after the "
        "other. For many small ones, or small micro-batches; each task has its cost.",
    ),
    Option(
        "includeHeaders",
        "true or false",
        "false",
        _ALL,
        "Read: add the column headers. Write: accepted for likeness; headers are written if the column is there.",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        "integer > 0, ms",
        "120000",
        _READS,
        "How long a task waits for a broker that gives nothing before it fails.",
    ),
    Option("fetchOffset.numRetries", "integer >= 0", "3", _READS, "How often planning asks again after a failed request."),
    Option(
        "fetchOffset.retryIntervalMs", "integer >= 0, ms", "1000", _READS, "How long planning waits between those requests."
    ),
    Option(
        "offlinePartitions",
        "fail or skip",
        "fail",
        _READS,
        "Whether a partition without leader fails the plan, or is left out with a warning.",
    ),
    Option(
        "groupIdPrefix",
        "text",
        "zkafka",
        _READS,
        "The group.id that the consumers of tasks carry, unless kafka.group.id is set; they join no group, commit nothing.",
    ),
    # Group
    Option(
        "group.id",
        "text",
        "",
        _ALL,
        "The consumer group: a stream joins it, see [Consumer groups](groups.md); a batch reads its offsets "
        "(startingOffsets=committed), or commits them (commitOffsets).",
    ),
    Option(
        "groupMembership",
        "join or none",
        "join",
        STREAM,
        "Whether a stream with group.id becomes a member in ZooKeeper, or reads all partitions and only commits.",
    ),
    Option(
        "consumer.id",
        "text",
        "generated, from the host's name, the time and a random number",
        STREAM,
        "The member's name: /consumers/<group>/ids/<group>_<consumer.id>.",
    ),
    Option(
        "consumer.threads", "integer > 0", "1", STREAM, "For how many threads the member claims partitions: its weight."
    ),
    Option(
        "partition.assignment.strategy",
        " or ".join(STRATEGIES),
        "range",
        STREAM,
        "Who gets which partition; all members must have the same. roundrobin-0.8 is that of consumers up to 0.11, sticky "
        "needs members of this package alone. See [Consumer groups](groups.md).",
    ),
    Option(
        "offsets.storage",
        "zookeeper or kafka",
        "zookeeper",
        _ALL,
        "Where the group's offsets are: /consumers/<group>/offsets, or __consumer_offsets.",
    ),
    Option(
        "dual.commit.enabled",
        "true or false",
        "true with offsets.storage=kafka and zookeeper.connect",
        _ALL,
        "Commit to ZooKeeper, too, and read the larger of both, while a group moves to offsets.storage=kafka.",
    ),
    Option(
        "rebalance.max.retries",
        "integer > 0",
        "4",
        STREAM,
        "After how many tries to claim its partitions a member warns of who holds them; it goes on trying.",
    ),
    Option("rebalance.backoff.ms", "integer > 0, ms", "2000", STREAM, "About how long to wait between two tries."),
    Option(
        "rebalance.hold.ms",
        "integer >= 0, ms",
        "half of rebalance.max.retries x rebalance.backoff.ms",
        STREAM,
        "How long a member may keep partitions that it must give away, to finish the micro-batch that reads them.",
    ),
    # What to write
    Option("topic", "text", "", _WRITE, "The topic of all rows; wins over the column topic."),
    Option(
        "partitioner",
        " or ".join(PARTITIONERS),
        "murmur2",
        _WRITE,
        "How a row's key chooses its partition; murmur2 is what Java producers do.",
    ),
    Option(
        "commitOffsets",
        'JSON {"topic": {"0": 23}}',
        "",
        _WRITE,
        "The next offsets to read, committed to the group in ZooKeeper after every row is acknowledged, and not otherwise. "
        "Needs group.id.",
    ),
    Option(
        "commitOwner",
        "member@session",
        "",
        _WRITE,
        "The group's member that commits: what `ConsumerGroup` puts into its `commit_options`. Without it, no "
        "partition that commitOffsets names may have an owner.",
    ),
    # How much a micro-batch reads
    Option(
        "maxOffsetsPerTrigger",
        "integer > 0, records",
        "",
        STREAM,
        "At most about so many records in a micro-batch, shared by the partitions in proportion to their backlogs.",
    ),
    Option(
        "maxBytesPerTrigger",
        "integer > 0, bytes",
        "",
        STREAM,
        "The same in bytes of keys, values and headers, by the measured mean size of each partition's records.",
    ),
    Option(
        "minOffsetsPerTrigger",
        "integer > 0, records",
        "",
        STREAM,
        "Wait for so many new records before a micro-batch begins.",
    ),
    Option("maxTriggerDelay", "duration, e.g. 15m", "15m", STREAM, "With minOffsetsPerTrigger: do not wait for longer."),
)

BY_NAME = {option.name.lower(): option for option in TABLE}
_CONNECTION_NAMES = frozenset(option.name.lower() for option in CONNECTION)


def is_connection_option(name: str) -> bool:
    """Whether an option, in any case, says where or how to connect: what holds for all that a group reads and writes.

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
        takes = o.takes.replace("|", "\\|")
        rows.append(f"| `{o.name}` | {takes} | {o.default or '-'} | {', '.join(o.scopes)} | {o.doc} |")
    return "\n".join(rows) + "\n"
