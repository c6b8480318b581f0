"""Calls to brokers end in time, and name what they did not reach, while one of three brokers is dead or hangs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from pyspark_zkafka.brokers.groups import GroupAdmin
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.testing import LocalCluster
from tests.support.broker_calls import CALLS, COMMITTED, GROUPS, LOST, PARTITIONS, TOPIC, BrokerCall

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TIMEOUT_S = 6.0
SLACK_S = 4.0
WITHOUT_REQUESTS = {"of", "servers", "follow", "forget_leaders"}


def test_all_calls() -> None:
    """Each public name of the client is called by these tests, or makes no request."""
    assert {name for name in dir(GroupAdmin) if not name.startswith("_")} == {*CALLS, *WITHOUT_REQUESTS}


@pytest.fixture(scope="module", params=["3.9.1", "4.3.1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Three brokers, a topic with a partition on each, and offsets of six groups; brokers lose a broker after 6 s."""
    with LocalCluster(brokers=3, kafka_version=request.param) as cluster:
        cluster.create_topic(TOPIC, assignment={n: [n] for n in range(3)})
        cluster.create_topic("other", replication=3)
        cluster.produce(TOPIC, [{"value": b"v", "partition": n} for n in range(3)])
        with GroupAdmin(cluster.bootstrap_servers, {}) as admin:
            for group in GROUPS:
                assert admin.alter_offsets(group, COMMITTED) == {}
        yield cluster


@pytest.fixture(params=["dead", "hanging"])
def lose(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[Callable[[], None]]:
    """Loses the broker; it is back at the end."""
    yield partial(cluster.kill if request.param == "dead" else cluster.pause, LOST)
    if request.param == "dead":
        cluster.restart(LOST)
    else:
        cluster.resume(LOST)
    cluster.wait_ready()
    cluster.wait_in_sync("__consumer_offsets")


@pytest.mark.parametrize("is_connected", [True, False], ids=["connected before", "new clients"])
def test_a_lost_broker(cluster: LocalCluster, lose: Callable[[], None], is_connected: bool) -> None:
    """Calls that need no lost broker succeed or name what is late; the other calls fail in time, and name their part."""
    clients = {}
    with ExitStack() as opened, ThreadPoolExecutor(len(CALLS)) as threads:
        for name in CALLS:
            properties = {"socket.timeout.ms": int(TIMEOUT_S * 1000)}
            clients[name] = opened.enter_context(
                GroupAdmin(cluster.bootstrap_servers, properties, read_committed=name == "high_watermarks")
            )
            if is_connected:
                clients[name].list_offsets(dict.fromkeys(PARTITIONS, LATEST))
        lose()
        outcomes = list(threads.map(lambda name: _outcome(clients[name], CALLS[name]), CALLS))
    assert [f"{name}: {wrong}" for name, wrong in zip(CALLS, outcomes, strict=True) if wrong] == []


def _outcome(admin: GroupAdmin, call: BrokerCall) -> str:
    """Do a call. Return a description of its fault, or an empty text if the outcome is right."""
    began, found = time.monotonic(), ""
    try:
        result = call.do(admin)
    except ZKafkaError as error:
        if not re.search(call.named, str(error)):
            found = f"the error does not name {call.named}: {error}"
    else:
        if not call.is_right(result):
            found = f"returned {result}"
    took = time.monotonic() - began
    limit = call.waits * TIMEOUT_S + SLACK_S
    return f"{found} after {took:.1f} of {limit:.1f} s" if found or took > limit else ""
