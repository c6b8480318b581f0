"""Conditions: names, texts and uses, and the policy of `failOnDataLoss`."""

from __future__ import annotations

import ast
import logging
import re
from functools import cache
from pathlib import Path

import pytest

import pyspark_zkafka
from pyspark_zkafka import conditions, errors
from pyspark_zkafka.conditions import DATA_LOSS, PARTITIONS_GONE, report_data_loss
from pyspark_zkafka.errors import Condition, DataLoss, UnknownTopic, ZKafkaError
from pyspark_zkafka.testing import conditions as local

PACKAGE = Path(pyspark_zkafka.__file__).parent
DEFINED = {
    variable: found
    for module in (conditions, local)
    for variable, found in vars(module).items()
    if isinstance(found, Condition)
}
BUILT_BY_ITS_CLASS = "MALFORMED_ZNODE"


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of the package's modules."""
    return {
        file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")
    }


def test_raised() -> None:
    """A condition creates an error of its class, with its name and the details."""
    condition = UnknownTopic.define("NO_TOPIC\n    The topic `t.` does not\n    exist. Create it.")
    assert condition.cause == "The topic `t.` does not exist."
    assert condition.remedy == "Create it."
    error = condition("Topic t does not exist", topic="t")
    assert type(error) is UnknownTopic
    assert str(error) == "[NO_TOPIC] Topic t does not exist"
    assert error.condition == "NO_TOPIC"
    assert error.parameters == {"topic": "t"}


def test_a_condition_has_two_sentences() -> None:
    """A text without a remedy is refused at its definition."""
    with pytest.raises(ValueError, match="not enough values"):
        UnknownTopic.define("NO_TOPIC\n    The topic does not exist.")


def test_names() -> None:
    """Conditions have unique names in capitals, which are the names of their variables."""
    assert {variable: found.name for variable, found in DEFINED.items()} == {variable: variable for variable in DEFINED}
    assert [name for name in DEFINED if not re.fullmatch(r"[A-Z0-9]+(_[A-Z0-9]+)*", name)] == []
    assert len(DEFINED) == sum(
        isinstance(found, Condition) for module in (conditions, local) for found in vars(module).values()
    )


def test_texts() -> None:
    """Cause and remedy are one sentence each, and fit into a table."""
    texts = [text for found in DEFINED.values() for text in (found.cause, found.remedy)]
    assert [text for text in texts if not re.fullmatch(r"(librdkafka|[A-Z`]).*\.", text)] == []
    assert [text for text in texts if "|" in text] == []


def test_each_condition_is_raised() -> None:
    """Every defined condition is raised by the package."""
    used = {
        node.id
        for path, module in modules().items()
        if not path.endswith("conditions.py")
        for node in ast.walk(module)
        if isinstance(node, ast.Name)
    }
    assert set(DEFINED) - used == {BUILT_BY_ITS_CLASS}


def test_errors_are_made_from_conditions() -> None:
    """All errors of the package are created from conditions, except CodecError, which has its own."""
    classes = set(errors.__all__) - {"CodecError"}
    found = [
        (path, node.lineno)
        for path, module in modules().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in classes
    ]
    assert found == []


def test_every_class_has_a_condition() -> None:
    """Each class has a condition, and classes are defined in the order of the tree in the docstring of errors."""
    lines = (errors.__doc__ or "").splitlines()
    drawn = [m[1] for line in lines if (m := re.match(r"    [ │├└─]*(\w+)", line)) and m[1] in errors.__all__]
    assert list(dict.fromkeys(found.kind.__name__ for found in DEFINED.values())) == drawn
    assert all(issubclass(getattr(errors, name), ZKafkaError) for name in drawn)


class TestDataLoss:
    """The policy of `failOnDataLoss`."""

    def test_failing(self) -> None:
        """The error has the condition, the details and the remedy."""
        with pytest.raises(DataLoss) as caught:
            report_data_loss(PARTITIONS_GONE, "t-0 is gone", fail=True)
        assert str(caught.value) == "[PARTITIONS_GONE] t-0 is gone; set failOnDataLoss to false to continue"

    def test_another_remedy(self) -> None:
        """The caller may give another remedy."""
        with pytest.raises(DataLoss, match=r"t-0 is gone; plan again$"):
            report_data_loss(DATA_LOSS, "t-0 is gone", fail=True, remedy="plan again")

    def test_continuing(self, caplog: pytest.LogCaptureFixture) -> None:
        """With failOnDataLoss=false, a warning states the loss and its consequence."""
        with caplog.at_level(logging.WARNING):
            report_data_loss(DATA_LOSS, "t-0 is gone", fail=False, otherwise="Reading the rest")
        assert caplog.messages == ["t-0 is gone. Reading the rest, because failOnDataLoss is false"]
