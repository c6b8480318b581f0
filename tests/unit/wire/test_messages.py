"""Requests and responses beyond the bytes in test_vectors.py: limits of old versions, and malformed or refused answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.connection_messages import Authentication, read_api_versions
from pyspark_zkafka.wire.group_messages import GROUP, find_coordinators_request, offset_fetch_request
from pyspark_zkafka.wire.metadata_messages import Node, metadata_request
from pyspark_zkafka.wire.offset_messages import ListedOffset, read_list_offsets
from pyspark_zkafka.wire.protocol import MalformedResponse, Reader, Unsupported
from pyspark_zkafka.wire.topic_messages import read_alter_config, read_describe_config


def test_error_instead_of_versions() -> None:
    """An error that does not concern the version of ApiVersions is left to librdkafka."""
    with pytest.raises(Unsupported, match="error 42"):
        read_api_versions(Reader(protocol.int16(42), 3, flexible=True))


def test_authentication_hides_its_bytes() -> None:
    """The representation of an authentication does not contain its bytes."""
    assert "secret" not in repr(Authentication(0, b"secret"))


def test_topics_are_any_collection() -> None:
    """Sets and the keys of a mapping are collections, too."""
    assert metadata_request(4, {"a"}).body == metadata_request(4, {"a": 1}.keys()).body == metadata_request(4, ["a"]).body


def test_address_of_a_node() -> None:
    """A node has the address of the connection, without the rack."""
    assert Node("h", 9092, "r").address == ("h", 9092)


def test_several_offsets_in_version_0() -> None:
    """Version 0 lists offsets of segments, newest first; the first one is the answer."""
    data = bytes.fromhex("00000001 000161 00000001 00000003 0000 00000002 0000000000000009 0000000000000002")
    assert read_list_offsets(Reader(data)) == {TopicPartition("a", 3): ListedOffset(0, 9)}


@pytest.mark.parametrize("keys", [[], ["g", "h"]])
def test_coordinator_of_one_key(keys: list[str]) -> None:
    """Before version 4, a FindCoordinator request has exactly one key."""
    with pytest.raises(ValueError):
        find_coordinators_request(3, GROUP, keys)
    assert find_coordinators_request(4, GROUP, keys).version == 4


@pytest.mark.parametrize("groups", [[], ["g", "h"]])
def test_offsets_of_one_group(groups: list[str]) -> None:
    """Before version 8, an OffsetFetch request has exactly one group."""
    with pytest.raises(ValueError):
        offset_fetch_request(7, dict.fromkeys(groups), stable=False)
    assert offset_fetch_request(8, dict.fromkeys(groups), stable=False).version == 8


@pytest.mark.parametrize(
    ("read", "resource"),
    [(read_describe_config, "0000 ffff 02 000161 00000000"), (read_alter_config, "0000 ffff 02 000161")],
)
def test_other_number_of_resources(read: Callable[[Reader], Any], resource: str) -> None:
    """A response about no resource or several is malformed: one was requested."""
    for count in (0, 2):
        data = bytes(4) + count.to_bytes(4, "big") + bytes.fromhex(resource) * count
        with pytest.raises(MalformedResponse, match=f"{count} resources where one was requested"):
            read(Reader(data))
