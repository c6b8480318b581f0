"""The page of licences, compared with the installed packages before a release."""

from __future__ import annotations

import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU"),
    *("HPND", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    "MPL-2.0",  # certifi and orjson, in extras
}
"""Licences that only require attribution if the package is used unchanged."""

pytestmark = pytest.mark.long


@cache
def script() -> dict[str, Any]:
    """Return the globals of the script that writes the page."""
    return runpy.run_path(str(ROOT / "docs" / "licences.py"))


@cache
def installed() -> list[Any]:
    """Return the rows of the installed packages."""
    rows = script()["rows"]()
    assert rows
    return rows


def listed() -> dict[str, list[str]]:
    """Return the cells of the page by package."""
    lines = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8").splitlines()
    return {cells[0]: cells for line in lines if len(cells := line.strip("| ").split(" | ")) == 4}


def test_direct_dependencies_are_listed() -> None:
    """Each requirement in setup.cfg that a user's installation may have is on the page."""
    from configparser import ConfigParser

    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"], *(config["options.extras_require"][e] for e in script()["EXTRAS"])]
    names = {re.split(r"[\[<>=]", line)[0].strip() for text in texts for line in text.strip().splitlines()}
    assert {"kazoo", "scramp", "pyspark"} <= names <= listed().keys()


def test_what_is_listed_is_true() -> None:
    """An installed package of the version on the page declares the licence on the page."""
    page = listed()
    here = {row.name: (row.version, row.licence) for row in installed()}
    same = [name for name, (version, _) in here.items() if name in page and page[name][1] == version]
    assert {name: page[name][2] for name in same} == {name: here[name][1] for name in same}


def test_no_licence_asks_for_more_than_a_quotation() -> None:
    """All packages of a user's installation, in any version, have licences that only require attribution."""
    parts = {row.name: {part.strip() for part in re.split(r" AND | OR |[()]", row.licence)} - {""} for row in installed()}
    assert {name: licences for name, licences in parts.items() if not licences <= ALLOWED} == {}
