"""Requests of an AdminClient to a missing or slow controller, with librdkafka's mock cluster as brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pyspark_zkafka.brokers.admin_requests import AdminRequests
from pyspark_zkafka.errors import BrokersUnavailable, ZKafkaError

GONE = KafkaError(KafkaError._TIMED_OUT, "Timed out waiting for controller")
SLOW = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for response from broker")
REFUSED = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no")


class Controller:
    """A controller that answers with given errors, and then with its id; records the time left for each attempt."""

    def __init__(self, *errors: KafkaError) -> None:
        self._errors = list(errors)
        self.attempts_s: list[float] = []

    def __call__(self, client: object, timeout_s: float) -> int:
        self.attempts_s.append(timeout_s)
        if self._errors:
            raise KafkaException(self._errors.pop(0))
        return 1


class Requests(AdminRequests):
    """Requests to a controller."""

    def ask(self, controller: Callable[[Any, float], int]) -> int:
        return self._ask_controller("asking", controller)


def test_controllers_that_are_gone(servers: str) -> None:
    """A controller that librdkafka waits for is looked up again every five seconds."""
    controller = Controller(GONE, GONE)
    with Requests(servers, {}) as requests:
        assert requests.ask(controller) == 1
    assert controller.attempts_s == [5.0, 5.0, 5.0]


def test_slow_controller(servers: str) -> None:
    """A connected but slow controller gets the rest of the time-out."""
    controller = Controller(SLOW)
    with Requests(servers, {"socket.timeout.ms": 20_000}) as requests:
        assert requests.ask(controller) == 1
    assert controller.attempts_s[0] == 5.0
    assert controller.attempts_s[1] > 15


def test_time_is_over(servers: str) -> None:
    """A controller that does not answer within the time-out is asked once, and the error names the request."""
    controller = Controller(SLOW)
    with (
        Requests(servers, {"socket.timeout.ms": 50}) as requests,
        pytest.raises(BrokersUnavailable, match=f"asking at {servers}"),
    ):
        requests.ask(controller)
    assert controller.attempts_s == [0.05]


def test_refusal_of_a_controller(servers: str) -> None:
    """An error other than a time-out is raised at once."""
    controller = Controller(REFUSED)
    with Requests(servers, {}) as requests, pytest.raises(ZKafkaError, match="an ACL must allow"):
        requests.ask(controller)
    assert len(controller.attempts_s) == 1


def test_brokers_with_new_addresses(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client without live brokers is replaced by a new client, which finds the present brokers. Other clients stay."""
    with AdminRequests("127.0.0.1:1", {}) as requests:
        first = requests._client
        requests.follow("127.0.0.1:1")
        assert requests._client is first
        monkeypatch.setattr(requests, "_new_client", raises(BrokersUnavailable("BROKERS_UNAVAILABLE", "no token")))
        requests.follow(servers)
        assert (requests._client, requests.servers) == (first, "127.0.0.1:1")
        monkeypatch.undo()
        requests.follow(servers)
        second = requests._client
        assert second is not first
        requests.refresh_metadata(["t"])
        for known in (*servers.split(","), requests.servers):
            requests.follow(known)
        assert requests._client is second
        assert set(requests.servers.split(",")) == set(servers.split(","))


def raises(error: Exception) -> Callable[[], Any]:
    """Return a function that raises an error."""

    def fail() -> Any:
        raise error

    return fail
