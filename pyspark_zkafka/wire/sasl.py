"""SASL logins: the tokens that PLAIN, SCRAM, OAUTHBEARER and GSSAPI exchange with a broker.

References
----------
RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM, by the library scramp), RFC 7628 (OAUTHBEARER), RFC 6749 (tokens for client
credentials), RFC 4752 (GSSAPI, by the library gssapi).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import ssl
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark_zkafka.kept import Remembered
from pyspark_zkafka.token_providers import fetch_token, forget_token
from pyspark_zkafka.wire.protocol import ConnectionLost, LoginRefused, Unsupported
from pyspark_zkafka.wire.settings import AnyLogin, Kerberos, Login, TokenEndpoint, TokenProvider

Exchange = Generator[bytes, bytes, None]
"""Yields the tokens to send, and receives the broker's answer to each."""

_LEAST_ITERATIONS = 4_096  # Java's clients accept no fewer
_MOST_ITERATIONS = 1_000_000  # a second of work; Kafka's tools allow 16,384 at most
_NO_LAYER = 1  # a bit mask of security layers
_BEARER_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_TOKEN_TIMEOUT_S = 5.0
_MOST_ANSWER_BYTES = 1024 * 1024
_SHARE_OF_LIFETIME = 0.8
# The connections of all tasks in this process share the tokens.
_tokens: Remembered[TokenEndpoint, str] = Remembered()
_locks: dict[TokenEndpoint, threading.Lock] = {}
if hasattr(os, "register_at_fork"):  # another thread of the parent may hold a lock
    os.register_at_fork(after_in_child=_locks.clear)


def exchange(login: AnyLogin, host: str) -> Exchange:
    """The exchange of a login with a broker on a host. Raises Unsupported for a malformed answer, or a wrong proof.

    Blocks while OAUTHBEARER requests a token, or GSSAPI a ticket. Raises ConnectionLost if the token endpoint is
    unreachable, LoginRefused if the endpoint or Kerberos refuses, and BrokersUnavailable if a token provider fails.
    """
    if isinstance(login, TokenEndpoint):
        yield from _bearer(_token(login), login.extensions, lambda: _tokens.forget(login))
    elif isinstance(login, TokenProvider):
        token = fetch_token(login.name, login.config)
        extensions = [f"{name}={value}" for name, value in token.extensions.items()]
        yield from _bearer(token.text, extensions, lambda: forget_token(login.name, login.config))
    elif isinstance(login, Kerberos):
        yield from _kerberos(login, host)
    else:
        yield from _plain(login) if login.mechanism == "PLAIN" else _scram(login)


def _plain(login: Login) -> Exchange:
    yield f"\0{login.user}\0{login.password}".encode()


def _scram(login: Login) -> Exchange:
    from scramp import ScramClient, ScramException

    try:
        client = ScramClient([login.mechanism], login.user, login.password)
        client.set_server_first(_bounded((yield client.get_client_first().encode()).decode()))
        client.set_server_final((yield client.get_client_final().encode()).decode("ascii"))
    except (ScramException, ValueError, LookupError, TypeError):  # scramp maps only some errors, and may quote messages
        raise Unsupported(f"{login.mechanism}: the exchange failed") from None


def _bounded(server_first: str) -> str:
    """Return the message. Raises ValueError if its iterations would take long, or are too few to protect the password.

    At this point, the broker has not proved that it knows the password.
    """
    found = [field[2:] for field in server_first.split(",") if field.startswith("i=")]
    if len(found) != 1 or not _LEAST_ITERATIONS <= int(found[0]) <= _MOST_ITERATIONS:
        raise ValueError("the number of iterations")
    return server_first


def _kerberos(login: Kerberos, host: str) -> Exchange:
    try:
        import gssapi
    except ImportError as error:  # a library of Kerberos may be missing
        raise Unsupported(f"GSSAPI: {error}") from None
    try:
        service = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=service, creds=_credentials(login), usage="initiate")
        answer = yield context.step()
        while not context.complete:
            answer = yield context.step(answer) or b""
        layers = context.unwrap(answer).message
        if len(layers) != 4 or not layers[0] & _NO_LAYER:
            raise Unsupported("GSSAPI: the broker has no session without a security layer")
        yield context.wrap(bytes([_NO_LAYER, 0, 0, 0]), encrypt=False).message
    except gssapi.exceptions.GSSError as error:
        raise LoginRefused(f"GSSAPI: {error}") from None


