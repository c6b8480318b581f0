"""Znodes that other clients write in bad form, or delete after they were listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from pyspark_zkafka.group.commits import commit_offsets, proof_of
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.zookeeper.connection import Results, Watch
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from tests.support.eventually import eventually
from tests.support.members import numbers, settled
from tests.support.tiers import seldom

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

NewMember = Callable[..., GroupMember]


class Vanishing(ZooKeeperClient):
    """A client that deletes a znode as soon as it has listed it."""

    def __init__(self, config: ZooKeeperConfig, other: KazooClient, path: str) -> None:
        super().__init__(config)
        self._other, self._path = other, path

    def ask(
        self,
        get: Iterable[str] = (),
        children: Iterable[str] = (),
        exists: Iterable[str] = (),
        watch: Watch | None = None,
        *,
        sync: bool = False,
    ) -> Results:
        answers = super().ask(get, children, exists, watch, sync=sync)
        parent, _, name = self._path.rpartition("/")
        if name in answers.children.get(parent, ()) and self._other.exists(self._path):
            self._other.delete(self._path)
        return answers


GARBAGE = [
    None,
    b"",
    b"\xff\xfe",
    b"null",
    b"[]",
    b'{"version":1,"subscription":{"t":"1"},"pattern":"static"}',
    b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
    b'{"version":1,"subscription":{"\\ud800":1},"pattern":"static"}',
]
ODD = [
    b'{"version":1,"subscription":{"a/b":1,"..":1,"":1,"\\u0000":1,"\xc3\xa4":1},"pattern":"static"}',
    b'{"version":1,"subscription":{},"pattern":"static"}',
]


@pytest.mark.parametrize("strategy", ["range", *seldom("roundrobin")])
def test_bytes_and_nulls(chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture, strategy: str) -> None:
    """Malformed znodes, and znodes deleted after they were listed, stop no member and are logged once."""
    left_out = "g_c1: a malformed registration is left out of the assignment"
    chroot.topic("t", 4)
    chroot.other.create("/brokers/topics/nothing", None)
    for n, data in enumerate([*GARBAGE, *ODD]):
        chroot.register("g", f"g_{n}", data)
    chroot.claim("g", TopicPartition("u", 0), None)
    with new_member("c1", "t", strategy=strategy) as member, new_member("c2", "t", "nothing", strategy=strategy) as second:
        eventually(lambda: settled([member, second], 4))
        assert chroot.other.get_children("/consumers") == ["g"]
        assert set(chroot.owners("g").values()) == {"g_c1-0", "g_c2-0"}
        path = chroot.register("g", "g_late", ODD[0])
        eventually(lambda: caplog.text.count(left_out) == len(GARBAGE))
        with Vanishing(chroot.config, chroot.other, path) as client:
            assert "g_late" not in client.group_members("g").readable
        eventually(lambda: settled([member, second], 4))
    assert caplog.text.count(left_out) == len(GARBAGE)
    assert "could not follow" not in caplog.text


def test_foreign_formats(chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture) -> None:
    """Planning works next to pykafka's znodes and a registration that is a bare topic name."""
    chroot.topic("t", 4)
    chroot.register("g", "host:7c9e6679-7425-40de-944b-e07fc1f90ae7", b"t")
    pykafka = "/consumers/g/owners/b't'"
    chroot.other.ensure_path(pykafka)
    for n in range(4):
        chroot.other.create(f"{pykafka}/0-{n}", b"host:7c9e6679-7425-40de-944b-e07fc1f90ae7", ephemeral=True)
    with new_member("c1", "t") as first, new_member("c2", "t") as second:
        eventually(lambda: settled([first, second], 4))
        assert commit_offsets(first.client, "g", dict.fromkeys(first.owned(), 5), proof_of(first.owner)).lost == frozenset()
        assert sorted(chroot.other.get_children(pykafka)) == ["0-0", "0-1", "0-2", "0-3"]
    assert "host:7c9e6679-7425-40de-944b-e07fc1f90ae7 cannot be read: found b't'" in caplog.text


def test_broker_that_vanishes_while_it_is_listed(chroot: Chroot, new_member: NewMember) -> None:
    """A broker whose znode disappears while brokers are listed is left out; a group works even without brokers."""
    chroot.topic("t", 2)
    for n in (1, 2):
        broker = f'{{"jmx_port":-1,"timestamp":"1","host":"127.0.0.1","version":1,"port":{29100 + n}}}'
        chroot.other.create(f"/brokers/ids/{n}", broker.encode())
    with Vanishing(chroot.config, chroot.other, "/brokers/ids/1") as client:
        assert list(client.snapshot().brokers) == [2]
    chroot.other.delete("/brokers/ids/2")
    with new_member("c1", "t") as member:
        assert numbers(member) == [0, 1]
