"""Credentials and ACLs on a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from pyspark_zkafka.errors import ChrootMissing, ZooKeeperError, ZooKeeperRefused
from pyspark_zkafka.group.commits import Unchanged, commit_offsets, proof_of
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.inspect.reads import stored_offsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe
from pyspark_zkafka.options.values import GroupAcl, ZooKeeperConfig
from pyspark_zkafka.zookeeper.snapshots import ZooKeeperClient
from pyspark_zkafka.zookeeper.transactions import Check, Create
from tests.support.options import group_options
from tests.support.topic_znodes import make_topic

if TYPE_CHECKING:
    from tests.support.chroot import Chroot

SECRET = "open-sesame"
ALICE = ("digest", f"alice:{SECRET}")
OPERATOR = ("digest", f"operator:{SECRET}")
OF_OPERATOR = make_digest_acl("operator", SECRET, all=True)


def test_digest_credentials_open_what_an_acl_closes(chroot: Chroot) -> None:
    """Without the right credentials the error names the forbidden path; with them it can be read."""
    make_topic(chroot, "secret", 1)
    chroot.other.add_auth(*ALICE)
    chroot.other.set_acls("/brokers/topics/secret", [make_digest_acl("alice", SECRET, all=True)])
    path = f"{chroot.config.chroot}/brokers/topics/secret"
    for auth, who in ((None, "anonymously"), (("digest", "bob:x"), "as the digest user")):
        with (
            ZooKeeperClient(replace(chroot.config, auth=auth)) as client,
            pytest.raises(ZooKeeperRefused, match=rf"Reading {path} was refused: an ACL forbids it, asked {who}"),
        ):
            client.snapshot()
    with ZooKeeperClient(replace(chroot.config, auth=ALICE)) as client:
        assert list(client.snapshot().topics) == ["secret"]


def test_reading_needs_no_more_than_the_right_to_read(chroot: Chroot) -> None:
    """With only the right to read, everything can be read, and a refused write names its path."""
    make_topic(chroot, "t", 1)
    chroot.other.create("/consumers/g/offsets/t/0", b"5", makepath=True)
    admin = make_digest_acl("alice", SECRET, all=True)
    paths = ["/brokers/topics/t", "/brokers/topics", "/consumers/g", "/consumers"]
    for path in paths:
        chroot.other.set_acls(path, [*READ_ACL_UNSAFE, admin])
    try:
        with ZooKeeperClient(chroot.config) as client:
            assert list(client.snapshot().topics) == ["t"]
            assert client.group_offsets("g") == {TopicPartition("t", 0): 5}
            with pytest.raises(ZooKeeperRefused, match=rf"Create {chroot.config.chroot}/consumers/new in a transaction"):
                client.transact([Check("/brokers"), Create("/consumers/new", None), Create("/consumers/new/ids", None)])
    finally:
        chroot.other.add_auth(*ALICE)
        for path in paths:
            chroot.other.set_acls(path, OPEN_ACL_UNSAFE)


@pytest.fixture
def restrict(chroot: Chroot) -> Callable[..., None]:
    """Leaves alice the right to read all znodes, and given rights below one group: ``restrict("write", "create")``."""
    chroot.topic("t", 2)
    for path in ("/consumers/g/ids", "/consumers/g/owners/t", "/consumers/g/offsets/t"):
        chroot.other.ensure_path(path)
    chroot.other.create("/consumers/g/offsets/t/0", b"3")
    chroot.other.add_auth(*OPERATOR)
    paths = list(_tree(chroot, ""))

    def leave(*rights: str) -> None:
        below_group = make_digest_acl("alice", SECRET, read=True, **dict.fromkeys(rights, True))
        elsewhere = make_digest_acl("alice", SECRET, read=True)
        for path in paths:
            chroot.other.set_acls(path, [below_group if path.startswith("/consumers/g") else elsewhere, OF_OPERATOR])

    return leave


def _tree(chroot: Chroot, path: str) -> Iterator[str]:
    for name in chroot.other.get_children(path or "/"):
        yield f"{path}/{name}"
        yield from _tree(chroot, f"{path}/{name}")


@pytest.mark.parametrize("group", ["g", "new"])
def test_documented_rights(chroot: Chroot, restrict: Callable[..., None], group: str) -> None:
    """Members join, claim, commit and leave with rights below their group; a new group needs the right to create it."""
    restrict("write", "create", "delete")
    alice = replace(chroot.config, auth=ALICE)
    if group == "new":
        with pytest.raises(ZooKeeperRefused, match=r"Create .*/consumers/new\b.* was refused"):
            GroupMember(alice, group_options(group), Subscribe(("t",))).join()
        creator = make_digest_acl("alice", SECRET, read=True, create=True)
        chroot.other.set_acls("/consumers", [creator, OF_OPERATOR])
    with GroupMember(alice, group_options(group), Subscribe(("t",))) as member:
        assert member.wait_settled(20)
        written = dict.fromkeys(member.owned(), 5)
        assert written.keys() == {TopicPartition("t", 0), TopicPartition("t", 1)}
        assert commit_offsets(member.client, group, written, proof_of(member.owner)).written == written
    assert chroot.owners(group) == {}
    assert chroot.ids(group) == {}


@pytest.mark.parametrize(("missing", "partition"), [("write", 0), ("create", 1)])
def test_missing_right(chroot: Chroot, restrict: Callable[..., None], missing: str, partition: int) -> None:
    """Without the right to write no offset is replaced, and without the right to create no new offset is committed."""
    restrict(*{"write", "create", "delete"} - {missing})
    with ZooKeeperClient(replace(chroot.config, auth=ALICE)) as client:
        assert client.group_offsets("g") == {TopicPartition("t", 0): 3}
        with pytest.raises(ZooKeeperRefused, match=rf"/consumers/g/(offsets|owners)/t/{partition} .*was refused: an ACL"):
            commit_offsets(client, "g", {TopicPartition("t", partition): 5})
        assert client.group_offsets("g") == {TopicPartition("t", 0): 3}


@pytest.mark.parametrize("is_admin", [False, True])
def test_acl_with_digests(chroot: Chroot, restrict: Callable[..., None], is_admin: bool) -> None:
    """An operator's commit keeps the ACL of ids, and is refused without the right to read its digests."""
    restrict("write", "create", "delete", *(["admin"] if is_admin else []))
    before, stored = chroot.other.get_acls("/consumers/g/ids")[0], {TopicPartition("t", 0): 5}
    with ZooKeeperClient(replace(chroot.config, auth=ALICE)) as client:
        proof = Unchanged(stored_offsets(client, ["g"])["g"].versions)
        if is_admin:
            commit_offsets(client, "g", stored, proof)
        else:
            with pytest.raises(ZooKeeperRefused, match=r"The ACL of /consumers/g/ids is kept only if .* the right admin"):
                commit_offsets(client, "g", stored, proof)
        assert client.group_offsets("g") == {TopicPartition("t", 0): 5 if is_admin else 3}
    assert chroot.other.get_acls("/consumers/g/ids")[0] == before


