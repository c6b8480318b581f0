"""Options of ``zkafka admin`` and ``zkafka plan`` that are refused before anything is asked."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from pyspark_zkafka.cli import app
from tests.support.cases import each


@each(
    ("arguments", "problem"),
    [
        (["admin", "reassign"], "No reassignment is given; use --reassignment-json-file, or --generate"),
        (["admin", "reassign", "--generate", "--verify"], "--generate, --execute and --verify exclude each other"),
        (["admin", "reassign", "--generate", "--topics", "a"], "--generate needs --broker-list"),
        (["admin", "reassign", "--generate", "--topics", "a", "--broker-list", "1,x"], "expected brokers' ids"),
        (["admin", "reassign", "--topics", "a"], "--topics, --broker-list and --disable-rack-aware are for --generate"),
        (["admin", "elect"], "either --topic or --all"),
        (["admin", "elect", "--all", "--topic", "a"], "either --topic or --all"),
        (["admin", "config", "set", "--topic", "a", "retention.ms"], "'retention.ms' is not a setting; write NAME=VALUE"),
        (["plan"], "set one of subscribe, subscribePattern, subscribeExceptPattern and assign"),
        (["plan", "--topic", "a", "--option", "minPartition=2"], "minPartitions"),
        (["plan", "--topic", "a", "--option", "minPartitions"], "write NAME=VALUE"),
    ],
)
def test_refused_options(arguments: list[str], problem: str) -> None:
    """Wrong options are reported before a connection is made, with exit status 2."""
    result = CliRunner().invoke(app, [*arguments, "--zookeeper", "127.0.0.1:1"])
    assert (result.exit_code, problem in " ".join(result.stderr.split())) == (2, True), result.stderr


def test_missing_file(tmp_path: Path) -> None:
    """A file that does not exist is named."""
    path = str(tmp_path / "moves.json")
    result = CliRunner().invoke(app, ["admin", "reassign", "--reassignment-json-file", path, "--zookeeper", "127.0.0.1:1"])
    assert (result.exit_code, path in result.stderr) == (1, True)
