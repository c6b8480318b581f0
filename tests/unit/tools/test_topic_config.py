"""Changes of topics' settings."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.tools.topic_config import parse_settings, without_settings


def test_delete_settings() -> None:
    """Deleted settings are gone; one that is not there is an error, as it is in Kafka's tool."""
    assert without_settings({"a": "1", "b": "2"}, ["a"]) == {"b": "2"}
    with pytest.raises(OptionError, match=r"The topic has no setting c, d of its own"):
        without_settings({"a": "1"}, ["d", "a", "c"])


@pytest.mark.parametrize("text", ["retention.ms", "=5", "retention.ms=", "a=b=c"])
def test_malformed_settings(text: str) -> None:
    """A setting is a name and a value."""
    with pytest.raises(OptionError, match="is not a setting; write NAME=VALUE"):
        parse_settings([text])
