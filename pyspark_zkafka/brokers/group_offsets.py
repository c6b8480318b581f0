"""A group's offsets in Kafka, read and committed without a member."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark_zkafka.brokers.errors import broker_error
from pyspark_zkafka.brokers.requests import BrokerRequests, Call, CoordinatorRoute
from pyspark_zkafka.conditions import GROUP_ACTIVE
from pyspark_zkafka.errors import BrokersUnavailable, ZKafkaError
from pyspark_zkafka.model.error_codes import NONE, RETRIABLE, ErrorCode
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire.group_messages import (
    FIRST_OF_ALL_OFFSETS,
    FIRST_OF_MANY_GROUPS,
    FIRST_STABLE,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    CommittedOffset,
    CommittedOffsets,
    offset_commit_request,
    offset_fetch_request,
    read_offset_commit,
    read_offset_fetch,
)
from pyspark_zkafka.wire.protocol import UnknownVersion, answer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from pyspark_zkafka.retries import Deadline
    from pyspark_zkafka.wire.connection import Connection
    from pyspark_zkafka.wire.protocol import Reader, Request

ACTIVE_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NON_EMPTY_GROUP,
    }
)
"""Errors for requests of non-members while the group is active."""
_OF_PARTITIONS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }
)
"""Errors of a commit that concern one partition."""

MOST_PER_COMMIT = 1_000  # the coordinator writes a commit as one batch, which max.message.bytes limits
_MOST_GROUPS = 500
_TIMEOUT_S = 30.0
_ATTEMPT_S = 5.0
_PAUSE_S = 0.2

_Due = Callable[[Collection[TopicPartition]], Collection[TopicPartition]]


def commit_requests(offsets: Mapping[TopicPartition, int]) -> Iterator[dict[TopicPartition, int]]:
    """Divide a commit into requests, in order.

    >>> [len(some) for some in commit_requests({TopicPartition("t", n): 0 for n in range(2_001)})]
    [1000, 1000, 1]
    """
    items = list(offsets.items())
    for start in range(0, len(items), MOST_PER_COMMIT):
        yield dict(items[start : start + MOST_PER_COMMIT])


class Committed(NamedTuple):
    """The outcome of a commit: the first error that concerns the whole group, and the errors by partition."""

    error: int
    partitions: Mapping[TopicPartition, int]


def commit_call(doing: str, offsets: Mapping[TopicPartition, int]) -> Call[str, Committed]:
    """A commit of a group without a member."""

    def make(connection: Connection, groups: Sequence[str]) -> Request:
        return offset_commit_request(connection.version(OFFSET_COMMIT), groups[0], offsets)

    def read(response: Reader, groups: Sequence[str]) -> dict[str, Committed]:
        answers = read_offset_commit(response)
        codes = {tp: answer_of(answers, tp) for tp in offsets}
        of_all = [code for code in codes.values() if code != NONE and code not in _OF_PARTITIONS]
        return {groups[0]: Committed(next(iter(of_all), NONE), codes)}

    return Call(lambda group: doing, make, read, ACTIVE_CODES, most=1)


def fetch_offsets(
    requests: BrokerRequests,
    coordinators: CoordinatorRoute,
    asked: Mapping[str, Collection[TopicPartition] | None],
    timeout_s: float = math.inf,
    *,
    stable: bool = False,
) -> tuple[dict[str, dict[TopicPartition, CommittedOffset]], dict[str, ZKafkaError]]:
    """Fetch the committed offsets of each group, for its partitions in `asked`, or with None for all partitions.

    Partitions without an offset are absent. Also returns the error of each group that cannot be read. With `stable`, waits
    for the ends of open transactions with an offset, which brokers since 2.5 report. Blocks for a request to each
    coordinator, or before Kafka 3.0 for each group. `timeout_s` can shorten the time-out of a request.
    """
    together = _fetching(asked, stable=stable, most=_MOST_GROUPS)
    found, failed = requests.each(asked, coordinators, together, requests.deadline(timeout_s))
    alone = [group for group, error in failed.items() if isinstance(error.__cause__, UnknownVersion)]
    if alone:
        one_by_one = _fetching(asked, stable=stable, most=1)
        found_alone, failed_alone = requests.each(alone, coordinators, one_by_one, requests.deadline(timeout_s))
        found |= found_alone
        failed = {group: error for group, error in failed.items() if group not in alone} | failed_alone
    for group, answer in found.items():
        for tp, offset in answer.offsets.items():
            if offset.error != NONE and group not in failed:
                failed[group] = broker_error(offset.error, f"reading the offset of group {group} in {tp}")
    stored = {group: answer.offsets.items() for group, answer in found.items() if group not in failed}
    return {group: {tp: answer for tp, answer in some if answer.offset >= 0} for group, some in stored.items()}, failed


def _fetching(
    asked: Mapping[str, Collection[TopicPartition] | None], *, stable: bool, most: int
) -> Call[str, CommittedOffsets]:
    """Make the call that fetches offsets of groups. A retriable error of a partition counts as an error of its group."""

    def make(connection: Connection, groups: Sequence[str]) -> Request:
        version = connection.version(OFFSET_FETCH)
        least = FIRST_OF_ALL_OFFSETS if any(asked[group] is None for group in groups) else version
        if version < (least := FIRST_OF_MANY_GROUPS if most > 1 else least):
            raise UnknownVersion(f"the broker has {OFFSET_FETCH.name} up to {version}, not {least}")
        return offset_fetch_request(version, {g: asked[g] for g in groups}, stable=stable and version >= FIRST_STABLE)

    def read(response: Reader, groups: Sequence[str]) -> dict[str, CommittedOffsets]:
        found = read_offset_fetch(response, groups)
        return {group: _with_error(found[group], asked[group]) for group in groups if group in found}

    return Call(lambda group: f"reading the offsets of group {group}", make, read, most=most)


def _with_error(found: CommittedOffsets, asked: Collection[TopicPartition] | None) -> CommittedOffsets:
    if found.error != NONE:
        return found
    codes = [answer_of(found.offsets, tp).error for tp in (found.offsets if asked is None else asked)]
    return CommittedOffsets(next((code for code in codes if code in RETRIABLE), NONE), found.offsets)


class KafkaGroupOffsets:
    """A group's offsets in Kafka, in a ``with`` block. Not pickle-safe, and only for the process that created it.

    Commits name no member and no generation, like commits of the JVM's old consumer with ``offsets.storage=kafka``. Brokers
    accept them while the group has no members. Uses only the `properties` of the connection. `timeout_s` limits each call.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        properties: Mapping[str, Any],
        group: str,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._requests = BrokerRequests(bootstrap_servers, {**properties, "socket.timeout.ms": int(timeout_s * 1000)})
        self._coordinators = CoordinatorRoute(self._requests)
        self._group = group

    def follow(self, bootstrap_servers: str) -> None:
        """Replace the bootstrap servers if one has an unknown address: all brokers that the client knows may be gone."""
        self._requests.follow(bootstrap_servers)

    def __enter__(self) -> Self:
        self._requests.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._requests.__exit__(*exc)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offsets to read. Partitions without an offset are absent. Blocks for a request, for at most `timeout_s`.

        Waits for the end of an open transaction with an offset, which brokers since 2.5 report.
        """
        if not partitions:
            return {}
        found, failed = fetch_offsets(self._requests, self._coordinators, {self._group: partitions}, stable=True)
        for error in failed.values():
            raise error
        offsets = found[self._group]
        return {tp: offsets[tp].offset for tp in partitions if tp in offsets}

    def commit(self, offsets: Mapping[TopicPartition, int], due: _Due | None = None) -> None:
        """Set the next offsets to read, whatever is stored. Before each attempt, `due` selects the partitions to commit.

        Blocks for one request per 1,000 partitions, and for another request the first time. Each takes at most `timeout_s`,
        or some seconds if the brokers refuse the connection. Waits for a coordinator that is being replaced.

        Raises GroupError if the group has members, and ClusterStateError if brokers refuse for another reason, such as an
        ACL. Raises BrokersUnavailable without an answer; the offsets may be committed nevertheless.
        """
        for some in commit_requests(offsets):
            self._commit(some, due)

    def _commit(self, offsets: Mapping[TopicPartition, int], due: _Due | None) -> None:
        deadline: Deadline | None = None
        while True:
            if due is not None:  # another client may have committed meanwhile
                offsets = {tp: offsets[tp] for tp in due(offsets)}
            if not offsets:
                return
            deadline = deadline or self._requests.deadline()  # the first call of `due` does not count
            try:
                self._attempt(offsets, deadline.or_sooner(self._requests.deadline(_ATTEMPT_S)))
                return
            except BrokersUnavailable:
                if deadline.left_s <= _PAUSE_S:
                    raise
            time.sleep(_PAUSE_S)

    def _attempt(self, offsets: Mapping[TopicPartition, int], deadline: Deadline) -> None:
        doing = f"committing the offsets of group {self._group}"
        call, groups = commit_call(doing, offsets), [self._group]
        answers, failed = self._requests.each(groups, self._coordinators, call, deadline, repeats=False)
        for error in failed.values():
            raise error
        found = answers[self._group]
        if found.error in ACTIVE_CODES:
            raise group_active(self._group, doing)
        for tp, code in found.partitions.items():
            if code != NONE:
                raise broker_error(code, f"committing the offset of group {self._group} in {tp}")


def group_active(group: str, doing: str) -> ZKafkaError:
    """The error for a request of a non-member to an active group."""
    return GROUP_ACTIVE(
        f"{doing[0].upper()}{doing[1:]} failed, since consumers that Kafka coordinates are active in the group; stop these "
        "consumers, and run this again",
        group=group,
    )
