"""``zkafka groups migrate`` on an ensemble and brokers of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer

from pyspark_zkafka.brokers.group_admin import GroupState
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError, OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools.group_migrate import Store, migrate, unchanged
from pyspark_zkafka.tools.migrate import Migration
from pyspark_zkafka.tools.output import Row
from tests.support.ensemble_client import EnsembleClient

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REFUSED = ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")


@pytest.fixture
def client(client: EnsembleClient) -> EnsembleClient:
    """The ensemble without members."""
    del client.ensemble.nodes["/consumers/g/ids/g_a"]
    del client.ensemble.nodes["/consumers/g/owners/t/0"]
    return client


@pytest.fixture
def group_admin(group_admin: Any) -> Any:
    """The brokers without offsets of the group."""
    group_admin.stored.clear()
    return group_admin


def states(rows: list[Row]) -> dict[tuple[str, int], str]:
    return {(row["group"], row["partition"]): row["state"] for row in rows}


def failed(show: Callable[..., tuple[str, str]], capsys: pytest.CaptureFixture[str], *args: Any, **options: Any) -> str:
    """The notes of a command that ends with exit status 1."""
    with pytest.raises(typer.Exit) as caught:
        show(migrate, *args, **options)
    assert caught.value.exit_code == 1
    return capsys.readouterr().err


def test_copy(group_admin: Any, run: Callable[..., list[Row]]) -> None:
    """An offset is copied, and shown as it was and is in both stores."""
    (row,) = run(migrate, ["g"])
    expected = {"source_offset": 5, "target_before": None, "target_after": 5, "state": "copied", "reason": None}
    assert row == {"group": "g", "topic": "t", "partition": 0, **expected}
    assert group_admin.stored["g"] == {T0: 5}
    assert states(run(migrate, ["g"])) == {("g", 0): "equal"}


def test_copy_back(client: EnsembleClient, group_admin: Any, run: Callable[..., list[Row]]) -> None:
    """The other direction copies to ZooKeeper."""
    group_admin.stored["g"] = {T1: 15}
    assert states(run(migrate, ["idle"], to=Store.kafka)) == {("idle", 1): "copied"}
    with pytest.raises(typer.Exit):  # ZooKeeper has an offset that Kafka has not
        run(migrate, ["g"], to=Store.zookeeper)
    assert client.data("/consumers/g/offsets/t/1") == b"15"


def test_all_groups(client: EnsembleClient, group_admin: Any, show: Callable[..., tuple[str, str]]) -> None:
    """All groups are those with offsets in the source, without ledgers, whose number is noted."""
    client.put("/consumers/zkafka-q.slots-1-0/offsets/t/0", b"0")
    _, notes = show(migrate, None, all_groups=True)
    assert notes.splitlines() == [
        "Left out: 1 group(s) with the ledgers of exactly-once writes.",
        "2 group(s): 2 copied.",
    ]
    assert group_admin.stored == {"g": {T0: 5}, "idle": {T1: 7}}


def test_names_that_zookeeper_cannot_have(group_admin: Any, show: Callable[..., tuple[str, str]]) -> None:
    """Groups whose names are no znode's are left out of a copy to ZooKeeper."""
    group_admin.stored = {"a/b": {T0: 5}, "idle": {T1: 7}}
    _, notes = show(migrate, None, all_groups=True, to=Store.zookeeper)
    assert notes.splitlines() == ["Left out: ZooKeeper cannot have groups of the names 'a/b'.", "1 group(s): 1 equal."]


@pytest.mark.parametrize("options", [{}, {"dry_run": True}])
def test_offsets_beyond_the_log(
    client: EnsembleClient, group_admin: Any, show: Callable[..., tuple[str, str]], options: dict[str, bool]
) -> None:
    """An offset that is copied though its log ends before it is noted; where no leader answers, nothing is known."""
    client.put("/consumers/g/offsets/t/0", b"101")
    client.put("/consumers/g/offsets/t/1", b"20")
    notes = show(migrate, ["g"], **options)[1].splitlines()
    assert notes[0] == (
        "Beyond the end of the log: g t-0 (101, and the log ends at 100). A consumer that starts there loses its place: "
        "check that this is the right cluster, or reset the offset with zkafka groups reset-offsets."
    )
    group_admin.offline = {T0: REFUSED}
    group_admin.stored.clear()
    assert "Beyond" not in show(migrate, ["g"], **options)[1]


