"""Brokers that accept idempotent writes to a topic ``t`` as Kafka does, and treat each request as scripted."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.native.record_decoder import RecordDecoder
from pyspark_zkafka.wire import protocol
from tests.support.scripted_broker import RANGES, Received, ScriptedBroker, answered

__all__ = ["DAMAGES", "INIT_PRODUCER_ID", "METADATA", "PRODUCE", "Log", "ScriptedCluster", "Treatment", "sent_batches"]

PRODUCE, METADATA, INIT_PRODUCER_ID = 0, 3, 22
SERVED = {**RANGES, PRODUCE: (0, 8), INIT_PRODUCER_ID: (0, 4)}
NONE, NOT_LEADER, TOO_LARGE, OUT_OF_ORDER, DUPLICATE = 0, 6, 10, 45, 46
_VALUE = pa.schema([("value", pa.binary())])

Answers = Mapping[int, int]
"""Errors by partition."""


@dataclass(frozen=True)
class Treatment:
    """The treatment of a request.

    Attributes
    ----------
    code : int or None
        The error in the response, whatever the broker did; also of InitProducerId and Metadata.
    is_processed : bool
        If False, batches in the request are not appended.
    is_late : bool
        If True, the request is processed some time after its connection was closed.
    respond : callable
        Makes the response from the request and its body; None closes the connection, and empty bytes are no response.
    """

    delay_s: float = 0.0
    code: int | None = None
    is_processed: bool = True
    is_late: bool = False
    throttle_ms: int = 0
    respond: Callable[[Received, bytes], bytes | None] = answered


@dataclass
class Log:
    """A partition: its leader, its values, and each producer's last five batches by first and last sequence."""

    leader: int
    values: list[bytes] = field(default_factory=list)
    producers: dict[tuple[int, int], deque[tuple[int, int]]] = field(default_factory=dict)

    def append(self, data: bytes, partition: int) -> int:
        """Append a record batch unless its sequence is wrong; return Kafka's error code."""
        number = lambda start, stop: int.from_bytes(data[start:stop], "big", signed=True)  # noqa: E731
        producer, first, count = (number(43, 51), number(51, 53)), number(53, 57), number(57, 61)
        assert producer[0] >= 0, "a batch without a producer id"
        known = self.producers.get(producer, deque(maxlen=5))
        last = (first + count - 1) % 2**31
        if (first, last) in known:
            return DUPLICATE
        if known and first != (known[-1][1] + 1) % 2**31:
            return OUT_OF_ORDER
        values = _values(data, partition)
        assert len(values) == count
        known.append((first, last))
        self.producers[producer] = known
        self.values += values
        return NONE


