"""Refused client properties."""

from __future__ import annotations

from pyspark_zkafka.options.client_properties import Role, translate
from pyspark_zkafka.options.refused_client_properties import REFUSED
from tests.support.cases import each


@each(
    ("role", "name", "replacement"),
    [
        ("consumer", "auto.offset.reset", "use startingOffsets"),
        ("consumer", "key.deserializer", "cast them"),
        ("consumer", "value.deserializer", "cast them"),
        ("producer", "key.serializer", "cast them"),
        ("producer", "value.serializer", "cast them"),
        ("consumer", "enable.auto.commit", "when Spark commits a micro-batch"),
        ("consumer", "interceptor.classes", "use DataFrame operations"),
        ("consumer", "group.id", "use the option group.id without the prefix kafka."),
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


@each("name", REFUSED)
def test_remedies(name: str) -> None:
    """Each reason has a remedy, in one line without a final stop."""
    assert any(verb in REFUSED[name] for verb in ("remove it", "use ", "cast them"))
    assert "\n" not in REFUSED[name]
