"""Logins by SASL: the tokens that PLAIN and SCRAM exchange with a broker.

References
----------
RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM, through the library scramp).
"""

from __future__ import annotations

import re
from collections.abc import Generator

from pyspark_zkafka.transport.direct.errors import Unsupported
from pyspark_zkafka.transport.direct.settings import Login

__all__ = ["Exchange", "exchange"]

Exchange = Generator[bytes, bytes, None]
"""Yields tokens to send, and is sent the broker's answer to each."""


_ITERATIONS = re.compile(r"(?:^|,)i=([0-9]{1,7})(?:,|$)")
_MOST_ITERATIONS = 1_000_000  # a second of work; Kafka's tools allow 16,384 at most


def exchange(login: Login) -> Exchange:
    """The exchange of a login; Unsupported if the broker's proof of the password is wrong, or its answer malformed."""
    return _plain(login) if login.mechanism == "PLAIN" else _scram(login)


def _plain(login: Login) -> Exchange:
    yield f"\0{login.user}\0{login.password}".encode()


def _scram(login: Login) -> Exchange:
    from scramp import ScramClient, ScramException

    try:
        client = ScramClient([login.mechanism], login.user, login.password)
        client.set_server_first(_bounded((yield client.get_client_first().encode()).decode()))
        client.set_server_final((yield client.get_client_final().encode()).decode("ascii"))
    except (ScramException, ValueError, LookupError, TypeError):  # scramp does not map all of them, and may quote messages
        raise Unsupported(f"{login.mechanism}: the exchange failed") from None


def _bounded(server_first: str) -> str:
    """The message; ValueError if it asks for so many iterations that they take long: it has proved nothing yet."""
    found = _ITERATIONS.search(server_first)
    if found is None or int(found[1]) > _MOST_ITERATIONS:
        raise ValueError("the number of iterations")
    return server_first
