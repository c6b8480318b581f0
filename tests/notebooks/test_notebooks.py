"""Notebooks: each runs from top to bottom in a kernel of this Python, with the expected outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebooks.execution import NOTEBOOKS, clean, execute, kernel_environment

EXPECTED = {
    "batch.ipynb": [
        r"\|-- value: binary \(nullable = true\)",
        r"\|-- timestampType: integer",
        r'customer-\d *\|\{"id":\d+,"amount":\d\}',
        r"1000 orders read",
        r"orders-\d \[0, \d+\) from broker [01], in sync: \[[01], [01]\]",
        r"billing\| *orders\| *\d\| *\d+\|",
        r"committed 1000 orders",
        r"5 new orders",
        r"stopped",
    ],
    "cluster-health.ipynb": [
        r"\| *2\| *5\| *(true|false)\|",
        r"clicks\| *6\| *0\| *\d\| *\[2\]\|",
        r"audit\| *clicks\| *6\| *0\|900\|",
        r"billing\| *orders\| *8\| *8\|250\|",
        r"billing_berlin\| *[01]\|",
        r"\|broker down *\|broker 2 ",
        r"\|under-replicated *\|orders ",
        r"\|not the preferred leader\|",
        r"left: lag without a consumer, audit: clicks, records: 900\n",
        r"stopped",
    ],
    "off-zookeeper.ipynb": [
        r"billing\|orders\| *3\| *100\| *0\|",
        r"525 orders read",
        r"orders +2 +125 +100 +100 +behind",
        r"nothing was changed",
        r"orders +2 +125 +100 +125 +copied",
        r"1 copied, 3 equal",
        r"4 equal",
        r"10 new orders, from the offsets \{0: 150, 3: 100\}",
        r"0 orders left",
        r"Deleted all consumer group information for group 'billing'",
        r"stopped",
    ],
    "shared-group.ipynb": [
        r"owners: query-a 6",
        r"owners: query-a 3, query-b 3",
        r"owners: jvm 2, query-a 2, query-b 2",
        r"owners: jvm 3, query-b 3",
        r"(\d+) records written, \1 read, [1-9]\d* of them by the JVM consumer",
        r"stopped",
    ],
}
"""The expected output of each notebook, in order."""

PICTURES = {"batch.ipynb": 0, "cluster-health.ipynb": 3, "off-zookeeper.ipynb": 0, "shared-group.ipynb": 3}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment with a kernel of this Python."""
    for variable, value in kernel_environment(tmp_path).items():
        monkeypatch.setenv(variable, value)


def code_outputs(notebook: Any) -> list[Any]:
    """Return the outputs of all cells, in order."""
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def require_outputs(notebook: Any, name: str) -> None:
    """Require the expected texts, in order, and the expected number of pictures."""
    outputs = code_outputs(notebook)
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    position = 0
    for pattern in EXPECTED[name]:
        found = re.compile(pattern).search(text, position)
        assert found, f"{pattern} is not in what follows:\n{text[position:]}"
        position = found.end()
    assert sum("image/png" in output.get("data", {}) for output in outputs) == PICTURES[name]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_runs(path: Path, tmp_path: Path) -> None:
    """Each notebook runs without an error, and shows the expected output."""
    require_outputs(clean(execute(path, tmp_path)), path.name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_stored_outputs(path: Path) -> None:
    """Each notebook is stored as executed from top to bottom, with its outputs and without traces of a machine."""
    notebook = nbformat.read(path, as_version=4)
    assert notebook == clean(nbformat.read(path, as_version=4))
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    require_outputs(notebook, path.name)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_text(path: Path) -> None:
    """Each notebook starts with a title and has about one explanation per step."""
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].source.startswith("# ")
    assert sum(cell.cell_type == "markdown" for cell in cells) >= len(cells) // 2 - 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_imports(path: Path) -> None:
    """Notebooks import only public names."""
    cells = nbformat.read(path, as_version=4).cells
    source = "\n".join(cell.source for cell in cells)
    imported = set(re.findall(r"^\s*from (pyspark_zkafka\S*) import", source, re.MULTILINE))
    assert imported <= {"pyspark_zkafka", "pyspark_zkafka.plot", "pyspark_zkafka.testing"}


def test_all_are_known() -> None:
    """Each notebook has its expected outputs listed here."""
    names = {path.name for path in NOTEBOOKS}
    assert names == EXPECTED.keys()
    assert names == PICTURES.keys()
