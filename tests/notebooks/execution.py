"""Execution of notebooks in a kernel of this Python, and their stored form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient

__all__ = ["NOTEBOOKS", "clean", "execute", "kernel_environment"]

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_KERNEL = "python3"
_CELL_TIMEOUT_S = 300
_TERMINAL_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def kernel_environment(folder: Path) -> dict[str, str]:
    """Return an environment with a kernel of this Python for `execute`, without the user's own kernels and settings."""
    write_kernel_spec(folder / "kernels" / _KERNEL)
    own = ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    return {"JUPYTER_PATH": str(folder), **{variable: str(folder / variable.lower()) for variable in own}}


def execute(path: Path, folder: Path) -> Any:
    """Execute a notebook from top to bottom in a folder, and return it with its outputs; raises `CellExecutionError`."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name=_KERNEL,
        timeout=_CELL_TIMEOUT_S,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def clean(notebook: Any) -> Any:
    """Remove everything specific to one machine or terminal: metadata, the log, bold type."""
    notebook.metadata = nbformat.from_dict(_METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.text = _TERMINAL_STYLE.sub("", output.text)
    return notebook
