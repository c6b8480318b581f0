"""Readers of property values: a user's text in, librdkafka's text out.

A reader raises ValueError with what it expects, never with what it got: the value may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

__all__ = [
    "INT_MAX",
    "Reader",
    "choice",
    "ciphers",
    "flag",
    "flags",
    "kibibytes",
    "kinit_command",
    "number",
    "secret",
    "text",
    "version",
    "whole",
]

Reader: TypeAlias = Callable[[str], "str | Mapping[str, str]"]
"""Gives the value of the row's librdkafka property, or several properties by name."""

INT_MAX = 2**31 - 1


def whole(low: int, high: int, *, java: Mapping[int, int] | None = None) -> Reader:
    """Reads an integer in ``[low, high]``; `java` says what some of Java's special values are in librdkafka.

    >>> whole(0, 100, java={-1: 0})(" -1 ")
    '0'
    """
    special = java or {}

    def read(text: str) -> str:
        value = _integer(text, f"a whole number from {low} to {high}")
        value = special.get(value, value)
        if not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}, which is what librdkafka takes")
        return str(value)

    return read


def number(low: float, high: float) -> Reader:
    """Reads a decimal number in ``[low, high]``."""

    def read(text: str) -> str:
        value = text.strip()
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII) or not low <= float(value) <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return value

    return read


def kibibytes(text: str) -> str:
    """Bytes, as kibibytes rounded down, but at least 1.

    >>> kibibytes("33554432"), kibibytes("10")
    ('32768', '1')
    """
    value = _integer(text, "a whole number of bytes")
    if not 0 <= value // 1024 <= INT_MAX:
        raise ValueError(f"a whole number of bytes from 0 to {INT_MAX * 1024}")
    return str(max(1, value // 1024))


def choice(*values: str, **others: str) -> Reader:
    """Reads one of `values` in any case, and gives it as written here; `others` are further spellings of them."""
    known = {value.lower(): value for value in values} | others

    def read(text: str) -> str:
        if text.strip().lower() not in known:
            raise ValueError(f"one of {', '.join(values)}")
        return known[text.strip().lower()]

    return read


def flags(values: str) -> Reader:
    """Reads a comma-separated list of some of `values`, which is one itself."""
    known = set(values.split(", "))

    def read(text: str) -> str:
        found = [part.strip().lower() for part in text.split(",")]
        if not set(found) <= known:
            raise ValueError(f"a comma-separated list of {values}")
        return ",".join(found)

    return read


flag = choice("true", "false")


def text(value: str) -> str:
    """Text that is not empty, without the blanks around it."""
    if not value.strip():
        raise ValueError("a text, not nothing")
    return value.strip()


def secret(value: str) -> str:
    """Text that is not empty, kept as it is."""
    if not value:
        raise ValueError("a text, not nothing")
    return value


def version(text: str) -> str:
    """A version of Kafka, such as 0.9.0.1."""
    if not re.fullmatch(r"\d+(\.\d+){2,3}", text.strip(), re.ASCII):
        raise ValueError("a version such as 0.9.0.1")
    return text.strip()


def ciphers(text: str) -> str:
    """Cipher suites by OpenSSL's names, which are not Java's."""
    if "_WITH_" in text.upper() or "," in text or not text.strip():
        raise ValueError("OpenSSL's names with colons between them, e.g. ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-SHA")
    return text.strip()


def kinit_command(text: str) -> str:
    """librdkafka's whole command line; Java's property of this name is the path of kinit alone."""
    if not re.search(r"\S\s+\S", text):
        raise ValueError("a whole command line, e.g. kinit -t %{sasl.kerberos.keytab} -k %{sasl.kerberos.principal}")
    return text.strip()


def _integer(text: str, expected: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip(), re.ASCII):
        raise ValueError(expected)
    return int(text)
