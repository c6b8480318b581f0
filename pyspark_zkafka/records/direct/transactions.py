"""Transactions of the direct transport: requests to the coordinators, and what their errors mean.

References
----------
``org.apache.kafka.clients.producer.internals.TransactionManager`` (kafka-clients 4.1.0); KIP-98, KIP-890.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Protocol

from pyspark_zkafka.model.error_codes import NONE, ErrorCode, name_of
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.direct.leaders import REFUSED_PAUSE_S
from pyspark_zkafka.records.direct.producer_messages import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    COMMIT_OFFSETS,
    END_TRANSACTION,
    INIT_PRODUCER_ID,
    SECOND_PROTOCOL,
    TRANSACTION_VERSION,
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffset,
    EndTransaction,
    InitProducerId,
    Message,
    newest_version,
    read_answer,
)
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.client import Client
from pyspark_zkafka.wire.connection import Buffer, Connection
from pyspark_zkafka.wire.group_messages import (
    FIND_COORDINATOR,
    GROUP,
    TRANSACTION,
    Coordinator,
    find_coordinators_request,
    read_coordinators,
)
from pyspark_zkafka.wire.protocol import (
    Address,
    ConnectionLost,
    LoginRefused,
    Request,
    TlsRefused,
    Unsupported,
    answer_of,
)

_MOVED = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors after which the coordinator is looked up again."""
_RETRIABLE = _MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
FENCING = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""Errors after another producer with the id has started, or after the transaction timed out."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1
_DRAIN_S = 5.0


class StepFailed(Exception):
    """A step of a transaction that failed, with the brokers' error code.

    After a retriable error, repeat the step to continue. After a fatal error, the producer cannot be used again, and
    brokers end its transaction. After any other error, the transaction must be aborted.
    """

    def __init__(self, code: int, text: str = "", *, is_retriable: bool = False, is_fatal: bool = False) -> None:
        super().__init__(f"{name_of(code)}: {text}" if text else name_of(code))
        self.code = code
        self.is_retriable = is_retriable
        self.is_fatal = is_fatal


class TransactionRows(Protocol):
    """Sends the rows of a transaction. `DirectTransactions` passes it the producer's id and the registered partitions."""

    def start(self, transactional_id: str, producer: ProducerId) -> None:
        """Send the next batches with these ids and this epoch, from sequence 0."""

    def register(self, partitions: Collection[TopicPartition]) -> None:
        """Allow the batches of these partitions to be sent until the transaction ends."""

    def end_transaction(self) -> None:
        """Forget the registered partitions."""

    def drain(self, timeout_s: float) -> bool:
        """Drop unsent rows, and wait for the sent rows. Returns False if brokers may still write some of these."""

    @property
    def refusal(self) -> int:
        """The brokers' error for a refused batch, or `OVERDUE` for a late batch. 0 if no batch has failed."""


