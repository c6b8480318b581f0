"""Brokers' znodes, ``/brokers/ids/N``: path and decode.

=======  =================  ============================================================================================
version  Kafka              form
=======  =================  ============================================================================================
none     0.7                text ``creator:host:port``, by its documentation ``host:port``
1        0.8                ``{"jmx_port":-1,"timestamp":"..","host":"h","version":1,"port":9092}``
2        0.9                version 1 and ``endpoints``
3        0.10.0, 0.10.1     version 2 and, where one is configured, ``rack``
4        0.10.2 to 2.6      version 3 and ``listener_security_protocol_map``
5        2.7 on             version 4 and ``features``
=======  =================  ============================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.model.nouns import Broker, Endpoint
from pyspark_zkafka.model.znodes.codec import ZnodeJson, decode_text, parse_integer

BROKER_IDS = "/brokers/ids"

_ENDPOINT = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([^\[\]\s/]*)\]|([^\[\]:\s/]*)):([0-9]{1,5})")
_LEGACY = re.compile(r"(?:[^:]*:)?(?P<host>[^:\s\[\]]+):(?P<port>[0-9]{1,5})")
_EXPECTED = "a broker registration: JSON with version, host, port and endpoints, or host:port"
_PLAINTEXT = "PLAINTEXT"
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The contents of a broker's znode. Planners need only `broker`.

    `version` is 0 for the text of 0.7. `host` is None and `port` -1 if the broker has no PLAINTEXT listener.
    `timestamp` is milliseconds, as text.
    """

    broker: Broker
    version: int
    host: str | None
    port: int
    timestamp: str | None = None


def decode_broker(path: str, data: bytes | None) -> BrokerRegistration:
    """Decode a broker's registration. The broker's id is the last part of `path`.

    Versions above 5 are read as 5. Version 1 and 0.7 have one PLAINTEXT endpoint. The name of a listener is its security
    protocol if the listener map does not have it, and in versions 2 and 3. Raises CodecError for any other form, or a
    version below 1.
    """
    broker_id = parse_integer(path, path.rpartition("/")[2].encode(), "a broker id as the znode's name")
    text = decode_text(path, data, _EXPECTED)
    if not text.lstrip().startswith("{"):
        match = _LEGACY.fullmatch(text.strip())
        if match is None or int(match["port"]) > _MAX_PORT:
            raise CodecError(path, data, _EXPECTED)
        legacy_host, legacy_port = match["host"], int(match["port"])
        endpoint = Endpoint(_PLAINTEXT, _PLAINTEXT, legacy_host, legacy_port)
        return BrokerRegistration(Broker(broker_id, (endpoint,)), 0, legacy_host, legacy_port)
    found = ZnodeJson.parse(path, data, _EXPECTED)
    version = found.integer("version")
    if version < 1:
        found.fail("version is 1 or more")
    host, port = found.optional_text("host"), found.integer("port")
    broker = Broker(broker_id, _endpoints(found, version, host, port), found.optional_text("rack"))
    return BrokerRegistration(broker, version, host, port, found.timestamp())


def _endpoints(found: ZnodeJson, version: int, host: str | None, port: int) -> tuple[Endpoint, ...]:
    if version == 1:
        if host is None or not 0 <= port <= _MAX_PORT:
            found.fail("version 1 has host and port")
        return (Endpoint(_PLAINTEXT, _PLAINTEXT, host, port),)
    protocols = found.nested("listener_security_protocol_map").texts() if version > 3 else {}
    endpoints = []
    for url in found.array("endpoints"):
        match = _ENDPOINT.fullmatch(found.as_text(url, "an endpoint"))
        if match is None or int(match[4]) > _MAX_PORT:
            found.fail("an endpoint is LISTENER://host:port")
        listener = match[1]
        endpoint = Endpoint(listener, protocols.get(listener, listener), match[2] or match[3] or "", int(match[4]))
        endpoints.append(endpoint)
    return tuple(endpoints)
