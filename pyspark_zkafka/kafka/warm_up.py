"""Warm-up of librdkafka's clients.

A new client knows the bootstrap servers, and connects to one of them for its first request. For half of
``reconnect.backoff.ms`` it then tries no other. The first answer replaces the bootstrap servers by the cluster's brokers,
none of them connected. A request that is in flight then (for a partition's leader, or the producer's id), or a partition
that is assigned just then, waits for librdkafka's next periodic check: half a second, a second, or three.

A metadata request is sent again at once, and leaves an open connection. So each client requests a topic's metadata first.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CLIENT_DEFAULTS", "INTRODUCTION_S"]

CLIENT_DEFAULTS: dict[str, Any] = {"client.id": "zkafka", "reconnect.backoff.ms": 20}
"""Defaults of consumers and producers; a user's settings override them."""

INTRODUCTION_S = 1.0
"""The wait for the brokers' first metadata of a topic; the next request reports any error."""
