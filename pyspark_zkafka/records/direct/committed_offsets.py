"""Committed offsets of many groups, in one request to each coordinator: brokers since 3.0 know these versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark_zkafka.brokers.log_lookups import batches
from pyspark_zkafka.model.error_codes import NONE
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.records.direct.client import DirectClient
from pyspark_zkafka.retries import Deadline
from pyspark_zkafka.wire.connection import Address, Connection
from pyspark_zkafka.wire.group_messages import (
    FIND_COORDINATOR,
    GROUP,
    OFFSET_FETCH,
    find_coordinators_request,
    offset_fetch_request,
    read_coordinators,
    read_offset_fetch,
)
from pyspark_zkafka.wire.protocol import Api, Unsupported

_MOST_GROUPS = 500
_PATIENCE_S = 2.0


def find_metadata(
    client: DirectClient, asked: Mapping[str, Collection[TopicPartition]], *, stable: bool
) -> dict[str, dict[TopicPartition, str]]:
    """The metadata of committed offsets, by group. Partitions without an offset are absent.

    Leaves out each group for which the coordinator does not answer at once, or reports an error: with `stable`, also an
    offset in an open transaction. Blocks for two requests for 500 groups, or some more on several coordinators, and for a
    few seconds if brokers do not answer. Raises like `DirectClient.try_connect`.
    """
    found: dict[str, dict[TopicPartition, str]] = {}
    deadline = client.deadline(_PATIENCE_S)
    for groups in batches(list(asked), _MOST_GROUPS):
        for address, some in _coordinators(client, groups, deadline).items():
            connection = client.try_connect(address, deadline)
            if connection is None:
                continue
            version = _newest(connection, OFFSET_FETCH)
            request = offset_fetch_request(version, {group: asked[group] for group in some}, stable=stable)
            response = connection.ask(request, client.deadline(_PATIENCE_S))
            for group, answered in read_offset_fetch(response, some).items():
                is_complete = answered.offsets.keys() >= set(asked.get(group, ()))
                errors = {answered.error, *(answer.error for answer in answered.offsets.values())}
                if is_complete and errors == {NONE}:
                    found[group] = {tp: answer.metadata for tp, answer in answered.offsets.items() if answer.offset >= 0}
    return found


def _coordinators(client: DirectClient, groups: Sequence[str], deadline: Deadline) -> dict[Address, list[str]]:
    """The groups by the addresses of their coordinators, without groups that have none now."""
    response = client.ask_any(
        lambda asked: find_coordinators_request(_newest(asked, FIND_COORDINATOR), GROUP, groups), deadline
    )
    by_address: dict[Address, list[str]] = {}
    if response is not None:
        for group, found in read_coordinators(response, groups).items():
            if found.error == NONE:
                by_address.setdefault(found.address, []).append(group)
    return by_address


def _newest(connection: Connection, api: Api) -> int:
    """The newest version of an API; earlier ones are for one group."""
    if (version := connection.version(api)) < api.newest:
        raise Unsupported(f"{api.name} of several groups")
    return version
