"""Placement of replicas, beside what Kafka's own tool has proposed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.tools.placement import place_replicas

RECORDED = json.loads((Path(__file__).parents[2] / "vectors" / "cli" / "admin" / "admin.json").read_text())
RACKS = {int(broker): rack for broker, rack in RECORDED["racks"].items()}


def generated() -> list[tuple[list[int], bool, dict[str, dict[int, tuple[int, ...]]]]]:
    """The brokers, whether racks count, and the proposal of each recorded ``--generate``."""
    found = []
    for call in RECORDED["calls"]:
        if "--generate" in call["arguments"]:
            brokers = call["arguments"][call["arguments"].index("--broker-list") + 1]
            proposal: dict[str, dict[int, tuple[int, ...]]] = {}
            for item in json.loads(call["output"].strip().splitlines()[-1])["partitions"]:
                proposal.setdefault(item["topic"], {})[item["partition"]] = tuple(item["replicas"])
            found.append(([int(b) for b in brokers.split(",")], "--disable-rack-aware" not in call["arguments"], proposal))
    return found


@pytest.mark.parametrize(("brokers", "rack_aware", "proposal"), generated())
def test_placement_of_kafka(brokers: list[int], rack_aware: bool, proposal: dict[str, dict[int, tuple[int, ...]]]) -> None:
    """What Kafka's tool has proposed is a placement of ours, for some start and shift."""
    racks = {broker: RACKS[broker] if rack_aware else None for broker in brokers}
    for partitions in proposal.values():
        expected = [replicas for _, replicas in sorted(partitions.items())]
        tried = itertools.product(range(len(brokers)), repeat=2)
        assert any(place_replicas(racks, len(expected), len(expected[0]), *both) == expected for both in tried)


def test_placement_without_enough_brokers_or_racks() -> None:
    """Replicas need as many brokers, and either all or none of these have a rack."""
    with pytest.raises(OptionError, match="3 replicas need as many brokers, and 2 are listed"):
        place_replicas({0: None, 1: None}, 1, 3, 0, 0)
    with pytest.raises(OptionError, match="Brokers 1 have no rack, and others have one; use --disable-rack-aware"):
        place_replicas({0: "a", 1: None}, 1, 1, 0, 0)
