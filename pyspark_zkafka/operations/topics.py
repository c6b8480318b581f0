"""Names of topics that operations are given."""

from __future__ import annotations

from collections.abc import Collection

from pyspark_zkafka.errors import UnknownTopic

__all__ = ["require_topics"]


def require_topics(topics: Collection[str], existing: Collection[str]) -> None:
    """Raise UnknownTopic if one of the topics does not exist."""
    missing = sorted(set(topics).difference(existing))
    if missing:
        raise UnknownTopic("UNKNOWN_TOPIC", f"Topics do not exist: {', '.join(missing)}; see zkafka topics list")
