"""Calls to brokers end in time, and name what they did not reach, while one of three brokers is dead or hangs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from pyspark_zkafka.brokers.admin import LogPosition
from pyspark_zkafka.brokers.groups import STABLE, GroupAdmin, GroupState
from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST
from pyspark_zkafka.testing import LocalCluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TIMEOUT_S = 6.0
SLACK_S = 4.0
LOST = 1
"""The broker that is lost. It leads the partition of this number, which has no other replica."""
TOPIC, GROUPS = "led-by-each", [f"group-{n}" for n in range(6)]
PARTITIONS = [TopicPartition(TOPIC, n) for n in range(3)]
COMMITTED = dict.fromkeys(PARTITIONS, 7)
LEFT = {tp: 1 for tp in PARTITIONS if tp.partition != LOST}


@dataclass(frozen=True)
class BrokerCall:
    """A call, and what it must return or name.

    Attributes
    ----------
    is_right : callable
        Whether a result is right; a call without a right result must fail.
    named : str
        A pattern of what the error must name.
    waits : int
        How many of its requests wait for an answer one after the other, each for the time-out.
    """

    do: Callable[[GroupAdmin], Any]
    is_right: Callable[[Any], bool] = lambda result: False
    named: str = "no error is allowed"
    waits: int = 1


CALLS = {
    "topic_names": BrokerCall(GroupAdmin.topic_names, lambda names: TOPIC in names),
    "snapshot": BrokerCall(GroupAdmin.snapshot, lambda found: {0, 2} <= set(found.brokers)),
    "topic_ids": BrokerCall(lambda admin: admin.topic_ids([TOPIC]), lambda found: list(found) == [TOPIC]),
    "check_topic_config": BrokerCall(
        lambda admin: admin.check_topic_config(TOPIC, {"retention.ms": "1000"}), lambda result: True, TOPIC
    ),
    "create_topic": BrokerCall(
        lambda admin: admin.create_topic("created", 1, 1, {}, validate_only=True), lambda result: True, "created"
    ),
    "add_partitions": BrokerCall(
        lambda admin: admin.add_partitions(TOPIC, 4, validate_only=True), lambda result: True, TOPIC
    ),
    "delete_topic": BrokerCall(lambda admin: admin.delete_topic("missing"), named="missing"),
    "broker_config": BrokerCall(lambda admin: admin.broker_config(LOST, "log.dirs"), named=f"broker {LOST}"),
    "list_offsets": BrokerCall(
        lambda admin: admin.list_offsets(dict.fromkeys(PARTITIONS, LATEST)), named=f"{TOPIC}-{LOST}"
    ),
    "list_offsets_each": BrokerCall(
        lambda admin: admin.list_offsets_each(dict.fromkeys(PARTITIONS, EARLIEST)),
        lambda result: (
            set(result[0]) == set(LEFT) and list(result[1]) == [PARTITIONS[LOST]] and f"{TOPIC}-{LOST}" in str(result[1])
        ),
    ),
    "high_watermarks": BrokerCall(lambda admin: admin.high_watermarks(PARTITIONS), named=f"{TOPIC}-{LOST}"),
    "find_truncated": BrokerCall(
        lambda admin: admin.find_truncated({tp: LogPosition(1, 0) for tp in PARTITIONS}, dict.fromkeys(PARTITIONS, 0)),
        lambda result: result == ({}, {PARTITIONS[LOST]}),
    ),
    "group_names": BrokerCall(GroupAdmin.group_names, lambda names: set(GROUPS) <= set(names), f"broker {LOST}", 2),
    "known_group_names": BrokerCall(GroupAdmin.known_group_names, lambda found: bool(found[0]), waits=2),
    "group_state": BrokerCall(
        lambda admin: admin.group_state(GROUPS[0]), lambda state: not state.is_active, GROUPS[0], waits=3
    ),
    "group_states": BrokerCall(
        lambda admin: admin.group_states(GROUPS),
        lambda states: all(_is_empty_or_named(group, state) for group, state in states.items()),
        waits=3,
    ),
    "committed": BrokerCall(lambda admin: admin.committed(GROUPS[0]), lambda found: found == COMMITTED, GROUPS[0], 2),
    "committed_many": BrokerCall(
        lambda admin: admin.committed_many(GROUPS), lambda found: found == dict.fromkeys(GROUPS, COMMITTED), "group-", 2
    ),
    "committed_each": BrokerCall(
        lambda admin: admin.committed_each(GROUPS),
        lambda result: (
            all(offsets == COMMITTED for offsets in result[0].values())
            and {*result[0], *result[1]} == set(GROUPS)
            and all(group in str(error) for group, error in result[1].items())
        ),
        waits=2,
    ),
    "committed_metadata": BrokerCall(
        lambda admin: admin.committed_metadata({GROUPS[0]: PARTITIONS}),
        lambda found: set(found[GROUPS[0]]) == set(PARTITIONS),
        GROUPS[0],
    ),
    "alter_offsets": BrokerCall(
        lambda admin: admin.alter_offsets(GROUPS[0], COMMITTED), lambda refused: refused == {}, GROUPS[0]
    ),
    "delete_groups": BrokerCall(lambda admin: admin.delete_groups(["none"]), lambda result: True, "none", 2),
    "delete_offsets": BrokerCall(
        lambda admin: admin.delete_offsets(GROUPS[1], [TopicPartition("other", 0)]), lambda result: True, GROUPS[1]
    ),
    "has_coordinators": BrokerCall(lambda admin: admin.has_coordinators(GROUPS[0]), lambda result: result),
}
"""Each public call that waits for brokers. Those that must fail are about the lost broker alone."""
WITHOUT_REQUESTS = {"of", "servers", "follow", "forget_leaders"}


def _is_empty_or_named(group: str, state: GroupState) -> bool:
    if state.problem is not None:
        return group in str(state.problem)
    return state.name != STABLE and not state.members


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
