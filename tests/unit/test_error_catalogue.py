"""The catalogue of conditions, against all that the package raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyspark_zkafka
from pyspark_zkafka import errors
from pyspark_zkafka.error_catalogue import CATALOGUE, Condition
from pyspark_zkafka.errors import ZKafkaError

PACKAGE = Path(pyspark_zkafka.__file__).parent
CLASSES = {name: getattr(errors, name) for name in errors.__all__}
UNSCANNED = {"errors.py", "error_catalogue.py"}
OF_REPORTS = dict.fromkeys(["lose", "Loss", "report_data_loss", "_report_loss"], "DataLoss")
"""Methods that raise a class with the condition that is their first argument, see stream/warnings.py."""
VARIABLES = ("data_loss.py", "stream/warnings.py", "stream/driver.py", "batch/split_reader.py")
VARIABLE = {(path, "DataLoss") for path in VARIABLES}
"""Where the condition is an argument of a function: those in `OF_REPORTS`."""


def constants(module: ast.Module) -> dict[str, str]:
    """The texts that a module names."""
    return {
        target.id: node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def made(source: str) -> Iterator[tuple[str, str | None]]:
    """Class and condition of each error that some source makes; None for a condition that is no constant."""
    module = ast.parse(source)
    texts = constants(module)
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        kind = OF_REPORTS.get(called, called)
        if kind == "CodecError":
            yield kind, "MALFORMED_ZNODE"
        elif kind in CLASSES:
            first = node.args[0] if node.args else None
            name = texts.get(first.id) if isinstance(first, ast.Name) else getattr(first, "value", None)
            yield kind, name if isinstance(name, str) else None


def all_made() -> dict[tuple[str, str | None], set[str]]:
    """The files in which the package makes each pair of class and condition."""
    found: dict[tuple[str, str | None], set[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        if path not in UNSCANNED:
            for pair in made(file.read_text(encoding="utf-8")):
                found.setdefault(pair, set()).add(path)
    return found


MADE = all_made()


def test_made() -> None:
    """Conditions are found as texts, as names of texts and in reports, and others are not passed over."""
    source = (
        '_A = "A"\n'
        'raise NoLeader("B", "x")\n'
        "raise errors.NoLeader(_A, text)\n"
        'reports.lose("C", "x")\n'
        "raise OptionError(condition, text)\n"
        "CodecError(path, data, expected)\n"
        'Other("D")\n'
    )
    assert list(made(source)) == [
        ("NoLeader", "B"),
        ("NoLeader", "A"),
        ("DataLoss", "C"),
        ("OptionError", None),
        ("CodecError", "MALFORMED_ZNODE"),
    ]


def test_what_is_raised_is_in_the_catalogue() -> None:
    """Each condition that the package raises is in the catalogue, with its class, and is of no other class."""
    catalogued = {(c.kind.__name__, c.name) for c in CATALOGUE}
    assert {pair: files for pair, files in MADE.items() if pair[1] is not None and pair not in catalogued} == {}


def test_what_is_in_the_catalogue_is_raised() -> None:
    """The catalogue has nothing that is raised nowhere."""
    assert [c.name for c in CATALOGUE if (c.kind.__name__, c.name) not in MADE] == []


def test_variable_conditions_are_known() -> None:
    """A condition that is not a text in its place is one of those whose callers are looked at instead."""
    assert {(file, kind) for (kind, name), files in MADE.items() if name is None for file in files} == VARIABLE


def test_each_condition_is_there_once() -> None:
    """No condition is there twice: by its name an error is searched for."""
    names = [c.name for c in CATALOGUE]
    assert sorted(names) == sorted(set(names))


def test_classes_are_in_the_order_of_the_tree() -> None:
    """Conditions are grouped by class, in the order of the tree; no class is without one."""
    kinds = list(dict.fromkeys(c.kind for c in CATALOGUE))
    assert kinds == drawn_order()
    assert [c.kind for c in CATALOGUE] == sorted((c.kind for c in CATALOGUE), key=kinds.index)


def drawn_order() -> list[type[ZKafkaError]]:
    """The classes as errors' docstring draws them."""
    lines = (errors.__doc__ or "").splitlines()
    return [CLASSES[m[1]] for line in lines if (m := re.match(r"    [ │├└─]*(\w+)", line)) and m[1] in CLASSES]


@pytest.mark.parametrize("condition", CATALOGUE, ids=lambda c: c.name)
def test_texts(condition: Condition) -> None:
    """Cause and remedy are one sentence each, and fit a table."""
    assert re.fullmatch(r"[A-Z0-9]+(_[A-Z0-9]+)*", condition.name)
    for text in (condition.cause, condition.remedy):
        assert re.fullmatch(r"(librdkafka|[A-Z`]).*\.", text)
        assert not re.search(r"[.?!] [A-Z]|[|\n]", text.replace("`.`", ""))
