"""Kinds of option values, each with its written form and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.durations import parse_duration_ms
from pyspark_zkafka.protocol.model import ClaimOwner
from pyspark_zkafka.protocol.offset_options import parse_assignment, parse_offsets, parse_timestamps
from pyspark_zkafka.protocol.offsets import AtTimestamp, OffsetSpec
from pyspark_zkafka.protocol.planning import Assign, SubscribeExcept, SubscribePattern
from pyspark_zkafka.protocol.topic_filters import FilterError, topic_filter
from pyspark_zkafka.protocol.znodes.paths import is_znode_path

__all__ = [
    "BOOLEAN",
    "CLAIM_OWNER",
    "DURATION",
    "ENDING_OFFSETS",
    "ENSEMBLE",
    "EXCEPT_PATTERN",
    "HOST_NAME_CHECK",
    "ID_PART",
    "OFFSETS_TO_COMMIT",
    "PARTITIONS",
    "PATTERN",
    "PEM_FILE",
    "RESET_POLICY",
    "STARTING_OFFSETS",
    "TIMESTAMP",
    "TIMESTAMPS",
    "ZOOKEEPER_AUTH",
    "Kind",
    "choice",
    "integer",
    "text",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of option values: their written form, for docs/options.md, and their reader.

    The reader takes an option's name and a text without blanks around it. It raises ValueError with what is expected, or
    OptionError with the whole problem.
    """

    form: str
    read: Callable[[str, str], Any]


def integer(at_least: int, unit: str = "") -> Kind:
    """A whole number of at most 18 digits, with its lower bound and its unit."""

    def read(_: str, value: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", value) or int(value) < at_least:
            raise ValueError(f"a whole number, {at_least} or more")
        return int(value)

    bound = "> 0" if at_least == 1 else f">= {at_least}"
    return Kind(f"integer {bound}" + (f", {unit}" if unit else ""), read)


def choice(*words: str, form: str = "", **values: Any) -> Kind:
    """A choice of words, in any case of letters: each of `words` is its own value, `values` have others."""
    known = dict(zip(words, words, strict=True)) | values
    form = form or " or ".join(known)

    def read(_: str, value: str) -> Any:
        if value.lower() not in known:
            raise ValueError(form)
        return known[value.lower()]

    return Kind(form, read)


def text(form: str = "text") -> Kind:
    """Text that is not empty."""

    def read(option: str, value: str) -> str:
        if not value:
            raise OptionError("INVALID_OPTIONS", f"{option} must not be empty; set a value or leave it out")
        return value

    return Kind(form, read)


_SERVER = re.compile(r"(?P<host>[^\s:,\[\]]+|\[[0-9a-fA-F:.]+\])(:(?P<port>[0-9]{1,5}))?")


def _split_connect(_: str, text: str) -> tuple[str, str]:
    hosts, slash, path = text.partition("/")
    chroot = (slash + path).rstrip("/")
    servers = [_SERVER.fullmatch(server.strip()) for server in hosts.split(",")]
    found = [(server["host"], int(server["port"] or 2181)) for server in servers if server is not None]
    is_path = chroot == "" or (is_znode_path(chroot) and not re.search(r"[\s,]", chroot))
    if len(found) < len(servers) or not is_path or not all(0 < port < 65536 for _, port in found):
        raise ValueError("host:port[,host:port...][/chroot], e.g. zk1:2181,zk2:2181/kafka")
    return ",".join(f"{host}:{port}" for host, port in found), chroot


_NO_KERBEROS = (
    "; Kerberos to ZooKeeper is not supported: use one of these, or certificates (zookeeper.ssl.keystore.location)"
)


def _split_auth(_: str, text: str) -> tuple[str, str]:
    if not re.fullmatch(r"(?i:digest):[^:]+:.+|(?i:sasl:digest-md5):[^:]+:.+", text):
        kerberos = re.match(r"(?i:sasl:gssapi\b|kerberos\b)", text) is not None
        raise ValueError("digest:user:password or sasl:DIGEST-MD5:user:password" + _NO_KERBEROS * kerberos)
    scheme, _, credential = text.partition(":")
    return scheme.lower(), credential


def _regex(text: str) -> str:
    if not text:
        raise ValueError("a regular expression that is not empty")
    try:
        topic_filter(text)
    except FilterError as error:
        raise ValueError(f"a regular expression of Java's that is matched in a bounded time ({error})") from None
    return text


def _id_part(_: str, text: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,100}", text):
        raise ValueError("1 to 100 letters, digits, '.', '_' and '-'")
    return text


def _at_timestamp(option: str, text: str) -> OffsetSpec:
    return OffsetSpec(option, everywhere=AtTimestamp(integer(0).read(option, text)))


BOOLEAN = choice(true=True, false=False)
DURATION = Kind("duration, e.g. 15m", lambda _, text: parse_duration_ms(text))
ENSEMBLE = Kind("host:port[,host:port...][/chroot]", _split_connect)
ZOOKEEPER_AUTH = Kind("digest:user:password or sasl:DIGEST-MD5:user:password", _split_auth)
HOST_NAME_CHECK = choice(form="https, or none or empty to skip the check", https=True, none=False, **{"": False})
ID_PART = Kind("letters, digits, '.', '_' and '-'", _id_part)
PEM_FILE = text("PEM file")
PATTERN = Kind("regular expression", lambda _, text: SubscribePattern(_regex(text)))
EXCEPT_PATTERN = Kind("regular expression", lambda _, text: SubscribeExcept(_regex(text)))
PARTITIONS = Kind('JSON {"topic": [0, 1]}', lambda option, text: Assign(parse_assignment(option, text)))
STARTING_OFFSETS = Kind(
    "earliest, latest (stream), committed, or JSON", lambda option, text: parse_offsets(option, text, None)
)
ENDING_OFFSETS = Kind("latest, or JSON", lambda option, text: parse_offsets(option, text, None))
OFFSETS_TO_COMMIT = Kind('JSON {"topic": {"0": 23}}', lambda option, text: parse_offsets(option, text, "commit"))
TIMESTAMP = Kind("integer, ms since the epoch", _at_timestamp)
TIMESTAMPS = Kind('JSON {"topic": {"0": ms}}', parse_timestamps)
CLAIM_OWNER = Kind("member@session", lambda _, text: ClaimOwner.parse(text))
RESET_POLICY = choice(
    "earliest",
    "latest",
    "error",
    form="earliest (smallest), latest (largest) or error",
    smallest="earliest",
    largest="latest",
)
