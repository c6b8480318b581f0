"""Options of batch reads and of writes, as frozen values.

Names follow their origin: Spark's Kafka source keeps Spark's names, the old consumer's configuration keeps Kafka's dotted
names. Names are case-insensitive. All problems are reported in one error, before any task runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from pyspark_zkafka.options.client_properties import translate
from pyspark_zkafka.options.librdkafka import judge
from pyspark_zkafka.options.model import (
    CommitPlan,
    Connection,
    OffsetStore,
    ReadOptions,
    WriteOptions,
    ZooKeeperConfig,
    ZooKeeperTls,
)
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.table import STREAM, TABLE, Scope
from pyspark_zkafka.protocol.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    Bound,
    OffsetSpec,
    Position,
    parse_offsets,
)
from pyspark_zkafka.protocol.planning import (
    Listener,
    Subscribe,
    Subscription,
)
from pyspark_zkafka.protocol.topic_names import describe_bad_names
from pyspark_zkafka.protocol.view_tables import view_problems

__all__ = [
    "lacks_zookeeper",
    "parse_connection",
    "parse_read",
    "parse_write",
    "read_options",
    "starting",
]

_BOOTSTRAP = ("kafka.bootstrap.servers", "kafka.metadata.broker.list")


def parse_connection(raw: Mapping[str, str], scope: Scope = "read") -> Connection:
    """The connection part of the options, for tools that need nothing else."""
    given = OptionParser(raw, scope)
    connection = _connection(given, "producer" if scope == "write" else "consumer")
    given.finish()
    return connection


def _connection(given: OptionParser, role: Literal["consumer", "producer"]) -> Connection:
    translated, problems = translate(_client_properties(given), role, judge)
    given.problems.extend(problems)
    bootstrap = translated.pop("bootstrap.servers", None)
    if not given.has("zookeeper.connect") and not any(map(given.text, _BOOTSTRAP)):
        given.problems.append("set zookeeper.connect, or kafka.bootstrap.servers for a cluster without ZooKeeper")
    listener = Listener(given.value("listener.name"), str(translated.get("security.protocol", "PLAINTEXT")))
    native_path = given.value("nativePath")
    return Connection(_zookeeper(given), bootstrap, listener, translated, native_path)


def _client_properties(given: OptionParser) -> dict[str, str]:
    """The ``kafka.*`` options for librdkafka, as the user spelled them, without the prefix."""
    found = (given.raw[lower] for lower in given.raw if lower.startswith("kafka.") and lower != "kafka.group.id")
    return {name[len("kafka.") :]: value for name, value in found}


def lacks_zookeeper(given: OptionParser, connection: Connection) -> bool:
    """True if zookeeper.connect is not set; a malformed one is a problem of its own, and not reported twice."""
    return connection.zookeeper is None and not given.has("zookeeper.connect")


def _zookeeper(given: OptionParser) -> ZooKeeperConfig | None:
    hosts, chroot = given.value("zookeeper.connect") or ("", "")
    session_ms = given.value("zookeeper.session.timeout.ms")
    connection_ms = given.value("zookeeper.connection.timeout.ms", session_ms)
    auth = given.value("zookeeper.auth")
    tls = _tls(given)
    return ZooKeeperConfig(hosts, chroot, session_ms, connection_ms, auth, tls) if hosts else None


def _tls(given: OptionParser) -> ZooKeeperTls | None:
    enabled = given.value("zookeeper.ssl.client.enable")
    ca, key = given.value("zookeeper.ssl.truststore.location"), given.value("zookeeper.ssl.keystore.location")
    for store in (ca, key):
        if store is not None and store.lower().endswith((".jks", ".p12", ".pfx")):
            given.problems.append(
                f"{store} is not a PEM file; convert it, e.g. keytool to PKCS12, then openssl pkcs12 to PEM"
            )
    password = given.value("zookeeper.ssl.keystore.password")
    algorithm = "zookeeper.ssl.endpoint.identification.algorithm"
    check_hostname = given.value(algorithm)
    if not enabled:
        if ca or key or password or given.has(algorithm):
            given.problems.append("zookeeper.ssl.* has no effect without zookeeper.ssl.client.enable=true")
        return None
    return ZooKeeperTls(ca, key, password, check_hostname)


def parse_read(raw: Mapping[str, str]) -> ReadOptions:
    """The frozen options of a batch read.

    Raises
    ------
    OptionError
        INVALID_OPTIONS, with every problem in one text.
    """
    given = OptionParser(raw, "read")
    view = given.value("view")
    options = read_options(given, starting(given, EARLIEST, "starting"), view, _ending(given))
    options = replace(options, ignored=tuple(o.name for o in TABLE if o.scopes == STREAM and given.has(o.name)))
    _check_view(given, options)
    _check_times(given, options)
    given.finish()
    return options


def read_options(
    given: OptionParser, start: OffsetSpec, view: str | None = None, end: OffsetSpec | None = None
) -> ReadOptions:
    """The options that batch reads and streams have in common."""
    connection, prefix = _connection(given, "consumer"), given.value("groupIdPrefix")
    options = ReadOptions(
        connection=connection,
        subscription=_subscription(given, view),
        start=start,
        end=OffsetSpec("endingOffsets", everywhere=LATEST) if end is None else end,
        view=view,
        group=_group(given),
        stores=_stores(given, connection),
        reset=given.value("auto.offset.reset"),
        no_match=given.value("startingOffsetsByTimestampStrategy"),
        fail_on_data_loss=given.value("failOnDataLoss"),
        min_partitions=given.value("minPartitions"),
        max_records=given.value("maxRecordsPerPartition"),
        min_records=given.value("minRecordsPerPartition"),
        include_headers=given.value("includeHeaders"),
        poll_timeout_ms=given.value("kafkaConsumer.pollTimeoutMs"),
        retries=given.value("fetchOffset.numRetries"),
        retry_interval_ms=given.value("fetchOffset.retryIntervalMs"),
        skip_offline=given.value("offlinePartitions"),
        client_group=given.text("kafka.group.id") or prefix,
    )
    _check_committed(given, options)
    _check_sizes(given, options)
    return options


def _check_sizes(given: OptionParser, options: ReadOptions) -> None:
    if options.min_records is None:
        return
    if options.min_partitions is not None:
        given.problems.append(
            "minRecordsPerPartition merges input partitions, minPartitions divides them; set only one of them"
        )
    if options.max_records is not None and options.max_records < options.min_records:
        given.problems.append(
            f"minRecordsPerPartition is {options.min_records}, more than maxRecordsPerPartition, which is "
            f"{options.max_records}; lower it"
        )


def _group(given: OptionParser) -> str | None:
    group: str | None = given.value("group.id")
    if group is not None and not re.fullmatch(r"[a-zA-Z0-9._-]+", group):
        given.problems.append(f"group.id is {group!r}; the old consumer allows letters, digits, '.', '_' and '-'")
    return group


def _subscription(given: OptionParser, view: str | None) -> Subscription | None:
    named = [n for n in ("subscribe", "subscribePattern", "subscribeExceptPattern", "assign") if given.has(n)]
    if len(named) > 1:
        given.problems.append(f"{' and '.join(named)} contradict each other; set only one of them")
    if not named and view is None:
        given.problems.append("set one of subscribe, subscribePattern, subscribeExceptPattern and assign (or view)")
    if given.has("subscribe"):
        topics = tuple(t.strip() for t in given.text("subscribe").split(",") if t.strip())
        if not topics:
            given.problems.append("subscribe names no topic; expected topic[,topic...]")
        _check_names(given, "subscribe", topics)
        return Subscribe(topics)
    pattern_or_partitions: Subscription | None = given.value(named[0]) if named else None
    return pattern_or_partitions


def _check_names(given: OptionParser, option: str, topics: Iterable[str]) -> None:
    problem = describe_bad_names(option, topics)
    if problem is not None:
        given.problems.append(problem)


def starting(given: OptionParser, default: Position | Literal["committed"], bound: Bound | None) -> OffsetSpec:
    """The position at which a read starts; `bound` is None for a stream, which may start at latest."""
    by_default = OffsetSpec("startingOffsets", everywhere=default)
    offsets = given.value("startingOffsets", by_default, _offset_reader(given, "startingOffsets", bound))
    by_time = given.value("startingOffsetsByTimestamp", offsets)
    start: OffsetSpec = given.value("startingTimestamp", by_time)
    return start


def _ending(given: OptionParser) -> OffsetSpec:
    offsets = given.value("endingOffsets", read=_offset_reader(given, "endingOffsets", "ending"))
    by_time = given.value("endingOffsetsByTimestamp", offsets)
    end: OffsetSpec = given.value("endingTimestamp", by_time)
    return end


def _offset_reader(given: OptionParser, name: str, bound: Bound | None) -> Callable[[str, str], OffsetSpec]:
    """Reader of an offsets option; one that a timestamp overrides may have values that no batch can use, as in Spark."""
    overruled = given.has(name.replace("Offsets", "Timestamp")) or given.has(f"{name}ByTimestamp")
    used = None if overruled else bound
    return lambda option, text: parse_offsets(option, text, used)


def _stores(given: OptionParser, connection: Connection) -> tuple[OffsetStore, ...]:
    """The stores of the group's offsets, by the old consumer's offsets.storage and dual.commit.enabled."""
    in_kafka = given.value("offsets.storage")
    dual = given.value("dual.commit.enabled", in_kafka and connection.zookeeper is not None)
    if dual and not in_kafka:
        given.problems.append("dual.commit.enabled has an effect only with offsets.storage=kafka; leave it out")
    if dual and lacks_zookeeper(given, connection):
        given.problems.append("dual.commit.enabled also writes /consumers/<group>/offsets: it needs zookeeper.connect")
    return ("zookeeper",) if not in_kafka else ("kafka", "zookeeper") if dual else ("kafka",)


def _check_committed(given: OptionParser, options: ReadOptions) -> None:
    if options.start.everywhere == "committed" and options.group is None:
        given.problems.append("startingOffsets=committed needs group.id")
    if options.group is not None and "zookeeper" in options.stores and lacks_zookeeper(given, options.connection):
        given.problems.append(
            "group.id uses offsets in /consumers/<group>/offsets: it needs zookeeper.connect, or offsets.storage=kafka"
        )


def _check_view(given: OptionParser, options: ReadOptions) -> None:
    if options.view in _ZOOKEEPER_VIEWS and lacks_zookeeper(given, options.connection):
        given.problems.append(f"view={options.view} reads ZooKeeper and needs zookeeper.connect")
    if options.view is not None:
        names = (o.name for o in TABLE if "read" in o.scopes and given.has(o.name))
        given.problems.extend(view_problems(options.view, names))


_ZOOKEEPER_VIEWS = ("groups", "members", "owners", "offsets", "admin", "configs")


def _check_times(given: OptionParser, options: ReadOptions) -> None:
    start, end = options.start.everywhere, options.end.everywhere
    if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp) and start.timestamp_ms > end.timestamp_ms:
        given.problems.append("startingTimestamp is after endingTimestamp")


def parse_write(raw: Mapping[str, str]) -> WriteOptions:
    """The frozen options of a write; raises OptionError with every problem in one text."""
    given = OptionParser(raw, "write")
    connection = _connection(given, "producer")
    given.value("includeHeaders")
    topic = given.value("topic")
    _check_names(given, "topic", () if topic is None else (topic,))
    options = WriteOptions(
        connection=connection,
        topic=topic,
        partitioner=given.value("partitioner"),
        commit=_commit(given, connection),
    )
    given.finish()
    return options


def _commit(given: OptionParser, connection: Connection) -> CommitPlan | None:
    group, stores = _group(given), _stores(given, connection)
    owner = given.value("commitOwner")
    if not given.has("commitOffsets"):
        return None
    if group is None:
        given.problems.append("commitOffsets needs group.id")
    if "zookeeper" in stores and lacks_zookeeper(given, connection):
        given.problems.append("commitOffsets writes /consumers/<group>/offsets: it needs zookeeper.connect")
    spec = given.value("commitOffsets")
    offsets = {} if spec is None else {tp: p for tp, p in spec.by_partition.items() if isinstance(p, int)}
    return CommitPlan(group or "", offsets, stores, owner)
