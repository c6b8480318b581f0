"""Benchmarks: the order of turns, and the summaries of figures."""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from benchmarks import cli, markdown, matrix, session
from benchmarks.checks import WrongResult
from benchmarks.cluster import Topic
from benchmarks.engines import ENGINES
from benchmarks.job import Case, turns
from benchmarks.results import EITHER, Contender, Round, cases, load, ratio, save, summaries
from benchmarks.session import SETTINGS
from benchmarks.shapes import Facts
from benchmarks.usage import Usage
from benchmarks.writes import Write
from tests.support.spark_standalone import SparkStandalone

SECONDS = {
    ("ours", "defaults"): (1.0, 2.0, 4.0),
    ("ours", "recommended"): (0.5, 1.0, 2.0),
    ("jvm", EITHER): (4.0, 8.0, 16.0),
    ("jvm-tuned", EITHER): (0.75, 1.5, 3.0),
}
"""Seconds by contender and round; the machine becomes slower from round to round."""


def rounds(work: str = "read", shape: str = "small") -> list[Round]:
    """Return three rounds of each contender, whose CPU time is twice the seconds."""
    where, extra = ("local[2]", work, shape), {"median_ms": {"addBatch": 100, "triggerExecution": 200}}
    return [
        Round(*where, *contender, number, s, 2_000_000, 200_000_000, Usage(2 * s, 0, s / 4, 0, 0, 0), extra)
        for contender, several in SECONDS.items()
        for number, s in enumerate(several)
    ]


MAIN_ROUNDS = [one for work in ("read", "write", "stream20") for one in rounds(work)]


class TestTurns:
    """The order of turns in a round."""

    def test_python_engines_have_a_turn_in_each_session_and_others_alternate(self) -> None:
        """Over two rounds, each engine runs equally often in each session."""
        engines = [ENGINES[name] for name in ("ours", "arrow", "jvm", "librdkafka")]
        source = random.Random(1)
        taken = [turns(engines, tuple(SETTINGS), number, source) for number in range(2)]
        assert [len(one) for one in taken] == [6, 6]
        counts = Counter((turn.engine, turn.settings) for one in taken for turn in one)
        wanted = {("ours", 2), ("arrow", 2), ("jvm", 1), ("librdkafka", 1)}
        assert counts == {(name, settings): count for name, count in wanted for settings in SETTINGS}

    def test_the_order_changes(self) -> None:
        """The order of turns is random."""
        source = random.Random(1)
        orders = {tuple(turns(list(ENGINES.values()), tuple(SETTINGS), 0, source)) for _ in range(10)}
        assert len(orders) == 10


