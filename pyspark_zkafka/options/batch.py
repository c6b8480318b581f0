"""Parse options of connections, batch reads and writes into frozen values.

Options of Spark's Kafka source keep Spark's names, and options of the old consumer keep Kafka's dotted names. One error
lists all problems, before any task runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pyspark_zkafka.conditions import INVALID_OPTIONS, OUTPUT_MODE, SAVE_MODE
from pyspark_zkafka.model.nouns import OffsetStore
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Ago, AtTimestamp, NamedPosition, OffsetSpec, is_behind
from pyspark_zkafka.model.planning import Listener, Subscription
from pyspark_zkafka.model.view_tables import VIEWS, view_problems
from pyspark_zkafka.model.znodes.codec import is_znode_name
from pyspark_zkafka.options.client_properties import (
    LIBRDKAFKA_WITHOUT_KERBEROS,
    Role,
    has_kerberos_login,
    is_librdkafka_without_kerberos,
    translate,
)
from pyspark_zkafka.options.formats import parse_formats
from pyspark_zkafka.options.kinds import PORTS
from pyspark_zkafka.options.option import STREAM, Scope
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.table import SUBSCRIPTIONS, TABLE
from pyspark_zkafka.options.values import (
    CommitPlan,
    ConnectionOptions,
    ExactlyOnce,
    ReadOptions,
    WriteOptions,
    ZooKeeperConfig,
    ZooKeeperTls,
)

_BROKER = re.compile(
    r"((PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?"
    r"(([^\s/:\[\]]+|\[[^\s/\[\]]+\])(:(?P<port>[0-9]{1,5}))?|[^\s/\[\]]*:[^\s/\[\]]*:[^\s/\[\]]*)",
    re.IGNORECASE,
)
"""The address of a broker in the forms that librdkafka accepts: with or without protocol and port, including IPv6."""

_BOOTSTRAP = ("kafka.bootstrap.servers", "kafka.metadata.broker.list")
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})  # in lower case
_OF_BATCHES = {
    "batchId": "and Spark numbers the micro-batches of a stream; leave batchId out",
    "commitOffsets": "with fixed offsets; a stream commits its offsets on the reading side, after each micro-batch: set "
    "group.id on readStream, and leave commitOffsets out",
}
"""Options of batch writes that a streaming write refuses, and the rest of the error's text for each."""

_REFUSED_STARTS: dict[object, str] = {
    LATEST: "latest (-1): a batch that starts at latest reads nothing; use earliest, committed or offsets",
}
_REFUSED_ENDS: dict[object, str] = {
    EARLIEST: "earliest (-2): a batch that ends at earliest reads nothing; use latest or offsets",
    "committed": "committed: a batch cannot end at the committed offset; use latest or offsets",
}


def parse_connection(raw: Mapping[str, str], scope: Scope = "read") -> ConnectionOptions:
    """Parse the options of a connection, for tools that need no other options."""
    given = OptionParser(raw, scope)
    connection = _connection(given)
    given.finish()
    return connection


def _connection(given: OptionParser) -> ConnectionOptions:
    role: Role = "producer" if given.scope == "write" else "consumer"
    properties = {
        name[len("kafka.") :]: value  # as the user spelled it
        for lower, (name, value) in given.raw.items()
        if lower.startswith("kafka.") and not (lower == "kafka.group.id" and role == "consumer")
    }
    kafka, problems = translate(properties, role)
    given.problems.extend(problems)
    bootstrap = kafka.pop("bootstrap.servers", None)
    given.refuse_if(
        not given.has("zookeeper.connect") and not any(map(given.text, _BOOTSTRAP)),
        "set zookeeper.connect, or kafka.bootstrap.servers for a cluster without ZooKeeper",
    )
    brokers = [broker.strip() for broker in (bootstrap or "").split(",") if broker.strip()]
    found = [_BROKER.fullmatch(broker) for broker in brokers]
    given.refuse_if(
        bootstrap is not None and not (found and all(one and int(one["port"] or 1) in PORTS for one in found)),
        f"kafka.bootstrap.servers is {bootstrap!r}; expected host:port[,host:port...], with ports from 1 to 65535",
    )
    listener = Listener(given.value("listener.name"), kafka.get("security.protocol", "PLAINTEXT"))
    given.refuse_if(
        given.value("transport") == "librdkafka" and has_kerberos_login(kafka) and is_librdkafka_without_kerberos(),
        f"transport=librdkafka with kafka.sasl.mechanism=GSSAPI needs {LIBRDKAFKA_WITHOUT_KERBEROS}; or leave it out",
    )
    return ConnectionOptions(_zookeeper(given), bootstrap, listener, kafka, **given.fields(ConnectionOptions))


