"""Kinds of option values, each with its written form and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.durations import parse_duration_ms
from pyspark_zkafka.protocol.model import ClaimOwner
from pyspark_zkafka.protocol.offsets import AtTimestamp, OffsetSpec, parse_assignment, parse_offsets, parse_timestamps
from pyspark_zkafka.protocol.planning import Assign, SubscribeExcept, SubscribePattern

__all__ = [
    "BOOLEAN",
    "CLAIM_OWNER",
    "DURATION",
    "ENDING_OFFSETS",
    "ENSEMBLE",
    "EXCEPT_PATTERN",
    "HOST_NAME_CHECK",
    "OFFSETS_TO_COMMIT",
    "PARTITIONS",
    "PATTERN",
    "PEM_FILE",
    "RESET_POLICY",
    "STARTING_OFFSETS",
    "TIMESTAMP",
    "TIMESTAMPS",
    "ZOOKEEPER_AUTH",
    "Choice",
    "Form",
    "Integer",
    "Kind",
    "Text",
    "words",
]


class Kind(Protocol):
    """A kind of option values."""

    @property
    def takes(self) -> str:
        """The written form of a value, for docs/options.md."""

    def read(self, option: str, text: str) -> Any:
        """The value in a text without blanks around it.

        Raises
        ------
        ValueError
            With what is expected.
        OptionError
            With the whole problem.
        """


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number of at most 18 digits, with its lower bound and its unit."""

    at_least: int
    unit: str = ""

    @property
    def takes(self) -> str:
        bound = "> 0" if self.at_least == 1 else f">= {self.at_least}"
        return f"integer {bound}" + (f", {self.unit}" if self.unit else "")

    def read(self, option: str, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or int(text) < self.at_least:
            raise ValueError(f"a whole number, {self.at_least} or more")
        return int(text)


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of words, in any case of letters, and the value of each."""

    words: Mapping[str, Any]
    written: str = ""

    @property
    def takes(self) -> str:
        return self.written or " or ".join(self.words)

    def read(self, option: str, text: str) -> Any:
        if text.lower() not in self.words:
            raise ValueError(" or ".join(self.words))
        return self.words[text.lower()]


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is not empty."""

    takes: str = "text"

    def read(self, option: str, text: str) -> str:
        if not text:
            raise OptionError("INVALID_OPTIONS", f"{option} must not be empty; set a value or leave it out")
        return text


@dataclass(frozen=True, slots=True)
class Form:
    """Text of some form, such as JSON, and its reader, which takes the option's name and the text."""

    takes: str
    read: Callable[[str, str], Any]


def words(*each: str) -> Choice:
    """A choice of words, each of which is its own value."""
    return Choice({word: word for word in each})


def _split_connect(_: str, text: str) -> tuple[str, str]:
    hosts, slash, path = text.partition("/")
    chroot = (slash + path).rstrip("/")
    one = re.compile(r"([^\s:,\[\]]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
    each = [host.strip() for host in hosts.split(",")]
    ports = [int(port) for port in re.findall(r":([0-9]+)(?:,|$)", ",".join(each))]
    if not all(map(one.fullmatch, each)) or re.search(r"//|[\s,]", chroot) or not all(0 < p < 65536 for p in ports):
        raise ValueError("host:port[,host:port...][/chroot], e.g. zk1:2181,zk2:2181/kafka")
    return ",".join(host if re.search(r":[0-9]+$", host) else f"{host}:2181" for host in each), chroot


def _split_auth(_: str, text: str) -> tuple[str, str]:
    if not re.fullmatch(r"(?i:digest):[^:]+:.+|(?i:sasl:digest-md5):[^:]+:.+", text):
        raise ValueError("digest:user:password or sasl:DIGEST-MD5:user:password")
    scheme, _, credential = text.partition(":")
    return scheme.lower(), credential


def _checks_host_names(_: str, text: str) -> bool:
    if text.lower() not in ("https", "none", ""):
        raise ValueError("https, or none or an empty value to skip the check")
    return text.lower() == "https"


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    if not text:
        raise ValueError("a regular expression that is not empty")
    return text


def _at_timestamp(option: str, text: str) -> OffsetSpec:
    return OffsetSpec(option, everywhere=AtTimestamp(Integer(0).read(option, text)))


BOOLEAN = Choice({"true": True, "false": False})
DURATION = Form("duration, e.g. 15m", lambda _, text: parse_duration_ms(text))
ENSEMBLE = Form("host:port[,host:port...][/chroot]", _split_connect)
ZOOKEEPER_AUTH = Form("digest:user:password or sasl:DIGEST-MD5:user:password", _split_auth)
HOST_NAME_CHECK = Form("https, or none or nothing", _checks_host_names)
PEM_FILE = Text("PEM file")
PATTERN = Form("regular expression", lambda _, text: SubscribePattern(_regex(text)))
EXCEPT_PATTERN = Form("regular expression", lambda _, text: SubscribeExcept(_regex(text)))
PARTITIONS = Form('JSON {"topic": [0, 1]}', lambda option, text: Assign(parse_assignment(option, text)))
STARTING_OFFSETS = Form(
    "earliest, latest (stream), committed, or JSON", lambda option, text: parse_offsets(option, text, None)
)
ENDING_OFFSETS = Form("latest, or JSON", lambda option, text: parse_offsets(option, text, None))
OFFSETS_TO_COMMIT = Form('JSON {"topic": {"0": 23}}', lambda option, text: parse_offsets(option, text, "commit"))
TIMESTAMP = Form("integer, ms since the epoch", _at_timestamp)
TIMESTAMPS = Form('JSON {"topic": {"0": ms}}', parse_timestamps)
CLAIM_OWNER = Form("member@session", lambda _, text: ClaimOwner.parse(text))
RESET_POLICY = Choice(
    {"earliest": "earliest", "smallest": "earliest", "latest": "latest", "largest": "latest", "error": "error"},
    "earliest (smallest), latest (largest) or error",
)
