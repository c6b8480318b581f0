"""Members of groups in Kafka, beside those in ZooKeeper: neither kind sees the other, and both read all partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark_zkafka.errors import ClusterStateError, CodecError, listing
from pyspark_zkafka.group.joining import old_brokers

if TYPE_CHECKING:
    from pyspark_zkafka.kafka.group_admin import GroupAdmin
    from pyspark_zkafka.zookeeper.cluster import ZooKeeperClient

__all__ = ["KafkaMembership", "read_kafka_membership"]

_SHOWN = 5
_TOOL = "kafka-consumer-groups --describe --members"


@dataclass(frozen=True, slots=True)
class KafkaMembership:
    """The number of members that groups have in Kafka; `problem` is why it is unknown."""

    counts: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None

    def in_both(self, in_zookeeper: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """The groups with members of both kinds, and the numbers of these, those in ZooKeeper first.

        >>> KafkaMembership({"a": 1, "b": 2}).in_both({"a": 3, "b": 0})
        {'a': (3, 1)}
        """
        return {
            name: (in_zookeeper[name], count) for name, count in self.counts.items() if count and in_zookeeper.get(name)
        }

    def notes(self, in_zookeeper: Mapping[str, int]) -> Iterator[str]:
        """A line for each thing that ZooKeeper does not show; `in_zookeeper` has the numbers of members there.

        >>> list(KafkaMembership({"a": 1}).notes({"a": 0}))
        ['Members in Kafka, which ZooKeeper does not show: a (1); see kafka-consumer-groups --describe --members']
        """
        both = self.in_both(in_zookeeper)
        alone = [f"{name} ({count})" for name, count in self.counts.items() if count and name not in both]
        if both:
            found = [f"{name} ({here} and {there})" for name, (here, there) in both.items()]
            yield (
                f"Members in ZooKeeper and in Kafka at the same time: {listing(found, _SHOWN)}; neither kind sees the "
                "other, and both read all partitions; stop one of them"
            )
        if alone:
            yield f"Members in Kafka, which ZooKeeper does not show: {listing(alone, _SHOWN)}; see {_TOOL}"
        if self.problem is not None:
            yield f"Members in Kafka are unknown: {self.problem}"


def read_kafka_membership(
    zookeeper: ZooKeeperClient, brokers: Callable[[], GroupAdmin], groups: Iterable[str]
) -> KafkaMembership:
    """The members that groups have in Kafka; none where brokers coordinate no groups.

    Blocks for two rounds of requests to ZooKeeper, and one to each group's coordinator. Brokers that refuse, or do not
    answer, are no error.
    """
    names = list(groups)
    try:
        states = {} if not names or old_brokers(zookeeper) else brokers().group_states(names)
    except (ClusterStateError, CodecError) as error:
        return KafkaMembership(problem=error.message)
    return KafkaMembership({name: len(state.members) for name, state in states.items()})
