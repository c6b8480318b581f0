"""What brokers and ZooKeeper report about a local cluster: whether it is ready, and what each broker knows."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from pyspark_zkafka.testing.conditions import NOT_READY, ZOOKEEPER_SILENT
from pyspark_zkafka.testing.processes import LOOPBACK, SETTLE_TIMEOUT_S, ServerProcesses, Wait, unsettled
from pyspark_zkafka.testing.spec import ZOOKEEPER

_ANSWER_TIMEOUT_S = 2.0
_QUIET = logging.Logger("zkafka-local-cluster", logging.CRITICAL + 1)
_SRVR_TIMEOUT_S = 1.0
_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 1, "max_delay": 0.2}


@dataclass(frozen=True)
class BrokerView:
    """One broker's view of the live brokers, and of each topic's leaders by partition (-1 without a leader)."""

    brokers: frozenset[int]
    leaders: Mapping[str, Mapping[int, int]]

    def is_led(self, topic: str, partitions: int) -> bool:
        """True if a topic has this number of partitions, each with a leader."""
        leaders = self.leaders.get(topic, {})
        return len(leaders) == partitions and -1 not in leaders.values()


class MetadataWatch:
    """A client for each of some brokers, to fetch the broker's metadata repeatedly."""

    def __init__(self, settings: Mapping[int, Mapping[str, object]]) -> None:
        self._clients = {broker: AdminClient(dict(given)) for broker, given in settings.items()}

    def close(self) -> None:
        """Close the clients on this thread. On a client's own thread, the garbage collector would abort the process."""
        for client in self._clients.values():
            client.__exit__(None, None, None)

    def uninformed(self, brokers: set[int]) -> set[int]:
        """Find the brokers that do not answer, or do not know all of `brokers`."""
        return {b for b, view in self._views().items() if view is None or not brokers <= view.brokers}

    def agree(
        self, agreed: Callable[[list[BrokerView]], bool], lack: str, timeout_s: float = SETTLE_TIMEOUT_S
    ) -> list[BrokerView]:
        """Wait until all brokers answer and `agreed` is true, and return their views; raises `NOT_SETTLED`."""

        found: list[BrokerView] = []

        def is_agreed() -> bool:
            found[:] = [view for view in self._views().values() if view is not None]
            return len(found) == len(self._clients) and agreed(found)

        if not Wait(timeout_s).until(is_agreed):
            raise unsettled(f"{lack}, after {timeout_s:.0f} s; the brokers' metadata are {self._views()}")
        return found

    def _views(self) -> dict[int, BrokerView | None]:
        return {broker: _view(client) for broker, client in self._clients.items()}


def _view(client: AdminClient) -> BrokerView | None:
    """Return the view of one broker; None if it does not answer within 2 s.

    Requests all topics, because a request by name could create the topic. A broker of 0.8 lists no broker before the first
    topic is created.
    """
    try:
        found = client.list_topics(timeout=_ANSWER_TIMEOUT_S)
    except KafkaException as exc:
        return BrokerView(frozenset(), {}) if exc.args[0].code() == KafkaError._PARTIAL else None
    known = {name: t for name, t in found.topics.items() if t.error is None}
    leaders = {name: {p.id: p.leader for p in t.partitions.values()} for name, t in known.items()}
    return BrokerView(frozenset(found.brokers), leaders)


def wait_for_zookeeper(processes: ServerProcesses, deadline: Wait) -> None:
    """Return when ZooKeeper serves; raises `SERVER_DIED` or `NOT_READY`."""

    def serving() -> bool:
        processes.raise_if_dead(ZOOKEEPER)
        return _serves(processes.port(ZOOKEEPER))

    if not deadline.until(serving):
        lack = f"ZooKeeper does not serve after {deadline.timeout_s:.0f} s; its log ends with"
        raise NOT_READY(f"{lack}\n{processes.log_tail(ZOOKEEPER)}")


def _serves(port: int) -> bool:
    """True if a ZooKeeper serves, by its answer to ``srvr``.

    ZooKeeper listens shortly before it serves. A session requested in between is lost, and its client waits for 10 s.
    """
    try:
        with socket.create_connection((LOOPBACK, port), _SRVR_TIMEOUT_S) as probe:
            probe.sendall(b"srvr")
            answer = b"".join(iter(lambda: probe.recv(4096), b""))
    except OSError:
        return False
    return bool(answer) and b"not currently serving" not in answer


@contextmanager
def zookeeper_session(hosts: str, timeout_s: float) -> Iterator[KazooClient]:
    """Connect a client; raises `ZOOKEEPER_SILENT` if it is not connected in time."""
    client = KazooClient(hosts, timeout=10.0, connection_retry=_RETRY, logger=_QUIET)
    try:
        client.start(max(timeout_s, 0.1))
        yield client
    except KazooTimeoutError as exc:
        reason = f"ZooKeeper at {hosts} did not answer within {timeout_s:.0f} s; check whether it is stopped or paused"
        raise ZOOKEEPER_SILENT(reason) from exc
    finally:
        client.stop()
        client.close()


def registered_brokers(client: KazooClient) -> set[int]:
    """Return the ids of the brokers that have a znode."""
    if client.exists("/brokers/ids") is None:
        return set()
    return {int(name) for name in client.get_children("/brokers/ids")}


def has_topics(client: KazooClient) -> bool:
    return client.exists("/brokers/topics") is not None and bool(client.get_children("/brokers/topics"))
