"""Paths built from names: each leads to the intended znode or is refused."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.znodes import cluster, groups
from pyspark_zkafka.model.znodes.codec import child_path, is_znode_name, is_znode_path
from pyspark_zkafka.options.batch import parse_read, parse_write
from pyspark_zkafka.options.stream import parse_stream
from tests.support.refusals import refusal

HOSTILE = [
    "",
    ".",
    "..",
    "/",
    "a/b",
    "../brokers",
    "a/../b",
    "/etc",
    "a\0b",
    "a\nb",
    "a\x85",
    "\ud800",
    "\U0001f600",
    "a//b",
]
NAMES = st.sampled_from(HOSTILE) | st.text(st.sampled_from("a./\0\n-é"), max_size=8) | st.text(max_size=300)


def builders(*modules: ModuleType) -> dict[str, Callable[..., str]]:
    """Return the modules' functions that build a path."""
    return {
        name: found
        for module in modules
        for name, found in inspect.getmembers(module, inspect.isfunction)
        if name.endswith("_path") and found.__module__ == module.__name__
    }


BUILDERS: dict[str, Callable[..., Any]] = {
    **builders(cluster, cluster, groups),
    "owner_parents": lambda group, partition: groups.owner_parents(group, [partition])[-1],
    "offset_parents": lambda group, partition: groups.offset_parents(group, [partition])[-1],
    "legacy_offset_path": lambda group, topic: groups.offset_path(group, groups.LegacyPartition(topic, 1, 2)),
    "child_path": lambda name: child_path("/parent", name),
}


def test_all_builders_are_found() -> None:
    """The expected functions that build a path end with ``_path``, and are tested here."""
    assert {"topic_path", "partition_state_path", "topic_config_path", "delete_topic_path", "group_path"} <= set(BUILDERS)
    assert {"id_path", "ids_path", "owner_path", "owners_path", "offset_path", "offsets_path"} <= set(BUILDERS)
    assert {"topic_owners_path", "topic_offsets_path"} <= set(BUILDERS)


@given(names=st.lists(NAMES, min_size=4, max_size=4))
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_path_stays_below_its_parent(builder: str, names: list[str]) -> None:
    """Each name is one part of the path, or the call is refused."""
    build = BUILDERS[builder]
    parameters = [p for p in inspect.signature(build).parameters]
    given_names = names[: len(parameters)]

    def path(names: list[str]) -> str:
        found: str = build(
            *(TopicPartition(n, 7) if p == "partition" else n for p, n in zip(parameters, names, strict=True))
        )
        return found

    plain = path([f"plain{n}" for n in range(len(parameters))]).split("/")
    expected = [given_names[int(part.removeprefix("plain"))] if part.startswith("plain") else part for part in plain]
    error = refusal(lambda: path(given_names), OptionError)
    if error is not None:
        assert error.condition in ("INVALID_NAME", "INVALID_GROUP")
        assert not all(map(is_znode_name, given_names))
        assert len(error.message) < 400
        return
    assert path(given_names).split("/") == expected
    assert is_znode_path(path(given_names))


@given(NAMES)
@example("a/")
@example("/")
def test_names_and_paths(text: str) -> None:
    """A name adds one part to a path, and a path consists of names."""
    assert is_znode_path(f"/{text}") == (text == "" or all(map(is_znode_name, text.split("/"))))


ZK = {"zookeeper.connect": "zk1:2181"}
READ, WRITE = {**ZK, "subscribe": "t"}, {**ZK, "topic": "t"}
OPTIONS: dict[str, tuple[Callable[[dict[str, str]], object], dict[str, str], str]] = {
    "subscribe": (parse_read, ZK, "subscribe"),
    "assign": (parse_read, ZK, "assign"),
    "startingOffsets": (parse_read, READ, "startingOffsets"),
    "group.id": (parse_read, READ, "group.id"),
    "group.id of a stream": (parse_stream, READ, "group.id"),
    "consumer.id": (parse_stream, {**READ, "group.id": "g"}, "consumer.id"),
    "topic": (parse_write, ZK, "topic"),
    "ledgerTopic": (parse_write, {**WRITE, "deliveryGuarantee": "exactly-once"}, "ledgerTopic"),
    "transactionalIdPrefix": (parse_write, {**WRITE, "deliveryGuarantee": "exactly-once"}, "transactionalIdPrefix"),
    "writerName": (parse_write, {**WRITE, "deliveryGuarantee": "exactly-once"}, "writerName"),
    "commitOffsets": (parse_write, {**WRITE, "group.id": "g"}, "commitOffsets"),
}


@given(name=NAMES)
@pytest.mark.parametrize("option", OPTIONS)
def test_options_with_names(option: str, name: str) -> None:
    """A name in an option leads to a znode of that name, or is refused."""
    parse, others, key = OPTIONS[option]
    forms = {"assign": {name: [0]}, "startingOffsets": {name: {"0": 1}}, "commitOffsets": {name: {"0": 1}}}
    value = json.dumps(forms[key]) if key in forms else name
    error = refusal(lambda: parse({**others, key: value}), OptionError)
    if error is not None:
        assert len(error.message) < 2_000
        return
    found: Any = parse({**others, key: value})
    for topic in named_topics(found):
        assert is_topic_name(topic)
    group = getattr(found, "group", None)
    if getattr(group, "consumer_id", None) is not None:
        assert is_znode_path(groups.id_path(group.name, groups.consumer_id(group.name, group.consumer_id)))


def named_topics(options: Any) -> list[str]:
    """Return the topics in parsed options."""
    read = getattr(options, "read", options)
    subscription, commit = getattr(read, "subscription", None), getattr(read, "commit", None)
    start = getattr(read, "start", None)
    return [
        *getattr(subscription, "topics", ()),
        *(tp.topic for tp in getattr(subscription, "partitions", ())),
        *(() if commit is None else (tp.topic for tp in commit.offsets)),
        *(() if start is None else (tp.topic for tp in start.by_partition)),
        *([options.topic] if getattr(options, "topic", None) else []),
    ]


@given(NAMES)
@example("x/../..")
def test_chroots(name: str) -> None:
    """A chroot is a path that ZooKeeper allows, or the option is refused."""
    try:
        found = parse_read({"zookeeper.connect": f"zk1:2181/{name}", "subscribe": "t"})
    except OptionError:
        return
    zookeeper = found.connection.zookeeper
    assert zookeeper is not None
    assert zookeeper.chroot == "" or is_znode_path(zookeeper.chroot)
