"""Kinds of option values: their written forms and readers.

Times and durations may be written as in Spark's configuration and intervals, in ISO 8601, or as "10 minutes ago".
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from pyspark_zkafka.conditions import INVALID_OPTION, INVALID_OPTIONS
from pyspark_zkafka.errors import OptionError, excerpt
from pyspark_zkafka.model.java_patterns import FilterError
from pyspark_zkafka.model.nouns import ClaimOwner, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Ago, AtTimestamp, FromEdge, NamedPosition, OffsetSpec
from pyspark_zkafka.model.planning import Assign, Subscribe, SubscribePattern
from pyspark_zkafka.model.topic_names import describe_bad_names, topic_filter
from pyspark_zkafka.model.znodes.codec import is_znode_path
from pyspark_zkafka.options.values import CONFLUENT_FORMATS, FORMATS

_Word = TypeVar("_Word")

_ASSIGN_FORM = '{"topicA": [0, 1], "topicB": [2]}'
_STARTS = "earliest, latest (stream), earliest+100, latest-100, committed, or JSON"
_ENDS = "latest, latest-100, earliest+100, or JSON"
_OFFSETS_FORM = (
    '{"topicA": {"0": 23, "1": -2, "2": "latest-100"}, "topicB": "earliest+100"}, with -2 or earliest, and -1 or latest'
)
_COMMIT_FORM = 'offsets of 0 or more by partition: {"topicA": {"0": 23}}'
_TIMESTAMPS_FORM = '{"topicA": {"0": 1700000000000, "1": 1700000000000}}, in milliseconds since the epoch'
_FROM_EDGE = re.compile(r"(earliest|latest)(?:\s*([+-])\s*([0-9]{1,18}))?", re.IGNORECASE)
_SHOWN_CHARACTERS = 200
_INT64 = range(-(2**63), 2**63)
INT32 = 2**31 - 1
"""The largest value of 32 bits: of Java's options, of ZooKeeper's protocol, and of waits in ms."""

_SERVER = re.compile(r"(?P<host>[^\s:,\[\]]+|\[[0-9a-fA-F:.]+\])(:(?P<port>[0-9]{1,5}))?")
_NO_KERBEROS = (
    "; Kerberos to ZooKeeper is not supported, use one of these or certificates (zookeeper.ssl.keystore.location)"
)
_REGISTRY_URL = re.compile(
    r"(?P<scheme>https?://)((?P<login>[^/@?#]*)@)?"
    r"(?P<place>(\[[0-9A-Fa-f:.]+\]|[^/@?#:\[\]\s]+)(:(?P<port>[0-9]{1,5}))?(/[^@?#\s]*)?)"
)
PORTS = range(1, 65_536)
"""Port numbers to which a client can connect."""

_FILE_NAME = re.compile(r"[^\s{]+\.\w{1,10}")

_DURATION_FORM = (
    'a duration such as 15m, 10s, 500ms or "1 hour 30 minutes": whole numbers of us, ms, s, m (or min), h, d or the whole '
    "words, up to weeks; a number alone is milliseconds"
)
_MICROSECONDS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("", "ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("week", "weeks"), 604_800_000_000),
}
_ISO_DURATION_FORM = 'PnDTnHnMnS, such as P7D or PT1H30M, or words such as "90 minutes"'
_ISO_DURATION = re.compile(  # P and T must not be the last characters
    r"(?P<sign>[-+]?)P(?=.)(?:(?P<days>[-+]?[0-9]{1,12})D)?"
    r"(?:T(?=.)(?:(?P<hours>[-+]?[0-9]{1,12})H)?(?:(?P<minutes>[-+]?[0-9]{1,12})M)?"
    r"(?:(?P<seconds>[-+]?[0-9]{1,12}(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)
_DATETIME_FORM = "a time such as 2026-01-31T10:00:00Z or with +01:00 (without: UTC), a date (from 00:00 UTC)"
_DATETIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:(?<=:[0-9]{2}:[0-9]{2})\.(?P<fraction>[0-9]{1,9}))?"
    r"(?P<zone>Z|[-+][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_TIME_FORM = f'milliseconds since the epoch, {_DATETIME_FORM}, or "10 minutes ago"'
_AGO = re.compile(r"(?P<duration>.*[a-z])\s+ago", re.IGNORECASE | re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of option values: their written form, for docs/options.md, and their reader.

    The reader takes an option's name and a stripped text. It raises ValueError with the expected form, or OptionError with
    the whole problem.
    """

    form: str
    read: Callable[[str, str], Any]