def _credentials(login: Kerberos) -> Any:
    """Credentials from the keytab, or from the principal's present tickets. None for the default tickets of the user."""
    if login.keytab is None and login.principal is None:
        return None
    import gssapi

    name = None if login.principal is None else gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    if login.keytab is None:
        return gssapi.Credentials(name=name, usage="initiate")
    store = {"client_keytab": login.keytab, "ccache": _tickets(login)}
    return gssapi.Credentials(name=name, usage="initiate", store=store)


def _tickets(login: Kerberos) -> str:
    """The cache of a principal's tickets: a file that this user's processes share, so that a new process needs no KDC."""
    shared_by = f"{login.principal}\0{login.keytab}\0{os.environ.get('KRB5CCNAME')}"
    name = hashlib.sha256(shared_by.encode()).hexdigest()
    folder = Path(tempfile.gettempdir(), f"zkafka-tickets-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return f"MEMORY:{name}"
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return f"FILE:{folder / name}" if is_private else f"MEMORY:{name}"


def _bearer(token: str, extensions: Iterable[str], forget: Callable[[], object]) -> Exchange:
    pairs = [f"auth=Bearer {token}", *extensions]
    refusal = yield ("n,,\x01" + "".join(f"{pair}\x01" for pair in pairs) + "\x01").encode()
    if refusal:
        forget()
        yield b"\x01"  # the broker then reports the refusal as an error


def _token(endpoint: TokenEndpoint) -> str:
    with _locks.setdefault(endpoint, threading.Lock()):
        token = _tokens.get(endpoint)
        if token is None:
            requested_at = time.monotonic()
            answer = _request_token(endpoint)
            token, lifetime_s = str(answer.get("access_token", "")), answer.get("expires_in")
            if not _BEARER_TOKEN.fullmatch(token):
                raise Unsupported("OAUTHBEARER: the answer of the token endpoint has no token")
            seconds = float(lifetime_s) if isinstance(lifetime_s, int | float) else 0.0
            _tokens.put(endpoint, token, requested_at + _SHARE_OF_LIFETIME * seconds - time.monotonic())
        return token


def _request_token(endpoint: TokenEndpoint) -> Mapping[str, Any]:
    # Imported here: these modules take 20 ms, and few logins need them.
    from http.client import HTTPException, InvalidURL
    from urllib.error import HTTPError, URLError
    from urllib.parse import urlencode
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

    class NoRedirect(HTTPRedirectHandler):
        """Refuses redirections: the new address would receive the secret."""

        def redirect_request(self, *_: object) -> None:
            return None

    scope = {} if endpoint.scope is None else {"scope": endpoint.scope}
    credentials = base64.b64encode(f"{endpoint.client_id}:{endpoint.client_secret}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}", "Accept": "application/json"}
    form = urlencode({"grant_type": "client_credentials", **scope}).encode()
    opener = build_opener(HTTPSHandler(context=_context(endpoint)), NoRedirect())
    try:
        with opener.open(Request(endpoint.url, form, headers), timeout=_TOKEN_TIMEOUT_S) as response:
            content = response.read(_MOST_ANSWER_BYTES)
    except HTTPError as error:
        error.close()
        failure = ConnectionLost if error.code >= 500 or error.code in (408, 429) else LoginRefused
        raise failure(f"OAUTHBEARER: the token endpoint answers with status {error.code}") from None
    except (InvalidURL, ValueError):
        raise Unsupported("OAUTHBEARER: the URL of the token endpoint is malformed") from None
    except (OSError, HTTPException) as error:  # URLError is an OSError
        if isinstance(error, URLError) and isinstance(error.reason, ssl.SSLError):
            raise Unsupported("OAUTHBEARER: the TLS handshake with the token endpoint failed") from None
        raise ConnectionLost(f"OAUTHBEARER: the token endpoint is out of reach ({type(error).__name__})") from None
    try:
        answer = json.loads(content)
    except ValueError:
        raise Unsupported("OAUTHBEARER: the answer of the token endpoint is not JSON") from None
    return answer if isinstance(answer, dict) else {}


def _context(endpoint: TokenEndpoint) -> ssl.SSLContext:
    try:
        is_folder = endpoint.ca_location is not None and Path(endpoint.ca_location).is_dir()
        return ssl.create_default_context(
            cafile=None if is_folder else endpoint.ca_location,
            capath=endpoint.ca_location if is_folder else None,
            cadata=endpoint.ca_pem,
        )
    except (OSError, ValueError) as error:
        # The text of the error may quote a certificate.
        raise Unsupported(f"OAUTHBEARER: authorities that Python's ssl refuses ({type(error).__name__})") from None
