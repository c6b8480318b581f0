"""Writes to a scripted broker that, like a starting broker, answers that it knows no topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.errors import DeliveryFailed
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.producer import producer_properties
from pyspark_zkafka.records.select import open_producer
from pyspark_zkafka.wire import protocol
from tests.support.both_paths import BOTH, connection
from tests.support.scripted_broker import RANGES, Received, ScriptedBroker, answered
from tests.support.starting_broker import StartingBroker

if TYPE_CHECKING:
    from pyspark_zkafka.options.values import Transport

PRODUCE, INIT_PRODUCER_ID = 0, 22
NOT_LEADER = 6
GRACE_S = 30
"""librdkafka's default of ``topic.metadata.propagation.max.ms``: how long it would wait without our setting."""


class ForgetfulBroker(StartingBroker):
    """Knows the topic `t` unless `forgets` is set, and takes no records: clients keep asking for another leader.

    Attributes
    ----------
    denials : int
        The number of metadata requests while it forgets.
    """

    def __init__(self) -> None:
        super().__init__(range(0), ["t"])
        self.broker = ScriptedBroker(self, {**RANGES, PRODUCE: (0, 7), INIT_PRODUCER_ID: (0, 0)})
        self.forgets = False
        self.denials = 0

    def __call__(self, request: Received) -> bytes:
        if request.api == PRODUCE:
            return answered(request, _refusal())
        if request.api == INIT_PRODUCER_ID:
            return answered(request, protocol.int32(0) + protocol.int16(0) + protocol.int64(7) + protocol.int16(0))
        self._silent = range(1_000_000) if self.forgets else range(0)
        self.denials += self.forgets
        return super().__call__(request)


def _refusal() -> bytes:
    """Return the body of a response to Produce 7: the broker does not lead partition 0 of `t`."""
    refused = protocol.int32(0) + protocol.int16(NOT_LEADER) + 3 * protocol.int64(-1)
    return protocol.int32(1) + protocol.string("t") + protocol.int32(1) + refused + protocol.int32(0)


def write_on(transport: Transport, **kafka: int) -> None:
    """Send rows to a broker that forgets their topic for two seconds, long after the producer learned it.

    Raises TimeoutError if the rows are still in flight.
    """
    server = ForgetfulBroker()
    is_direct = transport == "direct"
    settings = {"enable.idempotence": is_direct, "topic.metadata.refresh.interval.ms": 200, "linger.ms": 10, **kafka}
    with server.broker as broker:
        servers = "{}:{}".format(*broker.address)
        how = connection(servers, transport, settings)
        with open_producer(how, producer_properties(how, servers)) as producer:
            assert isinstance(producer._sender, DirectSender) == is_direct
            begin = time.monotonic()
            while (age_s := time.monotonic() - begin) < GRACE_S + 6:
                server.forgets = GRACE_S + 2 < age_s < GRACE_S + 4
                producer.send(OutgoingBatch("t", pa.array([b"v"]), None, None, None, None), np.zeros(1, np.int32))
                producer._sender.poll(0.1)  # the direct transport works only within calls
            assert server.denials, "no client has asked a broker that knows no topic"
            raise TimeoutError("the rows are still in flight")  # keeps the producer from waiting for them


@pytest.mark.long
@pytest.mark.parametrize("transport", BOTH)
def test_broker_that_knows_no_topic(transport: Transport) -> None:
    """Rows wait until brokers know their topic again, although librdkafka's default would fail them."""
    with pytest.raises(TimeoutError, match="still in flight"):
        write_on(transport)


@pytest.mark.long
def test_default_of_librdkafka() -> None:
    """With librdkafka's default propagation time, a write fails while brokers do not know its topic."""
    with pytest.raises(DeliveryFailed, match="t-0: UNKNOWN_TOPIC_OR_PARTITION"):
        write_on("librdkafka", **{"topic.metadata.propagation.max.ms": GRACE_S * 1000})
