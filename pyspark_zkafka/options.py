"""What a user's options mean: checked against the table in `option_table`, turned into frozen values.

Names follow their origin: Spark's Kafka source keeps Spark's names, the old consumer's configuration keeps Kafka's dotted
names. Names are case-insensitive. All problems are reported in one error, before any task runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.option_table import BY_NAME, STREAM, TABLE, VIEWS, Scope
from pyspark_zkafka.option_values import (
    CommitPlan,
    Connection,
    ReadOptions,
    WriteOptions,
    ZooKeeperConfig,
    ZooKeeperTls,
)
from pyspark_zkafka.protocol.kafka_properties import translate
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
from pyspark_zkafka.protocol.planning import Assign, Listener, Subscribe, SubscribePattern, Subscription
from pyspark_zkafka.protocol.view_tables import view_problems

__all__ = [
    "CommitPlan",
    "Connection",
    "ReadOptions",
    "WriteOptions",
    "ZooKeeperConfig",
    "ZooKeeperTls",
    "parse_connection",
    "parse_read",
    "parse_write",
]

T = TypeVar("T")
D = TypeVar("D")


class _Given:
    """The options that were given, taken one by one; problems gather until `finish` raises them all."""

    def __init__(self, raw: Mapping[str, str], scope: Scope) -> None:
        self.raw = {name.lower(): (name, str(value)) for name, value in raw.items()}
        self.scope = scope
        self.problems: list[str] = []
        self._check_names()

    def _check_names(self) -> None:
        for lower, (name, _) in self.raw.items():
            option = BY_NAME.get(lower)
            if lower.startswith("kafka.") or (option is not None and self.scope in option.scopes):
                continue
            if option is None:
                self.problems.append(f"unknown option {name}{_nearest(lower)}")
            elif option.scopes != STREAM or self.scope == "write":
                self.problems.append(f"{option.name} is an option of a {' or '.join(option.scopes)}, not of a {self.scope}")

    def has(self, name: str) -> bool:
        return name.lower() in self.raw

    def text(self, name: str, default: str = "") -> str:
        return self.raw.get(name.lower(), (name, default))[1].strip()

    def optional(self, name: str) -> str | None:
        if self.has(name) and not self.text(name):
            self.problems.append(f"{name} is empty; give a value or leave it out")
        return self.text(name) or None

    def parsed(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        """The value as `parse` reads it; a ValueError or OptionError of it is a problem."""
        if not self.has(name):
            return default
        try:
            return parse(self.text(name))
        except OptionError as error:
            self.problems.append(error.message)
        except ValueError as error:
            self.problems.append(f"{name} is {self.text(name)!r}; expected {error}")
        return default

    def choice(self, name: str, choices: Mapping[str, T], default: D) -> T | D:
        return self.parsed(name, lambda text: _choose(text, choices), default)

    def boolean(self, name: str, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, default)

    def integer(self, name: str, at_least: int, default: D) -> int | D:
        return self.parsed(name, lambda text: _integer(text, at_least), default)

    def finish(self) -> None:
        if self.problems:
            listed = "; ".join(f"({i}) {p}" for i, p in enumerate(self.problems, 1))
            raise OptionError("INVALID_OPTIONS", f"{len(self.problems)} problem(s) with the options: {listed}")


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.6)
    if not near and f"kafka.{name}" in BY_NAME:
        near = [f"kafka.{name}"]
    return f"; did you mean {BY_NAME[near[0]].name}?" if near else "; docs/options.md lists all options"


def _choose(text: str, choices: Mapping[str, T]) -> T:
    if text.lower() not in choices:
        raise ValueError(" or ".join(choices))
    return choices[text.lower()]


def _integer(text: str, at_least: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or int(text) < at_least:
        raise ValueError(f"a whole number, {at_least} or more")
    return int(text)


def parse_connection(raw: Mapping[str, str], scope: Scope = "read") -> Connection:
    """The connection that options describe, for tools that need nothing else."""
    given = _Given(raw, scope)
    connection = _connection(given, "consumer")
    given.finish()
    return connection


def _connection(given: _Given, role: Literal["consumer", "producer"]) -> Connection:
    properties = {n[len("kafka.") :]: v for n, (_, v) in given.raw.items() if n.startswith("kafka.")}
    bootstrap = properties.pop("bootstrap.servers", "").strip() or None
    properties.pop("group.id", None)
    translated, problems = translate(properties, role)
    given.problems.extend(problems)
    if bootstrap is None and not given.has("zookeeper.connect"):
        given.problems.append("give zookeeper.connect, or kafka.bootstrap.servers for a cluster without ZooKeeper")
    listener = Listener(given.optional("listener.name"), str(translated.get("security.protocol", "PLAINTEXT")))
    return Connection(_zookeeper(given), bootstrap, listener, translated)


def _zookeeper(given: _Given) -> ZooKeeperConfig | None:
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


def _auth_is_well_formed(given: _Given) -> bool:
    """Whether zookeeper.auth can be parsed; its text is never quoted, since it holds a password."""
    text = given.text("zookeeper.auth")
    fine = bool(re.fullmatch(r"(?i:digest):[^:]+:.+|(?i:sasl:digest-md5):[^:]+:.+", text))
    if given.has("zookeeper.auth") and not fine:
        given.problems.append("zookeeper.auth is malformed; expected digest:user:password or sasl:DIGEST-MD5:user:password")
    return fine


def _parse_auth(text: str) -> tuple[str, str] | None:
    scheme, _, credential = text.partition(":")
    return scheme.lower(), credential


def _tls(given: _Given) -> ZooKeeperTls | None:
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
    given = _Given(raw, "read")
    view = given.parsed("view", lambda text: _choose(text, {v: v for v in VIEWS}), None)
    connection = _connection(given, "consumer")
    prefix = given.optional("groupIdPrefix") or "zkafka"
    options = ReadOptions(
        connection=connection,
        subscription=_subscription(given, view),
        start=_starting(given),
        end=_ending(given),
        view=view,
        group=_group(given),
        reset=given.choice("auto.offset.reset", _RESETS, None),
        no_match=given.choice("startingOffsetsByTimestampStrategy", _NO_MATCH, "error"),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        min_partitions=given.integer("minPartitions", 1, None),
        max_records=given.integer("maxRecordsPerPartition", 1, None),
        include_headers=given.boolean("includeHeaders", False),
        poll_timeout_ms=given.integer("kafkaConsumer.pollTimeoutMs", 1, 120_000),
        retries=given.integer("fetchOffset.numRetries", 0, 3),
        retry_interval_ms=given.integer("fetchOffset.retryIntervalMs", 0, 1000),
        skip_offline=given.choice("offlinePartitions", {"fail": False, "skip": True}, False),
        client_group=given.text("kafka.group.id") or prefix,
        ignored=tuple(o.name for o in TABLE if o.scopes == STREAM and given.has(o.name)),
    )
    _check_read(given, options)
    given.finish()
    return options


_NO_MATCH: dict[str, Literal["error", "latest"]] = {"error": "error", "latest": "latest"}
_RESETS: dict[str, ResetPolicy | None] = {
    "earliest": "earliest",
    "smallest": "earliest",
    "latest": "latest",
    "largest": "latest",
    "error": "error",
}


def _group(given: _Given) -> str | None:
    group = given.optional("group.id")
    if group is not None and not re.fullmatch(r"[a-zA-Z0-9._-]+", group):
        given.problems.append(f"group.id is {group!r}; the old consumer allows letters, digits, '.', '_' and '-'")
    return group


def _subscription(given: _Given, view: str | None) -> Subscription | None:
    named = [n for n in ("subscribe", "subscribePattern", "assign") if given.has(n)]
    if len(named) > 1:
        given.problems.append(f"{' and '.join(named)} contradict each other; give one of them")
    if not named and view is None:
        given.problems.append("give one of subscribe, subscribePattern and assign (or view)")
    if given.has("subscribe"):
        topics = tuple(t.strip() for t in given.text("subscribe").split(",") if t.strip())
        if not topics:
            given.problems.append("subscribe names no topic; expected topic[,topic...]")
        return Subscribe(topics)
    if given.has("subscribePattern"):
        return given.parsed("subscribePattern", _pattern, None)
    return given.parsed("assign", lambda text: Assign(parse_assignment("assign", text)), None)


def _pattern(text: str) -> Subscription:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    if not text:
        raise ValueError("a regular expression, not nothing")
    return SubscribePattern(text)


def _starting(given: _Given) -> OffsetSpec:
    offsets = _offsets(given, "startingOffsets", "starting", EARLIEST)
    name = "startingOffsetsByTimestamp"
    by_time = given.parsed(name, lambda t: parse_timestamps(name, t), offsets)
    return given.parsed("startingTimestamp", lambda t: _everywhere("startingTimestamp", t), by_time)


def _ending(given: _Given) -> OffsetSpec:
    offsets = _offsets(given, "endingOffsets", "ending", LATEST)
    by_time = given.parsed("endingOffsetsByTimestamp", lambda t: parse_timestamps("endingOffsetsByTimestamp", t), offsets)
    return given.parsed("endingTimestamp", lambda t: _everywhere("endingTimestamp", t), by_time)


def _offsets(given: _Given, name: str, bound: Bound, default: Position) -> OffsetSpec:
    """What an option of offsets says; where a timestamp overrules it, it may be what a batch could not use, as in Spark."""
    overruled = given.has(f"{bound}Timestamp") or given.has(f"{name}ByTimestamp")
    used = None if overruled else bound
    return given.parsed(name, lambda t: parse_offsets(name, t, used), OffsetSpec(name, everywhere=default))


def _everywhere(name: str, text: str) -> OffsetSpec:
    return OffsetSpec(name, everywhere=AtTimestamp(_integer(text, 0)))


def _check_read(given: _Given, options: ReadOptions) -> None:
    if options.start.everywhere == "committed" and options.group is None:
        given.problems.append("startingOffsets=committed needs group.id")
    if options.start.everywhere == "committed" and options.connection.zookeeper is None:
        given.problems.append("startingOffsets=committed reads /consumers/<group>/offsets: it needs zookeeper.connect")
    if options.view is not None and options.connection.zookeeper is None and options.view in _ZOOKEEPER_VIEWS:
        given.problems.append(f"view={options.view} shows what is in ZooKeeper: it needs zookeeper.connect")
    if options.view is not None:
        names = (o.name for o in TABLE if "read" in o.scopes and given.has(o.name))
        given.problems.extend(view_problems(options.view, names))
    _check_times(given, options)


_ZOOKEEPER_VIEWS = ("groups", "members", "owners", "offsets", "admin", "configs")


def _check_times(given: _Given, options: ReadOptions) -> None:
    start, end = options.start.everywhere, options.end.everywhere
    if isinstance(start, AtTimestamp) and isinstance(end, AtTimestamp) and start.timestamp_ms > end.timestamp_ms:
        given.problems.append("startingTimestamp is after endingTimestamp")


def parse_write(raw: Mapping[str, str]) -> WriteOptions:
    """The frozen options of a write; raises OptionError with every problem in one text."""
    given = _Given(raw, "write")
    connection = _connection(given, "producer")
    given.boolean("includeHeaders", False)
    options = WriteOptions(
        connection=connection,
        topic=given.optional("topic"),
        partitioner=given.choice("partitioner", {p: p for p in PARTITIONERS}, "murmur2"),
        commit=_commit(given, connection),
    )
    given.finish()
    return options


def _commit(given: _Given, connection: Connection) -> CommitPlan | None:
    group = _group(given)
    if not given.has("commitOffsets"):
        return None
    if group is None:
        given.problems.append("commitOffsets needs group.id")
    if connection.zookeeper is None:
        given.problems.append("commitOffsets writes /consumers/<group>/offsets: it needs zookeeper.connect")
    spec = given.parsed("commitOffsets", lambda t: parse_offsets("commitOffsets", t, "ending"), None)
    offsets = {} if spec is None else {tp: p for tp, p in spec.by_partition.items() if isinstance(p, int)}
    if spec is not None and (spec.by_topic or not offsets or min(offsets.values()) < 0):
        given.problems.append('commitOffsets takes offsets of 0 or more by partition: {"topic": {"0": 23}}')
    return CommitPlan(group or "", offsets)
