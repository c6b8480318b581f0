"""`ClientPool`: clients that are leased again, and clients that are closed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from time import sleep as pause
from typing import Any

import pytest

from pyspark_zkafka.kept import ClientPool, Keep, Remembered


class Client:
    """A client that knows whether it is open."""

    def __init__(self) -> None:
        self.state = "made"

    def __enter__(self) -> Client:
        self.state = "open"
        return self

    def __exit__(self, *exc: object) -> None:
        self.state = "closed"


class Time:
    """A clock that a test sets, with calls that become due."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + delay_s, call))

    def pass_to(self, now: float) -> None:
        """Set the clock, and make the calls that are due."""
        self.now = now
        due, self.due = [d for d in self.due if d[0] <= now], [d for d in self.due if d[0] > now]
        for _, call in due:
            call()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pool(time: Time) -> ClientPool[Client]:
    return ClientPool(Keep(10, 3), time, time.later)


def use(pool: ClientPool[Client], key: object = "a") -> Client:
    """Lease a client, return it to the pool, and return it."""
    with pool.lease(key, Client) as client:
        assert client.state == "open"
    return client


def test_an_old_client_is_closed(time: Time) -> None:
    """A client is leased again, and its use postpones its end. At its maximal age, it is closed when it is returned."""
    pool: ClientPool[Client] = ClientPool(Keep(10, 3, 60), time, time.later)
    first = use(pool)
    for now in range(105, 160, 5):
        time.pass_to(now)
        assert use(pool) is first
    time.pass_to(160)
    assert use(pool) is first
    assert first.state == "closed"
    assert use(pool) is not first


def test_another_configuration_gets_another_client(pool: ClientPool[Client]) -> None:
    """A client is leased again only for an equal key."""
    assert use(pool, ("a", "plain")) is not use(pool, ("a", "ssl"))


def test_a_client_is_lent_to_one_at_a_time(pool: ClientPool[Client]) -> None:
    """A client is leased to one user at a time; a second user gets another, and later both are idle."""
    with pool.lease("a", Client) as first, pool.lease("a", Client) as second:
        assert first is not second
    with pool.lease("a", Client) as third, pool.lease("a", Client) as fourth:
        assert {id(third), id(fourth)} == {id(first), id(second)}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_after_an_error_a_client_is_closed(pool: ClientPool[Client], error: type[BaseException]) -> None:
    """A client is closed after any error, and never leased again."""
    with pytest.raises(error), pool.lease("a", Client) as client:
        raise error
    assert client.state == "closed"
    assert use(pool) is not client


def test_a_client_that_cannot_be_opened(pool: ClientPool[Client]) -> None:
    """The error of opening a client is raised, and the next lease tries again."""

    def fail() -> Any:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"), pool.lease("a", fail):
        pass
    assert use(pool).state == "open"


def test_an_idle_client_is_closed_in_time(pool: ClientPool[Client], time: Time) -> None:
    """A client that is idle for ten seconds is closed, and one used since then is not."""
    old = use(pool, "old")
    time.pass_to(106)
    new = use(pool, "new")
    time.pass_to(110)
    assert old.state == "closed"
    assert new.state == "open"
    time.pass_to(116)
    assert new.state == "closed"
    assert not time.due


def test_a_client_in_use_is_not_closed(pool: ClientPool[Client], time: Time) -> None:
    """A client in use is not closed, however long it is used."""
    use(pool)
    with pool.lease("a", Client) as client:
        time.pass_to(600)
        assert client.state == "open"
    assert use(pool) is client


def test_no_more_than_so_many_are_idle(pool: ClientPool[Client]) -> None:
    """Above the maximal number of idle clients, the longest idle one is closed."""
    clients = [use(pool, n) for n in range(4)]
    assert [client.state for client in clients] == ["closed", "open", "open", "open"]


