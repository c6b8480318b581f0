"""``zkafka groups delete`` on an ensemble of values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import GroupError, UnknownTopic
from pyspark_zkafka.tools.group_delete import delete
from pyspark_zkafka.tools.output import Row
from tests.support.ensemble_client import EnsembleClient


def test_delete(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """The znodes of each group are counted, and deleted unless it is a dry run."""
    assert run(delete, ["idle", "idle"], dry_run=True) == [{"group": "idle", "topic": None, "znodes": 4}]
    assert "/consumers/idle" in client.ensemble.nodes
    assert run(delete, ["idle"]) == [{"group": "idle", "topic": None, "znodes": 4}]
    assert "/consumers/idle" not in client.ensemble.nodes


def test_checked_before_anything_is_deleted(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """If one of the groups is active, or does not exist, all of them stay."""
    with pytest.raises(GroupError, match="Delete for group 'g' failed because its consumers are still active"):
        run(delete, ["idle", "g"])
    with pytest.raises(GroupError, match="Group nobody does not exist"):
        run(delete, ["idle", "nobody"])
    assert "/consumers/idle" in client.ensemble.nodes


def test_topic_that_a_group_does_not_have(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """A topic of which one of the groups has nothing is an error, and all of them stay."""
    client.put("/consumers/other/offsets/u/0", b"1")
    with pytest.raises(UnknownTopic, match=r"idle, other .* of topic nosuch"):
        run(delete, ["idle", "other"], topic="nosuch")
    with pytest.raises(UnknownTopic, match=r"other .* of topic t;"):
        run(delete, ["idle", "other"], topic="t")
    assert "/consumers/idle" in client.ensemble.nodes