class DirectTransactions:
    """Transactions over coordinators. `sender` sends the rows. Each call raises StepFailed.

    Once the transaction must be aborted, or another producer has fenced this producer, `init`, `begin`, `commit_offset` and
    `commit` raise the same error again.

    Call `init` before each transaction. It changes the epoch, so that no late message can end or extend the transaction.

    With the second protocol (KIP-890), brokers add partitions and offsets to the transaction by themselves, and each
    transaction has its own epoch. `protocol` is the protocol of the open or last transaction.
    """

    @property
    def may_lose_offsets(self) -> bool:
        """True if the brokers may forget the offset of a committed transaction.

        Without KIP-890, brokers do so if a late request of a fenced producer with the same id adds an offset meanwhile.
        """
        return self.protocol < SECOND_PROTOCOL

    def __init__(
        self,
        timeout_ms: int,
        coordinators: CoordinatorConnections,
        sender: TransactionRows,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._id = ""
        self._timeout_ms = timeout_ms
        self._coordinators = coordinators
        self._coordinator = Coordinator("", TRANSACTION)
        self._sender = sender
        self._clock = clock
        self._sleep = sleep
        self._producer: ProducerId | None = None
        self._failure: StepFailed | None = None
        self._is_open = False
        self._is_known_to_brokers = False  # whether they have a partition, or may have an offset, of the transaction
        self._group = ""  # to which the open transaction will commit an offset
        self._added_group: str | None = None
        self._is_group_requested = False  # to be added, without waiting for the answer
        self._offset_may_follow = False
        self.delay: StepFailed | None = None
        """Why the coordinator has not added the partitions of the rows yet."""
        self._asked: Message | None = None
        self._last_code = int(ErrorCode.REQUEST_TIMED_OUT)  # of the message that is being asked
        self.protocol = 0

    def init(self, transactional_id: str, timeout_s: float) -> None:
        """Fence the earlier producers of an id, and wait until their transactions are complete."""
        self._raise_failure()
        if self._is_open:
            raise RuntimeError("a transaction is open")
        self._id, self._coordinator = transactional_id, Coordinator(transactional_id, TRANSACTION)
        answer = self._ask(self._coordinator, InitProducerId(self._id, self._timeout_ms), timeout_s)
        self._start(answer)

    def begin(self, group: str = "") -> None:
        """Begin a transaction, without a request.

        If the group of `commit_offset` is given, it is added to the transaction while rows are sent.
        """
        self._raise_failure()
        if self._is_open or self._producer is None:
            raise RuntimeError("a transaction is open, or the id is not registered")
        self._is_open, self._group = True, group
        self.protocol = self._coordinators.protocol

    def add_partitions(self, partitions: Collection[TopicPartition], timeout_s: float) -> bool:
        """Add partitions to the open transaction, before rows are sent to them. Returns False if they were not added.

        Repeat the call then, unless the transaction has failed. Later calls raise an error of the brokers; see `failure`.
        """
        if self._failure is not None:
            return False
        if self.protocol < SECOND_PROTOCOL:
            message = AddPartitions(self._id, self._known_producer(), tuple(sorted(partitions)))
            deadline = Deadline.after(timeout_s, self._clock)
            try:
                if self._is_group_requested:
                    self._add_group(self._group, deadline.left_s)
                self._ask(self._coordinator, message, deadline.left_s)
                self._is_known_to_brokers = True
                if self._group and not self._is_group_requested:
                    self._request_group()
            except StepFailed as error:
                if error.is_fatal:  # the coordinator cannot be used: repetitions would connect again and again
                    self._failure = error
                self.delay = error
                return False
        self.delay = None
        self._is_known_to_brokers = True
        self._sender.register(partitions)
        return True

    def _add_group(self, group: str, timeout_s: float) -> None:
        """Add a group to the transaction, or wait for the answer to `_request_group`. With KIP-890, brokers add it."""
        if self.protocol < SECOND_PROTOCOL and self._added_group != group:
            try:
                self._ask(self._coordinator, AddOffsets(self._id, self._known_producer(), group), timeout_s)
            except StepFailed as error:
                self._is_group_requested &= error.is_retriable
                raise
            self._added_group = group

    def _request_group(self) -> None:
        """Request the addition of the known group. `_add_group` must follow before other messages on the connection."""
        self._is_group_requested = True
        message = AddOffsets(self._id, self._known_producer(), self._group)
        self._coordinators.ask(self._coordinator, message, self.protocol, Deadline.after(0.0, self._clock))

    @property
    def failure(self) -> StepFailed | None:
        """The error that has failed the transaction."""
        if self._failure is None and (code := self._sender.refusal) != NONE:
            self._failure = _fatal_or_abortable(code)
        return self._failure

    def commit_offset(self, offset: GroupOffset, timeout_s: float) -> None:
        """Add the offset of a group to the transaction."""
        self._raise_failure()
        producer, deadline = self._known_producer(), Deadline.after(timeout_s, self._clock)
        self._is_known_to_brokers = True
        self._add_group(offset.group, deadline.left_s)
        self._offset_may_follow = True
        try:
            self._ask(Coordinator(offset.group, GROUP), CommitOffset(self._id, producer, offset), deadline.left_s)
        except StepFailed as error:
            self._offset_may_follow = error.is_retriable
            raise
        self._offset_may_follow = False

    def commit(self, timeout_s: float) -> None:
        """Commit the transaction. Flush the sender first."""
        self._raise_failure()
        self._end(True, timeout_s)

    def abort(self, timeout_s: float) -> None:
        """Abort the transaction, and drop queued records."""
        is_drained = self._sender.drain(min(timeout_s, _DRAIN_S)) and not self._offset_may_follow
        if not is_drained and self.protocol < SECOND_PROTOCOL:
            # A batch or an offset written after the marker of this abort would open a transaction without an end. With
            # KIP-890, the abort changes the epoch.
            text = "brokers may still write rows of the transaction; they abort it when the id is used again or times out"
            raise StepFailed(ErrorCode.REQUEST_TIMED_OUT, text)
        if self._failure is not None and self._failure.is_fatal:
            raise self._failure
        self._end(False, timeout_s)

    def _end(self, commit: bool, timeout_s: float) -> None:
        """End the transaction. Sends nothing if the brokers do not know the transaction: they would refuse."""
        if self._is_known_to_brokers:
            deadline = Deadline.after(timeout_s, self._clock)
            if self._is_group_requested:
                try:
                    self._add_group(self._group, deadline.left_s)
                except StepFailed as error:
                    if error.is_retriable or error.is_fatal:
                        raise
            message = EndTransaction(self._id, self._known_producer(), commit)
            answer = self._ask(self._coordinator, message, deadline.left_s)
            if answer.producer is not None:
                self._start(answer)
        self._is_open = self._is_known_to_brokers = self._is_group_requested = False
        self._added_group = None
        self._sender.end_transaction()

    def _start(self, answer: Answer) -> None:
        self._producer = answer.producer
        self._sender.start(self._id, self._known_producer())

    def _known_producer(self) -> ProducerId:
        if self._producer is None:
            raise RuntimeError("the transactional id is not registered")
        return self._producer

    def _raise_failure(self) -> None:
        if (failure := self.failure) is not None:
            raise failure

    def _ask(self, coordinator: Coordinator, message: Message, timeout_s: float) -> Answer:
        """Ask until there is a definite answer. Raises StepFailed: retriable at the deadline, or else for a refusal."""
        deadline, pause_s = Deadline.after(timeout_s, self._clock), _FIRST_PAUSE_S
        if message != self._asked:
            self._asked, self._last_code = message, ErrorCode.REQUEST_TIMED_OUT
        while True:
            answer = self._coordinators.ask(coordinator, message, self.protocol, deadline)
            if answer is not None:
                if answer.error == NONE:
                    return answer
                if answer.error not in _RETRIABLE:
                    self._failure = _fatal_or_abortable(answer.error)
                    raise self._failure
                self._last_code = answer.error
                if answer.error in _MOVED:
                    self._coordinators.forget(coordinator)
            if deadline.has_passed:
                text = f"{message.api.name} to the coordinator of {coordinator.key}"
                raise StepFailed(self._last_code, text, is_retriable=True)
            self._sleep(min(pause_s, deadline.left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _fatal_or_abortable(code: int) -> StepFailed:
    return StepFailed(code, is_fatal=code in FENCING)


class CoordinatorConnections:
    """Asks coordinators, over its own connections, one per broker.

    If a call returns None, repeat it to continue. If a connection is lost before a message on it is answered, the
    coordinator may process that message later, even after the same message was sent again and answered. A connection
    without an answer for `request_timeout_s` counts as lost. `note` is called with errors of connections and logins.

    `protocol` is the protocol of transactions that the cluster has enabled, as the coordinator of the transactional id
    reports it.
    """

    def __init__(self, client: Client, note: Callable[[Exception], None], request_timeout_s: float) -> None:
        self._client = client
        self._note = note
        self._request_timeout_s = request_timeout_s
        self._addresses: dict[Coordinator, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._due: dict[Address, tuple[Message, float]] = {}  # messages without an answer, and when they were sent
        self._buffer = Buffer()
        self._failures = 0
        self._ask_at = 0.0
        self.protocol = 0

    def close(self) -> None:
        for coordinator in list(self._addresses):
            self.forget(coordinator)

    def find(
        self, coordinator: Coordinator, deadline: Deadline, require: Callable[[Connection], None] | None = None
    ) -> int | None:
        """Find a coordinator, and connect to it. Returns 0, or the error of a broker. None if the call must be repeated.

        Calls `require` with the connection to the broker that is asked. Raises ConnectionLost and Unsupported.
        """

        def message(asked: Connection) -> Request:
            if require is not None:
                require(asked)
            if coordinator.kind == TRANSACTION:
                asked.version(INIT_PRODUCER_ID)  # brokers without it would look up a group
            return find_coordinators_request(asked.version(FIND_COORDINATOR), coordinator.kind, [coordinator.key])

        connection = self._usable(self._addresses.get(coordinator))
        if connection is None:
            response = self._client.ask_any(message, deadline)
            if response is None:
                return None
            found = answer_of(read_coordinators(response, [coordinator.key]), coordinator.key)
            if found.error != NONE:
                return found.error
            address = self._addresses[coordinator] = found.address
            connection = self._usable(address)
            if connection is None:
                self._close(address)
                connection = self._connections[address] = self._client.new_connection(address)
                connection.begin_opening(self._client.setup_deadline(self._failures))
        if connection.is_opening and not connection.continue_opening(deadline):
            return None
        self._failures = 0
        if coordinator.kind == TRANSACTION:
            for api in (INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, COMMIT_OFFSETS, END_TRANSACTION):
                connection.version(api)
            self.protocol = connection.feature(TRANSACTION_VERSION)
        return NONE

    def ask(self, coordinator: Coordinator, message: Message, protocol: int, deadline: Deadline) -> Answer | None:
        """Send a message and return its answer. None without an answer yet, or after a lost connection: repeat the call."""
        if self._client.clock() < self._ask_at:
            return None
        try:
            if (found := self.find(coordinator, deadline)) != NONE:
                return None if found is None else Answer(found)
            address = self._addresses[coordinator]
            due = self._due.get(address)
            if due is None or due[0] == message:
                return self._answer(address, message, protocol, deadline)
        except LoginRefused as error:
            self._ask_at = self._client.clock() + REFUSED_PAUSE_S
            self._note(error)
        except (ConnectionLost, TlsRefused) as error:
            self._failures += 1
            self._note(error)
        except Unsupported as why:
            raise StepFailed(ErrorCode.UNSUPPORTED_VERSION, str(why), is_fatal=True) from why
        self.forget(coordinator)
        return None

    def forget(self, coordinator: Coordinator) -> None:
        """Look the coordinator up again before the next message."""
        address = self._addresses.pop(coordinator, None)
        if address is not None:
            self._close(address)

    def _usable(self, address: Address | None) -> Connection | None:
        connection = None if address is None else self._connections.get(address)
        return connection if connection is not None and (connection.is_open or connection.is_opening) else None

    def _close(self, address: Address) -> None:
        self._due.pop(address, None)
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def _answer(self, address: Address, message: Message, protocol: int, deadline: Deadline) -> Answer | None:
        connection = self._connections[address]
        if address not in self._due:
            version = connection.version(message.api, newest_version(message.api, protocol))
            self._due[address] = message, self._client.clock()
            connection.send(message.request(version))
        response = connection.receive(self._buffer, deadline)
        if response is None:
            if self._client.clock() - self._due[address][1] >= self._request_timeout_s:
                raise ConnectionLost(f"{connection}: no response to {message.api.name}")
            return None
        del self._due[address]
        return read_answer(message, response)
