"""Tables of client properties, compared with the recorded names of Java and librdkafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.options.client_properties import Role, translate, validate
from pyspark_zkafka.options.client_property_table import PROPERTIES, REFUSED, parse_jaas
from pyspark_zkafka.token_providers import PROVIDER

VECTORS = Path(__file__).parents[2] / "vectors"
JAVA: dict[str, Any] = json.loads((VECTORS / "java_config_names.json").read_text(encoding="utf-8"))
LIBRDKAFKA: dict[str, Any] = json.loads((VECTORS / "librdkafka_config_names.json").read_text(encoding="utf-8"))
JAAS: dict[str, Any] = json.loads((VECTORS / "jaas.json").read_text(encoding="utf-8"))
ROLES: list[Role] = ["consumer", "producer"]


@pytest.mark.parametrize("role", ROLES)
def test_every_java_property_is_classified(role: Role) -> None:
    """Each property of kafka-clients 3.9.1 is passed on, translated, or refused for a specific reason."""
    for name in JAVA[role]:
        problems = translate({name: "?"}, role)[1]
        assert not any("unknown to Kafka" in p or "'s property, without effect" in p for p in problems), name


def test_every_librdkafka_property_is_classified() -> None:
    """Each property of librdkafka is in exactly one of the two tables, or is passed on because both clients have it."""
    rows = {row.name for row in PROPERTIES}
    passed_on = set(LIBRDKAFKA["properties"]) - rows - set(REFUSED)
    assert {LIBRDKAFKA["properties"][name] for name in passed_on} == {"*"}
    assert all(validate(name, "1").known for name in passed_on)
    assert not rows & set(REFUSED)


def test_each_row_has_an_existing_name() -> None:
    """Java or librdkafka knows the name of each row except one, which is this package's own."""
    known = {*JAVA["consumer"], *JAVA["producer"], *LIBRDKAFKA["properties"], PROVIDER}
    assert ({row.name for row in PROPERTIES} | set(REFUSED)) - known == set()


@pytest.mark.parametrize("row", [r for r in PROPERTIES if r.targets != "" and r.name != PROVIDER])
def test_librdkafka_has_the_target_for_the_client(row: Any) -> None:
    """librdkafka has each target of a row for the clients of the row."""
    scopes = LIBRDKAFKA["properties"]
    assert all(scopes[target] in ("*", row.clients) for target in row.target_names())


@pytest.mark.parametrize(
    ("role", "name", "replacement"),
    [
        ("consumer", "auto.offset.reset", "use startingOffsets"),
        ("consumer", "key.deserializer", "cast them"),
        ("consumer", "value.deserializer", "cast them"),
        ("producer", "key.serializer", "cast them"),
        ("producer", "value.serializer", "cast them"),
        ("consumer", "enable.auto.commit", "when Spark plans the next micro-batch"),
        ("consumer", "interceptor.classes", "use DataFrame operations"),
        (
            "consumer",
            "group.id",
            "use the option group.id without the prefix kafka.; in a read, kafka.group.id only names the tasks' consumers",
        ),
        ("consumer", "partition.assignment.strategy", "without the prefix kafka."),
        ("consumer", "enable.partition.eof", "remove it"),
        ("consumer", "enable.auto.offset.store", "remove it"),
        ("consumer", "max.poll.records", "Java-only"),
        ("producer", "delivery.report.only.error", "remove it"),
        ("producer", "dr_msg_cb", "callback"),
        ("producer", "transactional.id", "deliveryGuarantee"),
        ("producer", "partitioner.class", "use the option partitioner"),
        ("producer", "partitioner", "use the option partitioner"),
        ("producer", "plugin.library.paths", "native code"),
        ("producer", "max.block.ms", "use delivery.timeout.ms"),
        ("producer", "metrics.num.samples", "Java-only"),
        ("producer", "ssl.truststore.password", "ssl.truststore.type"),
    ],
)
def test_reasons(role: Role, name: str, replacement: str) -> None:
    """A refused property is reported in the user's spelling, with the reason and the replacement."""
    [problem] = translate({name.upper(): "kept-from-eyes"}, role)[1]
    assert problem.startswith(f"kafka.{name.upper()} is refused: ")
    assert replacement in problem
    assert "kept-from-eyes" not in problem


@pytest.mark.parametrize("name", REFUSED)
def test_remedies(name: str) -> None:
    """Each reason has a remedy, in one line without a final stop."""
    assert any(verb in REFUSED[name] for verb in ("remove it", "use ", "cast them"))
    assert "\n" not in REFUSED[name]


@pytest.mark.parametrize(("text", "module", "options"), [row for row in JAAS["texts"] if row[1] is not None])
def test_reads_what_java_reads(text: str, module: str, options: dict[str, str]) -> None:
    """Login module and options are those that JaasContext finds, with quotes, escapes, comments and repeated names."""
    assert parse_jaas(text) == (module, options)


@pytest.mark.parametrize("text", [row[0] for row in JAAS["texts"] if row[1] is None])
def test_refuses_what_java_refuses(text: str) -> None:
    """A line that Java refuses is refused with the right form, but without the line's own text."""
    with pytest.raises(ValueError, match=r'required username="\.\.\." password="\.\.\.";$') as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)
