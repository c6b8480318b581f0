"""Names, paths and JSON of znodes: what ZooKeeper allows, read with strict types, and written as the JVM writes it.

References
----------
org.apache.zookeeper.common.PathUtils, ZooKeeper 3.4.14 and 3.9.3: what either allows, as a znode of it may exist.
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

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
# As in Java, whose text is in units of UTF-16, no character beyond the first 65,536 is allowed.
_FORBIDDEN = "\x00-\x1e\x80-\x9e\ud800-\uf8fe\ufff1-\ufffe\U00010000-\U0010ffff"
_NOT_IN_NAMES = re.compile(f"[/{_FORBIDDEN}]")
_NOT_IN_PATHS = re.compile(rf"//|/[.][.]?(?:/|\Z)|./\Z|[{_FORBIDDEN}]", re.DOTALL)


def decode_text(path: str, data: bytes | None, expected: str) -> str:
    """A znode's data as text.

    Raises
    ------
    CodecError
        There is no data, or it is not UTF-8. Empty data is the empty text.
    """
    try:
        if data is not None:
            return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CodecError(path, data, f"{expected} in UTF-8") from error
    raise CodecError(path, data, expected)


def encode_json(value: Mapping[str, object]) -> bytes:
    """JSON with the mapping's own order of keys, no blanks, and text beyond ASCII as it is.

    A lone surrogate, which UTF-8 cannot encode, raises ``UnicodeEncodeError``.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def is_int32(value: object) -> TypeGuard[int]:
    """True if a value is an integer in the range of Java's int; booleans are not integers here."""
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT32


def parse_integer(path: str, data: bytes | None, expected: str) -> int:
    """A bare integer as Java's ``Integer.parseInt`` accepts it: as `parse_long`, but of 32 bits."""
    value = parse_long(path, data, expected)
    if value not in _INT32:
        raise CodecError(path, data, expected)
    return value


def parse_long(path: str, data: bytes | None, expected: str) -> int:
    """A bare integer as Java's ``Long.parseLong`` accepts it.

    An optional sign and digits, without blanks; ``+7`` and ``007`` are 7. Unlike Java, only ASCII digits.

    Raises
    ------
    CodecError
        Anything else, null data, or more than 64 bits.
    """
    text = decode_text(path, data, expected)
    if not _INTEGER.fullmatch(text) or int(text) not in _INT64:
        raise CodecError(path, data, expected)
    return int(text)


@dataclass(frozen=True, slots=True)
class ZnodeJson:
    """The JSON object of a znode, with getters that check types; their errors quote `path`, `data` and `expected`."""

    path: str
    data: bytes | None
    expected: str
    fields: Mapping[str, Any]

    @classmethod
    def parse(cls, path: str, data: bytes | None, expected: str) -> ZnodeJson:
        """The object in a znode; of a duplicate key, the last is used.

        Raises
        ------
        CodecError
            No data, not UTF-8, not JSON (``NaN`` is not), not an object, or text that UTF-8 cannot encode.
        """
        text = decode_text(path, data, expected)
        try:
            value = json.loads(text, parse_constant=_no_constant)
            if "\\u" in text:
                encode_json({"": value})
        except (ValueError, RecursionError) as error:
            raise CodecError(path, data, expected) from error
        found = cls(path, data, expected, value)
        return found if isinstance(value, dict) else found.fail()

    def fail(self, what: str = "") -> NoReturn:
        """Raise the `CodecError` of this znode; `what` says which part is wrong."""
        raise CodecError(self.path, self.data, f"{self.expected} ({what})" if what else self.expected)

    def inner(self, value: object, what: str) -> ZnodeJson:
        """An object inside this one, with the same errors."""
        if not isinstance(value, dict):
            self.fail(f"{what} is a JSON object")
        return ZnodeJson(self.path, self.data, self.expected, value)

    def nested(self, key: str) -> ZnodeJson:
        """The object under a key; it must be there."""
        return self.inner(self.fields.get(key), key)

    def integer(self, key: str, default: int | None = None) -> int:
        """The 32-bit integer under a key; `default` is for a missing key, and null is an error."""
        return self._as_integer(self.fields.get(key, default), key)

    def text(self, key: str) -> str:
        """The text under a key; it must be there."""
        return self.as_text(self.fields.get(key), key)

    def optional_text(self, key: str) -> str | None:
        """The text under a key, None when the key is missing or null."""
        return None if self.fields.get(key) is None else self.text(key)

    def timestamp(self) -> str | None:
        """The text under ``timestamp``; a number becomes text; None for anything else: Kafka does not read it."""
        value = self.fields.get("timestamp")
        return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None

    def objects(self, key: str) -> list[ZnodeJson]:
        """The array of objects under a key."""
        return [self.inner(item, f"each of {key}") for item in self.array(key)]

    def array(self, key: str) -> list[Any]:
        """The array under a key; it must be there."""
        value = self.fields.get(key)
        return value if isinstance(value, list) else self.fail(f"{key} is an array")

    def integers(self, key: str) -> tuple[int, ...]:
        """The array of 32-bit integers under a key."""
        return tuple(self._as_integer(value, key) for value in self.array(key))

    def texts(self) -> dict[str, str]:
        """All keys of this object, in its order, each with text."""
        return {key: self.text(key) for key in self.fields}

    def _as_integer(self, value: object, what: str) -> int:
        """A value that must be a 32-bit integer."""
        return value if is_int32(value) else self.fail(f"{what} is a 32-bit integer")

    def as_text(self, value: object, what: str) -> str:
        """A value that must be text."""
        return value if isinstance(value, str) else self.fail(f"{what} is text")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def is_znode_name(text: str) -> bool:
    r"""True if ZooKeeper allows the name for a znode.

    >>> is_znode_name("billing"), is_znode_name("a/b"), is_znode_name("a\nb"), is_znode_name("..")
    (True, False, False, False)
    """
    return text not in ("", ".", "..") and _NOT_IN_NAMES.search(text) is None


def is_znode_path(text: str) -> bool:
    """True if ZooKeeper allows the path for a znode; kazoo's client silently reads others as another path.

    >>> is_znode_path("/"), is_znode_path("/a/b"), is_znode_path("/a//b"), is_znode_path("/a/../b"), is_znode_path("a")
    (True, True, False, False, False)
    """
    return text.startswith("/") and _NOT_IN_PATHS.search(text) is None


def child_path(parent: str, name: str) -> str:
    """``parent/name``.

    Raises
    ------
    OptionError
        INVALID_NAME: ZooKeeper does not allow the name, so that the path would be that of another znode, or of none.
    """
    if not is_znode_name(name):
        raise INVALID_NAME(
            f"{shown_name(name)} cannot be the name of a znode below {parent}; use letters, digits, '.', '_' and '-'",
        )
    return f"{parent}/{name}"
