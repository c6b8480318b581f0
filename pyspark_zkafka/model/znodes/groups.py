r"""Znodes of the old consumer's groups, under ``/consumers``: path, encode, decode.

===================================  ================================================================================
znode                                forms
===================================  ================================================================================
``/consumers/G/ids/C``               JSON 1, compact (0.8.1 on); JSON 1 with sorted keys and blanks (0.8.0);
                                     ``{ "topic": streams }``, and ``*streams*regex`` or ``!streams!regex`` for
                                     filters (0.7)
``/consumers/G/owners/T/P``          the thread's id; P is the partition, or ``broker-partition`` (0.7)
``/consumers/G/offsets/T/P``         the next offset to read, in decimal; the same two keys (in 0.7 a byte position)
===================================  ================================================================================

All forms are decoded, and the newest is encoded. `decode_registration` accepts and refuses the same as the consumer of
Kafka 1.1.1, with three differences: it accepts the forms of 0.7, `topic_filter` must support a regex, and a consumer has at
most 100,000 threads. (A JVM stops at a registration that it cannot read, and at one with two billion threads, for lack of
memory.)

References
----------
kafka.consumer.ZookeeperConsumerConnector, TopicCount, TopicFilter (Kafka 0.7.2, 0.8.2.2, 1.1.1); ``docs/zookeeper.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark_zkafka.conditions import INVALID_GROUP
from pyspark_zkafka.errors import CodecError, excerpt
from pyspark_zkafka.model.java_patterns import FilterError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.topic_names import shown_name, topic_filter
from pyspark_zkafka.model.znodes.codec import (
    INT64,
    ZnodeJson,
    child_path,
    decode_text,
    encode_json,
    is_int32,
    is_znode_name,
    parse_integer,
)

CONSUMERS = "/consumers"
MAX_THREADS = 100_000
"""The most threads of a consumer, over all its topics. No real consumer has as many, as each thread has a queue."""

BOUNDED_REGEX = "is a regex that takes a bounded time"
"""A part of the error for a regex that is malformed, or not supported by `topic_filter`."""

Pattern = Literal["static", "white_list", "black_list"]

_REGISTRATION = (
    'a consumer\'s registration: JSON such as {"version":1,"subscription":{"T":1},"pattern":"static","timestamp":"0"}'
)
_OWNER = "an owner: the id of a consumer's thread, such as group_host-1-ab-0"
_OFFSET = "an offset: a decimal number of 64 bits, without blanks"
_KEY = "a partition, or broker-partition, as the znode's name"
_PARTITION = re.compile(r"(?:(?P<broker>0|[1-9][0-9]{0,9})-)?(?P<partition>0|[1-9][0-9]{0,9})")
_OLD_FILTER = re.compile(r"(?P<mark>[*!])(?P<streams>[0-9]{1,10})(?P=mark)(?P<regex>.*)", re.DOTALL)
_MARKS: dict[str, Pattern] = {"*": "white_list", "!": "black_list"}
_PATTERNS: dict[object, Pattern] = {"white_list": "white_list", "black_list": "black_list"}
_MODERN_KEYS = frozenset({"version", "subscription", "pattern", "timestamp"})
_JAVA_BLANKS = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """A consumer's subscription: the number of threads by topic, or by the only regex of a filter.

    `timestamp` is milliseconds as text, None if the znode has none. `assignor` names an assignor that only members of this
    package have. JVM consumers ignore its key.
    """

    subscription: Mapping[str, int]
    pattern: Pattern = "static"
    timestamp: str | None = None
    assignor: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class LegacyPartition:
    """A partition of Kafka 0.7, where each broker numbers its own."""

    topic: str
    broker: int
    partition: int


Partition = TopicPartition | LegacyPartition


def partition_key(partition: Partition) -> int | str:
    """Return the number of a partition, or the name of its znode from Kafka 0.7.

    >>> partition_key(TopicPartition("t", 3)), partition_key(LegacyPartition("t", 1, 3))
    (3, '1-3')
    """
    return partition.partition if isinstance(partition, TopicPartition) else f"{partition.broker}-{partition.partition}"


def group_path(group: str) -> str:
    """``/consumers/G``. Raises OptionError if the group's name is not valid for a znode."""
    if not is_znode_name(group):
        raise INVALID_GROUP(
            f"The group name {shown_name(group)} cannot be the name of a znode; use letters, digits, '.', '_' and '-'",
        )
    return f"{CONSUMERS}/{group}"


