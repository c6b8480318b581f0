"""Hostile znodes: they give a value, or an error that names the znode, in bounded time and memory."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.znodes import cluster, groups
from tests.support.refusals import refusal
from tests.support.tiers import repetitions

Decoder = Callable[[str, "bytes | None"], object]

VECTORS = Path(__file__).parents[1] / "vectors" / "znodes.json"
DECODERS: dict[str, tuple[str, tuple[Decoder, ...]]] = {
    "broker": (r"/brokers/ids/\d+", (cluster.decode_broker,)),
    "topic": (r"/brokers/topics/[^/]+", (cluster.decode_topic, cluster.decode_target_replicas)),
    "state": (r"/brokers/topics/[^/]+/partitions/\d+/state", (cluster.decode_partition_state,)),
    "controller": (r"/controller", (cluster.decode_controller,)),
    "controller epoch": (r"/controller_epoch", (cluster.decode_controller_epoch,)),
    "cluster id": (r"/cluster/id", (cluster.decode_cluster_id,)),
    "config": (r"/config/topics/[^/]+", (cluster.decode_topic_config,)),
    "reassignment": (r"/admin/reassign_partitions", (cluster.decode_reassignment,)),
    "election": (r"/admin/preferred_replica_election", (cluster.decode_preferred_election,)),
    "registration": (r"/consumers/[^/]+/ids/[^/]+", (groups.decode_registration,)),
    "owner": (r"/consumers/[^/]+/owners/[^/]+/\d+", (groups.decode_owner,)),
    "offset": (r"/consumers/[^/]+/offsets/[^/]+/\d+", (groups.decode_offset,)),
}
"""Decoders by kind, with the paths of their znodes."""

DEEP = 100_000
MOST_SEEDS = 20
VALUES = [
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b"9" * 5000,
    b"-" + b"9" * 4000,
    b"2147483648",
    b"-2147483649",
    b"-1",
    b"-0",
    b"65536",
    b"1e400",
    b"1.0",
    b"NaN",
    b"-Infinity",
    b"null",
    b"true",
    b'""',
    b'"' + b"x" * 300_000 + b'"',
    b'"a\\u0000b"',
    b'"\\ud800"',
    b'"../../brokers"',
    b'"a/b"',
    b'"' + "\N{GRINNING FACE}\u202e".encode() + b'"',
    b"[]",
    b"{}",
    b'{"a":1,"a":{"a":[]}}',
    b"[[],{},null,1.5,[1]]",
    b'{"../x":1,"":2,"a/b":3,"\\u0000":4}',
    b'{"-1":[1],"99999999999":[1],"\xd9\xa3":[1],"1e3":[1]}',
]
"""Hostile replacements of a whole znode or of a value in it."""

WHOLE = [
    None,
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"*1*" + b"(" * DEEP,
    b"*1*" + b"(a*)*" * 2_000,
    b"*1*" + b"((a{1000}){1000}){1000}",
    b"*1*" + b"\\p{" * 3_000,
    b"*1*" + b"|".join(b"%d" % n for n in range(100_000)),
    b"*9999999999*a",
    b"!1!" + b"[" * 9_000,
    b'{"topic":' + b"1" * 4300 + b"}",
    b'{"version":1,"partitions":{' + b",".join(b'"%d":[1]' % n for n in range(20_000)) + b"}}",
    b'{"version":1,"partitions":[' + b",".join([b"{}"] * 60_000) + b"]}",
]


def recorded(pattern: str) -> list[tuple[str, bytes]]:
    """Return path and data of recorded znodes that differ in more than numbers."""
    scenarios = json.loads(VECTORS.read_text())
    found = [(n["path"], n["value"].encode()) for s in scenarios.values() for n in s["znodes"] if n.get("value")]
    kinds = {re.sub(rb"\d+", b"0", data): (path, data) for path, data in found if re.fullmatch(pattern, path)}
    return list(kinds.values())[:MOST_SEEDS]


SEEDS = {kind: recorded(pattern) for kind, (pattern, _) in DECODERS.items()}


def try_all(kind: str, path: str, data: bytes | None) -> None:
    """Decode with all decoders of a kind. Each gives a value, or a short error that names the znode."""
    for decode in DECODERS[kind][1]:
        error = refusal(partial(decode, path, data), CodecError)
        if error is not None:
            assert f"Znode {path} cannot be read" in error.message
            assert len(error.message) < 1_000 + len(path)


def with_values(data: bytes, value: bytes) -> list[bytes]:
    """Return the znode with each of its JSON values, names and numbers replaced in turn."""
    tokens = re.finditer(rb'"(?:[^"\\]|\\.)*"|-?\d+|\[[^\[\]]*\]|\{[^{}]*\}', data)
    return [data[: token.start()] + value + data[token.end() :] for token in tokens]


@pytest.mark.parametrize("kind", DECODERS)
def test_every_kind_was_recorded(kind: str) -> None:
    """Each decoder reads the znodes that Kafka wrote."""
    assert SEEDS[kind]
    for path, data in SEEDS[kind]:
        for decode in DECODERS[kind][1]:
            decode(path, data)


@pytest.mark.parametrize("kind", DECODERS)
def test_hostile_values(kind: str) -> None:
    """Deep, large and mistyped values, duplicate keys and names with slashes are decoded or refused in any place."""
    for path, data in SEEDS[kind][:4]:
        for value in (*WHOLE, *VALUES):
            try_all(kind, path, value)
        for value in VALUES:
            for changed in with_values(data, value)[:12]:
                try_all(kind, path, changed)


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("data", [*WHOLE, *VALUES])
def test_time_and_memory(kind: str, data: bytes | None) -> None:
    """Decoding a znode takes less than 5 CPU seconds, and less memory than 4 MB plus 200 times its size."""
    tracemalloc.start()
    try:
        begin = time.process_time()
        try_all(kind, "/brokers/ids/1", data)
        assert time.process_time() - begin < 5
        assert tracemalloc.get_traced_memory()[1] < 200 * len(data or b"") + 4_000_000
    finally:
        tracemalloc.stop()


EDITS = st.tuples(
    st.integers(0, 400), st.integers(0, 12), st.binary(max_size=8) | st.sampled_from([v for v in VALUES if len(v) < 100])
)


@settings(max_examples=repetitions(150))
@given(number=st.integers(0, MOST_SEEDS - 1), edits=st.lists(EDITS, min_size=1, max_size=4))
@pytest.mark.parametrize("kind", DECODERS)
def test_damaged_znodes(kind: str, number: int, edits: list[tuple[int, int, bytes]]) -> None:
    """A recorded znode with removed and inserted bytes is decoded or refused."""
    path, data = SEEDS[kind][number % len(SEEDS[kind])]
    for place, removed, inserted in edits:
        at = place % (len(data) + 1)
        data = data[:at] + inserted + data[at + removed :]
    try_all(kind, path, data)


@given(data=st.binary(max_size=60))
@pytest.mark.parametrize("kind", DECODERS)
def test_random_bytes(kind: str, data: bytes) -> None:
    """Any bytes are decoded or refused."""
    try_all(kind, "/brokers/ids/1", data)


@given(
    st.text(max_size=300) | st.from_regex(r"[+-]?[0-9]{1,12}", fullmatch=True),
    st.sampled_from([b"{}", b"h:1", b'{"version":1,"host":"h","port":1}']),
)
def test_names_of_brokers(name: str, data: bytes) -> None:
    """A broker's id is its znode's name, which may be any text."""
    path = f"/brokers/ids/{name}"
    try_all("broker", path, data)
    if refusal(partial(cluster.decode_broker, path, data), CodecError) is None:
        assert cluster.decode_broker(path, data).broker.id == int(name.rpartition("/")[2])


@given(st.text(max_size=300) | st.from_regex(r"[0-9]{1,12}(-[0-9]{1,12})?", fullmatch=True))
def test_keys(key: str) -> None:
    """The name of a znode below owners or offsets gives a partition, or an error with its path."""
    read = partial(groups.parse_key, "/consumers/g/offsets/t/x", "t", key)
    error = refusal(read, CodecError)
    if error is None:
        assert 0 <= read().partition < 2**31
    else:
        assert "/consumers/g/offsets/t/x" in error.message
