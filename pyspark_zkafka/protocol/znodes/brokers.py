"""Brokers' znodes, ``/brokers/ids/N``: path, encode, decode.

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

The order of keys is the recorded one for versions 1, 4 and 5, with ``rack`` where the same Scala hash tables put it; for
versions 2 and 3 it is the order that published examples show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.model import Broker, Endpoint
from pyspark_zkafka.protocol.znodes.json import ZnodeJson, decode_text, encode_json, parse_integer

__all__ = ["BROKER_IDS", "BrokerRegistration", "broker_path", "decode_broker", "encode_broker"]

BROKER_IDS = "/brokers/ids"

_ENDPOINT = re.compile(r"([A-Za-z0-9_-]+)://(?:\[([^\[\]\s/]*)\]|([^\[\]:\s/]*)):([0-9]{1,5})")
_LEGACY = re.compile(r"(?:(?P<creator>[^:]*):)?(?P<host>[^:\s\[\]]+):(?P<port>[0-9]{1,5})")
_EXPECTED = "a broker registration: JSON with version, host, port and endpoints, or host:port"
_PLAINTEXT = "PLAINTEXT"
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The contents of a broker's znode; `broker` is the part that a planner needs.

    `version` is 0 for the text of 0.7, whose `creator` is the broker's creator id. `host` is None and `port` -1 when the
    broker has no PLAINTEXT listener. `timestamp` is milliseconds, as text. `features` maps a feature to its bounds by name.
    """

    broker: Broker
    version: int
    host: str | None
    port: int
    jmx_port: int = -1
    timestamp: str | None = None
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    creator: str | None = None


def broker_path(broker: int) -> str:
    """``/brokers/ids/N``."""
    return f"{BROKER_IDS}/{broker}"


def decode_broker(path: str, data: bytes | None) -> BrokerRegistration:
    """A broker's registration; the id is the last part of `path`.

    Versions past 5 are read as 5. Version 1 and 0.7 have one PLAINTEXT endpoint. For a listener that the listener map
    lacks, and for every listener of versions 2 and 3, the name is the security protocol.

    Raises
    ------
    CodecError
        Anything else, a version below 1 included.
    """
    broker = parse_integer(path, path.rpartition("/")[2].encode(), "a broker id as the znode's name")
    text = decode_text(path, data, _EXPECTED)
    if not text.lstrip().startswith("{"):
        return _decode_legacy_broker(path, data, broker, text)
    found = ZnodeJson.parse(path, data, _EXPECTED)
    version = found.integer("version")
    if version < 1:
        found.fail("version is 1 or more")
    host, port = found.optional_text("host"), found.integer("port")
    return BrokerRegistration(
        Broker(broker, _endpoints(found, version, host, port), found.optional_text("rack")),
        version,
        host,
        port,
        found.integer("jmx_port", -1),
        found.timestamp(),
        _features(found) if version > 4 else {},
    )


def encode_broker(registration: BrokerRegistration) -> bytes:
    """The bytes that a broker of the registration's version writes."""
    r = registration
    if r.version == 0:
        plain = f"{r.host}:{r.port}"
        return (plain if r.creator is None else f"{r.creator}:{plain}").encode()
    if r.version < 4:
        return encode_json(_old_fields(r))
    listeners = {e.listener: e.security_protocol for e in r.broker.endpoints}
    head: dict[str, object] = {} if r.version == 4 else {"features": r.features}
    head |= {"listener_security_protocol_map": listeners, "endpoints": _urls(r.broker)}
    head |= _rack(r) | {"jmx_port": r.jmx_port}
    if r.version == 4:
        return encode_json(head | {"host": r.host, "timestamp": r.timestamp, "port": r.port, "version": 4})
    return encode_json(head | {"port": r.port, "host": r.host, "version": r.version, "timestamp": r.timestamp})


def _old_fields(r: BrokerRegistration) -> dict[str, object]:
    fields: dict[str, object] = {"jmx_port": r.jmx_port, "timestamp": r.timestamp}
    if r.version > 1:
        fields["endpoints"] = _urls(r.broker)
    if r.version > 2:
        fields |= _rack(r)
    return fields | {"host": r.host, "version": r.version, "port": r.port}


def _rack(r: BrokerRegistration) -> dict[str, object]:
    return {} if r.broker.rack is None else {"rack": r.broker.rack}


def _urls(broker: Broker) -> list[str]:
    return [f"{e.listener}://{e}" for e in broker.endpoints]


def _endpoints(found: ZnodeJson, version: int, host: str | None, port: int) -> tuple[Endpoint, ...]:
    if version == 1:
        if host is None or not 0 <= port <= _MAX_PORT:
            found.fail("version 1 has host and port")
        return (Endpoint(_PLAINTEXT, _PLAINTEXT, host, port),)
    protocols = found.nested("listener_security_protocol_map").texts() if version > 3 else {}
    return tuple(_endpoint(found, found.as_text(url, "an endpoint"), protocols) for url in found.array("endpoints"))


def _endpoint(found: ZnodeJson, url: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(url)
    if match is None or int(match[4]) > _MAX_PORT:
        found.fail("an endpoint is LISTENER://host:port")
    listener = match[1]
    return Endpoint(listener, protocols.get(listener, listener), match[2] or match[3] or "", int(match[4]))


def _features(found: ZnodeJson) -> dict[str, dict[str, int]]:
    features = found.inner(found.fields.get("features", {}), "features")
    bounds = {name: features.nested(name) for name in features.fields}
    return {name: {key: levels.integer(key) for key in levels.fields} for name, levels in bounds.items()}


def _decode_legacy_broker(path: str, data: bytes | None, broker: int, text: str) -> BrokerRegistration:
    match = _LEGACY.fullmatch(text.strip())
    if match is None or int(match["port"]) > _MAX_PORT:
        raise CodecError(path, data, _EXPECTED)
    host, port = match["host"], int(match["port"])
    endpoint = Endpoint(_PLAINTEXT, _PLAINTEXT, host, port)
    return BrokerRegistration(Broker(broker, (endpoint,)), 0, host, port, creator=match["creator"])
