"""Plans of writes, made on the driver: routers of topics, and the ledger of an exactly-once write."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_zkafka.conditions import BROKERS_TOO_OLD, UNKNOWN_TOPIC
from pyspark_zkafka.errors import BrokersUnavailable, listing
from pyspark_zkafka.formats.encoding import EncodingPlan, plan_encoding
from pyspark_zkafka.model.ledger import (
    MAX_ENDS_BYTES,
    Entry,
    GroupJob,
    QueryName,
    SinkIdentity,
    group_job,
    is_ledger_of,
    job_names,
    last_job,
)
from pyspark_zkafka.model.nouns import ClusterSnapshot, Topic
from pyspark_zkafka.model.partitioners import Router
from pyspark_zkafka.model.planning import Assign, missing_topics
from pyspark_zkafka.options.values import CommitPlan, ConnectionOptions, WriteOptions
from pyspark_zkafka.retries import Retry

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_zkafka.brokers.ledger_offsets import Ledger

_LOOKUPS, _LOOKUP_PAUSE_S = 3, 1.0
_FORMATS = {1: "0.10", 2: "0.11"}
"""The first releases of Kafka with these formats of records."""
_COMPLETION_S = 5.0
"""The time within which brokers complete a transaction whose commit they have accepted."""


@dataclass(frozen=True, slots=True)
class LedgerPlan:
    """Where an exactly-once write keeps its ledger, and the identity of the call.

    Each of the topic's `partitions` can hold the entry of a slot. `call` is unique to a call of ``df.write``. It is empty
    for a streaming writer, as a query has only one writer. `job` identifies a write with commitOffsets. It is None for
    other writes, and if the group has committed all of the offsets already. `sink` is the option's topic if another topic
    has the ledger: the ledger then outlives the option's topic.
    """

    topic: str
    partitions: int
    call: str
    sink: SinkIdentity | None = None
    job: GroupJob | None = None


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan of a write, shared by its tasks: a router for each topic, and the bootstrap servers.

    `generation` distinguishes these topics from other topics of the same names. It is None unless all have an identity.
    `ledger` is None for an at-least-once write. `encoding` is None if keys and values are bytes or text.
    """

    bootstrap_servers: str
    routers: Mapping[str, Router]
    generation: frozenset[tuple[SinkIdentity, int]] | None = None
    ledger: LedgerPlan | None = None
    encoding: EncodingPlan | None = None


def plan_write(options: WriteOptions, frame: pa.Schema | None = None, *, is_stream: bool = False) -> WritePlan:
    """Plan a write. Blocks for a few round trips. Looks up all topics only if the rows name their topics.

    `frame` has the columns to write. It is None for a writer that only commits.

    Raises ZKafkaError if the cluster cannot be reached, if a topic or a partition in commitOffsets does not exist, or if
    the brokers do not allow the transaction's timeout.
    """
    from pyspark_zkafka.brokers.admin import KafkaAdmin
    from pyspark_zkafka.cluster import bootstrap_servers, open_cluster
    from pyspark_zkafka.records.select import uses_native
    from pyspark_zkafka.records.transactions import require_supported

    # Report a missing feature once, here, and not in each task.
    uses_native(options.connection)
    if options.once is not None:
        require_supported(options.connection)
    encoding = None if frame is None else plan_encoding(options, frame)
    ledger_topic = None if options.once is None else options.once.ledger_topic
    with open_cluster(options.connection) as cluster:

        def look_up(topics: Collection[str] | None, is_complete: Callable[[ClusterSnapshot], bool]) -> ClusterSnapshot:
            found = cluster.snapshot(topics)
            if is_complete(found) or not isinstance(cluster, KafkaAdmin):  # ZooKeeper knows all topics
                return found
            # A broker that has just started may know no topic.
            return Retry(_LOOKUPS, _LOOKUP_PAUSE_S, time.sleep).until(is_complete, lambda: cluster.snapshot(topics))

        snapshot = look_up(named_topics(options), lambda found: ledger_topic is None or ledger_topic in found.topics)
        if options.commit is not None and options.commit.offsets:
            partitions = Assign(tuple(options.commit.offsets))
            topics = {tp.topic for tp in partitions.partitions}
            require_partitions(partitions, look_up(topics, lambda found: not missing_topics(partitions, found)))
    servers = bootstrap_servers(options.connection, snapshot)
    refuse_old_brokers(options, [] if frame is None else frame.names, servers)
    plan = replace(plan_topics(servers, snapshot, options.partitioner), encoding=encoding)
    if options.topic is not None and options.topic not in plan.routers:
        plan = replace(plan, routers={**plan.routers, options.topic: _created(options, servers)}, generation=None)
    if options.once is None:
        return plan
    return replace(plan, ledger=_ledger(options, plan, _sink(options, snapshot), is_stream=is_stream))


def refuse_old_brokers(options: WriteOptions, columns: Collection[str], servers: str) -> None:
    """Raise ClusterStateError for features that the brokers are too old for. Asks a broker only if a write has any."""
    from pyspark_zkafka.brokers.dialects import find_dialect

    newer = {
        "the column headers": (2, "headers" in columns),
        "kafka.enable.idempotence=true": (2, options.connection.kafka.get("enable.idempotence") == "true"),
        "exactly-once writes": (2, options.once is not None),
        "the column timestamp": (1, "timestamp" in columns),
    }
    asked = {what: least for what, (least, is_asked) in newer.items() if is_asked}
    if not asked:
        return
    found = find_dialect(servers, options.connection.kafka).record_format
    refused = [f"{what} (Kafka {_FORMATS[least]} or later)" for what, least in asked.items() if found < least]
    if refused:
        raise BROKERS_TOO_OLD(
            f"The brokers are too old for {listing(refused)}; leave it out, or upgrade the brokers. No row was written"
        )


