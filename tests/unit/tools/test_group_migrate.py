"""``zkafka groups migrate`` with a fake ensemble and fake brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer

from pyspark_zkafka.brokers.groups import GroupState
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError, GroupError, OptionError
from pyspark_zkafka.model.nouns import OffsetStore, TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.group_migrate import Migration, migrate
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import MEMBER, GroupBrokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PATH_0 = "/consumers/g/offsets/t/0"
ACTIVE = GroupState("Stable", {"m1": MEMBER})
REFUSED = ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")


@pytest.fixture
def client(client: EnsembleClient) -> EnsembleClient:
    """An ensemble without members."""
    del client.ensemble.nodes["/consumers/g/ids/g_a"]
    del client.ensemble.nodes["/consumers/g/owners/t/0"]
    return client


@pytest.fixture
def group_admin(group_admin: Any) -> Any:
    """Brokers without offsets of the group."""
    group_admin.stored.clear()
    return group_admin


def states(rows: list[Row]) -> dict[tuple[str, int], str]:
    return {(row["group"], row["partition"]): row["state"] for row in rows}


def failed(show: Callable[..., tuple[str, str]], capsys: pytest.CaptureFixture[str], *args: Any, **options: Any) -> str:
    """Return the notes of a command that ends with exit status 1."""
    with pytest.raises(typer.Exit) as caught:
        show(migrate, *args, **options)
    assert caught.value.exit_code == 1
    return capsys.readouterr().err


def test_copy(group_admin: Any, run: Callable[..., list[Row]]) -> None:
    """An offset is copied, and shown as in the source and as in the target before and after."""
    (row,) = run(migrate, ["g"])
    expected = {"source_offset": 5, "target_before": None, "target_after": 5, "state": "copied", "reason": None}
    assert row == {"group": "g", "topic": "t", "partition": 0, **expected}
    assert group_admin.stored["g"] == {T0: 5}
    assert states(run(migrate, ["g"])) == {("g", 0): "equal"}


def test_copy_back(client: EnsembleClient, group_admin: Any, run: Callable[..., list[Row]]) -> None:
    """Offsets are copied from Kafka to ZooKeeper, too."""
    group_admin.stored["g"] = {T1: 15}
    assert states(run(migrate, ["idle"], to="kafka")) == {("idle", 1): "copied"}
    with pytest.raises(typer.Exit):  # ZooKeeper has an offset that Kafka lacks
        run(migrate, ["g"], to="zookeeper")
    assert client.data("/consumers/g/offsets/t/1") == b"15"


def test_all_groups(client: EnsembleClient, group_admin: Any, show: Callable[..., tuple[str, str]]) -> None:
    """All groups are those with offsets in the source; groups with ledgers are left out and counted."""
    client.put("/consumers/zkafka-q.slots-1-0/offsets/t/0", b"0")
    _, notes = show(migrate, None, all_groups=True)
    assert notes.splitlines() == [
        "Left out: 1 group(s) with the ledgers of exactly-once writes.",
        "2 group(s): 2 copied.",
    ]
    assert group_admin.stored == {"g": {T0: 5}, "idle": {T1: 7}}


def test_names_that_zookeeper_cannot_have(group_admin: Any, show: Callable[..., tuple[str, str]]) -> None:
    """Groups with names that ZooKeeper does not allow are left out of a copy to ZooKeeper."""
    group_admin.stored = {"a/b": {T0: 5}, "idle": {T1: 7}}
    _, notes = show(migrate, None, all_groups=True, to="zookeeper")
    assert notes.splitlines() == ["Left out: ZooKeeper cannot have groups of the names 'a/b'.", "1 group(s): 1 equal."]


@pytest.mark.parametrize("options", [{}, {"dry_run": True}])
def test_offsets_beyond_the_log(
    client: EnsembleClient, group_admin: Any, show: Callable[..., tuple[str, str]], options: dict[str, bool]
) -> None:
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


def test_dry_run(group_admin: Any, show: Callable[..., tuple[str, str]]) -> None:
    """A dry run shows both stores, and what would be copied."""
    text, notes = show(migrate, ["g"], dry_run=True)
    assert "behind" in text
    assert notes == "Dry run: nothing was changed.\n"
    assert group_admin.stored == {}


def test_verify(group_admin: Any, show: Callable[..., tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    """Verification fails with exit status 1 if the stores differ, and changes nothing."""
    assert failed(show, capsys, ["g"], verify=True).endswith("1 group(s): 1 behind.\n")
    assert group_admin.stored == {}
    group_admin.stored["g"] = {T0: 5}
    assert show(migrate, ["g"], verify=True)[1] == "1 group(s): 1 equal.\n"


def test_refused_partition(group_admin: Any, show: Callable[..., tuple[str, str]], capsys: Any) -> None:
    """A refused partition is noted with the reason, and the exit status is 1."""
    group_admin.refused = {T0: REFUSED}
    assert failed(show, capsys, ["g"]).splitlines() == ["t-0: an ACL denies it.", "1 group(s): 1 failed."]


def test_group_that_fails_beside_others(group_admin: Any, show: Callable[..., tuple[str, str]], capsys: Any) -> None:
    """A group that cannot be copied does not prevent copies of others, and reasons name the group."""
    group_admin.states["g"] = GroupState("Stable", {"m1": MEMBER})
    notes = failed(show, capsys, ["g", "idle"]).splitlines()
    assert notes[0] == "Active, and not copied without --live: g."
    assert notes[1].startswith("g t-0: The offsets were not copied: group g is Stable in Kafka, with 1 member(s)")
    assert notes[2] == "2 group(s): 1 copied, 1 failed."
    assert group_admin.stored == {"idle": {T1: 7}}


def test_consumers_that_join_while_a_group_is_copied(
    monkeypatch: pytest.MonkeyPatch,
    client: EnsembleClient,
    group_admin: Any,
    show: Callable[..., tuple[str, str]],
    capsys: Any,
) -> None:
    """Offsets that were written before consumers joined are reported as copied; with a note on the group, and status 1."""
    alter = group_admin.alter_offsets

    def alter_offsets(group: str, offsets: Any) -> Any:
        client.put(f"/consumers/{group}/ids/{group}_late", b'{"version": 1, "subscription": {"t": 1}}')
        return alter(group, offsets)

    monkeypatch.setattr(group_admin, "alter_offsets", alter_offsets)
    with pytest.raises(typer.Exit) as caught:
        show(migrate, ["g", "idle"])
    text, notes = capsys.readouterr()
    assert (caught.value.exit_code, text.count("copied")) == (1, 2)
    assert "g: Consumers have joined while the offsets were copied" in notes


def test_active_group_whose_stores_agree(group_admin: Any, show: Callable[..., tuple[str, str]], capsys: Any) -> None:
    """The exit status is 1 if a group has active consumers, also if its stores agree at this moment."""
    group_admin.stored["g"] = {T0: 5}
    group_admin.states["g"] = ACTIVE
    notes = failed(show, capsys, ["g", "idle"]).splitlines()
    assert notes[1].startswith("g: The offsets were not copied: group g is Stable in Kafka")
    assert notes[2] == "2 group(s): 1 copied, 1 equal."


def test_group_that_fails_alone(group_admin: Any, run: Callable[..., list[Row]]) -> None:
    """If the only group fails, its error is the command's error."""
    group_admin.states["g"] = GroupState("Stable", {"m1": MEMBER})
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        run(migrate, ["g"])


