"""Foreign texts other than znodes: they give a value, or an error of this package, in bounded time."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.errors import CheckpointError, LedgerError, OptionError, ZKafkaError
from pyspark_zkafka.model import ledger
from pyspark_zkafka.model.checkpoint import StreamOffset
from pyspark_zkafka.model.ledger import parse_ends
from pyspark_zkafka.model.nouns import ClaimOwner
from pyspark_zkafka.model.query_lag import parse_source_offsets
from pyspark_zkafka.model.topic_names import FilterError, topic_filter
from pyspark_zkafka.options import kinds
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.tools.admin_reassign import parse_reassignment
from pyspark_zkafka.tools.offset_files import parse_offsets_file
from pyspark_zkafka.wire.protocol import Unsupported
from pyspark_zkafka.wire.sasl import exchange
from pyspark_zkafka.wire.settings import Login
from tests.support.refusals import refusal
from tests.support.tiers import repetitions

DEPTHS = (500, 900, 960, 980, 990, 995, 100_000)
DEEP = [text for n in DEPTHS for text in ("[" * n + "]" * n, '{"a":' * n + "1" + "}" * n)]
ODD = [
    "",
    "\0",
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5000,
    '{"a":1,"a":2}',
    '{"..":{"0":1}}',
    '{"a/b":{"0":1}}',
    '{"a\\u0000":{"0":1}}',
    '{"a":{"0":NaN}}',
    '{"a":{"0":1e3}}',
    '{"a":{"0":true}}',
    '{"a":{"0":"1"}}',
    '{"a":{"0":9223372036854775808}}',
    '{"a":{"0":-9223372036854775809}}',
    '{"a":{"0":' + "9" * 4000 + "}}",
    '{"a":{"2147483648":1}}',
    '{"a":{"99999999999999999999":1}}',
    '{"a":{"' + "9" * 5000 + '":1}}',
    '{"a":{"\N{ARABIC-INDIC DIGIT THREE}":1}}',
    '{"a":[2147483648]}',
    '{"a":[-1]}',
    '{"a":[true]}',
    '{"a":' + "[" * 900 + "]" * 900 + "}",
    '{"' + "x" * 300 + '":{"0":1}}',
    '{"\\ud800":{"0":1}}',
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
KEYS = st.sampled_from(
    ["a", "0", "1", "00", "-1", "..", "version", "topics", "known", "partitions", "id", "czxid", "v", "ends"]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=6), inner), max_leaves=10
)
TEXTS = st.sampled_from([*DEEP, *ODD]) | st.text(max_size=80) | JSON.map(json.dumps)

PARSERS: dict[str, Callable[[str], object]] = {
    "startingOffsets": lambda text: kinds.STARTING_OFFSETS.read("startingOffsets", text),
    "endingOffsets": lambda text: kinds.ENDING_OFFSETS.read("endingOffsets", text),
    "commitOffsets": lambda text: kinds.OFFSETS_TO_COMMIT.read("commitOffsets", text),
    "timestamps": lambda text: kinds.TIMESTAMPS.read("startingOffsetsByTimestamp", text),
    "assign": lambda text: kinds.PARTITIONS.read("assign", text),
    "a whole read": lambda text: parse_read({"zookeeper.connect": "zk1:2181", "assign": text, "startingOffsets": text}),
    "reassignment": lambda text: parse_reassignment(text, "file.json"),
    "offsets file": lambda text: parse_offsets_file("offsets.csv", text, "g"),
    "ledger": lambda text: parse_ends(ledger.decode(text).ends),
}


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("text", [*DEEP, *ODD])
def test_hostile_texts(name: str, text: str) -> None:
    """Deep, large and mistyped texts, and names with slashes, are parsed or refused in a few lines."""
    try_to_read(name, text)


@given(text=TEXTS)
@pytest.mark.parametrize("name", PARSERS)
def test_any_text(name: str, text: str) -> None:
    """Any text and any JSON is parsed or refused."""
    try_to_read(name, text)


def try_to_read(name: str, text: str) -> None:
    """Read a text. It gives a value, or a short error of this package."""
    error = refusal(lambda: PARSERS[name](text), OptionError, LedgerError)
    assert error is None or len(error.message) < 8_000


@pytest.mark.parametrize("text", [*DEEP, *ODD])
def test_reassignment_files(text: str) -> None:
    """Hostile values at each position of a reassignment plan are read or refused."""
    with suppress(OptionError):
        parse_reassignment(
            f'{{"partitions":[{{"topic":"t","partition":0,"replicas":[1],"log_dirs":{text}}}]}}', "file.json"
        )
    with suppress(OptionError):
        parse_reassignment(f'{{"version":1,"partitions":[{text}]}}', "file.json")


ENTRY = {"v": 1, "slot": 0, "batch": 0, "rows": 1, "digest": "d", "run": "r", "write": "", "at": 0}
HOSTILE_VALUES = [json.loads(t) for t in ODD if t not in ("", "\0", "9" * 5000)]
HOSTILE_VALUES += [None, [], [[]], -1, 2**31, 2**63, "x", {}]


@pytest.mark.parametrize("name", [*ENTRY, "ends"])
def test_ledger_entries(name: str) -> None:
    """A ledger entry with a hostile value is refused, or its offsets fit a job and ZooKeeper's names."""
    for value in HOSTILE_VALUES:
        text = json.dumps({**ENTRY, name: value})
        error = refusal(partial(ledger.decode, text), LedgerError)
        if error is not None:
            assert len(error.message) < 2_000
            continue
        found = ledger.decode(text)
        for tp, offset in parse_ends(found.ends).items():
            assert 0 <= tp.partition < 2**31
            assert 0 <= offset < 2**63


