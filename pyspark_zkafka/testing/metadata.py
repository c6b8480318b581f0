"""What brokers say in their metadata, each broker asked by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

__all__ = ["BrokerView", "MetadataWatch", "client_settings"]

_ANSWER_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class BrokerView:
    """The live brokers, and each topic's leaders by partition (-1 where there is none), as one broker tells them."""

    brokers: frozenset[int]
    leaders: Mapping[str, Mapping[int, int]]


def client_settings(bootstrap: str, kafka_version: tuple[int, ...], settings: Mapping[str, str]) -> dict[str, object]:
    """librdkafka's configuration for one of this package's own clients: quiet, and quick to reconnect."""
    quiet: dict[str, object] = {"log_level": 0, "log.connection.close": False, "error_cb": _ignore}
    quick: dict[str, object] = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 250}
    old: dict[str, object] = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
    return {
        "bootstrap.servers": bootstrap,
        **quiet,
        **quick,
        **(old if kafka_version < (0, 10) else {}),
        **settings,
    }


def _ignore(error: object) -> None:
    """A lost connection is an expected event here."""


class MetadataWatch:
    """Asks each of some brokers for its metadata, again and again; holds one connection to each while it lives."""

    def __init__(self, settings: Mapping[int, Mapping[str, object]]) -> None:
        self._clients = {broker: AdminClient(dict(given)) for broker, given in settings.items()}

    def __len__(self) -> int:
        return len(self._clients)

    def close(self) -> None:
        """Ends the clients on this thread: a collector that does it on a client's own would abort the process."""
        for client in self._clients.values():
            client.__exit__(None, None, None)

    def views(self) -> dict[int, BrokerView | None]:
        """What each broker says now."""
        return {broker: self.view(broker) for broker in self._clients}

    def view(self, broker: int) -> BrokerView | None:
        """What one broker says now; None when it does not answer within 2 s.

        All topics are asked for: to ask for one by name could create it. A broker of 0.8 is told of no broker, and answers
        with none, before the first topic is created.
        """
        try:
            told = self._clients[broker].list_topics(timeout=_ANSWER_TIMEOUT_S)
        except KafkaException as exc:
            blank = exc.args[0].code() == KafkaError._PARTIAL
            return BrokerView(frozenset(), {}) if blank else None
        known = {name: t for name, t in told.topics.items() if t.error is None}
        leaders = {name: {p.id: p.leader for p in t.partitions.values()} for name, t in known.items()}
        return BrokerView(frozenset(told.brokers), leaders)
