"""Membership of a batch job in a consumer group (public): join, read the owned partitions, and commit their offsets."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark_zkafka.conditions import ALREADY_A_MEMBER, COMMIT_BY_MEMBER, INVALID_OPTIONS, NOT_A_MEMBER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pyspark_zkafka.group.membership import Membership
    from pyspark_zkafka.model.nouns import ClaimOwner, OffsetRange
    from pyspark_zkafka.read.stream_session import StreamSession

__all__ = ["ConsumerGroup", "GroupBatch"]

_REFUSED = {
    **dict.fromkeys(("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "assign"), ": leave it out"),
    **dict.fromkeys(("view", "minoffsetspertrigger", "maxtriggerdelay"), ": leave it out"),
    "group.id": " is given as the argument group",
    "kafka.group.id": " does not set the group: give the argument group, and groupIdPrefix to name the tasks' consumers",
    "subscribe": " is given as the argument subscribe",
    "subscribepattern": " is given as the argument subscribe_pattern",
}
"""Options of a stream that a `ConsumerGroup` does not accept, in lower case, and what to do instead."""


class ConsumerGroup:
    """A member of a consumer group for a ``with`` block, in the user's process.

        with ConsumerGroup("zk1:2181/kafka", "billing", subscribe=["orders"]) as member:
            batch = member.plan(spark)
            transform(batch.load()).write.format("zkafka").option("topic", "invoices").options(
                **batch.commit_options
            ).mode("append").save()

    While the member processes a batch, other members wait for its partitions for at most `rebalance.hold.ms`. Raise that
    option for long jobs in groups without JVM consumers. Not pickle-safe; use it in one thread at a time.

    Parameters
    ----------
    zookeeper_connect : str, optional
        ``host:port[,host:port...][/chroot]``. For a group that Kafka coordinates, pass None, and set
        ``kafka.bootstrap.servers`` in `options`.
    group : str
        ``group.id``.
    subscribe : sequence of str, optional
        Topics, unless `subscribe_pattern` is given.
    subscribe_pattern : str, optional
        A regular expression that the whole name of a topic must match.
    options : mapping, optional
        Further options of a stream that joins a group, other than these arguments; see docs/options.md.

    Raises
    ------
    OptionError
        The options are invalid; raised by the constructor.
    """

    def __init__(
        self,
        zookeeper_connect: str | None,
        group: str,
        *,
        subscribe: Sequence[str] = (),
        subscribe_pattern: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        from pyspark_zkafka.options.stream import parse_stream
        from pyspark_zkafka.read.stream_session import StreamWarnings

        refused = dict(_REFUSED)
        if zookeeper_connect is not None:
            refused["zookeeper.connect"] = " is given as the argument zookeeper_connect"
        unfit = {name: f"{name}{refused[name.lower()]}" for name in options or {} if name.lower() in refused}
        if unfit:
            raise INVALID_OPTIONS(
                f"A ConsumerGroup does not accept {', '.join(unfit)} as options: {'; '.join(unfit.values())}",
            )
        self._raw = {**(options or {}), "group.id": group}
        if zookeeper_connect is not None:
            self._raw["zookeeper.connect"] = zookeeper_connect
        if subscribe:
            self._raw["subscribe"] = _subscribe(subscribe)
        if subscribe_pattern is not None:
            self._raw["subscribePattern"] = subscribe_pattern
        self._options = parse_stream(self._raw)
        if self._options.group is None or not self._options.group.join:
            raise INVALID_OPTIONS("A ConsumerGroup joins its group; leave groupMembership=none out")
        self._reports = StreamWarnings(self._options.read.fail_on_data_loss, time.monotonic)
        self._session: StreamSession | None = None

    def __enter__(self) -> ConsumerGroup:
        """Join the group. `plan` then waits for the member's partitions.

        Raises
        ------
        GroupError, ZooKeeperError
            The group or ZooKeeper refuses, or cannot be reached.
        """
        from pyspark_zkafka.read.stream_session import StreamSession

        if self._session is not None:
            raise ALREADY_A_MEMBER("This ConsumerGroup is a member already; create another one for another member")
        session = StreamSession(self._options)
        session.open()
        self._session = session
        return self

    def __exit__(self, *exc: object) -> None:
        """Leave the group, and release the partitions at once unless the member is static."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    @property
    def consumer(self) -> str:
        """The id under which the member is registered."""
        return self._joined()[1].consumer

    def plan(self, spark: SparkSession) -> GroupBatch:
        """Plan a batch: fixed ranges of the owned partitions, from the committed to the latest offsets.

        `maxOffsetsPerTrigger` and `maxBytesPerTrigger` limit the ranges. Planning also releases and claims partitions, and
        waits for partitions that other members are releasing: for some seconds in ZooKeeper, and in Kafka for up to 90
        seconds by default. Partitions with committed offsets but without a leader are left for a later plan. Missing topics
        are logged as a warning.

        Raises
        ------
        DataLoss
            A committed offset is outside the log, and `failOnDataLoss` is set.
        NoLeader
            A partition that starts at the end of its log has no leader, and `offlinePartitions` is fail.
        UnknownTopic
            A topic does not exist, and `missingTopics` is fail.
        ZKafkaError
            ZooKeeper or the brokers cannot be reached. NO_SESSION, for a lost ZooKeeper session, is retriable.
        """
        from pyspark_zkafka.model.nouns import OffsetRange
        from pyspark_zkafka.model.offsets import LATEST
        from pyspark_zkafka.read.stream_ends import StreamLimits
        from pyspark_zkafka.read.stream_positions import StreamStarts

        session, member = self._joined()
        member.rebalance()
        member.set_reading(())
        member.wait_settled()
        owned, owner = sorted(member.rebalance()), member.require_owner()
        snapshot = session.cluster.settled_snapshot()
        self._reports.report_missing(self._options.read, snapshot, session.cluster.topic_names, may_fail=True)
        starts = StreamStarts(self._options, session)
        initial = session.retry(lambda: starts.initial(owned, session.cluster.snapshot()))
        found = session.retry(lambda: starts.commit_starts(initial)).assigned
        ready = sorted(found)
        resets = {tp: found[tp].position for tp in ready if found[tp].resets}
        session.group_offsets().commit(resets, owner, resets.keys())  # the stored offsets are of a deleted log
        ends = session.retry(lambda: session.cluster.brokers.list_offsets(dict.fromkeys(ready, LATEST))) if ready else {}
        ranges = {tp: OffsetRange(tp, found[tp].position, max(found[tp].position, ends[tp])) for tp in ready}
        limited = StreamLimits(self._options, session, time.monotonic).apply(ranges, may_wait=False)
        return GroupBatch(self, spark, tuple(limited.values()), owner, commits_as_member=session.commits_as_member)

    def _joined(self) -> tuple[StreamSession, Membership]:
        """Return the session and the member. Raises NOT_A_MEMBER outside the ``with`` block."""
        if self._session is None or self._session.member is None:
            raise NOT_A_MEMBER("A ConsumerGroup is a member only inside its with block; use it there")
        return self._session, self._session.member

    def _columns(self) -> StructType:
        """Return the columns of a batch that is loaded without a schema."""
        from pyspark_zkafka.engines import struct_type
        from pyspark_zkafka.formats.decoding import decoded_schema, pin_formats
        from pyspark_zkafka.model.records import frame_schema

        read = self._options.read
        pinned = pin_formats(read)
        return struct_type(
            frame_schema(read.include_headers) if pinned is None else decoded_schema(pinned, read.include_headers)
        )


