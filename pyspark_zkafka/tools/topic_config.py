"""Changes of topics' own configurations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pyspark_zkafka.conditions import INVALID_OPTION, UNKNOWN_TOPIC
from pyspark_zkafka.model.znodes.admin import (
    CONFIG_CHANGE,
    decode_topic_config,
    encode_config_change,
    encode_topic_config,
    topic_config_path,
)
from pyspark_zkafka.model.znodes.brokers import BROKER_IDS, decode_broker
from pyspark_zkafka.tools.controller import submit
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create, SetData

__all__ = ["StoredConfig", "parse_settings", "read_config", "with_settings", "without_settings", "write_config"]

_NEWEST_REGISTRATION = 5


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """A topic's own configuration, and the version of its znode; None if there is no znode."""

    topic: str
    settings: Mapping[str, str]
    version: int | None


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """Settings from ``NAME=VALUE``; brackets around a list of values, which kafka-configs requires, are removed.

    >>> parse_settings(["cleanup.policy=[compact,delete]", "retention.ms=1"])
    {'cleanup.policy': 'compact,delete', 'retention.ms': '1'}
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or "=" in value or not value.strip():
            raise INVALID_OPTION(f"{text!r} is not a setting; write NAME=VALUE, such as retention.ms=86400000")
        value = value.strip()
        settings[name.strip()] = value[1:-1] if value[:1] == "[" and value[-1:] == "]" else value
    return settings


def with_settings(config: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """The configuration with settings added or replaced."""
    return {**config, **settings}


def without_settings(config: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The configuration without some settings; raises OptionError if one of them is not there."""
    missing = sorted(set(names).difference(config))
    if missing:
        raise INVALID_OPTION(f"The topic has no setting {', '.join(missing)} of its own; see zkafka admin config describe")
    return {name: value for name, value in config.items() if name not in names}


def read_config(client: ZooKeeperClient, topic: str) -> StoredConfig:
    """A topic's own configuration; raises UnknownTopic if there is no such topic. Blocks for two rounds."""
    if topic not in client.topics([topic]):
        raise UNKNOWN_TOPIC(f"There is no topic {topic}; see zkafka topics list")
    path = topic_config_path(topic)
    node = client.get_many([path]).get(path)
    if node is None:
        return StoredConfig(topic, {}, None)
    return StoredConfig(topic, decode_topic_config(path, node.data), node.stat.version)


def write_config(client: ZooKeeperClient, stored: StoredConfig, settings: Mapping[str, str]) -> None:
    """Replace a topic's configuration, and notify the brokers, in one transaction.

    Raises
    ------
    ClusterStateError
        The configuration was changed since it was read; nothing was changed by this call.
    """
    path, data = topic_config_path(stored.topic), encode_topic_config(settings)
    change = Create(path, data) if stored.version is None else SetData(path, data, stored.version)
    notice = Create(CONFIG_CHANGE, encode_config_change(stored.topic, _oldest_registration(client)), sequential=True)
    submit(client, [change, notice], f"The change of {stored.topic}'s configuration")


def _oldest_registration(client: ZooKeeperClient) -> int:
    """The lowest version of the brokers' registrations; blocks for two rounds."""
    ids = client.children_many([BROKER_IDS]).get(BROKER_IDS, [])
    nodes = client.get_many(f"{BROKER_IDS}/{broker}" for broker in ids)
    return min((decode_broker(path, node.data).version for path, node in nodes.items()), default=_NEWEST_REGISTRATION)
