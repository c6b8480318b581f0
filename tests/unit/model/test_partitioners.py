"""Partitioners and hashes of keys, compared with kafka-clients 3.9.1, librdkafka 2.16 and published vectors."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import InvalidRow, OptionError, UnknownTopic
from pyspark_zkafka.model.partitioners import PARTITIONERS, Router, hash_keys

HASHES_OF_KEYS = ("murmur2", "murmur3", "crc32", "fnv1a")
murmur2, murmur3 = partial(hash_keys, "murmur2"), partial(hash_keys, "murmur3")
VECTORS = Path(__file__).parents[2] / "vectors"


def vectors(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VECTORS / name).read_text(encoding="utf-8"))
    return found


JAVA = vectors("murmur2.json")
LIBRDKAFKA = vectors("librdkafka_partitions.json")
PUBLISHED = vectors("murmur3.json")


def column(rows: list[list[Any]], index: int = 0) -> list[Any]:
    return [row[index] for row in rows]


def keys_of(recorded: dict[str, Any], kind: pa.DataType | None = None) -> pa.Array:
    return pa.array([bytes.fromhex(key) for key in column(recorded["keys"])], kind or pa.binary())


@pytest.mark.parametrize("index", range(len(JAVA["partition_counts"])))
def test_default_partition_equals_java(index: int) -> None:
    """The default partitioner chooses the partitions of BuiltInPartitioner.partitionForKey."""
    router = Router("t", JAVA["partition_counts"][index], [0])
    routed, _ = router.route(len(JAVA["keys"]), keys_of(JAVA))
    assert routed.tolist() == [chosen[index] for chosen in column(JAVA["keys"], 2)]


@pytest.mark.parametrize("index", range(len(LIBRDKAFKA["partition_counts"])))
@pytest.mark.parametrize(("partitioner", "place"), [("murmur2", 1), ("crc32", 2), ("fnv1a", 3)])
def test_partition_equals_librdkafka(partitioner: str, place: int, index: int) -> None:
    """The partitioners of librdkafka choose the same partitions as librdkafka, even for the lowest FNV-1a."""
    router = Router("t", LIBRDKAFKA["partition_counts"][index], [0], partitioner)
    routed, _ = router.route(len(LIBRDKAFKA["keys"]), keys_of(LIBRDKAFKA))
    assert routed.tolist() == [chosen[index] for chosen in column(LIBRDKAFKA["keys"], place)]


def test_murmur3_equals_published_vectors() -> None:
    """murmur3 is MurmurHash3_x86_32 with seed 0, and its partition comes from the hash without the sign bit."""
    keys, expected = keys_of(PUBLISHED), np.array(column(PUBLISHED["keys"], 1), dtype=np.int64)
    routed, _ = Router("t", 1000, [0], "murmur3").route(len(keys), keys)
    assert (murmur3(keys).view(np.uint32) == expected).all()
    assert routed.tolist() == ((expected & 0x7FFFFFFF) % 1000).tolist()


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("turns", JAVA["turns"])
def test_null_keys_take_turns_as_in_java(turns: dict[str, Any], partitioner: str) -> None:
    """Rows without a key are sent in turn to the partitions with a leader, or to all if none has one."""
    router = Router("t", turns["partitions"], turns["available"], partitioner)
    expected = turns["chosen"]
    assert router.route(len(expected))[0].tolist() == expected
    assert router.route(len(expected), pa.nulls(len(expected), pa.binary()))[0].tolist() == expected


def test_turns_go_on_in_the_next_batch() -> None:
    """With the returned counter, a second batch continues where the first one ended."""
    router = Router("t", 4, [0, 2, 3])
    first, counter = router.route(4, start=1)
    second, end = router.route(3, start=counter)
    assert first.tolist() == [2, 3, 0, 2]
    assert second.tolist() == [3, 0, 2]
    assert end == 8


def test_only_rows_that_take_a_turn_move_the_counter() -> None:
    """An explicit partition takes precedence over the key, and only rows without either advance the counter."""
    keys = pa.array([b"21", None, b"21", None, None])
    explicit = pa.array([None, 9, 0, None, None], pa.int32())
    routed, counter = Router("t", 11, [4, 7]).route(5, keys, explicit)
    assert routed.tolist() == [(-973932308 & 0x7FFFFFFF) % 11, 9, 0, 4, 7]
    assert routed[0] != 0, "0 could also come from a null explicit partition"
    assert counter == 2


def test_round_robin_looks_at_no_key_but_at_explicit_partitions() -> None:
    """With roundrobin, all rows take turns except those with an explicit partition."""
    routed, _ = Router("t", 3, [0, 1, 2], "roundrobin").route(4, pa.array([b"a"] * 4), pa.array([None, None, 0, None]))
    assert routed.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8()], ids=str)
def test_explicit_partitions_of_any_integer_type(kind: pa.DataType) -> None:
    """The partition column may have any integer type, and may be sliced or chunked."""
    asked, router = pa.array([99, 1, None, 0], kind).slice(1), Router("t", 2, [1])
    for explicit in (asked, pa.chunked_array([asked.slice(0, 1), asked.slice(1)])):
        assert router.route(3, None, explicit)[0].tolist() == [1, 1, 0]


@pytest.mark.parametrize("partition", [-1, 3, 2**40])
def test_partition_out_of_range_names_row_value_count_and_topic(partition: int) -> None:
    """The error for an explicit partition that does not exist names topic, row and partition."""
    explicit = pa.array([2, None, partition, -7], pa.int64())
    with pytest.raises(
        InvalidRow,
        match=rf"^\[PARTITION_OUT_OF_RANGE\] Row 2 .*{partition} of topic orders; .*has 3 partitions, 0 to 2[.] ",
    ) as e:
        Router("orders", 3, [0, 1, 2]).route(4, None, explicit)
    assert e.value.parameters == {"topic": "orders", "row": 2, "partition": partition, "partitions": 3}


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_empty_batches_route_to_nothing(partitioner: str) -> None:
    """A batch without rows is routed without error, and does not advance the counter."""
    router = Router("t", 3, [0], partitioner)
    for keys in (None, pa.array([], pa.binary()), pa.chunked_array([], pa.binary())):
        routed, counter = router.route(0, keys, pa.array([], pa.int32()), start=5)
        assert routed.tolist() == []
        assert counter == 5
        assert routed.dtype == np.int32


def test_a_router_checks_what_it_is_made_of() -> None:
    """A topic without partitions and an unknown partitioner are errors when the router is created."""
    with pytest.raises(
        UnknownTopic, match=r"\[TOPIC_WITHOUT_PARTITIONS\] Topic t has no partition to write to; "
    ) as missing:
        Router("t", 0, [])
    assert missing.value.parameters == {"topic": "t"}
    names = ", ".join(PARTITIONERS)
    with pytest.raises(OptionError, match=rf"\[UNKNOWN_PARTITIONER\] .* no partitioner 'sticky'; .* {names}$") as unknown:
        Router("t", 1, [], "sticky")
    assert unknown.value.parameters == {"partitioner": "sticky"}


def test_a_router_survives_pickling() -> None:
    """A router can be pickled."""
    router = Router("t", 3, (0, 2), "crc32")
    assert pickle.loads(pickle.dumps(router)) == router


# --- hashes

KEYS = [bytes.fromhex(row[0]) for row in JAVA["keys"]]
HASHES = [row[1] for row in JAVA["keys"]]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_murmur2_equals_java(kind: pa.DataType) -> None:
    """Every recorded key has the hash of Utils.murmur2, with 32-bit and 64-bit offsets."""
    assert murmur2(pa.array(KEYS, kind)).tolist() == HASHES


@pytest.mark.parametrize("rows", [1, 2, 23, 24, 25])
def test_murmur2_equals_java_in_small_batches(rows: int) -> None:
    """Hashes are the same below and above the size from which numpy is used."""
    keys = pa.array(KEYS, pa.binary())
    found = [h for first in range(0, len(keys), rows) for h in murmur2(keys.slice(first, rows)).tolist()]
    assert found == HASHES


@pytest.mark.parametrize("name", HASHES_OF_KEYS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_hash_as_their_utf8(name: str, kind: pa.DataType) -> None:
    """A string key has the hash of its UTF-8 bytes."""
    texts = ["", "a", "Zoë", "日本語", "🚀"]
    assert (
        hash_keys(name, pa.array(texts, kind)).tolist() == hash_keys(name, pa.array([t.encode() for t in texts])).tolist()
    )


@pytest.mark.parametrize("name", HASHES_OF_KEYS)
def test_nulls_hash_to_zero_and_chunks_follow_each_other(name: str) -> None:
    """The hash of a null is 0, and the hashes of a chunked array are in the order of its rows."""
    chunked = pa.chunked_array([[b"a", None], [], [b"bc"]], pa.binary())
    [one], [two] = hash_keys(name, pa.array([b"a"])).tolist(), hash_keys(name, pa.array([b"bc"])).tolist()
    assert hash_keys(name, chunked).tolist() == [one, 0, two]


@pytest.mark.parametrize("name", HASHES_OF_KEYS)
def test_nothing_hashes_to_nothing(name: str) -> None:
    """An empty array, an empty slice and an array without chunks have no hashes."""
    for keys in (pa.array([], pa.binary()), pa.array([b"a"]).slice(1), pa.chunked_array([], pa.binary())):
        assert hash_keys(name, keys).tolist() == []


def test_keys_behind_a_null_with_bytes_are_found() -> None:
    """A null with bytes in its slot, which Arrow allows, does not shift the keys after it."""
    offsets, data = pa.py_buffer(np.array([0, 1, 4, 6], np.int32)), pa.py_buffer(b"aXXXbc")
    keys = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x05"), offsets, data])
    assert murmur2(keys).tolist() == murmur2(pa.array([b"a", None, b"bc"])).tolist()


@pytest.mark.timeout(60)
def test_one_huge_key_does_not_slow_the_others() -> None:
    """A key of 4 MB among short ones is hashed correctly, at a cost proportional to the bytes."""
    huge = b"0123456" * 600_000
    keys = pa.array([b"a"] * 1000 + [huge] + [b"bcdef"] * 1000)
    assert murmur2(keys)[[0, 1000, 2000]].tolist() == [murmur2(pa.array([k]))[0] for k in (b"a", huge, b"bcdef")]


@pytest.mark.parametrize("name", HASHES_OF_KEYS)
def test_keys_that_cannot_be_hashed(name: str) -> None:
    """Keys that are neither binary nor string are refused by their type."""
    for hashed in (lambda: hash_keys(name, pa.array([1])), lambda: Router("t", 3, [0], name).route(1, pa.array([1]))):
        with pytest.raises(
            OptionError, match=r"^\[BAD_KEY_TYPE\] A column key of type bigint cannot be hashed.*cast it to "
        ) as caught:
            hashed()
        assert caught.value.parameters == {"type": "bigint"}


@pytest.mark.parametrize("kind", [pa.null(), pa.int64()], ids=str)
def test_nulls_may_have_any_type(kind: pa.DataType) -> None:
    """A column of nulls, which Spark may give any type, has no keys and no explicit partitions."""
    nulls = pa.nulls(3, kind)
    assert Router("t", 3, [1, 2]).route(3, nulls, nulls)[0].tolist() == [1, 2, 1]
