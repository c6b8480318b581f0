"""The tree of errors that this package raises.

::

    ZKafkaError
    ├── OptionError              a bad, unknown or contradictory option, a bad schema
    ├── ZooKeeperError           ZooKeeper does not answer, or refuses          (retriable)
    │   ├── ChrootMissing        the ensemble answers, the chroot does not exist
    │   ├── ZooKeeperRefused     authentication, an ACL or a limit stands in the way
    │   └── ZooKeeperMisused     the client is not open, or no server understands its request
    ├── ClusterStateError        the cluster cannot serve the request
    │   ├── UnknownTopic         no such topic or partition
    │   ├── NoLeader             a partition is offline                         (retriable)
    │   └── BrokersUnavailable   no broker answers in time                      (retriable)
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
    ├── CodecError               a znode's bytes are not what Kafka writes
    └── LocalClusterError        the local test cluster cannot start or run

Only an error's text passes from Python through Spark's JVM, so the text is complete by itself:
``[CONDITION] what happened; what was found; what to do``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

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
    "LocalClusterError",
    "NoLeader",
    "OptionError",
    "PartitionLost",
    "PartitionOwned",
    "UnknownTopic",
    "UnreadableRecord",
    "ZKafkaError",
    "ZooKeeperError",
    "ZooKeeperMisused",
    "ZooKeeperRefused",
]

_QUOTED_BYTES = 120


def listing(names: Iterable[object], most: int = 10, separator: str = ", ") -> str:
    """The names for a message: of many, the first ones and how many more.

    >>> listing(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    found = list(map(str, names))
    return separator.join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")


class ZKafkaError(Exception):
    """The base of all errors of this package; pickle-safe.

    Parameters
    ----------
    condition : str
        A stable name in capitals, e.g. ``NO_LEADER``, to search for and to test by.
    message : str
        What happened; what was found; what to do.
    **parameters
        The values in the message, for programs.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, condition: str, message: str, **parameters: Any) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition
        self.message = message
        self.parameters = parameters

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.condition, self.message, self.parameters)


def _rebuild(kind: type[ZKafkaError], condition: str, message: str, parameters: dict[str, Any]) -> ZKafkaError:
    return kind(condition, message, **parameters)


class OptionError(ZKafkaError):
    """Options, arguments or a schema are not valid."""


class ZooKeeperError(ZKafkaError):
    """ZooKeeper does not answer in time, or the connection was lost."""

    retriable = True


class ChrootMissing(ZooKeeperError):
    """The ensemble answers, but the chroot of `zookeeper.connect` does not exist."""

    retriable = False


class ZooKeeperRefused(ZooKeeperError):
    """ZooKeeper refuses: authentication failed, an ACL forbids the operation, or a request is too large."""

    retriable = False


class ZooKeeperMisused(ZooKeeperError):
    """A programming error, not to be retried: the client is not open, or already open, or no server understands it."""

    retriable = False


class ClusterStateError(ZKafkaError):
    """The cluster, in its current state, cannot serve the request."""


class UnknownTopic(ClusterStateError):
    """A requested topic or partition does not exist."""


class NoLeader(ClusterStateError):
    """A partition has no leader, and cannot be read or written now."""

    retriable = True


class BrokersUnavailable(ClusterStateError):
    """No broker answered in time, or the brokers refused the connection."""

    retriable = True


class GroupError(ZKafkaError):
    """The consumer group does not allow the operation."""


class PartitionOwned(GroupError):
    """A live member of the group owns a partition whose offset was to be moved."""


class PartitionLost(GroupError):
    """A member no longer owns a partition whose offset it was to commit."""


class GroupContended(GroupError):
    """Concurrent changes to a group's znodes kept conflicting with this one, which is transient; nothing was changed."""

    retriable = True


class ConsumerIdTaken(GroupError):
    """Another session is registered under the member's id, perhaps the member's previous one, which is about to expire."""


class CheckpointError(ZKafkaError):
    """A stream's checkpoint cannot be read by this version of the package."""


class DataLoss(ZKafkaError):
    """Records of the planned range are no longer in the log."""


class UnreadableRecord(ZKafkaError):
    """A record in the log does not fit the types of the columns that are read."""


class InvalidRow(ZKafkaError):
    """A row cannot become a record: its topic, partition, timestamp or headers are not valid."""


class DeliveryFailed(ZKafkaError):
    """The brokers did not acknowledge all rows of a task."""


class LocalClusterError(ZKafkaError):
    """The local cluster cannot be fetched, started or reached."""


class CodecError(ZKafkaError):
    """Bytes of a znode that are not what Kafka writes there.

    Parameters
    ----------
    path : str
        The znode's path.
    data : bytes or None
        What was found; the message quotes the first 120 bytes of it.
    expected : str
        What Kafka writes there.
    """

    def __init__(self, path: str, data: bytes | None, expected: str) -> None:
        shown = "no data" if data is None else repr(data[:_QUOTED_BYTES])
        more = "" if data is None or len(data) <= _QUOTED_BYTES else f"... ({len(data)} bytes)"
        super().__init__(
            "MALFORMED_ZNODE",
            f"Znode {path} cannot be read: found {shown}{more}, expected {expected}; "
            "correct or delete the znode, or find out what wrote it",
            path=path,
            data=data,
            expected=expected,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return CodecError, (self.parameters["path"], self.parameters["data"], self.parameters["expected"])
