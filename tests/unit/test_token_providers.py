"""Tokens of a user's function: cache and failures."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka import token_providers
from pyspark_zkafka.brokers.clients import client_config
from pyspark_zkafka.errors import BrokersUnavailable
from pyspark_zkafka.token_providers import fetch_token, oauth_callback
from pyspark_zkafka.wire.sasl import exchange
from pyspark_zkafka.wire.settings import TokenProvider

NAME = f"{__name__}:token"
calls: list[str] = []
answer: Callable[[], Any] = tuple


def token(config: str) -> Any:
    """Return the current answer and record the call; the tests name this function as provider."""
    calls.append(config)
    return answer()


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """A setter of the function's behaviour."""
    monkeypatch.setattr(token_providers, "_tokens", {})
    calls.clear()
    return lambda function: monkeypatch.setitem(globals(), "answer", function)


def _token(lifetime_s: float = 1000.0, text: str = "abc") -> tuple[str, float]:
    return text, time.time() + lifetime_s


def test_one_token_for_all_clients(answers: Any) -> None:
    """A process requests one token for each configuration, and librdkafka gets the same token."""
    answers(_token)
    assert fetch_token(NAME, "a=1") is fetch_token(NAME, "a=1")
    text, expires_s, principal, extensions = oauth_callback(NAME)("a=1")
    assert text == "abc"
    assert principal == ""
    assert extensions == {}
    assert expires_s > time.time() + 900
    fetch_token(NAME, "a=2")
    assert calls == ["a=1", "a=2"]


def test_renewed_in_time(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new token is requested after 80 % of the lifetime. If that fails, the present one is used until it expires."""
    now = time.time()
    answers(lambda: ("old", now + 100))
    fetch_token(NAME, "")
    monkeypatch.setattr(time, "time", lambda: now + 81)
    answers(lambda: 1 / 0)
    assert fetch_token(NAME, "").text == "old"
    answers(lambda: ("new", now + 200))
    assert fetch_token(NAME, "").text == "old"  # not requested again at once
    monkeypatch.setattr(time, "time", lambda: now + 87)
    assert fetch_token(NAME, "").text == "new"
    assert len(calls) == 3
    monkeypatch.setattr(time, "time", lambda: now + 201)
    answers(lambda: 1 / 0)
    with pytest.raises(BrokersUnavailable, match="ZeroDivisionError"):
        fetch_token(NAME, "")


def test_clock_that_was_set_back(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is renewed after its lifetime, even if the wall clock was set back since."""
    now, began = time.time(), time.monotonic()
    answers(lambda: ("old", now + 100))
    fetch_token(NAME, "")
    answers(lambda: ("new", now + 100))
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    assert fetch_token(NAME, "").text == "old"
    monkeypatch.setattr(time, "monotonic", lambda: began + 90)
    assert fetch_token(NAME, "").text == "new"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: None, "TypeError"),
        (lambda: ("abc", time.time() - 5), "expired 5 s ago; the expiry is in seconds since 1970"),
        (lambda: ("", time.time() + 5), "not a text of ASCII"),
        (lambda: (b"abc", time.time() + 5), "not a text of ASCII"),
        (lambda: ("a\x01auth=b", time.time() + 5), "not a text of ASCII"),
        (lambda: (*_token(), "", None), "the extensions are not a mapping"),
        (lambda: (*_token(), None), "the principal is not a text"),
        (lambda: (*_token(), "p", {"logicalCluster": 5}), "names and values of the extensions are not texts"),
        (lambda: (*_token(), "p", {}, 5), "does not return a tuple of the token, its expiry"),
    ],
)
def test_wrong_answers(answers: Any, wrong: Callable[[], Any], why: str) -> None:
    """The error names the provider and the reason, and the next request calls the function again."""
    answers(wrong)
    for _ in range(2):
        with pytest.raises(BrokersUnavailable, match=f"TOKEN_UNAVAILABLE.*{NAME} failed.*{why}"):
            fetch_token(NAME, "")
    assert len(calls) == 2


def test_function_that_hangs(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that does not return is reported by its name, and a present token remains in use."""
    monkeypatch.setattr(token_providers, "_LIMIT_S", 0.05)
    hanging = threading.Event()
    answers(hanging.wait)
    started = time.monotonic()
    with pytest.raises(BrokersUnavailable, match=f"{NAME} failed: TimeoutError: it has not returned within 0 s"):
        fetch_token(NAME, "")
    now = time.time()
    answers(lambda: ("old", now + 100))
    with monkeypatch.context() as patient:
        patient.setattr(token_providers, "_LIMIT_S", 60.0)
        fetch_token(NAME, "")
    monkeypatch.setattr(time, "time", lambda: now + 81)
    answers(hanging.wait)
    assert fetch_token(NAME, "").text == "old"
    assert time.monotonic() - started < 10
    hanging.set()


def test_slow_failure(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slow failure, the function is not called for as long as it took, or until the present token expires."""
    clock = [1000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])

    def fail_slowly() -> None:
        clock[0] += 30
        raise TimeoutError

    answers(lambda: ("old", 1200.0))
    fetch_token(NAME, "")
    answers(fail_slowly)
    clock[0] = 1161.0
    assert fetch_token(NAME, "").text == "old"
    clock[0] = 1199.0
    assert fetch_token(NAME, "").text == "old"
    assert len(calls) == 2
    clock[0] = 1201.0
    with pytest.raises(BrokersUnavailable, match=r"failed at .*test_token_providers.py:\d+: TimeoutError"):
        fetch_token(NAME, "")


