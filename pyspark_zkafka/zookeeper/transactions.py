"""ZooKeeper transactions: all operations are applied, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from kazoo import exceptions as kazoo
from kazoo.protocol import serialization as wire
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from pyspark_zkafka.model.znodes.groups import CONSUMERS
from pyspark_zkafka.options.values import GroupAcl

T = TypeVar("T")

MAX_TRANSACTION_BYTES = 512 * 1024  # half of the servers' default limit: the transaction's record must fit, too
_ANY_VERSION = -1
_EPHEMERAL, _SEQUENTIAL = 1, 2
_OPERATION_BYTES = 9 + 31 + 16  # a header, an ACL with one entry, and the other fields
_ENTRY_BYTES = 20  # of an ACL
_GROUP_ACLS: dict[GroupAcl, list[object]] = {
    "open": OPEN_ACL_UNSAFE,
    "readable": [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
    "creator": CREATOR_ALL_ACL,
}
_REQUEST_BYTES = 12 + 9  # its length, number and type, and the header that ends a transaction


@dataclass(frozen=True, slots=True)
class Create:
    """Create a znode. Null data (None) is not empty data.

    `acl` has the entries that `ZooKeeperConnection.acl` returns. The default is the connection's ACL below ``/consumers``,
    and an open ACL elsewhere, as brokers must read and delete those znodes. ZooKeeper appends ten ascending digits to a
    `sequential` path.
    """

    path: str
    data: bytes | None
    ephemeral: bool = False
    acl: tuple[object, ...] | None = None
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a znode's data (None for null), at one version or at any (-1)."""

    path: str
    data: bytes | None
    version: int = _ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode without children, at one version or at any (-1)."""

    path: str
    version: int = _ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Fail the transaction unless the znode exists, at one version or at any (-1)."""

    path: str
    version: int = _ANY_VERSION


Operation = Create | SetData | Delete | Check


class Reason(Enum):
    """The reason for which an operation failed its transaction."""

    NODE_EXISTS = "the znode exists"
    NO_NODE = "the znode, or its parent, does not exist"
    BAD_VERSION = "the znode was changed meanwhile"
    NOT_EMPTY = "the znode has children"
    EPHEMERAL_PARENT = "the parent is ephemeral"


@dataclass(frozen=True, slots=True)
class Conflict:
    """The operation that failed a transaction, and the reason."""

    operation: Operation
    reason: Reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a transaction. With a conflict, nothing was applied.

    `zxid` is the transaction's id, the `mzxid` of each znode that it wrote. ZooKeeper returns it only if the transaction
    has replaced the data of a znode.
    """

    conflict: Conflict | None = None
    zxid: int | None = None


REASONS: dict[type[object], Reason] = {
    kazoo.NodeExistsError: Reason.NODE_EXISTS,
    kazoo.NoNodeError: Reason.NO_NODE,
    kazoo.BadVersionError: Reason.BAD_VERSION,
    kazoo.NotEmptyError: Reason.NOT_EMPTY,
    kazoo.NoChildrenForEphemeralsError: Reason.EPHEMERAL_PARENT,
}


def request_bytes(operations: Collection[Operation], chroot: str = "") -> int:
    """The approximate size of a request in bytes. Never too low."""
    return _REQUEST_BYTES + _operations_bytes(operations, chroot)


def pieces(
    parts: Iterable[T],
    operations_of: Callable[[T], Iterable[Operation]],
    chroot: str,
    max_bytes: int = MAX_TRANSACTION_BYTES,
) -> Iterator[list[T]]:
    """Divide parts, in order, into pieces that fit into one transaction. A part that is too large has its own piece.

    `operations_of` returns the operations that a part may need. Operations that several parts of a piece need, such as a
    parent's, count once.

    >>> def create(path):
    ...     return [Create("/parent", None), Create(path, bytes(1000))]
    >>> list(pieces(["/parent/a", "/parent/b", "/parent/c"], create, "", 2500))
    [['/parent/a', '/parent/b'], ['/parent/c']]
    """
    piece: list[T] = []
    counted: set[Operation] = set()
    size = _REQUEST_BYTES
    for part in parts:
        operations = set(operations_of(part))
        more = _operations_bytes(operations - counted, chroot)
        if piece and size + more > max_bytes:
            yield piece
            piece, counted, size = [], set(), _REQUEST_BYTES
            more = _operations_bytes(operations, chroot)
        piece.append(part)
        counted |= operations
        size += more
    if piece:
        yield piece


def to_wire(operation: Operation, chroot: str, group_acl: GroupAcl = "open") -> tuple[object, ...]:
    """Convert an operation to kazoo's, under a chroot. `group_acl` is the default ACL of groups' znodes."""
    path = chroot + operation.path
    match operation:
        case Create(data=data, ephemeral=ephemeral, acl=acl, sequential=sequential):
            default = _GROUP_ACLS[group_acl if operation.path.startswith(f"{CONSUMERS}/") else "open"]
            entries = default if acl is None else list(acl)
            flags = _EPHEMERAL * ephemeral + _SEQUENTIAL * sequential
            return wire.Create(path, data, entries, flags)  # type: ignore[no-any-return]
        case SetData(data=data, version=version):
            return wire.SetData(path, data, version)  # type: ignore[no-any-return]
        case Delete(version=version):
            return wire.Delete(path, version)  # type: ignore[no-any-return]
        case Check(version=version):
            return wire.CheckVersion(path, version)  # type: ignore[no-any-return]


def _operations_bytes(operations: Collection[Operation], chroot: str) -> int:
    paths = sum(len(chroot.encode() + operation.path.encode()) for operation in operations)
    data = sum(len(o.data or b"") for o in operations if isinstance(o, (Create, SetData)))
    acls = sum(len(repr(o.acl).encode()) if o.acl else _ENTRY_BYTES for o in operations if isinstance(o, Create))
    return _OPERATION_BYTES * len(operations) + paths + data + acls
