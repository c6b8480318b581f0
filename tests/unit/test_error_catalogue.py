"""The catalogue of conditions, against the conditions that the package raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyspark_zkafka
from pyspark_zkafka import errors
from pyspark_zkafka.error_catalogue import CATALOGUE
from pyspark_zkafka.errors import ZKafkaError

PACKAGE = Path(pyspark_zkafka.__file__).parent
CLASSES = {name: getattr(errors, name) for name in errors.__all__}
UNSCANNED = {"errors.py", "error_catalogue.py"}
OF_REPORTS = dict.fromkeys(["lose", "Loss", "report_data_loss", "_report_loss"], "DataLoss")
"""Methods that raise a class with the condition that is their first argument, see read/stream_warnings.py."""
VARIABLES = ("data_loss.py", "read/stream_warnings.py", "read/stream_driver.py", "read/split_reader.py")
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


@cache
def all_made() -> dict[tuple[str, str | None], set[str]]:
    """The files in which the package makes each pair of class and condition."""
    found: dict[tuple[str, str | None], set[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        if path not in UNSCANNED:
            for pair in made(file.read_text(encoding="utf-8")):
                found.setdefault(pair, set()).add(path)
    return found


CATALOGUED = [(kind.__name__, name) for kind, conditions in CATALOGUE.items() for name in conditions]


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
    """Each condition that the package raises is in the catalogue, under its class."""
    assert {pair: files for pair, files in all_made().items() if pair[1] is not None and pair not in CATALOGUED} == {}


def test_what_is_in_the_catalogue_is_raised() -> None:
    """The catalogue has nothing that is raised nowhere."""
    assert [pair for pair in CATALOGUED if pair not in all_made()] == []


def test_variable_conditions_are_known() -> None:
    """A condition that is not a text in its place is one of those whose callers are checked instead."""
    assert {(file, kind) for (kind, name), files in all_made().items() if name is None for file in files} == VARIABLE


def test_conditions_are_unique() -> None:
    """No two classes share a condition: errors are searched for by its name."""
    names = [name for _, name in CATALOGUED]
    assert sorted(names) == sorted(set(names))


def test_classes_are_in_the_order_of_the_tree() -> None:
    """The classes are in the order of the tree, and each has a condition."""
    assert list(CATALOGUE) == drawn_order()
    assert all(CATALOGUE.values())


def drawn_order() -> list[type[ZKafkaError]]:
    """The classes as errors' docstring draws them."""
    lines = (errors.__doc__ or "").splitlines()
    return [CLASSES[m[1]] for line in lines if (m := re.match(r"    [ │├└─]*(\w+)", line)) and m[1] in CLASSES]


def test_names() -> None:
    """A condition is named in capitals."""
    assert [name for _, name in CATALOGUED if not re.fullmatch(r"[A-Z0-9]+(_[A-Z0-9]+)*", name)] == []


def test_texts() -> None:
    """Cause and remedy are one sentence each, and fit a table."""
    texts = [text for conditions in CATALOGUE.values() for pair in conditions.values() for text in pair]
    assert [text for text in texts if not re.fullmatch(r"(librdkafka|[A-Z`]).*\.", text)] == []
    assert [text for text in texts if re.search(r"[.?!] [A-Z]|[|\n]", text.replace("`.`", ""))] == []