def test_all_idle_ones_can_be_closed(pool: ClientPool[Client], time: Time) -> None:
    """`close_idle` closes idle clients at once."""
    client = use(pool)
    pool.close_idle()
    assert client.state == "closed"
    time.pass_to(200)
    assert use(pool) is not client


def test_timer_that_is_early(pool: ClientPool[Client], time: Time) -> None:
    """A timer that runs too early, because the wall clock was set forward, still closes the clients."""
    client = use(pool)
    ((_, call),) = time.due
    time.due.clear()
    time.now += 1
    call()
    assert client.state == "closed"
    assert time.due == []


def test_no_thread_can_be_started(time: Time) -> None:
    """Without a timer, a returned client is closed at once, and the user's work does not fail."""

    def later(delay_s: float, call: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    pool = ClientPool[Client](Keep(10, 3), time, later)
    assert [use(pool).state, use(pool).state] == ["closed", "closed"]


def test_client_that_cannot_be_closed(pool: ClientPool[Client], time: Time) -> None:
    """If closing an idle client fails, the others are closed, too, and so are clients that become idle later."""

    class Stuck(Client):
        def __exit__(self, *exc: object) -> None:
            raise ValueError("stuck")

    with pool.lease("stuck", Stuck):
        pass
    time.pass_to(103)
    others = [use(pool, name) for name in ("a", "b")]
    with pytest.raises(ValueError, match="stuck"):
        time.pass_to(110)
    time.pass_to(113)
    assert [client.state for client in others] == ["closed", "closed"]
    last = use(pool, "c")
    time.pass_to(130)
    assert last.state == "closed"


def test_threads(pool: ClientPool[Client]) -> None:
    """Many threads never have the same client at the same time."""
    busy: set[int] = set()
    clashes: list[int] = []

    def work() -> None:
        for _ in range(200):
            with pool.lease("a", Client) as client:
                if id(client) in busy:
                    clashes.append(id(client))
                busy.add(id(client))
                pause(0.0001)
                busy.discard(id(client))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes


FORK = '''
import os, sys, threading
from pyspark_zkafka.kept import ClientPool, Keep

class Client:
    def __init__(self, owner): self.owner, self.process = owner, os.getpid()
    def __enter__(self): return self
    def __exit__(self, *exc): self.end("closed")
    def __del__(self): self.end("deleted")
    def end(self, how): print(self.owner, how, "where it was opened" if self.process == os.getpid() else "elsewhere")

class Slow:
    """A key whose comparison, under the pool's lock, lasts until the process has forked."""
    def __eq__(self, other):
        locked.set()
        return forked.wait() and False

def use():
    with pool.lease(Slow(), lambda: Client("other")):
        pass

locked, forked, other = threading.Event(), threading.Event(), threading.Thread(target=use)
pool = ClientPool(Keep(60))
with pool.lease("a", lambda: Client("parent")) as first:
    pass
other.start()
locked.wait()
child = os.fork()
if child == 0:
    with pool.lease("a", lambda: Client("child")):
        pass
    sys.exit(0)
forked.set()
other.join()
print("status", os.waitpid(child, 0)[1])
with pool.lease("a", lambda: Client("another")) as second:
    print("again", second is first)
'''


def test_fork() -> None:
    """A child of a fork leaves its parent's clients alone to its end and opens its own; the parent continues."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=True)
    ends = [f"{owner} {how} where it was opened" for owner in ("child", "other", "parent") for how in ("closed", "deleted")]
    assert sorted(done.stdout.splitlines()) == sorted([*ends, "status 0", "again True"])


def test_remembered_facts() -> None:
    """A fact is remembered for the time given with it, or for the default time."""
    now = 100.0
    facts: Remembered[str, int] = Remembered(10, lambda: now)
    facts.put("a", 1)
    facts.put("b", 2, for_s=20)
    assert [facts.get(key) for key in ("a", "b", "c")] == [1, 2, None]
    now = 110.0
    assert [facts.get(key) for key in ("a", "b")] == [None, 2]
    facts.forget("b")
    assert facts.get("b") is None
