"""``zkafka admin`` on an ensemble of values, and options of it and of ``zkafka plan`` that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pyspark_zkafka.tools import app
from pyspark_zkafka.tools.admin import delete_topic, elect
from pyspark_zkafka.tools.output import Row
from pyspark_zkafka.zookeeper.connection import Results
from tests.support.cases import each
from tests.support.ensemble_client import EnsembleClient

ELECTION = "/admin/preferred_replica_election"


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


@pytest.fixture
def election(client: EnsembleClient) -> Callable[..., None]:
    """Sets the leaders of topic ``t``, whose preferred replica is 1, and the live brokers; broker 2 is the controller."""
    client.put("/controller", b'{"version": 1, "brokerid": 2, "timestamp": "1"}')
    client.put("/admin")
    client.put("/brokers/topics/t", b'{"version": 1, "partitions": {"0": [1, 2], "1": [1, 2]}}')
    client.put("/brokers/ids/2", client.data("/brokers/ids/1"))

    def lead(*leaders: int, live: tuple[int, ...] = (1, 2)) -> None:
        for partition, leader in enumerate(leaders):
            state = {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": [1, 2]}
            client.put(f"/brokers/topics/t/partitions/{partition}/state", json.dumps(state).encode())
        for broker in {1, 2}.difference(live):
            client.ensemble.nodes.pop(f"/brokers/ids/{broker}")

    return lead


def requested(client: EnsembleClient) -> list[int]:
    """The partitions of the election that is requested."""
    found = json.loads(client.data(ELECTION) or b"")["partitions"]
    return [partition["partition"] for partition in found]


def test_election_of_partitions_that_are_named_one_by_one(
    client: EnsembleClient, election: Callable[..., None], run: Callable[..., list[Row]]
) -> None:
    """A topic may be named several times, with different partitions; an election that is not waited for is shown as due."""
    election(2, 2)
    assert [row["election"] for row in run(elect, ["t:0", "t:1"], no_wait=True)] == ["due", "due"]
    assert requested(client) == [0, 1]


def test_changes_that_are_not_waited_for(
    client: EnsembleClient, election: Callable[..., None], show: Callable[..., tuple[str, str]]
) -> None:
    """What has been requested is said at the end of the command."""
    election(2, 2)
    assert show(elect, ["t"], no_wait=True)[1] == "The election was requested; see zkafka admin show.\n"
    client.put("/admin/delete_topics")
    notes = show(delete_topic, ["t"], no_wait=True)[1].splitlines()
    assert notes[-1] == "The deletion was requested; see zkafka admin show."


@each(
    ("leaders", "live", "fails"),
    [((1, 1), (1, 2), False), ((1, 2), (2,), True), ((2, 2), (2,), True), ((1, 1), (2,), False)],
)
def test_election_that_cannot_be(
    leaders: tuple[int, ...],
    live: tuple[int, ...],
    fails: bool,
    client: EnsembleClient,
    election: Callable[..., None],
    show: Callable[..., tuple[str, str]],
) -> None:
    """The exit status is 1 if a leader is not the preferred replica, also where no election can change that."""
    client.put("/brokers/ids/1", client.data("/brokers/ids/2"))
    election(*leaders, live=live)
    if not fails:
        show(elect, ["t"])
        return
    with pytest.raises(typer.Exit) as caught:
        show(elect, all_partitions=True)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_election_of_some_partitions(
    as_json: bool,
    client: EnsembleClient,
    election: Callable[..., None],
    new_target: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was elected is shown with what could not be, and the exit status is 1 for the latter."""
    election(2, 2)
    state = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2]}
    client.put("/brokers/topics/t/partitions/1/state", json.dumps(state).encode())

    read = client.ask

    def read_after_the_controller(**wanted: Any) -> Results:
        if client.ensemble.nodes.pop(ELECTION, None):
            election(1)
        return read(**wanted)

    monkeypatch.setattr(client, "ask", read_after_the_controller)
    with pytest.raises(typer.Exit) as caught:
        elect.__wrapped__(new_target(as_json=as_json, dry_run=False), ["t"])
    shown = capsys.readouterr().out
    assert caught.value.exit_code == 1
    if as_json:
        assert [(row["partition"], row["election"]) for row in json.loads(shown)] == [
            (0, "elected"),
            (1, "broker 1 is not in the ISR"),
        ]
    else:
        assert (shown.count(" elected"), shown.count("not in the ISR")) == (1, 2)
