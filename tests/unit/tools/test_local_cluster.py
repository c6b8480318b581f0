"""``zkafka cluster`` without a running cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.tools import app


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new cache folder."""
    monkeypatch.setenv("ZKAFKA_CACHE", str(tmp_path))


@pytest.mark.parametrize("text", ["log.dirs", "=value"])
def test_malformed_properties_are_refused(text: str) -> None:
    """A property of the brokers needs a name and a value."""
    result = CliRunner().invoke(app, ["cluster", "up", "--config", text], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"found '{text}'; write NAME=VALUE" in result.stderr


def test_status() -> None:
    """Without a cluster, the status is an empty list in JSON, and otherwise a hint."""
    assert json.loads(CliRunner().invoke(app, ["cluster", "status", "--json"]).stdout) == []
    assert "`zkafka cluster up` starts one" in " ".join(CliRunner().invoke(app, ["cluster", "status"]).stdout.split())