def _zookeeper(given: OptionParser) -> ZooKeeperConfig | None:
    if given.value("zookeeper.connect") is None:
        return None
    hosts, chroot = given.value("zookeeper.connect")
    return ZooKeeperConfig(
        hosts=hosts,
        chroot=chroot,
        connection_timeout_ms=given.value("zookeeper.connection.timeout.ms", given.value("zookeeper.session.timeout.ms")),
        tls=ZooKeeperTls(**given.fields(ZooKeeperTls)) if given.value("zookeeper.ssl.client.enable") else None,
        **given.fields(ZooKeeperConfig),
    )


def parse_read(raw: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a batch read. Raises INVALID_OPTIONS with all problems."""
    given = OptionParser(raw, "read")
    view = given.value("view")
    start, end = offset_spec(given, "starting", EARLIEST), offset_spec(given, "ending", LATEST)
    for spec, refused in ((start, _REFUSED_STARTS), (end, _REFUSED_ENDS)):
        positions = (spec.everywhere, *spec.by_topic.values(), *spec.by_partition.values())
        given.problems.extend([f"{spec.option} is {refused[p]}" for p in positions if p in refused][:1])
    options = read_options(given, start, view, end)
    if view is not None:
        given.problems.extend(view_problems(view, (o.name for o in TABLE if "read" in o.scopes and given.has(o.name))))
    first, last = start.everywhere, end.everywhere
    given.refuse_if(
        isinstance(first, (AtTimestamp, Ago)) and isinstance(last, (AtTimestamp, Ago)) and is_behind(first, last),
        "startingTimestamp is after endingTimestamp",
    )
    given.finish()
    return options


def read_options(
    given: OptionParser, start: OffsetSpec, view: str | None = None, end: OffsetSpec | None = None
) -> ReadOptions:
    """Parse the options that batch reads and streams share."""
    connection = _connection(given)
    stores = _stores(given)
    subscription = _subscription(given, view)
    options = ReadOptions(
        connection=connection,
        subscription=subscription,
        start=start,
        end=end or OffsetSpec("endingOffsets", everywhere=LATEST),
        view=view,
        group=_group(given, stores),
        stores=stores,
        missing_topics=given.value("missingTopics", "fail"),
        client_group=given.text("kafka.group.id") or given.value("groupIdPrefix"),
        formats=parse_formats(given, subscription),
        ignored=tuple(o.name for o in TABLE if o.scopes == STREAM and given.has(o.name)) if given.scope == "read" else (),
        **given.fields(ReadOptions),
    )
    given.refuse_if(start.everywhere == "committed" and options.group is None, "startingOffsets=committed needs group.id")
    if options.group is not None:
        _check_stores(given, stores)
    minimum, maximum = options.min_records, options.max_records
    given.refuse_if(
        minimum is not None and maximum is not None and maximum < minimum,
        f"minRecordsPerPartition is {minimum}, more than maxRecordsPerPartition, which is {maximum}; lower it",
    )
    return options


def _group(given: OptionParser, stores: tuple[OffsetStore, ...]) -> str | None:
    """Return the group's name. The old consumer restricts it if ZooKeeper has members or offsets of the group."""
    group: str | None = given.value("group.id")
    if group is None:
        return None
    has_members = given.scope == "stream" and given.word("groupMembership") not in ("kafka", "none")
    if "zookeeper" in stores or has_members:
        only_offsets = "kafka" in stores and not has_members
        given.refuse_if(
            not (re.fullmatch(r"[a-zA-Z0-9._-]+", group) and is_znode_name(group)),
            f"group.id is {group!r}; the old consumer allows letters, digits, '.', '_' and '-', but not '.' or '..' alone. "
            "Choose another name"
            + (", or set dual.commit.enabled=false, for offsets in Kafka alone" if only_offsets else ""),
        )
    else:
        given.refuse_if(
            given.has("zookeeper.connect") and not is_znode_name(group),
            f"group.id is {group!r}, which cannot name a znode, and members in ZooKeeper could not be found; leave "
            "zookeeper.connect out, or choose another name",
        )
    return group


def _subscription(given: OptionParser, view: str | None) -> Subscription | None:
    named = [option.name for option in SUBSCRIPTIONS if given.has(option.name)]
    given.refuse_if(len(named) > 1, f"{' and '.join(named)} contradict each other; set only one of them")
    given.refuse_if(
        not named and (view is None or VIEWS[view].of_read),
        "set one of subscribe, subscribePattern, subscribeExceptPattern and assign"
        + (" (or view)" if view is None else f": view={view} shows the plan of a read"),
    )
    subscription: Subscription | None = given.value(named[0]) if named else None
    return subscription


def offset_spec(
    given: OptionParser, edge: Literal["starting", "ending"], default: NamedPosition | Literal["committed"]
) -> OffsetSpec:
    """Read a start or an end. One timestamp for all partitions takes precedence, then timestamps, then offsets."""
    spec = OffsetSpec(f"{edge}Offsets", everywhere=default)
    for option in (f"{edge}Offsets", f"{edge}OffsetsByTimestamp", f"{edge}Timestamp"):
        spec = given.value(option, spec)
    return spec


def _stores(given: OptionParser) -> tuple[OffsetStore, ...]:
    """Return the stores of the group's offsets, by the old consumer's options offsets.storage and dual.commit.enabled.

    By default, Kafka has the offsets of members in Kafka, and of every group without `zookeeper.connect`.
    """
    in_zookeeper = given.has("zookeeper.connect") and not given.joins_kafka
    in_kafka = given.value("offsets.storage", not in_zookeeper)
    dual = given.value("dual.commit.enabled", in_zookeeper)
    return ("zookeeper",) if not in_kafka else ("kafka", "zookeeper") if dual else ("kafka",)


def _check_stores(given: OptionParser, stores: tuple[OffsetStore, ...]) -> None:
    given.refuse_if(
        "zookeeper" in stores and not given.has("zookeeper.connect"),
        "offsets.storage=zookeeper needs zookeeper.connect; set it, or leave offsets.storage out for offsets in Kafka",
    )


def parse_write(raw: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a write. Raises INVALID_OPTIONS with all problems."""
    given = OptionParser(raw, "write")
    connection = _connection(given)
    commit, once = _commit(given), _exactly_once(given, connection)
    formats = parse_formats(given)
    options = WriteOptions(connection, commit=commit, once=once, formats=formats, **given.fields(WriteOptions))
    given.finish()
    return options


def parse_append(raw: Mapping[str, str], *, overwrite: bool, is_stream: bool) -> WriteOptions:
    """Parse the options of a write for Spark. Raises OptionError.

    `overwrite` is true for the save mode overwrite and for the output mode complete. Both are refused. A streaming write
    accepts options that Spark itself reads, and refuses commitOffsets and batchId.
    """
    if not is_stream:
        if overwrite:
            raise SAVE_MODE(
                'A topic is a log and cannot be overwritten; use .mode("append"), and delete the topic\'s records first if '
                "they are to be replaced",
            )
        return parse_write(raw)
    if overwrite:
        raise OUTPUT_MODE(
            "The output mode complete replaces the whole result with each micro-batch, but records of a topic cannot be "
            "replaced; use append (with a watermark, if the query aggregates), or write the changes with "
            "outputMode('update') and foreachBatch",
        )
    for name, problem in _OF_BATCHES.items():
        if any(given.lower() == name.lower() for given in raw):
            raise INVALID_OPTIONS(f"{name} is an option of batch writes, {problem}")
    return parse_write({name: value for name, value in raw.items() if name.lower() not in _SPARKS_OWN})


def _exactly_once(given: OptionParser, connection: ConnectionOptions) -> ExactlyOnce | None:
    if given.value("deliveryGuarantee") != "exactly-once":
        timeout = "kafka.transaction.timeout.ms"
        given.refuse_if(given.has(timeout), f"{timeout} needs deliveryGuarantee=exactly-once")
        return None
    given.refuse_if(
        connection.kafka.get("enable.idempotence") == "false",
        "deliveryGuarantee=exactly-once needs kafka.enable.idempotence=true (and therefore kafka.acks=all and "
        "kafka.retries of 1 or more)",
    )
    return ExactlyOnce(**given.fields(ExactlyOnce))


def _commit(given: OptionParser) -> CommitPlan | None:
    stores = _stores(given)
    group = _group(given, stores)
    if not given.has("commitOffsets"):
        return None
    _check_stores(given, stores)
    return CommitPlan(group or "", stores=stores, **given.fields(CommitPlan))
