"""Requests and responses of Fetch, and headers of batches."""

from __future__ import annotations

import struct

import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct.fetch import (
    FETCH,
    FetchPartition,
    FetchSettings,
    PartitionData,
    fetch_request,
    newest_version,
    read_fetch,
)
from pyspark_zkafka.wire import protocol
from pyspark_zkafka.wire.protocol import MalformedResponse, Reader

TP = TopicPartition("orders", 3)
TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(16, 32))
WANTED = FetchSettings(max_wait_ms=10, min_bytes=1, max_bytes=1000, partition_max_bytes=500, read_committed=True, rack="r")


def batch(base: int, count: int, epoch: int = 7, magic: int = 2, body: bytes = b"") -> bytes:
    """Return a record batch in which only the header is valid."""
    after = struct.pack(">ibIhi", epoch, magic, 0, 0, count - 1) + bytes(34) + body
    return struct.pack(">qi", base, len(after)) + after


class TestRequest:
    """Fetch requests, byte for byte."""

    def test_versions_of_old_brokers(self) -> None:
        """Versions 2 and 3 of Kafka 0.10 have no isolation level, and version 2 has no limit of bytes for a response."""
        part = "00000001 0006 6f7264657273 00000001 00000003 000000000000002a 000001f4"
        for version, most in ((2, ""), (3, "000003e8")):
            request = fetch_request(version, [FetchPartition(TP, None, 42, 5, 4)], WANTED)
            assert request.body == bytes.fromhex(f"ffffffff 0000000a 00000001 {most} {part}")

    def test_version_4(self) -> None:
        """Version 4, of Kafka 0.11, is the first with transactions."""
        request = fetch_request(4, [FetchPartition(TP, None, 42, 5, 4)], WANTED)
        assert request.body.hex(" ", -4) == bytes.fromhex(
            "ffffffff 0000000a 00000001 000003e8 01"  # replica, wait, minimal and maximal bytes, isolation
            "00000001 0006 6f7264657273 00000001"
            "00000003 000000000000002a 000001f4"
        ).hex(" ", -4)

    def test_last_version_by_name(self) -> None:
        """Version 12 has epochs, a rack and tagged fields."""
        request = fetch_request(12, [FetchPartition(TP, None, 42, 5, 4)], WANTED)
        assert (
            request.body.hex()
            == bytes.fromhex(
                "ffffffff 0000000a 00000001 000003e8 01 00000000 ffffffff"
                "02 07 6f7264657273 02"
                "00000003 00000005 000000000000002a 00000004 ffffffffffffffff 000001f4 00"
                "00 01 02 72 00"
            ).hex()
        )

    def test_last_version(self) -> None:
        """Version 17 has the topic's id, and no replica."""
        request = fetch_request(17, [FetchPartition(TP, TOPIC_ID, 42)], WANTED)
        assert (
            request.body.hex()
            == bytes.fromhex(
                "0000000a 00000001 000003e8 01 00000000 ffffffff"
                "02 000102030405060708090a0b0c0d0e0f 02"
                "00000003 ffffffff 000000000000002a ffffffff ffffffffffffffff 000001f4 00"
                "00 01 02 72 00"
            ).hex()
        )

    def test_header(self) -> None:
        """The header has tagged fields if the request has."""
        part = FetchPartition(TP, None, 0)
        assert fetch_request(4, [part], WANTED).encoded(9, "me")[4:16].hex() == "000100040000000900026d65"
        assert fetch_request(12, [part], WANTED).encoded(9, "me")[4:17].hex() == "0001000c0000000900026d6500"

    @pytest.mark.parametrize("version", [4, 12, 17])
    def test_several(self, version: int) -> None:
        """The partitions of a topic are grouped, in the order of topics."""
        other = TopicPartition("invoices", 0)
        parts = [
            FetchPartition(TP, TOPIC_ID, 42),
            FetchPartition(other, OTHER_ID, 7),
            FetchPartition(TP._replace(partition=1), TOPIC_ID, 8),
        ]
        found = reader(fetch_request(version, parts, WANTED).body, version)
        found.span({4: 17, 12: 25, 17: 21}[version])

        def partition() -> tuple[int, int]:
            index, _ = found.int32(), found.span(0 if version == 4 else 4)
            offset, _ = found.int64(), found.span({4: 4}.get(version, 16))
            found.tags()
            return index, offset

        def topic() -> tuple[object, list[tuple[int, int]]]:
            name = found.string() if version < 13 else bytes(found.span(16))
            each = name, found.array(partition)
            found.tags()
            return each

        orders, invoices = (TOPIC_ID, OTHER_ID) if version == 17 else ("orders", "invoices")
        assert found.array(topic) == [(orders, [(3, 42), (1, 8)]), (invoices, [(0, 7)])]

    def test_newest_version(self) -> None:
        """Topics are requested by name if one of them has no id."""
        with_id, by_name = FetchPartition(TP, TOPIC_ID, 0), FetchPartition(TopicPartition("t", 0), None, 0)
        assert newest_version([with_id]) == 17
        assert newest_version([with_id, by_name]) == 12


def partition(version: int, number: int, records: bytes, error: int, tags: bytes) -> bytes:
    """Return the response for a partition, with one aborted transaction."""
    body = protocol.int32(number) + protocol.int16(error) + protocol.int64(90) + protocol.int64(80)
    body += protocol.int64(5) if version >= 5 else b""
    transaction = protocol.int64(1000) + protocol.int64(20)
    body += protocol.array([transaction + protocol.no_tags(version >= 12)], version >= 12)
    body += protocol.int32(2) if version >= 11 else b""
    return body + protocol.nullable_bytes(records, version >= 12) + (tags if version >= 12 else b"")


