"""``zkafka admin config``: settings that topics have of their own, as kafka-configs shows and changes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from pyspark_zkafka.conditions import INVALID_OPTION, INVALID_TOPIC_CONFIG, UNKNOWN_TOPIC
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.model.znodes.cluster import (
    BROKER_IDS,
    CONFIG_CHANGE,
    config_problems,
    decode_broker,
    decode_topic_config,
    encode_config_change,
    encode_topic_config,
    topic_config_path,
)
from pyspark_zkafka.tools.admin import require_controller, submit
from pyspark_zkafka.tools.command import Target, changes_cluster, parse_pairs, reads_cluster, require_topics
from pyspark_zkafka.tools.output import Column, view_columns
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Create, SetData

_SETTINGS = view_columns("configs")
_CHANGES = (*_SETTINGS, Column("new_value"))
_NEWEST_REGISTRATION = 5

_Topics = Annotated[list[str] | None, typer.Option("--topic", help="A topic; repeatable; all by default.")]
_Topic = Annotated[str, typer.Option("--topic", help="The topic.")]
_Settings = Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="The settings.")]
_Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The settings' names.")]


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """A topic's own configuration, and the version of its znode; None if there is no znode."""

    topic: str
    settings: Mapping[str, str]
    version: int | None


@reads_cluster
def describe(target: Target, topic: _Topics = None) -> None:
    """Show the settings that topics have of their own; the brokers' defaults apply to all others.

    Example: zkafka admin config describe --topic orders --zookeeper zk1:2181/kafka
    """
    if topic:
        require_topics(topic, [row["topic"] for row in target.view("topics", topic)])
    target.output.rows(target.view("configs", topic), _SETTINGS, "No topic has settings of its own.")


@changes_cluster
def set_(target: Target, topic: _Topic, settings: _Settings) -> None:
    """Add or replace settings of a topic.

    Example: zkafka admin config set --topic orders retention.ms=86400000 --zookeeper zk1:2181/kafka
    """
    requested = parse_settings(settings)
    with target.zookeeper() as client:
        stored = read_config(client, topic)
        _change(target, client, stored, {**stored.settings, **requested})


@changes_cluster
def delete(target: Target, topic: _Topic, names: _Names) -> None:
    """Delete settings of a topic: the brokers' defaults apply again.

    Example: zkafka admin config delete --topic orders retention.ms --zookeeper zk1:2181/kafka
    """
    with target.zookeeper() as client:
        stored = read_config(client, topic)
        _change(target, client, stored, without_settings(stored.settings, names))


def parse_settings(texts: Collection[str]) -> dict[str, str]:
    """Return settings from NAME=VALUE; brackets around a list of values, which kafka-configs requires, are removed.

    >>> parse_settings(["cleanup.policy=[compact,delete]", "retention.ms=1"])
    {'cleanup.policy': 'compact,delete', 'retention.ms': '1'}
    """
    settings = {name: value.strip() for name, value in parse_pairs(texts, "NAME=VALUE", strict=True)}
    return {name: v[1:-1] if v[:1] == "[" and v[-1:] == "]" else v for name, v in settings.items()}


def without_settings(config: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the configuration without some settings; raise OptionError if one of them is not in it."""
    missing = sorted(set(names).difference(config))
    if missing:
        raise INVALID_OPTION(f"The topic has no setting {', '.join(missing)} of its own; see zkafka admin config describe")
    return {name: value for name, value in config.items() if name not in names}


def read_config(client: ZooKeeperClient, topic: str) -> StoredConfig:
    """Return a topic's own configuration; raise UnknownTopic if there is no such topic. Blocks for two rounds."""
    if topic not in client.topics([topic]):
        raise UNKNOWN_TOPIC(f"There is no topic {topic}; see zkafka topics list")
    path = topic_config_path(topic)
    node = client.get_many([path]).get(path)
    if node is None:
        return StoredConfig(topic, {}, None)
    return StoredConfig(topic, decode_topic_config(path, node.data), node.stat.version)


def _change(target: Target, client: ZooKeeperClient, stored: StoredConfig, config: Mapping[str, str]) -> None:
    require_controller(client)
    before = stored.settings
    changed = [name for name in dict.fromkeys([*config, *before]) if before.get(name) != config.get(name)]
    rows = [
        {"topic": stored.topic, "name": name, "value": before.get(name), "new_value": config.get(name)} for name in changed
    ]
    target.output.rows(rows, _CHANGES, "The settings have these values already.")
    if not rows:
        return
    _validate(target, client, stored.topic, config, changed)
    if target.proceed(f"Change the configuration of {stored.topic}?"):
        write_config(client, stored, config)
        target.output.note(f"Changed the configuration of {stored.topic}.")


def _validate(target: Target, client: ZooKeeperClient, topic: str, config: Mapping[str, str], changed: list[str]) -> None:
    """Have a broker validate the configuration; if none answers, check the names and values that change."""
    try:
        with target.brokers(client.snapshot([])) as admin:
            admin.check_topic_config(topic, config)
    except OptionError:
        raise
    except ZKafkaError as error:
        target.output.note(f"No broker has validated the values; they are checked against Kafka 3.9's settings. {error}")
        problems = config_problems({name: config[name] for name in changed if name in config})
        if problems:
            raise INVALID_TOPIC_CONFIG(
                f"Settings of {topic}: {'; '.join(problems)}; correct the names or the values"
            ) from error


def write_config(client: ZooKeeperClient, stored: StoredConfig, settings: Mapping[str, str]) -> None:
    """Replace a topic's configuration, and notify the brokers, in one transaction.

    Raises ClusterStateError if the configuration has changed since it was read. Then nothing was written.
    """
    ids = client.children_many([BROKER_IDS]).get(BROKER_IDS, [])
    nodes = client.get_many(f"{BROKER_IDS}/{broker}" for broker in ids)
    registrations = (decode_broker(path, node.data).version for path, node in nodes.items())
    oldest = min(registrations, default=_NEWEST_REGISTRATION)
    path, data = topic_config_path(stored.topic), encode_topic_config(settings)
    change = Create(path, data) if stored.version is None else SetData(path, data, stored.version)
    notice = Create(CONFIG_CHANGE, encode_config_change(stored.topic, oldest), sequential=True)
    submit(client, [change, notice], f"The change of {stored.topic}'s configuration")