def ids_path(group: str) -> str:
    return f"{group_path(group)}/ids"


def id_path(group: str, consumer: str) -> str:
    return child_path(ids_path(group), consumer)


def owners_path(group: str) -> str:
    return f"{group_path(group)}/owners"


def topic_owners_path(group: str, topic: str) -> str:
    return child_path(owners_path(group), topic)


def owner_path(group: str, partition: TopicPartition) -> str:
    return f"{topic_owners_path(group, partition.topic)}/{partition.partition}"


def owner_parents(group: str, partitions: Iterable[TopicPartition]) -> list[str]:
    """List ``owners``, and ``owners/T`` of each topic, in the order of the partitions."""
    return [owners_path(group), *(topic_owners_path(group, topic) for topic in _topics(partitions))]


def offsets_path(group: str) -> str:
    return f"{group_path(group)}/offsets"


def topic_offsets_path(group: str, topic: str) -> str:
    return child_path(offsets_path(group), topic)


def offset_path(group: str, partition: Partition) -> str:
    return f"{topic_offsets_path(group, partition.topic)}/{partition_key(partition)}"


def offset_parents(group: str, partitions: Iterable[Partition]) -> list[str]:
    """List ``/consumers``, ``/consumers/G``, ``offsets``, and ``offsets/T`` of each topic, in the partitions' order."""
    above = [CONSUMERS, group_path(group), offsets_path(group)]
    return [*above, *(topic_offsets_path(group, topic) for topic in _topics(partitions))]


def _topics(partitions: Iterable[Partition]) -> Iterable[str]:
    return dict.fromkeys(partition.topic for partition in partitions)


def parse_key(path: str, topic: str, key: str) -> Partition:
    """Parse the name of a znode under ``owners/T`` or ``offsets/T``. `path` is for the error.

    >>> parse_key("/consumers/g/offsets/t/3", "t", "3")
    TopicPartition(topic='t', partition=3)
    >>> parse_key("/consumers/g/offsets/t/1-3", "t", "1-3")
    LegacyPartition(topic='t', broker=1, partition=3)
    """
    match = _PARTITION.fullmatch(key)
    if match is None or not all(is_int32(int(number)) for number in match.groups() if number):
        raise CodecError(path, key.encode("utf-8", "surrogatepass"), _KEY)
    partition = int(match["partition"])
    broker = match["broker"]
    return TopicPartition(topic, partition) if broker is None else LegacyPartition(topic, int(broker), partition)


def consumer_id(group: str, name: str) -> str:
    """The name of a consumer's znode, ``G_name``."""
    return f"{group}_{name}"


def generated_consumer_id(group: str, hostname: str, now_ms: int, most_significant_bits: int) -> str:
    """Name a consumer's znode without ``consumer.id``. The last argument is the upper half of a random UUID.

    >>> generated_consumer_id("billing", "host", 1795228857340, 0xA126459212345678)
    'billing_host-1795228857340-a1264592'
    """
    return consumer_id(group, f"{hostname}-{now_ms}-{f'{most_significant_bits:x}'[:8]}")


def thread_id(consumer: str, number: int) -> str:
    """The id of a consumer's thread, ``C-number``. Numbers start at 0, and ids sort as Java strings."""
    return f"{consumer}-{number}"


def consumer_of_thread(thread: str) -> str:
    """Return a thread's consumer: the text before the last ``-``, or the whole text without one.

    >>> consumer_of_thread("billing_host-1-ab-0")
    'billing_host-1-ab'
    """
    return thread.rpartition("-")[0] or thread


