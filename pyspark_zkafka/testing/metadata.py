"""Metadata of each broker by itself, and their agreement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pyspark_zkafka.testing.waiting import SETTLE_TIMEOUT_S, Deadline, unsettled

__all__ = ["BrokerView", "MetadataWatch", "client_settings"]

_ANSWER_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class BrokerView:
    """The live brokers, and each topic's leaders by partition (-1 where there is none), by one broker."""

    brokers: frozenset[int]
    leaders: Mapping[str, Mapping[int, int]]

    def is_led(self, topic: str, partitions: int) -> bool:
        """True if a topic has so many partitions, and each has a leader."""
        leaders = self.leaders.get(topic, {})
        return len(leaders) == partitions and -1 not in leaders.values()


def client_settings(bootstrap: str, kafka_version: tuple[int, ...], settings: Mapping[str, str]) -> dict[str, object]:
    """librdkafka's configuration for one of this package's own clients: quiet, and quick to reconnect."""
    old = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
    return {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "log.connection.close": False,
        "error_cb": lambda error: None,  # lost connections are expected
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 250,
        **(old if kafka_version < (0, 10) else {}),
        **settings,
    }


class MetadataWatch:
    """A client for each of some brokers, which fetches that broker's metadata again and again."""

    def __init__(self, settings: Mapping[int, Mapping[str, object]]) -> None:
        self._clients = {broker: AdminClient(dict(given)) for broker, given in settings.items()}

    def close(self) -> None:
        """End the clients on this thread: the garbage collector, on a client's own thread, would abort the process."""
        for client in self._clients.values():
            client.__exit__(None, None, None)

    def uninformed(self, brokers: set[int]) -> set[int]:
        """The brokers that do not answer, or do not know all of the given ones."""
        return {b for b, view in self._views().items() if view is None or not brokers <= view.brokers}

    def agree(
        self, agreed: Callable[[list[BrokerView]], bool], lack: str, timeout_s: float = SETTLE_TIMEOUT_S
    ) -> list[BrokerView]:
        """The views of all brokers, once all answer and `agreed` holds; raises `NOT_SETTLED`."""

        def look() -> list[BrokerView] | None:
            views = [view for view in self._views().values() if view is not None]
            return views if len(views) == len(self._clients) and agreed(views) else None

        found = Deadline(timeout_s).until(look)
        if found is None:
            raise unsettled(f"{lack}, after {timeout_s:.0f} s; the brokers' metadata are {self._views()}")
        return found

    def _views(self) -> dict[int, BrokerView | None]:
        return {broker: _view(client) for broker, client in self._clients.items()}


def _view(client: AdminClient) -> BrokerView | None:
    """The view of one broker; None when it does not answer within 2 s.

    All topics are asked for: to ask for one by name could create it. A broker of 0.8 knows no broker, and answers with
    none, before the first topic is created.
    """
    try:
        found = client.list_topics(timeout=_ANSWER_TIMEOUT_S)
    except KafkaException as exc:
        return BrokerView(frozenset(), {}) if exc.args[0].code() == KafkaError._PARTIAL else None
    known = {name: t for name, t in found.topics.items() if t.error is None}
    leaders = {name: {p.id: p.leader for p in t.partitions.values()} for name, t in known.items()}
    return BrokerView(frozenset(found.brokers), leaders)
