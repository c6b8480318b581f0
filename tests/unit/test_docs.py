"""The documents say what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", ["options.md", "kafka-properties.md", "errors.md"])
def test_generated_pages(page: str) -> None:
    """The generated pages are as `make docs` would make them now."""
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    assert (ROOT / "docs" / page).read_text() == pages[page]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links(page: Path) -> None:
    """Every link to a file of the project leads to one."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
