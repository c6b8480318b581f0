"""ONE table of options: every name, what it takes, its default, where it belongs, what it does.

docs/options.md is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark_zkafka.protocol.partitioners import PARTITIONERS

__all__ = ["BY_NAME", "STREAM", "TABLE", "VIEWS", "Option", "Scope", "table_markdown"]

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


_BOTH: tuple[Scope, ...] = ("read", "write")
_READ: tuple[Scope, ...] = ("read",)
_WRITE: tuple[Scope, ...] = ("write",)
STREAM: tuple[Scope, ...] = ("stream",)

TABLE: tuple[Option, ...] = (
    # Where to connect
    Option(
        "zookeeper.connect",
        "host:port[,host:port...][/chroot]",
        "",
        _BOTH,
        "The ensemble, and the chroot that the brokers use.",
    ),
    Option("zookeeper.session.timeout.ms", "integer > 0, ms", "6000", _BOTH, "After which ZooKeeper ends a lost session."),
    Option(
        "zookeeper.connection.timeout.ms",
        "integer > 0, ms",
        "zookeeper.session.timeout.ms",
        _BOTH,
        "How long to wait for a connection to the ensemble.",
    ),
    Option(
        "zookeeper.auth",
        "digest:user:password or sasl:DIGEST-MD5:user:password",
        "",
        _BOTH,
        "How to authenticate with ZooKeeper; sasl needs the extra pyspark-zkafka[sasl]. Secret.",
    ),
    Option(
        "zookeeper.ssl.client.enable", "true or false", "false", _BOTH, "Use TLS to ZooKeeper. See [Security](security.md)."
    ),
    Option(
        "zookeeper.ssl.truststore.location",
        "PEM file",
        "the system's authorities",
        _BOTH,
        "The authorities that ZooKeeper's certificate is checked by.",
    ),
    Option(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "https, or none or nothing",
        "https",
        _BOTH,
        "Whether ZooKeeper's certificate must bear the host's name.",
    ),
    Option("zookeeper.ssl.keystore.location", "PEM file", "", _BOTH, "The client's certificate and private key."),
    Option("zookeeper.ssl.keystore.password", "text", "", _BOTH, "The private key's password. Secret."),
    Option(
        "kafka.bootstrap.servers",
        "host:port[,host:port...]",
        "the brokers registered in ZooKeeper",
        _BOTH,
        "Brokers to begin with; by itself it serves clusters without ZooKeeper (KRaft).",
    ),
    Option(
        "listener.name",
        "text",
        "the first listener with kafka.security.protocol",
        _BOTH,
        "Which of the registered listeners of each broker to use.",
    ),
    Option(
        "kafka.*",
        "text",
        "",
        _BOTH,
        "A client property for librdkafka; Java's spellings are translated. See [Client properties](kafka-properties.md).",
    ),
    # What to read
    Option(
        "subscribe", "topic[,topic...]", "", _READ, "Topics to read; exactly one of subscribe, subscribePattern and assign."
    ),
    Option("subscribePattern", "regular expression", "", _READ, "Topics to read: those whose whole name matches."),
    Option("assign", 'JSON {"topic": [0, 1]}', "", _READ, "Partitions to read."),
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
        "earliest, committed, or JSON",
        "earliest",
        _READ,
        'Where to start. JSON: `{"topic": {"0": 23, "1": -2}, "other": "earliest"}`, with -2 for earliest; '
        "committed needs group.id.",
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
        _READ,
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
        _READ,
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
        _READ,
        "What to do where no record is as late as the starting timestamp.",
    ),
    Option(
        "auto.offset.reset",
        "earliest (smallest), latest (largest) or error",
        "latest",
        _READ,
        "Where a partition starts that has no committed offset. "
        "If set, also where one starts that startingOffsets does not name.",
    ),
    # How to read
    Option(
        "failOnDataLoss",
        "true or false",
        "true",
        _READ,
        "Whether records that are gone from the range end the query, or are warned of.",
    ),
    Option(
        "minPartitions",
        "integer > 0",
        "",
        _READ,
        "At least about so many Spark partitions: large Kafka partitions are split.",
    ),
    Option("maxRecordsPerPartition", "integer > 0, records", "", _READ, "At most so many offsets in one Spark partition."),
    Option(
        "includeHeaders",
        "true or false",
        "false",
        _BOTH,
        "Read: add the column headers. Write: accepted for likeness; headers are written if the column is there.",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        "integer > 0, ms",
        "120000",
        _READ,
        "How long a task waits for a broker that gives nothing before it fails.",
    ),
    Option("fetchOffset.numRetries", "integer >= 0", "3", _READ, "How often planning asks again after a failed request."),
    Option(
        "fetchOffset.retryIntervalMs", "integer >= 0, ms", "1000", _READ, "How long planning waits between those requests."
    ),
    Option(
        "offlinePartitions",
        "fail or skip",
        "fail",
        _READ,
        "Whether a partition without leader fails the plan, or is left out with a warning.",
    ),
    Option(
        "groupIdPrefix",
        "text",
        "zkafka",
        _READ,
        "The group.id that the consumers of tasks carry, unless kafka.group.id is set; they join no group, commit nothing.",
    ),
    # Group
    Option(
        "group.id",
        "text",
        "",
        _BOTH,
        "The ZooKeeper consumer group whose offsets are read (startingOffsets=committed) or committed (commitOffsets).",
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
        "Needs group.id and zookeeper.connect.",
    ),
    # Streaming only
    Option(
        "maxOffsetsPerTrigger",
        "integer > 0",
        "",
        STREAM,
        "Belongs to streaming; a batch read ignores it with a warning, as Spark's own source does.",
    ),
    Option("minOffsetsPerTrigger", "integer > 0", "", STREAM, "Likewise."),
    Option("maxTriggerDelay", "duration", "", STREAM, "Likewise."),
)

BY_NAME = {option.name.lower(): option for option in TABLE}


def table_markdown() -> str:
    """The table as Markdown, for docs/options.md."""
    rows = ["| option | takes | default | for | what it does |", "|---|---|---|---|---|"]
    for o in TABLE:
        takes = o.takes.replace("|", "\\|")
        rows.append(f"| `{o.name}` | {takes} | {o.default or '-'} | {', '.join(o.scopes)} | {o.doc} |")
    return "\n".join(rows) + "\n"
