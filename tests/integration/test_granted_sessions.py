"""Sessions as ZooKeeper grants them: with the top bit of the id set, and shorter than requested."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from pyspark_zkafka import ConsumerGroup
from pyspark_zkafka.errors import ConsumerIdTaken, PartitionOwned
from pyspark_zkafka.group.commits import commit_offsets
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.chroot import JVM
from tests.support.eventually import eventually
from tests.support.fill import fill
from tests.support.wire import Wire

if TYPE_CHECKING:
    from tests.support.chroot import Chroot
NewMember = Callable[..., GroupMember]


@pytest.fixture(scope="module")
def zkafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """An ensemble of one server with id 200, the top byte of its session ids; sessions last at most 6 s."""
    data: Path = tmp_path_factory.mktemp("zookeeper")
    (data / "myid").write_text("200")
    config = {
        "dataDir": str(data),
        "standaloneEnabled": "false",
        "server.200": "{host}:{port:quorum}:{port:election}",
        "initLimit": "10",
        "syncLimit": "5",
        "maxSessionTimeout": "6000",
    }
    with LocalCluster(brokers=1, zookeeper_config=config) as cluster:
        yield cluster


class TestSessionIds:
    """Session ids with a top byte of 128 or more, which are negative as signed 64-bit numbers."""

    @pytest.mark.long
    def test_a_write_commits_for_the_member(
        self, spark: SparkSession, zkafka_cluster: LocalCluster, new_topic: Callable[..., str]
    ) -> None:
        """A write proves with the session id in its options that the member owns the partitions, and commits."""
        source, sink = new_topic(partitions=2), new_topic(partitions=1)
        fill(zkafka_cluster, source, 5, range(2))
        reset = {"auto.offset.reset": "earliest"}
        with ConsumerGroup(zkafka_cluster.zookeeper_connect, "g", subscribe=[source], options=reset) as member:
            batch = member.plan(spark)
            written = batch.load().select("value").write.format("zkafka").option("topic", sink)
            written.options(**batch.commit_options).mode("append").save()
        with zkafka_cluster.zookeeper() as client:
            assert client.client_id[0] < 0
            assert [client.get(f"/consumers/g/offsets/{source}/{n}")[0] for n in (0, 1)] == [b"5", b"5"]

    def test_errors(self, chroot: Chroot, new_member: NewMember) -> None:
        """Errors show session ids as ZooKeeper's tools do: 64 bits, unsigned."""
        shown = f"0x{chroot.other.client_id[0] + 2**64:x}"
        assert shown in chroot.other.command(b"dump")
        chroot.topic("t", 1)
        chroot.claim("g", TopicPartition("t", 0), b"g_jvm-0")
        with ZooKeeperClient(chroot.config) as client, pytest.raises(PartitionOwned, match=rf"session {shown}\)"):
            commit_offsets(client, "g", {TopicPartition("t", 0): 1})
        chroot.register("g", "g_c1", JVM)
        with pytest.raises(ConsumerIdTaken, match=rf"of session {shown}\."):
            new_member("c1", "t", session_ms=1000).join()

    def test_warnings(self, chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture) -> None:
        """The warning of a blocked member shows the owner's session id unsigned."""
        chroot.topic("t", 1)
        chroot.claim("g", TopicPartition("t", 0), b"g_jvm-0")
        with new_member("c1", "t", max_retries=1):
            expected = f"t-0 is owned by g_jvm-0 (session 0x{chroot.other.client_id[0] + 2**64:x})"
            eventually(lambda: expected in caplog.text)


class TestSessionTimeout:
    """Members follow the granted session time-out, not the requested one."""

    def test_granted(self, chroot: Chroot) -> None:
        """A connection knows the granted time-out: the requested one, within the server's minimum and maximum."""
        for asked_ms, granted_ms in ((30_000, 6000), (2500, 2500), (100, 1000)):
            with ZooKeeperClient(replace(chroot.config, session_timeout_ms=asked_ms)) as client:
                assert client.session_timeout_ms == granted_ms

    @pytest.mark.long
    def test_expired_unnoticed(self, zkafka_cluster: LocalCluster, chroot: Chroot, new_member: NewMember) -> None:
        """A member cut off from ZooKeeper owns nothing once others may claim, although it requested a longer session."""
        chroot.topic("t", 4)
        with (
            Wire(zkafka_cluster.port("zookeeper")) as wire,
            new_member("c2", "t") as second,
            new_member("c1", "t", session_ms=30_000, hosts=wire.address) as first,
        ):
            eventually(lambda: len(first.owned()) == len(second.owned()) == 2)
            wire.silence()
            eventually(lambda: chroot.owners("g").get(0) == "g_c2-0", timeout_s=20)
            assert first.owned() == {}
            wire.mend()

    @pytest.mark.long
    def test_waits_for_its_ghost(self, chroot: Chroot, new_member: NewMember) -> None:
        """A member waits twice its granted time-out and a second for its id's last session, although it requested less."""
        chroot.topic("t", 2)
        chroot.register("g", "g_c1", JVM)
        begin = time.monotonic()
        with pytest.raises(ConsumerIdTaken):
            new_member("c1", "t", session_ms=100).join()
        assert time.monotonic() - begin >= 3
