"""A schema registry with Confluent's API: lookups with a cache for each process, registration, retries and errors."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module  # noqa: TID251 - the names are constants
from typing import TYPE_CHECKING, Any

from pyspark_zkafka.conditions import (
    FORMAT_LIBRARY_MISSING,
    INVALID_OPTION,
    SCHEMA_NOT_REGISTERED,
    SCHEMA_REGISTRY_ERROR,
    SCHEMA_REGISTRY_REFUSED,
    SCHEMA_REGISTRY_UNAVAILABLE,
    UNKNOWN_SUBJECT,
)
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.options.values import RegistryOptions
from pyspark_zkafka.retries import Deadline, Timing

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

_log = logging.getLogger(__name__)

_PATIENCE_S = 30.0
_REQUEST_TIMEOUT_S = 10
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0
_UNKNOWN_FOR_S, _PROPAGATION_S = 30.0, 1.0
_MANY_UNKNOWN, _MOST_WAITS = 1000, 3
_MOST_REGISTRIES = 32
_HTTP_NOT_FOUND, _HTTP_CONFLICT = 404, 409
_MOST_ID = 2**31 - 1
_NOT_FOUND = frozenset({40401, 40402, 40403, 40406})
"""Confluent's error codes for an unknown subject, version or schema, and for a deleted version."""


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema in a registry. `kind` is AVRO, PROTOBUF or JSON. `references` has texts by name, including indirect ones."""

    text: str
    kind: str
    references: Mapping[str, str] = field(default_factory=dict)
    id: int | None = None


class UnknownSchema(Exception):
    """The registry has no schema of an id, or lacks a schema to which it refers. The text is the reason."""


@lru_cache(_MOST_REGISTRIES)
def open_registry(options: RegistryOptions) -> Registry:
    """Return the process's client of a registry. The first request imports Confluent's client and connects."""
    return Registry(options)


def context_of(subject: str | None) -> str:
    """Return the context of a qualified subject. Empty for the default context.

    >>> context_of(":.staging:orders-value"), context_of("orders-value")
    (':.staging:', '')
    """
    found = re.match(r":\.[^:]*:", subject or "")
    return "" if found is None else found[0]


class Registry:
    """Requests to a registry. Schemas of ids are cached for ever, and unknown ids for 30 seconds.

    Before an id counts as unknown, it is requested again: a producer may have registered the schema at another node of the
    registry a moment ago. This costs a second, at most three times in 30 seconds.

    Requests are repeated for about 30 seconds while the registry cannot be reached. Raises SCHEMA_REGISTRY_UNAVAILABLE
    after that, and SCHEMA_REGISTRY_REFUSED at once.
    """

    def __init__(
        self, options: RegistryOptions, client: SchemaRegistryClient | None = None, timing: Timing | None = None
    ) -> None:
        self._options = options
        self._place = ", ".join(options.urls)
        self._opened = client
        self._timing = timing or Timing()
        self._by_id: dict[tuple[int | str, str], StoredSchema] = {}
        self._unknown: dict[tuple[int | str, str], tuple[float, str]] = {}  # until when, and why
        self._waits: deque[float] = deque(maxlen=_MOST_WAITS)

    def schema(self, key: int | str, context: str = "") -> StoredSchema:
        """Return the schema of an id in a context such as ``:.staging:``, or of a GUID. Raises UnknownSchema."""
        cache_key = key, context
        if (known := self._by_id.get(cache_key)) is not None:
            return known
        until, reason = self._unknown.get(cache_key, (0.0, ""))
        if self._timing.clock() < until:
            raise UnknownSchema(reason)
        try:
            found = self._by_id[cache_key] = self._requested(key, context)
        except UnknownSchema as unknown:
            now = self._timing.clock()
            if len(self._unknown) >= _MANY_UNKNOWN:
                self._unknown = {cache_key: known for cache_key, known in self._unknown.items() if now < known[0]}
            self._unknown[cache_key] = now + _UNKNOWN_FOR_S, str(unknown)
            raise
        return found

    def _requested(self, key: int | str, context: str) -> StoredSchema:
        named, method = ("id", "get_schema") if isinstance(key, int) else ("GUID", "get_schema_by_guid")
        what = f"schema {named} {key}"
        # Registries without GUIDs answer 404 with another error code. All registries do so for an id beyond 31 bits.
        of_context = (context,) if context and isinstance(key, int) else ()
        is_optional = isinstance(key, str) or key > _MOST_ID

        def request() -> StoredSchema:
            schema = self._ask(what, method, key, *of_context, is_optional=is_optional)
            if schema is None:
                raise UnknownSchema(f"the registry has no {what}")
            return self._stored(schema, key if isinstance(key, int) else None, what, context)

        try:
            return request()
        except UnknownSchema:
            now = self._timing.clock()
            if len(self._waits) == _MOST_WAITS and now - self._waits[0] < _UNKNOWN_FOR_S:
                raise
        self._waits.append(now)
        self._timing.sleep(_PROPAGATION_S)
        return request()

    def subject(self, subject: str, version: int | None = None) -> StoredSchema:
        """Return a version of a subject, by default the latest version. Never cached. Raises UNKNOWN_SUBJECT."""
        asked = version or "latest"
        what = f"version {asked} of subject {subject}"
        found = self._ask(what, "get_version", subject, asked)
        if found is None:
            named = f"version {version}" if version else "latest version"
            raise UNKNOWN_SUBJECT(
                f"The schema registry {self._place} has no {named} of subject {subject}; register a schema, or "
                "correct the subject or version",
            )
        try:
            return self._stored(found.schema, self._checked_id(found.schema_id, what), what, context_of(subject))
        except UnknownSchema as unknown:
            raise UNKNOWN_SUBJECT(
                f"The schema registry {self._place} has an incomplete schema: {unknown}. Register a version that refers to "
                "existing schemas"
            ) from unknown

    def register(self, subject: str, schema: StoredSchema, *, auto: bool, normalize: bool) -> int:
        """Return the id of a schema under a subject. With `auto`, registers the schema first.

        Raises UNKNOWN_SUBJECT without `auto`, and SCHEMA_NOT_REGISTERED if the registry does not accept the schema.
        """
        method = "register_schema_full_response" if auto else "lookup_schema"
        own = _library().Schema(schema.text, schema.kind)
        what = f"the schema of subject {subject}"
        found = self._ask(what, method, subject, own, normalize)
        if found is None:
            raise UNKNOWN_SUBJECT(
                f"The schema registry {self._place} does not have the schema to write under subject {subject}; register "
                "it, or set auto.register.schemas=true or use.latest.version=true",
            )
        return self._checked_id(found.schema_id, what)

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _stored(self, schema: Schema, schema_id: int | None, what: str, context: str) -> StoredSchema:
        references: dict[str, str] = {}
        self._add_references(schema, references, context, what)
        if not schema.schema_str or not isinstance(schema.schema_str, str):
            raise self._no_registry(what)
        return StoredSchema(schema.schema_str, schema.schema_type or "AVRO", references, schema_id)

    def _checked_id(self, found: object, what: str) -> int:
        if not isinstance(found, int) or not 0 <= found <= _MOST_ID:
            raise self._no_registry(what)
        return found

    def _add_references(self, schema: Schema, found: dict[str, str], context: str, referrer: str) -> None:
        """Add the texts of a schema's references. Their subjects are in the schema's context, unless they name a context.

        Raises UnknownSchema if the registry lacks a referenced schema.
        """
        for reference in schema.references or ():
            if reference.name in found:
                continue
            subject = reference.subject or ""
            subject = subject if context_of(subject) else context + subject
            what = f"version {reference.version} of subject {subject}"
            # Schemas of old records may refer to versions that have been deleted.
            answer = self._ask(what, "get_version", subject, reference.version or 0, True)
            if answer is None:
                raise UnknownSchema(f"the registry has no {what}, to which {referrer} refers")
            found[reference.name] = answer.schema.schema_str or ""
            self._add_references(answer.schema, found, context_of(subject), what)

    def _ask(self, what: str, method: str, *arguments: object, is_optional: bool = False) -> Any:
        """Call a method of Confluent's client. Returns None if the registry does not know the schema, subject or version.

        `is_optional` is for requests that some registries do not support.
        """
        library = _library()
        if self._opened is None:
            self._opened = _client(self._options)
        client = self._opened
        deadline = Deadline.after(_PATIENCE_S, self._timing.clock)
        pause_s, may_conflict = _FIRST_PAUSE_S, True
        while True:
            try:
                return getattr(client, method)(*arguments)
            except library.SchemaRegistryError as error:
                if error.error_code in _NOT_FOUND or (is_optional and error.http_status_code == _HTTP_NOT_FOUND):
                    return None
                if error.http_status_code == _HTTP_CONFLICT and may_conflict:
                    may_conflict = False  # another task may just have created the subject: a real conflict is repeated
                    continue
                if error.http_status_code not in (408, 429) and error.http_status_code < 500:
                    raise self._refusal(what, error) from error
                reason = f"it answered {error.error_message!r} with status {error.http_status_code}"
            except library.error.OAuthTokenError as error:
                if not _is_passing(error.__context__):
                    raise SCHEMA_REGISTRY_REFUSED(
                        f"No token for the schema registry {self._place} was issued: {error}; check "
                        "schema.registry.bearer.auth.*",
                    ) from error
                reason = f"no token was issued: {_text(error.__context__ or error)}"
            except _http_errors("HTTPError") as error:
                reason = _text(error)
            except KeyError as error:  # the client requires what RFC 6749 recommends
                if not {"expires_in", "expires_at"}.intersection(error.args):
                    raise self._no_registry(what) from error
                raise SCHEMA_REGISTRY_REFUSED(
                    f"The issuer of tokens for the schema registry {self._place} does not say when they expire "
                    "(expires_in); correct the issuer, or set schema.registry.bearer.auth.token",
                ) from error
            except _http_errors("InvalidURL") as error:
                raise self._no_registry(what) from error
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                if not _is_of_client(error):
                    raise
                raise self._no_registry(what, f" ({type(error).__name__})") from error  # the client does not check answers
            if deadline.left_s < pause_s:
                raise SCHEMA_REGISTRY_UNAVAILABLE(
                    f"The schema registry {self._place} did not return {what} within {_PATIENCE_S:.0f} s: {reason}; check "
                    "the address and the registry",
                )
            _log.warning("The schema registry %s did not return %s, retrying: %s", self._place, what, reason)
            self._timing.sleep(pause_s * (0.5 + self._timing.jitter() / 2))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _refusal(self, what: str, error: Any) -> ZKafkaError:
        found = f"{error.error_message} (status {error.http_status_code}, code {error.error_code})"
        if error.http_status_code in (401, 403):
            return SCHEMA_REGISTRY_REFUSED(
                f"The schema registry {self._place} refused the request for {what}: {found}; check "
                "schema.registry.basic.auth.user.info, schema.registry.bearer.auth.* or the certificate",
            )
        if error.http_status_code in (409, 422):
            return SCHEMA_NOT_REGISTERED(
                f"The schema registry {self._place} does not accept {what}: {found}; correct the schema or the frame, or "
                "change the subject's compatibility or mode",
            )
        return self._no_registry(what, f": {found}")

    def _no_registry(self, what: str, found: str = "") -> ZKafkaError:
        return SCHEMA_REGISTRY_ERROR(
            f"{self._place} did not answer as a schema registry when it was asked for {what}{found}; correct the path in "
            "schema.registry.url, or, if it is right, try another version of confluent-kafka",
        )


def _library() -> Any:
    """Return the package of Confluent's client. Raises FORMAT_LIBRARY_MISSING if a package of the extra is missing."""
    try:
        import confluent_kafka.schema_registry.error
    except ImportError as error:
        raise FORMAT_LIBRARY_MISSING(
            f"The schema registry needs the package {error.name}, which is not installed; run pip install "
            "'pyspark-zkafka[schema-registry]'",
        ) from error
    return confluent_kafka.schema_registry


