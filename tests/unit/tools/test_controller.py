"""Requests to the controller: whether one acts on znodes, and how a change is followed."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.model.znodes.topics import ControllerInfo, decode_controller
from pyspark_zkafka.tools.controller import controller_problem, follow
from tests.support.cases import each


@each(
    ("data", "migration", "problem"),
    [
        (b'{"version":1,"brokerid":7,"timestamp":"1795227249419"}', False, None),
        (b'{"version":2,"brokerid":0,"timestamp":"1795224999896","kraftControllerEpoch":-1}', False, None),
        (b'{"version":2,"brokerid":3000,"timestamp":"1795224999896","kraftControllerEpoch":5}', False, "migrated"),
        (b'{"version":2,"brokerid":0,"timestamp":"1795224999896","kraftControllerEpoch":-1}', True, "migrated"),
        (None, True, "migrated"),
        (None, False, "no controller"),
    ],
)
def test_controller_problem(data: bytes | None, migration: bool, problem: str | None) -> None:
    """Only the controller of a cluster in ZooKeeper mode, which is not being migrated, acts on znodes."""
    controller = None if data is None else decode_controller("/controller", data)
    found = controller_problem(controller, migration)
    assert (found is None) if problem is None else (problem in (found or ""))


def test_controller_without_epoch() -> None:
    """A controller older than KRaft has the epoch that means none."""
    assert decode_controller("/controller", b"3") == ControllerInfo(3)


def test_follow_until_done() -> None:
    """Every state is returned, the one that is done too."""
    states = iter([3, 1, 0])
    assert list(follow(lambda: next(states), lambda left: left == 0, 10, lambda: 0.0, lambda s: None)) == [3, 1, 0]


def test_follow_for_a_time() -> None:
    """A change that is not done in time is an error that says that it goes on."""
    clock = iter([0.0, 4.0, 6.0])
    looks = follow(lambda: "state", lambda state: False, 5, lambda: next(clock), lambda s: None)
    assert [next(looks), next(looks)] == ["state", "state"]
    with pytest.raises(ClusterStateError, match=r"\[ADMIN_UNFINISHED\] The change is not done after 5 s, and goes on"):
        next(looks)
