"""Parse the options of formats and of the schema registry."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark_zkafka.model.planning import Assign, Subscribe, Subscription
from pyspark_zkafka.options.parser import OptionParser
from pyspark_zkafka.options.table import REGISTRY
from pyspark_zkafka.options.values import ColumnFormat, FormatOptions, ParseMode, RegistryOptions

_PREFIX = "schema.registry."
_OF_WRITES = ("auto.register.schemas", "use.latest.version", "normalize.schemas")
_OF_SUBJECTS = ("subject", "subject.name.strategy", "schema.version")
_USER_INFO, _URL = f"{_PREFIX}basic.auth.user.info", f"{_PREFIX}url"
_SOURCE = f"{_PREFIX}basic.auth.credentials.source"
_TOKEN_SOURCE = f"{_PREFIX}bearer.auth.credentials.source"
_OF_TOKENS = {
    "STATIC_TOKEN": ("bearer.auth.token",),
    "OAUTHBEARER": tuple(f"bearer.auth.{n}" for n in ("client.id", "client.secret", "scope", "issuer.endpoint.url")),
    "OAUTHBEARER_AZURE_IMDS": ("bearer.auth.issuer.endpoint.url",),
}
_TOKEN = f"{_PREFIX}bearer.auth.token"
_BAD_LOGIN = "the user and password of the schema registry are malformed; expected user:password"
_ADDRESS = re.compile(
    r"(?P<scheme>https?://)((?P<login>[^/@?#]*)@)?"
    r"(?P<place>(\[[0-9A-Fa-f:.]+\]|[^/@?#:\[\]\s]+)(:(?P<port>[0-9]{1,5}))?(/[^@?#\s]*)?)"
)
_LAST_PORT = 65535


def parse_formats(given: OptionParser, subscription: Subscription | None = None) -> FormatOptions | None:
    """Parse the formats of key and value, for a read of a subscription or for a write; None if both are binary."""
    is_read = given.scope != "write"
    found = [_column(given, "key"), _column(given, "value")]
    columns = tuple(column for column in found if column is not None)
    confluent = [column for column in columns if column.is_confluent]
    registry = _registry(given)
    auto, latest, normalize = _registration(given, columns=bool(confluent))
    named = " and ".join(f"{column.column}.format={column.name}" for column in confluent)
    given.refuse_if(bool(confluent) and not given.has(_URL), f"{named} need(s) schema.registry.url")
    idle = [option.name for option in REGISTRY if given.has(option.name)]
    given.refuse_if(
        bool(idle) and not confluent,
        f"{' and '.join(idle)} need(s) a format of Confluent, such as value.format=avro-confluent",
    )
    mode: ParseMode = given.value("mode") if is_read else "FAILFAST"
    given.refuse_if(given.has("mode") and not columns, "mode is about decoding; set value.format or key.format")
    for column in confluent:
        if is_read:
            _check_read_subject(given, column, subscription)
        given.refuse_if(
            latest and column.subject is None and column.strategy != "topic",
            f"the subject of {column.column} depends on the record's name; set {column.column}.subject instead of "
            f"{column.column}.subject.name.strategy",
        )
        given.refuse_if(
            latest and column.schema is not None,
            f"use.latest.version encodes by the subject's schema; leave out {column.column}.schema",
        )
    return FormatOptions(columns, mode, registry, auto, latest, normalize) if columns else None


def _column(given: OptionParser, column: str) -> ColumnFormat | None:
    name = given.value(f"{column}.format")
    found = ColumnFormat(
        column,
        name,
        given.value(f"{column}.schema"),
        given.value(f"{column}.schema.message"),
        given.value(f"{column}.schema.version") if given.scope != "write" else None,
        given.value(f"{column}.subject"),
        given.value(f"{column}.subject.name.strategy"),
    )
    shown = f"{column}.format={name}"
    given.refuse_if(
        given.has(f"{column}.schema") and not found.rules.has_schema,
        f"{column}.schema has no effect with {shown}; set {column}.format to the schema's format, or leave it out",
    )
    given.refuse_if(
        given.has(f"{column}.schema.message") and not found.rules.has_messages,
        f"{column}.schema.message names a Protobuf message, and has no effect with {shown}; leave it out",
    )
    given.refuse_if(
        found.rules.needs_schema
        and not found.is_confluent
        and not given.has(f"{column}.schema")
        and given.scope != "write",
        f"{shown} needs {column}.schema",
    )
    if not found.is_confluent:
        of_subjects = [f"{column}.{option}" for option in _OF_SUBJECTS]
        given.refuse_each(of_subjects, f"concerns a schema registry, and has no effect with {shown}; leave it out")
    given.refuse_if(
        given.has(f"{column}.subject") and given.has(f"{column}.subject.name.strategy"),
        f"{column}.subject and {column}.subject.name.strategy exclude each other; set only one",
    )
    given.refuse_if(
        given.has(f"{column}.schema") and given.has(f"{column}.schema.version") and found.is_confluent,
        f"{column}.schema and {column}.schema.version both give the column's type; set only one",
    )
    return None if name == "binary" else found


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


def _registration(given: OptionParser, *, columns: bool) -> tuple[bool, bool, bool]:
    if given.scope != "write":
        return False, False, False
    latest = given.value("use.latest.version")
    auto = given.value("auto.register.schemas", not latest)
    given.refuse_if(
        auto and latest, "auto.register.schemas=true and use.latest.version=true contradict each other; set only one"
    )
    idle = [name for name in _OF_WRITES if given.has(name)]
    given.refuse_if(bool(idle) and not columns, f"{' and '.join(idle)} need(s) a format of Confluent")
    return auto, latest, given.value("normalize.schemas")


def _registry(given: OptionParser) -> RegistryOptions | None:
    values = {option.name: given.value(option.name) for option in REGISTRY}
    found = [url.strip().rstrip("/") for url in (values.pop(_URL) or "").split(",") if url.strip()]
    matches = [_ADDRESS.fullmatch(url) for url in found]
    parts = [part for part in matches if part is not None and 0 < int(part["port"] or 1) <= _LAST_PORT]
    urls = tuple(part["scheme"] + part["place"] for part in parts)
    logins = {None if part["login"] is None else unquote(part["login"]) for part in parts}
    in_urls = next((login for login in logins if login is not None), None)
    given.refuse_if(
        given.has(_URL) and (not urls or len(urls) < len(found)),
        f"{_URL} is malformed; expected http(s)://host:port[/path][,...], without a query and with a port of 1 to "
        f"{_LAST_PORT}; percent-encode / @ ? # and , in a password",
    )
    given.refuse_if(
        in_urls is not None and len(logins) > 1,
        f"the addresses in {_URL} have different logins, and each address gets the same one; set {_USER_INFO} instead",
    )
    source, user_info, token_source = values.pop(_SOURCE), values[_USER_INFO], values[_TOKEN_SOURCE]
    given.refuse_if(source == "USER_INFO" and user_info is None, f"{_SOURCE}=USER_INFO needs {_USER_INFO}")
    given.refuse_if(source == "URL" and in_urls is None, f"{_SOURCE}=URL needs user:password@ in {_URL}")
    given.refuse_if(
        user_info is not None and (source == "URL" or in_urls is not None),
        f"{_USER_INFO} and credentials in {_URL} exclude each other; set only one",
    )
    values[_USER_INFO] = user_info or in_urls
    given.refuse_if(":" not in (values[_USER_INFO] or ":"), _BAD_LOGIN)
    bearer = [name for name in values if ".bearer.auth." in name and given.has(name)]
    given.refuse_if(bool(bearer) and token_source is None, f"{' and '.join(bearer)} need(s) {_TOKEN_SOURCE}")
    given.refuse_if(
        bool(bearer) and (values[_USER_INFO] or source) is not None,
        f"{_PREFIX}basic.auth.* and {_PREFIX}bearer.auth.* are two logins; set only one",
    )
    given.refuse_if(
        re.fullmatch("[!-~]+", values[_TOKEN] or "-") is None,
        f"{_TOKEN} is malformed; expected printable ASCII without blanks and line breaks",
    )
    lacking = [name for name in _OF_TOKENS.get(token_source, ()) if not given.has(_PREFIX + name)]
    given.refuse_if(bool(lacking), f"{_TOKEN_SOURCE}={token_source} needs {' and '.join(_PREFIX + n for n in lacking)}")
    given.refuse_if(
        given.has(f"{_PREFIX}ssl.key.location") and not given.has(f"{_PREFIX}ssl.certificate.location"),
        f"{_PREFIX}ssl.key.location needs {_PREFIX}ssl.certificate.location",
    )
    properties = tuple((name.removeprefix(_PREFIX), value) for name, value in values.items() if value is not None)
    return RegistryOptions(urls, properties) if urls else None
