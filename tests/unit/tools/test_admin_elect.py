"""``zkafka admin elect`` with a fake ensemble."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer

from pyspark_zkafka.model.nouns import Broker, ClusterSnapshot, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.znodes.cluster import AdminState
from pyspark_zkafka.tools.admin import candidates, elect
from pyspark_zkafka.zookeeper.connection import Results
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run, Show

ELECTION = "/admin/preferred_replica_election"
SNAPSHOT = ClusterSnapshot(
    brokers={n: Broker(n, ()) for n in (0, 1)},
    topics={
        "t": Topic("t", {0: (0, 1), 1: (1, 0), 2: (2, 0), 3: (0, 1), 4: (0, 1)}),
        "gone": Topic("gone", {0: (0, 1)}),
    },
    states={
        TopicPartition("t", 0): PartitionState(1, 5, (0, 1)),
        TopicPartition("t", 1): PartitionState(1, 5, (0, 1)),
        TopicPartition("t", 2): PartitionState(0, 5, (0,)),
        TopicPartition("t", 3): PartitionState(1, 5, (1,)),
        TopicPartition("gone", 0): PartitionState(1, 5, (0, 1)),
    },
)


def test_candidates() -> None:
    """An election is due if the preferred replica is in the ISR but does not lead; other partitions have a reason."""
    partitions = [tp for topic in ("t", "gone") for tp in SNAPSHOT.partitions(topic)]
    found = candidates(reversed(partitions), SNAPSHOT, AdminState(deletions=("gone",)))
    assert [(str(c.partition), c.leader, c.preferred, c.obstacle) for c in found] == [
        ("gone-0", 1, 0, "the topic is being deleted"),
        ("t-0", 1, 0, None),
        ("t-1", 1, 1, "the preferred replica leads already"),
        ("t-2", 0, 2, "broker 2 is not live"),
        ("t-3", 1, 0, "broker 0 is not in the ISR"),
        ("t-4", -1, 0, "the partition is being created"),
    ]


@pytest.fixture
def election(client: EnsembleClient) -> Callable[..., None]:
    """A setter of topic ``t``'s leaders, whose preferred replica is 1, and of live brokers; broker 2 is the controller."""
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
    """Return the partitions of the requested election."""
    found = json.loads(client.data(ELECTION) or b"")["partitions"]
    return [partition["partition"] for partition in found]


def test_election_of_partitions_that_are_named_one_by_one(
    client: EnsembleClient, election: Callable[..., None], run: Run
) -> None:
    """A topic may be given several times with different partitions, whose elections are shown as due without waiting."""
    election(2, 2)
    assert [row["election"] for row in run(elect, ["t:0", "t:1"], no_wait=True)] == ["due", "due"]
    assert requested(client) == [0, 1]


def test_election_that_is_not_waited_for(election: Callable[..., None], show: Show) -> None:
    """Without waiting, the command ends with a confirmation of the request."""
    election(2, 2)
    assert (
        show(elect, ["t"], no_wait=True)[1]
        == "The election was requested. `zkafka admin show` lists it while it is pending.\n"
    )


@pytest.mark.parametrize(
    ("leaders", "live", "fails"),
    [((1, 1), (1, 2), False), ((1, 2), (2,), True), ((2, 2), (2,), True), ((1, 1), (2,), False)],
)
def test_election_that_cannot_be(
    leaders: tuple[int, ...],
    live: tuple[int, ...],
    fails: bool,
    client: EnsembleClient,
    election: Callable[..., None],
    show: Show,
) -> None:
    """The exit status is 1 if a leader is not the preferred replica, even if no election can change that."""
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
    """Elected and impossible partitions are shown together, and the exit status is 1 because of the latter."""
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
        assert shown.count(" elected") == 1
        assert shown.count("not in the ISR") == 2