def test_function_that_exits(answers: Any) -> None:
    """A function that exits has failed, and does not end the worker."""
    answers(sys.exit)
    with pytest.raises(BrokersUnavailable, match="SystemExit was raised"):
        fetch_token(NAME, "")


def test_cannot_be_imported() -> None:
    """A missing module or function, and a preset without its library or settings, are errors with the reason."""
    for name, why in (("no_such.module:f", "No module named"), (f"{__name__}:nothing", "AttributeError")):
        with pytest.raises(BrokersUnavailable, match=why):
            fetch_token(name, "")
    with pytest.raises(BrokersUnavailable, match=r"pip install 'pyspark-zkafka\[aws-msk-iam\]'"):
        fetch_token("aws-msk-iam", "region=eu-west-1")
    with pytest.raises(BrokersUnavailable, match="lacks scope="):
        fetch_token("microsoft-entra", "")


def test_login_of_the_direct_transport(answers: Any) -> None:
    """The exchange has the token and its extensions, and a refused token is not used again."""
    answers(lambda: ("abc.def", time.time() + 100, "alice", {"cluster": "lkc-1"}))
    steps = exchange(TokenProvider(NAME, "x"), "broker1")
    assert next(steps) == b"n,,\x01auth=Bearer abc.def\x01cluster=lkc-1\x01\x01"
    assert steps.send(b"refused") == b"\x01"
    fetch_token(NAME, "x")
    assert calls == ["x", "x"]


def test_refused_login_of_librdkafka(answers: Any) -> None:
    """After a refused login, the next client gets a new token. Other errors keep it."""
    answers(_token)
    noted: list[KafkaError] = []
    properties = {token_providers.PROVIDER: NAME, token_providers.CONFIG: "x"}
    refused = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: invalid token")
    others = (
        KafkaError(KafkaError._TRANSPORT, "Connection refused"),
        KafkaError(KafkaError._AUTHENTICATION, "Disconnected: connection closed during authentication"),
    )
    for error in *others, refused, refused:
        client_config(properties, noted.append)["error_cb"](error)
    assert noted == [*others, refused, refused]
    assert calls == ["x", "x"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_fork_during_a_request(answers: Any) -> None:
    """A forked process requests a token although a thread of its parent was requesting one."""
    is_asking, may_end = threading.Event(), threading.Event()
    parent = os.getpid()

    def slow() -> tuple[str, float]:
        is_asking.set()
        if os.getpid() == parent:
            may_end.wait(30)
        return _token()

    answers(slow)
    thread = threading.Thread(target=fetch_token, args=(NAME, ""))
    thread.start()
    is_asking.wait(30)
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends the process
        os._exit(fetch_token(NAME, "").text != "abc")
    _, status = os.waitpid(child, 0)
    may_end.set()
    thread.join()
    assert status == 0


def test_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each preset calls its cloud's library as documented, and returns seconds."""
    expires_s = time.time() + 600

    def module(name: str, **attributes: object) -> None:
        made = ModuleType(name)
        vars(made).update(attributes)
        monkeypatch.setitem(sys.modules, name, made)

    class Credential:
        service_account_email = "etl@acme.iam.gserviceaccount.com"
        valid, token = False, "ya29.x"
        expiry = datetime.fromtimestamp(expires_s, timezone.utc).replace(tzinfo=None)

        def __enter__(self) -> Credential:
            return self

        def __exit__(self, *exc: object) -> None: ...

        def get_token(self, scope: str) -> SimpleNamespace:
            return SimpleNamespace(token=f"for:{scope}", expires_on=int(expires_s))

        def refresh(self, request: object) -> None:
            self.valid = True

    signer = SimpleNamespace(generate_auth_token=lambda region: (f"signed-in-{region}", int(expires_s * 1000)))
    module("aws_msk_iam_sasl_signer", MSKAuthTokenProvider=signer)
    module("azure.identity", DefaultAzureCredential=Credential)
    module("google.auth", default=lambda scopes: (Credential(), "project"))
    module("google.auth.transport.requests", Request=object)
    assert fetch_token("aws-msk-iam", "region=eu-west-1").text == "signed-in-eu-west-1"
    assert fetch_token("microsoft-entra", "scope=https://acme/.default").text == "for:https://acme/.default"
    header, claims, inner = (base64.urlsafe_b64decode(part + "==") for part in fetch_token("google", "").text.split("."))
    assert json.loads(header)["alg"] == "GOOG_OAUTH2_TOKEN"
    assert json.loads(claims)["sub"] == Credential.service_account_email
    assert inner == b"ya29.x"
    assert all(abs(token.expires_s - expires_s) <= 1 for token in token_providers._tokens.values())
