"""Frozen values into which options are parsed, and references in options to the environment and to files.

A field that is annotated with the name of an option takes the option's value unchanged (`OptionParser.fields`). The
parsers compute the other fields. `options.table` has the defaults of options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_origin, get_type_hints

from pyspark_zkafka.conditions import INVALID_OPTION
from pyspark_zkafka.model.nouns import ClaimOwner, OffsetStore, TopicPartition
from pyspark_zkafka.model.offsets import OffsetSpec, ResetPolicy
from pyspark_zkafka.model.planning import Listener, Subscription, TriggerLimits
from pyspark_zkafka.retries import Retry

Transport = Literal["auto", "direct", "librdkafka"]
"""The code that reads and writes records. `direct` is like `auto`, but requires the compiled library."""

GroupAcl = Literal["open", "readable", "creator"]
"""The ACL of a group's znodes.

`open` gives everybody all rights. `creator` gives all rights to clients with the creator's credentials, and no rights to
others. `readable` is like `creator`, but lets other clients read.
"""

GroupMembership = Literal["auto", "zookeeper", "kafka", "none"]
"""Who coordinates the group of a stream. `auto` is ZooKeeper until the cluster migrates to KRaft. `none` joins no group."""

ParseMode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
"""The result of a record that cannot be decoded: an error, a row with its bytes and the reason, or no row."""

SubjectStrategy = Literal["topic", "record", "topic-record"]
"""How subjects are named: by the topic, by the record type of the schema, or by both."""

DELIVERY_TIMEOUT_MS = 120_000
"""The delivery.timeout.ms of a write that does not set it. This is Java's default; librdkafka's default is 300,000."""

TRANSACTION_TIMEOUT_MS = 300_000
"""The transaction.timeout.ms of an exactly-once write that does not set it. A task must finish within this time.

An abandoned transaction blocks committed readers for at most this long. Brokers allow 900,000 by default; librdkafka's
default is 60,000.
"""

MAX_POLL_INTERVAL_MS = 300_000
"""The max.poll.interval.ms of a member that does not set it. It is the default of librdkafka and of Java."""

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")
_CONNECTION_PROPERTIES = (
    *("api.", "bootstrap.servers", "broker.", "client.dns", "client.id", "connections.", "debug", "enable.sasl"),
    *("enable.ssl", "https.", "log", "metadata.", "receive.message.max.bytes", "reconnect.", "retry.", "sasl."),
    *("security.", "socket.", "ssl.", "topic.metadata"),
)


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """TLS settings for an ensemble, with paths of PEM files. Without `truststore`, the system's authorities are trusted."""

    truststore: Annotated[str | None, "zookeeper.ssl.truststore.location"] = None
    keystore: Annotated[str | None, "zookeeper.ssl.keystore.location"] = None
    keystore_password: Annotated[str | None, "zookeeper.ssl.keystore.password"] = field(default=None, repr=False)
    check_hostname: Annotated[bool, "zookeeper.ssl.endpoint.identification.algorithm"] = True


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """Connection settings of an ensemble.

    `hosts` is ``host:port[,host:port...]``. `chroot` is empty, or starts with a slash and does not end with one. `auth` is
    ``("digest", "user:password")`` or ``("sasl", "DIGEST-MD5:user:password")``. `tls` is None for plain text. `acl` applies
    to new znodes of groups.
    """

    hosts: str
    chroot: str
    session_timeout_ms: Annotated[int, "zookeeper.session.timeout.ms"]
    connection_timeout_ms: int
    acl: Annotated[GroupAcl, "zookeeper.acl"]
    auth: Annotated[tuple[str, str] | None, "zookeeper.auth"] = field(default=None, repr=False)
    tls: ZooKeeperTls | None = None

    @property
    def connect(self) -> str:
        """The value of ``zookeeper.connect``."""
        return self.hosts + self.chroot


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Connection settings of a cluster, by ZooKeeper or by its brokers.

    `kafka` has librdkafka's properties, which may contain secrets.
    """

    zookeeper: ZooKeeperConfig | None
    bootstrap_servers: str | None
    listener: Listener
    kafka: Mapping[str, str | int | float | bool] = field(repr=False)
    transport: Annotated[Transport, "transport"]

    @property
    def client_rack(self) -> str | None:
        """The client's rack, to read from the nearest replica. None if only a task knows it. See `task_rack`."""
        rack = self.kafka.get("client.rack")
        return None if rack is None or refers(str(rack)) else str(rack)

    @property
    def read_committed(self) -> bool:
        """True if records of open and aborted transactions are skipped. By default they are read, as in Java."""
        return self.kafka.get("isolation.level", "read_uncommitted") == "read_committed"


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """Connection settings of a schema registry: addresses without credentials, and properties of Confluent's client."""

    urls: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class FormatRules:
    """The options of a format. With `has_schema`, its schemas can also be in a registry, as with ``avro-confluent``.

    With `needs_schema`, a read without a registry needs the text of a schema. Other formats take the frame's type.
    """

    has_schema: bool = True
    needs_schema: bool = False
    has_messages: bool = False


