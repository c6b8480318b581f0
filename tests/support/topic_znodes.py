"""Znodes of topics, complete with leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_zkafka.protocol.model import PartitionState, TopicPartition
from pyspark_zkafka.protocol.znodes import topics as znodes
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Create

if TYPE_CHECKING:
    from tests.support.chroot import Chroot


def make_topic(chroot: Chroot, name: str, partitions: int) -> None:
    """Write the znodes of a topic that broker 1 leads."""
    registration = znodes.TopicRegistration({p: (1,) for p in range(partitions)}, 1)
    state = znodes.encode_partition_state(PartitionState(1, 0, (1,), 1))
    paths = [znodes.partition_state_path(TopicPartition(name, p)) for p in range(partitions)]
    topic = znodes.topic_path(name)
    creates = [Create(topic, znodes.encode_topic(registration)), Create(f"{topic}/partitions", None)]
    for path in paths:
        creates += [Create(path.rpartition("/")[0], None), Create(path, state)]
    with ZooKeeperConnection(chroot.config) as connection:
        assert connection.transaction(creates) is None