def integer(at_least: int, unit: str = "", at_most: int | None = None, read_as_most: int | None = None) -> Kind:
    """A whole number with bounds and a unit. By default it has 64 bits, as in Spark's own source.

    A number above `read_as_most` is accepted and read as `read_as_most`.
    """
    most = 2**63 - 1 if at_most is None else at_most

    def read(_: str, value: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,19}", value) and at_least <= int(value) <= most:
            return int(value) if read_as_most is None else min(int(value), read_as_most)
        is_large = re.fullmatch(r"[+]?[0-9]*[1-9][0-9]*", value) is not None  # a number below at_least is 0 or negative
        bounds = f" from {at_least} to {most}" if is_large else f", {at_least} or more"
        raise ValueError(f"a whole number{bounds}")

    bound = "> 0" if at_least == 1 else f">= {at_least}"
    if at_most is not None:
        bound = f"from {at_least} to {at_most}"
    return Kind(f"integer {bound}" + (f", {unit}" if unit else ""), read)


def choice(*words: str, form: str = "", **values: Any) -> Kind:
    """A case-insensitive choice of words. Each of `words` is its own value. `values` maps words in lower case to values."""
    known = {word.lower(): word for word in words} | values
    form = form or " or ".join((*words, *values))

    def read(_: str, value: str) -> Any:
        if value.lower() not in known:
            raise ValueError(form)
        return known[value.lower()]

    return Kind(form, read)


def text(form: str = "text") -> Kind:
    """Text that is not empty."""
    return Kind(form, _read_text)


def _read_text(option: str, value: str) -> str:
    if not value:
        raise INVALID_OPTIONS(f"{option} must not be empty; set a value or leave it out")
    return value


def _read_id_part(_: str, value: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,100}", value):
        raise ValueError("1 to 100 letters, digits, '.', '_' and '-'")
    return value


def _read_ensemble(_: str, text: str) -> tuple[str, str]:
    """Return the hosts with their ports, and the chroot."""
    hosts, slash, path = text.partition("/")
    chroot = (slash + path).rstrip("/")
    servers = [_SERVER.fullmatch(server.strip()) for server in hosts.split(",")]
    found = [(server["host"], int(server["port"] or 2181)) for server in servers if server is not None]
    is_path = chroot == "" or (is_znode_path(chroot) and not re.search(r"[\s,]", chroot))
    if len(found) < len(servers) or not is_path or not all(port in PORTS for _, port in found):
        raise ValueError("host:port[,host:port...][/chroot], e.g. zk1:2181,zk2:2181/kafka")
    return ",".join(f"{host}:{port}" for host, port in found), chroot


def _read_auth(_: str, text: str) -> tuple[str, str]:
    """Return the scheme and the credential."""
    if not re.fullmatch(r"(?i:digest):[^:]+:.+|(?i:sasl:digest-md5):[^:]+:.+", text):
        kerberos = re.match(r"(?i:sasl:gssapi\b|kerberos\b)", text) is not None
        raise ValueError("digest:user:password or sasl:DIGEST-MD5:user:password" + _NO_KERBEROS * kerberos)
    scheme, _, credential = text.partition(":")
    return scheme.lower(), credential


def _read_pem_store(option: str, value: str) -> str:
    if value.lower().endswith((".jks", ".p12", ".pfx")):
        raise INVALID_OPTIONS(
            f"{value} is not a PEM file; convert it to PKCS12 with keytool, then to PEM with openssl pkcs12",
        )
    return _read_text(option, value)


def _read_token(option: str, value: str) -> str:
    if re.fullmatch("[!-~]+", _read_text(option, value)) is None:
        raise ValueError("printable ASCII without blanks and line breaks")
    return value


def _read_registry_urls(_: str, text: str) -> tuple[tuple[str, ...], set[str | None]]:
    """Return the addresses without logins, and the logins. None stands for an address without a login."""
    urls = [url.strip().rstrip("/") for url in text.split(",") if url.strip()]
    matches = [_REGISTRY_URL.fullmatch(url) for url in urls]
    found = [match for match in matches if match is not None and int(match["port"] or 1) in PORTS]
    if not found or len(found) < len(urls):
        raise ValueError(
            "http(s)://host:port[/path][,...], without a query and with a port of 1 to 65535; percent-encode / @ ? # and , "
            "in a password"
        )
    logins = {None if match["login"] is None else unquote(match["login"]) for match in found}
    return tuple(match["scheme"] + match["place"] for match in found), logins


