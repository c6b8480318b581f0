"""What a user's options mean: checked against the table in `option_table`, turned into frozen values.

Names follow their origin: Spark's Kafka source keeps Spark's names, the old consumer's configuration keeps Kafka's dotted
names. Names are case-insensitive. All problems are reported in one error, before any task runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
from pyspark_zkafka.options.parser import Given, choose, whole_number
from pyspark_zkafka.options.table import STREAM, TABLE, VIEWS, Scope
from pyspark_zkafka.protocol.model import ClaimOwner
from pyspark_zkafka.protocol.offsets import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    Bound,
    OffsetSpec,
    Position,
    ResetPolicy,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)
from pyspark_zkafka.protocol.partitioners import PARTITIONERS
from pyspark_zkafka.protocol.planning import (
    Assign,
    Listener,
    Subscribe,
    SubscribeExcept,
    SubscribePattern,
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


def parse_connection(raw: Mapping[str, str], scope: Scope = "read") -> Connection:
    """The connection that options describe, for tools that need nothing else."""
    given = Given(raw, scope)
    connection = _connection(given, "producer" if scope == "write" else "consumer")
    given.finish()
    return connection


def _connection(given: Given, role: Literal["consumer", "producer"]) -> Connection:
    bootstrap = given.text("kafka.bootstrap.servers") or None
    translated, problems = translate(_client_properties(given), role, judge)
    given.problems.extend(problems)
    if bootstrap is None and not given.has("zookeeper.connect"):
        given.problems.append("give zookeeper.connect, or kafka.bootstrap.servers for a cluster without ZooKeeper")
    listener = Listener(given.optional("listener.name"), str(translated.get("security.protocol", "PLAINTEXT")))
    native_path = given.choice("nativePath", {"auto": None, "on": True, "off": False}, None)
    return Connection(_zookeeper(given), bootstrap, listener, translated, native_path)


def _client_properties(given: Given) -> dict[str, str]:
    """Those of ``kafka.*`` that are for librdkafka to obey, as the user spelled them, without the prefix."""
    ours = ("kafka.bootstrap.servers", "kafka.group.id")
    found = (given.raw[lower] for lower in given.raw if lower.startswith("kafka.") and lower not in ours)
    return {name[len("kafka.") :]: value for name, value in found}


def lacks_zookeeper(given: Given, connection: Connection) -> bool:
    """Whether there is no ensemble; one that was given in bad form is a problem by itself, and no second one."""
    return connection.zookeeper is None and not given.has("zookeeper.connect")


def _zookeeper(given: Given) -> ZooKeeperConfig | None:
    hosts, chroot = given.parsed("zookeeper.connect", _split_connect, ("", ""))
    session_ms = given.integer("zookeeper.session.timeout.ms", 1, 6000)
    connection_ms = given.integer("zookeeper.connection.timeout.ms", 1, session_ms)
    auth = given.parsed("zookeeper.auth", _parse_auth, None) if _auth_is_well_formed(given) else None
    tls = _tls(given)
    return ZooKeeperConfig(hosts, chroot, session_ms, connection_ms, auth, tls) if hosts else None


def _split_connect(text: str) -> tuple[str, str]:
    hosts, slash, path = text.partition("/")
    chroot = (slash + path).rstrip("/")
    one = re.compile(r"([^\s:,\[\]]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
    each = [host.strip() for host in hosts.split(",")]
    ports = [int(port) for port in re.findall(r":([0-9]+)(?:,|$)", ",".join(each))]
    if not all(map(one.fullmatch, each)) or re.search(r"//|[\s,]", chroot) or not all(0 < p < 65536 for p in ports):
        raise ValueError("host:port[,host:port...][/chroot], e.g. zk1:2181,zk2:2181/kafka")
    return ",".join(host if re.search(r":[0-9]+$", host) else f"{host}:2181" for host in each), chroot


def _auth_is_well_formed(given: Given) -> bool:
    """Whether zookeeper.auth can be parsed; its text is never quoted, since it holds a password."""
    text = given.text("zookeeper.auth")
    fine = bool(re.fullmatch(r"(?i:digest):[^:]+:.+|(?i:sasl:digest-md5):[^:]+:.+", text))
    if given.has("zookeeper.auth") and not fine:
        given.problems.append("zookeeper.auth is malformed; expected digest:user:password or sasl:DIGEST-MD5:user:password")
    return fine


def _parse_auth(text: str) -> tuple[str, str] | None:
    scheme, _, credential = text.partition(":")
    return scheme.lower(), credential


def _tls(given: Given) -> ZooKeeperTls | None:
    enabled = given.boolean("zookeeper.ssl.client.enable", False)
    ca, key = given.optional("zookeeper.ssl.truststore.location"), given.optional("zookeeper.ssl.keystore.location")
    for store in (ca, key):
        if store is not None and store.lower().endswith((".jks", ".p12", ".pfx")):
            given.problems.append(f"{store} is no PEM file; convert it, e.g. keytool to PKCS12, then openssl pkcs12 to PEM")
    password = given.optional("zookeeper.ssl.keystore.password")
    algorithm = "zookeeper.ssl.endpoint.identification.algorithm"
    check_hostname = given.parsed(algorithm, _names_are_checked, True)
    if not enabled:
        if ca or key or password or given.has(algorithm):
            given.problems.append("zookeeper.ssl.* has no effect without zookeeper.ssl.client.enable=true")
        return None
    return ZooKeeperTls(ca, key, password, check_hostname)


def _names_are_checked(text: str) -> bool:
    if text.lower() not in ("https", "none", ""):
        raise ValueError("https, or none or nothing to leave the check out")
    return text.lower() == "https"


def parse_read(raw: Mapping[str, str]) -> ReadOptions:
    """The frozen options of a batch read.

    Raises
    ------
    OptionError
        INVALID_OPTIONS, with every problem in one text.
    """
    given = Given(raw, "read")
    view = given.parsed("view", lambda text: choose(text, {v: v for v in VIEWS}), None)
    options = read_options(given, starting(given, EARLIEST, "starting"), view, _ending(given))
    options = replace(options, ignored=tuple(o.name for o in TABLE if o.scopes == STREAM and given.has(o.name)))
    _check_view(given, options)
    _check_times(given, options)
    given.finish()
    return options


def read_options(given: Given, start: OffsetSpec, view: str | None = None, end: OffsetSpec | None = None) -> ReadOptions:
    """What a batch read and a stream have in common, from the options that were given."""
    connection = _connection(given, "consumer")
    prefix = given.optional("groupIdPrefix") or "zkafka"
    options = ReadOptions(
        connection=connection,
        subscription=_subscription(given, view),
        start=start,
        end=OffsetSpec("endingOffsets", everywhere=LATEST) if end is None else end,
        view=view,
        group=_group(given),
        stores=_stores(given, connection),
        reset=given.choice("auto.offset.reset", _RESETS, None),
        no_match=given.choice("startingOffsetsByTimestampStrategy", _NO_MATCH, "error"),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        min_partitions=given.integer("minPartitions", 1, None),
        max_records=given.integer("maxRecordsPerPartition", 1, None),
        min_records=given.integer("minRecordsPerPartition", 1, None),
        include_headers=given.boolean("includeHeaders", False),
        poll_timeout_ms=given.integer("kafkaConsumer.pollTimeoutMs", 1, 120_000),
        retries=given.integer("fetchOffset.numRetries", 0, 3),
        retry_interval_ms=given.integer("fetchOffset.retryIntervalMs", 0, 1000),
        skip_offline=given.choice("offlinePartitions", {"fail": False, "skip": True}, False),
        client_group=given.text("kafka.group.id") or prefix,
    )
    _check_committed(given, options)
    _check_sizes(given, options)
    return options


def _check_sizes(given: Given, options: ReadOptions) -> None:
    if options.min_records is None:
        return
    if options.min_partitions is not None:
        given.problems.append(
            "minRecordsPerPartition merges input partitions, minPartitions divides them; give one of them"
        )
    if options.max_records is not None and options.max_records < options.min_records:
        given.problems.append(
            f"minRecordsPerPartition is {options.min_records}, more than maxRecordsPerPartition, which is "
            f"{options.max_records}: give a smaller one"
        )


_NO_MATCH: dict[str, Literal["error", "latest"]] = {"error": "error", "latest": "latest"}
_RESETS: dict[str, ResetPolicy | None] = {
    "earliest": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "largest": "latest",
    "error": "error",
}


def _group(given: Given) -> str | None:
    group = given.optional("group.id")
    if group is not None and not re.fullmatch(r"[a-zA-Z0-9._-]+", group):
        given.problems.append(f"group.id is {group!r}; the old consumer allows letters, digits, '.', '_' and '-'")
    return group


def _subscription(given: Given, view: str | None) -> Subscription | None:
    named = [n for n in ("subscribe", "subscribePattern", "subscribeExceptPattern", "assign") if given.has(n)]
    if len(named) > 1:
        given.problems.append(f"{' and '.join(named)} contradict each other; give one of them")
    if not named and view is None:
        given.problems.append("give one of subscribe, subscribePattern, subscribeExceptPattern and assign (or view)")
    if given.has("subscribe"):
        topics = tuple(t.strip() for t in given.text("subscribe").split(",") if t.strip())
        if not topics:
            given.problems.append("subscribe names no topic; expected topic[,topic...]")
        _check_names(given, "subscribe", topics)
        return Subscribe(topics)
    if given.has("subscribePattern"):
        return given.parsed("subscribePattern", lambda text: SubscribePattern(_regex(text)), None)
    if given.has("subscribeExceptPattern"):
        return given.parsed("subscribeExceptPattern", lambda text: SubscribeExcept(_regex(text)), None)
    return given.parsed("assign", lambda text: Assign(parse_assignment("assign", text)), None)


def _check_names(given: Given, option: str, topics: Iterable[str]) -> None:
    problem = describe_bad_names(option, topics)
    if problem is not None:
        given.problems.append(problem)


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    if not text:
        raise ValueError("a regular expression, not nothing")
    return text


def starting(given: Given, default: Position | Literal["committed"], bound: Bound | None) -> OffsetSpec:
    """Where a read starts; `bound` is None for a stream, which may start at latest."""
    offsets = _offsets(given, "startingOffsets", bound, default)
    name = "startingOffsetsByTimestamp"
    by_time = given.parsed(name, lambda t: parse_timestamps(name, t), offsets)
    return given.parsed("startingTimestamp", lambda t: _everywhere("startingTimestamp", t), by_time)


def _ending(given: Given) -> OffsetSpec:
    offsets = _offsets(given, "endingOffsets", "ending", LATEST)
    by_time = given.parsed("endingOffsetsByTimestamp", lambda t: parse_timestamps("endingOffsetsByTimestamp", t), offsets)
    return given.parsed("endingTimestamp", lambda t: _everywhere("endingTimestamp", t), by_time)


def _offsets(given: Given, name: str, bound: Bound | None, default: Position | Literal["committed"]) -> OffsetSpec:
    """What an option of offsets says; where a timestamp overrules it, it may be what a batch could not use, as in Spark."""
    overruled = given.has(name.replace("Offsets", "Timestamp")) or given.has(f"{name}ByTimestamp")
    used = None if overruled else bound
    return given.parsed(name, lambda t: parse_offsets(name, t, used), OffsetSpec(name, everywhere=default))


def _everywhere(name: str, text: str) -> OffsetSpec:
    return OffsetSpec(name, everywhere=AtTimestamp(whole_number(text, 0)))


def _stores(given: Given, connection: Connection) -> tuple[OffsetStore, ...]:
    """Where the group's offsets are: the old consumer's offsets.storage and dual.commit.enabled."""
    in_kafka = given.choice("offsets.storage", {"zookeeper": False, "kafka": True}, False)
    dual = given.boolean("dual.commit.enabled", in_kafka and connection.zookeeper is not None)
    if dual and not in_kafka:
        given.problems.append("dual.commit.enabled has an effect only with offsets.storage=kafka; leave it out")
    if dual and lacks_zookeeper(given, connection):
        given.problems.append("dual.commit.enabled also writes /consumers/<group>/offsets: it needs zookeeper.connect")
    return ("zookeeper",) if not in_kafka else ("kafka", "zookeeper") if dual else ("kafka",)


def _check_committed(given: Given, options: ReadOptions) -> None:
    if options.start.everywhere == "committed" and options.group is None:
        given.problems.append("startingOffsets=committed needs group.id")
    if options.group is not None and "zookeeper" in options.stores and lacks_zookeeper(given, options.connection):
        given.problems.append(
            "group.id means offsets in /consumers/<group>/offsets: it needs zookeeper.connect, or offsets.storage=kafka"
        )


def _check_view(given: Given, options: ReadOptions) -> None:
    if options.view in _ZOOKEEPER_VIEWS and lacks_zookeeper(given, options.connection):
        given.problems.append(f"view={options.view} reads ZooKeeper and needs zookeeper.connect")
    if options.view is not None:
        names = (o.name for o in TABLE if "read" in o.scopes and given.has(o.name))
        given.problems.extend(view_problems(options.view, names))


_ZOOKEEPER_VIEWS = ("groups", "members", "owners", "offsets", "admin", "configs")


def _check_times(given: Given, options: ReadOptions) -> None:
    start, end = options.start.everywhere, options.end.everywhere
    if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp) and start.timestamp_ms > end.timestamp_ms:
        given.problems.append("startingTimestamp is after endingTimestamp")


def parse_write(raw: Mapping[str, str]) -> WriteOptions:
    """The frozen options of a write; raises OptionError with every problem in one text."""
    given = Given(raw, "write")
    connection = _connection(given, "producer")
    given.boolean("includeHeaders", False)
    topic = given.optional("topic")
    _check_names(given, "topic", () if topic is None else (topic,))
    options = WriteOptions(
        connection=connection,
        topic=topic,
        partitioner=given.choice("partitioner", {p: p for p in PARTITIONERS}, "murmur2"),
        commit=_commit(given, connection),
    )
    given.finish()
    return options


def _commit(given: Given, connection: Connection) -> CommitPlan | None:
    group, stores = _group(given), _stores(given, connection)
    owner = given.parsed("commitOwner", ClaimOwner.parse, None)
    if not given.has("commitOffsets"):
        return None
    if group is None:
        given.problems.append("commitOffsets needs group.id")
    if "zookeeper" in stores and lacks_zookeeper(given, connection):
        given.problems.append("commitOffsets writes /consumers/<group>/offsets: it needs zookeeper.connect")
    spec = given.parsed("commitOffsets", lambda t: parse_offsets("commitOffsets", t, "commit"), None)
    offsets = {} if spec is None else {tp: p for tp, p in spec.by_partition.items() if isinstance(p, int)}
    return CommitPlan(group or "", offsets, stores, owner)