def _client(options: RegistryOptions) -> SchemaRegistryClient:
    library = _library()
    config: dict[str, Any] = {"url": ",".join(options.urls), "max.retries": 0, "timeout": _REQUEST_TIMEOUT_S}
    config |= dict(options.properties)
    if "ssl.certificate.location" in config:
        config.setdefault("ssl.key.password", "")  # otherwise, OpenSSL asks the terminal for the password of its key
    if any(name.startswith("bearer.auth.") for name in config):
        config.setdefault("bearer.auth.logical.cluster", "")  # the client requires it, and other registries ignore it
    try:
        return library.SchemaRegistryClient(config)
    except OSError as error:
        raise INVALID_OPTION(
            f"A file in schema.registry.ssl.* cannot be used: {error}; place a PEM file there, or "
            "correct schema.registry.ssl.key.password"
        ) from error
    except _http_errors("InvalidURL"):  # a proxy's; the text may have a part of its password
        about = "InvalidURL"
    except (ValueError, ImportError) as error:  # the text of a proxy's error may have a password
        about = type(error).__name__ if "proxy" in str(error).lower() else str(error)
    raise INVALID_OPTION(
        f"The client of the schema registry cannot be made ({about}); check schema.registry.*, and proxies in the "
        "environment"
    )


def _text(error: BaseException) -> str:
    """Return the text of an error, without headers: a LocalProtocolError may quote the header with the token."""
    name = type(error).__name__
    return name if name == "LocalProtocolError" else str(error) or name


def _is_of_client(error: BaseException) -> bool:
    """False if a call failed in this module: the client has no such method, or takes other arguments."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is not None


def _is_passing(error: BaseException | None) -> bool:
    """True for an error of a token request after which another request may succeed."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return isinstance(error, _http_errors("HTTPError")) and (status is None or status in (408, 429) or status >= 500)


def _http_errors(name: str) -> tuple[type[Exception], ...]:
    """Return the errors of this name from both HTTP libraries: the client's version decides which library it uses."""
    errors = []
    for library in ("httpx", "httpx2"):
        with suppress(ImportError):
            errors.append(getattr(import_module(library), name))
    return tuple(errors)
