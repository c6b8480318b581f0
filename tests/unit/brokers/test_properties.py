"""Properties of consumers and producers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.brokers.clients import MessageClient
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.brokers.properties import CLIENT_DEFAULTS, consumer_properties, shared_properties
from pyspark_zkafka.errors import BrokersUnavailable, OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import LATEST
from pyspark_zkafka.model.rows import OutgoingBatch
from pyspark_zkafka.options.batch import parse_connection, parse_read
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.records import librdkafka_sender
from pyspark_zkafka.records.direct.sender import DirectSender
from pyspark_zkafka.records.librdkafka_sender import MessageSender
from pyspark_zkafka.records.producer import QueueLimits, Sender, producer_properties
from tests.support.tiers import seldom

UNREACHABLE = "127.0.0.1:1"


def connection(scope: str = "read", **properties: str):  # type: ignore[no-untyped-def]  # any connection will do
    options = {"kafka.bootstrap.servers": "k:1", **{f"kafka.{name}": value for name, value in properties.items()}}
    return parse_connection(options, scope)  # type: ignore[arg-type]


def test_reading_is_as_java_reads() -> None:
    """Where librdkafka's read defaults differ from Java's, Java's apply: isolation level and CRC checks."""
    properties = consumer_properties(connection(), "k:1", "g")
    assert properties["isolation.level"] == "read_uncommitted"
    assert properties["check.crcs"] is True


@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.partition.eof", "enable.auto.commit"])
def test_what_the_proof_needs_stays(name: str) -> None:
    """A user's settings override defaults, but not properties that the proof of a range relies on."""
    ours = consumer_properties(connection(), "k:1", "g")
    given = connection(**{"fetch.wait.max.ms": "7"})
    users = consumer_properties(replace(given, kafka={**given.kafka, name: "other"}), "k:1", "g")
    assert users["fetch.wait.max.ms"] == "7"
    assert users[name] == ours[name]
    assert users["group.id"] == "g"
    assert users["bootstrap.servers"] == "k:1"


def test_room_for_large_fetches() -> None:
    """Larger fetches imply the larger responses that librdkafka requires, unless the user sets them."""
    large = connection(**{"fetch.max.bytes": "200000000"})
    assert consumer_properties(large, "k:1", "g")["receive.message.max.bytes"] > 200_000_000
    set_by_user = connection(**{"fetch.max.bytes": "200000000", "receive.message.max.bytes": "300000000"})
    assert consumer_properties(set_by_user, "k:1", "g")["receive.message.max.bytes"] == "300000000"


SIZES = [
    {"fetch.max.bytes": "10000000", "receive.message.max.bytes": "20000000"},
    {"receive.message.max.bytes": "60000000"},
    {"message.max.bytes": "100000000"},
    {"message.max.bytes": "100000000", "receive.message.max.bytes": "100000512"},
    {"message.max.bytes": "2000000", "fetch.max.bytes": "2000000", "receive.message.max.bytes": "2000512"},
    {"fetch.max.bytes": "1000000", "receive.message.max.bytes": "1000512"},
]


@pytest.mark.parametrize("sizes", [SIZES[0], *seldom(*SIZES[1:-1]), SIZES[-1]], ids=lambda sizes: "-".join(sizes))
def test_sizes_that_fit_each_other(sizes: dict[str, str]) -> None:
    """Sizes that the options accept fit each client: of tasks, groups and planners."""
    kafka = connection(**sizes, **{"request.timeout.ms": "500"}).kafka
    with MessageClient(consumer_properties(connection(**sizes), UNREACHABLE, "g")):
        pass
    with KafkaGroupOffsets(UNREACHABLE, kafka, "g") as offsets:
        assert offsets.committed([]) == {}
    with KafkaAdmin(UNREACHABLE, kafka) as admin, pytest.raises(BrokersUnavailable):
        admin.list_offsets({TopicPartition("t", 0): LATEST})


def require_usable(kafka: Mapping[str, Any]) -> None:
    """Require that librdkafka accepts the properties of both clients that commit a group's offsets."""
    with KafkaGroupOffsets(UNREACHABLE, kafka, "g", timeout_s=0.1) as offsets, pytest.raises(BrokersUnavailable):
        offsets.commit({TopicPartition("t", 0): 5})


def test_sizes_of_a_write() -> None:
    """A producer may receive little, as it fetches nothing; so may the client that commits its group's offsets."""
    options = connection("write", **{"receive.message.max.bytes": "2000000", "max.request.size": "100000000"})
    with MessageSender(producer_properties(options, UNREACHABLE), QueueLimits()):
        pass
    require_usable(options.kafka)


