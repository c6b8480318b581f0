"""Requests and responses of a new connection: versions and logins.

In these modules, each function names the versions that it writes or reads. `Api.version` selects the newest version that
both sides know.

References
----------
``clients/src/main/resources/common/message/*.json`` of Kafka 3.9.1: ``ApiVersions``, ``SaslHandshake``,
``SaslAuthenticate``. ``kafka.api.KafkaApis`` and ``org.apache.kafka.common.protocol.Protocol`` of Kafka 0.8.2.2 and 0.9.0.1
for brokers without ApiVersions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark_zkafka.model.error_codes import NONE, ErrorCode
from pyspark_zkafka.wire.protocol import (
    API_VERSIONS,
    NO_TAGS,
    Api,
    Reader,
    Request,
    Unsupported,
    no_tags,
    nullable_bytes,
    string,
)

_NEVER = 1000

SASL_HANDSHAKE = Api("SaslHandshake", 17, 0, 1, _NEVER)
SASL_AUTHENTICATE = Api("SaslAuthenticate", 36, 0, 2, 2)

_FINALIZED_FEATURES = 2
"""The tagged field of ApiVersions with the features that are enabled in the cluster (KIP-584)."""


def api_versions_request(version: int, software: str) -> Request:
    """Encode versions 0 to 3."""
    body = string("pyspark-zkafka", flexible=True) + string(software, flexible=True) + NO_TAGS if version >= 3 else b""
    return Request(API_VERSIONS, version, body)


class Supported(NamedTuple):
    """The oldest and newest version of each API of a broker, by key, and the levels of the cluster's features, by name.

    `dialect` is the release of Kafka that a broker without ApiVersions is treated as. Empty for other brokers.
    """

    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]
    dialect: str = ""


_OF_DATA = {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0)}  # Produce, Fetch, ListOffsets, Metadata
_OF_OFFSETS = {8: (0, 1), 9: (0, 1), 10: (0, 0)}  # OffsetCommit, OffsetFetch, FindCoordinator
_OF_GROUPS = {15: (0, 0), 16: (0, 0)}  # DescribeGroups, ListGroups
OF_0_8 = Supported({**_OF_DATA, **_OF_OFFSETS}, {}, "0.8.2.2")
OF_0_9 = Supported({**_OF_DATA, 0: (0, 1), 1: (0, 1), **_OF_OFFSETS, 8: (0, 2), **_OF_GROUPS}, {}, "0.9.0.1")


def read_api_versions(response: Reader) -> Supported | None:
    """Read versions 0 to 3. None if the broker does not know this version of the request."""
    error = response.int16()
    if error == ErrorCode.UNSUPPORTED_VERSION:
        return None
    if error != NONE:
        raise Unsupported(f"the broker answers ApiVersions with error {error}")

    def row() -> tuple[int, tuple[int, int]]:
        found = response.int16(), (response.int16(), response.int16())
        response.tags()
        return found

    versions = dict(response.array(row))
    if response.version < 3:
        return Supported(versions, {})
    response.int32()  # throttle time
    finalized = response.tags().get(_FINALIZED_FEATURES)
    return Supported(versions, {} if finalized is None else _read_features(Reader(finalized, flexible=True)))


def _read_features(field: Reader) -> dict[str, int]:
    def feature() -> tuple[str, int]:
        name, level = field.string() or "", field.int16()
        field.int16()  # the lowest level
        field.tags()
        return name, level

    return dict(field.array(feature))


def sasl_handshake_request(version: int, mechanism: str) -> Request:
    """Encode versions 0 and 1. After version 0, tokens follow without headers."""
    return Request(SASL_HANDSHAKE, version, string(mechanism))


def read_sasl_handshake(response: Reader) -> tuple[int, list[str]]:
    """Read versions 0 and 1: the error, and the broker's mechanisms."""
    return response.int16(), response.array(response.required_string)


@dataclass(frozen=True, slots=True, repr=False)
class Authentication:
    """The response to SaslAuthenticate. Its bytes are secret."""

    error: int
    data: bytes
    lifetime_ms: int = 0


def sasl_authenticate_request(version: int, token: bytes) -> Request:
    """Encode versions 0 to 2."""
    return Request(SASL_AUTHENTICATE, version, nullable_bytes(token, version >= 2) + no_tags(version >= 2))


def read_sasl_authenticate(response: Reader) -> Authentication:
    """Read versions 0 to 2. A lifetime of 0 means that the session does not expire."""
    error = response.int16()
    response.string()  # error message
    data = bytes(response.nullable_bytes())
    return Authentication(error, data, response.int64() if response.version >= 1 else 0)
