"""What all of librdkafka's clients need at their start.

A new client knows brokers to begin with, and connects to one of them when it has a question. For half of
``reconnect.backoff.ms`` it then tries no other. The first answer replaces the brokers to begin with by the cluster's
own, none of them connected. A question that was under way then (who leads a partition, what the producer's id is), or
a partition that is assigned just then, waits for librdkafka's next look round: half a second, a second, or three.

A question for metadata is asked again at once, and leaves a connection behind. So each client asks for a topic first.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CLIENT_DEFAULTS", "INTRODUCTION_S"]

CLIENT_DEFAULTS: dict[str, Any] = {"client.id": "zkafka", "reconnect.backoff.ms": 20}
"""Of consumers and producers; a user's settings come after them."""

INTRODUCTION_S = 1.0
"""How long to wait for the brokers' first word on a topic; what is wrong shows in what is asked next."""
