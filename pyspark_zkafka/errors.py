"""The tree of errors that this package raises.

`conditions.py` defines every condition, such as ``NO_LEADER``, with its cause and its remedy. Add an error there. A class
is added here only if callers must catch the error by a class of its own.

::

    ZKafkaError
    ├── OptionError              a bad, unknown or contradictory option, a bad schema
    ├── ZooKeeperError           ZooKeeper does not answer, or refuses          (retriable)
    │   ├── ChrootMissing        the ensemble answers, the chroot does not exist
    │   ├── ZooKeeperRefused     refused by authentication, an ACL or a limit
    │   └── ZooKeeperMisused     the client is not open, or the servers do not know its request
    ├── ClusterStateError        the cluster cannot serve the request
    │   ├── UnknownTopic         no such topic or partition
    │   ├── NoLeader             a partition is offline                         (retriable)
    │   └── BrokersUnavailable   no broker answers in time                      (retriable)
    ├── SchemaRegistryError      the schema registry does not answer            (retriable)
    │   └── SchemaRegistryRefused    it refuses, or lacks the subject or schema
    ├── GroupError               the consumer group does not allow the operation
    │   ├── PartitionOwned       a live member owns the partition
    │   ├── PartitionLost        the member that commits no longer owns it
    │   ├── GroupContended       concurrent changes keep conflicting            (retriable)
    │   └── ConsumerIdTaken      another session is registered under the id
    ├── CheckpointError          a stream's checkpoint cannot be read
    ├── DataLoss                 records in the range are gone
    ├── UnreadableRecord         a record does not fit the column types
    ├── InvalidRow               a row cannot be written as it is
    ├── DeliveryFailed           rows were not acknowledged
    ├── TransactionFailed        a transaction was fenced, timed out or refused
    ├── LedgerError              the ledger of an exactly-once write does not allow the operation
    ├── CodecError               a znode's bytes are not what Kafka writes
    └── LocalClusterError        the local test cluster cannot start or run

Spark's JVM passes on only the text of an error, so the text is complete by itself:
``[CONDITION] what happened; what was found; what to do``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

__all__ = [
    "BrokersUnavailable",
    "CheckpointError",
    "ChrootMissing",
    "ClusterStateError",
    "CodecError",
    "ConsumerIdTaken",
    "DataLoss",
    "DeliveryFailed",
    "GroupContended",
    "GroupError",
    "InvalidRow",
    "LedgerError",
    "LocalClusterError",
    "NoLeader",
    "OptionError",
    "PartitionLost",
    "PartitionOwned",
    "SchemaRegistryError",
    "SchemaRegistryRefused",
    "TransactionFailed",
    "UnknownTopic",
    "UnreadableRecord",
    "ZKafkaError",
    "ZooKeeperError",
    "ZooKeeperMisused",
    "ZooKeeperRefused",
]

_QUOTED_BYTES = 120
_Error = TypeVar("_Error", bound="ZKafkaError")


def listing(names: Iterable[object], most: int = 10, separator: str = ", ") -> str:
    """Join the first `most` names for a message, with the number of the others.

    >>> listing(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    found = list(map(str, names))
    return separator.join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


def excerpt(text: str, most: int = 80) -> str:
    """Return a text for a message, cut after `most` characters."""
    return text if len(text) <= most else f"{text[:most]}..."


def printable(text: str) -> str:
    r"""Escape characters that do not print, such as a terminal's control characters, in text from znodes and brokers.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a misspelt one, ignoring case; None if none is similar.

    >>> nearest("Order", ["audit", "orders"])
    'orders'
    """
    import difflib  # only errors need it, and importing this package must stay cheap

    by_lower = {text.lower(): text for text in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


@dataclass(frozen=True, slots=True)
class Condition(Generic[_Error]):
    """A condition whose errors are of one class; see `ZKafkaError.define`."""

    kind: type[_Error]
    name: str
    cause: str
    remedy: str

    def __call__(self, message: str, **parameters: Any) -> _Error:
        """Return the error; see `ZKafkaError` for `message` and `parameters`."""
        return self.kind(self.name, message, **parameters)


class ZKafkaError(Exception):
    """The base of all errors of this package; pickle-safe.

    `condition` is a stable name in capitals, for searches and tests. `message` says what happened, what was found and what
    to do. `parameters` has the values, for programs.
    """

    retriable: ClassVar[bool] = False

    def __init_subclass__(cls, *, retriable: bool | None = None) -> None:
        if retriable is not None:
            cls.retriable = retriable

    def __init__(self, condition: str, message: str, **parameters: Any) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition
        self.message = message
        self.parameters = parameters

    @classmethod
    def define(cls: type[_Error], text: str) -> Condition[_Error]:
        """Return a condition of this class. `text` is its name, then two sentences in Markdown: cause and remedy."""
        name, sentences = text.split(maxsplit=1)
        cause, remedy = re.split(r"(?<=[.?!]) (?=[A-Z`])", " ".join(sentences.split()))
        return Condition(cls, name, cause, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        # Does not call `__init__`, whose parameters differ between the classes.
        return type(self).__new__, (type(self), *self.args), vars(self)


class OptionError(ZKafkaError):
    """Options, arguments or a schema are not valid."""


class ZooKeeperError(ZKafkaError, retriable=True):
    """ZooKeeper did not answer in time, or the connection was lost."""


class ChrootMissing(ZooKeeperError, retriable=False):
    """The ensemble answers, but the chroot of `zookeeper.connect` does not exist."""


class ZooKeeperRefused(ZooKeeperError, retriable=False):
    """ZooKeeper refuses: authentication failed, an ACL forbids the operation, or a request is too large."""


class ZooKeeperMisused(ZooKeeperError, retriable=False):
    """A programming error: the client is not open, is already open, or sent a request unknown to the servers."""


class ClusterStateError(ZKafkaError):
    """The cluster, in its current state, cannot serve the request."""


class UnknownTopic(ClusterStateError):
    """A requested topic or partition does not exist."""


class NoLeader(ClusterStateError, retriable=True):
    """A partition has no leader, and cannot be read or written now."""


class BrokersUnavailable(ClusterStateError, retriable=True):
    """No broker answered in time, or the brokers refused the connection."""


class SchemaRegistryError(ZKafkaError, retriable=True):
    """The schema registry did not answer in time, or answered that it cannot serve requests now."""


class SchemaRegistryRefused(SchemaRegistryError, retriable=False):
    """The schema registry refuses the login or a schema, or has no such subject or schema."""


class GroupError(ZKafkaError):
    """The consumer group does not allow the operation."""


class PartitionOwned(GroupError):
    """A live member of the group owns a partition, so that its offset cannot be committed."""


class PartitionLost(GroupError):
    """A member cannot commit the offset of a partition that it no longer owns."""


class GroupContended(GroupError, retriable=True):
    """Concurrent changes to a group kept conflicting with this one. The message says what was changed."""


class ConsumerIdTaken(GroupError):
    """Another session is registered under the member's id. It may be the member's own previous session."""


class CheckpointError(ZKafkaError):
    """A stream's checkpoint cannot be read by this version of the package."""


class DataLoss(ZKafkaError):
    """Records of the planned range are no longer in the log."""


class UnreadableRecord(ZKafkaError):
    """A record in the log does not fit the types of the columns that are read."""


class InvalidRow(ZKafkaError):
    """A row cannot become a record: its topic, partition, timestamp, headers, key or value are not valid."""


class DeliveryFailed(ZKafkaError):
    """The brokers did not acknowledge all rows of a task."""


class TransactionFailed(ZKafkaError):
    """A transaction was fenced, timed out or was refused. Committed readers see no row, unless its commit got no answer."""


class LedgerError(ZKafkaError):
    """The ledger of an exactly-once write does not allow the operation. Nothing was written twice."""


class LocalClusterError(ZKafkaError):
    """The local cluster cannot be fetched, started or reached."""


class CodecError(ZKafkaError):
    """Bytes of a znode that are not what Kafka writes there.

    `data` is None for a znode without data. The message quotes the first 120 bytes. `expected` says what Kafka writes.
    """

    def __init__(self, path: str, data: bytes | None, expected: str) -> None:
        found = "no data" if data is None else repr(data[:_QUOTED_BYTES])
        more = f"... ({len(data)} bytes)" if data and len(data) > _QUOTED_BYTES else ""
        what = f"Znode {path} cannot be read: found {found}{more}, expected {expected}"
        remedy = "correct or delete the znode, or find the client that wrote it"
        super().__init__("MALFORMED_ZNODE", f"{what}; {remedy}", path=path, data=data, expected=expected)