def response(
    version: int,
    *numbers: int,
    records: bytes = b"",
    error: int = 0,
    tags: bytes = protocol.NO_TAGS,
    topic_id: bytes = TOPIC_ID,
) -> bytes:
    """Return the response for partitions of one topic, by default number 3."""
    each = [partition(version, number, records, error, tags) for number in numbers or (TP.partition,)]
    begin = protocol.int32(33) + (protocol.int16(0) + protocol.int32(0) if version >= 7 else b"")
    flexible = version >= 12
    name = topic_id if version >= 13 else protocol.string(TP.topic, flexible)
    topics = protocol.array([name + protocol.array(each, flexible) + protocol.no_tags(flexible)], flexible)
    return begin + topics + protocol.no_tags(flexible)


def reader(data: bytes, version: int) -> Reader:
    """Return a reader of a response without its header."""
    return protocol.Request(FETCH, version, b"").reader(data)


def parts(*numbers: int) -> list[FetchPartition]:
    """Return parts of a request for the topic's partitions."""
    return [FetchPartition(TopicPartition(TP.topic, number), TOPIC_ID, 0) for number in numbers]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_response_of_an_old_broker(version: int) -> None:
    """The response of a broker without transactions has only the end of the log."""
    row = protocol.int32(3) + protocol.int16(0) + protocol.int64(90) + protocol.nullable_bytes(b"messages")
    data = protocol.int32(1) + protocol.string("orders") + protocol.int32(1) + row
    data = data if version == 0 else protocol.int32(7) + data  # throttle time
    (found,) = read_fetch(reader(data, version), [FetchPartition(TP, None, 0)])
    assert found.throttle_ms == 0
    assert found.error == 0
    assert found.high_watermark == 90
    assert found.last_stable_offset == 90
    assert bytes(found.records) == b"messages"
    assert found.aborted == ()


class TestResponse:
    """Fetch responses."""

    @pytest.mark.parametrize("version", range(4, 18))
    def test_versions(self, version: int) -> None:
        """All versions are decoded to the same content, as far as they have it."""
        (found,) = read_fetch(reader(response(version, records=b"abc"), version), parts(3))
        assert found.throttle_ms == (33 if version >= 8 else 0), "brokers before 2.0 have waited already"
        assert found.error == 0
        assert found.high_watermark == 90
        assert found.last_stable_offset == 80
        assert found.replica == (2 if version >= 11 else -1)
        assert found.aborted == ((1000, 20),)
        assert found.records == b"abc"
        assert found.diverging is None

    def test_diverging_epoch(self) -> None:
        """If the leader's log was truncated, the response has the diverging epoch and its end."""
        field = protocol.int32(4) + protocol.int64(17) + protocol.NO_TAGS
        tags = b"\x01\x00" + protocol.unsigned_varint(len(field)) + field
        (found,) = read_fetch(reader(response(12, tags=tags), 12), parts(3))
        assert found.diverging == (4, 17)

    def test_error_of_the_whole(self) -> None:
        """An error of the whole response becomes an error of each partition."""
        found = read_fetch(
            reader(protocol.int32(0) + protocol.int16(71) + protocol.int32(0) + protocol.int32(0), 7), parts(3, 4)
        )
        assert [each.error for each in found] == [71, 71]

    @pytest.mark.parametrize("version", [4, 11, 12, 17])
    def test_throttled(self, version: int) -> None:
        """A response without partitions is valid only if it throttles the client."""
        rest = protocol.unsigned_varint(1) + protocol.NO_TAGS if version >= 12 else protocol.int32(0)
        rest = protocol.int16(0) + protocol.int32(0) + rest if version >= 7 else rest
        found = read_fetch(reader(protocol.int32(500) + rest, version), parts(3, 4))
        assert found == [PartitionData(500 if version >= 8 else 0, 0, by_id=version >= 13)] * 2
        with pytest.raises(MalformedResponse, match="the response to Fetch has the partitions"):
            read_fetch(reader(protocol.int32(0) + rest, version), parts(3, 4))

    @pytest.mark.parametrize("version", [4, 11, 12, 17])
    def test_several(self, version: int) -> None:
        """Data is returned in the order of the request, whatever the order of the response."""
        data = response(version, 3, 1, 2, records=b"abc")
        data = data.replace(b"abc", b"bcd", 1)
        assert [bytes(f.records) for f in read_fetch(reader(data, version), parts(1, 2, 3))] == [b"abc", b"abc", b"bcd"]

    @pytest.mark.parametrize("version", [4, 11, 12, 17])
    def test_truncated(self, version: int) -> None:
        """Each truncated response, and one with an extra byte, is malformed."""
        whole = response(version, records=batch(0, 3))
        for end in range(len(whole)):
            with pytest.raises(MalformedResponse):
                read_fetch(reader(whole[:end], version), parts(3))
        with pytest.raises(MalformedResponse, match="1 bytes follow"):
            read_fetch(reader(whole + b"\x00", version), parts(3))

    @pytest.mark.parametrize("asked", [(0,), (3, 4), ()])
    @pytest.mark.parametrize("version", [4, 11, 12, 17])
    def test_other_partitions(self, version: int, asked: tuple[int, ...]) -> None:
        """A response with other partitions than requested is malformed."""
        with pytest.raises(MalformedResponse, match="the response to Fetch has the partitions"):
            read_fetch(reader(response(version), version), parts(*asked))

    def test_other_topic(self) -> None:
        """A response with another topic than requested is malformed."""
        with pytest.raises(MalformedResponse, match="the response to Fetch has the partitions"):
            read_fetch(reader(response(17, topic_id=OTHER_ID), 17), parts(3))
