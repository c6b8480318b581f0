"""The nouns of a cluster."""

from __future__ import annotations

import pytest

from pyspark_zkafka.model.nouns import Broker, ClaimOwner, ClusterSnapshot, PartitionState, TopicPartition, session_text

SESSIONS = [
    (1, "0x1"),
    (0x1000A_0000_0001, "0x1000a00000001"),
    (2**63 - 1, "0x7fffffffffffffff"),
    (-(2**63), "0x8000000000000000"),
    (-0x37FF_FFFF_FFFF_FFFF, "0xc800000000000001"),
    (-1, "0xffffffffffffffff"),
]


@pytest.mark.parametrize(("session", "text"), SESSIONS)
def test_sessions(session: int, text: str) -> None:
    """A session is shown as by Java's Long.toHexString, and parsed as a signed number."""
    assert session_text(session) == text
    assert str(ClaimOwner("g_c@1", session)) == f"g_c@1@{text}"
    assert ClaimOwner.parse(f"g_c@1@{text}") == ClaimOwner("g_c@1", session)


@pytest.mark.parametrize(
    "text", ["", "g_c1", "@0x1", "g_c1@1", "g_c1@0x", "g_c1@0x-1", "g_c1@0x1_0", "g_c1@0x10000000000000000"]
)
def test_no_owner(text: str) -> None:
    """Text without a member and a session of at most 64 bits is refused."""
    with pytest.raises(ValueError, match=r"^a member and its session: consumer@0x1000a$"):
        ClaimOwner.parse(text)


@pytest.mark.parametrize(
    ("kraft_epoch", "brokers", "leader", "outdated"),
    [(-1, (), 1, False), (5, (), -1, True), (5, (1, 2), 1, False), (5, (1, 2), -1, False), (5, (2,), 1, True)],
)
def test_outdated(kraft_epoch: int, brokers: tuple[int, ...], leader: int, outdated: bool) -> None:
    """A snapshot of a migrating cluster is outdated if a leader or every broker is missing from ZooKeeper."""
    states = {TopicPartition("t", 0): PartitionState(leader, 0, (1,))}
    snapshot = ClusterSnapshot({b: Broker(b, ()) for b in brokers}, states=states, kraft_epoch=kraft_epoch)
    assert snapshot.is_outdated == outdated
