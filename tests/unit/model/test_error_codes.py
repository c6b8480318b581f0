"""Kafka's error codes, compared with those of Kafka's Java classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark_zkafka.model.error_codes import NONE, REFRESHING, RETRIABLE, ErrorCode, name_of

VECTORS = Path(__file__).parents[2] / "vectors"
JAVA: list[Any] = json.loads((VECTORS / "error_codes.json").read_text(encoding="utf-8"))["errors"]


def test_numbers_and_names() -> None:
    """The table has each of Java's codes under Java's name, and no others."""
    assert {code.value: code.name for code in ErrorCode} == {code: name for code, name, *_ in JAVA}


def test_retriable() -> None:
    """The codes that may pass are those that Java retries."""
    assert {code for code, _, is_retriable, _ in JAVA if is_retriable} == RETRIABLE


def test_refreshing() -> None:
    """The codes that call for new metadata are those that Java refreshes its metadata for. All of them may pass."""
    assert {code for code, _, _, refreshes in JAVA if refreshes} == REFRESHING
    assert REFRESHING <= RETRIABLE


def test_names() -> None:
    """An error message has Java's name of a known code, and the number of an unknown one."""
    assert all(name_of(code) == name for code, name, *_ in JAVA)
    assert [name_of(code) for code in (NONE, 9999, -2)] == ["NONE", "error 9999", "error -2"]
