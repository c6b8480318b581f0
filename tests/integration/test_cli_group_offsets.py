"""Resets, exports, imports and deletions of groups in ZooKeeper, next to Kafka's own tools."""

from __future__ import annotations

import csv
import json
import secrets
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner, Result

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import GroupContended, GroupError
from pyspark_zkafka.group.commits import Unchanged, commit_offsets
from pyspark_zkafka.inspect.reads import stored_offsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.testing import LocalCluster, OldConsumer
from pyspark_zkafka.testing.jvm_clients import export_offsets, run_kafka_tool
from pyspark_zkafka.testing.processes import Wait
from pyspark_zkafka.tools import app as zkafka
from pyspark_zkafka.tools.group_delete import delete_group
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.topics import KEPT

if TYPE_CHECKING:
    from conftest import Chroot

Offsets = dict[TopicPartition, int]
OLD, NEW = "1.1.1", "3.9.1"


def run(cluster: LocalCluster, *arguments: str, status: int = 0) -> Result:
    """Run ``zkafka groups``, and check the exit status."""
    result = CliRunner().invoke(zkafka, ["groups", *arguments, "--zookeeper", cluster.zookeeper_connect])
    assert result.exit_code == status, result.output
    return result


@pytest.fixture
def group() -> str:
    """The name of a group that does not exist."""
    return f"offsets-{secrets.token_hex(4)}"


