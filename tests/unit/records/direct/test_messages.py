"""Requests and responses of connections, metadata and offsets."""

from __future__ import annotations

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.records.direct import messages, wire
from pyspark_zkafka.records.direct.messages import Metadata, PartitionMetadata
from pyspark_zkafka.records.direct.wire import MalformedResponse, Reader, Unsupported

TP = TopicPartition("orders", 3)


class TestApiVersions:
    """ApiVersions responses and requests."""

    def test_old(self) -> None:
        """Version 0 has an array of ranges."""
        data = wire.int16(0) + wire.int32(2) + b"".join(map(wire.int16, (1, 0, 11, 3, 4, 9)))
        assert messages.read_api_versions(Reader(data)) == ({1: (0, 11), 3: (4, 9)}, {})

    def test_new(self) -> None:
        """Version 3 is compact, and has further fields."""
        row = b"".join(map(wire.int16, (1, 4, 17))) + wire.NO_TAGS
        data = wire.int16(0) + wire.array([row], True) + wire.int32(0) + wire.NO_TAGS
        assert messages.read_api_versions(Reader(data, 3, flexible=True)) == ({1: (4, 17)}, {})

    def test_features(self) -> None:
        """Levels of the cluster's enabled features are read from a tagged field."""
        level = wire.string("transaction.version", True) + wire.int16(2) + wire.int16(2) + wire.NO_TAGS
        field = wire.array([level], True)
        tags = b"\x02" + b"\x01\x08" + bytes(8) + b"\x02" + wire.unsigned_varint(len(field)) + field
        data = wire.int16(0) + wire.array([], True) + wire.int32(0) + tags
        assert messages.read_api_versions(Reader(data, 3, flexible=True)) == ({}, {"transaction.version": 2})

    def test_unknown_version(self) -> None:
        """An old broker answers an unknown version with an error in the oldest format."""
        assert messages.read_api_versions(Reader(wire.int16(35) + wire.int32(0), 3, flexible=True)) is None

    def test_error(self) -> None:
        """Any other error is left to librdkafka."""
        with pytest.raises(Unsupported, match="error 42"):
            messages.read_api_versions(Reader(wire.int16(42), 3, flexible=True))

    def test_software(self) -> None:
        """The request has the name and the version of the software."""
        assert messages.api_versions_request(3, "1.2").body == b"\x0fpyspark-zkafka\x041.2\x00"
        assert messages.api_versions_request(0, "1.2").body == b""


class TestSasl:
    """SaslHandshake and SaslAuthenticate messages."""

    def test_handshake(self) -> None:
        """The request names a mechanism, the response all available ones."""
        assert messages.sasl_handshake_request("PLAIN").body == b"\x00\x05PLAIN"
        data = wire.int16(33) + wire.int32(2) + wire.string("PLAIN") + wire.string("GSSAPI")
        assert messages.read_sasl_handshake(Reader(data)) == (33, ["PLAIN", "GSSAPI"])

    def test_tokens(self) -> None:
        """Tokens are encoded and decoded in the old and the new format."""
        assert messages.sasl_authenticate_request(1, b"ab").body == b"\x00\x00\x00\x02ab"
        assert messages.sasl_authenticate_request(2, b"ab").body == b"\x03ab\x00"
        old = messages.read_sasl_authenticate(Reader(wire.int16(0) + wire.string(None) + wire.nullable_bytes(b"x")))
        assert (old.error, old.data, old.lifetime_ms) == (0, b"x", 0)
        data = wire.int16(58) + wire.string("no", True) + b"\x02x" + wire.int64(60_000) + wire.NO_TAGS
        new = messages.read_sasl_authenticate(Reader(data, 2, flexible=True))
        assert (new.error, new.data, new.lifetime_ms) == (58, b"x", 60_000)

    def test_secrets(self) -> None:
        """The representation of an authentication does not contain its bytes."""
        assert "secret" not in repr(messages.Authentication(0, b"secret"))


def metadata(version: int) -> bytes:
    """Return metadata of two brokers, and of a topic with two partitions, one of them without a leader."""
    ids = wire.int32(2) + wire.int32(1) + wire.int32(2)
    brokers = b"".join(
        wire.int32(i) + wire.string(f"b{i}") + wire.int32(9092) + wire.string(rack) for i, rack in ((1, None), (2, "r"))
    )
    partitions = b"".join(
        wire.int16(error)
        + wire.int32(index)
        + wire.int32(leader)
        + (wire.int32(7) if version >= 7 else b"")
        + ids * (3 if version >= 5 else 2)
        for error, index, leader in ((0, 3, 2), (5, 4, -1))
    )
    topic = wire.int16(0) + wire.string("orders") + wire.int8(0) + wire.int32(2) + partitions
    throttle, cluster = wire.int32(0) if version >= 3 else b"", wire.string("id") if version >= 2 else b""
    return throttle + wire.int32(2) + brokers + cluster + wire.int32(1) + wire.int32(1) + topic