@pytest.mark.parametrize("make", [DirectSender, MessageSender])
@pytest.mark.parametrize(
    ("properties", "size", "fits"),
    [
        ({}, 1_048_000, True),
        ({}, 1_048_577, False),
        ({"max.request.size": "1000000"}, 1_048_000, False),
        ({"message.max.bytes": "2000000"}, 1_048_577, True),
    ],
)
def test_largest_row(
    make: Callable[..., Sender], properties: dict[str, str], size: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row may have 1 MiB, as with Java's producer, unless the user sets another limit."""
    monkeypatch.setattr(librdkafka_sender, "INTRODUCTION_S", 0.01)  # no broker answers
    with make(producer_properties(connection("write", **properties), UNREACHABLE), QueueLimits()) as sender:
        sender.add(OutgoingBatch("t", pa.array([bytes(size)]), None, None, None, None), np.zeros(1, np.int32))
        sender.advance(0)
        sender.flush(0)
        assert (sender.failure is None) == fits
        sender.purge(in_flight=True)


@pytest.mark.parametrize("size", ["1000", "1511", "1512", "1001512"])
def test_least_sizes_of_a_write(size: str) -> None:
    """Any size that a producer may receive also fits the client that commits its group's offsets."""
    require_usable(connection("write", **{"receive.message.max.bytes": size}).kafka)


@pytest.mark.parametrize(
    "sizes",
    [{"message.max.bytes": "100000000", "receive.message.max.bytes": "100000511"}, {"receive.message.max.bytes": "9000"}],
)
def test_sizes_that_fit_no_client(sizes: dict[str, str]) -> None:
    """Sizes that no client accepts are reported as a problem of the options, before a client is created."""
    with pytest.raises(OptionError, match=r"`receive\.message\.max\.bytes` must be >= `fetch\.max\.bytes`"):
        connection(**sizes)


IN_ADVANCE = ("max.partition.fetch.bytes", "queued.min.messages", "queued.max.messages.kbytes")


def in_advance(records: int | None, **properties: str) -> list[int]:
    found = consumer_properties(connection(**properties), "k:1", "g", records)
    return [int(found[name]) for name in IN_ADVANCE]


@pytest.mark.parametrize(("few", "more"), [(1_000, 1_001), (100_000, 100_001)])
def test_short_ranges_fetch_less(few: int, more: int) -> None:
    """Short ranges fetch less in advance, since records beyond the end of a range are discarded."""
    assert all(a <= b for a, b in zip(in_advance(few), in_advance(more), strict=True))
    assert in_advance(few)[1] < in_advance(more)[1]


def test_a_range_of_unknown_length_counts_as_long() -> None:
    """A range of unknown length, as for samples of sizes, counts as long."""
    assert in_advance(None) == in_advance(10**9)


@pytest.mark.parametrize("name", ["max.partition.fetch.bytes", "fetch.message.max.bytes"])
@pytest.mark.parametrize("records", [1, 50_000, None])
def test_what_the_user_lets_fetch_holds(records: int | None, name: str) -> None:
    """A user's fetch sizes apply to any range, under Java's name and under librdkafka's."""
    given = {name: "300000", "queued.min.messages": "7", "queued.max.messages.kbytes": "9"}
    assert in_advance(records, **given) == [300_000, 7, 9]


def test_writing_is_safe() -> None:
    """Writes are idempotent, wait for all replicas, and give up after the same time as Java's producer."""
    properties = producer_properties(connection("write"), "k:1")
    assert properties["enable.idempotence"] is True
    assert properties["acks"] == "all"
    assert properties["delivery.timeout.ms"] == 120_000


@pytest.mark.parametrize("name", ["delivery.timeout.ms", "message.timeout.ms", "Message.Timeout.MS"])
def test_short_delivery_times(name: str) -> None:
    """A short delivery time-out also shortens linger.ms, in any spelling, and a client accepts both."""
    properties = producer_properties(connection("write", **{name: "500"}), UNREACHABLE)
    assert properties["linger.ms"] < 500
    with MessageSender(properties, QueueLimits()):
        pass


def test_linger_beyond_the_default_delivery_time() -> None:
    """A linger.ms beyond the default delivery time-out is reported as a problem of the options."""
    with pytest.raises(OptionError, match=r"`message\.timeout\.ms` must be greater than `linger\.ms`"):
        connection("write", **{"linger.ms": "120000"})
    longer = connection("write", **{"linger.ms": "119999"})
    with MessageSender(producer_properties(longer, UNREACHABLE), QueueLimits()):
        pass


@pytest.mark.parametrize(
    "properties",
    [consumer_properties(connection(), UNREACHABLE, "g"), producer_properties(connection("write"), UNREACHABLE)],
    ids=["consumer", "producer"],
)
def test_defaults_bear_the_names_that_options_become(properties: Mapping[str, Any]) -> None:
    """A default that a user may override has the name to which each spelling is translated, so it never appears twice."""
    replaceable = {row.name for row in PROPERTIES} & properties.keys()
    targets = {target for row in PROPERTIES for target in row.target_names()}
    assert len(replaceable) > 3
    assert replaceable <= targets


def test_admin_client_gets_the_connection_alone() -> None:
    """The admin client gets properties of security and sockets, but none of consumers."""
    given = {
        "security.protocol": "SSL",
        "sasl.username": "u",
        "socket.timeout.ms": "1",
        "fetch.max.bytes": "1",
        "check.crcs": "1",
    }
    selected = {"security.protocol": "SSL", "sasl.username": "u", "socket.timeout.ms": "1"}
    assert shared_properties(given) == {**CLIENT_DEFAULTS, **selected}
    assert shared_properties({"client.id": "mine"})["client.id"] == "mine"


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "zkafka"), ({"groupIdPrefix": "mine"}, "mine"), ({"groupIdPrefix": "mine", "kafka.group.id": "g"}, "g")],
)
def test_group_of_consumers(options: dict[str, str], expected: str) -> None:
    """Tasks' consumers have kafka.group.id, or otherwise the prefix."""
    assert parse_read({"kafka.bootstrap.servers": "k:1", "subscribe": "t", **options}).client_group == expected
