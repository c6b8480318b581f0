"""``zkafka ledger`` without a server: arguments that are refused, and the help."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.cli import app as zkafka
from pyspark_zkafka.cli import ledger
from pyspark_zkafka.cli.output import Row
from pyspark_zkafka.errors import LedgerError
from pyspark_zkafka.protocol.ledger import Entry, encode
from pyspark_zkafka.protocol.model import TopicPartition
from tests.support.group_brokers import GroupBrokers

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


@pytest.fixture
def foreign(group_admin: GroupBrokers) -> GroupBrokers:
    """The ledger of a query whose only entry has a time after the year 9999."""
    entry = encode(Entry(0, 7, 10, "0" * 32, "run", at_ms=2**63 - 1))
    group_admin.metadata["zkafka-q.slots-1-0"] = {TopicPartition("t", 0): entry}
    return group_admin


@pytest.mark.usefixtures("foreign")
def test_entries_with_an_impossible_time(run: Callable[..., list[Row]], show: Callable[..., tuple[str, str]]) -> None:
    """An entry with a time at which no worker can have written it is shown without a time."""
    assert [(row["batch"], row["age_s"], row["written"]) for row in run(ledger.list_)] == [(7, None, None)]
    assert [(row["batch"], row["age_s"], row["written"]) for row in run(ledger.show, "zkafka-q")] == [(7, None, None)]
    assert "Left out, as the age of some entries is unknown: zkafka-q." in show(ledger.delete, older_than="7d")[1]


def test_deletion_of_an_entry_with_an_impossible_time(foreign: GroupBrokers, run: Callable[..., list[Row]]) -> None:
    """Such a ledger is deleted with --force, as any other of an unknown age."""
    with pytest.raises(LedgerError, match="it has no entry with a time"):
        run(ledger.delete, ["zkafka-q"])
    run(ledger.delete, ["zkafka-q"], force=True)
    assert foreign.metadata == {}
