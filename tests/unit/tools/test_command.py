"""The options that all commands take."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.tools import app as zkafka
from pyspark_zkafka.tools.command import Target, changes_cluster, read_text, reads_cluster
from pyspark_zkafka.tools.output import columns
from tests.support.cases import each

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
@reads_cluster
def show(target: Target, name: Annotated[str, typer.Option()] = "all") -> None:
    """Show what was given."""
    target.rows([{"name": name, "connect": target.options.get("zookeeper.connect")}], columns("name connect"))


@app.command()
@changes_cluster
def change(target: Target) -> None:
    """Change something."""
    target.output.note("changed" if target.proceed("Change it?") else "kept")


@app.command()
@reads_cluster
def fail(target: Target) -> None:
    """Fail."""
    raise ClusterStateError("NO_BROKERS", "No live broker\nis registered")


def test_connection_from_the_environment() -> None:
    """The cluster comes from an option or from the environment; the command's own options stay its own."""
    result = CliRunner().invoke(app, ["show", "--name", "x", "--json"], env={"ZKAFKA_ZOOKEEPER": "zk:2181/k"})
    assert (result.exit_code, json.loads(result.stdout)) == (0, [{"name": "x", "connect": "zk:2181/k"}])


def test_connection_from_a_file(tmp_path: Path) -> None:
    """An option on the command line wins over the file's."""
    (tmp_path / "f").write_text("zookeeper.connect=a:1\n")
    result = CliRunner().invoke(app, ["show", "--command-config", str(tmp_path / "f"), "--zookeeper", "b:1", "--json"])
    assert json.loads(result.stdout)[0]["connect"] == "b:1"


def test_errors() -> None:
    """An error is one line on standard error and exit status 1; with --debug it is raised."""
    result = CliRunner().invoke(app, ["fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "[NO_BROKERS] No live broker is registered\n")
    assert isinstance(CliRunner().invoke(app, ["fail", "--debug"]).exception, ClusterStateError)


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--yes"], 0, "changed"),
        (["--dry-run"], 0, "Dry run: nothing was changed.\nkept"),
        (["--dry-run", "--yes"], 0, "Dry run: nothing was changed.\nkept"),
        ([], 2, "There is no terminal for the confirmation; use --yes or --dry-run"),
    ],
)
def test_confirmation(arguments: list[str], status: int, text: str) -> None:
    """A change needs --yes where there is no terminal, and a dry run changes nothing."""
    result = CliRunner().invoke(app, ["change", *arguments])
    assert (result.exit_code, text in result.stderr) == (status, True)


def test_no_cluster() -> None:
    """A command without a cluster says how to give one."""
    result = CliRunner().invoke(zkafka, ["brokers"], env={"ZKAFKA_ZOOKEEPER": "", "ZKAFKA_BOOTSTRAP_SERVER": ""})
    assert (result.exit_code, "use --zookeeper" in result.stderr) == (2, True)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash stands for the standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO("typed"))
    assert read_text("-") == "typed"


@each(
    "command",
    [
        ["admin", "reassign", "--reassignment-json-file"],
        ["groups", "import"],
        ["groups", "reset-offsets", "g", "--from-file"],
    ],
)
@each("name", ["latin", "missing", "."])
def test_files_that_cannot_be_read(command: list[str], name: str, tmp_path: Path) -> None:
    """A file that is not there, or is not text, is a wrong option, which the error names with the reason."""
    (tmp_path / "latin").write_bytes(b"{\xff}")
    result = CliRunner().invoke(zkafka, [*command, str(tmp_path / name), "--zookeeper", "127.0.0.1:1"])
    reasons = {"latin": "it is not text in UTF-8", "missing": "No such file or directory", ".": "Is a directory"}
    expected = (
        f"[INVALID_OPTION] The file {tmp_path / name} cannot be read: {reasons[name]}. Correct its name or its text\n"
    )
    assert (result.exit_code, result.stderr) == (2, expected)
