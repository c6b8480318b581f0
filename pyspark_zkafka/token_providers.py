"""Tokens for OAUTHBEARER logins, from a function of the user's or of a cloud's own library.

`kafka.sasl.oauthbearer.token.provider` names the function as ``package.module:function``, or names one of `PRESETS`. The
function has the signature of confluent-kafka's ``oauth_cb``: it gets the text of `kafka.sasl.oauthbearer.config`, and
returns the token and its expiry in seconds since 1970. It may also return the principal, and extensions as a dictionary.
"""

from __future__ import annotations

import logging
import os
import pkgutil
import re
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_zkafka.conditions import TOKEN_UNAVAILABLE
from pyspark_zkafka.threads import call_in_thread

_log = logging.getLogger(__name__)

PROVIDER, CONFIG = "sasl.oauthbearer.token.provider", "sasl.oauthbearer.config"
"""Properties of a client: the provider's name, and the text that its function gets."""

PRESETS: Mapping[str, str] = {
    "aws-msk-iam": f"{__name__}:aws_msk_iam",
    "microsoft-entra": f"{__name__}:microsoft_entra",
    "google": f"{__name__}:google",
}
"""Functions by name. Each function needs the library of the extra of the same name."""

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_SHARE_OF_LIFETIME = 0.8
_PAUSE_S = 5.0
_LIMIT_S = 30.0

_locks: dict[tuple[str, str], threading.Lock] = {}
_tokens: dict[tuple[str, str], Token] = {}
if hasattr(os, "register_at_fork"):  # another thread of the parent may hold a lock
    os.register_at_fork(after_in_child=_locks.clear)


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and the times at which it expires and is renewed, in seconds since 1970.

    The token is also renewed at `due_s` on the monotonic clock, because the wall clock may be set back.
    """

    text: str = field(repr=False)
    expires_s: float
    renew_s: float
    due_s: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


def is_provider_name(name: str) -> bool:
    """True for a preset or ``package.module:function``.

    >>> is_provider_name("google"), is_provider_name("acme.logins:kafka_token"), is_provider_name("acme.logins")
    (True, True, False)
    """
    return name in PRESETS or _NAME.fullmatch(name) is not None


def fetch_token(provider: str, config: str) -> Token:
    """Return the process's token of a provider. A new token is requested after 80 % of the present token's lifetime.

    If that fails, the present token is used until five seconds before it expires. A request takes at most 30 seconds.
    Thread-safe: threads wait for each other's requests.

    Raises BrokersUnavailable (TOKEN_UNAVAILABLE) if the function cannot be imported, fails, or does not return a token and
    a future expiry in time.
    """
    with _locks.setdefault((provider, config), threading.Lock()):
        now = time.time()
        present = _tokens.get((provider, config))
        if present is not None and now < present.renew_s and time.monotonic() < present.due_s:
            return present
        try:
            token = _request(provider, config, now)
        except Exception as error:  # the user's function may raise anything
            failed_s = time.time()
            if present is None or failed_s + _PAUSE_S >= present.expires_s:
                install = provider in PRESETS and isinstance(error, ImportError)
                remedy = f"Run pip install 'pyspark-zkafka[{provider}]'" if install else f"Correct it, or kafka.{CONFIG}"
                raise TOKEN_UNAVAILABLE(
                    f"The token provider {provider} failed{_place(error)}: {type(error).__name__}: {error}. {remedy}, on "
                    "the driver and on every executor",
                ) from error
            _log.warning("The token provider %s failed, and the present token stays in use: %s", provider, error)
            renew_s = min(failed_s + max(_PAUSE_S, failed_s - now), present.expires_s)
            token = replace(present, renew_s=renew_s, due_s=time.monotonic() + renew_s - failed_s)
        _tokens[provider, config] = token
        return token


def forget_token(provider: str, config: str) -> None:
    """Request a new token for the next login, because a broker has refused the present token."""
    _tokens.pop((provider, config), None)


def oauth_callback(provider: str) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """Return the provider as confluent-kafka's ``oauth_cb``. librdkafka calls it on a thread of its own."""

    def callback(config: str) -> tuple[str, float, str, dict[str, str]]:
        token = fetch_token(provider, config or "")
        # librdkafka asks again after 80 % of the lifetime that it is given.
        return token.text, token.expires_s, token.principal, dict(token.extensions)

    return callback


