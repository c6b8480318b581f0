"""``zkafka groups migrate`` with a fake ensemble and fake brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer

from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError
from pyspark_zkafka.model.nouns import OffsetStore, TopicPartition
from pyspark_zkafka.tools.group_migrate import Migration, migrate
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers, active, raising
from tests.support.running import Run, Show

pytestmark = pytest.mark.usefixtures("memberless")

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"
REFUSED = ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")


@pytest.fixture
def group_admin(group_admin: Any) -> Any:
    """Brokers without offsets of the group."""
    group_admin.stored.clear()
    return group_admin


def failed(show: Show, capsys: pytest.CaptureFixture[str], *args: Any, **options: Any) -> str:
    """Return the notes of a command that ends with exit status 1."""
    with pytest.raises(typer.Exit) as caught:
        show(migrate, *args, **options)
    assert caught.value.exit_code == 1
    return capsys.readouterr().err


def test_copy(group_admin: Any, run: Run) -> None:
    """An offset is copied, and shown as in the source and as in the target before and after."""
    (row,) = run(migrate, ["g"])
    expected = {"source_offset": 5, "target_before": None, "target_after": 5, "state": "copied", "reason": None}
    assert row == {"group": "g", "topic": "t", "partition": 0, **expected}
    assert group_admin.stored["g"] == {T0: 5}
    assert [row["state"] for row in run(migrate, ["g"])] == ["equal"]


def test_all_groups(client: EnsembleClient, group_admin: Any, show: Show) -> None:
    """All groups are those with offsets in the source; groups with ledgers are left out and counted."""
    client.put("/consumers/zkafka-q.slots-1-0/offsets/t/0", b"0")
    client.put("/consumers/unused/ids")
    _, notes = show(migrate, None, all_groups=True)
    assert notes.splitlines() == [
        "Left out: 1 group(s) with the ledgers of exactly-once writes.",
        "2 group(s): 2 copied.",
    ]
    assert group_admin.stored == {"g": {T0: 5}, "idle": {T1: 7}}


def test_names_that_zookeeper_cannot_have(group_admin: Any, show: Show) -> None:
    """Groups with names that ZooKeeper does not allow are left out of a copy to ZooKeeper."""
    group_admin.stored = {"a/b": {T0: 5}, "idle": {T1: 7}, "unused": {}}
    _, notes = show(migrate, None, all_groups=True, to="zookeeper")
    assert notes.splitlines() == ["Left out: ZooKeeper cannot have groups of the names 'a/b'.", "1 group(s): 1 equal."]


@pytest.mark.parametrize("options", [{}, {"dry_run": True}])
def test_offsets_beyond_the_log(client: EnsembleClient, group_admin: Any, show: Show, options: dict[str, bool]) -> None:
    """A copied offset beyond the end of the log is noted, unless the partition's leader does not respond."""
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


def test_dry_run(group_admin: Any, show: Show) -> None:
    """A dry run shows both stores, and what would be copied."""
    text, notes = show(migrate, ["g"], dry_run=True)
    assert "behind" in text
    assert notes == "Dry run: nothing was changed.\n"
    assert group_admin.stored == {}


