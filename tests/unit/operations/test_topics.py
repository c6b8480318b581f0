"""Names of topics that operations are given."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import UnknownTopic
from pyspark_zkafka.operations.topics import require_topics


@pytest.mark.parametrize("topics", [[], ["a"], ["b", "a", "a"]])
def test_topics_that_exist(topics: list[str]) -> None:
    """Topics may be named in any order, and more than once."""
    require_topics(topics, ["a", "b", "c"])


def test_topics_that_do_not_exist() -> None:
    """All topics that do not exist are named, each once and in order, with the command that lists those that do."""
    with pytest.raises(UnknownTopic, match=r"UNKNOWN_TOPIC\] Topics do not exist: x, y; see zkafka topics list$"):
        require_topics(["y", "a", "x", "y"], {"a"})
