"""The size of a transaction."""

from __future__ import annotations

from kazoo.protocol.serialization import Transaction

from pyspark_zkafka.zookeeper.transactions import Check, Create, Delete, Operation, SetData, request_bytes, to_wire


def test_a_request_is_never_larger_than_reckoned() -> None:
    """The estimate covers all that is sent for each kind of operation, with data, chroot and characters beyond ASCII."""

    def sent(*operations: Operation) -> int:
        """As kazoo sends a request: its length, its number, its type, and the operations."""
        return 3 * 4 + len(Transaction([to_wire(operation, "/chroot") for operation in operations]).serialize())

    operations = [
        Create("/a", None),
        Create("/b", b"x" * 100, ephemeral=True),
        SetData("/ü/c", b"1", 3),
        Delete("/a"),
        Check("/b"),
    ]
    for operation in operations:
        assert sent(operation) <= request_bytes([operation], "/chroot") < sent(operation) + 40
        some = [operation] * 3
        assert sent(*some) <= request_bytes(some, "/chroot")
