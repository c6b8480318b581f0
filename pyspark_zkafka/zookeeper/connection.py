"""A ZooKeeper session with many requests in flight, and bounded waits."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kazoo.protocol import serialization as wire
from kazoo.protocol.states import KeeperState

from pyspark_zkafka.conditions import ZOOKEEPER_ALREADY_OPEN, ZOOKEEPER_MISUSED
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.model.topic_names import shown_name
from pyspark_zkafka.model.znodes.codec import is_znode_path
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.retries import elapsed_s
from pyspark_zkafka.threads import start_thread, thread_failed
from pyspark_zkafka.zookeeper import kazoo_client
from pyspark_zkafka.zookeeper.kazoo_client import (
    BoundedHandler,
    Client,
    ConnectionLog,
    credentials,
    from_kazoo,
    tls_context,
)
from pyspark_zkafka.zookeeper.transactions import REASONS, Conflict, Operation, Outcome, request_bytes, to_wire

if TYPE_CHECKING:
    from typing_extensions import Self


MAX_IN_FLIGHT = 2_000
CLOSE_TIMEOUT_S = 2.0
_REOPEN_S = 1.0, 30.0
_REFUSALS = 3  # a single refusal may be a server that stopped during the login
_LEAST_BULK = 500  # that many single reads take longer than the start of a session
_BULK_PAUSE_S = 60.0  # after a failure, which may have taken the whole connection timeout
_BULK_REQUEST, _BULK_IN_FLIGHT = 200, 10  # servers hold an answer in memory
_RECONNECT = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_jitter": 0.4, "max_delay": 1.0}
_CLOSING_ERRORS: tuple[type[BaseException], ...] = (*kazoo_client.KAZOO_ERRORS, OSError)
_BULK_ERRORS: tuple[type[BaseException], ...] = (*kazoo_client.KAZOO_ERRORS, ZKafkaError)
_log = logging.getLogger(__name__)

_without_bulk: Remembered[str, bool] = Remembered()
"""Hosts that are read znode by znode: for a while after a failure, and for ever if a server is older than 3.6."""

Watch = Callable[[object], None]
SessionState = Literal["CONNECTED", "SUSPENDED", "LOST"]
"""A session's state: connected; disconnected, but perhaps not expired; expired, and its ephemeral znodes deleted."""


@dataclass(frozen=True, slots=True)
class ZnodeStat:
    """A znode's metadata, by ZooKeeper's names. `modified_ms` is a server's time. `ephemeral_owner` 0 means no owner."""

    czxid: int
    version: int
    modified_ms: int
    ephemeral_owner: int
    mzxid: int = 0


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode's data and stat. Null data (None) is not empty data."""

    data: bytes | None
    stat: ZnodeStat


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a round of requests, by path. Missing znodes are absent."""

    nodes: dict[str, Znode] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    stats: dict[str, ZnodeStat] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _BulkRead:
    """The request multiRead of ZooKeeper 3.6, which kazoo lacks.

    Its answer has a znode for each path, or ZooKeeper's error code.
    """

    paths: Sequence[str]
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        """The request's body. Called by kazoo."""
        header, no_watch, end = wire.MultiHeader(wire.GetData.type, False, -1), b"\0", wire.MultiHeader(-1, True, -1)
        reads = (header.serialize() + wire.write_string(path) + no_watch for path in self.paths)
        return b"".join(reads) + bytes(end.serialize())

    @staticmethod
    def deserialize(data: bytes, at: int) -> list[Znode | int]:
        """Parse the answer, which starts `at` this offset. Called by kazoo."""
        answers: list[Znode | int] = []
        while True:
            kind, is_end, code = wire.multiheader_struct.unpack_from(data, at)
            at += wire.multiheader_struct.size
            if is_end:
                return answers
            if kind == wire.GetData.type:
                value, at = wire.read_buffer(data, at)
                answers.append(Znode(value, _stat(wire.ZnodeStat._make(wire.stat_struct.unpack_from(data, at)))))
                at += wire.stat_struct.size
            else:
                answers.append(code)
                at += wire.int_struct.size