FORMATS = {
    "binary": FormatRules(has_schema=False),
    "string": FormatRules(has_schema=False),
    "avro": FormatRules(needs_schema=True),
    "protobuf": FormatRules(needs_schema=True, has_messages=True),
    "json": FormatRules(),
}
"""The formats by name; `formats/format.py` has what they do."""

CONFLUENT_FORMATS = {f"{name}-confluent": rules for name, rules in FORMATS.items() if rules.has_schema}
"""The formats of Confluent's serializers by name."""


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """The format of the column `key` or `value`, other than binary.

    `schema` has the text of a schema. `message` is the name of a Protobuf message. `version` is the version of the subject
    that gives the column's type. None stands for the latest version.
    """

    column: str
    name: Annotated[str, "{column}.format"]
    schema: Annotated[str | None, "{column}.schema"]
    message: Annotated[str | None, "{column}.schema.message"]
    version: Annotated[int | None, "{column}.schema.version"]
    subject: Annotated[str | None, "{column}.subject"]
    strategy: Annotated[SubjectStrategy, "{column}.subject.name.strategy"]

    @property
    def base(self) -> str:
        """The format without the registry: string, avro, protobuf or json."""
        return self.name.removesuffix("-confluent")

    @property
    def rules(self) -> FormatRules:
        """The options of the format."""
        return FORMATS[self.base]

    @property
    def is_confluent(self) -> bool:
        """True if payloads start with the id of a schema in a registry."""
        return self.name.endswith("-confluent")

    def subject_of(self, topic: str, record: str | None) -> str:
        """Return the subject of a topic, given the full name of the schema's record."""
        if self.subject is not None:
            return self.subject
        if self.strategy == "topic":
            return f"{topic}-{self.column}"
        return f"{topic}-{record}" if self.strategy == "topic-record" else f"{record}"


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Formats of the columns `key` and `value`, and the registry. The last three fields concern writes."""

    columns: tuple[ColumnFormat, ...]
    mode: Annotated[ParseMode, "mode"]
    registry: RegistryOptions | None
    auto_register: bool
    use_latest: Annotated[bool, "use.latest.version"]
    normalize: Annotated[bool, "normalize.schemas"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a batch read. A stream shares most of them.

    `stores` has the stores of the group's offsets, in the order of writing. The larger of two offsets counts.
    `missing_topics` is None if a stream that may wait does not set the option: it then waits, but fails if its trigger has
    an end. `ignored` has the given stream options, which a batch ignores. `formats` is None if keys and values stay binary.
    """

    connection: ConnectionOptions
    subscription: Subscription | None
    start: OffsetSpec
    end: OffsetSpec
    view: str | None
    group: str | None
    reset: Annotated[ResetPolicy | None, "auto.offset.reset"]
    no_match: Annotated[Literal["error", "latest"], "startingOffsetsByTimestampStrategy"]
    fail_on_data_loss: Annotated[bool, "failOnDataLoss"]
    min_partitions: Annotated[int | None, "minPartitions"]
    max_records: Annotated[int | None, "maxRecordsPerPartition"]
    min_records: Annotated[int | None, "minRecordsPerPartition"]
    include_headers: Annotated[bool, "includeHeaders"]
    poll_timeout_ms: Annotated[int, "kafkaConsumer.pollTimeoutMs"]
    retries: Annotated[int, "fetchOffset.numRetries"]
    retry_interval_ms: Annotated[int, "fetchOffset.retryIntervalMs"]
    skip_offline: Annotated[bool, "offlinePartitions"]
    client_group: str
    stores: tuple[OffsetStore, ...]
    missing_topics: Literal["fail", "wait"] | None
    formats: FormatOptions | None
    ignored: tuple[str, ...] = ()

    def require_subscription(self) -> Subscription:
        """Return the topics to read. Raises OptionError if none are given, which only a view allows."""
        if self.subscription is None:
            raise INVALID_OPTION(
                "No topics are given; set one of subscribe, subscribePattern, subscribeExceptPattern and assign",
            )
        return self.subscription

    def retry(self, sleep: Callable[[float], None]) -> Retry:
        """Return the retries of failed requests. `sleep` waits for a number of seconds."""
        return Retry(self.retries, self.retry_interval_ms / 1000, sleep)