def _read_topic(option: str, text: str) -> str:
    _require_topic_names(option, [_read_text(option, text)])
    return text


def _read_topics(option: str, text: str) -> Subscribe:
    topics = tuple(topic.strip() for topic in text.split(",") if topic.strip())
    if not topics:
        raise INVALID_OPTION(f"{option} names no topic; expected topic[,topic...]")
    _require_topic_names(option, topics)
    return Subscribe(topics)


def _require_topic_names(option: str, names: Iterable[str]) -> None:
    if (problem := describe_bad_names(option, names)) is not None:
        raise INVALID_OPTION(problem)


def _read_regex(text: str) -> str:
    if not text:
        raise ValueError("a regular expression that is not empty")
    try:
        topic_filter(text)
    except FilterError as error:
        raise ValueError(f"a Java regular expression that matches in bounded time ({error})") from None
    return text


def _read_assignment(option: str, text: str) -> Assign:
    found: set[TopicPartition] = set()
    for topic, numbers in _json_object(option, text, _ASSIGN_FORM).items():
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n <= INT32 for n in numbers):
            raise _malformed(option, text, _ASSIGN_FORM)
        found.update(TopicPartition(topic, n) for n in numbers)
    if not found:
        raise _malformed(option, text, _ASSIGN_FORM)
    return Assign(tuple(sorted(found)))


def parse_position(text: str) -> NamedPosition | None:
    """Return the position that a word names. None for any other text.

    >>> parse_position("earliest"), parse_position("latest-100"), parse_position("latest+100")
    (-2, FromEdge(edge=-1, records=-100), None)
    """
    match = _FROM_EDGE.fullmatch(text.strip())
    if match is None:
        return None
    is_latest = match[1].lower() == "latest"
    edge = LATEST if is_latest else EARLIEST
    if match[2] is None:
        return edge
    records = int(match[2] + match[3])
    return FromEdge(edge, records) if match[2] == ("-" if is_latest else "+") else None


def _offsets(form: str) -> Kind:
    """Offsets by partition, or words for all partitions, the partitions of a topic, or one partition.

    Follows JsonUtils and KafkaSourceProvider of Spark 4.2, and SPARK-58774 for the form by topic.
    """

    def read(option: str, text: str) -> OffsetSpec:
        if text.lower() == "committed":
            return OffsetSpec(option, everywhere="committed")
        if (everywhere := parse_position(text)) is not None:
            return OffsetSpec(option, everywhere=everywhere)
        by_topic: dict[str, NamedPosition] = {}
        by_partition: dict[TopicPartition, NamedPosition] = {}
        for topic, given in _json_object(option, text, f"{form}: {_OFFSETS_FORM}").items():
            if isinstance(given, str) and (position := parse_position(given)) is not None:
                by_topic[topic] = position
            else:
                by_partition |= _by_partition(option, topic, given, _OFFSETS_FORM, parse_position)
        for offset in by_partition.values():
            if isinstance(offset, int) and offset < EARLIEST:
                raise INVALID_OPTION(f"{option} has the offset {offset}; use 0 or more, -1 or -2")
        return OffsetSpec(option, by_topic=by_topic, by_partition=by_partition)

    return Kind(form, read)


def _read_numbers(option: str, text: str, form: str) -> dict[TopicPartition, int]:
    """Read a number of 0 or more for each partition."""
    found: dict[TopicPartition, int] = {}
    for topic, given in _json_object(option, text, form).items():
        found |= _by_partition(option, topic, given, form)
    if min(found.values()) < 0:
        raise _malformed(option, text, form)
    return found


def _read_timestamps(option: str, text: str) -> OffsetSpec:
    found = _read_numbers(option, text, _TIMESTAMPS_FORM)
    return OffsetSpec(option, by_partition={tp: AtTimestamp(ms) for tp, ms in found.items()})


def _by_partition(
    option: str, topic: str, given: object, form: str, word: Callable[[str], _Word | None] = lambda _: None
) -> dict[TopicPartition, int | _Word]:
    """Read the positions of a topic's partitions, from ``{"0": 23}``. `word` reads a text, or returns None to refuse it."""
    found: dict[TopicPartition, int | _Word] = {}
    for partition, position in given.items() if isinstance(given, dict) else ():
        is_partition = re.fullmatch("[0-9]{1,10}", partition) is not None and int(partition) <= INT32
        is_offset = type(position) is int and position in _INT64
        value = position if is_offset else word(position) if isinstance(position, str) else None
        if not is_partition or value is None:
            found = {}
            break
        tp = TopicPartition(topic, int(partition))
        if tp in found:
            raise _repeated(option, tp)
        found[tp] = value
    if not found:
        try:
            shown = json.dumps({topic: given})
        except RecursionError:
            shown = f"{topic}: JSON that is nested too deeply"
        raise _malformed(option, shown, form)
    return found


