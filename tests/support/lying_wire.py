"""A proxy to a broker that changes the frames of its responses."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from tests.support.scripted_broker import API_VERSIONS, framed, versions
from tests.support.wire import Wire, hang_up

__all__ = ["LIES", "Lie", "LyingWire", "moves"]

Lie = Callable[[int, bytes], "Iterator[bytes]"]
"""Yields what to send instead of a response, given the key of its API and its frame without the length.

Raises OSError to close the connection.
"""
_CORRELATION_BYTES = 4


class LyingWire(Wire):
    """A `Wire` of a plaintext listener. It passes each response through `lie`, once this is set.

    Attributes
    ----------
    lies : int
        How many responses were lies.
    """

    def __init__(self, port: int, own_port: int = 0) -> None:
        super().__init__(port, own_port)
        self.lie: Lie | None = None
        self.lies = 0
        self._asked: dict[socket.socket, deque[int]] = {}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass requests on, and note their APIs."""
        asked = self._asked.setdefault(sink, deque())
        with suppress(OSError, struct.error), source.makefile("rb") as requests:
            while data := _frame(requests.read):
                asked.append(struct.unpack_from(">h", data)[0])
                sink.sendall(framed(data))
        hang_up(source)
        hang_up(sink)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        asked = self._asked.setdefault(server, deque())
        with suppress(OSError, struct.error), server.makefile("rb") as responses:
            while data := _frame(responses.read):
                api = asked.popleft()
                if self.lie is None:
                    client.sendall(framed(data))
                    continue
                self.lies += 1
                for part in self.lie(api, data):
                    client.sendall(part)
        del self._asked[server]
        hang_up(server)
        hang_up(client)


def _frame(read: Callable[[int], bytes]) -> bytes:
    """Read the next frame, without its length. Empty at the end of the stream."""
    size = read(4)
    return read(*struct.unpack(">i", size)) if size else b""


def _slow(api: int, data: bytes) -> Iterator[bytes]:
    for byte in framed(data):
        time.sleep(0.1)
        yield bytes([byte])


def _silent(api: int, data: bytes) -> Iterator[bytes]:
    yield from ()


def _only_versions(api: int, data: bytes) -> Iterator[bytes]:
    if api == API_VERSIONS:
        yield framed(data)


def _cut(api: int, data: bytes) -> Iterator[bytes]:
    yield framed(data)[: len(data) // 2]
    raise OSError


def _cut_in_length(api: int, data: bytes) -> Iterator[bytes]:
    yield framed(data)[:2]
    raise OSError


def _twice(api: int, data: bytes) -> Iterator[bytes]:
    yield framed(data) * 2


def _out_of_order(api: int, data: bytes) -> Iterator[bytes]:
    (correlation_id,) = struct.unpack_from(">i", data)
    yield framed(struct.pack(">i", correlation_id + 1) + data[_CORRELATION_BYTES:])


def _sized(change: Callable[[int], int]) -> Lie:
    def lie(api: int, data: bytes) -> Iterator[bytes]:
        yield struct.pack(">i", change(len(data))) + data

    return lie


def _with_body(change: Callable[[bytes], bytes]) -> Lie:
    """Change all but the header of responses other than ApiVersions."""

    def lie(api: int, data: bytes) -> Iterator[bytes]:
        body = data[_CORRELATION_BYTES:]
        yield framed(data[:_CORRELATION_BYTES] + (body if api == API_VERSIONS else change(body)))

    return lie


def moves(port: int, to: int) -> Lie:
    """Give a broker's new port instead of its old one."""
    return _with_body(lambda body: body.replace(struct.pack(">i", port), struct.pack(">i", to)))


def _claims(ranges: Mapping[int, tuple[int, int]]) -> Lie:
    """Claim these versions, as a broker does that knows only version 0 of ApiVersions."""

    def lie(api: int, data: bytes) -> Iterator[bytes]:
        if api != API_VERSIONS:
            yield framed(data)
        else:
            yield framed(data[:_CORRELATION_BYTES] + b"\0\43" + versions(ranges)[2:])

    return lie


def _noise(seed: int) -> Lie:
    chance = random.Random(seed)
    return _with_body(lambda body: chance.randbytes(len(body)))


def _flips(seed: int) -> Lie:
    chance = random.Random(seed)

    def flipped(body: bytes) -> bytes:
        found = bytearray(body)
        for _ in range(chance.randint(1, 3)):
            found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
        return bytes(found)

    return _with_body(flipped)


LIES: Mapping[str, Lie] = {
    "slow": _slow,
    "silent": _silent,
    "silent after a greeting": _only_versions,
    "cut": _cut,
    "cut in the length": _cut_in_length,
    "twice": _twice,
    "out of order": _out_of_order,
    "too short": _sized(lambda size: size - 1),
    "too long": _sized(lambda size: size + 1),
    "negative": _sized(lambda size: -size),
    "2 GiB": _sized(lambda size: 2**31 - 1),
    "99 MB": _sized(lambda size: 99_000_000),
    "without a body": _with_body(lambda body: b""),
    "with more": _with_body(lambda body: body + b"more"),
    "zeros": _with_body(lambda body: bytes(len(body))),
    "ones": _with_body(lambda body: b"\xff" * len(body)),
    "large numbers": _with_body(lambda body: b"\x7f" * len(body)),
    "all versions": _claims({key: (0, 32_767) for key in range(100)}),
    "oldest versions": _claims({key: (0, 0) for key in range(100)}),
    "negative versions": _claims({key: (-5, -1) for key in range(100)}),
    "no versions": _claims({}),
    "noise": _noise(1),
    "other noise": _noise(2),
    **{f"flipped bits {seed}": _flips(seed) for seed in range(6)},
}
"""Lies by name."""
