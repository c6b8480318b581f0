"""Assignment of tests to workers and to shards of `make test-all`, and the order of tests.

Tests that need the same costly servers form a unit; so do all other tests of a file. A unit runs on one worker of
pytest-xdist (``--dist loadgroup``), and belongs to one shard. Recorded durations balance workers and shards.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

__all__ = ["SERVER_FOLDERS", "Durations", "in_order", "in_shard", "unit_of"]

SHARED_SERVERS = (
    "breakable_cluster",
    "kafka4",
    "faulty_kafka4",
    "old_cluster",
    "early_cluster",
    "guarded_cluster",
    "fortress",
    "kraft_cluster",
)
"""Session fixtures that start servers. A run has one instance of each, on the worker that runs its unit."""

SERVER_FOLDERS = tuple(
    f"tests/{name}" for name in ("integration", "interop", "kraft", "parity", "faults", "notebooks", "release")
)
"""Folders of tests with real servers."""

_SHORTEST_S = 0.1
_QUICK_S = 0.05
"""The assumed duration of a test that was too short to be recorded."""


class Durations:
    """Seconds that tests took, by node id without parameters; for several parameters, their mean."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self._files = {_file(function) for function in self._known}
        by_folder: dict[str, list[float]] = defaultdict(list)
        for function, took in self._known.items():
            by_folder[_folder(function)].append(took)
        self._usual = {folder: sum(took) / len(took) for folder, took in by_folder.items()}

    def of(self, nodeid: str) -> float:
        """Return the expected seconds of a test: in a new file with servers, the mean of its folder."""
        is_new = _folder(nodeid) in SERVER_FOLDERS and _file(nodeid) not in self._files
        return self._known.get(_function(nodeid), self._usual.get(_folder(nodeid), _QUICK_S) if is_new else _QUICK_S)

    def record(self, seconds: Mapping[str, float], root: Path | None = None) -> None:
        """Replace the durations of the tests that ran, given by full node id, and drop those no longer in `root`."""
        by_function: dict[str, list[float]] = defaultdict(list)
        for nodeid, took in seconds.items():
            by_function[_function(nodeid)].append(took)
        means = {function: round(sum(took) / len(took), 1) for function, took in by_function.items()}
        known = {**(self._known if root is None else in_tree(self._known, root)), **means}
        lasting = {function: took for function, took in sorted(known.items()) if took >= _SHORTEST_S}
        self._file.write_text(json.dumps(lasting, indent=0) + "\n", encoding="utf-8")


def in_tree(known: Mapping[str, float], root: Path) -> dict[str, float]:
    """Return the durations of tests that still exist in the files below a folder."""

    @cache
    def text(file: str) -> str:
        return (root / file).read_text(encoding="utf-8") if (root / file).exists() else ""

    def is_there(function: str) -> bool:
        file, *names = function.split("::")
        name = names[-1].rpartition(".")[2]  # of a doctest: its object
        return bool(re.search(rf"\b(def|class) {re.escape(name)}\b", text(file)))

    return {function: took for function, took in known.items() if is_there(function)}


def _function(nodeid: str) -> str:
    """Return the node id without parameters, and without the unit that pytest-xdist adds."""
    return nodeid.partition("[")[0].partition("@")[0]


def unit_of(item: pytest.Item) -> str:
    """Return the unit of a test: the servers it requests through a fixture or a parameter, or its file."""
    given = item.get_closest_marker("xdist_group")
    if given is not None:
        return str(given.args[0])
    params = item.callspec.params if hasattr(item, "callspec") else {}
    parts = [part for value in params.values() for part in (value if isinstance(value, tuple) else [value])]
    named = {part for part in parts if isinstance(part, str)}
    for fixture in SHARED_SERVERS:
        if fixture in getattr(item, "fixturenames", ()) or fixture in named:
            unit = f"{fixture}-{params[fixture]}" if fixture in params else fixture
            return "kafka4" if unit == "kraft_cluster-4.3.1" else unit
    return _file(item.nodeid).removeprefix("tests/").removesuffix(".py")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _folder(nodeid: str) -> str:
    return "/".join(nodeid.split("/")[:2])


def in_order(items: Sequence[pytest.Item], durations: Durations, runs: Callable[[pytest.Item], bool]) -> list[pytest.Item]:
    """Sort tests by unit, longest unit first. Tests that `runs` excludes take no time."""
    seconds: dict[str, float] = defaultdict(float)
    for item in filter(runs, items):
        seconds[unit_of(item)] += durations.of(item.nodeid)
    return sorted(items, key=lambda item: (-seconds[unit_of(item)], unit_of(item)))


def in_shard(items: Sequence[pytest.Item], durations: Durations, shard: str) -> list[pytest.Item]:
    """Return the tests of a shard, given as ``2/6``.

    A shard has whole units. Only the unit of the breakable cluster is too large for one shard: its files are distributed.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise pytest.UsageError(f"--zkafka-shard is {shard!r}; write it like 2/6")
    units = {item: unit_of(item) for item in items}
    parts = {item: _file(item.nodeid) if unit == "breakable_cluster" else unit for item, unit in units.items()}
    tests = ((unit, parts[item], durations.of(item.nodeid)) for item, unit in units.items())
    shards = shard_by_part(tests, int(match[2]))
    return [item for item in items if shards[parts[item]] == int(match[1])]


def shard_by_part(tests: Iterable[tuple[str, str, float]], count: int) -> dict[str, int]:
    """Choose a shard, from 1 to `count`, for each part, given unit, part and seconds of each test.

    Units of several parts are distributed first, because their tests run one after another. The other parts follow by
    duration, each to the shard with the least work.

    >>> shard_by_part([("a", "a", 5), ("f", "f1", 3), ("f", "f2", 2), ("b", "b", 4)], 2)
    {'f1': 1, 'f2': 2, 'a': 2, 'b': 1}
    """
    seconds: dict[str, float] = defaultdict(float)
    unit: dict[str, str] = {}
    for name, part, took in tests:
        seconds[part] += took
        unit[part] = name
    siblings = Counter(unit.values())
    loads = [0.0] * count
    found = {}
    for part in sorted(seconds, key=lambda part: (siblings[unit[part]] == 1, -seconds[part], part)):
        shard = loads.index(min(loads))
        loads[shard] += seconds[part]
        found[part] = shard + 1
    return found
