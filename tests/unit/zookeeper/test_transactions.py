"""The size of a transaction."""

from __future__ import annotations

import pytest
from kazoo.protocol.serialization import Transaction
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from pyspark_zkafka.options.values import GroupAcl
from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation, SetData, request_bytes, to_wire


@pytest.mark.parametrize("acl", ["open", "readable", "creator"])
def test_a_request_is_never_larger_than_reckoned(acl: GroupAcl) -> None:
    """The estimate covers everything sent for each kind of operation, with data, chroot and characters beyond ASCII."""

    def sent(*operations: Operation) -> int:
        """Return the size of kazoo's request: its length, number and type, and the operations."""
        return 3 * 4 + len(Transaction([to_wire(operation, "/chroot", acl) for operation in operations]).serialize())

    operations = [
        Create("/consumers/a", None),
        Create("/b", b"x" * 100, ephemeral=True),
        SetData("/ü/c", b"1", 3),
        Delete("/a"),
        Check("/b"),
    ]
    for operation in operations:
        assert sent(operation) <= request_bytes([operation], "/chroot") < sent(operation) + 40
        some = [operation] * 3
        assert sent(*some) <= request_bytes(some, "/chroot")


@pytest.mark.parametrize(
    ("path", "acl", "entries"),
    [
        ("/consumers/g", "open", OPEN_ACL_UNSAFE),
        ("/consumers/g/ids", "creator", CREATOR_ALL_ACL),
        ("/consumers/g", "readable", [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]),
        ("/consumers", "creator", OPEN_ACL_UNSAFE),
        ("/admin/reassign_partitions", "creator", OPEN_ACL_UNSAFE),
    ],
)
def test_acl_of_groups(path: str, acl: GroupAcl, entries: list[object]) -> None:
    """A group's znodes have the ACL of the connection; znodes that all groups share, and that brokers read, are open."""
    assert to_wire(Create(path, b""), "/chroot", acl).acl == entries  # type: ignore[attr-defined]
    kept = (*READ_ACL_UNSAFE,)
    assert to_wire(Create(path, b"", acl=kept), "/chroot", acl).acl == [*kept]  # type: ignore[attr-defined]
