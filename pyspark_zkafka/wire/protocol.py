"""Primitive types of Kafka's protocol, headers and versions of requests, and errors.

`flexible` selects the compact form of a type, which flexible versions of a request and its response have.

References
----------
``org.apache.kafka.common.protocol.types.Type`` and ``ByteUtils`` of kafka-clients 3.9.1; KIP-482 for the compact types and
tagged fields. ``RequestHeader.json`` and ``ResponseHeader.json`` of Kafka 3.9.1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from pyspark_zkafka.model.nouns import TopicPartition

A = TypeVar("A")
K = TypeVar("K")
Address = tuple[str, int]
"""A host and a port."""

_INT8, _INT16, _INT32, _INT64 = (struct.Struct(form) for form in (">b", ">h", ">i", ">q"))
NO_TAGS = b"\x00"
"""The encoding of no tagged fields."""

int8, int16, int32, int64 = _INT8.pack, _INT16.pack, _INT32.pack, _INT64.pack


class Unsupported(Exception):
    """A feature that only librdkafka supports, so that librdkafka must continue. The text names the feature."""


class UnknownVersion(Unsupported):
    """An API that a broker does not have, or not in a version that this package knows."""


class TlsRefused(Unsupported):
    """A TLS handshake that one side refuses."""


class LoginRefused(Unsupported):
    """A login that a broker refuses. Each further attempt counts towards a lock-out of the user."""


class TokenRefused(LoginRefused):
    """A token that a broker refuses. The next login gets a new token, and no user is locked out."""


class MechanismRefused(LoginRefused):
    """A broker without the login's mechanism. The text lists the broker's mechanisms."""


class ConnectionLost(Exception):
    """A connection that could not be opened, was cut, or stayed silent. Another attempt may succeed.

    `is_silent` is True if the server accepts connections, but then closes them or does not answer.
    """

    is_silent = False


class ConnectionClosed(ConnectionLost):
    """A connection that the server has closed."""

    is_silent = True


class MalformedResponse(ConnectionLost):
    """A response that does not follow its schema."""


@contextmanager
def closed_by_errors(close: Callable[[], None]) -> Iterator[None]:
    """Call `close` if the ``with`` block raises anything."""
    try:
        yield
    except BaseException:
        close()
        raise


def unsigned_varint(value: int) -> bytes:
    """Encode a number of at most 32 bits, seven bits to a byte, lowest bits first.

    >>> unsigned_varint(300).hex()
    'ac02'
    """
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def string(text: str | None, flexible: bool = False) -> bytes:
    """Encode a text or null: its length in 16 bits, or if flexible its length plus one as a varint, then the text."""
    data = b"" if text is None else text.encode()
    count = -1 if text is None else len(data)
    return (unsigned_varint(count + 1) if flexible else int16(count)) + data


def length(count: int, flexible: bool = False) -> bytes:
    """Encode a number of bytes or elements in 32 bits, or if flexible the number plus one as a varint."""
    return unsigned_varint(count + 1) if flexible else int32(count)


def nullable_bytes(data: bytes, flexible: bool = False) -> bytes:
    """Encode the number of bytes, then the bytes."""
    return length(len(data), flexible) + data


def array(elements: Collection[bytes], flexible: bool = False) -> bytes:
    """Encode the number of elements, then the encoded elements."""
    return length(len(elements), flexible) + b"".join(elements)


def null_array(flexible: bool = False) -> bytes:
    """Encode a null array."""
    return unsigned_varint(0) if flexible else int32(-1)


def by_topic(rows: Iterable[tuple[TopicPartition, bytes]], flexible: bool = False) -> bytes:
    """Encode an array of topics, each with the encoded rows of its partitions."""
    topics: dict[str, list[bytes]] = {}
    for partition, row in rows:
        topics.setdefault(partition.topic, []).append(row)
    encoded = [string(topic, flexible) + array(found, flexible) + no_tags(flexible) for topic, found in topics.items()]
    return array(encoded, flexible)


def no_tags(flexible: bool) -> bytes:
    """Encode no tagged fields. Versions that are not flexible have no such part."""
    return NO_TAGS if flexible else b""


class Reader:
    """Reads the fields of a response of a `version`. Raises MalformedResponse if a length exceeds the bytes left."""

    def __init__(self, data: bytes | bytearray | memoryview, version: int = 0, flexible: bool = False) -> None:
        self.version = version
        self._flexible = flexible
        self._data = memoryview(data)
        self._at = 0

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return len(self._data) - self._at

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def unsigned_varint(self) -> int:
        """Read a number of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.int8()
            value |= (byte & 0x7F) << shift
            if byte >= 0:
                return value
        raise MalformedResponse("a varint has more than 5 bytes")

    def span(self, length: int) -> memoryview:
        """Read the next bytes, without a copy."""
        if not 0 <= length <= self.left:
            raise MalformedResponse(f"a field of {length} bytes where {self.left} are left")
        self._at += length
        return self._data[self._at - length : self._at]

    def string(self) -> str | None:
        """Read a text. None for null."""
        size = self._text_length()
        return None if size == -1 else self._text(size)

    def required_string(self) -> str:
        """Read a text that must not be null."""
        return self._text(self._text_length())

    def nullable_bytes(self) -> memoryview:
        """Read bytes, without a copy. Null is read as empty."""
        return self.span(self._length())

    def array(self, element: Callable[[], A]) -> list[A]:
        """Read an array, each element by `element`. Null is read as empty."""
        return [element() for _ in range(self._count(self._length()))]

    def count(self) -> int:
        """Read the number of elements of an array. The elements follow. Null is read as 0."""
        return self._count(self._length())

    def int32s(self) -> tuple[int, ...]:
        """Read an array of numbers of 32 bits. Null is read as empty."""
        count = self._count(self._length())
        return struct.unpack(f">{count}i", self.span(4 * count))

    def rows(self, form: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """Read an array of numeric elements of a `form`. Null is read as empty. Only for versions that are not flexible."""
        return form.iter_unpack(self.span(form.size * self._length()))

    def tags(self) -> dict[int, memoryview]:
        """Read tagged fields, by number. Empty in versions that are not flexible."""
        if not self._flexible:
            return {}
        return {
            self.unsigned_varint(): self.span(self.unsigned_varint()) for _ in range(self._count(self.unsigned_varint()))
        }

    def finish(self) -> None:
        """Raise MalformedResponse if bytes are left."""
        if self.left:
            raise MalformedResponse(f"{self.left} bytes follow the last field")

    def _number(self, form: struct.Struct) -> int:
        if form.size > self.left:
            raise MalformedResponse(f"a number of {form.size} bytes where {self.left} are left")
        self._at += form.size
        return int(form.unpack_from(self._data, self._at - form.size)[0])

    def _text(self, length: int) -> str:
        try:
            return str(self.span(length), "utf-8")
        except UnicodeDecodeError:
            raise MalformedResponse("a text is not UTF-8") from None

    def _text_length(self) -> int:
        return self.unsigned_varint() - 1 if self._flexible else self.int16()

    def _length(self) -> int:
        length = self.unsigned_varint() - 1 if self._flexible else self.int32()
        if length < -1:
            raise MalformedResponse(f"a length of {length}")
        return max(length, 0)

    def _count(self, count: int) -> int:
        # Each element has at least one byte. Refuse a larger number before it costs memory and time.
        if count > self.left:
            raise MalformedResponse(f"an array of {count} elements where {self.left} bytes are left")
        return count


def read_by_topic(response: Reader, row: Callable[[], tuple[int, A]]) -> list[tuple[TopicPartition, A]]:
    """Read topics, each with its rows. `row` reads the number of a partition, and its answer."""

    def topic() -> list[tuple[TopicPartition, A]]:
        name = response.required_string()
        found = [(TopicPartition(name, number), answer) for number, answer in response.array(row)]
        response.tags()
        return found

    return list(chain.from_iterable(response.array(topic)))


def answer_of(answers: Mapping[K, A], key: K) -> A:
    """Return the answer to one key. Raises MalformedResponse if the response lacks the key."""
    if key not in answers:
        raise MalformedResponse(f"the response lacks {key}")
    return answers[key]


class Api(NamedTuple):
    """A kind of request, with its supported versions, and the first version with tagged fields."""

    name: str
    key: int
    oldest: int
    newest: int
    flexible: int

    def version(self, ranges: Mapping[int, tuple[int, int]], newest: int | None = None) -> int:
        """Choose the version to use, given the broker's versions by key. Raises UnknownVersion if no version fits."""
        if self.key not in ranges:
            raise UnknownVersion(f"the broker has no {self.name}")
        low, high = ranges[self.key]
        found = min(self.newest if newest is None else newest, high)
        if found < max(self.oldest, low):
            raise UnknownVersion(f"the broker has {self.name} {low} to {high}, not {self.oldest} to {self.newest}")
        return found

    def is_in(self, ranges: Mapping[int, tuple[int, int]]) -> bool:
        """True if `version` returns a version."""
        low, high = ranges.get(self.key, (0, -1))
        return max(self.oldest, low) <= min(self.newest, high)


API_VERSIONS = Api("ApiVersions", 18, 0, 3, 3)


class Request(NamedTuple):
    """A request without its header. `parts` follow the body, and are sent without a copy."""

    api: Api
    version: int
    body: bytes
    parts: tuple[bytes | memoryview, ...] = ()

    def encoded(self, correlation_id: int, client_id: str) -> bytes:
        """Encode the request up to its parts, with its length and its header (versions 1 and 2)."""
        header = int16(self.api.key) + int16(self.version) + int32(correlation_id) + string(client_id)
        header += no_tags(self.version >= self.api.flexible)
        return int32(len(header) + len(self.body) + sum(map(len, self.parts))) + header + self.body

    def reader(self, response: bytes | memoryview) -> Reader:
        """Return a reader of the response, before its header."""
        return Reader(response, self.version, flexible=self.version >= self.api.flexible)

    def read_header(self, response: Reader, correlation_id: int) -> None:
        """Read the header of the response. Raises MalformedResponse if it answers another request."""
        found = response.int32()
        if found != correlation_id:
            raise MalformedResponse(f"the response to request {found} where that to {correlation_id} is due")
        # The header of ApiVersions never has tagged fields, as the client does not know the broker's version yet.
        if self.api is not API_VERSIONS:
            response.tags()
