"""Views with a fake ensemble."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.view_tables import VIEWS, Row
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read import view_planner as planner
from pyspark_zkafka.read.view_planner import plan_view
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def client() -> EnsembleClient:
    """An ensemble without brokers, where groups g and h have offsets, and g has a member."""
    client = EnsembleClient()
    for topic in ("t", "u"):
        client.put_topic(topic)
        client.put(f"/admin/delete_topics/{topic}")
        client.put(f"/config/topics/{topic}", b'{"version": 1, "config": {"retention.ms": "1"}}')
    registration = {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": "1795228865441"}
    client.put("/consumers/g/ids/g_a", json.dumps(registration).encode())
    client.put("/consumers/g/owners/t/0", b"g_a-0")
    client.put("/consumers/h/offsets/u/0", b"7")
    client.put("/consumers/g/offsets/t/0", b"5")
    client.put("/consumers/g/offsets/u/0", b"x")
    del client.ensemble.nodes["/brokers/ids/1"]
    return client


@pytest.fixture
def view(client: EnsembleClient, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Row]]:
    """Reads a view of the ensemble, with options."""
    monkeypatch.setattr(planner, "ZooKeeperClient", lambda config: nullcontext(client))

    def read(name: str, **options: str) -> list[Row]:
        return plan_view(name, parse_read({"zookeeper.connect": "zk1:2181/kafka", "view": name, **options}))

    return read


def test_groups(view: Callable[..., list[Row]]) -> None:
    """Groups are sorted. With topics given, only those are shown, and groups without any of them are left out."""
    g, h = {"group": "g", "members": 1, "topics": ["t", "u"]}, {"group": "h", "members": 0, "topics": ["u"]}
    assert view("groups") == [g, h]
    assert view("groups", subscribe="t") == [{**g, "topics": ["t"]}]
    assert view("groups", **{"group.id": "h"}) == [h]
    assert view("groups", **{"group.id": "unknown"}) == []


def test_znodes_of_groups(view: Callable[..., list[Row]]) -> None:
    """Members, owners and offsets are listed for all groups or for one, and an unknown group has none."""
    assert [(row["group"], row["consumer"]) for row in view("members")] == [("g", "g_a")]
    assert [(row["group"], row["thread"]) for row in view("owners")] == [("g", "g_a-0")]
    shown = [(row["group"], row["topic"], row.get("offset"), "error" in row) for row in view("offsets")]
    assert shown == [("g", "t", 5, False), ("g", "u", None, True), ("h", "u", 7, False)]
    assert [row["topic"] for row in view("offsets", subscribe="u", **{"group.id": "h"})] == ["u"]
    assert view("members", **{"group.id": "unknown"}) == view("offsets", subscribe="none") == []


@pytest.mark.parametrize("name", ["topics", "partitions", "configs", "admin"])
def test_restricted_topics(view: Callable[..., list[Row]], name: str) -> None:
    """Topics are restricted by name or by pattern."""
    assert [row["topic"] for row in view(name)] == ["t", "u"]
    assert [row["topic"] for row in view(name, subscribe="u,gone")] == ["u"]
    assert [row["topic"] for row in view(name, subscribePattern="[u-z]")] == ["u"]


def test_after_the_migration(
    client: EnsembleClient, view: Callable[..., list[Row]], caplog: pytest.LogCaptureFixture
) -> None:
    """Once all brokers have left ZooKeeper for KRaft, each view of it warns once."""
    names = VIEWS.keys() - {"plan"}
    for name in names:
        view(name)
    assert "outdated" not in caplog.text
    client.put("/controller", b'{"version":2,"brokerid":3000,"timestamp":"1795228865441","kraftControllerEpoch":5}')
    for name in names:
        view(name)
        assert caplog.text.count(f"view={name} shows outdated data of ZooKeeper. All brokers have left ZooKeeper") == 1


def test_malformed_znodes(client: EnsembleClient, view: Callable[..., list[Row]], caplog: pytest.LogCaptureFixture) -> None:
    """A malformed topic is left out of a view of all topics with a warning, but fails a view of only this topic."""
    client.put("/brokers/topics/bad", b"{")
    client.put("/config/topics/bad", b"{")
    for name, path in (
        ("topics", "/brokers/topics/bad"),
        ("configs", "/config/topics/bad"),
        ("admin", "/brokers/topics/bad"),
    ):
        caplog.clear()
        assert [row["topic"] for row in view(name)] == ["t", "u"]
        assert f"view={name} leaves out" in caplog.text
        assert path in caplog.text
        if name != "admin":
            with pytest.raises(CodecError, match=path):
                view(name, subscribe="bad")