def test_dry_run(group_admin: Any, show: Callable[..., tuple[str, str]]) -> None:
    """A dry run shows both stores as they are, and what would be copied where."""
    text, notes = show(migrate, ["g"], dry_run=True)
    assert "behind" in text
    assert notes == "Dry run: nothing was changed.\n"
    assert group_admin.stored == {}


def test_verify(group_admin: Any, show: Callable[..., tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    """Stores that differ are the exit status, those that agree are none; nothing is changed."""
    assert failed(show, capsys, ["g"], verify=True).endswith("1 group(s): 1 behind.\n")
    assert group_admin.stored == {}
    group_admin.stored["g"] = {T0: 5}
    assert show(migrate, ["g"], verify=True)[1] == "1 group(s): 1 equal.\n"


def test_refused_partition(group_admin: Any, show: Callable[..., tuple[str, str]], capsys: Any) -> None:
    """A partition that was not written is noted with the reason, which is the exit status."""
    group_admin.refused = {T0: REFUSED}
    assert failed(show, capsys, ["g"]).splitlines() == ["t-0: an ACL denies it.", "1 group(s): 1 failed."]


def test_group_that_fails_beside_others(group_admin: Any, show: Callable[..., tuple[str, str]], capsys: Any) -> None:
    """One group that cannot be copied does not prevent the others; reasons name the group."""
    group_admin.states["g"] = GroupState("STABLE", ("m1",))
    notes = failed(show, capsys, ["g", "idle"]).splitlines()
    assert notes[0] == "Active, so that nothing will be copied without --live: g."
    assert notes[1].startswith("g t-0: The offsets were not copied: group g is STABLE in Kafka, with 1 member(s)")
    assert notes[2] == "2 group(s): 1 copied, 1 failed."
    assert group_admin.stored == {"idle": {T1: 7}}


def test_group_that_fails_alone(group_admin: Any, run: Callable[..., list[Row]]) -> None:
    """The error of the only group is the command's."""
    group_admin.states["g"] = GroupState("STABLE", ("m1",))
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        run(migrate, ["g"])


def test_brokers_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, group_admin: Any, show: Callable[..., tuple[str, str]], capsys: Any
) -> None:
    """Brokers that no longer answer end the command, which shows what was copied before."""
    alter = group_admin.alter_offsets

    def alter_offsets(group: str, offsets: Any) -> Any:
        if group == "idle":
            raise BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered")
        return alter(group, offsets)

    monkeypatch.setattr(group_admin, "alter_offsets", alter_offsets)
    with pytest.raises(BrokersUnavailable):
        show(migrate, ["g", "idle"])
    assert "copied" in capsys.readouterr().out
    assert group_admin.stored == {"g": {T0: 5}}


def test_unknown_group(run: Callable[..., list[Row]]) -> None:
    """A named group without an offset in either store is an error."""
    with pytest.raises(GroupError, match="UNKNOWN_GROUP"):
        run(migrate, ["nobody"])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"verify": True, "live": True}, "--verify changes nothing; use it without --live and --force"),
        ({"verify": True, "force": True}, "--verify changes nothing; use it without --live and --force"),
        ({"live": True, "force": True}, "--force could set back what running consumers commit; use it without --live"),
    ],
)
def test_contradictions(run: Callable[..., list[Row]], given: dict[str, bool], text: str) -> None:
    """Options that contradict each other are refused."""
    with pytest.raises(OptionError, match=text):
        run(migrate, ["g"], **given)


def test_report_of_a_look(client: EnsembleClient, group_admin: Any) -> None:
    """A group that was only looked at has the same offset in the target before and after."""
    group_admin.stored["g"] = {T0: 3}
    (outcome,) = unchanged(Migration(client, group_admin, "kafka").look(["g"])["g"])
    assert (outcome.partition, outcome.source, outcome.before, outcome.after, outcome.state) == (T0, 5, 3, 3, "behind")
