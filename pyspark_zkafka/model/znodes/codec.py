"""Names, paths and JSON of znodes. JSON is read with strict types and written as the JVM writes it.

References
----------
org.apache.zookeeper.common.PathUtils, ZooKeeper 3.4.14 and 3.9.3. A name that either version allows is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from pyspark_zkafka.conditions import INVALID_NAME
from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.topic_names import shown_name

INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
# Java checks units of UTF-16, and so allows no character above U+FFFF.
_FORBIDDEN = "\x00-\x1e\x80-\x9e\ud800-\uf8fe\ufff1-\ufffe\U00010000-\U0010ffff"
_NOT_IN_NAMES = re.compile(f"[/{_FORBIDDEN}]")
_NOT_IN_PATHS = re.compile(rf"//|/[.][.]?(?:/|\Z)|./\Z|[{_FORBIDDEN}]", re.DOTALL)


def decode_text(path: str, data: bytes | None, expected: str) -> str:
    """Decode a znode's data as text. Empty data is the empty text. Raises CodecError for no data, or other than UTF-8."""
    try:
        if data is not None:
            return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CodecError(path, data, f"{expected} in UTF-8") from error
    raise CodecError(path, data, expected)


def encode_json(value: Mapping[str, object]) -> bytes:
    """Encode as JSON in UTF-8, keys in the mapping's order, without blanks and without escapes for non-ASCII text.

    A lone surrogate raises ``UnicodeEncodeError``.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def is_int32(value: object) -> TypeGuard[int]:
    """Return True for an integer in the range of Java's int. Booleans are not integers here."""
    return isinstance(value, int) and not isinstance(value, bool) and value in INT32


def parse_integer(path: str, data: bytes | None, expected: str, allowed: range = INT32) -> int:
    """Parse a bare integer as Java's ``Integer.parseInt``: an optional sign and digits, such as ``+7`` and ``007``.

    Unlike in Java, digits must be ASCII. Raises CodecError for any other text, no data, or a number that is not `allowed`.
    """
    text = decode_text(path, data, expected)
    if not _INTEGER.fullmatch(text) or int(text) not in allowed:
        raise CodecError(path, data, expected)
    return int(text)


@dataclass(frozen=True, slots=True)
class ZnodeJson:
    """The JSON object of a znode. Getters check types, and their errors quote `path`, `data` and `expected`."""

    path: str
    data: bytes | None
    expected: str
    fields: Mapping[str, Any]

    @classmethod
    def parse(cls, path: str, data: bytes | None, expected: str) -> ZnodeJson:
        """Parse the object in a znode. The last value of a duplicate key is used.

        Raises CodecError if there is no data, or it is not UTF-8, not JSON (as ``NaN``), not an object, or has text that
        UTF-8 cannot encode.
        """
        text = decode_text(path, data, expected)
        try:
            value = _DECODER.decode(text)
            if "\\u" in text:
                encode_json({"": value})
        except (ValueError, RecursionError) as error:
            raise CodecError(path, data, expected) from error
        found = cls(path, data, expected, value)
        return found if isinstance(value, dict) else found.fail()

    def fail(self, what: str = "") -> NoReturn:
        """Raise the `CodecError` of this znode. `what` names the part that is wrong."""
        raise CodecError(self.path, self.data, f"{self.expected} ({what})" if what else self.expected)

    def inner(self, value: object, what: str) -> ZnodeJson:
        """Return an object inside this one, with the same errors."""
        if not isinstance(value, dict):
            self.fail(f"{what} is a JSON object")
        return ZnodeJson(self.path, self.data, self.expected, value)

    def nested(self, key: str) -> ZnodeJson:
        """Return the object under a key, which must exist."""
        return self.inner(self.fields.get(key), key)

    def integer(self, key: str, default: int | None = None) -> int:
        """Return the 32-bit integer under a key. `default` replaces a missing key, but not null."""
        return self._as_integer(self.fields.get(key, default), key)

    def text(self, key: str) -> str:
        """Return the text under a key, which must exist."""
        return self.as_text(self.fields.get(key), key)

    def optional_text(self, key: str) -> str | None:
        """Return the text under a key, None if the key is missing or null."""
        return None if self.fields.get(key) is None else self.text(key)

    def timestamp(self) -> str | None:
        """Return the text or number under ``timestamp`` as text, None for other values. Kafka does not read it."""
        value = self.fields.get("timestamp")
        return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None

    def objects(self, key: str) -> list[ZnodeJson]:
        """Return the array of objects under a key."""
        return [self.inner(item, f"each of {key}") for item in self.array(key)]

    def array(self, key: str) -> list[Any]:
        """Return the array under a key, which must exist."""
        value = self.fields.get(key)
        return value if isinstance(value, list) else self.fail(f"{key} is an array")

    def integers(self, key: str) -> tuple[int, ...]:
        """Return the array of 32-bit integers under a key."""
        return tuple(self._as_integer(value, key) for value in self.array(key))

    def texts(self) -> dict[str, str]:
        """Return all keys, in order, with their values, which must be text."""
        return {key: self.text(key) for key in self.fields}

    def _as_integer(self, value: object, what: str) -> int:
        return value if is_int32(value) else self.fail(f"{what} is a 32-bit integer")

    def as_text(self, value: object, what: str) -> str:
        """Return a value, which must be text."""
        return value if isinstance(value, str) else self.fail(f"{what} is text")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def is_znode_name(text: str) -> bool:
    r"""Return True if ZooKeeper allows the name for a znode.

    >>> is_znode_name("billing"), is_znode_name("a/b"), is_znode_name("a\nb"), is_znode_name("..")
    (True, False, False, False)
    """
    return text not in ("", ".", "..") and _NOT_IN_NAMES.search(text) is None


def is_znode_path(text: str) -> bool:
    """Return True if ZooKeeper allows the path for a znode. kazoo's client silently changes other paths.

    >>> is_znode_path("/"), is_znode_path("/a/b"), is_znode_path("/a//b"), is_znode_path("/a/../b"), is_znode_path("a")
    (True, True, False, False, False)
    """
    return text.startswith("/") and _NOT_IN_PATHS.search(text) is None


def child_path(parent: str, name: str) -> str:
    """``parent/name``. Raises OptionError (INVALID_NAME) if this would not be the path of a child of `parent`."""
    if not is_znode_name(name):
        raise INVALID_NAME(
            f"{shown_name(name)} cannot be the name of a znode below {parent}; use letters, digits, '.', '_' and '-'",
        )
    return f"{parent}/{name}"