def require_partitions(partitions: Assign, snapshot: ClusterSnapshot) -> None:
    """Raise UnknownTopic if commitOffsets names a partition that does not exist: ZooKeeper would store its offset."""
    missing = missing_topics(partitions, snapshot)
    if missing:
        raise UNKNOWN_TOPIC(f"commitOffsets names {listing(missing)}, which the cluster does not have; correct the names")


def plan_topics(bootstrap_servers: str, snapshot: ClusterSnapshot, partitioner: str) -> WritePlan:
    """Plan a write to the topics of a snapshot, without a ledger. Raises UnknownTopic for a topic without partitions."""
    routers = {
        name: Router(name, len(topic.partitions), snapshot.led(name), partitioner)
        for name, topic in snapshot.topics.items()
    }
    generation = frozenset(
        (identity, len(topic.partitions))
        for topic in snapshot.topics.values()
        if (identity := identity_of(topic)) is not None
    )
    return WritePlan(bootstrap_servers, routers, generation if len(generation) == len(routers) else None)


def named_topics(options: WriteOptions) -> list[str] | None:
    """The topics that the options name, each topic once. None, for all topics, if the rows name their topics."""
    if options.topic is None:
        return None
    ledger_topic = None if options.once is None else options.once.ledger_topic
    return list(dict.fromkeys(filter(None, (options.topic, ledger_topic))))


def _created(options: WriteOptions, servers: str) -> Router:
    """Make the router of the option's topic. Asking the brokers for a missing topic may create it."""
    from pyspark_zkafka.records.producer import producer_properties
    from pyspark_zkafka.records.select import open_producer

    topic = options.topic or ""
    with open_producer(options.connection, producer_properties(options.connection, servers)) as producer:
        return Router(topic, *producer.partitions_of(topic), options.partitioner)


def _sink(options: WriteOptions, snapshot: ClusterSnapshot) -> SinkIdentity | None:
    """The identity of the rows' topic. None if it is unknown, if rows name topics, or if the topic also has the ledger."""
    from pyspark_zkafka.cluster import open_cluster

    name = options.topic
    if name is None or name == options.ledger_topic:
        return None
    if name not in snapshot.topics:  # the brokers have created it since
        with open_cluster(options.connection) as cluster:
            snapshot = cluster.snapshot([name])
    return identity_of(snapshot.topics.get(name))


def identity_of(topic: Topic | None) -> SinkIdentity | None:
    """The identity of a topic. None if there is no topic, or its identity is unknown."""
    found = None if topic is None else topic.topic_id or topic.czxid
    return None if topic is None or found is None else SinkIdentity(topic.name, found)


def _ledger(options: WriteOptions, plan: WritePlan, sink: SinkIdentity | None, *, is_stream: bool) -> LedgerPlan:
    from pyspark_zkafka.records.transactions import require_transaction_timeout

    topic = options.ledger_topic
    if topic not in plan.routers:
        raise UNKNOWN_TOPIC(f"The cluster has no topic {topic}, which ledgerTopic names; create it, or correct the name")
    require_transaction_timeout(options.connection, plan.bootstrap_servers)
    ledger = LedgerPlan(topic, plan.routers[topic].partitions, "" if is_stream else uuid.uuid4().hex, sink)
    return ledger if options.commit is None else replace(ledger, job=_job(options, options.commit, plan, ledger))


def _job(options: WriteOptions, commit: CommitPlan, plan: WritePlan, ledger: LedgerPlan) -> GroupJob | None:
    """Identify the job by its offsets. None if they do not fit an entry, or are committed. Blocks for some requests."""
    from pyspark_zkafka.group.offsets import open_group_offsets

    if options.once is None or not commit.offsets:
        return None
    queries = job_names(commit.group, commit.offsets, options.once.writer, is_member=commit.owner is not None)
    servers = plan.bootstrap_servers
    names = [QueryName(options.once.prefix, query) for query in queries]
    ledgers = [open_ledger(options.connection, servers, name, ledger) for name in names]
    found = [last for each in ledgers if (last := last_job(each.name.query, read_entries(each).values())) is not None]
    others = ledgers[0].others(lambda base: is_ledger_of(base, commit.group, commit.offsets))
    own = {(str(name), ledger.topic) for name in names}
    moved = (last_job(f"{p[0]} (topic {p[1]})", entries) for p, entries in others.items() if p not in own)
    elsewhere = [last for last in moved if last is not None]
    asked = {*commit.offsets, *(tp for last in (*found, *elsewhere) for tp in last.partitions)}
    with open_group_offsets(options.connection, servers, commit) as offsets:
        # If two stores differ, this has the larger offset: a killed job may have committed to the first store only.
        committed = {tp: stored.offset for tp, stored in offsets.committed(sorted(asked)).items()}
    job = group_job(queries[0], commit.offsets, found, committed, elsewhere)
    return None if job is None or len(job.ends.encode()) > MAX_ENDS_BYTES else job


def open_ledger(connection: ConnectionOptions, servers: str, name: QueryName, plan: LedgerPlan) -> Ledger:
    """The ledger of a query."""
    from pyspark_zkafka.brokers.ledger_offsets import Ledger

    return Ledger(servers, connection.kafka, name, plan.topic, plan.partitions, plan.sink)


def read_entries(ledger: Ledger, slots: Collection[int] | None = None) -> dict[int, Entry]:
    """Read the entries of these slots, or of all slots.

    Waits for transactions that are being committed. Ignores a transaction that stays open: a killed task may have left it.
    """
    try:
        return replace(ledger, timeout_s=_COMPLETION_S).entries_of(slots)
    except BrokersUnavailable:
        return replace(ledger, waits=False).entries_of(slots)
