"""What a process keeps for its next tasks, which may be short: idle clients, and facts about clusters."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from pyspark_zkafka.threads import start_timer

C = TypeVar("C")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Keep:
    """Limits of idle clients: their idle time, number and age. A younger client has read newer certificates."""

    max_idle_s: float = 10.0
    most: int = 8
    max_age_s: float = 600.0


_KEEP = Keep()


@dataclass(slots=True, eq=False)
class _Opened(Generic[C]):
    """An open client. It may be idle until `idle_until`."""

    key: Hashable
    client: C
    keep: Keep
    closing: ExitStack
    process: int
    opened_at: float
    idle_until: float = 0.0


def _later(delay_s: float, call: Callable[[], None]) -> None:
    start_timer(delay_s, call, "zkafka-idle-clients")


class ClientPool(Generic[C]):
    """Pool that leases open clients, and keeps returned clients within the limits of a `Keep`.

    Spark's workers run many short tasks, which can share a connection. A client is leased to one user at a time, for an
    equal configuration, in the process that opened it, and not after an error during a lease. The longest idle clients are
    closed first. A lease may have its own limits. `most` counts clients with equal limits. `later` schedules the closing of
    idle clients on another thread. Thread-safe.
    """

    def __init__(
        self,
        keep: Keep = _KEEP,
        clock: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] = _later,
    ) -> None:
        self._keep = keep
        self._clock = clock
        self._later = later
        self._lock = threading.Lock()
        self._idle: list[_Opened[C]] = []
        self._due_at = math.inf
        self._is_used = False

    @contextmanager
    def lease(
        self, key: Hashable | None, make: Callable[[], AbstractContextManager[C]], keep: Keep | None = None
    ) -> Iterator[C]:
        """Lease a client for a ``with`` block.

        An idle client is leased again only for an equal key, which is its whole configuration. The key None always opens a
        new client, and closes it at the end. `make` creates a client that is not open.
        """
        if key is None:
            with make() as client:
                yield client
            return
        opened = self._take(key) or self._open(key, make, keep or self._keep)
        try:
            yield opened.client
        except BaseException:
            self._close([opened])
            raise
        self._give_back(opened)

    def close_idle(self) -> None:
        """Close all idle clients."""
        with self._lock:
            idle, self._idle = self._idle, []
        self._close(idle)

    def _take(self, key: Hashable) -> _Opened[C] | None:
        with self._lock:
            found = next((opened for opened in reversed(self._idle) if opened.key == key), None)
            if found is not None:
                self._idle.remove(found)
        return found

    def _open(self, key: Hashable, make: Callable[[], AbstractContextManager[C]], keep: Keep) -> _Opened[C]:
        if not self._is_used:
            self._is_used = True
            os.register_at_fork(after_in_child=self._forget)
            atexit.register(self.close_idle)
        closing = ExitStack()
        return _Opened(key, closing.enter_context(make()), keep, closing, os.getpid(), self._clock())

    def _give_back(self, opened: _Opened[C]) -> None:
        if opened.process != os.getpid():
            _leave_open(opened)
            return
        now = self._clock()
        opened.idle_until = now + opened.keep.max_idle_s
        if now - opened.opened_at >= opened.keep.max_age_s:
            self._close([opened])
            return
        with self._lock:
            self._idle.append(opened)
            surplus = [other for other in self._idle if other.keep == opened.keep][: -opened.keep.most]
            self._idle = [other for other in self._idle if other not in surplus]
            is_first, self._due_at = opened.idle_until < self._due_at, min(opened.idle_until, self._due_at)
        if is_first:
            self._close_later(opened.idle_until, opened.keep.max_idle_s)
        self._close(surplus)

    def _close_later(self, due_at: float, delay_s: float) -> None:
        try:
            self._later(delay_s, lambda: self._close_old(due_at))
        except RuntimeError:  # no thread can be started: the user's work is done, and must not fail
            with self._lock:
                self._due_at = math.inf
            self.close_idle()

    def _close_old(self, planned_at: float) -> None:
        with self._lock:
            now = max(self._clock(), planned_at)  # a timer is early if the wall clock was set forward
            old = [opened for opened in self._idle if opened.idle_until <= now]
            self._idle = [opened for opened in self._idle if opened.idle_until > now]
            due_at = self._due_at if self._due_at > now else math.inf  # another call follows
            self._due_at = min([due_at, *(opened.idle_until for opened in self._idle)])
            is_first = self._due_at < due_at
            left_s = self._due_at - now
        if is_first:  # before the old clients are closed, which may fail
            self._close_later(now + left_s, left_s)
        self._close(old)

    def _close(self, clients: list[_Opened[C]]) -> None:
        with ExitStack() as closing:  # closes all clients, and then raises an error if there was one
            for opened in clients:
                closing.callback(opened.closing.close if opened.process == os.getpid() else partial(_leave_open, opened))

    def _forget(self) -> None:
        """Reset in a forked child: drop the parent's clients, and its lock, which a thread may hold."""
        for opened in self._idle:
            _leave_open(opened)
        self._lock, self._idle, self._due_at = threading.Lock(), [], math.inf


def _leave_open(opened: object) -> None:
    """Keep a reference to a client of the parent process, also during Python's finalization.

    Closing the client would wait forever for its threads, which do not exist here.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(opened))


class Remembered(Generic[K, V]):
    """Facts that a process remembers, each for some time. Thread-safe. A forked child remembers the facts of its parent."""

    def __init__(self, for_s: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._for_s = for_s
        self._clock = clock
        self._facts: dict[K, tuple[V, float]] = {}

    def get(self, key: K) -> V | None:
        """Return the fact, or None if it is unknown or too old."""
        value, until = self._facts.get(key, (None, -math.inf))
        return value if self._clock() < until else None

    def put(self, key: K, value: V, for_s: float | None = None) -> None:
        """Remember a fact, for `for_s` seconds if that is given."""
        self._facts[key] = value, self._clock() + (self._for_s if for_s is None else for_s)

    def forget(self, key: K) -> None:
        """Forget a fact."""
        self._facts.pop(key, None)
