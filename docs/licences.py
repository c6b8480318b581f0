"""Generate the page of licences from the metadata of what is installed: run by ``make docs``, compared by a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

PROJECT = "pyspark-zkafka"
EXTRAS = ("sasl", "pkcs12", "connect", "plot", "metrics", "schema-registry", "protobuf", "json")
PAGE = Path(__file__).parent / "licences.md"

_HEAD = """# Licences

This page lists the licences of this package and of the packages that pip installs with it. pyspark-zkafka is under the
Apache License 2.0, and contains no code of other projects. The other packages themselves declare these licences. Packages
for an extra are installed only on request.

The wheels of confluent-kafka, pyarrow and numpy contain other libraries, such as librdkafka (BSD-2-Clause) and OpenBLAS
(BSD-3-Clause). Their folders in `site-packages` have the texts.

| package | version | licence | for |
|---|---|---|---|
"""
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_NAMES = {"Apache 2.0": "Apache-2.0", "3-Clause BSD License": "BSD-3-Clause", "BSD License": "BSD", "MIT License": "MIT"}


class Row(NamedTuple):
    """A distribution; `needed_for` is ``always`` or the extras that need it."""

    name: str
    version: str
    licence: str
    needed_for: str


def licence(found: Distribution) -> str:
    """The licence that a distribution declares: an expression of SPDX, else by its classifier, else its first line."""
    metadata = found.metadata
    if metadata.get("License-Expression"):
        return str(metadata["License-Expression"])
    classifiers = (c.rpartition(" :: ")[2] for c in metadata.get_all("Classifier") or () if c.startswith("License :: OSI"))
    declared = [_CLASSIFIERS.get(name, name) for name in classifiers]
    first_line = str(metadata.get("License") or "").strip().partition("\n")[0].strip()
    return " AND ".join(declared) or _NAMES.get(first_line, first_line) or "not declared"


def rows() -> list[Row]:
    """What is installed of the project's requirements and of theirs, by name."""
    always = closure(())
    by_extra = {extra: closure((extra,)) for extra in EXTRAS}
    found = {**always, **{name: one for some in by_extra.values() for name, one in some.items()}}
    found.pop(PROJECT)
    uses = {name: [extra for extra, some in by_extra.items() if name in some] for name in found}
    return [
        Row(name, one.version, licence(one), "always" if name in always else ", ".join(uses[name]))
        for name, one in sorted(found.items())
    ]


def closure(extras: Iterable[str]) -> dict[str, Distribution]:
    """The installed distributions that the project with some extras needs, directly or not, by normalised name."""
    found: dict[str, Distribution] = {}
    done: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [(PROJECT, tuple(extras))]
    while waiting:
        place = waiting.pop()
        if place in done:
            continue
        done.add(place)
        try:
            found[place[0]] = distribution(place[0])
        except PackageNotFoundError:
            continue
        waiting += _requirements(found[place[0]], place[1])
    return found


def _requirements(found: Distribution, extras: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for text in found.requires or ():
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield re.sub(r"[-_.]+", "-", needed.name).lower(), tuple(sorted(needed.extras))


def page() -> str:
    """The page for what is installed here."""
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
