"""A broker that has just started, and knows no other broker and no topic yet."""

from __future__ import annotations

import struct
from collections.abc import Collection

from tests.support.scripted_broker import Received, ScriptedBroker, answered

__all__ = ["StartingBroker"]

UNKNOWN_TOPIC = 3


def text(value: str) -> bytes:
    """Return a string preceded by its length."""
    return struct.pack(">h", len(value)) + value.encode()


class StartingBroker:
    """Answers metadata requests of version 7; those with the ordinals `silent` without brokers and topics.

    Topics in `topics` exist, with one partition each; all other topics are unknown.
    """

    def __init__(self, silent: range, topics: Collection[str] = ()) -> None:
        self._silent = silent
        self._existing = topics
        self._count = 0
        self.broker = ScriptedBroker(self)

    def __call__(self, request: Received) -> bytes:
        is_silent = self._count in self._silent
        self._count += 1
        host, port = self.broker.address
        row = struct.pack(">i", 1) + text(host) + struct.pack(">ih", port, -1)
        brokers, controller = (struct.pack(">i", 0), -1) if is_silent else (struct.pack(">i", 1) + row, 1)
        return answered(
            request,
            struct.pack(">i", 0)
            + brokers
            + text("c")
            + struct.pack(">i", controller)
            + self._topics(request, () if is_silent else self._existing),
        )

    def _topics(self, request: Received, existing: Collection[str]) -> bytes:
        (length,) = struct.unpack_from(">h", request.rest)
        (count,) = struct.unpack_from(">i", request.rest, 2 + length)
        if count <= 0:
            names = [] if count == 0 else [text(name) for name in existing]
        else:
            (length_of_name,) = struct.unpack_from(">h", request.rest, 6 + length)
            names = [request.rest[6 + length : 8 + length + length_of_name]]
        known = [text(name) for name in existing]
        return struct.pack(">i", len(names)) + b"".join(self._topic(name, name in known) for name in names)

    @staticmethod
    def _topic(name: bytes, exists: bool) -> bytes:
        if not exists:
            return struct.pack(">h", UNKNOWN_TOPIC) + name + struct.pack(">bi", 0, 0)
        on_broker_1 = struct.pack(">ii", 1, 1)
        partition = struct.pack(">hiii", 0, 0, 1, 0) + 2 * on_broker_1 + struct.pack(">i", 0)
        return struct.pack(">h", 0) + name + struct.pack(">bi", 0, 1) + partition