class TestSession:
    """Spark's sessions."""

    def test_standalone_executors_compile_as_usual(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The benchmark's standalone cluster compiles with C1 and C2; the cluster of the tests uses C1 alone."""
        given: list[dict[str, Any]] = []

        def standalone(**options: Any) -> Any:
            given.append(options)
            return nullcontext(SparkStandalone("spark://host:1", []))

        monkeypatch.setattr(session, "spark_standalone", standalone)
        monkeypatch.setattr(session, "prepare_environment", lambda: None)
        monkeypatch.setattr(session, "_session", lambda *given: Mock())
        with session.opened(session.STANDALONE, Mock(), "defaults") as bench:
            assert bench.cores == 2
        assert given == [{"worker_memory": "2g", "jvm_options": ""}]


class TestCommands:
    """The commands' help."""

    def test_help_shows_brackets(self) -> None:
        """The form of a master is shown whole, and not taken for markup."""
        shown = CliRunner().invoke(cli.app, ["run", "--help"], env={"COLUMNS": "200"}).output
        assert "local[n] or standalone" in shown


class TestWrites:
    """Checks of what was written."""

    def test_markers_do_not_hide_lost_rows(self) -> None:
        """Rows that are missing from an exactly-once write are found although its markers have offsets, too."""
        records, tasks, partitions = 800, 8, 8
        work = Write(Mock(), Topic("t", "small", Facts(records, 0, 0, 0, 0, 0, 0), [100] * partitions))
        work.verify_ends(ENGINES["ours-once"], [100 + tasks] * partitions)
        for lost in (1, tasks * partitions - 1):
            with pytest.raises(WrongResult, match="markers"):
                work.verify_ends(ENGINES["ours-once"], [100 + tasks - lost, *[100 + tasks] * (partitions - 1)])


class TestFigures:
    """Medians and ratios."""

    def test_ratios_are_within_rounds(self) -> None:
        """Ratios do not change if the machine becomes slower, since they are computed within rounds."""
        tuned = Contender("jvm-tuned", EITHER)
        assert ratio(rounds(), Contender("ours", "defaults"), tuned, lambda one: one.seconds) == 0.75
        assert ratio(rounds(), Contender("ours", "recommended"), tuned, lambda one: one.seconds) == 1.5
        assert ratio(rounds(), Contender("ours-once", "defaults"), tuned, lambda one: one.seconds) is None

    def test_settings_are_summarised_apart(self) -> None:
        """Each of Spark's settings has its own summary, and an engine without Python has a single one."""
        found = {one.contender: one for one in summaries(rounds())}
        assert {tuple(one): round(found[one].seconds, 2) for one in found} == {key: s[1] for key, s in SECONDS.items()}
        assert found[Contender("ours", "defaults")].others_share == 0.25
        assert found[Contender("ours", "defaults")].cpu_ratios == {"jvm": 4.0, "jvm-tuned": 0.75}

    def test_the_last_of_several_files_counts(self, tmp_path: Path) -> None:
        """A repeated case replaces its earlier figures, and other cases stay."""
        files = [tmp_path / "1.json", tmp_path / "2.json"]
        documents = [[*rounds(), *rounds("write")], rounds()[3:]]
        for path, several in zip(files, documents, strict=True):
            save(path, {"environment": ENVIRONMENT, "rounds": several, "figures": {}})
        found = cases(load(files)["rounds"])
        assert [len(several) for several in found.values()] == [9, 12]


class TestMarkdown:
    """Tables of the documentation."""

    def test_tables_have_both_settings_and_say_where_zkafka_is_slower(self) -> None:
        """Ratios of zkafka below 1 are marked as slower, but those of its peers are not."""
        found = markdown.tables({"environment": ENVIRONMENT, "rounds": MAIN_ROUNDS, "figures": {}})
        assert found["read"].splitlines()[2:] == [
            "| zkafka (defaults) | 1.00 | 2.00 | 4.00; 0.75 **slower** |",
            "| zkafka (recommended) | 2.00 | 1.00 | 8.00; 1.50 |",
            "| JVM, defaults | 0.25 | 8.00 | 1.00; 0.19 |",
            "| JVM, tuned | 1.33 | 1.50 | 5.33; 1.00 |",
        ]
        assert found["summary"].splitlines()[2] == (
            "| read, all columns, 100 B | 1.00 (0.75 **slower**) | 2.00 (1.50) | 0.25 | 1.33 | - |"
        )
        assert "3 rounds. Other processes took 0.25 cores" in found["environment"]

    def test_replaces_what_was_measured_and_leaves_the_rest(self) -> None:
        """Tables that were not measured again stay."""
        names = ("stream20", "write-nokey")
        page = "".join(f"<!-- figures: {name} -->\n\nold\n\n<!-- end of figures -->\ntext\n" for name in names)
        assert markdown.replaced(page, {"stream20": "new"}) == page.replace("old", "new", 1)

    @pytest.mark.parametrize("work", ["read", "write", "stream20"])
    def test_tables_of_several_works_stay_unless_all_were_measured(self, work) -> None:
        """Figures of one part replace neither the tables that have rows of other parts, nor the date of all figures."""
        found = markdown.tables({"environment": ENVIRONMENT, "rounds": rounds(work), "figures": {}})
        assert set(found) == {work}

    @pytest.mark.parametrize("page", markdown.PAGES)
    def test_pages_name_tables(self, page) -> None:
        """Each placeholder for a table names an existing one and has an end."""
        names = re.findall(r"<!-- figures: (.*?) -->", page.read_text())
        shapes = ("small", "big")
        everything = [one for work in markdown.WORKS for shape in shapes for one in rounds(work, shape)]
        known = {*markdown.tables({"environment": ENVIRONMENT, "rounds": everything, "figures": {}}), *OTHERS}
        assert set(names) - known == set()
        assert page.read_text().count("<!-- end of figures -->") == len(names)


ENVIRONMENT = {"date": "2026-01-31T", "cores": 2, "brokers": "3 x Kafka", "pyspark": "4.3.0", "python": "3.11"}
OTHERS = {"exactly-once", "micro-batches", "memory", "latency", "starts", "layouts", "planning", "rebalance", "sail"}


class TestParts:
    """Parts of `make bench`."""

    @pytest.mark.parametrize("part", [*matrix.PARTS, "quick"])
    def test_every_case_has_engines_that_can_do_it(self, part) -> None:
        """Each case compares engines, and no job repeats a case."""
        jobs = matrix.quick(0.5, 3) if part == "quick" else matrix.PARTS[part](0.5, 5)
        for job in jobs:
            assert job.settings == tuple(SETTINGS)
            assert all(case.compared for case in job.cases)
            assert len({key(case) for case in job.cases}) == len(job.cases)

    def test_quick_has_each_peer(self) -> None:
        """The main cases of the quick part compare zkafka, the connector by default and tuned, and Spark's limit."""
        [job] = matrix.quick(0.5, 3)
        for case in job.cases:
            if len(case.engines) > 2:
                assert {"ours", "jvm", "jvm-tuned", "arrow"} <= set(case.engines)
                assert (case.work in ("write",)) == ("jvm-idempotent" in case.engines)


def key(case: Case) -> tuple[str, str, float]:
    """Return the key of a case."""
    return case.work, case.shape, case.scale


def test_rounds_are_grouped_by_case() -> None:
    """Rounds are grouped by work and shape."""
    assert len(cases([*rounds(), *rounds(shape="big"), *rounds("write")])) == 3