class ScriptedCluster:
    """Brokers on loopback, open within a ``with`` block.

    `treat` is called with the number of the broker and the request, for one request at a time.
    """

    def __init__(
        self,
        treat: Callable[[int, Received], Treatment] = lambda broker, request: Treatment(),
        *,
        most_bytes: int = 2**31,
        brokers: int = 1,
        partitions: int = 2,
        produce_version: int = 8,
        log_start: int = 0,
    ) -> None:
        self._treat = treat
        self._most_bytes = most_bytes  # limit of a record batch
        self._log_start = log_start  # -1 if the brokers do not know it
        served = {**SERVED, PRODUCE: (0, produce_version)}
        self.logs = [Log(n % brokers) for n in range(partitions)]
        self.brokers = [ScriptedBroker(partial(self._respond, n), served) for n in range(brokers)]
        self.producers = 0
        self.failures: list[Exception] = []
        self._lock = threading.Lock()
        self._late: list[threading.Thread] = []

    def __enter__(self) -> ScriptedCluster:
        self._stack = ExitStack()
        for broker in self.brokers:
            self._stack.enter_context(broker)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @property
    def servers(self) -> str:
        """The brokers' addresses, for ``bootstrap.servers``."""
        return ",".join(f"{host}:{port}" for host, port in (broker.address for broker in self.brokers))

    def settle(self) -> None:
        """Wait until all requests are processed, after the client has closed its connections."""
        for broker in self.brokers:
            broker.finish()
        for thread in self._late:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _respond(self, broker: int, request: Received) -> bytes | None:
        try:
            with self._lock:
                treatment = self._treat(broker, request)
            time.sleep(treatment.delay_s)
            if treatment.is_late:
                thread = threading.Thread(target=self._process_late, args=(broker, request))
                thread.start()
                self._late.append(thread)
                return None
            return treatment.respond(request, self._body(broker, request, treatment))
        except Exception as error:  # noqa: BLE001 - raised by `settle`
            self.failures.append(error)
            return None

    def _process_late(self, broker: int, request: Received) -> None:
        time.sleep(0.005)
        with self._lock:
            self._append_all(broker, request)

    def _body(self, broker: int, request: Received, treatment: Treatment) -> bytes:
        if request.api == METADATA:
            return self.metadata(treatment.code or NONE)
        if request.api == INIT_PRODUCER_ID:
            with self._lock:
                self.producers += 1
                number = self.producers
            return protocol.int32(0) + protocol.int16(treatment.code or NONE) + protocol.int64(number) + protocol.int16(0)
        with self._lock:
            if treatment.is_processed:
                found = self._append_all(broker, request)
            else:
                found = {n: NONE for n, _ in sent_batches(request)}
        if treatment.code is not None:
            found = dict.fromkeys(found, treatment.code)
        return produce_response(found, treatment.throttle_ms, request.version, self._log_start)

    def _append_all(self, broker: int, request: Received) -> dict[int, int]:
        found = {}
        for partition, data in sent_batches(request):
            log = self.logs[partition]
            if log.leader != broker:
                found[partition] = NOT_LEADER
            else:
                found[partition] = log.append(data, partition) if len(data) <= self._most_bytes else TOO_LARGE
        return found

    def metadata(self, error: int) -> bytes:
        """Return the body of a response to Metadata 5."""
        brokers = b"".join(
            protocol.int32(n) + protocol.string("127.0.0.1") + protocol.int32(broker.address[1]) + protocol.string(None)
            for n, broker in enumerate(self.brokers)
        )
        nobody = 3 * protocol.int32(0)
        rows = b"".join(
            protocol.int16(NONE) + protocol.int32(n) + protocol.int32(log.leader) + protocol.int32(1) + nobody
            for n, log in enumerate(self.logs)
        )
        topic = protocol.int16(error) + protocol.string("t") + protocol.int8(0) + protocol.int32(len(self.logs)) + rows
        head = protocol.int32(0) + protocol.int32(len(self.brokers)) + brokers + protocol.string(None) + protocol.int32(0)
        return head + protocol.int32(1) + topic


def sent_batches(request: Received) -> Iterator[tuple[int, bytes]]:
    """Return the record batches in a Produce request, by partition."""
    reader = protocol.Reader(request.rest)
    reader.string()  # client id
    assert reader.string() is None  # transactional id
    assert reader.int16() == -1
    reader.int32()  # time-out

    def topic() -> list[tuple[int, bytes]]:
        assert reader.string() == "t"
        return reader.array(lambda: (reader.int32(), bytes(reader.nullable_bytes())))

    found = [one for topic_batches in reader.array(topic) for one in topic_batches]
    reader.finish()
    return iter(found)


def _values(data: bytes, partition: int) -> list[bytes]:
    with RecordDecoder(TopicPartition("t", partition), _VALUE) as decoder:
        decoder.seek(0)
        decoder.feed(data)
        decoder.poll(2**30, 2**40, 2**60)
        found: list[bytes] = decoder.take().column("value").to_pylist()
        return found


def produce_response(answers: Answers, throttle_ms: int = 0, version: int = 8, log_start: int = 0) -> bytes:
    """Return the body of a response to Produce 5 to 8."""
    head = protocol.int32(1) + protocol.string("t") + protocol.int32(len(answers))
    rows = (_row(partition, error, version, log_start) for partition, error in answers.items())
    return head + b"".join(rows) + protocol.int32(throttle_ms)


