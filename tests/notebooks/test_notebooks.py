"""Every notebook runs from top to bottom in a kernel of this Python, and shows what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))

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
}
"""The expected output of each notebook, in order."""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a kernel of this Python; the user's own kernels and settings play no part."""
    write_kernel_spec(tmp_path / "kernels" / "python3")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    for variable in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    return "python3"


def printed(notebook: Any) -> str:
    """The standard output of the cells, in order."""
    outputs = (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    return "".join(output.text for output in outputs if output.get("name") == "stdout")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_runs(path: Path, kernel: str, tmp_path: Path) -> None:
    """It runs without an error, and prints what is expected, in order."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, kernel_name=kernel, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    text = printed(notebook)
    position = 0
    for pattern in EXPECTED[path.name]:
        found = re.compile(pattern).search(text, position)
        assert found, f"{pattern} is not in what follows:\n{text[position:]}"
        position = found.end()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_is_stored_clean(path: Path) -> None:
    """It is stored without outputs, begins with a title, and explains each step before it is taken."""
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].source.startswith("# ")
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    assert sum(cell.cell_type == "markdown" for cell in cells) >= len(cells) // 2 - 1


def test_all_are_known() -> None:
    """For each notebook it is said here what it prints."""
    assert {path.name for path in NOTEBOOKS} == set(EXPECTED)
