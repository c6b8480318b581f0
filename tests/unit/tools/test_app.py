"""Arguments that commands refuse before contacting a server, and the help."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from pyspark_zkafka.tools import app as zkafka

DOCS = Path(__file__).parents[3] / "docs"
NOWHERE = ["--zookeeper", "127.0.0.1:1/kafka", "--bootstrap-server", "127.0.0.1:1"]


def verbs(command: Any, *names: str) -> Iterator[str]:
    """The command's verbs, such as "topics list"."""
    if not hasattr(command, "commands"):
        yield " ".join(names)
    for name, inner in getattr(command, "commands", {}).items():
        yield from verbs(inner, *names, name)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["admin", "reassign"], "No reassignment is given; use --reassignment-json-file"),
        (["admin", "reassign", "--execute", "--verify"], "--execute and --verify exclude each other"),
        (["admin", "elect"], "either --topic or --all"),
        (["admin", "elect", "--all", "--topic", "a"], "either --topic or --all"),
        (["admin", "config", "set", "--topic", "a", "retention.ms"], "found 'retention.ms'; write NAME=VALUE"),
        (["admin", "config", "set", "--topic", "a", "k=a=b"], "found 'k=a=b'; write NAME=VALUE"),
        (["plan"], "set one of subscribe, subscribePattern, subscribeExceptPattern and assign"),
        (["plan", "--topic", "a", "--option", "minPartition=2"], "minPartitions"),
        (["plan", "--topic", "a", "--option", "minPartitions"], "write NAME=VALUE"),
        (["groups", "reset-offsets", "g", "--topic", "t"], "found none of them"),
        (
            ["groups", "reset-offsets", "g", "--topic", "t", "--to-latest", "--shift-by", "0"],
            "found --to-latest and --shift-by",
        ),
        (["groups", "reset-offsets", "g", "--to-latest"], "Use one of --topic, --all-topics and --from-file"),
        (["groups", "reset-offsets", "g", "--topic", "t", "--all-topics", "--to-latest"], "Use one of --topic"),
        (["groups", "reset-offsets", "g", "--topic", "t:x", "--to-latest"], "write TOPIC"),
        (["groups", "reset-offsets", "g", "--topic", "t", "--by-duration", "1 month"], "expected PnDTnHnMnS"),
        (
            ["groups", "reset-offsets", "g", "--topic", "t", "--to-datetime", "today"],
            "expected a time such as",
        ),
        (["groups", "reset-offsets", "g", "--topic", "t", "--to-offset", "-1"], "greater than or equal to 0"),
        (["groups", "export"], "Name one or more groups, or use --all-groups"),
        (["groups", "export", "g", "--all-groups"], "Name one or more groups, or use --all-groups"),
        (["groups", "migrate", "g", "--verify", "--force"], "--verify changes nothing"),
        (["groups", "migrate", "g", "--verify", "--live"], "--verify changes nothing; use it without --live and --force"),
        (["groups", "migrate", "g", "--live", "--force"], "use it without --live"),
        (["groups", "migrate", "g", "--live", "--interval", "inf"], "--interval"),
        (["groups", "migrate", "--to", "kafka"], "Name one or more groups"),
        (["groups", "delete"], "Missing argument"),
        (["ledger", "show"], "Missing argument"),
        (["ledger", "delete"], "Name one or more queries, or use --older-than"),
        (["ledger", "delete", "q", "--older-than", "1d"], "Name one or more queries, or use --older-than"),
        (["ledger", "delete", "--older-than", "soon"], "'soon' is not a duration; write a duration such as 15m"),
        (["ledger", "delete", "--older-than", "7"], "'7' is not a duration; write a number with its unit"),
        (["groups", "delete", "g", "--topic", ""], "--topic '' cannot be the name of a znode"),
        (["groups", "delete", "g", "--topic", ".."], "--topic '..' cannot be the name of a znode"),
        (["groups", "delete", "g", "--topic", "t/0"], "--topic 't/0' cannot be the name of a znode"),
        (["topics", "create", "t", "--partitions", "100001"], "less than or equal to 100000"),
        (["topics", "create", "t", "--replication-factor", "10001"], "less than or equal to 10000"),
        (["topics", "alter", "t", "--partitions", "3000000000"], "less than or equal to 100000"),
        (["topics", "produce", "t", "--partition", "2147483648"], "less than or equal to 2147483647"),
        (["groups", "migrate", "g", "--to", "both"], "'both' is not one of 'zookeeper', 'kafka'"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], text: str) -> None:
    """Contradictory, incomplete and wrong arguments are refused with exit status 2."""
    result = CliRunner().invoke(zkafka, [*arguments, *NOWHERE], env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    assert text in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "problem"),
    [("t,0,5\nt,1,-1\n", "no offset to reset to for t-1 at -1; leave these lines out"), ("t,0\n", "line 1")],
)
def test_file_of_a_reset(tmp_path: Path, text: str, problem: str) -> None:
    """A file for a reset needs an offset in each line."""
    file = tmp_path / "f"
    file.write_text(text)
    result = CliRunner().invoke(zkafka, ["groups", "reset-offsets", "g", "--from-file", str(file), *NOWHERE])
    assert result.exit_code == 2, result.output
    assert problem in result.stderr


@pytest.mark.parametrize("verb", sorted(verbs(get_command(zkafka))))
def test_help(verb: str) -> None:
    """The help of each verb has an example, and a page of docs/ has the verb."""
    assert f"zkafka {verb}" in CliRunner().invoke(zkafka, [*verb.split(), "--help"]).stdout.partition("Example")[2]
    assert any(re.search(rf"zkafka {verb}\b", page.read_text()) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize(
    ("closed", "arguments", "says"),
    [("<&-", "groups import -", "it is empty"), (">&-", "checkpoint show .", "NOT_A_CHECKPOINT")],
)
def test_closed_streams(closed: str, arguments: str, says: str) -> None:
    """A command whose input or output is closed, as some daemons start it, behaves as with /dev/null."""
    script = f"{sys.executable} -m pyspark_zkafka.tools {arguments} {closed}"
    done = subprocess.run(
        script, shell=True, capture_output=True, text=True, check=False, env={"ZKAFKA_ZOOKEEPER": "127.0.0.1:1"}
    )
    assert says in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
