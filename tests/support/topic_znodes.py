"""Znodes of topics with leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes import cluster as znodes
from pyspark_zkafka.model.znodes.codec import encode_json
from pyspark_zkafka.zookeeper.connection import ZooKeeperConnection
from pyspark_zkafka.zookeeper.transactions import Create

if TYPE_CHECKING:
    from tests.support.chroot import Chroot


def make_topic(chroot: Chroot, name: str, partitions: int) -> None:
    """Write the znodes of a topic led by broker 1."""
    registration = encode_json({"version": 1, "partitions": {str(p): [1] for p in range(partitions)}})
    state = encode_json({"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]})
    paths = [znodes.partition_state_path(TopicPartition(name, p)) for p in range(partitions)]
    topic = znodes.topic_path(name)
    creates = [Create(topic, registration), Create(f"{topic}/partitions", None)]
    for path in paths:
        creates += [Create(path.rpartition("/")[0], None), Create(path, state)]
    with ZooKeeperConnection(chroot.config) as connection:
        assert connection.transact(creates).conflict is None
