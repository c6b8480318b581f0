"""Names of topics: Kafka's rule for them, and the form of invalid ones in errors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark_zkafka.conditions import INVALID_TOPIC

__all__ = ["RULE", "describe_bad_names", "is_topic_name", "require_topic_name", "shown_name"]

RULE = "Kafka allows 1 to 255 of the characters a-z, A-Z, 0-9, '.', '_' and '-', but neither '.' nor '..'"

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,255}")
_SHOWN_CHARACTERS = 60
_SHOWN_NAMES = 5


def is_topic_name(text: str) -> bool:
    """True if Kafka allows the name for a topic.

    Other names cannot be passed on: not all are valid in the path of a znode, librdkafka accepts at most 512 bytes, and C
    ends a name at a zero byte. Names of 250 to 255 characters, which Kafka allowed before 0.10 (KAFKA-3219), are valid, as
    topics of that time still exist; brokers refuse to create others.

    >>> is_topic_name("orders.eu-1"), is_topic_name("a/b"), is_topic_name("..")
    (True, False, False)

    References
    ----------
    org.apache.kafka.common.internals.Topic, Kafka 3.9.1; kafka.common.Topic, Kafka 0.9.0.1.
    """
    return text not in (".", "..") and _NAME.fullmatch(text) is not None


def shown_name(name: str) -> str:
    r"""A name for the text of an error: quoted, escaped, and if it is long, only its beginning and its length.

    >>> print(shown_name("a\0b"))
    'a\x00b'
    """
    if len(name) <= _SHOWN_CHARACTERS:
        return repr(name)
    return f"{name[:_SHOWN_CHARACTERS]!r}... ({len(name)} characters)"


def describe_bad_names(option: str, names: Iterable[str]) -> str | None:
    """The problem with an option that names topics, if Kafka does not allow some of them; None if it allows all."""
    bad = [name for name in names if not is_topic_name(name)]
    if not bad:
        return None
    shown = [shown_name(name) for name in bad[:_SHOWN_NAMES]]
    last = f"{len(bad) - _SHOWN_NAMES} more" if len(bad) > _SHOWN_NAMES else shown.pop()
    listed = f"{', '.join(shown)} and {last}" if shown else last
    return f"{option} names the topic{'s' if shown else ''} {listed}; {RULE}; correct it"


def require_topic_name(name: str) -> None:
    """Raise InvalidRow (INVALID_TOPIC) for a name that Kafka does not allow."""
    if not is_topic_name(name):
        raise INVALID_TOPIC(f"The name {shown_name(name)} is not valid for a topic; {RULE}; correct the name")
