"""Limits of requests about groups; test_vectors.py has their bytes."""

from __future__ import annotations

import pytest

from pyspark_zkafka.wire import group_messages


@pytest.mark.parametrize("keys", [[], ["g", "h"]])
def test_coordinator_of_one_key(keys: list[str]) -> None:
    """Before version 4, a FindCoordinator request has exactly one key."""
    with pytest.raises(ValueError):
        group_messages.find_coordinators_request(3, group_messages.GROUP, keys)
    assert group_messages.find_coordinators_request(4, group_messages.GROUP, keys).version == 4


@pytest.mark.parametrize("groups", [[], ["g", "h"]])
def test_offsets_of_one_group(groups: list[str]) -> None:
    """Before version 8, an OffsetFetch request has exactly one group."""
    with pytest.raises(ValueError):
        group_messages.offset_fetch_request(7, dict.fromkeys(groups), stable=False)
    assert group_messages.offset_fetch_request(8, dict.fromkeys(groups), stable=False).version == 8