def test_brokers_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, group_admin: Any, show: Callable[..., tuple[str, str]], capsys: Any
) -> None:
    """Brokers that stop responding end the command, which shows the groups copied before."""
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
    """Contradictory options are refused."""
    with pytest.raises(OptionError, match=text):
        run(migrate, ["g"], **given)


def test_report_of_a_look(client: EnsembleClient, group_admin: Any) -> None:
    """A group that was only compared has the same offset in the target before and after."""
    group_admin.stored["g"] = {T0: 3}
    (found,) = Migration(client, group_admin, "kafka").read(["g"])["g"].found
    assert (found.partition, found.source, found.before, found.target, found.state) == (T0, 5, 3, 3, "behind")


# --- between the stores ---------------------------------------------------------------------------------------------


@pytest.fixture
def stores() -> EnsembleClient:
    """An ensemble with a topic, and a group that has one offset in it."""
    stores = EnsembleClient()
    stores.put_topic("t", partitions=2)
    stores.put(PATH_0, b"50")
    stores.put("/consumers/idle/ids")
    return stores


@pytest.fixture
def brokers() -> GroupBrokers:
    """Brokers of the topic, with the group's offset in the other partition."""
    return GroupBrokers({T0: (10, 100), T1: (0, 20)}, {"g": {T1: 5}, "unused": {}})


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