def _subscribe(topics: Sequence[str]) -> str:
    """Return the option `subscribe`. Rejects names that the option would read differently."""
    from pyspark_zkafka.model.topic_names import describe_bad_names

    problem = describe_bad_names("subscribe", topics)
    if problem is not None:
        raise INVALID_OPTIONS(problem)
    return ",".join(topics)


class GroupBatch:
    """A member's plan of one batch: ranges of the partitions that it owned when planning.

    Attributes
    ----------
    ranges : tuple of OffsetRange
        ``[start, until)`` of each partition, in order. Ranges may be empty. A member without partitions has no ranges.
    """

    def __init__(
        self,
        member: ConsumerGroup,
        spark: SparkSession,
        ranges: tuple[OffsetRange, ...],
        owner: ClaimOwner,
        *,
        commits_as_member: bool,
    ) -> None:
        self._member = member
        self._spark = spark
        self.ranges = ranges
        self._owner = owner
        self._commits_as_member = commits_as_member

    def load(self, schema: str | None = None) -> DataFrame:
        """Load the records of the ranges. Each call reads the same records.

        Parameters
        ----------
        schema : str, optional
            The columns, in the form of ``spark.read.schema``.
        """
        if not self.ranges:
            return self._spark.createDataFrame([], schema or self._member._columns())
        reader = self._spark.read.format("zkafka").options(**self._read_options())
        return (reader if schema is None else reader.schema(schema)).load()

    @property
    def commit_options(self) -> dict[str, str]:
        """Options for a write with zkafka that commits the batch only if every row is acknowledged.

        They include the connection options of the group. The write fails with PARTITION_LOST if the member no longer owns a
        partition. The offsets of the other partitions are committed, and the rows stay written.
        """
        from pyspark_zkafka.options.table import BY_NAME, OFFSET_STORES, is_connection_option

        if self._commits_as_member:
            raise COMMIT_BY_MEMBER(
                "Kafka accepts commits only from a group's members, and the tasks of a write are no members; leave "
                "commit_options out, and call batch.commit() when the write has succeeded",
            )
        raw = self._member._raw
        connection = {
            name: text
            for name, text in raw.items()
            if is_connection_option(name) or BY_NAME.get(name.lower()) in OFFSET_STORES
        }
        if not self.ranges:
            return connection
        offsets = {"group.id": raw["group.id"], "commitOffsets": self._json("until"), "commitOwner": str(self._owner)}
        return {**connection, **offsets}

    def commit(self) -> None:
        """Commit the batch without a write.

        Raises
        ------
        PartitionLost
            The member no longer owns a partition. The offsets of the other partitions are committed.
        """
        from pyspark_zkafka.group.offsets import require_none_lost

        session, member = self._member._joined()
        result = session.group_offsets().commit({r.partition: r.until for r in self.ranges}, self._owner)
        member.set_reading(())
        require_none_lost(result, self._member._raw["group.id"])

    def _read_options(self) -> dict[str, str]:
        from pyspark_zkafka.options.format_table import FORMATTING
        from pyspark_zkafka.options.table import BY_NAME, CONNECTION, READING

        of_reads = (*CONNECTION, *READING, *FORMATTING)  # the member has used the other options to choose the ranges
        shared = {
            name: text
            for name, text in self._member._raw.items()
            if name.lower().startswith("kafka.") or BY_NAME[name.lower()] in of_reads
        }
        partitions: dict[str, list[int]] = {}
        for r in self.ranges:
            partitions.setdefault(r.partition.topic, []).append(r.partition.partition)
        ends = {"startingOffsets": self._json("start"), "endingOffsets": self._json("until")}
        return {**shared, "assign": json.dumps(partitions), **ends}

    def _json(self, bound: str) -> str:
        from pyspark_zkafka.model.offsets import canonical_json

        return canonical_json({r.partition: getattr(r, bound) for r in self.ranges})
