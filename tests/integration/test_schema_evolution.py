"""The examples and the errors of docs/schema-evolution.md, with a real registry."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from pyspark_zkafka.testing import LocalSchemaRegistry
from tests.support.documentation import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.long

PAGE = ROOT / "docs" / "schema-evolution.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())
ADA, ALAN, GRACE = (0, 1, "Ada", 5), (1, 2, "Alan", 7), (2, 3, "Grace", 9)


class Page:
    """The page's blocks, which run one after the other on a topic of their own."""

    def __init__(self, spark: SparkSession, brokers: str, registry: str, topic: str) -> None:
        self.topic = topic
        self.names: dict[str, Any] = {"spark": spark}
        self._real = {"broker1:9092": brokers, "https://registry1:8081": registry, '"orders"': f'"{topic}"'}
        self._blocks = [block for block in blocks(PAGE) if block.language == "python" and "runs it" in (block.reason or "")]

    def run(self) -> None:
        """Run the next block."""
        block = self._blocks.pop(0)
        text = block.text
        for shown, real in self._real.items():
            text = text.replace(shown, real)
        exec(compile(text, str(block), "exec"), self.names)

    def read(self, version: int, columns: str | None = None) -> DataFrame:
        """Read as a query that started when a version was the latest one."""
        options = {**self.names["kafka"], **self.names["avro"], "value.schema.version": str(version)}
        reader = self.names["spark"].read.format("zkafka").options(**options, subscribe=self.topic)
        return (reader if columns is None else reader.schema(columns)).load()


@pytest.fixture
def page(
    spark: SparkSession,
    zkafka_cluster: LocalCluster,
    zkafka_schema_registry: LocalSchemaRegistry,
    new_topic: Callable[..., str],
) -> Iterator[Page]:
    """The page after its first block, with compatibility BACKWARD."""
    made = Page(spark, zkafka_cluster.bootstrap_servers, zkafka_schema_registry.url, new_topic())
    made.run()
    with SchemaRegistryClient({"url": zkafka_schema_registry.url}) as registry:
        registry.set_compatibility(f"{made.topic}-value", "BACKWARD")
    yield made
    assert made._blocks == []


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("offset").collect()]


def on_page(text: str) -> str:
    """Return a pattern for a text, which must be on the page."""
    assert text in TEXT
    return re.escape(text)


def test_changes(page: Page) -> None:
    """Each change is accepted, refused, read and not read as the page says, with the errors on the page."""
    record, write = page.names["record"], page.names["write"]
    old = {"id": "long", "customer": "string", "amount": "int", "coupon": "string"}

    not_registered = (
        r"(?s)SCHEMA_NOT_REGISTERED.*does not accept the schema of subject .*-value.*or change the subject's comp"
    )
    assert "[SCHEMA_NOT_REGISTERED] The schema registry https://registry1:8081 does not accept the schema" in TEXT
    with pytest.raises(Exception, match=not_registered):
        write(record(**old, currency="string"), "2L id, 'Alan' customer, 7 amount, 'MAY' coupon, 'USD' currency")

    page.run()  # add a field
    assert page.names["added"].columns == ["offset", "id", "customer", "amount", "coupon", "currency"]
    assert rows(page.names["added"]) == [(*ADA, "MAY", "EUR"), (*ALAN, "MAY", "USD")]
    assert rows(page.names["before"]) == [(*ADA, "MAY"), (*ALAN, "MAY")]

    page.run()  # remove a field
    assert rows(page.names["removed"]) == [(*ADA, "EUR"), (*ALAN, "USD"), (*GRACE, "EUR")]
    shown = on_page(
        "[MALFORMED_RECORD] The record of orders-0 at offset 2 does not have value.format=avro-confluent; value: the "
        "schema of id 3 cannot be used: The Avro schema cannot be used: the reader's schema does not accept the "
        "writer's: the writer has no field coupon, and the reader gives it no default."
    )
    with pytest.raises(Exception, match=shown.replace("orders", page.topic).replace(r"id\ 3", r"id\ \d+")):
        page.names["failing"].collect()
    narrow = page.read(2, "value struct<id: bigint, amount: int>, offset bigint")
    assert rows(narrow.select("offset", "value.*")) == [(0, 1, 5), (1, 2, 7), (2, 3, 9)]

    page.run()  # rename a field
    assert page.names["renamed"].columns == ["offset", "id", "buyer", "amount", "currency"]
    edsger = (3, 4, "Edsger", 11, "EUR")
    assert rows(page.names["renamed"]) == [(*ADA, "EUR"), (*ALAN, "USD"), (*GRACE, "EUR"), edsger]
    with pytest.raises(Exception, match="the writer has no field customer, and the reader gives it no default"):
        page.read(3).collect()

    page.run()  # change a type
    assert page.names["widened"].schema["amount"].dataType.simpleString() == "bigint"
    barbara = (4, 5, "Barbara", 3_000_000_000, "EUR")
    assert rows(page.names["widened"]) == [(*ADA, "EUR"), (*ALAN, "USD"), (*GRACE, "EUR"), edsger, barbara]
    with pytest.raises(Exception, match=on_page("amount is long for the writer and int for the reader")):
        page.read(4).collect()
    with pytest.raises(Exception, match=not_registered):
        write(record(id="long", amount="string"), "6L id, '5' amount")

    missing = on_page("there is no field value.customer; there are id, buyer, amount, currency")
    with pytest.raises(Exception, match=f"INVALID_SCHEMA.*{missing}"):
        page.read(5, "value struct<customer: string>").collect()
    too_wide = on_page("The column does not fit the Avro schema: amount is bigint, and the schema has int")
    with pytest.raises(Exception, match=f"INVALID_SCHEMA.*{too_wide}"):
        write(record(**old), "6L id, 'Ada' customer, 5L amount, 'MAY' coupon")
