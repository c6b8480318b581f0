"""Metadata requests and responses; test_vectors.py has their bytes."""

from __future__ import annotations

from pyspark_zkafka.wire.metadata_messages import Node, metadata_request


def test_all_topics_in_version_0() -> None:
    """Version 0 requests all topics by an empty array; a null array is malformed there."""
    assert metadata_request(0, None).body == metadata_request(0, []).body == bytes(4)
    assert metadata_request(1, None).body == b"\xff\xff\xff\xff"


def test_topics_are_any_collection() -> None:
    """Sets and the keys of a mapping are collections, too."""
    assert metadata_request(4, {"a"}).body == metadata_request(4, {"a": 1}.keys()).body == metadata_request(4, ["a"]).body


def test_address() -> None:
    """The address of a node is that of the connection, without the rack."""
    assert Node("h", 9092, "r").address == ("h", 9092)
