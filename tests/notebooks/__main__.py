"""Command that executes notebooks, by default all, and stores them with their outputs: ``make notebooks``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

from tests.notebooks.execution import NOTEBOOKS, clean, execute, kernel_environment


def main(wanted: list[str]) -> None:
    """Execute the notebooks with these names."""
    with TemporaryDirectory() as folder:
        os.environ.update(kernel_environment(Path(folder)))
        for path in NOTEBOOKS:
            if path.name in wanted or not wanted:
                nbformat.write(clean(execute(path, Path(folder))), path)


if __name__ == "__main__":
    main(sys.argv[1:])
