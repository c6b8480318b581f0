"""What can be done with a running cluster's topics and records; each call returns when all running brokers agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.configs import version_tuple
from pyspark_zkafka.testing.metadata import BrokerView
from pyspark_zkafka.testing.producing import Record, produce
from pyspark_zkafka.testing.servers import Servers
from pyspark_zkafka.testing.topics import AdminTopics, Topics, ZnodeTopics, spread
from pyspark_zkafka.testing.waiting import Deadline

__all__ = ["TopicOperations"]

_SETTLE_TIMEOUT_S = 60.0


class TopicOperations:
    """The part of `LocalCluster` that is about topics and records."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication: int = 1,
        config: Mapping[str, str] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic; returns when every running broker tells a leader for every partition.

        Parameters
        ----------
        name : str
            The topic.
        partitions, replication : int
            How many partitions, with how many replicas each: round the running brokers, partition 0 on the first one.
        config : mapping, optional
            The topic's configuration.
        assignment : mapping, optional
            Each partition's replicas, the preferred leader first, instead of `partitions` and `replication`.
        """
        replicas = assignment or spread(range(partitions), replication, self._servers.running)
        with self._topics() as topics:
            topics.create(name, replicas, config or {})
        self._wait_for_leaders(name, len(replicas))

    def add_partitions(self, name: str, total: int) -> None:
        """Add partitions, up to a total; returns when every running broker tells a leader for every one."""
        present = self.assignment(name)
        running = self._servers.running
        more = spread(range(len(present), total), min(len(present[0]), len(running)), running)
        with self._topics() as topics:
            topics.extend(name, more)
        self._wait_for_leaders(name, total)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; returns when it is gone from ZooKeeper and from what every running broker tells."""
        with self._topics() as topics:
            topics.delete(name)
        self._agree(f"topic {name} is not gone", lambda views: all(name not in v.leaders for v in views))
        with self._servers.zookeeper() as client:
            gone = Deadline(_SETTLE_TIMEOUT_S).until(lambda: None if client.exists(f"/brokers/topics/{name}") else True)
        if gone is None:
            raise _unsettled(f"the znode of topic {name} is still there; are all of its replicas running?")

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """The log start offset of each partition, after all records before the given offset were deleted (-1: all)."""
        with self._topics() as topics:
            return topics.delete_records(topic, before)

    def produce(
        self, topic: str, records: Iterable[Record], config: Mapping[str, object] | None = None
    ) -> dict[int, list[int]]:
        """The offsets that some records got, by partition, once all are acknowledged by all in-sync replicas.

        Parameters
        ----------
        topic : str
            Where to.
        records : iterable
            Dicts with any of key, value, partition, headers (list of pairs, or dict) and timestamp (milliseconds since
            1970), or tuples in that order. Texts are encoded as UTF-8.
        config : mapping, optional
            More configuration of the producer, in librdkafka's names.
        """
        return produce({**self._servers.client_settings(), **(config or {})}, topic, records)

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """Each partition's replicas, the preferred leader first, as ZooKeeper has them."""
        with self._servers.zookeeper() as client:
            if client.exists(f"/brokers/topics/{topic}") is None:
                raise LocalClusterError("NO_SUCH_TOPIC", f"There is no topic {topic}; create_topic makes it")
            found = json.loads(client.get(f"/brokers/topics/{topic}")[0])["partitions"]
        return {int(p): found[p] for p in sorted(found, key=int)}

    def wait_for_leader(
        self, topic: str, partition: int, not_broker: int | None = None, timeout_s: float = _SETTLE_TIMEOUT_S
    ) -> int:
        """The leader of a partition, once all running brokers tell the same one, it runs, and it is not `not_broker`."""

        def led(views: list[BrokerView]) -> bool:
            leaders = {v.leaders.get(topic, {}).get(partition, -1) for v in views}
            return len(leaders) == 1 and leaders <= set(self._servers.running) - {not_broker}

        views = self._agree(f"{topic}-{partition} has no agreed leader (other than {not_broker})", led, timeout_s)
        return views[0].leaders[topic][partition]

    def wait_in_sync(self, topic: str, timeout_s: float = _SETTLE_TIMEOUT_S) -> None:
        """Return when all replicas of all partitions of a topic are in sync, as ZooKeeper has it."""
        assignment = self.assignment(topic)

        with self._servers.zookeeper() as client:

            def in_sync() -> bool | None:
                return True if all(_in_sync(client, topic, p) == set(r) for p, r in assignment.items()) else None

            if Deadline(timeout_s).until(in_sync) is None:
                raise _unsettled(f"not all replicas of {topic} are in sync; are all of their brokers running?")

    def elect_preferred_leaders(self, topic: str, timeout_s: float = _SETTLE_TIMEOUT_S) -> None:
        """Let each partition be led by its first replica; returns when all running brokers tell so.

        Waits first until all replicas are in sync, as only such a one can be elected.
        """
        self.wait_in_sync(topic, timeout_s)
        preferred = {p: replicas[0] for p, replicas in self.assignment(topic).items()}
        asked = {"version": 1, "partitions": [{"topic": topic, "partition": p} for p in preferred]}
        with self._servers.zookeeper() as client:
            path = "/admin/preferred_replica_election"
            Deadline(timeout_s).until(lambda: _created(client, path, json.dumps(asked).encode()))
        wanted = f"the partitions of {topic} are not led by their preferred replicas {preferred}"
        self._agree(wanted, lambda views: all(v.leaders.get(topic) == preferred for v in views), timeout_s)

    @contextmanager
    def _topics(self) -> Iterator[Topics]:
        if version_tuple(self._servers.spec.kafka_version) >= (0, 10, 2):
            with closing(AdminTopics(self._servers.client_settings())) as topics:
                yield topics
        else:
            with self._servers.zookeeper() as client:
                yield ZnodeTopics(client)

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        def led(view: BrokerView) -> bool:
            leaders = view.leaders.get(topic, {})
            return len(leaders) == partitions and -1 not in leaders.values()

        self._agree(f"not every partition of {topic} has a leader", lambda views: all(map(led, views)))

    def _agree(
        self, lack: str, agreed: Callable[[list[BrokerView]], bool], timeout_s: float = _SETTLE_TIMEOUT_S
    ) -> list[BrokerView]:
        """What the running brokers tell, once all answer and it is as wanted."""
        with self._servers.metadata() as watch:

            def look() -> list[BrokerView] | None:
                views = [view for view in watch.views().values() if view is not None]
                return views if len(views) == len(watch) and agreed(views) else None

            found = Deadline(timeout_s).until(look)
            if found is None:
                raise _unsettled(f"{lack}, after {timeout_s:.0f} s; the brokers report {watch.views()}")
            return found


def _in_sync(client: KazooClient, topic: str, partition: int) -> set[int]:
    try:
        data, _ = client.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
    except NoNodeError:
        return set()
    return set(json.loads(data)["isr"])


def _created(client: KazooClient, path: str, data: bytes) -> bool | None:
    try:
        client.create(path, data, makepath=True)
    except NodeExistsError:
        return None
    return True


def _unsettled(lack: str) -> LocalClusterError:
    return LocalClusterError("NOT_SETTLED", f"The local cluster did not reach the requested state: {lack}")