@pytest.mark.parametrize("acl", ["readable", "creator"])
def test_groups_that_are_closed(chroot: Chroot, acl: GroupAcl) -> None:
    """Members with the same credentials share a closed group and commit; others can at most read it."""
    chroot.topic("t", 2)
    chroot.other.ensure_path("/consumers")
    config = replace(chroot.config, auth=ALICE, acl=acl)
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    members = [GroupMember(config, group_options("g", consumer_id=name), Subscribe(("t",))) for name in ("a", "b")]
    with ExitStack() as opened:
        for member in members:
            opened.enter_context(member)
        assert all(member.wait_settled(20) for member in members)
        owned = [set(member.owned()) for member in members]
        assert sorted(len(one) for one in owned) == [1, 1]
        assert set.union(*owned) == set(partitions)
        for member, mine in zip(members, owned, strict=True):
            written = dict.fromkeys(mine, 5)
            assert commit_offsets(member.client, "g", written, proof_of(member.owner)).written == written
        stranger = opened.enter_context(ZooKeeperClient(chroot.config))
        if acl == "readable":
            assert stranger.group_offsets("g") == dict.fromkeys(partitions, 5)
        else:
            with pytest.raises(ZooKeeperRefused, match="an ACL forbids it, asked anonymously"):
                stranger.group_offsets("g")
        with pytest.raises(ZooKeeperRefused, match=r"Create \S+/consumers/g/ids/x"):
            stranger.transact([Create("/consumers/g/ids/x", b"", ephemeral=True)])
        stranger.transact([Create("/consumers/others", b"")])
    chroot.other.add_auth(*ALICE)
    chroot.other.delete("/consumers/g", recursive=True)


def test_credentials_do_not_appear_in_logs_or_errors(chroot: Chroot, caplog: pytest.LogCaptureFixture) -> None:
    """The password appears neither in logs at the lowest level nor in errors and representations."""
    caplog.set_level(1)
    config = replace(chroot.config, auth=ALICE)
    with ZooKeeperClient(config) as client:
        client.snapshot()
    with pytest.raises(ChrootMissing) as error:
        ZooKeeperClient(replace(config, chroot="/nowhere")).__enter__()
    assert SECRET not in caplog.text + str(error.value) + repr(config)
    assert "Connecting to" in caplog.text


def test_sasl_where_the_server_has_none_is_an_error_in_time(zookeeper_config: ZooKeeperConfig) -> None:
    """SASL to a server without SASL fails in time, although the server never ends the exchange."""
    started = time.monotonic()
    with pytest.raises(ZooKeeperError, match=r"that they support SASL \(zookeeper.auth\)"):
        ZooKeeperClient(
            replace(zookeeper_config, auth=("sasl", f"DIGEST-MD5:alice:{SECRET}"), connection_timeout_ms=700)
        ).__enter__()
    assert time.monotonic() - started < 10
