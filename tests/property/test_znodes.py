"""Whatever is encoded decodes to the same value, and no bytes make a decoder fail in another way than `CodecError`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.model import Broker, Endpoint, PartitionState, TopicPartition
from pyspark_zkafka.protocol.znodes import admin, brokers, groups
from pyspark_zkafka.protocol.znodes import topics as znodes

INT = st.integers(-(2**31), 2**31 - 1)
ID = st.integers(0, 2**31 - 1)
COUNT = st.integers(1, 2**31 - 1)
THREADS = st.integers(1, groups.MAX_THREADS // 4)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NAME = st.text("abcXYZ019._-", min_size=1, max_size=20)
REPLICAS = st.dictionaries(ID, st.lists(ID, max_size=4).map(tuple), max_size=8)
PARTITIONS = st.builds(TopicPartition, TEXT, ID)
TIMESTAMP = st.none() | st.integers(0, 2**63).map(str)


@st.composite
def registrations(draw: st.DrawFn) -> brokers.BrokerRegistration:
    """A broker of any version from 2 on, with what that version can say."""
    version = draw(st.integers(2, 5))
    names = draw(st.lists(st.text("ABCZ09_-", min_size=1, max_size=8), unique=True, max_size=4))
    hosts = st.sampled_from(["", "kafka1", "127.0.0.1", "::1", "fe80::1%eth0"])
    protocols = st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL"])
    endpoints = [
        Endpoint(n, draw(protocols) if version > 3 else n, draw(hosts), draw(st.integers(0, 65535))) for n in names
    ]
    rack = draw(st.none() | TEXT) if version > 2 else None
    features = st.dictionaries(TEXT, st.dictionaries(TEXT, INT, max_size=2), max_size=2)
    return brokers.BrokerRegistration(
        Broker(draw(ID), tuple(endpoints), rack),
        version,
        draw(st.none() | TEXT),
        draw(INT),
        draw(INT),
        draw(TIMESTAMP),
        draw(features) if version > 4 else {},
    )


@given(registrations())
def test_brokers_round_trip(registration: brokers.BrokerRegistration) -> None:
    """A broker of any version is read as it was written."""
    path = brokers.broker_path(registration.broker.id)
    assert brokers.decode_broker(path, brokers.encode_broker(registration)) == registration


@given(REPLICAS, REPLICAS, REPLICAS, st.none() | TEXT)
def test_topics_round_trip_with_the_order_of_their_partitions(
    partitions: dict[int, tuple[int, ...]],
    adding: dict[int, tuple[int, ...]],
    removing: dict[int, tuple[int, ...]],
    topic_id: str | None,
) -> None:
    """A topic is read as it was written, partitions in the written order; the planner's view is sorted."""
    topic = znodes.TopicRegistration(partitions, 3, topic_id, adding, removing)
    found = znodes.decode_topic("/t", znodes.encode_topic(topic))
    assert found == topic
    assert list(found.partitions) == list(partitions)
    assert list(found.topic("t").partitions) == sorted(partitions)


@given(st.builds(PartitionState, st.integers(-1, 2**31 - 1), INT, st.lists(INT, max_size=5).map(tuple), INT))
def test_partition_states_round_trip(state: PartitionState) -> None:
    """A state is read as it was written."""
    assert znodes.decode_partition_state("/s", znodes.encode_partition_state(state)) == state


@given(st.builds(znodes.ControllerInfo, ID, st.just(2), TIMESTAMP, INT) | st.builds(znodes.ControllerInfo, ID, st.just(0)))
def test_controllers_round_trip(controller: znodes.ControllerInfo) -> None:
    """A controller is read as it was written."""
    if controller.version == 0:
        controller = znodes.ControllerInfo(controller.broker, 0)
    assert znodes.decode_controller("/c", znodes.encode_controller(controller)) == controller


@given(st.dictionaries(TEXT, TEXT, max_size=4))
def test_topic_configs_round_trip(config: dict[str, str]) -> None:
    """A configuration is read as it was written, in its order."""
    found = admin.decode_topic_config("/c", admin.encode_topic_config(config))
    assert list(found.items()) == list(config.items())


@given(st.dictionaries(PARTITIONS, st.lists(ID, max_size=3).map(tuple), max_size=4))
def test_reassignments_and_elections_round_trip(replicas: dict[TopicPartition, tuple[int, ...]]) -> None:
    """The partitions of administration are read as they were written."""
    assert admin.decode_reassignment("/r", admin.encode_reassignment(replicas)) == replicas
    assert admin.decode_preferred_election("/e", admin.encode_preferred_election(replicas)) == tuple(replicas)


@given(
    st.dictionaries(NAME, THREADS, max_size=4),
    TIMESTAMP,
    st.sampled_from([groups.Form.COMPACT, groups.Form.SPACED]),
)
def test_registrations_round_trip(subscription: dict[str, int], timestamp: str | None, form: groups.Form) -> None:
    """A consumer's registration is read as it was written, in either form of 0.8."""
    registration = groups.ConsumerRegistration(subscription, "static", timestamp, form)
    assert groups.decode_registration("/c", groups.encode_registration(registration)) == registration


@given(st.integers(-(2**63), 2**63 - 1))
def test_offsets_round_trip(offset: int) -> None:
    """An offset is read as it was written."""
    assert groups.decode_offset("/o", groups.encode_offset(offset)) == offset


@given(NAME, ID, st.none() | ID)
def test_keys_round_trip(topic: str, partition: int, broker: int | None) -> None:
    """The last parts of an owner's and an offset's path give the partition, in both layouts."""
    tp = TopicPartition(topic, partition) if broker is None else groups.LegacyPartition(topic, broker, partition)
    for path in (groups.owner_path("g", tp), groups.offset_path("g", tp)):
        assert groups.parse_key(path, *path.split("/")[-2:]) == tp


DECODERS: list[Callable[[str, bytes | None], object]] = [
    brokers.decode_broker,
    znodes.decode_topic,
    znodes.decode_partition_state,
    znodes.decode_controller,
    znodes.decode_controller_epoch,
    znodes.decode_cluster_id,
    znodes.decode_features,
    admin.decode_topic_config,
    admin.decode_config_change,
    admin.decode_reassignment,
    admin.decode_preferred_election,
    admin.decode_producer_id_block,
    groups.decode_registration,
    groups.decode_owner,
    groups.decode_offset,
]

KEYS = [
    "version",
    "host",
    "port",
    "endpoints",
    "partitions",
    "leader",
    "isr",
    "config",
    "features",
    "subscription",
    "pattern",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, "0", "x"]), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.none() | st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_break_a_decoder(decode: Callable[[str, bytes | None], object], data: bytes | None) -> None:
    """A decoder gives a value or a `CodecError`, whatever is in the znode."""
    with contextlib.suppress(CodecError):
        decode("/brokers/ids/1", data)