def _place(error: Exception) -> str:
    """Return where another module's code raised an error."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "" if frame.filename == __file__ else f" at {frame.filename}:{frame.lineno}"


def _call(provider: str, config: str) -> Any:
    """Call the function on a thread of its own, which is abandoned after the time limit."""

    def call() -> Any:
        try:
            return pkgutil.resolve_name(PRESETS.get(provider, provider))(config)
        except (SystemExit, KeyboardInterrupt) as error:  # sys.exit must not end the worker
            failure = RuntimeError(f"{type(error).__name__} was raised: {error}")
            raise failure.with_traceback(error.__traceback__) from None

    answer = call_in_thread(call, f"zkafka-token-{provider}")
    if not wait([answer], _LIMIT_S).done:
        raise TimeoutError(f"it has not returned within {_LIMIT_S:.0f} s")
    return answer.result()


def _request(provider: str, config: str, now: float) -> Token:
    answer = _call(provider, config)
    if not isinstance(answer, tuple) or not 2 <= len(answer) <= 4:
        raise TypeError(
            "the function does not return a tuple of the token, its expiry, and perhaps principal and extensions"
        )
    text, expires_s, principal, extensions = answer + ("", {})[len(answer) - 2 :]
    if isinstance(expires_s, bool) or not isinstance(expires_s, int | float):
        raise TypeError("the expiry is not a number of seconds since 1970")
    if not isinstance(text, str) or not text or not text.isascii() or any(c <= " " for c in text):
        raise ValueError("the token is not a text of ASCII characters without blanks")
    if not float(expires_s) > now:
        raise ValueError(f"the token expired {now - float(expires_s):.0f} s ago; the expiry is in seconds since 1970")
    if not isinstance(principal, str) or not isinstance(extensions, Mapping):
        raise TypeError("the principal is not a text, or the extensions are not a mapping")
    if not all(isinstance(part, str) for extension in extensions.items() for part in extension):
        raise TypeError("the names and values of the extensions are not texts")
    renew_in_s = _SHARE_OF_LIFETIME * (float(expires_s) - now)
    return Token(text, float(expires_s), now + renew_in_s, time.monotonic() + renew_in_s, principal, extensions)


def _setting(config: str, name: str) -> str:
    """Return the value of a name in ``name=value`` pairs, separated by commas or blanks."""
    found = dict(pair.split("=", 1) for pair in re.split(r"[,\s]+", config.strip()) if "=" in pair)
    if not found.get(name):
        raise ValueError(f"kafka.{CONFIG} lacks {name}=...")
    return found[name]


def aws_msk_iam(config: str) -> tuple[str, float]:
    """Sign a token for Amazon MSK with the credentials that boto finds. `config` is ``region=eu-west-1``."""
    region = _setting(config, "region")
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return token, expires_ms / 1000


def microsoft_entra(config: str) -> tuple[str, float]:
    """Get a token for Azure Event Hubs. `config` is ``scope=https://NAMESPACE.servicebus.windows.net/.default``."""
    scope = _setting(config, "scope")
    from azure.identity import DefaultAzureCredential

    with DefaultAzureCredential() as credential:
        token = credential.get_token(scope)
    return token.token, token.expires_on


def google(config: str) -> tuple[str, float]:
    """Get a token for Google's Managed Service for Apache Kafka, by Application Default Credentials. `config` is empty.

    As Google's ``GcpBearerAuthCredentialProvider``: header, claims and access token, each in base64, joined by periods.
    """
    import base64
    import json
    from datetime import timezone

    from google.auth import default
    from google.auth.transport.requests import Request

    credentials, _ = default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    if not credentials.valid:
        credentials.refresh(Request())
    expires_s = credentials.expiry.replace(tzinfo=timezone.utc).timestamp()
    account = getattr(credentials, "service_account_email", "") or getattr(credentials, "signer_email", "")
    claims = {"exp": expires_s, "iat": time.time(), "iss": "Google", "scope": "kafka", "sub": account}
    parts = json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}), json.dumps(claims), credentials.token
    encoded = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return ".".join(encoded), expires_s