@pytest.fixture
def topic(zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> str:
    """A topic of three partitions: with 20 records one second apart, with 5 records, and empty."""
    name = new_topic(partitions=3, config=KEPT)
    records = [{"value": b"v", "partition": 0, "timestamp": 1_795_000_000_000 + n * 1_000} for n in range(20)]
    zkafka_cluster.produce(name, [*records, *({"value": b"v", "partition": 1} for _ in range(5))])
    return name


def store(cluster: LocalCluster, group: str, offsets: dict[TopicPartition, bytes]) -> None:
    """Write offsets to ZooKeeper as a consumer does."""
    with cluster.zookeeper() as znodes:
        for tp, data in offsets.items():
            path = f"/consumers/{group}/offsets/{tp.topic}/{tp.partition}"
            znodes.ensure_path(path)
            znodes.set(path, data)


def stored(cluster: LocalCluster, group: str) -> Offsets:
    """Return the offsets that `export` prints."""
    rows = json.loads(run(cluster, "export", group, "--json").stdout)
    return {TopicPartition(row["topic"], row["partition"]): row["offset"] for row in rows}


# --- compared with Kafka's tools -------------------------------------------------------------------------------------


SCENARIOS = [
    ["--to-offset", "7"],
    ["--shift-by", "-100"],
    ["--to-datetime", "2026-11-18T12:06:47.500+01:00"],
    ["--by-duration", "P10000D"],
    ["--by-duration", "PT0S"],
]


@pytest.mark.long
def test_resets_are_those_of_kafka(zkafka_cluster: LocalCluster, topic: str, group: str, tmp_path: Path) -> None:
    """Each scenario plans the same offsets as kafka-consumer-groups plans for equal offsets in Kafka."""
    committed = {TopicPartition(topic, p): offset for p, offset in enumerate([10, 2, 0])}
    store(zkafka_cluster, group, {tp: str(offset).encode() for tp, offset in committed.items()})
    run(zkafka_cluster, "migrate", group, "--yes")
    for scenario in SCENARIOS:
        ours = run(zkafka_cluster, "reset-offsets", group, "--topic", topic, *scenario, "--dry-run", "--json").stdout
        rows = json.loads(ours)
        assert [row.pop("current_offset") for row in rows] == list(committed.values())
        planned = [[str(value) for value in row.values()] for row in rows]
        assert planned == kafka_reset(zkafka_cluster, group, "--topic", topic, *scenario, "--dry-run"), scenario


@pytest.mark.long
def test_resets_from_a_file_are_those_of_kafka(
    zkafka_cluster: LocalCluster, topic: str, group: str, tmp_path: Path
) -> None:
    """Reset reads a file exported by kafka-consumer-groups, and kafka-consumer-groups reads an export in CSV."""
    store(zkafka_cluster, group, {TopicPartition(topic, 0): b"10", TopicPartition(topic, 1): b"2"})
    run(zkafka_cluster, "migrate", group, "--yes")
    theirs, ours = tmp_path / "theirs.csv", tmp_path / "ours.csv"
    arguments = ["--topic", f"{topic}:0,1", "--shift-by", "1", "--dry-run", "--export"]
    theirs.write_text(kafka_groups(zkafka_cluster, "--reset-offsets", "--group", group, *arguments))
    run(zkafka_cluster, "reset-offsets", group, "--from-file", str(theirs), "--yes")
    assert stored(zkafka_cluster, group) == {TopicPartition(topic, 0): 11, TopicPartition(topic, 1): 3}
    ours.write_text(run(zkafka_cluster, "export", group, "--format", "csv").stdout)
    assert lines(ours) == lines(theirs) == [[topic, "0", "11"], [topic, "1", "3"]]
    assert kafka_reset(zkafka_cluster, group, "--from-file", str(ours), "--dry-run") == [
        [group, topic, "0", "11"],
        [group, topic, "1", "3"],
    ]


def lines(file: Path) -> list[list[str]]:
    """Return the sorted lines of a CSV file without Kafka's empty last line."""
    return sorted(filter(None, csv.reader(file.read_text().splitlines())))


def kafka_groups(cluster: LocalCluster, *arguments: str) -> str:
    """Return the output of kafka-consumer-groups 3.9.1."""
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    return run_kafka_tool(NEW, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *where, *arguments)


def kafka_reset(cluster: LocalCluster, group: str, *arguments: str) -> list[list[str]]:
    """Return the sorted rows of a reset by kafka-consumer-groups, which 3.9.1 prints on one line after the heading."""
    output = kafka_groups(cluster, "--reset-offsets", "--group", group, *arguments)
    heading, cells = output.split("NEW-OFFSET")
    assert heading.split()[-3:] == ["GROUP", "TOPIC", "PARTITION"]
    found = cells.split()
    return sorted(found[start : start + 4] for start in range(0, len(found), 4))


def test_export_and_import_are_those_of_kafka(zkafka_cluster: LocalCluster, topic: str, group: str, tmp_path: Path) -> None:
    """Export and import exchange files with ExportZkOffsets and ImportZkOffsets in both directions."""
    store(zkafka_cluster, group, {TopicPartition(topic, p): str(p).encode() for p in range(2)})
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    offsets = export_offsets(zkafka_cluster.zookeeper_connect, group, theirs)
    ours.write_text(run(zkafka_cluster, "export", group).stdout)
    assert sorted(ours.read_text().splitlines()) == sorted(theirs.read_text().splitlines())
    run(zkafka_cluster, "delete", group, "--yes")
    run(zkafka_cluster, "import", str(theirs), "--yes")
    assert stored(zkafka_cluster, group) == offsets
    run(zkafka_cluster, "delete", group, "--yes")
    arguments = ["--zkconnect", zkafka_cluster.zookeeper_connect, "--input-file", str(ours)]
    run_kafka_tool(OLD, "kafka.tools.ImportZkOffsets", *arguments)
    assert stored(zkafka_cluster, group) == offsets


@pytest.mark.long
def test_deletion_is_that_of_kafka(zkafka_cluster: LocalCluster, topic: str) -> None:
    """A deletion by zkafka leaves the same znodes and prints the same message as ConsumerGroupCommand."""
    other, left = f"{topic}-2", []
    for name, tool in (("by-kafka", True), ("by-zkafka", False)):
        for arguments in (["--topic", other], []):
            store(zkafka_cluster, name, {TopicPartition(t, 0): b"1" for t in (topic, other)})
            with zkafka_cluster.zookeeper() as znodes:
                for path in ("ids", f"owners/{topic}", f"owners/{other}"):
                    znodes.ensure_path(f"/consumers/{name}/{path}")
                if tool:
                    where = ["--zookeeper", zkafka_cluster.zookeeper_connect]
                    delete = ["--delete", "--group", name, *arguments]
                    told = run_kafka_tool(OLD, "kafka.admin.ConsumerGroupCommand", *where, *delete)
                else:
                    told = run(zkafka_cluster, "delete", name, *arguments, "--yes").stderr
                left.append((told.strip().splitlines()[-1].replace(name, "G"), tree(znodes, f"/consumers/{name}")))
    assert left[:2] == left[2:]


def tree(znodes: Any, path: str) -> list[str]:
    """Return the paths below a znode, relative to it; none if it does not exist."""
    if not znodes.exists(path):
        return []
    below = [f"/{name}" for name in znodes.get_children(path)]
    return sorted([*below, *(name + rest for name in below for rest in tree(znodes, path + name))])


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["ids/c1", "owners/{topic}/1"])
def test_active_groups_are_refused(zkafka_cluster: LocalCluster, topic: str, group: str, path: str, tmp_path: Path) -> None:
    """Reset, import, deletion and cold migration refuse a group with a member or an owner."""
    store(zkafka_cluster, group, {TopicPartition(topic, 0): b"3"})
    file = tmp_path / "f"
    file.write_text(f"/consumers/{group}/offsets/{topic}/0:1\n")
    with zkafka_cluster.zookeeper() as znodes:
        znodes.create(f"/consumers/{group}/{path.format(topic=topic)}", b"c1-0", ephemeral=True, makepath=True)
        for arguments in (
            ["reset-offsets", group, "--all-topics", "--to-earliest"],
            ["import", str(file)],
            ["delete", group],
            ["migrate", group],
        ):
            result = run(zkafka_cluster, *arguments, "--yes", status=1)
            assert "[GROUP_ACTIVE]" in result.stderr
    assert stored(zkafka_cluster, group) == {TopicPartition(topic, 0): 3}