@dataclass(frozen=True, slots=True)
class KafkaGroupOptions:
    """Options of members of groups in Kafka.

    `strategy` and `session_timeout_ms` are for the classic protocol. `instance_id` is for static members.
    """

    protocol: Annotated[Literal["classic", "consumer"], "group.protocol"]
    strategy: str
    session_timeout_ms: Annotated[int, "session.timeout.ms"]
    max_poll_interval_ms: int
    hold_ms: int
    instance_id: Annotated[str | None, "group.instance.id"] = None

    @property
    def is_incremental(self) -> bool:
        """True if a rebalance revokes only the partitions that move, and assigns a member's partitions in steps."""
        return self.protocol == "consumer" or self.strategy == "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """A stream's membership in a consumer group. Without a `consumer_id`, an id is generated."""

    name: str
    membership: GroupMembership
    threads: Annotated[int, "consumer.threads"]
    strategy: str
    max_retries: Annotated[int, "rebalance.max.retries"]
    backoff_ms: Annotated[int, "rebalance.backoff.ms"]
    hold_ms: int
    kafka: KafkaGroupOptions
    consumer_id: Annotated[str | None, "consumer.id"] = None

    @property
    def join(self) -> bool:
        """False for a stream that reads all partitions and only commits."""
        return self.membership != "none"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a streaming read. `read` has the options that it shares with a batch read."""

    read: ReadOptions
    limits: TriggerLimits
    group: GroupOptions | None


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """Offsets to commit for a group when a write has succeeded. `owner` is the committing member, if there is one."""

    group: str
    offsets: Annotated[Mapping[TopicPartition, int], "commitOffsets"]
    stores: tuple[OffsetStore, ...]
    owner: Annotated[ClaimOwner | None, "commitOwner"]


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """Options of an exactly-once write: prefix of transactional ids, topic of the ledger, the write's name and number."""

    prefix: Annotated[str, "transactionalIdPrefix"]
    ledger_topic: Annotated[str | None, "ledgerTopic"]
    writer: Annotated[str | None, "writerName"]
    batch: Annotated[int | None, "batchId"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write. At-least-once writes have no `once`. Keys and values of bytes or text have no `formats`."""

    connection: ConnectionOptions
    topic: Annotated[str | None, "topic"]
    partitioner: Annotated[str, "partitioner"]
    commit: CommitPlan | None
    once: ExactlyOnce | None
    formats: FormatOptions | None

    @property
    def ledger_topic(self) -> str:
        """The topic under whose partitions an exactly-once write keeps its ledger."""
        return (self.once and self.once.ledger_topic) or self.topic or ""


@cache
def options_of_fields(values: type) -> dict[str, str]:
    """Return the name of the option with which each field of a dataclass is annotated, by field."""
    hints = get_type_hints(values, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


def concerns_connection(name: str) -> bool:
    """True if a property of librdkafka concerns the connection, which all clients of a query share. `name` is lower case.

    >>> concerns_connection("socket.keepalive.enable"), concerns_connection("fetch.min.bytes")
    (True, False)
    """
    return name.startswith(_CONNECTION_PROPERTIES)


def refers(value: str, only: Literal["env", "file"] | None = None) -> bool:
    """True if a value has a reference. With `only`, all of its references must also be of this kind.

    >>> refers("${env:ZONE}"), refers("a"), refers("${env:A}${file:/b}", only="env")
    (True, False, False)
    """
    kinds = {reference[1] for reference in _REFERENCE.finditer(value)}
    return bool(kinds) if only is None else kinds == {only}


def resolve_references(value: str, environment: Mapping[str, str] = os.environ) -> str:
    """Replace each reference in a value, as Kafka's config providers do.

    A reference keeps a secret out of Spark's web interface and event log, which show options. A file's content is used
    without the line breaks at its end. As in a shell, the default stands for a variable that is not set or is empty.

    Raises ValueError if the environment variable is not set, or the file cannot be read. The error does not contain the
    value.

    >>> resolve_references("digest:alice:${env:ZK}", {"ZK": "s3cret"})
    'digest:alice:s3cret'
    >>> resolve_references("${env:ZONE:-a}", {})
    'a'
    """

    def resolved(reference: re.Match[str]) -> str:
        kind, name = reference.groups()
        try:
            if kind == "file":
                return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
            name, has_default, default = name.partition(":-")
            return (environment.get(name) or default) if has_default else environment[name]
        except KeyError:
            raise ValueError(f"refers to the environment variable {name}, which is not set") from None
        except OSError as error:
            raise ValueError(f"refers to the file {name}, which cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:  # its text contains the secret
            raise ValueError(f"refers to the file {name}, which is not UTF-8") from None

    return _REFERENCE.sub(resolved, value)


def task_rack(rack: str, environment: Mapping[str, str]) -> str:
    """Return the rack of a task, from the environment of the executor that runs it.

    Raises OptionError if a variable is not set and has no default, or if the rack is empty.
    """
    remedy = "set the variable on each executor, or spark.executorEnv.NAME, or a default: ${env:NAME:-default}"
    try:
        found = resolve_references(rack, environment)
    except ValueError as error:
        raise INVALID_OPTION(f"kafka.client.rack is {rack!r} and {error} on the executor; {remedy}") from None
    if not found.strip():
        raise INVALID_OPTION(f"kafka.client.rack is {rack!r}, which is empty on the executor; {remedy}")
    return found
