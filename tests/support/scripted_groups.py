"""Scripts of brokers by API, and bodies of their responses about groups, in versions that are easy to encode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from pyspark_zkafka.model.error_codes import ErrorCode
from pyspark_zkafka.wire.protocol import (
    NO_TAGS,
    Api,
    Reader,
    array,
    int8,
    int16,
    int32,
    int64,
    no_tags,
    nullable_bytes,
    string,
)
from tests.support.scripted_broker import Received, answered

__all__ = [
    "SILENT",
    "Answers",
    "api_ranges",
    "classic_groups",
    "coordinator",
    "coordinators",
    "deleted_groups",
    "listed_groups",
    "metadata",
    "names_in",
    "new_groups",
    "offsets_of_group",
    "offsets_of_groups",
]

SILENT = b""
"""The result of a handler that does not respond."""

Address = tuple[str, int]
Handler = Callable[[Reader], "bytes | None"]


class Answers:
    """A script with a handler for each API. A handler gets the body of a request, and returns the body of the response.

    It returns None to close the connection, as without a handler, and `SILENT` for no response.
    """

    def __init__(self, handlers: Mapping[Api, Handler]) -> None:
        self._handlers = dict(handlers)

    def __call__(self, request: Received) -> bytes | None:
        api, handler = next((found for found in self._handlers.items() if found[0].key == request.api), (None, None))
        if api is None or handler is None:
            return None
        flexible = request.version >= api.flexible
        body = Reader(request.rest, request.version, flexible)
        body.span(body.int16())  # the client's id, which is never compact
        body.tags()
        response = handler(body)
        return response and answered(request, no_tags(flexible) + response)


def api_ranges(*newest: tuple[Api, int]) -> dict[int, tuple[int, int]]:
    """Return the ranges of versions of a broker by API: from 0 to the newest one."""
    return {18: (0, 0), **{api.key: (0, version) for api, version in newest}}


def names_in(request: Reader) -> list[str]:
    """Read the names in a request that starts with an array of names."""
    return request.array(request.required_string)


def metadata(brokers: Mapping[int, Address], topics: Mapping[str, int] | None = None) -> bytes:
    """Metadata 1: brokers by id, and topics by the error of each, with partition 0, led by broker 1, if there is none."""
    nodes = [int32(number) + string(host) + int32(port) + string(None) for number, (host, port) in brokers.items()]
    first = int16(0) + int32(0) + int32(1) + 2 * array([int32(1)])
    rows = [
        int16(error) + string(name) + int8(0) + array([] if error else [first]) for name, error in (topics or {}).items()
    ]
    return array(nodes) + int32(-1) + array(rows)


def coordinator(address: Address, error: int = 0) -> bytes:
    """FindCoordinator 0."""
    return int16(error) + int32(1) + string(address[0]) + int32(address[1])


def coordinators(addresses: Mapping[str, Address | int]) -> bytes:
    """FindCoordinator 4: by group, the address of the coordinator or an error."""

    def row(group: str, found: Address | int) -> bytes:
        (host, port), error = (("", -1), found) if isinstance(found, int) else (found, 0)
        place = int32(1) + string(host, flexible=True) + int32(port)
        return string(group, flexible=True) + place + int16(error) + string(None, flexible=True) + NO_TAGS

    return int32(0) + array([row(*found) for found in addresses.items()], flexible=True) + NO_TAGS


def listed_groups(groups: Mapping[str, str], error: int = 0) -> bytes:
    """ListGroups 0: groups with the protocols of their members."""
    return int16(error) + array([string(name) + string(protocol) for name, protocol in groups.items()])


def classic_groups(groups: Mapping[str, tuple[int, str, str, Mapping[str, bytes]]]) -> bytes:
    """DescribeGroups 0: by group, the error, state, protocol, and assignments by member."""

    def row(name: str, error: int, state: str, protocol: str, members: Mapping[str, bytes]) -> bytes:
        ids = ((string(member) + string("client") + string("/10.0.0.1"), found) for member, found in members.items())
        rows = [start + nullable_bytes(b"") + nullable_bytes(assigned) for start, assigned in ids]
        return int16(error) + string(name) + string(state) + string(protocol) + string("range") + array(rows)

    return array([row(name, *found) for name, found in groups.items()])


def new_groups(groups: Mapping[str, tuple[int, str, Collection[str]]]) -> bytes:
    """ConsumerGroupDescribe 0: by group, the error, state, and members without partitions."""

    def member(name: str) -> bytes:
        nobody = array([], flexible=True) + NO_TAGS
        where = string("client", flexible=True) + string("/10.0.0.1", flexible=True)
        start = string(name, flexible=True) + 2 * string(None, flexible=True) + int32(1) + where
        return start + array([], flexible=True) + string(None, flexible=True) + 2 * nobody + NO_TAGS

    def row(name: str, error: int, state: str, members: Collection[str]) -> bytes:
        start = int16(error) + string(None, flexible=True) + string(name, flexible=True) + string(state, flexible=True)
        rows = array(list(map(member, members)), flexible=True)
        return start + int32(1) + int32(1) + string("uniform", flexible=True) + rows + int32(0) + NO_TAGS

    return int32(0) + array([row(name, *found) for name, found in groups.items()], flexible=True) + NO_TAGS


def _offset_rows(offsets: Mapping[int, int], flexible: bool, metadata: str) -> bytes:
    """Rows of partitions of topic ``t``; versions from 5 on are flexible here, and have an epoch."""
    epoch = int32(-1) if flexible else b""
    codes = {number: offset if isinstance(offset, ErrorCode) else 0 for number, offset in offsets.items()}
    rows = [
        int32(number)
        + int64(-1 if codes[number] else offset)
        + epoch
        + string(metadata, flexible)
        + int16(codes[number])
        + no_tags(flexible)
        for number, offset in offsets.items()
    ]
    return array([string("t", flexible) + array(rows, flexible) + no_tags(flexible)], flexible)


def offsets_of_group(offsets: Mapping[int, int], error: int = 0, metadata: str = "") -> bytes:
    """OffsetFetch 2: the offsets, or errors, of a group in topic ``t``, by partition."""
    return _offset_rows(offsets, False, metadata) + int16(error)


def offsets_of_groups(groups: Mapping[str, tuple[int, Mapping[int, int]]], metadata: str = "") -> bytes:
    """OffsetFetch 8: by group, the error, and offsets or errors in topic ``t`` by partition."""
    rows = [
        string(name, flexible=True) + _offset_rows(offsets, True, metadata) + int16(error) + NO_TAGS
        for name, (error, offsets) in groups.items()
    ]
    return int32(0) + array(rows, flexible=True) + NO_TAGS


def deleted_groups(groups: Mapping[str, int]) -> bytes:
    """DeleteGroups 0: errors by group."""
    return int32(0) + array([string(name) + int16(error) for name, error in groups.items()])