def _row(partition: int, error: int, version: int = 8, log_start: int = 0) -> bytes:
    offsets = protocol.int64(0) + protocol.int64(-1) + protocol.int64(log_start)
    words = protocol.int32(0) + protocol.string(None) if version >= 8 else b""
    return protocol.int32(partition) + protocol.int16(error) + offsets + words


# --- damaged responses to Produce; none acknowledges a batch ----------------------------------------------------------

_ROWS_AT = 4 + 3  # after the number of topics and the topic's name


def _with_other_partitions(request: Received, body: bytes) -> bytes:
    asked = {n for n, _ in sent_batches(request)}
    return answered(request, produce_response({n + 100: NONE for n in asked} | {-1: NONE, 2**31 - 1: 10}))


def _with_another_topic(request: Received, body: bytes) -> bytes:
    return answered(request, body.replace(protocol.string("t"), protocol.string("u"), 1))


def _with_an_unknown_producer(request: Received, body: bytes) -> bytes:
    """Report for another partition that the broker has removed all records of the producer."""
    row = protocol.int32(77) + protocol.int16(59) + protocol.int64(-1) + protocol.int64(-1) + protocol.int64(2**63 - 1)
    rows = row + protocol.int32(0) + protocol.string(None)
    return answered(request, protocol.int32(1) + protocol.string("t") + protocol.int32(1) + rows + protocol.int32(0))


def _counts(count: int) -> Callable[[Received, bytes], bytes]:
    def damaged(request: Received, body: bytes) -> bytes:
        return answered(request, body[:_ROWS_AT] + protocol.int32(count) + body[_ROWS_AT + 4 :])

    return damaged


def _with_each_partition_twice(request: Received, body: bytes) -> bytes:
    asked = [n for n, _ in sent_batches(request)]
    rows = b"".join(_row(n, error) for n in asked for error in (NOT_LEADER, NONE))
    head = protocol.int32(1) + protocol.string("t") + protocol.int32(2 * len(asked))
    return answered(request, head + rows + protocol.int32(0))


def _topics(count: int) -> Callable[[Received, bytes], bytes]:
    return lambda request, body: answered(request, protocol.int32(count) + body[4:])


def _cut(kept: float) -> Callable[[Received, bytes], bytes]:
    return lambda request, body: answered(request, body[: int(len(body) * kept)])


DAMAGES: Mapping[str, Callable[[Received, bytes], bytes | None]] = {
    "closed": lambda request, body: None,
    "nothing": lambda request, body: answered(request, b""),
    "an eighth": _cut(0.125),
    "half": _cut(0.5),
    "all but the end": _cut(0.99),
    "an empty response": lambda request, body: protocol.int32(0),
    "a negative length": lambda request, body: protocol.int32(-1) + body,
    "a response too large": lambda request, body: protocol.int32(2**31 - 1) + body,
    "another correlation id": lambda request, body: answered(
        request._replace(correlation_id=request.correlation_id + 1), body
    ),
    "no topics": lambda request, body: answered(request, produce_response({})),
    "a null array of topics": _topics(-1),
    "a negative number of topics": _topics(-(2**31)),
    "too many topics": _topics(2),
    "far too many topics": _topics(2**31 - 1),
    "a null array of partitions": _counts(-1),
    "too few partitions": _counts(0),
    "too many partitions": _counts(100),
    "another topic": _with_another_topic,
    "other partitions": _with_other_partitions,
    "each partition twice": _with_each_partition_twice,
    "an unknown producer elsewhere": _with_an_unknown_producer,
    "noise": lambda request, body: answered(request, random.Random(len(body)).randbytes(200)),
    "zeros": lambda request, body: answered(request, bytes(200)),
}
"""Damaged responses; none acknowledges a batch."""
