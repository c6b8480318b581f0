"""Units of tests, shards, and the durations that balance them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.support.scheduling import Durations, in_order, in_shard, unit_of


@dataclass
class Test:
    """A test with the attributes that scheduling uses."""

    __test__ = False

    nodeid: str
    fixturenames: tuple[str, ...] = ()
    marks: dict[str, pytest.Mark] = field(default_factory=dict)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def __hash__(self) -> int:
        return hash(self.nodeid)


def test_unit() -> None:
    """Tests of the same file or the same servers are a unit, unless a mark names another one."""
    marked = {"xdist_group": pytest.mark.xdist_group("kafka4").mark}
    units = [
        unit_of(test)
        for test in (
            Test("tests/unit/test_a.py::test_one"),
            Test("tests/integration/test_b.py::test_one", ("zkafka_cluster", "breakable_cluster")),
            Test("tests/integration/test_b.py::test_two[x]", ("zkafka_cluster",), marked),
        )
    ]
    assert units == ["unit/test_a", "breakable_cluster", "kafka4"]


@pytest.fixture
def durations(tmp_path: Path) -> Durations:
    """The durations of tests ``test_N`` of files 0 to 19, which take N seconds."""
    durations = Durations(tmp_path / "durations.json")
    durations.record(
        {f"tests/test_{file}.py::test_{n}[{p}]": float(n) for file in range(20) for n in range(1, 6) for p in "ab"}
    )
    return Durations(tmp_path / "durations.json")


@pytest.fixture
def tests() -> list[Any]:
    """Five tests in each of twenty files; files 0 to 9 use the breakable cluster."""
    fixtures: Callable[[int], tuple[str, ...]] = lambda file: ("breakable_cluster",) if file < 10 else ()  # noqa: E731
    return [Test(f"tests/test_{file}.py::test_{n}[a]", fixtures(file)) for file in range(20) for n in range(1, 6)]


def test_durations(tmp_path: Path) -> None:
    """A test's duration is the mean over its parameters; other tests keep theirs, and a quick one is not recorded."""
    durations = Durations(tmp_path / "durations.json")
    durations.record({"t.py::test[a]@unit": 1.0, "t.py::test[b]": 2.0, "t.py::test_quick": 0.01})
    durations = Durations(tmp_path / "durations.json")
    durations.record({"t.py::test_later": 7.0})
    durations = Durations(tmp_path / "durations.json")
    assert [durations.of(f"t.py::{name}") for name in ("test[c]", "test_later", "test_quick")] == [1.5, 7.0, 0.05]


def test_new_file(tmp_path: Path) -> None:
    """A test with servers in a file without records is expected to take the average of its folder."""
    known = {"faults/one.py": 3.0, "faults/deep/two.py": 5.0, "parity/one.py": 1.0, "unit/one.py": 1.0}
    durations = Durations(tmp_path / "durations.json")
    durations.record({f"tests/{file}::test": took for file, took in known.items()})
    durations = Durations(tmp_path / "durations.json")
    new = ("faults/new.py::test", "faults/deep/new.py::test[x]", "parity/one.py::test_new", "unit/new.py::test")
    assert [durations.of(f"tests/{nodeid}") for nodeid in new] == [4.0, 4.0, 0.05, 0.05]


def test_tests_that_are_gone(tmp_path: Path) -> None:
    """Recording removes tests whose file or function no longer exists."""
    (tmp_path / "t.py").write_text("class TestIt:\n    def test_there(self): ...\n\ndef helper(): ...\n")
    durations = Durations(tmp_path / "durations.json")
    kept = {"t.py::TestIt::test_there": 2.0, "t.py::t.helper": 3.0}
    durations.record({**kept, "t.py::test_gone": 1.0, "gone.py::test_there": 1.0})
    Durations(tmp_path / "durations.json").record({}, tmp_path)
    assert json.loads((tmp_path / "durations.json").read_text()) == kept


@pytest.mark.parametrize("count", [1, 3, 6])
def test_shards(tests: list[Any], durations: Durations, count: int) -> None:
    """Each test is in one shard with its file, and the shards take similar times, both in all and on each cluster."""
    shards = [in_shard(tests, durations, f"{number}/{count}") for number in range(1, count + 1)]
    assert sorted(test.nodeid for test in chain(*shards)) == sorted(test.nodeid for test in tests)
    files = [{test.nodeid.partition("::")[0] for test in shard} for shard in shards]
    assert sum(map(len, files)) == 20
    for chosen in (lambda test: True, lambda test: bool(test.fixturenames)):
        seconds = [sum(durations.of(test.nodeid) for test in shard if chosen(test)) for shard in shards]
        assert max(seconds) - min(seconds) <= 15  # the duration of one file


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/2/3"])
def test_no_shard(shard: str) -> None:
    """A malformed shard is refused with the right form."""
    with pytest.raises(pytest.UsageError, match="write it like 2/6"):
        in_shard([], Durations(Path("none")), shard)


def test_order(tests: list[Any], durations: Durations) -> None:
    """The longest unit comes first, its tests stay in order, and tests that do not run count as nothing."""
    ordered = in_order(tests, durations, lambda test: "test_19.py" not in test.nodeid)
    assert ordered[:50] == tests[:50]
    assert ordered[-5:] == tests[-5:]