def test_groups(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """All groups are those that have offsets in the source."""
    stores.put("/consumers/zk/offsets/t/0", b"1")
    assert migration(stores, brokers, "kafka").groups() == ["g", "zk"]
    assert migration(stores, brokers, "zookeeper").groups() == ["g"]


@pytest.mark.parametrize("to", ["kafka", "zookeeper"])
def test_copy_between_stores(stores: EnsembleClient, brokers: GroupBrokers, to: OffsetStore) -> None:
    """Offsets missing in the target are copied, and offsets only in the target stay and are reported as ahead."""
    found = migration(stores, brokers, to).copy("g")
    states = {T0: "copied", T1: "ahead"} if to == "kafka" else {T0: "ahead", T1: "copied"}
    assert {outcome.partition: outcome.state for outcome in found} == states
    assert brokers.stored["g"] == ({T0: 50, T1: 5} if to == "kafka" else {T1: 5})
    assert ("/consumers/g/offsets/t/1" in stores.ensemble.nodes) == (to == "zookeeper")


def test_copy_back_with_force(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """With force, the target is set back to the source."""
    brokers.stored["g"] = {T0: 70}
    assert [o.state for o in migration(stores, brokers, "kafka").copy("g")] == ["ahead"]
    assert [o.state for o in migration(stores, brokers, "kafka", force=True).copy("g")] == ["copied"]
    assert brokers.stored["g"] == {T0: 50}


def test_topic_created_again(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """An offset older than its topic is copied only with force."""
    stores.put("/consumers/g/offsets/u/0", b"7")
    stores.put_topic("u")
    place = TopicPartition("u", 0)
    for force, state in ((False, "failed"), (True, "copied")):
        found = {o.partition: o.state for o in migration(stores, brokers, "kafka", force=force).copy("g")}
        assert found[place] == state
        assert (place in brokers.stored["g"]) == force


def test_refused_partitions(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """A partition that brokers refuse has failed, with their reason."""
    brokers.refused = {T0: ClusterStateError("REFUSED_BY_BROKER", "an ACL denies it")}
    for before in ({}, {T0: 70}):  # a target ahead is written only with force
        brokers.stored["g"] = before
        found = {o.partition: (o.state, o.reason) for o in migration(stores, brokers, "kafka", force=True).copy("g")}
        assert found[T0] == ("failed", "an ACL denies it")


def test_active_groups(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """Nothing is copied while a consumer of either kind is active, and the error suits the direction."""
    brokers.states["g"] = ACTIVE
    with pytest.raises(GroupError, match="brokers accept offsets from these alone"):
        migration(stores, brokers, "kafka").copy("g")
    with pytest.raises(GroupError, match="its consumers keep committing there; stop them, or use --live"):
        migration(stores, brokers, "zookeeper").copy("g")
    stores.put("/consumers/g/ids/g_a")
    with pytest.raises(GroupError, match="were not copied, as --live was not given: group g must be inactive"):
        migration(stores, brokers, "kafka").copy("g")
    assert brokers.stored["g"] == {T1: 5}


def test_follow_until_both_agree(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """While members commit to ZooKeeper, offsets are copied repeatedly until both stores agree."""
    stores.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}
    offsets = iter([b"60", b"70"])

    def commit(seconds: float) -> None:
        offset = next(offsets, None)
        if offset is not None:
            stores.put(PATH_0, offset)

    (found,) = migration(stores, brokers, "kafka", sleep=commit).follow("g", 1.0, 500.0)
    assert (found.state, found.target, brokers.stored["g"]) == ("copied", 70, {T0: 70})


def test_follow_until_the_consumers_leave(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """The last offsets of the last member are copied after it has left."""
    stores.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}

    def leave(seconds: float) -> None:
        stores.put(PATH_0, b"60")
        del stores.ensemble.nodes["/consumers/g/ids/g_a"]

    (found,) = migration(stores, brokers, "kafka", sleep=leave).follow("g", 1.0, 500.0)
    assert (found.state, found.before, found.target) == ("copied", None, 60)


def test_follow_without_an_end(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """A group that commits faster than it is copied is followed until the time-out."""
    stores.put("/consumers/g/ids/g_a")
    brokers.stored["g"] = {}
    offsets = iter(range(51, 1_000))
    found = migration(stores, brokers, "kafka", sleep=lambda s: stores.put(PATH_0, str(next(offsets)).encode()))
    (outcome,) = found.follow("g", 1.0, 20.0)
    assert (outcome.state, outcome.reason) == ("failed", "the source has moved on meanwhile; run this again")
    assert outcome.target == brokers.stored["g"][T0]


def test_follow_consumers_of_the_target(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """Offsets cannot be copied to Kafka while Kafka coordinates consumers of the group."""
    brokers.states["g"] = ACTIVE
    with pytest.raises(GroupError, match="is Stable in Kafka"):
        migration(stores, brokers, "kafka").follow("g", 1.0, 500.0)


def test_follow_to_zookeeper(stores: EnsembleClient, brokers: GroupBrokers) -> None:
    """Offsets that members commit to Kafka are copied to ZooKeeper, and their own commits to ZooKeeper are no error."""
    brokers.states["g"] = ACTIVE
    del stores.ensemble.nodes[PATH_0]

    def commit() -> None:
        stores.meanwhile = lambda: None
        stores.put("/consumers/g/offsets/t/1", b"4")

    stores.meanwhile = commit
    (found,) = migration(stores, brokers, "zookeeper").follow("g", 1.0, 500.0)
    assert (found.partition, found.target, found.state) == (T1, 5, "copied")
