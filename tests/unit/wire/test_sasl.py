"""SASL logins, with another implementation of the server's part, and with wrong responses."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from scramp import ScramException, ScramMechanism

from pyspark_zkafka.wire.protocol import ConnectionLost, LoginRefused, Unsupported
from pyspark_zkafka.wire.sasl import exchange
from pyspark_zkafka.wire.settings import Login, TokenEndpoint
from tests.support.web_server import WebRequest, WebServer

PASSWORD = "open-sesame"
HOST = "broker1"
SCRAM = pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
WRONG_PROOF = b"v=" + base64.b64encode(bytes(32))


def login(mechanism: str, password: str = PASSWORD) -> Login:
    return Login(mechanism, "alice", password)


def server(mechanism: str) -> object:
    """Return a server that knows the user's password."""
    scram = ScramMechanism(mechanism)
    known = scram.make_auth_info(PASSWORD, iteration_count=4096)
    return scram.make_server(lambda user: known)


def test_plain() -> None:
    """PLAIN sends one token with user and password in UTF-8, and accepts any response."""
    tokens = exchange(Login("PLAIN", "al\u00efce", PASSWORD), HOST)
    assert next(tokens) == "\0al\u00efce\0open-sesame".encode()
    with pytest.raises(StopIteration):
        tokens.send(b"")


@SCRAM
def test_scram(mechanism: str) -> None:
    """SCRAM proves the password without sending it, and ends once the broker has proved that it knows the password."""
    broker, tokens = server(mechanism), exchange(login(mechanism), HOST)
    first = next(tokens)
    broker.set_client_first(first.decode())
    proof = tokens.send(broker.get_server_first().encode())
    assert PASSWORD.encode() not in first + proof
    broker.set_client_final(proof.decode())
    with pytest.raises(StopIteration):
        tokens.send(broker.get_server_final().encode())


@SCRAM
def test_wrong_password(mechanism: str) -> None:
    """The broker refuses the proof of a wrong password."""
    broker, tokens = server(mechanism), exchange(login(mechanism, "close-sesame"), HOST)
    broker.set_client_first(next(tokens).decode())
    proof = tokens.send(broker.get_server_first().encode()).decode()
    with pytest.raises(ScramException):
        broker.set_client_final(proof)


@SCRAM
@pytest.mark.parametrize("answer", [WRONG_PROOF, b"e=invalid-proof", b"", b"\xff", b"v="])
def test_broker_without_proof(mechanism: str, answer: bytes) -> None:
    """A broker that does not prove its knowledge of the password is refused, and no text contains its response."""
    broker, tokens = server(mechanism), exchange(login(mechanism), HOST)
    broker.set_client_first(next(tokens).decode())
    tokens.send(broker.get_server_first().encode())
    with pytest.raises(Unsupported, match=rf"^{mechanism}: the exchange failed$"):
        tokens.send(answer)


@pytest.mark.parametrize(
    "challenge",
    [b"", b"\xff", b"hello", b"r=another,s=QSXCR+Q6sek8bf92,i=4096", b"e=other-error"],
    ids=["empty", "no text", "no challenge", "nonce of another exchange", "error"],
)
def test_malformed_challenge(challenge: bytes) -> None:
    """A malformed challenge, or one for another exchange, ends the login, without the broker's text in the error."""
    tokens = exchange(login("SCRAM-SHA-256"), HOST)
    next(tokens)
    with pytest.raises(Unsupported, match=r"^SCRAM-SHA-256: the exchange failed$"):
        tokens.send(challenge)


class LenientClient:
    """A client of scramp that accepts any number of iterations, as earlier versions do."""

    def __init__(self, *_: object) -> None: ...

    def get_client_first(self) -> str:
        return "n,,n=alice,r=nonce"

    def set_server_first(self, message: str) -> None: ...

    def get_client_final(self) -> str:
        return "c=biws"

    def set_server_final(self, message: str) -> None: ...


@pytest.mark.parametrize(
    ("iterations", "is_accepted"),
    [
        ("i=4096", True),
        ("i=1000000", True),
        ("i=4095", False),
        ("i=1000001", False),
        ("i=4096,i=99999999", False),
        ("i=99999999,i=4096", False),
        ("i=", False),
        ("x=4096", False),
    ],
)
def test_iterations(monkeypatch: pytest.MonkeyPatch, iterations: str, is_accepted: bool) -> None:
    """A challenge has one number of iterations, which protects the password and does not take long."""
    monkeypatch.setattr("scramp.ScramClient", LenientClient)
    tokens = exchange(login("SCRAM-SHA-256"), HOST)
    next(tokens)
    challenge = f"r=nonce1,s=QSXCR+Q6sek8bf92,{iterations}".encode()
    if is_accepted:
        assert tokens.send(challenge) == b"c=biws"
    else:
        with pytest.raises(Unsupported, match=r"^SCRAM-SHA-256: the exchange failed$"):
            tokens.send(challenge)


