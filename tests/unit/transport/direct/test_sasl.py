"""Logins by SASL, with the server's part by another implementation, and with answers that are wrong."""

from __future__ import annotations

import base64

import pytest
from scramp import ScramException, ScramMechanism

from pyspark_zkafka.transport.direct.errors import Unsupported
from pyspark_zkafka.transport.direct.sasl import exchange
from pyspark_zkafka.transport.direct.settings import Login

PASSWORD = "open-sesame"
SCRAM = pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
WRONG_PROOF = b"v=" + base64.b64encode(bytes(32))


def login(mechanism: str, password: str = PASSWORD) -> Login:
    return Login(mechanism, "alice", password)


def server(mechanism: str) -> object:
    """A server that knows the user's password."""
    scram = ScramMechanism(mechanism)
    known = scram.make_auth_info(PASSWORD, iteration_count=4096)
    return scram.make_server(lambda user: known)


def test_plain() -> None:
    """PLAIN is one token with user and password as UTF-8, whatever the broker answers."""
    tokens = exchange(Login("PLAIN", "al\u00efce", PASSWORD))
    assert next(tokens) == "\0al\u00efce\0open-sesame".encode()
    with pytest.raises(StopIteration):
        tokens.send(b"")


@SCRAM
def test_scram(mechanism: str) -> None:
    """SCRAM proves the password to the broker, and ends when the broker has proved that it knows it."""
    broker, tokens = server(mechanism), exchange(login(mechanism))
    broker.set_client_first(next(tokens).decode())
    broker.set_client_final(tokens.send(broker.get_server_first().encode()).decode())
    with pytest.raises(StopIteration):
        tokens.send(broker.get_server_final().encode())


@SCRAM
def test_password_is_not_sent(mechanism: str) -> None:
    """No token of SCRAM has the password in it."""
    broker, tokens = server(mechanism), exchange(login(mechanism))
    first = next(tokens)
    broker.set_client_first(first.decode())
    assert PASSWORD.encode() not in first + tokens.send(broker.get_server_first().encode())


@SCRAM
def test_wrong_password(mechanism: str) -> None:
    """The proof of another password is refused by the broker."""
    broker, tokens = server(mechanism), exchange(login(mechanism, "close-sesame"))
    broker.set_client_first(next(tokens).decode())
    proof = tokens.send(broker.get_server_first().encode()).decode()
    with pytest.raises(ScramException):
        broker.set_client_final(proof)


@SCRAM
@pytest.mark.parametrize("answer", [WRONG_PROOF, b"e=invalid-proof", b"", b"\xff", b"v="])
def test_broker_without_proof(mechanism: str, answer: bytes) -> None:
    """A broker that does not prove that it knows the password is not logged in to; no text has the answer."""
    broker, tokens = server(mechanism), exchange(login(mechanism))
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
    """A challenge that is malformed, or is not for this exchange, ends it without the broker's text."""
    tokens = exchange(login("SCRAM-SHA-256"))
    next(tokens)
    with pytest.raises(Unsupported, match=r"^SCRAM-SHA-256: the exchange failed$"):
        tokens.send(challenge)
