"""JSON of znodes: strict types, Java's integers, and encoding as in the JVM."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.znodes.codec import INT64, ZnodeJson, encode_json, is_int32, parse_integer

OBJECT = b'{"n":7,"s":"x","null":null,"list":[1,2],"objects":[{"a":"b"}],"timestamp":5,"big":2147483648,"flag":true}'


def test_getters() -> None:
    """Each getter returns a value of its type, or the default for a missing key."""
    found = ZnodeJson.parse("/z", OBJECT, "an object")
    assert found.integer("n") == 7
    assert found.integer("missing", 3) == 3
    assert found.text("s") == "x"
    assert found.optional_text("missing") is None
    assert found.optional_text("null") is None
    assert found.timestamp() == "5"
    assert found.array("list") == [1, 2]
    assert found.integers("list") == (1, 2)
    assert [item.texts() for item in found.objects("objects")] == [{"a": "b"}]


WRONG: list[Callable[[ZnodeJson], object]] = [
    lambda found: found.integer("s"),
    lambda found: found.integer("flag"),
    lambda found: found.integer("big"),
    lambda found: found.integer("null", 3),
    lambda found: found.text("n"),
    lambda found: found.text("missing"),
    lambda found: found.optional_text("n"),
    lambda found: found.array("s"),
    lambda found: found.integers("objects"),
    lambda found: found.objects("list"),
    lambda found: found.nested("list"),
    lambda found: found.texts(),
]


@pytest.mark.parametrize("get", WRONG)
def test_wrong_types(get: Callable[[ZnodeJson], object]) -> None:
    """A value of another type is an error that names the znode and the expected form."""
    with pytest.raises(CodecError, match=r"Znode /z .*an object \("):
        get(ZnodeJson.parse("/z", OBJECT, "an object"))


@pytest.mark.parametrize("data", [None, b"", b"[]", b"1", b'{"a":NaN}', b"{", b"\xff", b'{"a":"\\ud800"}'])
def test_no_object(data: bytes | None) -> None:
    """Missing data, other JSON, text that is not UTF-8 and lone surrogates are errors."""
    with pytest.raises(CodecError, match="Znode /z "):
        ZnodeJson.parse("/z", data, "an object")


def test_integers_of_32_bits() -> None:
    """Integers have the range of Java's int, and Booleans are no integers."""
    assert is_int32(2**31 - 1)
    assert is_int32(-(2**31))
    assert not any(map(is_int32, (2**31, True, 1.0, "1", None)))
    assert parse_integer("/z", b"-2147483648", "n") == -(2**31)
    assert parse_integer("/z", b"2147483648", "n", INT64) == 2**31
    with pytest.raises(CodecError, match="Znode /z "):
        parse_integer("/z", b"2147483648", "n")


def test_encoded_json() -> None:
    """Keys keep their order, without blanks, and non-ASCII text is not escaped."""
    assert encode_json({"b": [1, 2], "a": "ä"}).decode() == '{"b":[1,2],"a":"ä"}'