def test_active_groups_in_kafka_are_refused(zkafka_cluster: LocalCluster, topic: str, group: str) -> None:
    """A reset in Kafka or in both stores is refused while a consumer that Kafka coordinates is active."""
    config: dict[str, Any] = {"bootstrap.servers": zkafka_cluster.bootstrap_servers, "group.id": group}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        assert consumer.consume(1, timeout=30)
        for storage in ("kafka", "both"):
            arguments = ["--topic", topic, "--to-latest", "--offsets-storage", storage, "--yes"]
            result = run(zkafka_cluster, "reset-offsets", group, *arguments, status=1)
            assert "can only be reset if the group" in result.stderr
        with (
            GroupAdmin(zkafka_cluster.bootstrap_servers, {}) as brokers,
            pytest.raises(GroupError, match=r"GROUP_ACTIVE.*stop these"),
        ):
            brokers.alter_offsets(group, {TopicPartition(topic, 0): 1})
    finally:
        consumer.close()
    assert "is Stable" not in run(zkafka_cluster, "reset-offsets", group, *arguments).stderr
    assert run(zkafka_cluster, "migrate", group, "--verify").exit_code == 0


def test_nothing_is_written_unless_all_is_valid(
    zkafka_cluster: LocalCluster, topic: str, group: str, tmp_path: Path
) -> None:
    """An import with an unknown partition in its last line writes nothing; a dry run shows old and new offsets."""
    store(zkafka_cluster, group, {TopicPartition(topic, 0): b"3"})
    file = tmp_path / "f"
    file.write_text(f"{group},{topic},0,1\n{group},{topic},1,99\n{group},{topic},9,1\n")
    assert "[UNKNOWN_TOPIC]" in run(zkafka_cluster, "import", str(file), "--yes", status=1).stderr
    file.write_text(f"{group},{topic},0,1\n{group},{topic},1,99\n{group},{topic},2,-1\n")
    result = run(zkafka_cluster, "import", str(file), "--dry-run", "--json")
    assert [(row["current_offset"], row["new_offset"]) for row in json.loads(result.stdout)] == [(3, 1), (None, 5)]
    assert stored(zkafka_cluster, group) == {TopicPartition(topic, 0): 3}


# --- races -----------------------------------------------------------------------------------------------------------


class Racing(ZooKeeperClient):
    """A client that calls `before` right before its first transaction."""

    before: Callable[[], object] | None = None

    def transact(self, operations: Any) -> Any:
        if self.before is not None:
            before, self.before = self.before, None
            before()
        return super().transact(operations)

    def _require_kafka(self) -> None:
        """Accept a chroot without brokers."""


P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("ids", [True, False])
def test_a_member_that_joins_between_check_and_write(chroot: Chroot, ids: bool) -> None:
    """A member that registers between check and write makes the transaction fail, with or without ids."""
    chroot.other.create("/consumers/g/offsets/t/0", b"5", makepath=True)
    if ids:
        chroot.other.ensure_path("/consumers/g/ids")
    with Racing(chroot.config) as client:
        read = stored_offsets(client, ["g"])["g"]
        client.before = lambda: chroot.register("g", "c1", b"{}")
        with pytest.raises(GroupError, match="GROUP_ACTIVE"):
            commit_offsets(client, "g", {P0: 1, P1: 1}, Unchanged(read.versions))
        assert chroot.other.get("/consumers/g/offsets/t/0")[0] == b"5"
        assert chroot.ids("g") == {"c1": b"{}"}


def test_a_member_that_joins_while_its_group_is_deleted(chroot: Chroot) -> None:
    """A deletion leaves the group unchanged if a member registers meanwhile."""
    chroot.other.create("/consumers/g/offsets/t/0", b"5", makepath=True)
    with Racing(chroot.config) as client:
        client.before = lambda: chroot.register("g", "c1", b"{}")
        with pytest.raises(GroupError, match="GROUP_ACTIVE"):
            delete_group(client, "g")
    assert chroot.other.get("/consumers/g/offsets/t/0")[0] == b"5"