@settings(max_examples=repetitions(100))
@given(
    JSON
    | st.fixed_dictionaries({"version": st.just(1), "topics": JSON | st.dictionaries(st.sampled_from(["a", ".."]), JSON)})
)
def test_checkpoints(found: Any) -> None:
    """Any JSON is read as an offset of a checkpoint that round-trips, or is refused."""
    with suppress(CheckpointError):
        offset = StreamOffset.from_json(found)
        assert StreamOffset.from_json(offset.to_json()) == offset


@pytest.mark.parametrize("depth", DEPTHS[:-1])
def test_deep_checkpoints(depth: int) -> None:
    """Deeply nested JSON that Spark can still load is refused like any other offset."""
    try:
        found = json.loads('{"a":' * depth + "1" + "}" * depth)
    except RecursionError:
        return
    with pytest.raises(CheckpointError):
        StreamOffset.from_json(found)


@given(TEXTS, TEXTS)
def test_progress_of_other_sources(end: str, latest: str) -> None:
    """Offsets of other sources in a query's progress, and latest offsets of another form, are ignored."""
    parse_source_offsets(end, latest)
    ours = parse_source_offsets('{"version":1,"topics":{}}', latest)
    assert ours is not None
    assert all(type(offset) is int for offset in (ours.latest or {}).values())


@given(st.text() | st.from_regex(r".{0,5}@0x[0-9a-fA-F]{0,20}"))
def test_claim_owners(text: str) -> None:
    """The owner of a claim in an option is parsed or refused."""
    with suppress(ValueError, ZKafkaError):
        assert ClaimOwner.parse(str(ClaimOwner.parse(text))) == ClaimOwner.parse(text)


@given(st.text(st.sampled_from("ab(){}[]|*+?\\^$.,-0123456789:<!=PpQE&#"), max_size=40) | st.text(max_size=40))
def test_filters(regex: str) -> None:
    """A member's regex is evaluated or refused."""
    with suppress(FilterError):
        topic_filter(regex).select(["a", "orders", "__consumer_offsets"])


SERVER_FIRST = st.sampled_from(
    [
        "",
        "r=",
        "r={nonce}x,s=QUFB,i=4096",
        "r={nonce}x,s=!,i=4096",
        "r={nonce}x,s=,i=4096",
        "e=other-error",
        "r=x,s=QUFB,i=4096",
    ]
) | st.builds(
    "r={{nonce}}x,s=QUFB,i={}".format, st.integers() | st.sampled_from(["", "9" * 5000, "1e9", "\u0663", "10000001"])
)
SERVER_FINAL = st.sampled_from(["", "v=", "v=QUFB", "v=\xe9", "e=x", "v=" + "A" * 10_000, "x", "m=1,v=QUFB"])


@settings(max_examples=repetitions(200))
@given(SERVER_FIRST | st.text(max_size=30), SERVER_FINAL | st.text(max_size=30), st.booleans())
def test_logins(first: str, final: str, broken: bool) -> None:
    """Any answer to a SCRAM login is refused quickly, as the broker does not know the password."""
    tokens = exchange(Login("SCRAM-SHA-256", "alice", "a-planted-secret"), "broker1")
    nonce = next(tokens).decode().rpartition("r=")[2]
    answers = (first.replace("{nonce}", nonce).encode() + b"\xff" * broken, final.encode())
    with pytest.raises(Unsupported) as caught:
        list(map(tokens.send, answers))
    assert "a-planted-secret" not in str(caught.value)
    assert caught.value.__suppress_context__
