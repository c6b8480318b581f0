"""Tables that are shown repeatedly."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyspark_zkafka.errors import OptionError, ZooKeeperError
from pyspark_zkafka.tools.output import Output, columns
from pyspark_zkafka.tools.watch import Observed, watch


def run(*answers: Observed | Exception, as_json: bool = False) -> None:
    """Watch the prepared answers in turn until Ctrl-C."""
    left: Iterator[Observed | Exception] = iter(answers)

    def observe() -> Observed:
        answer = next(left, None)
        if answer is None:
            raise KeyboardInterrupt
        if isinstance(answer, Exception):
            raise answer
        return answer

    watch(Output(as_json), observe, 0.01, columns("n"), empty="Nothing is wrong.")


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are shown as tables followed by notes, missing rows as a note, and retriable errors as they are."""
    run(([{"n": 941}], ["a note"]), ([], []), ZooKeeperError("NO_ZOOKEEPER", "No answer"), ([{"n": 942}], []))
    out = capsys.readouterr().out
    found = [out.index(text) for text in ("941", "a note", "Nothing is wrong.", "[NO_ZOOKEEPER] No answer", "942")]
    assert found == sorted(found)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With JSON, each table is a list on its own line, and notes go to standard error."""
    run(([{"n": 1}], ["a note"]), ([], []), as_json=True)
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [[{"n": 1}], []]
    assert err == "a note\n"


def test_other_errors() -> None:
    """An error that is not retriable ends the command."""
    with pytest.raises(OptionError):
        run(OptionError("INVALID_OPTION", "wrong"))
