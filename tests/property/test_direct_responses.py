"""Broker responses as arbitrary bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.producing import ProducerId
from pyspark_zkafka.records.direct import producer_messages
from pyspark_zkafka.records.direct.fetch import FETCH, FetchPartition, read_fetch
from pyspark_zkafka.records.producer import GroupOffset
from pyspark_zkafka.wire import (
    connection_messages,
    group_messages,
    metadata_messages,
    offset_messages,
    protocol,
    topic_messages,
)
from pyspark_zkafka.wire.protocol import Api, MalformedResponse, Reader, Request, Unsupported, unsigned_varint

TP = TopicPartition("t", 0)
PARTS = [FetchPartition(TP, bytes(16), 0), FetchPartition(TP._replace(partition=1), bytes(16), 0)]
PRODUCER = ProducerId(1, 0)
CHANGES = (topic_messages.CREATE_TOPICS, topic_messages.CREATE_PARTITIONS, topic_messages.DELETE_TOPICS)
COMMIT = producer_messages.CommitOffset("x", PRODUCER, GroupOffset("g", "t", 0, 1, ""))
READERS: dict[Api, Callable[[Reader], Any]] = {
    protocol.API_VERSIONS: connection_messages.read_api_versions,
    connection_messages.SASL_HANDSHAKE: connection_messages.read_sasl_handshake,
    connection_messages.SASL_AUTHENTICATE: connection_messages.read_sasl_authenticate,
    metadata_messages.METADATA: metadata_messages.read_metadata,
    offset_messages.LIST_OFFSETS: offset_messages.read_list_offsets,
    offset_messages.OFFSET_FOR_LEADER_EPOCH: offset_messages.read_epoch_ends,
    group_messages.FIND_COORDINATOR: lambda r: group_messages.read_coordinators(r, ["g"]),
    group_messages.OFFSET_FETCH: lambda r: group_messages.read_offset_fetch(r, ["g"]),
    group_messages.OFFSET_COMMIT: group_messages.read_offset_commit,
    group_messages.OFFSET_DELETE: group_messages.read_offset_delete,
    group_messages.LIST_GROUPS: group_messages.read_list_groups,
    group_messages.DESCRIBE_GROUPS: group_messages.read_describe_groups,
    group_messages.CONSUMER_GROUP_DESCRIBE: group_messages.read_consumer_group_describe,
    group_messages.DELETE_GROUPS: group_messages.read_delete_groups,
    **{api: partial(topic_messages.read_outcomes, api=api) for api in CHANGES},
    topic_messages.DESCRIBE_CONFIGS: topic_messages.read_describe_config,
    topic_messages.ALTER_CONFIGS: topic_messages.read_alter_config,
    producer_messages.PRODUCE: producer_messages.read_produce,
    producer_messages.INIT_PRODUCER_ID: producer_messages.InitProducerId("x", 1).read,
    producer_messages.ADD_PARTITIONS: producer_messages.AddPartitions("x", PRODUCER, (TP,)).read,
    producer_messages.ADD_OFFSETS: producer_messages.AddOffsets("x", PRODUCER, "g").read,
    producer_messages.COMMIT_OFFSETS: COMMIT.read,
    producer_messages.END_TRANSACTION: producer_messages.EndTransaction("x", PRODUCER, True).read,
    FETCH: lambda r: read_fetch(r, PARTS),
}
REQUESTS = [Request(api, version, b"") for api in READERS for version in range(api.oldest, api.newest + 1)]
# Small numbers are more likely to be lengths that lead further.
RESPONSES = st.lists(st.one_of(st.binary(max_size=8), st.integers(0, 3).map(lambda n: n.to_bytes(4, "big")))).map(b"".join)


@given(data=RESPONSES)
@pytest.mark.parametrize("asked", REQUESTS)
def test_any_bytes(asked: Request, data: bytes) -> None:
    """Any response is decoded, or raises an error of the protocol."""
    with suppress(MalformedResponse, Unsupported):
        READERS[asked.api](asked.reader(data))


@pytest.mark.long
@pytest.mark.parametrize("asked", REQUESTS)
def test_ten_thousand_responses(asked: Request) -> None:
    """Ten thousand random responses in each version are decoded, or raise an error of the protocol."""
    numbers = random.Random(f"{asked.api.key} {asked.version}")
    for _ in range(10_000):
        parts = [numbers.choice((numbers.randbytes(7), numbers.randrange(4).to_bytes(4, "big"))) for _ in range(12)]
        with suppress(MalformedResponse, Unsupported):
            READERS[asked.api](asked.reader(b"".join(parts)[: numbers.randrange(60)]))


@given(st.integers(0, 2**32 - 1))
def test_varints(number: int) -> None:
    """Reading a varint returns what was written."""
    assert Reader(unsigned_varint(number)).unsigned_varint() == number
