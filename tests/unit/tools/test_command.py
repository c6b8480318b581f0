"""Options of all commands, and the servers and parameters of commands on groups."""

from __future__ import annotations

import json
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from pyspark_zkafka.errors import ClusterStateError, OptionError
from pyspark_zkafka.tools import app as zkafka
from pyspark_zkafka.tools.command import Servers, Target, changes_cluster, reads_cluster, require_groups
from pyspark_zkafka.tools.output import Output, columns

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
@reads_cluster
def show(target: Target, name: Annotated[str, typer.Option()] = "all") -> None:
    """Show the arguments."""
    target.output.rows([{"name": name, "connect": target.options.get("zookeeper.connect")}], columns("name connect"))


@app.command("options")
@reads_cluster
def show_options(target: Target) -> None:
    """Show the options of the connection."""
    target.output.rows([target.options], columns(" ".join(target.options)))


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
    """The cluster comes from an option or the environment, and the command keeps its own options."""
    result = CliRunner().invoke(app, ["show", "--name", "x", "--json"], env={"ZKAFKA_ZOOKEEPER": "zk:2181/k"})
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [{"name": "x", "connect": "zk:2181/k"}]


def test_connection_from_a_file(tmp_path: Path) -> None:
    """An option on the command line takes precedence over one in the file."""
    (tmp_path / "f").write_text("zookeeper.connect=a:1\n")
    result = CliRunner().invoke(app, ["show", "--command-config", str(tmp_path / "f"), "--zookeeper", "b:1", "--json"])
    assert json.loads(result.stdout)[0]["connect"] == "b:1"


def test_options_are_not_shown() -> None:
    """A target's text leaves out the options, which may have secrets."""
    assert "s3cret" not in repr(Target({"kafka.sasl.password": "s3cret"}, Output()))


def test_errors() -> None:
    """An error is one line on standard error with exit status 1; a traceback comes before it with --debug."""
    result = CliRunner().invoke(app, ["fail"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "[NO_BROKERS] No live broker is registered\n"
    debug = CliRunner().invoke(app, ["fail", "--debug"])
    assert debug.exit_code == 1
    assert debug.stderr.startswith("Traceback ")
    assert debug.stderr.endswith("\n[NO_BROKERS] No live broker is registered\n")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["--zookeeper", "dev:2181"], {"zookeeper.connect": "dev:2181"}),
        (["--bootstrap-server", "dev:9092"], {"kafka.bootstrap.servers": "dev:9092"}),
        ([], {"zookeeper.connect": "prod:2181", "kafka.bootstrap.servers": "prod:9092"}),
        (
            ["--zookeeper", "dev:2181", "--bootstrap-server", "dev:9092"],
            {"zookeeper.connect": "dev:2181", "kafka.bootstrap.servers": "dev:9092"},
        ),
    ],
)
def test_addresses_of_two_clusters(typed: list[str], found: dict[str, str]) -> None:
    """An address on the command line is not combined with the environment's other address."""
    environment = {"ZKAFKA_ZOOKEEPER": "prod:2181", "ZKAFKA_BOOTSTRAP_SERVER": "prod:9092"}
    result = CliRunner().invoke(app, ["options", "--json", *typed], env=environment)
    assert json.loads(result.stdout) == [found]


@pytest.mark.parametrize(
    ("typed", "is_file_typed", "found"),
    [
        (["--zookeeper", "dev:2181"], False, {"zookeeper.connect": "dev:2181"}),
        (["--zookeeper", "dev:2181"], True, {"zookeeper.connect": "dev:2181"}),
        ([], True, {"kafka.bootstrap.servers": "file:9092"}),
        ([], False, {"kafka.bootstrap.servers": "prod:9092", "zookeeper.connect": "prod:2181"}),
    ],
)
def test_addresses_of_a_file(tmp_path: Path, typed: list[str], is_file_typed: bool, found: dict[str, str]) -> None:
    """A typed address is not combined with a file's, nor the address of a typed file with the environment's."""
    (tmp_path / "f").write_text("bootstrap.servers=file:9092\n")
    environment = {"ZKAFKA_ZOOKEEPER": "prod:2181", "ZKAFKA_BOOTSTRAP_SERVER": "prod:9092"}
    if is_file_typed:
        typed = [*typed, "--command-config", str(tmp_path / "f")]
    else:
        environment["ZKAFKA_COMMAND_CONFIG"] = str(tmp_path / "f")
    result = CliRunner().invoke(app, ["options", "--json", *typed], env=environment)
    assert json.loads(result.stdout) == [found]


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
    """A change needs --yes without a terminal, and a dry run changes nothing."""
    result = CliRunner().invoke(app, ["change", *arguments])
    assert result.exit_code == status
    assert text in result.stderr


def test_no_cluster() -> None:
    """The error of a command without a cluster says how to name one."""
    result = CliRunner().invoke(zkafka, ["brokers"], env={"ZKAFKA_ZOOKEEPER": "", "ZKAFKA_BOOTSTRAP_SERVER": ""})
    assert result.exit_code == 2
    assert "use --zookeeper" in result.stderr


@pytest.mark.parametrize(
    ("groups", "all_groups", "found"), [(["b", "a", "b"], False, ["b", "a"]), (None, True, None), ([], True, None)]
)
def test_groups(groups: list[str] | None, all_groups: bool, found: list[str] | None) -> None:
    """Repeated names of groups count once, in order, and None stands for all groups."""
    assert require_groups(groups, all_groups) == found


def test_brokers_are_opened_once() -> None:
    """Brokers are looked up at their first use, and then kept."""
    opened: list[str] = []

    class Opening(Target):
        def group_brokers(self, snapshot: object, timeout_s: float | None = None) -> Any:
            opened.append("brokers" if timeout_s is None else "short timeout")
            return nullcontext(object())

    servers = Servers(Opening({}, Output()), None, ExitStack())
    assert not opened
    assert servers.brokers is servers.brokers
    assert opened == ["brokers"]
    assert servers.brokers_with_short_timeout is servers.brokers_with_short_timeout
    assert opened == ["brokers", "short timeout"]


def test_no_zookeeper() -> None:
    """The error of a command that needs ZooKeeper's data says how to name an ensemble."""
    with pytest.raises(OptionError, match="use --zookeeper"):
        Servers(Target({}, Output()), None, ExitStack()).require_zookeeper()
