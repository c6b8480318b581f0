"""``zkafka admin show``, and requests to the controller: support by the controller, and progress of a change."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import ClusterStateError
from pyspark_zkafka.model.znodes.cluster import ControllerInfo, decode_controller
from pyspark_zkafka.tools.admin import follow, require_controller
from pyspark_zkafka.tools.admin import show as show_admin
from tests.support.ensemble_client import EnsembleClient
from tests.support.running import Run


def test_show(views: Any, run: Run) -> None:
    """A reassignment is shown with the number of its new replicas in sync, and other operations without."""
    place = {"topic": "t", "partition": 0}
    views.rows["admin"] = [
        {"operation": "reassignment", **place, "replicas": [2, 3]},
        {"operation": "election", **place, "replicas": None},
    ]
    views.rows["partitions"] = [{**place, "isr": [1, 3]}]
    assert [(row["operation"], row["isr"], row["in_sync"]) for row in run(show_admin)] == [
        ("reassignment", [1, 3], "1/2"),
        ("election", None, None),
    ]
    assert views.restricted == [("admin", {}), ("partitions", {"subscribe": "t"})]


@pytest.mark.parametrize(
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
def test_controller_that_acts_on_znodes(data: bytes | None, migration: bool, problem: str | None) -> None:
    """Only a controller in ZooKeeper mode without a migration acts on znodes."""
    client = EnsembleClient()
    if data is not None:
        client.put("/controller", data)
    if migration:
        client.put("/migration")
    if problem is None:
        require_controller(client)
    else:
        with pytest.raises(ClusterStateError, match=rf"NO_ZOOKEEPER_CONTROLLER.*{problem}"):
            require_controller(client)


def test_controller_without_epoch() -> None:
    """A controller older than KRaft has the default epoch."""
    assert decode_controller("/controller", b"3") == ControllerInfo(3)


def test_follow_until_done() -> None:
    """Every state is returned, including the final one."""
    states = iter([3, 1, 0])
    assert list(follow(lambda: next(states), lambda left: left == 0, 10, lambda: 0.0, lambda s: None)) == [3, 1, 0]


def test_follow_for_a_time() -> None:
    """A change that is not done in time is an error that says that it continues."""
    clock = iter([0.0, 4.0, 6.0])
    looks = follow(lambda: "state", lambda state: False, 5, lambda: next(clock), lambda s: None)
    assert [next(looks), next(looks)] == ["state", "state"]
    with pytest.raises(ClusterStateError, match=r"\[ADMIN_UNFINISHED\] The change is not done after 5 s, and continues"):
        next(looks)
