"""The tables of client properties, against the recorded names of Java and of librdkafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.options.client_properties import Role, translate
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.librdkafka import judge
from pyspark_zkafka.options.refused_client_properties import REFUSED
from tests.support.cases import each

VECTORS = Path(__file__).parents[2] / "vectors"
JAVA: dict[str, Any] = json.loads((VECTORS / "java_config_names.json").read_text(encoding="utf-8"))
LIBRDKAFKA: dict[str, Any] = json.loads((VECTORS / "librdkafka_config_names.json").read_text(encoding="utf-8"))
ROLES: list[Role] = ["consumer", "producer"]


@pytest.mark.parametrize("role", ROLES)
def test_every_java_property_is_classified(role: Role) -> None:
    """Each property of kafka-clients 3.9.1 is passed on, translated, or refused with its own reason."""
    for name in JAVA[role]:
        problems = translate({name: "?"}, role, judge)[1]
        assert not any("unknown to Kafka" in p or "'s property, without effect" in p for p in problems), name


def test_every_librdkafka_property_is_classified() -> None:
    """Each property of librdkafka is in one of the two tables, or of both clients and passed on; none is in both tables."""
    rows = {row.name for row in PROPERTIES}
    passed_on = set(LIBRDKAFKA["properties"]) - rows - set(REFUSED)
    assert {LIBRDKAFKA["properties"][name] for name in passed_on} == {"*"}
    assert all(judge(name, "1").known for name in passed_on)
    assert not rows & set(REFUSED)


def test_each_row_has_an_existing_name() -> None:
    """Java or librdkafka has the name of each row."""
    known = {*JAVA["consumer"], *JAVA["producer"], *LIBRDKAFKA["properties"]}
    assert ({row.name for row in PROPERTIES} | set(REFUSED)) - known == set()


@each("row", [r for r in PROPERTIES if r.targets != ""])
def test_librdkafka_has_the_target_for_the_client(row: Any) -> None:
    """librdkafka has each target of a row, for the clients of the row."""
    scopes = LIBRDKAFKA["properties"]
    assert all(scopes[target] in ("*", row.clients) for target in row.target_names())
