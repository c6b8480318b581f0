"""Views that need another source than the one that is named."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.views.planner import plan_view
from tests.support.cases import each


@each("view", ["groups", "members", "owners", "offsets", "admin", "configs"])
def test_views_of_zookeeper(view: str) -> None:
    """A view of what only ZooKeeper has needs its address."""
    options = parse_read({"kafka.bootstrap.servers": "broker1:9092", "view": "topics"})
    with pytest.raises(OptionError, match=rf"view={view} reads ZooKeeper and needs zookeeper\.connect"):
        plan_view(view, options)
