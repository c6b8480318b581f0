"""``zkafka ledger`` without a server: arguments that are refused, and the help."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.cli import app as zkafka

NOWHERE = ["--bootstrap-server", "127.0.0.1:1"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show"], "Missing argument"),
        (["delete"], "Name one or more queries, or use --older-than"),
        (["delete", "q", "--older-than", "1d"], "Name one or more queries, or use --older-than"),
        (["delete", "--older-than", "soon"], "--older-than 'soon' is not a duration; write a duration such as 15m"),
        (["delete", "--older-than", "7"], "--older-than '7' is not a duration; write a number with its unit"),
    ],
)
def test_refused(arguments: list[str], text: str) -> None:
    """What contradicts itself, or is not complete, is refused with exit status 2 before a server is asked."""
    result = CliRunner().invoke(zkafka, ["ledger", *arguments, *NOWHERE], env={"COLUMNS": "200"})
    assert (result.exit_code, text in result.stderr) == (2, True), result.output


@pytest.mark.parametrize("command", ["list", "show", "delete"])
def test_help(command: str) -> None:
    """The help of each command has an example."""
    assert f"Example: zkafka ledger {command}" in CliRunner().invoke(zkafka, ["ledger", command, "--help"]).stdout
