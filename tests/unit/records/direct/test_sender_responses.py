"""The direct sender with damaged responses: no crash, no hang, nothing acknowledged without a valid response."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.direct import leaders as leaders_module
from pyspark_zkafka.records.direct import sender as sender_module
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.producer import QueueLimits
from pyspark_zkafka.wire import protocol
from tests.support.scripted_broker import Received, answered
from tests.support.scripted_cluster import DAMAGES, INIT_PRODUCER_ID, PRODUCE, ScriptedCluster, Treatment
from tests.support.tiers import seldom

Damage = Callable[[Received, bytes], "bytes | None"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "_METADATA_PAUSE_S", 0.002)
    monkeypatch.setattr(sender_module, "_SETUP_S", 0.1)


@contextmanager
def opened(cluster: ScriptedCluster, **kafka: Any) -> Iterator[DirectSender]:
    given = {name.replace("_", "."): value for name, value in kafka.items()}
    short = {"retry.backoff.ms": 1, "reconnect.backoff.ms": 1, "request.timeout.ms": 50}
    with (
        cluster,
        DirectSender({"bootstrap.servers": cluster.servers, **short, **given}, QueueLimits()) as sender,
    ):
        yield sender
    cluster.settle()


def add(sender: DirectSender, *values: bytes) -> None:
    """Add values, alternating between two partitions."""
    column = pa.array(values, pa.binary())
    sender.add(OutgoingBatch("t", column, None, None, None, None), np.arange(len(values), dtype=np.int32) % 2)
    assert sender.advance(0)


def finish(sender: DirectSender, timeout_s: float = 20.0) -> None:
    """Flush until everything is acknowledged, or something has failed."""
    until = time.monotonic() + timeout_s
    while sender.queued and sender.failure is None:
        assert time.monotonic() < until, "no progress"
        sender.flush(0.01)


def first_responses(api: int, damage: Damage, times: int = 2, *, is_processed: bool = True) -> Callable[..., Treatment]:
    """Damage the first responses of an API."""
    left = [times]

    def treat(broker: int, request: Received) -> Treatment:
        if request.api != api or not left[0]:
            return Treatment()
        left[0] -= 1
        return Treatment(respond=damage, is_processed=is_processed)

    return treat


@pytest.mark.parametrize("is_processed", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_acknowledgements(damage: str, is_processed: bool) -> None:
    """Records without a valid response are sent again, and are in the log once, whether or not they had been appended."""
    cluster = ScriptedCluster(first_responses(PRODUCE, DAMAGES[damage], is_processed=is_processed))
    with opened(cluster) as sender:
        values = [b"%d" % n for n in range(6)]
        add(sender, *values)
        finish(sender)
        assert sender.failure is None
        assert sender.acknowledged == 6
    assert [log.values for log in cluster.logs] == [values[::2], values[1::2]]


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_acknowledgement_at_all(damage: str) -> None:
    """Without a valid response in time, no record is acknowledged, and the error says that it may be written."""
    cluster = ScriptedCluster(first_responses(PRODUCE, DAMAGES[damage], 10**9))
    with opened(cluster, delivery_timeout_ms=150) as sender:
        add(sender, b"a", b"b")
        finish(sender)
        assert sender.failure is not None
        is_sent = any(request.api == PRODUCE for request in cluster.brokers[0].received)
        assert "the broker may have written the records" in sender.failure.cause or not is_sent  # as on a busy machine
        assert sender.acknowledged == 0


def slowly(broker: int, request: Received) -> Treatment:
    return Treatment(delay_s=0.2 if request.api == PRODUCE else 0.0)


@pytest.mark.parametrize("limits", [{}, {"delivery_timeout_ms": 800, "request_timeout_ms": 10_000}])
def test_a_slow_link(monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]) -> None:
    """No request or batch times out that waits behind others, while the broker acknowledges one after the other."""
    monkeypatch.setattr(leaders_module, "_LATE_RESPONSE_S", 0.6)
    cluster = ScriptedCluster(slowly)
    with opened(cluster, batch_size=300, **limits) as sender:
        add(sender, *(b"%0300d" % n for n in range(20)))
        finish(sender)
        assert sender.failure is None
        assert sender.acknowledged == 20
    sent = [request for broker in cluster.brokers for request in broker.received if request.api == PRODUCE]
    assert len(sent) == 10, "requests were sent again"


def init_response(error: int, number: int, epoch: int) -> Damage:
    body = protocol.int32(0) + protocol.int16(error) + protocol.int64(number) + protocol.int16(epoch)
    return lambda request, _: answered(request, body)


BAD_PRODUCERS: dict[str, Damage] = {
    **{name: DAMAGES[name] for name in ("closed", "nothing", "half", "an empty response", "another correlation id")},
    "a null id": init_response(0, -1, -1),
    "an id without an epoch": init_response(0, 7, -1),
    "no coordinator": init_response(15, -1, -1),
    "a time-out": init_response(7, -1, -1),
}


@pytest.mark.parametrize("damage", BAD_PRODUCERS)
def test_damaged_producer_ids(damage: str) -> None:
    """An invalid producer id is requested again: without a valid one, brokers could not drop duplicates."""
    cluster = ScriptedCluster(first_responses(INIT_PRODUCER_ID, BAD_PRODUCERS[damage]))
    with opened(cluster) as sender:
        add(sender, b"a", b"b")
        finish(sender)
        assert sender.failure is None
        assert sender.acknowledged == 2
    assert [log.values for log in cluster.logs] == [[b"a"], [b"b"]]


def changed(numbers: random.Random) -> Damage:
    """Change, cut or repeat some bytes of a response, except its last four, the throttle time."""

    def damaged(request: Received, body: bytes) -> bytes:
        data = bytearray(answered(request, body))
        for _ in range(numbers.randint(1, 3)):
            at = numbers.randrange(len(data) - 4)
            kind = numbers.randrange(3)
            if kind == 0:
                data[at] = numbers.choice([0, 1, 0x7F, 0x80, 0xFF, numbers.randrange(256)])
            elif kind == 1:
                del data[at : at + numbers.randint(1, 8)]
            else:
                data[at:at] = data[at : at + numbers.randint(1, 8)]
        return bytes(data)

    return damaged


@pytest.mark.parametrize("seeds", [range(25), *seldom(range(25, 500))], ids=len)
def test_any_damage(seeds: range) -> None:
    """With any damaged response, the write ends, and acknowledged records are in the log."""
    for seed in seeds:
        damage_anything(seed)


def damage_anything(seed: int) -> None:
    numbers = random.Random(seed)
    cluster = ScriptedCluster(first_responses(PRODUCE, changed(numbers), 3))
    with opened(cluster, delivery_timeout_ms=400) as sender:
        for n in range(4):
            add(sender, b"%d" % (2 * n), b"%d" % (2 * n + 1))
            sender.flush(0.005)
        finish(sender)
        for (_, partition), count in sender._producing.delivered.items():
            written = cluster.logs[partition].values
            assert {b"%d" % (2 * n + partition) for n in range(count)} <= set(written), f"seed {seed}"