class ZooKeeperConnection:
    """A session with an ensemble, open inside its ``with`` block.

    Paths are relative to the chroot. Requests are sent in rounds of 2,000, and awaited together. A round takes at most
    `connection_timeout_ms`. Reads are sent again within that time if the connection or the session is lost, and never
    create anything. The data of 500 znodes and more, without a watch, is read in bulk if the servers support it, in a short
    session of its own. Thread-safe. Not pickle-safe, but `config` is. Open it after a fork, not before.

    `on_state` is called with each new state of the session, on kazoo's thread. It must neither block nor use the
    connection. After LOST, a new session starts automatically, and is CONNECTED.
    """

    def __init__(
        self,
        config: ZooKeeperConfig,
        *,
        clock: Callable[[], float] = elapsed_s,
        on_state: Callable[[SessionState], None] | None = None,
    ) -> None:
        self.config = config
        self._on_state = on_state
        self._clock = clock
        self._kazoo: Any = None
        self._closed_by: Callable[[], ZKafkaError] | None = None
        self._opening = threading.Lock()
        self._reopening: Any = None  # the client that a thread is reopening
        self._handler = BoundedHandler(clock)
        self._log = ConnectionLog(_log)
        self._timeout_s = config.connection_timeout_ms / 1000

    def __enter__(self) -> Self:
        """Connect.

        Raises ZooKeeperError if no server answers within the connection timeout, ZooKeeperRefused if the credentials are
        not accepted, and OptionError for an unreadable TLS file, or for SASL without pure-sasl.
        """
        if self._kazoo is not None:
            raise ZOOKEEPER_ALREADY_OPEN("The ZooKeeper client is already open; create another one")
        try:
            self._connect()
        except BaseException:  # Ctrl-C, too: kazoo's threads would otherwise continue to run
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self, why: Callable[[], ZKafkaError] | None = None) -> None:
        """End the session and its ephemeral znodes, within 2 seconds or when the session expires. Idempotent.

        Later requests, and requests under way, raise the error that `why` returns, by default ZOOKEEPER_NOT_OPEN.
        """
        self._closed_by = self._closed_by or why
        with self._opening:
            kazoo, self._kazoo = self._kazoo, None
        if kazoo is None:
            return
        self._handler.deadline, self._log.quiet = self._clock() + CLOSE_TIMEOUT_S / 2, True
        try:
            stopper = start_thread(partial(_stop, kazoo), "zookeeper-close")
        except RuntimeError:  # at the interpreter's end, Python 3.12 starts no threads
            _stop(kazoo)
        else:
            stopper.join(CLOSE_TIMEOUT_S)

    @property
    def session_id(self) -> int | None:
        """The session's id, which owns its ephemeral znodes. None without a connection."""
        identity = self._client().client_id
        return None if identity is None else identity[0]

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that the server granted; before a connection, the requested one."""
        session = self._handler.session
        return (None if session is None else session.granted_ms) or self.config.session_timeout_ms

    @property
    def session_ends_at(self) -> float:
        """The time, by `clock`, at which the session may expire without further requests. In the past without a session.

        kazoo notices a server without an answer later, because each request extends its wait.
        """
        session = self._handler.session
        return -math.inf if session is None else session.alive_at + self.session_timeout_ms / 1000

    @property
    def connected(self) -> bool:
        """True if there is a connection. A broken connection may be noticed some seconds later."""
        return bool(self._client().connected)

    @property
    def refused(self) -> ZKafkaError | None:
        """The error of credentials that were refused several times in a row since the connection was lost."""
        refusals = 0 if self._kazoo is None else self._kazoo.refusals
        return None if refusals < _REFUSALS else kazoo_client.no_session(kazoo_client.AUTH_FAILED(), self.config, [])

    def get_many(self, paths: Iterable[str]) -> dict[str, Znode]:
        """Read data and stat of each path that exists, in one round; see `ask`."""
        return self.ask(get=paths).nodes

    def children_many(self, paths: Iterable[str], watch: Watch | None = None) -> dict[str, list[str]]:
        """Read the sorted names of the children of each path that exists; see `ask`."""
        return self.ask(children=paths, watch=watch).children

    def exists_many(self, paths: Iterable[str], watch: Watch | None = None) -> dict[str, ZnodeStat]:
        """Read the stat of each path that exists. A watch also reports the creation of a znode; see `ask`."""
        return self.ask(exists=paths, watch=watch).stats

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
        *,
        sync: bool = False,
    ) -> Results:
        """Send one round of requests. Servers answer `exists` first, then `children`, then `get`, each in its order.

        With `sync`, no answer is older than this call. Otherwise the session's server may lag behind other servers.

        `watch` is called once for each znode, on kazoo's thread, when the znode changes or the connection is lost. It must
        not block. Setting the same function again has no effect. Raises ZooKeeperError, ZooKeeperRefused.
        """
        answers, kinds = Results(), {"sync": ["/"] * sync, "exists": exists, "children": children, "get": get}
        requests = [(kind, path) for kind, paths in kinds.items() for path in dict.fromkeys(paths)]
        reads = [path for kind, path in requests if kind == "get"]
        if watch is None and len(reads) >= _LEAST_BULK:
            self._all_rounds(requests[: -len(reads)], answers, watch)
            if (nodes := self._read_in_bulk(reads)) is not None:
                return replace(answers, nodes=nodes)
            requests = requests[-len(reads) :]
        self._all_rounds(requests, answers, watch)
        return answers

    def acl(self, path: str) -> tuple[Any, ...] | None:
        """Read the entries of a znode's ACL, for `Create`. None if it does not exist. Blocks for one round trip."""
        full = self._full(path)
        try:
            entries, _ = self._client().get_acls_async(full).get(timeout=self._timeout_s)
        except kazoo_client.NO_NODE:
            return None
        except kazoo_client.KAZOO_ERRORS as error:
            raise self._failed(error, f"Reading the ACL of {full}") from error
        return tuple(entries)

    def transact(self, operations: Sequence[Operation]) -> Outcome:
        """Apply all operations, or none. Blocks for one round trip.

        Raises ZooKeeperRefused if an ACL denies an operation. Then no operation is applied. After ZooKeeperError (no
        answer) and REQUEST_TOO_LARGE (the servers have closed the connection), the transaction may have been applied. After
        a time-out, it may also be applied later: kazoo sends it when the ensemble answers, unless the session has expired.
        """
        if not operations:
            return Outcome()
        transaction = self._client().transaction()
        chroot, acl = self.config.chroot, self.config.acl
        transaction.operations.extend(to_wire(operation, chroot, acl) for operation in operations)
        doing = f"A transaction at {self._full(operations[0].path)} ({len(operations)} operations)"
        try:
            results = transaction.commit_async().get(timeout=self._timeout_s)
        except kazoo_client.KAZOO_ERRORS as error:
            size = request_bytes(operations, self.config.chroot)
            if kazoo_client.is_too_large(error, size):
                raise kazoo_client.too_large(size, doing, self.config) from error
            raise self._failed(error, doing) from error
        conflict = self._conflict(operations, results)
        written = () if conflict is not None else (r.mzxid for r in results if hasattr(r, "mzxid"))
        return Outcome(conflict, next(iter(written), None))

    def _conflict(self, operations: Sequence[Operation], results: Sequence[object]) -> Conflict | None:
        for operation, result in zip(operations, results, strict=False):
            if isinstance(result, Exception) and not kazoo_client.is_rolled_back(result):
                if (reason := REASONS.get(type(result))) is not None:
                    return Conflict(operation, reason)
                doing = f"{type(operation).__name__} {self._full(operation.path)} in a transaction"
                raise from_kazoo(result, doing, self.config) from result
        return None

    def _read_in_bulk(self, paths: Sequence[str]) -> dict[str, Znode] | None:
        """Read many znodes in few requests. Return None if that fails: single reads then report the error.

        Uses another session, because servers before 3.6 end a session that sends such a request.
        """
        self._client()  # refuse to read by a connection that is not open
        hosts = self.config.hosts
        if _without_bulk.get(hosts):
            return None
        try:
            with ZooKeeperConnection(self.config, clock=self._clock) as session:
                session._log.quiet = True
                return session._bulk(paths)
        except kazoo_client.UNKNOWN_REQUEST:
            _without_bulk.put(hosts, True)
        except _BULK_ERRORS as error:
            _without_bulk.put(hosts, True, _BULK_PAUSE_S)
            reason = str(error) or type(error).__name__
            _log.info("Reading %d znodes one by one, because reading them in bulk failed: %s", len(paths), reason)
        return None

    def _bulk(self, paths: Sequence[str]) -> dict[str, Znode] | None:
        kazoo, nodes, size = self._client(), dict[str, Znode](), _BULK_REQUEST * _BULK_IN_FLIGHT
        # This session's server may lag behind the server of the other session.
        kazoo.sync_async(self._full("/")).get(timeout=self._timeout_s)
        for start in range(0, len(paths), size):
            deadline, pending = self._clock() + self._timeout_s, []
            for at in range(start, min(start + size, len(paths)), _BULK_REQUEST):
                asked = paths[at : at + _BULK_REQUEST]
                pending.append((asked, kazoo.handler.async_result()))
                kazoo._call(_BulkRead([self._full(path) for path in asked]), pending[-1][1])
            for asked, result in pending:
                answers = result.get(timeout=max(0.0, deadline - self._clock()))
                if not all(isinstance(answer, Znode) or answer == kazoo_client.NO_NODE_CODE for answer in answers):
                    return None
                nodes |= {path: node for path, node in zip(asked, answers, strict=True) if isinstance(node, Znode)}
        return nodes

    def _all_rounds(self, requests: list[tuple[str, str]], answers: Results, watch: Watch | None) -> None:
        for start in range(0, len(requests), MAX_IN_FLIGHT):
            self._round(requests[start : start + MAX_IN_FLIGHT], answers, watch)

    def _round(self, requests: list[tuple[str, str]], answers: Results, watch: Watch | None) -> None:
        deadline = self._clock() + self._timeout_s
        while requests:
            kazoo = self._client()
            if kazoo.client_state == KeeperState.CONNECTING:
                kazoo._live.wait(max(0.0, deadline - self._clock()))
            if kazoo.client_state == KeeperState.CONNECTING:
                # kazoo would keep these requests, and send them when the ensemble answers.
                raise from_kazoo(kazoo_client.TIMED_OUT(), f"Reading {self._full(requests[0][1])}", self.config)
            pending = [(request, self._send(*request, watch)) for request in requests]
            requests = [request for request, result in pending if not self._receive(*request, result, answers, deadline)]

    def _send(self, kind: str, path: str, watch: Watch | None) -> Any:
        client = self._client()
        if kind == "sync":
            return client.sync_async(self._full(path))
        send = {"get": client.get_async, "children": client.get_children_async, "exists": client.exists_async}
        return send[kind](self._full(path), watch=watch)

    def _receive(self, kind: str, path: str, result: Any, answers: Results, deadline: float) -> bool:
        """Wait for an answer and store it. False if the request must be sent again."""
        try:
            answer = result.get(timeout=max(0.0, deadline - self._clock()))
        except kazoo_client.NO_NODE:
            return True
        except kazoo_client.KAZOO_ERRORS as error:
            if kazoo_client.is_passing(error) and self._clock() < deadline:
                return False
            raise self._failed(error, f"Reading {self._full(path)}") from error
        if kind == "children":
            answers.children[path] = sorted(answer)
        elif kind == "get":
            answers.nodes[path] = Znode(answer[0], _stat(answer[1]))
        elif kind == "exists" and answer is not None:
            answers.stats[path] = _stat(answer)
        return True

    def _full(self, path: str) -> str:
        if not is_znode_path(path):  # kazoo would change it, or refuse it without a usable error
            raise ZOOKEEPER_MISUSED(
                f"{shown_name(path)} is not the path of a znode, and was not requested; delete the znode if ZooKeeper has "
                "one of this name, or else report this",
            )
        return self.config.chroot + path if path != "/" else self.config.chroot or "/"

    def _client(self) -> Any:
        if self._kazoo is None:
            raise kazoo_client.not_open() if self._closed_by is None else self._closed_by()
        return self._kazoo

    def _connect(self) -> None:
        deadline, changed = self._clock() + self._timeout_s, threading.Event()
        tls = None if self.config.tls is None else tls_context(self.config.tls)
        self._handler, self._log = BoundedHandler(self._clock, deadline, tls), ConnectionLog(_log)
        self._kazoo = kazoo = Client(
            hosts=self.config.hosts,
            timeout=self.config.session_timeout_ms / 1000,
            handler=self._handler,
            connection_retry=dict(_RECONNECT),
            logger=self._log,
            use_ssl=tls is not None,
            **credentials(self.config.auth),
        )
        kazoo.add_listener(lambda state: self._on_kazoo_state(kazoo, state))
        kazoo.add_listener(lambda state: changed.set())
        kazoo.start_async()
        changed.wait(self._timeout_s)
        try:
            kazoo.sync_async("/").get(timeout=max(0.0, deadline - self._clock()))  # another server may have newer data
        except kazoo_client.KAZOO_ERRORS as error:
            troubles, cause = self._log.troubles, self._cause(error)
            raise kazoo_client.no_session(cause, self.config, troubles) from error
        self._handler.deadline, self._log.quiet = math.inf, False

    def _on_kazoo_state(self, kazoo: Any, state: SessionState) -> None:
        """Pass a state on, unless it is of a closed client, which may still try to connect."""
        if kazoo is not self._kazoo:
            return
        if self._on_state is not None:
            self._on_state(state)
        if state == "LOST" and self._is_established and self._reopening is not kazoo:
            start_thread(partial(self._reopen, kazoo), "zookeeper-reopen", self._fail)
            self._reopening = kazoo

    @property
    def _is_established(self) -> bool:
        return self._handler.deadline == math.inf

    def _reopen(self, kazoo: Any) -> None:
        """Start kazoo again whenever its thread has ended, until the connection is closed or works for a while.

        kazoo's thread ends if a connection is lost during the login, and after unexpected errors.
        """
        pause_s, longest_s = _REOPEN_S
        works_since = None
        while self._kazoo is kazoo:
            if kazoo.has_ended:
                works_since = None
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, longest_s)
                with self._opening, suppress(RuntimeError):  # no thread can be started now
                    if self._kazoo is kazoo and kazoo.has_ended:
                        kazoo.start_async()
            works_since = (works_since or self._clock()) if kazoo.connected and not kazoo.refusals else None
            if works_since is not None and self._clock() - works_since > _REOPEN_S[0]:
                self._reopening = None
                if kazoo.connected:  # else it was lost before another thread could be started
                    return
            time.sleep(_REOPEN_S[0] / 10)

    def _fail(self, cause: BaseException) -> None:
        self.close(partial(thread_failed, f"No session with ZooKeeper at {self.config.hosts} is opened any more", cause))

    def _failed(self, error: BaseException, doing: str) -> ZKafkaError:
        return from_kazoo(self._cause(error), doing, self.config) if self._closed_by is None else self._closed_by()

    def _cause(self, error: BaseException) -> BaseException:
        """Return the reason for which kazoo is closed. A single refused login may be a connection lost during the login."""
        kazoo = self._kazoo
        if kazoo is None or not isinstance(error, (kazoo_client.CLOSED, kazoo_client.AUTH_FAILED)):
            return error
        if kazoo.refusals >= (_REFUSALS if self._is_established else 1):
            return kazoo_client.AUTH_FAILED()
        return kazoo_client.CONNECTION_LOSS() if self._is_established else error


def _stop(kazoo: Any) -> None:
    try:
        kazoo.stop()
        kazoo.close()
    except _CLOSING_ERRORS as error:
        _log.info("The ZooKeeper session was not closed, and lasts until its time-out: %s", error)


def _stat(stat: Any) -> ZnodeStat:
    return ZnodeStat(stat.czxid, stat.version, stat.mtime, stat.ephemeralOwner, stat.mzxid)
