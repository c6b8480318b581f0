"""``zkafka admin config``: topics' own settings, as kafka-configs shows and changes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from pyspark_zkafka.conditions import INVALID_TOPIC_CONFIG
from pyspark_zkafka.errors import OptionError, ZKafkaError
from pyspark_zkafka.tools.command import Target, changes_cluster, reads_cluster
from pyspark_zkafka.tools.output import columns

if TYPE_CHECKING:
    from pyspark_zkafka.tools.topic_config import StoredConfig
    from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Describe, set and delete settings of topics.")

_SETTINGS = columns("topic name value")
_CHANGES = columns("topic name value new_value")

_Topics = Annotated[list[str] | None, typer.Option("--topic", help="A topic; repeatable; all by default.")]
_Topic = Annotated[str, typer.Option("--topic", help="The topic.")]
_Settings = Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="The settings.")]
_Names = Annotated[list[str], typer.Argument(metavar="NAME", help="The settings' names.")]


@app.command()
@reads_cluster
def describe(target: Target, topic: _Topics = None) -> None:
    """Show the settings that topics have of their own; the brokers' defaults apply to all others.

    Example: zkafka admin config describe --topic orders --zookeeper zk1:2181/kafka
    """
    rows = target.view("configs", **({"subscribe": ",".join(topic)} if topic else {}))
    target.rows(rows, _SETTINGS, "No topic has settings of its own.")


@app.command("set")
@changes_cluster
def set_(target: Target, topic: _Topic, settings: _Settings) -> None:
    """Add or replace settings of a topic.

    Example: zkafka admin config set --topic orders retention.ms=86400000 --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.tools.topic_config import parse_settings, read_config, with_settings

    wanted = parse_settings(settings)
    with target.zookeeper() as client:
        stored = read_config(client, topic)
        _change(target, client, stored, with_settings(stored.settings, wanted))


@app.command()
@changes_cluster
def delete(target: Target, topic: _Topic, names: _Names) -> None:
    """Delete settings of a topic: the brokers' defaults apply again.

    Example: zkafka admin config delete --topic orders retention.ms --zookeeper zk1:2181/kafka
    """
    from pyspark_zkafka.tools.topic_config import read_config, without_settings

    with target.zookeeper() as client:
        stored = read_config(client, topic)
        _change(target, client, stored, without_settings(stored.settings, names))


def _change(target: Target, client: ZooKeeperClient, stored: StoredConfig, config: Mapping[str, str]) -> None:
    from pyspark_zkafka.tools.controller import require_controller
    from pyspark_zkafka.tools.topic_config import write_config

    require_controller(client)
    names = [*config, *(name for name in stored.settings if name not in config)]
    changed = [name for name in names if stored.settings.get(name) != config.get(name)]
    rows = [
        {"topic": stored.topic, "name": name, "value": stored.settings.get(name), "new_value": config.get(name)}
        for name in changed
    ]
    target.rows(rows, _CHANGES, "The settings have these values already.")
    if not rows:
        return
    _validate(target, client, stored.topic, config, changed)
    if target.proceed(f"Change the configuration of {stored.topic}?"):
        write_config(client, stored, config)
        target.output.note(f"Changed the configuration of {stored.topic}.")


def _validate(target: Target, client: ZooKeeperClient, topic: str, config: Mapping[str, str], changed: list[str]) -> None:
    """Have a broker validate the configuration; if none answers, check the names and values that are changed."""
    from pyspark_zkafka.model.topic_configs import config_problems

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