def test_verify(group_admin: Any, show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    """Verification fails with exit status 1 if the stores differ, and changes nothing."""
    assert failed(show, capsys, ["g"], verify=True).endswith("1 group(s): 1 behind.\n")
    assert group_admin.stored == {}
    group_admin.stored["g"] = {T0: 5}
    assert show(migrate, ["g"], verify=True)[1] == "1 group(s): 1 equal.\n"


def test_group_that_fails(group_admin: Any, run: Run, show: Show, capsys: Any) -> None:
    """A group that cannot be copied does not prevent copies of others, and reasons name it. Alone, it is an error."""
    group_admin.states["g"] = active(1)
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        run(migrate, ["g"])
    capsys.readouterr()
    notes = failed(show, capsys, ["g", "idle"]).splitlines()
    assert notes[0] == "Active, and not copied without --live: g."
    assert notes[1].startswith("g t-0: The offsets were not copied: group g is Stable in Kafka, with 1 member(s)")
    assert notes[2] == "2 group(s): 1 copied, 1 failed."
    assert group_admin.stored == {"idle": {T1: 7}}


def test_consumers_that_join_while_a_group_is_copied(
    client: EnsembleClient, group_admin: Any, show: Show, capsys: Any
) -> None:
    """Offsets that were written before consumers joined are reported as copied; with a note on the group, and status 1."""
    registration = b'{"version": 1, "subscription": {"t": 1}}'
    group_admin.before_change = lambda group: client.put(f"/consumers/{group}/ids/{group}_late", registration)
    with pytest.raises(typer.Exit) as caught:
        show(migrate, ["g", "idle"])
    text, notes = capsys.readouterr()
    assert caught.value.exit_code == 1
    assert text.count("copied") == 2
    assert "g: Consumers have joined while the offsets were copied" in notes


def test_active_group_whose_stores_agree(group_admin: Any, show: Show, capsys: Any) -> None:
    """The exit status is 1 if a group has active consumers, also if its stores agree at this moment."""
    group_admin.stored["g"] = {T0: 5}
    group_admin.states["g"] = active(1)
    notes = failed(show, capsys, ["g", "idle"]).splitlines()
    assert notes[1].startswith("g: The offsets were not copied: group g is Stable in Kafka")
    assert notes[2] == "2 group(s): 1 copied, 1 equal."


def test_brokers_out_of_reach(group_admin: Any, show: Show, capsys: Any) -> None:
    """Brokers that stop responding end the command, which shows the groups copied before."""
    group_admin.before_change = raising(BrokersUnavailable("BROKERS_UNAVAILABLE", "no broker answered"), "idle")
    with pytest.raises(BrokersUnavailable):
        show(migrate, ["g", "idle"])
    assert "copied" in capsys.readouterr().out
    assert group_admin.stored == {"g": {T0: 5}}


def test_unknown_group(run: Run) -> None:
    """A named group without an offset in either store is an error."""
    with pytest.raises(GroupError, match="UNKNOWN_GROUP"):
        run(migrate, ["nobody"])


def test_report_of_a_look(client: EnsembleClient, group_admin: Any) -> None:
    """A group that was only compared has the same offset in the target before and after."""
    group_admin.stored["g"] = {T0: 3}
    (found,) = Migration(client, group_admin, "kafka").read(["g"])["g"].found
    assert found.partition == T0
    assert found.source == 5
    assert found.before == 3
    assert found.target == 3
    assert found.state == "behind"


# --- between the stores ---------------------------------------------------------------------------------------------


@pytest.fixture
def brokers(group_admin: GroupBrokers) -> GroupBrokers:
    """Brokers with an offset of the group in the other partition."""
    group_admin.stored["g"] = {T1: 5}
    return group_admin


def migration(
    client: EnsembleClient,
    brokers: Any,
    to: OffsetStore,
    *,
    force: bool = False,
    sleep: Callable[[float], None] = lambda s: None,
) -> Migration:
    """Return a migration whose clock advances by a second at each reading."""
    seconds = iter(range(1_000))
    return Migration(client, brokers, to, force, sleep, lambda: next(seconds))


@pytest.mark.parametrize("to", ["kafka", "zookeeper"])
def test_copy_between_stores(client: EnsembleClient, brokers: GroupBrokers, to: OffsetStore) -> None:
    """Offsets missing in the target are copied, and offsets only in the target stay and are reported as ahead."""
    found = migration(client, brokers, to).copy("g")
    states = {T0: "copied", T1: "ahead"} if to == "kafka" else {T0: "ahead", T1: "copied"}
    assert {outcome.partition: outcome.state for outcome in found} == states
    assert brokers.stored["g"] == ({T0: 5, T1: 5} if to == "kafka" else {T1: 5})
    assert ("/consumers/g/offsets/t/1" in client.ensemble.nodes) == (to == "zookeeper")


def test_copy_back_with_force(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """With force, the target is set back to the source."""
    brokers.stored["g"] = {T0: 70}
    assert [o.state for o in migration(client, brokers, "kafka").copy("g")] == ["ahead"]
    assert [o.state for o in migration(client, brokers, "kafka", force=True).copy("g")] == ["copied"]
    assert brokers.stored["g"] == {T0: 5}


def test_topic_created_again(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """An offset older than its topic is copied only with force."""
    client.put("/consumers/g/offsets/u/0", b"7")
    client.put_topic("u")
    place = TopicPartition("u", 0)
    for force, state in ((False, "failed"), (True, "copied")):
        found = {o.partition: o.state for o in migration(client, brokers, "kafka", force=force).copy("g")}
        assert found[place] == state
        assert (place in brokers.stored["g"]) == force


def test_refused_partitions(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A partition that brokers refuse has failed, with their reason."""
    brokers.refused = {T0: ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")}
    for before in ({}, {T0: 70}):  # a target ahead is written only with force
        brokers.stored["g"] = before
        found = {o.partition: (o.state, o.reason) for o in migration(client, brokers, "kafka", force=True).copy("g")}
        assert found[T0] == ("failed", "an ACL denies it")


def test_active_groups(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Nothing is copied while a consumer of either kind is active, and the error suits the direction."""
    brokers.states["g"] = active(1)
    with pytest.raises(GroupError, match="brokers accept offsets from these alone"):
        migration(client, brokers, "kafka").copy("g")
    with pytest.raises(GroupError, match="its consumers keep committing there; stop them, or use --live"):
        migration(client, brokers, "zookeeper").copy("g")
    client.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="were not copied, as --live was not given: group g must be inactive"):
        migration(client, brokers, "kafka").copy("g")
    assert brokers.stored["g"] == {T1: 5}


def test_follow_until_both_agree(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """While members commit to ZooKeeper, offsets are copied repeatedly until both stores agree."""
    client.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}
    offsets = iter([b"60", b"70"])

    def commit(seconds: float) -> None:
        offset = next(offsets, None)
        if offset is not None:
            client.put(PATH_0, offset)

    (found,) = migration(client, brokers, "kafka", sleep=commit).follow("g", 1.0, 500.0)
    assert found.state == "copied"
    assert found.target == 70
    assert brokers.stored["g"] == {T0: 70}


def test_follow_until_the_consumers_leave(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """The last offsets of the last member are copied after it has left."""
    client.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}

    def leave(seconds: float) -> None:
        client.put(PATH_0, b"60")
        del client.ensemble.nodes["/consumers/g/ids/g_a"]

    (found,) = migration(client, brokers, "kafka", sleep=leave).follow("g", 1.0, 500.0)
    assert found.state == "copied"
    assert found.before is None
    assert found.target == 60


def test_follow_without_an_end(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """A group that commits faster than it is copied is followed until the time-out."""
    client.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}
    offsets = iter(range(51, 1_000))
    found = migration(client, brokers, "kafka", sleep=lambda s: client.put(PATH_0, str(next(offsets)).encode()))
    (outcome,) = found.follow("g", 1.0, 20.0)
    assert outcome.state == "failed"
    assert outcome.reason == "the source has moved on meanwhile; run this again"
    assert outcome.target == brokers.stored["g"][T0]


def test_follow_consumers_of_the_target(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Offsets cannot be copied to Kafka while Kafka coordinates consumers of the group."""
    brokers.states["g"] = active(1)
    with pytest.raises(GroupError, match="is Stable in Kafka"):
        migration(client, brokers, "kafka").follow("g", 1.0, 500.0)


def test_follow_to_zookeeper(client: EnsembleClient, brokers: GroupBrokers) -> None:
    """Offsets that members commit to Kafka are copied to ZooKeeper, and their own commits to ZooKeeper are no error."""
    brokers.states["g"] = active(1)
    del client.ensemble.nodes[PATH_0]

    def commit() -> None:
        client.meanwhile = lambda: None
        client.put("/consumers/g/offsets/t/1", b"4")

    client.meanwhile = commit
    (found,) = migration(client, brokers, "zookeeper").follow("g", 1.0, 500.0)
    assert found.partition == T1
    assert found.target == 5
    assert found.state == "copied"
