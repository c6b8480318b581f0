"""Groups with a registration that could block a member for ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.group.member import GroupMember
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import SubscribePattern
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.chroot import Chroot
NewMember = Callable[..., GroupMember]

SLOW = "a" * 60


def encoded(subscription: dict[str, int], pattern: str) -> bytes:
    """Return a registration that anyone could write."""
    return json.dumps({"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "0"}).encode()


@pytest.mark.parametrize(
    "data",
    [
        encoded({"t": 2_000_000_000}, "static"),
        encoded({"t.*": 2_000_000_000}, "white_list"),
        encoded({"(?>x)": 1}, "black_list"),
        encoded({"(?!abc": 1}, "white_list"),
        encoded({"(t)\\1": 1}, "black_list"),
    ],
)
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_unreadable(
    chroot: Chroot, new_member: NewMember, caplog: pytest.LogCaptureFixture, data: bytes, strategy: str
) -> None:
    """A registration that cannot be counted or evaluated is ignored with a warning."""
    chroot.topic("t", 4)
    chroot.register("g", "g_bad", data)
    with new_member("c1", "t", strategy=strategy) as member:
        assert len(member.owned()) == 4
    assert "left out of the assignment" in caplog.text
    assert "/consumers/g/ids/g_bad cannot be read" in caplog.text


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_backtracking(chroot: Chroot, new_member: NewMember, strategy: str) -> None:
    """A filter with catastrophic backtracking is evaluated: it matches no topic here, so its member gets nothing."""
    chroot.topic(SLOW, 4)
    chroot.register("g", "g_slow", encoded({"(a+)+[.]": 1}, "white_list"))
    with new_member("c1", SubscribePattern("(a+)+"), strategy=strategy) as member:
        assert len(member.owned()) == 4


def test_what_an_unreadable_member_owns(chroot: Chroot, new_member: NewMember) -> None:
    """A member with a registration unreadable to us keeps its partitions; the others, and released ones, are assigned."""
    chroot.topic("t", 4)
    chroot.register("g", "g_bad", encoded({"t(?!x)": 1}, "white_list"))
    claims = [chroot.claim("g", TopicPartition("t", n), b"g_bad-0") for n in (2, 3)]
    with new_member("c1", "t") as member:
        assert sorted(tp.partition for tp in member.owned()) == [0, 1]
        for path in claims:
            chroot.other.delete(path)
        eventually(lambda: len(member.owned()) == 4)