def test_a_commit_between_read_and_write(chroot: Chroot) -> None:
    """A reset writes nothing if one of its offsets was committed since the check."""
    for partition in (0, 1):
        chroot.other.create(f"/consumers/g/offsets/t/{partition}", b"5", makepath=True)
    with Racing(chroot.config) as client:
        read = stored_offsets(client, ["g"])["g"]
        client.before = lambda: chroot.other.set("/consumers/g/offsets/t/1", b"9")
        with pytest.raises(GroupContended, match=r"OFFSETS_CHANGED.*/t/1.*nothing was written"):
            commit_offsets(client, "g", {P0: 1, P1: 1}, Unchanged(read.versions))
        assert stored_offsets(client, ["g"])["g"].values == {P0: 5, P1: 9}


def reset_until_refused(client: ZooKeeperClient, group: str, tp: TopicPartition) -> int:
    """Reset an offset repeatedly until the group is active; return the last offset written."""
    last = -1
    for number in count():
        try:
            commit_offsets(client, group, {tp: number % 19}, Unchanged(stored_offsets(client, [group])[group].versions))
        except GroupError as error:
            if error.condition != "GROUP_ACTIVE":
                raise
            break
        last = number % 19
    return last


def test_a_jvm_consumer_that_joins_during_resets(zkafka_cluster: LocalCluster, topic: str, group: str) -> None:
    """A JVM consumer that registers during repeated resets starts at the last reset that was not refused."""
    config = parse_connection({"zookeeper.connect": zkafka_cluster.zookeeper_connect}).zookeeper
    assert config is not None
    tp = TopicPartition(topic, 0)
    consumer = OldConsumer(zkafka_cluster.zookeeper_connect, group, topics={topic: 1})
    with ZooKeeperClient(config) as client:
        try:
            consumer.start(wait=False)
            last = reset_until_refused(client, group, tp)
            consumer.wait_ready()
            assert Wait(60).until(lambda: any(r.partition == 0 for r in consumer.records)), consumer.log[-4000:]
        finally:
            consumer.kill()
    assert min(r.offset for r in consumer.records if r.partition == 0) == last


def test_the_ids_znode_stays_as_it_was(chroot: Chroot) -> None:
    """A reset keeps data and ACL of ids, creates no ids where it was missing, and does not touch owners."""
    from kazoo.security import make_acl

    acl = [make_acl("world", "anyone", all=True), make_acl("ip", "10.1.2.3", read=True)]
    chroot.other.create("/consumers/g/ids", b"x", acl=acl, makepath=True)
    owners = chroot.other.create("/consumers/g/owners/t", None, makepath=True, include_data=True)[1]
    with Racing(chroot.config) as client:
        for group in ("g", "h"):
            commit_offsets(client, group, {P0: 1}, Unchanged(stored_offsets(client, [group])[group].versions))
    assert chroot.other.get("/consumers/g/ids")[0] == b"x"
    assert chroot.other.get_acls("/consumers/g/ids")[0] == acl
    assert chroot.other.exists("/consumers/g/owners/t").czxid == owners.czxid
    assert chroot.other.get_children("/consumers/h") == ["offsets"]


@pytest.mark.long
def test_more_partitions_than_fit_into_a_transaction(chroot: Chroot) -> None:
    """Five thousand offsets take several transactions; if a member joins between them, the error has the number written."""
    offsets = {TopicPartition(f"a-topic-of-some-length-{n % 10}", n // 10): n for n in range(5_000)}
    with Racing(chroot.config) as client:
        commit_offsets(client, "g", offsets, Unchanged(stored_offsets(client, ["g"])["g"].versions))
        read = stored_offsets(client, ["g"])["g"]
        assert read.values == offsets

        def join_later() -> None:
            client.before = lambda: chroot.register("g", "c1", b"{}")

        client.before = join_later
        with pytest.raises(GroupError, match=r"GROUP_ACTIVE\] Refused, the first \d{4} of 5000 partitions, up to a-topic"):
            commit_offsets(client, "g", dict.fromkeys(offsets, 7), Unchanged(read.versions))
        assert 0 < sum(offset == 7 for offset in stored_offsets(client, ["g"])["g"].values.values()) < 5_000
        chroot.other.delete("/consumers/g/ids/c1")
        delete_group(client, "g")
    assert chroot.other.get_children("/consumers") == []
