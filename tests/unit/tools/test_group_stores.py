"""Parameters that the commands on groups share."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.tools.group_stores import Servers, require_groups


@pytest.mark.parametrize(
    ("groups", "all_groups", "found"), [(["b", "a", "b"], False, ["b", "a"]), (None, True, None), ([], True, None)]
)
def test_groups(groups: list[str] | None, all_groups: bool, found: list[str] | None) -> None:
    """Named groups count once, in their order; None stands for all."""
    assert require_groups(groups, all_groups) == found


@pytest.mark.parametrize(("groups", "all_groups"), [(None, False), ([], False), (["a"], True)])
def test_contradiction(groups: list[str] | None, all_groups: bool) -> None:
    """Groups are named, or all are meant."""
    with pytest.raises(OptionError, match="Name one or more groups, or use --all-groups"):
        require_groups(groups, all_groups)


def test_brokers_are_opened_once() -> None:
    """The brokers are looked up when they are first needed, and then kept."""
    opened: list[str] = []

    def open_brokers(timeout_s: float | None = None) -> Any:
        opened.append("brokers" if timeout_s is None else "prompt")
        return opened

    servers = Servers(None, open_brokers)
    assert not opened
    assert servers.brokers is servers.brokers
    assert opened == ["brokers"]
    assert servers.prompt_brokers is servers.prompt_brokers
    assert opened == ["brokers", "prompt"]


def test_no_zookeeper() -> None:
    """A command that needs ZooKeeper's data says how to name it."""
    with pytest.raises(OptionError, match=r"use --zookeeper .*kafka-consumer-groups"):
        _ = Servers(None, lambda: pytest.fail("the brokers were opened")).ensemble