class TestMetadata:
    """Metadata messages."""

    @pytest.mark.parametrize("version", range(1, 8))
    def test_versions(self, version: int) -> None:
        """Brokers' addresses and leaders are read in each version, with epochs if it has them."""
        epoch = 7 if version >= 7 else -1
        assert messages.read_metadata(Reader(metadata(version), version), "orders") == Metadata(
            {1: ("b1", 9092), 2: ("b2", 9092)}, 0, {3: PartitionMetadata(0, 2, epoch), 4: PartitionMetadata(5, -1, epoch)}
        )

    def test_request(self) -> None:
        """The request has one topic, which from version 4 on is not created."""
        assert messages.metadata_request(7, "orders").body == b"\x00\x00\x00\x01\x00\x06orders\x00"
        assert messages.metadata_request(3, "orders").body == b"\x00\x00\x00\x01\x00\x06orders"

    def test_truncated(self) -> None:
        """Each truncated response, and one without the topic, is malformed."""
        whole = metadata(7)
        for end in range(len(whole)):
            with pytest.raises(MalformedResponse):
                messages.read_metadata(Reader(whole[:end], 7), "orders")
        with pytest.raises(MalformedResponse, match="lacks the topic"):
            messages.read_metadata(Reader(whole, 7), "others")


class TestListOffsets:
    """ListOffsets messages."""

    def test_request(self) -> None:
        """Each version adds fields to the previous one."""
        bodies = [messages.list_offsets_request(v, TP, LATEST, 7, read_committed=True).body.hex() for v in (0, 1, 2, 4)]
        name = "00000001 0006 6f7264657273 00000001 00000003"
        assert bodies == [
            bytes.fromhex(text).hex()
            for text in (
                f"ffffffff {name} ffffffffffffffff 00000001",
                f"ffffffff {name} ffffffffffffffff",
                f"ffffffff 01 {name} ffffffffffffffff",
                f"ffffffff 01 {name} 00000007 ffffffffffffffff",
            )
        ]

    @pytest.mark.parametrize("version", range(1, 6))
    def test_response(self, version: int) -> None:
        """The offset or error of the partition is read, in each version."""
        begin = wire.int32(0) if version >= 2 else b""
        row = wire.int32(3) + wire.int16(6) + wire.int64(-1) + wire.int64(99) + (wire.int32(7) if version >= 4 else b"")
        data = begin + wire.int32(1) + wire.string("orders") + wire.int32(1) + row
        assert messages.read_list_offsets(Reader(data, version), TP) == (6, 99)
        with pytest.raises(MalformedResponse, match="lacks the partition"):
            messages.read_list_offsets(Reader(data, version), TopicPartition("orders", 4))

    @pytest.mark.parametrize(("offsets", "found"), [([99], 99), ([], -1)])
    def test_first_response(self, offsets: list[int], found: int) -> None:
        """Version 0 has a list with one offset."""
        row = wire.int32(3) + wire.int16(0) + wire.int32(len(offsets)) + b"".join(map(wire.int64, offsets))
        data = wire.int32(1) + wire.string("orders") + wire.int32(1) + row
        assert messages.read_list_offsets(Reader(data), TP) == (0, found)


def test_epoch_end_request() -> None:
    """Version 3 adds the replica id, which is -1 for a consumer."""
    body = "00000001 0006 6f7264657273 00000001 00000003 00000007 00000005"
    assert messages.epoch_end_request(2, TP, 7, 5).body == bytes.fromhex(body)
    assert messages.epoch_end_request(3, TP, 7, 5).body == bytes.fromhex(f"ffffffff {body}")


def test_epoch_end_response() -> None:
    """The partition's error, epoch and end are read, and a response without the partition is malformed."""
    row = wire.int16(74) + wire.int32(3) + wire.int32(4) + wire.int64(99)
    data = wire.int32(0) + wire.int32(1) + wire.string("orders") + wire.int32(1) + row
    assert messages.read_epoch_end(Reader(data), TP) == messages.EpochEndOffset(74, 4, 99)
    with pytest.raises(MalformedResponse, match="lacks the partition"):
        messages.read_epoch_end(Reader(data), TopicPartition("orders", 4))