def normalise_filter(regex: str) -> str:
    """Return a filter's regex as the consumer stores and uses it. It must match the whole name of a topic.

    As kafka.consumer.TopicFilter, Kafka 0.8.2.2 and 1.1.1: commas become bars. Blanks, and quotes around the regex, are
    dropped.

    >>> normalise_filter(' "orders, payments.*" ')
    'orders|payments.*'
    """
    return regex.strip(_JAVA_BLANKS).replace(",", "|").replace(" ", "").strip("\"'")


def decode_registration(path: str, data: bytes | None) -> ConsumerRegistration:
    """Decode the subscription in a consumer's znode.

    An unknown pattern means ``static``. The first regex of a filter is used. Keys may be in any order, unknown keys are
    ignored, and version and timestamp may be missing.

    Raises CodecError if the data is not a JSON object or has no pattern or subscription, if a number of threads is not an
    integer above 0, if there are too many threads, or if a regex is malformed or cannot be matched in bounded time.
    """
    text = decode_text(path, data, _REGISTRATION)
    old_filter = _OLD_FILTER.fullmatch(text)
    if old_filter is not None:
        old = ZnodeJson(path, data, _REGISTRATION, {old_filter["regex"]: int(old_filter["streams"])})
        counts = _counts(old)
        _require_regexes(old, counts)
        return ConsumerRegistration(counts, _MARKS[old_filter["mark"]])
    found = ZnodeJson.parse(path, data, _REGISTRATION)
    if found.fields and not found.fields.keys() & _MODERN_KEYS:
        return ConsumerRegistration(_counts(found))
    pattern = _PATTERNS.get(found.text("pattern"), "static")
    counts = _counts(found.nested("subscription"))
    if pattern != "static":
        counts = dict(list(counts.items())[:1])
        _require_regexes(found, counts)
    assignor = found.fields.get("assignor")
    return ConsumerRegistration(counts, pattern, found.timestamp(), assignor if isinstance(assignor, str) else None)


def encode_registration(registration: ConsumerRegistration) -> bytes:
    """Encode as consumers from 0.8.1 on do.

    Text is escaped once, as by 0.8.2.2, which every version can read. (1.0.1 to 1.1.1 escape a filter's regex twice, and
    never match a regex with a backslash.)
    """
    r = registration
    fields: dict[str, object] = {"version": 1, "subscription": dict(r.subscription), "pattern": r.pattern}
    if r.timestamp is not None:
        fields["timestamp"] = r.timestamp
    if r.assignor is not None:
        fields["assignor"] = r.assignor
    return encode_json(fields)


def _counts(found: ZnodeJson) -> dict[str, int]:
    counts = {name: found.integer(name) for name in found.fields}
    if any(count < 1 for count in counts.values()):
        found.fail("a number of threads is 1 or more")
    if sum(counts.values()) > MAX_THREADS:
        found.fail(f"a consumer has at most {MAX_THREADS} threads in all")
    return counts


def _require_regexes(found: ZnodeJson, regexes: Mapping[str, int]) -> None:
    for regex in regexes:
        try:
            topic_filter(normalise_filter(regex))
        except FilterError as error:
            found.fail(f"{excerpt(regex, 120)!r} {BOUNDED_REGEX}: {error}")


def decode_owner(path: str, data: bytes | None) -> str:
    """Decode the id of the thread that owns a partition."""
    text = decode_text(path, data, _OWNER)
    if not text:
        raise CodecError(path, data, _OWNER)
    return text


def encode_owner(thread: str) -> bytes:
    return thread.encode()


def decode_offset(path: str, data: bytes | None) -> int:
    """Decode the next offset to read, which is negative if there is none."""
    return parse_integer(path, data, _OFFSET, INT64)


def encode_offset(offset: int) -> bytes:
    return str(offset).encode()