def _json_object(option: str, text: str, form: str) -> dict[str, object]:
    """Read a JSON object that has topics as keys and is not empty. Refuses repeated keys: Spark drops all but the last."""

    def with_unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                raise _repeated(option, repr(key[:_SHOWN_CHARACTERS]))
            found[key] = value
        return found

    try:
        found = json.loads(text, object_pairs_hook=with_unique_keys)
    except (ValueError, RecursionError):
        raise _malformed(option, text, form) from None
    if not isinstance(found, dict) or not found:
        raise _malformed(option, text, form)
    _require_topic_names(option, found)
    return found


def _repeated(option: str, name: object) -> OptionError:
    return INVALID_OPTION(f"{option} names {name} more than once; name each topic and each partition once")


def _malformed(option: str, text: str, form: str) -> OptionError:
    return INVALID_OPTION(f"{option} is {excerpt(text, _SHOWN_CHARACTERS)!r}; expected {form}")


def parse_duration_ms(text: str) -> int:
    """Return a duration in milliseconds, rounded down. Raises ValueError with the expected form.

    Accepts the suffixes of Spark's configuration (JavaUtils.timeStringAs, Spark 4.2) and the words of its interval strings,
    also several in a row, all case-insensitive.

    >>> parse_duration_ms("15m"), parse_duration_ms("1 hour 30 minutes"), parse_duration_ms("250")
    (900000, 5400000, 250)
    """
    words = re.sub(r"^interval\s+", "", text.strip().lower())
    parts = re.findall(r"([0-9]+)\s*([a-z]*)\s*", words)
    well_formed = re.fullmatch(r"[0-9]{1,18}|([0-9]{1,18}\s*[a-z]+\s*)+", words)
    if not well_formed or any(unit not in _MICROSECONDS for _, unit in parts):
        raise ValueError(_DURATION_FORM)
    return sum(int(number) * _MICROSECONDS[unit] for number, unit in parts) // 1_000


