"""A member of a group in ZooKeeper, without a session or with one that may be over."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import Claim, ClaimOwner, TopicPartition
from pyspark_zkafka.retries import Timing
from pyspark_zkafka.zookeeper.transactions import Create
from tests.support.ensemble_client import EnsembleClient
from tests.support.options import member_options


def test_without_a_session() -> None:
    """A member without a session owns nothing, and `require_owner` raises a retriable error."""
    member = GroupMember(*member_options())
    assert member.owner is None
    with pytest.raises(ZKafkaError, match=r"\[NO_SESSION\] The member has no session with ZooKeeper") as caught:
        member.require_owner()
    assert caught.value.retriable


def test_session_that_may_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member cut off from ZooKeeper owns nothing from the moment when its session may have expired."""
    now, claims = 10.0, {TopicPartition("t", 0): Claim("g_c-0", 1)}
    module = "pyspark_zkafka.group.member"
    monkeypatch.setattr(f"{module}.ZooKeeperClient", lambda config, **others: SimpleNamespace(session_ends_at=16.0))
    monkeypatch.setattr(f"{module}.Claims", lambda client, group: SimpleNamespace(owned=claims))
    member = GroupMember(*member_options(), Timing(clock=lambda: now))
    assert member.owned() == {}
    member._session.register(ClaimOwner("g_c", 1), 0)
    assert member.owned() == claims
    now = 16.0
    assert member.owned() == {}


def test_session_that_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member whose session ends while it registers or claims has neither an owner nor a settled assignment."""
    for requests in range(30):
        client = EnsembleClient()
        monkeypatch.setattr("pyspark_zkafka.group.member.ZooKeeperClient", lambda config, found=client, **others: found)
        client.put_topic("t")
        client.put("/consumers/g/owners/t")
        member = GroupMember(*member_options())
        ends_at = client.after(requests, lambda found=member: found._on_state("LOST"))
        with suppress(ZKafkaError):  # NO_SESSION, where the end is noticed at once
            member._rebalance()
        if not ends_at():
            assert requests > 5
            return
        assert member.owner is None, requests
        member._requested.clear()
        assert not member.settled, requests
    raise AssertionError("a rebalance takes fewer requests")


def test_interrupted_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance that Ctrl-C interrupts is not settled, and is due again."""
    client, now = EnsembleClient(), 100.0
    monkeypatch.setattr("pyspark_zkafka.group.member.ZooKeeperClient", lambda config, **others: client)
    client.put_topic("t")
    client.put("/consumers/g/owners/t")
    member = GroupMember(*member_options(), Timing(clock=lambda: now))
    member._rebalance()
    assert member.settled
    client.put_topic("t", 2)
    member.request_rebalance()

    def interrupt() -> None:
        raise KeyboardInterrupt

    client.after(6, interrupt)
    with pytest.raises(KeyboardInterrupt):
        member.rebalance()
    assert not member.settled
    now += 1
    member.rebalance()
    assert member.settled
    assert len(member._claims.owned) == 2


def test_waiting_member_that_leaves() -> None:
    """A member that leaves meanwhile is not settled."""
    member = GroupMember(*member_options())
    member._closing = True
    assert not member.wait_settled(60)


def test_tries(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Tries to claim are counted at most once per pause, and from the start after a success; every fourth is logged."""
    client, now = EnsembleClient(), 100.0
    monkeypatch.setattr("pyspark_zkafka.group.member.ZooKeeperClient", lambda config, **others: client)
    client.put_topic("t")
    client.put("/consumers/g/owners/t")
    member = GroupMember(*member_options(), Timing(clock=lambda: now, jitter=lambda: 0.5))

    def tries(*seconds: float) -> list[str]:
        nonlocal now
        caplog.clear()
        for at in seconds:
            now = at
            member._rebalance()
        return [text for text in caplog.messages if "cannot claim" in text]

    for _ in range(2):
        client.ensemble.apply([Create("/consumers/g/owners/t/0", b"g_jvm-0", ephemeral=True)], session=99)
        assert tries(100, 101, 102, 104, 105.9) == []
        (text,) = tries(106)
        assert text.startswith("g_c cannot claim its partitions after 4 tries, and continues to try: t-0 is owned by")
        client.ensemble.expire(99)
        assert tries(107) == []
        assert member._claims.owned
        member._claims.release(member._claims.owned, member.require_owner())
