"""JSON of znodes: strict types, Java's integers, and encoding as in the JVM."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import CodecError, OptionError
from pyspark_zkafka.model.znodes.codec import (
    INT64,
    ZnodeJson,
    child_path,
    decode_text,
    encode_json,
    is_int32,
    is_znode_path,
    parse_integer,
)

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


WRONG: list[tuple[Callable[[ZnodeJson], object], str]] = [
    (lambda found: found.integer("s"), "s is a 32-bit integer"),
    (lambda found: found.integer("flag"), "flag is a 32-bit integer"),
    (lambda found: found.integer("big"), "big is a 32-bit integer"),
    (lambda found: found.integer("null", 3), "null is a 32-bit integer"),
    (lambda found: found.text("n"), "n is text"),
    (lambda found: found.text("missing"), "missing is text"),
    (lambda found: found.optional_text("n"), "n is text"),
    (lambda found: found.array("s"), "s is an array"),
    (lambda found: found.integers("objects"), "objects is a 32-bit integer"),
    (lambda found: found.objects("list"), "each of list is a JSON object"),
    (lambda found: found.objects("objects")[0].integer("a"), "a is a 32-bit integer"),
    (lambda found: found.nested("list"), "list is a JSON object"),
    (lambda found: found.texts(), "n is text"),
]


@pytest.mark.parametrize(("get", "says"), WRONG)
def test_wrong_types(get: Callable[[ZnodeJson], object], says: str) -> None:
    """A value of another type is an error with the znode's path and data, and the expected form."""
    with pytest.raises(CodecError) as caught:
        get(ZnodeJson.parse("/z", OBJECT, "an object"))
    assert caught.value.parameters == {"path": "/z", "data": OBJECT, "expected": f"an object ({says})"}


@pytest.mark.parametrize("data", [None, b"", b"[]", b"1", b'{"a":NaN}', b"{", b"\xff", b'{"a":"\\ud800"}'])
def test_no_object(data: bytes | None) -> None:
    """Missing data, other JSON, text that is not UTF-8 and lone surrogates are errors."""
    with pytest.raises(CodecError) as caught:
        ZnodeJson.parse("/z", data, "an object")
    expected = "an object in UTF-8" if data == b"\xff" else "an object"
    assert caught.value.parameters == {"path": "/z", "data": data, "expected": expected}


@pytest.mark.parametrize(("data", "expected"), [(None, "a text"), (b"a\xff", "a text in UTF-8")])
def test_no_text(data: bytes | None, expected: str) -> None:
    """Missing data and data that is not UTF-8 are errors, unlike empty data."""
    assert decode_text("/z", b"", "a text") == ""
    with pytest.raises(CodecError) as caught:
        decode_text("/z", data, "a text")
    assert caught.value.parameters == {"path": "/z", "data": data, "expected": expected}


def test_integers_of_32_bits() -> None:
    """Integers have the range of Java's int, and Booleans are no integers."""
    assert is_int32(2**31 - 1)
    assert is_int32(-(2**31))
    assert not any(map(is_int32, (2**31, True, 1.0, "1", None)))
    assert parse_integer("/z", b"-2147483648", "n") == -(2**31)
    assert parse_integer("/z", b"2147483648", "n", INT64) == 2**31
    for data in (b"2147483648", b"n", None):
        with pytest.raises(CodecError) as caught:
            parse_integer("/z", data, "a number")
        assert caught.value.parameters == {"path": "/z", "data": data, "expected": "a number"}


def test_paths() -> None:
    """ZooKeeper's rules decide which paths are valid, and a child's name cannot have a slash."""
    assert all(map(is_znode_path, ("/", "/a/b", "/ä/.b/...")))
    assert not any(map(is_znode_path, ("", "a", "a/b", "/a//b", "/a/../b", "/a/.", "/a/", "/a\0")))
    assert child_path("/a", "b") == "/a/b"
    with pytest.raises(OptionError, match=r"^\[INVALID_NAME\] 'b/c' cannot be the name of a znode below /a; use letters"):
        child_path("/a", "b/c")


def test_encoded_json() -> None:
    """Keys keep their order, without blanks, and non-ASCII text is not escaped."""
    assert encode_json({"b": [1, 2], "a": "ä"}).decode() == '{"b":[1,2],"a":"ä"}'