def parse_iso_duration_ms(text: str) -> int:
    """Return a duration in milliseconds. Raises ValueError with the expected form.

    Accepts ``PnDTnHnMn.nS`` of ISO 8601, as Java's Duration reads it, and what `parse_duration_ms` accepts with a unit.

    >>> parse_iso_duration_ms("P1DT2H"), parse_iso_duration_ms("PT0.5S"), parse_iso_duration_ms("90 minutes")
    (93600000, 500, 5400000)
    """
    text = text.strip()
    if text.isdecimal():
        raise ValueError(_ISO_DURATION_FORM)
    match = _ISO_DURATION.fullmatch(text)
    if match is None:
        try:
            return parse_duration_ms(text)
        except ValueError:
            raise ValueError(_ISO_DURATION_FORM) from None
    parts = {name: match[name] for name in ("days", "hours", "minutes", "seconds") if match[name]}
    try:
        length = timedelta(**{name: float(number.replace(",", ".")) for name, number in parts.items()})
    except OverflowError:
        raise ValueError(f"{_ISO_DURATION_FORM}, of at most 999999999 days") from None
    return (length // timedelta(milliseconds=1)) * (-1 if match["sign"] == "-" else 1)


def parse_datetime_ms(text: str) -> int:
    """Return a time of ISO 8601 in milliseconds since the epoch. Raises ValueError with the expected form.

    Without a zone, the time is in UTC, as for Kafka's tools. A date alone is its first moment in UTC.

    >>> parse_datetime_ms("2026-11-22T14:00:00.000"), parse_datetime_ms("2026-11-22T15:00:00+01:00")
    (1795356000000, 1795356000000)
    """
    match = _DATETIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)
        digits = (match["zone"] or "Z").replace("Z", "+").replace(":", "").ljust(5, "0")
        found = datetime.fromisoformat(f"{match['day']}T{match['time'] or '00:00'}{digits[:3]}:{digits[3:]}")
        ms = (found - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(_DATETIME_FORM) from None
    return ms + int((match["fraction"] or "0").ljust(3, "0")[:3])


def parse_time(text: str) -> AtTimestamp | Ago:
    """Return a point in time. Raises ValueError with the expected forms.

    Accepts milliseconds since the epoch, any form that `parse_datetime_ms` accepts, and a duration with the word ``ago``.

    >>> parse_time("1700000000000"), parse_time("1970-01-02"), parse_time("1 hour 30 minutes ago")
    (AtTimestamp(timestamp_ms=1700000000000), AtTimestamp(timestamp_ms=86400000), Ago(ms=5400000))
    """
    text = text.strip()
    if re.fullmatch(r"[+]?[0-9]{1,18}", text):
        return AtTimestamp(int(text))
    try:
        if ago := _AGO.fullmatch(text):
            return Ago(min(parse_duration_ms(ago["duration"]), _MAX_MS))
        found_ms = parse_datetime_ms(text)
    except ValueError:
        raise ValueError(_TIME_FORM) from None
    if found_ms < 0:
        raise ValueError(f"{_TIME_FORM}, from 1970 on")
    return AtTimestamp(found_ms)


def _read_schema(option: str, value: str) -> str:
    """Return a schema that is given inline, or the content of the named file: text, or bytes in base64."""
    try:
        content = Path(_read_text(option, value)).read_bytes()
    except (OSError, ValueError) as error:
        if _FILE_NAME.fullmatch(value):
            raise INVALID_OPTION(f"{option} names the file {value}, which cannot be read: {error}") from None
        return value
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return base64.b64encode(content).decode()


def _read_version(option: str, value: str) -> int | None:
    return None if value.lower() == "latest" else int(integer(1, at_most=INT32).read(option, value))


BOOLEAN = choice(true=True, false=False)
FORMAT = choice(*FORMATS, *CONFLUENT_FORMATS)
SCHEMA = Kind("schema, or path of a file with it", _read_schema)
SCHEMA_VERSION = Kind("latest, or integer > 0", _read_version)
SUBJECT_STRATEGY = choice(
    form="TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy",
    topicnamestrategy="topic",
    recordnamestrategy="record",
    topicrecordnamestrategy="topic-record",
)
PARSE_MODE = choice("FAILFAST", "PERMISSIVE", "DROPMALFORMED", form="FAILFAST, PERMISSIVE or DROPMALFORMED")
CREDENTIALS_SOURCE = choice("USER_INFO", "URL")
TOKEN_SOURCE = choice(
    "STATIC_TOKEN", "OAUTHBEARER", "OAUTHBEARER_AZURE_IMDS", form="STATIC_TOKEN, OAUTHBEARER or OAUTHBEARER_AZURE_IMDS"
)
DURATION = Kind("duration, e.g. 15m", lambda _, text: parse_duration_ms(text))
ID_PART = Kind("letters, digits, '.', '_' and '-'", _read_id_part)
ENSEMBLE = Kind("host:port[,host:port...][/chroot]", _read_ensemble)
ZOOKEEPER_AUTH = Kind("digest:user:password or sasl:DIGEST-MD5:user:password", _read_auth)
HOST_NAME_CHECK = choice(form="https, or none or empty to skip the check", https=True, none=False, **{"": False})
PEM_FILE = text("PEM file")
PEM_STORE = Kind("PEM file", _read_pem_store)
TOKEN = Kind("text", _read_token)
REGISTRY_URLS = Kind("http(s)://host:port[,...]", _read_registry_urls)
TOPIC = Kind("text", _read_topic)
TOPIC_LIST = Kind("topic[,topic...]", _read_topics)
PATTERN = Kind("regular expression", lambda _, text: SubscribePattern(_read_regex(text)))
EXCEPT_PATTERN = Kind("regular expression", lambda _, text: SubscribePattern(_read_regex(text), excludes=True))
PARTITIONS = Kind('JSON {"topic": [0, 1]}', _read_assignment)
STARTING_OFFSETS = _offsets(_STARTS)
ENDING_OFFSETS = _offsets(_ENDS)
OFFSETS_TO_COMMIT = Kind('JSON {"topic": {"0": 23}}', lambda option, text: _read_numbers(option, text, _COMMIT_FORM))
TIMESTAMP = Kind(
    "ms since the epoch, ISO 8601, or 10 minutes ago", lambda option, text: OffsetSpec(option, everywhere=parse_time(text))
)
TIMESTAMPS = Kind('JSON {"topic": {"0": ms}}', _read_timestamps)
CLAIM_OWNER = Kind("member@session", lambda _, text: ClaimOwner.parse(text))
RESET_POLICY = choice(
    "earliest",
    "latest",
    "error",
    form="earliest (smallest), latest (largest) or error",
    smallest="earliest",
    largest="latest",
)
