"""The page of licences says what the installed packages declare."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LICENCES: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "licences.py"))
INSTALLED: dict[str, Any] = {row.name: row for row in LICENCES["rows"]()}
PAGE = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
LISTED = {cells[0]: cells for line in PAGE.splitlines() if len(cells := line.strip("| ").split(" | ")) == 4}

ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU"),
    *("HPND", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
}
"""Licences that ask no more than to be quoted."""


def test_direct_dependencies_are_listed() -> None:
    """Each requirement in setup.cfg that a user's installation may have is on the page."""
    from configparser import ConfigParser

    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"], *(config["options.extras_require"][e] for e in LICENCES["EXTRAS"])]
    names = {re.split(r"[\[<>=]", line)[0].strip() for text in texts for line in text.strip().splitlines()}
    assert {"kazoo", "scramp", "pyspark"} <= names <= LISTED.keys()


@pytest.mark.parametrize("name", INSTALLED)
def test_what_is_listed_is_true(name: str) -> None:
    """A package in the version of the page declares the licence of the page."""
    row = INSTALLED[name]
    if name in LISTED and LISTED[name][1] == row.version:
        assert LISTED[name][2] == row.licence


@pytest.mark.parametrize("name", INSTALLED)
def test_no_licence_asks_for_more_than_a_quotation(name: str) -> None:
    """What a user's installation has, in any version, is under permissive licences."""
    declared = re.split(r" AND | OR |[()]", INSTALLED[name].licence)
    assert {part.strip() for part in declared if part.strip()} <= ALLOWED
