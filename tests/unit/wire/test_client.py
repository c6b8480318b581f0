"""Questions to several brokers at the same time."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from pyspark_zkafka.testing.processes import LOOPBACK
from pyspark_zkafka.wire.client import Client, Question
from pyspark_zkafka.wire.connection import Connection
from pyspark_zkafka.wire.protocol import (
    Address,
    Api,
    ConnectionClosed,
    ConnectionLost,
    MalformedResponse,
    Reader,
    Request,
    UnknownVersion,
    Unsupported,
    string,
)
from pyspark_zkafka.wire.settings import client_settings_of
from tests.support.listening import silent_address
from tests.support.scripted_broker import Received, Script, ScriptedBroker, answered
from tests.support.scripted_groups import api_ranges

ECHO, MISSING = Api("Echo", 60, 0, 0, 9), Api("Missing", 61, 0, 0, 9)
ECHO_RANGES = api_ranges((ECHO, 0))
NOWHERE = (LOOPBACK, 1)
PATIENCE_S, SOON_S = 20.0, 0.4


def text_of(request: Received) -> str:
    """Return the text in a request."""
    body = Reader(request.rest)
    body.string()  # the client's id
    return body.required_string()


def echo(request: Received) -> bytes:
    """Answer with the text of the request."""
    return answered(request, string(text_of(request)))


def ask(address: Address, text: str, api: Api = ECHO) -> Question[str]:
    """Return the question that a broker answers with its text."""

    def make(connection: Connection) -> Request:
        return Request(api, connection.version(api), string(text))

    return Question(address, make, Reader.required_string)


def client() -> Client:
    """Return a client that is not open yet."""
    return Client(client_settings_of({"bootstrap.servers": f"{LOOPBACK}:1"}))


def brokers(opened: ExitStack, *scripts: Script) -> list[ScriptedBroker]:
    """Open a broker for each script."""
    return [opened.enter_context(ScriptedBroker(script, ECHO_RANGES)) for script in scripts]


def kinds(answers: object) -> list[object]:
    """Return answers, and the types of errors."""
    assert isinstance(answers, list)
    return [type(answer) if isinstance(answer, Exception) else answer for answer in answers]


def test_brokers_are_asked_at_once() -> None:
    """Every broker has its question before the first one answers."""
    everybody = threading.Barrier(3, timeout=PATIENCE_S)

    def wait_for_others(request: Received) -> bytes:
        everybody.wait()
        return echo(request)

    with ExitStack() as stack, client() as opened:
        questions = [ask(broker.address, str(n)) for n, broker in enumerate(brokers(stack, *[wait_for_others] * 3))]
        assert opened.ask_all(questions, opened.deadline(PATIENCE_S)) == ["0", "1", "2"]


def test_questions_to_one_broker() -> None:
    """Questions to one broker share a connection, and none waits for the answer to an earlier one."""
    received: list[Received] = []

    def answer_the_third(request: Received) -> bytes:
        received.append(request)
        return b"".join(map(echo, received)) if len(received) == 3 else b""

    with ExitStack() as stack, client() as opened:
        first, second = brokers(stack, answer_the_third, echo)
        questions = [ask(broker.address, text) for text in "abc" for broker in (first, second)]
        assert opened.ask_all(questions, opened.deadline(PATIENCE_S)) == list("aabbcc")
        assert first.connections == 1
        assert second.connections == 1


def test_connections_are_kept() -> None:
    """Later questions use the same connection. Without questions there are no answers."""
    with ExitStack() as stack, client() as opened:
        (broker,) = brokers(stack, echo)
        for text in "ab":
            assert opened.ask_all([ask(broker.address, text)], opened.deadline(PATIENCE_S)) == [text]
        assert broker.connections == 1
        assert opened.ask_all([], opened.deadline(PATIENCE_S)) == []


def test_silent_broker() -> None:
    """A broker that stops answering costs only its open questions, at the deadline."""
    with ExitStack() as stack, client() as opened:
        silent, other = brokers(stack, lambda request: echo(request) if text_of(request) == "a" else b"", echo)
        questions = [ask(broker.address, text) for broker in (silent, other) for text in "abc"]
        began = time.monotonic()
        found = opened.ask_all(questions, opened.deadline(SOON_S))
        assert SOON_S <= time.monotonic() - began < SOON_S + 2
        assert kinds(found) == ["a", ConnectionLost, ConnectionLost, "a", "b", "c"]
        assert str(found[1]) == "{}:{}: no response in time".format(*silent.address)


@pytest.mark.parametrize(
    ("script", "error"),
    [(lambda request: None, ConnectionClosed), (lambda request: answered(request, b"\x7f"), MalformedResponse)],
    ids=["closed", "malformed"],
)
def test_failed_broker(script: Script, error: type[Exception]) -> None:
    """A broker that closes the connection, or answers with other bytes, fails at once and alone."""
    with ExitStack() as stack, client() as opened:
        failing, other = brokers(stack, script, echo)
        began = time.monotonic()
        found = opened.ask_all([ask(failing.address, "a"), ask(other.address, "b")], opened.deadline(PATIENCE_S))
        assert kinds(found) == [error, "b"]
        assert time.monotonic() - began < PATIENCE_S / 2


def test_refused_connection() -> None:
    """A broker that accepts no connection fails at once and alone, with all of its questions."""
    with ExitStack() as stack, client() as opened:
        (other,) = brokers(stack, echo)
        began = time.monotonic()
        questions = [ask(NOWHERE, "a"), ask(other.address, "b"), ask(NOWHERE, "c")]
        assert kinds(opened.ask_all(questions, opened.deadline(PATIENCE_S))) == [ConnectionLost, "b", ConnectionLost]
        assert time.monotonic() - began < PATIENCE_S / 2


def test_one_malformed_answer() -> None:
    """A malformed answer is the error of its question. The connection stays, with the answers to other questions."""

    def damage(request: Received) -> bytes:
        return answered(request, b"\x7f\xff") if text_of(request) == "b" else echo(request)

    with ExitStack() as stack, client() as opened:
        (broker,) = brokers(stack, damage)
        found = opened.ask_all([ask(broker.address, text) for text in "abc"], opened.deadline(PATIENCE_S))
        assert kinds(found) == ["a", MalformedResponse, "c"]
        assert opened.ask_all([ask(broker.address, "d")], opened.deadline(PATIENCE_S)) == ["d"]
        assert broker.connections == 1


def test_another_correlation_id() -> None:
    """A response to another request answers no question, and the connection is replaced."""
    responses = iter([lambda request: echo(request._replace(correlation_id=request.correlation_id + 1)), echo])
    with ExitStack() as stack, client() as opened:
        (broker,) = brokers(stack, lambda request: next(responses)(request))
        assert kinds(opened.ask_all([ask(broker.address, "a")], opened.deadline(PATIENCE_S))) == [MalformedResponse]
        assert opened.ask_all([ask(broker.address, "b")], opened.deadline(PATIENCE_S)) == ["b"]
        assert broker.connections == 2


def test_version_that_a_broker_lacks() -> None:
    """A question for which the broker has no version is not sent. Other questions to the broker are answered."""
    with ExitStack() as stack, client() as opened:
        (broker,) = brokers(stack, echo)
        questions = [ask(broker.address, "a"), ask(broker.address, "b", MISSING), ask(broker.address, "c")]
        found = opened.ask_all(questions, opened.deadline(PATIENCE_S))
        assert kinds(found) == ["a", UnknownVersion, "c"]
        assert isinstance(found[1], Unsupported)
        assert MISSING.key not in {request.api for request in broker.received}


def test_late_response() -> None:
    """A response after the deadline does not answer a later question, which uses a new connection."""
    released = threading.Event()

    def answer_late(request: Received) -> bytes:
        if text_of(request) == "a":
            released.wait(PATIENCE_S)
        return echo(request)

    with ExitStack() as stack, client() as opened:
        (broker,) = brokers(stack, answer_late)
        assert kinds(opened.ask_all([ask(broker.address, "a")], opened.deadline(SOON_S))) == [ConnectionLost]
        released.set()
        assert opened.ask_all([ask(broker.address, "b")], opened.deadline(PATIENCE_S)) == ["b"]
        assert broker.connections == 2


def test_connection_that_is_not_answered() -> None:
    """A broker that does not answer a new connection is lost after the time to open one, long before the deadline."""
    with ExitStack() as stack, client() as opened, silent_address() as silent:
        (other,) = brokers(stack, echo)
        began = time.monotonic()
        found = opened.ask_all([ask(silent, "a"), ask(other.address, "b")], opened.deadline(PATIENCE_S))
        assert kinds(found) == [ConnectionLost, "b"]
        assert time.monotonic() - began < 6  # three seconds to connect
