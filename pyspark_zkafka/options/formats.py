"""Parse the options of formats and of the schema registry."""

from __future__ import annotations

from pyspark_zkafka.model.planning import Assign, Subscribe, Subscription
from pyspark_zkafka.options.format_table import PREFIX, REGISTRY
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.values import ColumnFormat, FormatOptions, RegistryOptions

_USER_INFO, _URL = f"{PREFIX}basic.auth.user.info", f"{PREFIX}url"
_SOURCE = f"{PREFIX}basic.auth.credentials.source"
_TOKEN_SOURCE = f"{PREFIX}bearer.auth.credentials.source"
_OF_TOKENS = {
    "STATIC_TOKEN": ("bearer.auth.token",),
    "OAUTHBEARER": tuple(f"bearer.auth.{n}" for n in ("client.id", "client.secret", "scope", "issuer.endpoint.url")),
    "OAUTHBEARER_AZURE_IMDS": ("bearer.auth.issuer.endpoint.url",),
}


def parse_formats(given: OptionParser, subscription: Subscription | None = None) -> FormatOptions | None:
    """Parse the formats of key and value for a read of a subscription, or for a write. Return None if both are binary."""
    is_read = given.scope != "write"
    found = [_column(given, "key"), _column(given, "value")]
    columns = tuple(column for column in found if column is not None)
    latest = given.value("use.latest.version")
    auto = not is_read and given.value("auto.register.schemas", not latest)
    options = FormatOptions(columns, registry=_registry(given), auto_register=auto, **given.fields(FormatOptions))
    for column in columns:
        if column.is_confluent and is_read:
            _check_read_subject(given, column, subscription)
        if column.is_confluent and latest:
            _check_latest_version(given, column)
    return options if columns else None


def _column(given: OptionParser, column: str) -> ColumnFormat | None:
    found = ColumnFormat(column, **given.fields(ColumnFormat, column))
    given.refuse_if(
        found.rules.needs_schema
        and not found.is_confluent
        and not given.has(f"{column}.schema")
        and given.scope != "write",
        f"{column}.format={found.name} needs {column}.schema",
    )
    return None if found.name == "binary" else found


def _check_read_subject(given: OptionParser, column: ColumnFormat, subscription: Subscription | None) -> None:
    """Refuse a read whose subject cannot be known before records are read."""
    if column.schema is not None or column.subject is not None:
        return
    remedy = f"set {column.column}.subject or {column.column}.schema"
    given.refuse_if(
        column.strategy != "topic",
        f"the subject of {column.column} depends on the record's name; {remedy} instead of "
        f"{column.column}.subject.name.strategy",
    )
    given.refuse_if(
        subscription is not None and not isinstance(subscription, (Subscribe, Assign)),
        f"a pattern does not say which subject gives the type of the column {column.column}; {remedy}",
    )


def _check_latest_version(given: OptionParser, column: ColumnFormat) -> None:
    """Refuse a write that cannot encode by the latest version of a subject."""
    given.refuse_if(
        column.subject is None and column.strategy != "topic",
        f"the subject of {column.column} depends on the record's name; set {column.column}.subject instead of "
        f"{column.column}.subject.name.strategy",
    )
    given.refuse_if(
        column.schema is not None,
        f"use.latest.version encodes by the subject's schema; leave out {column.column}.schema",
    )


def _registry(given: OptionParser) -> RegistryOptions | None:
    values = {option.name: given.value(option.name) for option in REGISTRY}
    urls, logins = values.pop(_URL) or ((), set())
    in_urls = next((login for login in logins if login is not None), None)
    given.refuse_if(
        in_urls is not None and len(logins) > 1,
        f"the addresses in {_URL} have different logins, and each address gets the same one; set {_USER_INFO} instead",
    )
    source, user_info, token_source = values.pop(_SOURCE), values[_USER_INFO], values[_TOKEN_SOURCE]
    given.refuse_if(source == "URL" and in_urls is None, f"{_SOURCE}=URL needs user:password@ in {_URL}")
    given.refuse_if(
        user_info is not None and (source == "URL" or in_urls is not None),
        f"{_USER_INFO} and credentials in {_URL} exclude each other; set only one",
    )
    values[_USER_INFO] = user_info or in_urls
    given.refuse_if(
        ":" not in (values[_USER_INFO] or ":"),
        "the user and password of the schema registry are malformed; expected user:password",
    )
    given.refuse_if(
        any(".bearer.auth." in name and given.has(name) for name in values) and (values[_USER_INFO] or source) is not None,
        f"{PREFIX}basic.auth.* and {PREFIX}bearer.auth.* are two logins; set only one",
    )
    lacking = [name for name in _OF_TOKENS.get(token_source, ()) if not given.has(PREFIX + name)]
    given.refuse_if(bool(lacking), f"{_TOKEN_SOURCE}={token_source} needs {' and '.join(PREFIX + n for n in lacking)}")
    properties = tuple((name.removeprefix(PREFIX), value) for name, value in values.items() if value is not None)
    return RegistryOptions(urls, properties) if urls else None
