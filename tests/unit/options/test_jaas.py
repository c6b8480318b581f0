"""JAAS lines against what Kafka's Java client reads in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_zkafka.options.jaas import parse
from tests.support.cases import each

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "jaas.json").read_text(encoding="utf-8"))


@each(("text", "module", "options"), [row for row in VECTORS["texts"] if row[1] is not None])
def test_reads_what_java_reads(text: str, module: str, options: dict[str, str]) -> None:
    """Login module and options are those that JaasContext finds: quotes, escapes, comments and repeated names."""
    assert parse(text) == (module, options)


@each("text", [row[0] for row in VECTORS["texts"] if row[1] is None])
def test_refuses_what_java_refuses(text: str) -> None:
    """A line that Java does not take is refused, with the right form and without the line's own text."""
    with pytest.raises(ValueError, match=r'required username="\.\.\." password="\.\.\.";$') as refused:
        parse(text)
    assert "secret" not in str(refused.value)