class TestBearer:
    """OAUTHBEARER, with a local token endpoint."""

    @pytest.fixture
    def endpoint(self) -> Iterator[Callable[..., tuple[TokenEndpoint, list[WebRequest]]]]:
        """Starts an endpoint with a response: ``endpoint(body, status)``; also returns what it receives."""
        with ExitStack() as opened:

            def start(answer: Any, status: int = 200, **how: Any) -> tuple[TokenEndpoint, list[WebRequest]]:
                server = opened.enter_context(WebServer(answer, status))
                return TokenEndpoint(f"{server.url}/token", "me", PASSWORD, **how), server.received

            yield start

    def test_token(self, endpoint: Any) -> None:
        """A token is requested with the credentials, sent with the extensions, and reused until it gets old."""
        login, received = endpoint({"access_token": "abc.def", "expires_in": 3600}, scope="read write", extensions=("a=1",))
        for _ in range(2):
            tokens = exchange(login, HOST)
            assert next(tokens) == b"n,,\x01auth=Bearer abc.def\x01a=1\x01\x01"
            with pytest.raises(StopIteration):
                tokens.send(b"")
        credentials = base64.b64encode(b"me:" + PASSWORD.encode()).decode()
        assert received == [WebRequest("/token", f"Basic {credentials}", "grant_type=client_credentials&scope=read+write")]

    def test_token_without_a_lifetime(self, endpoint: Any) -> None:
        """A token with an unknown lifetime is used once."""
        login, received = endpoint({"access_token": "abc"})
        assert [next(exchange(login, HOST)) for _ in range(2)] == [b"n,,\x01auth=Bearer abc\x01\x01"] * 2
        assert len(received) == 2

    def test_refused_token(self, endpoint: Any) -> None:
        """After a broker refuses a token, the client ends the exchange, and the next login requests another token."""
        login, received = endpoint({"access_token": "abc", "expires_in": 3600})
        tokens = exchange(login, HOST)
        next(tokens)
        assert tokens.send(b'{"status":"invalid_token"}') == b"\x01"
        next(exchange(login, HOST))
        assert len(received) == 2

    @pytest.mark.parametrize(
        ("answer", "status", "error", "text"),
        [
            ({"error": "invalid_client"}, 401, LoginRefused, "status 401"),
            ({}, 302, LoginRefused, "status 302"),
            ({}, 503, ConnectionLost, "status 503"),
            ({}, 429, ConnectionLost, "status 429"),
            (b"no JSON", 200, Unsupported, "is not JSON"),
            ([], 200, Unsupported, "has no token"),
            ({"access_token": "a\x01auth=b"}, 200, Unsupported, "has no token"),
        ],
    )
    def test_missing_token(self, endpoint: Any, answer: Any, status: int, error: type[Exception], text: str) -> None:
        """A response without a token raises an error that hides the secret, and redirections are not followed."""
        login, _ = endpoint(answer, status)
        with pytest.raises(error, match=text) as caught:
            next(exchange(login, HOST))
        assert PASSWORD not in str(caught.value)

    def test_endpoint_out_of_reach(self) -> None:
        """An unreachable endpoint is retried like a broker; authorities that cannot be loaded are not."""
        with pytest.raises(ConnectionLost, match="out of reach"):
            next(exchange(TokenEndpoint("http://127.0.0.1:1/", "me", PASSWORD), HOST))
        with pytest.raises(Unsupported, match="authorities"):
            next(exchange(TokenEndpoint("https://127.0.0.1:1/", "me", PASSWORD, ca_location="/no/such/file"), HOST))

    @pytest.mark.parametrize("url", ["http://[::1/token", "http://127.0.0.1:port/token", "http://[::1]/a token"])
    def test_malformed_url(self, url: str) -> None:
        """A malformed URL is not retried."""
        with pytest.raises(Unsupported, match="the URL of the token endpoint is malformed"):
            next(exchange(TokenEndpoint(url, "me", PASSWORD), HOST))
