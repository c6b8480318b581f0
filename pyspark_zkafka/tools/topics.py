"""Topics and partitions that operations are given."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pyspark_zkafka.conditions import INVALID_OPTION, UNKNOWN_TOPIC
from pyspark_zkafka.errors import listing
from pyspark_zkafka.model.nouns import ClusterSnapshot, TopicPartition

__all__ = ["Scope", "parse_scope", "require_partitions", "require_topics", "scope_partitions"]

_SHOWN = 10


def require_topics(topics: Collection[str], existing: Collection[str]) -> None:
    """Raise UnknownTopic if one of the topics does not exist."""
    missing = sorted(set(topics).difference(existing))
    if missing:
        raise UNKNOWN_TOPIC(f"Topics do not exist: {', '.join(missing)}; see zkafka topics list")


@dataclass(frozen=True, slots=True)
class Scope:
    """Topics of which all partitions are meant, and single partitions."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)

    @property
    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted({*self.topics, *(tp.topic for tp in self.partitions)})


def parse_scope(texts: Iterable[str]) -> Scope:
    """Topics and partitions from ``T`` and ``T:P,P``.

    >>> sorted(parse_scope(["orders", "clicks:0,2"]).partitions)
    [TopicPartition(topic='clicks', partition=0), TopicPartition(topic='clicks', partition=2)]

    Raises
    ------
    OptionError
        A topic without a name, or a partition that is not a number.
    """
    topics: set[str] = set()
    partitions: set[TopicPartition] = set()
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", numbers)):
            raise INVALID_OPTION(f"--topic {text!r} is not valid; write TOPIC, or TOPIC:0,1 for partitions")
        if colon:
            partitions.update(TopicPartition(topic, int(number)) for number in numbers.split(","))
        else:
            topics.add(topic)
    return Scope(frozenset(topics), frozenset(partitions))


def scope_partitions(scope: Scope, snapshot: ClusterSnapshot) -> list[TopicPartition]:
    """The partitions in a scope, sorted.

    Raises
    ------
    UnknownTopic
        A topic or partition does not exist.
    """
    whole = {tp for topic in scope.topics for tp in snapshot.partitions(topic)}
    unknown = [topic for topic in sorted(scope.topics) if topic not in snapshot.topics]
    require_partitions(scope.partitions, snapshot, unknown)
    return sorted(whole | scope.partitions)


def require_partitions(
    partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot, unknown_topics: Iterable[str] = ()
) -> None:
    """Raise UnknownTopic if some of the partitions, or any of the topics, do not exist."""
    there = {topic: set(found.partitions) for topic, found in snapshot.topics.items()}
    unknown = [*unknown_topics, *(str(tp) for tp in sorted(partitions) if tp.partition not in there.get(tp.topic, ()))]
    if unknown:
        raise UNKNOWN_TOPIC(
            f"The cluster has no {listing(unknown, _SHOWN)}; nothing was changed; correct the names, or leave them out",
        )
