"""Output of ``zkafka groups``, compared with recorded output of Kafka's tools for the same job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.offsets import AtTimestamp, Position
from pyspark_zkafka.tools.group_delete import delete
from pyspark_zkafka.tools.group_files import export_offsets
from pyspark_zkafka.tools.group_reset import reset_offsets
from pyspark_zkafka.tools.offset_files import csv_text, parse_offsets_file
from tests.support.ensemble_client import EnsembleClient
from tests.support.group_brokers import GroupBrokers
from tests.support.running import Show

VECTORS = Path(__file__).parent.parent.parent / "vectors" / "cli"
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TIME = "2026-11-22T12:00:00.000"
AT_TIME = {T0: 8, T1: 0}
SCENARIOS: dict[str, dict[str, Any]] = {
    "shift-by": {"shift_by": -3},
    "to-current": {"to_current": True},
    "to-datetime": {"to_datetime": TIME},
    "to-earliest": {"to_earliest": True},
    "to-latest": {"to_latest": True},
    "to-offset": {"to_offset": 7},
}


class RecordedLogs(GroupBrokers):
    """The logs of the recorded cluster, whose leaders find the offsets `AT_TIME` for any time."""

    def list_offsets_each(
        self, wanted: Mapping[TopicPartition, Position], timeout_s: float = 0
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ZKafkaError]]:
        if any(isinstance(position, AtTimestamp) for position in wanted.values()):
            return {tp: AT_TIME[tp] for tp in wanted}, {}
        return super().list_offsets_each(wanted, timeout_s)


@pytest.fixture
def client() -> EnsembleClient:
    """The recorded group without members."""
    client = EnsembleClient()
    client.put_topic("orders", partitions=2)
    client.put("/consumers/billing/offsets/orders/0", b"10")
    client.put("/consumers/billing/offsets/orders/1", b"2")
    return client


@pytest.fixture
def group_admin() -> GroupBrokers:
    """Brokers with the recorded logs."""
    return RecordedLogs({T0: (0, 20), T1: (0, 5)})


def recorded(name: str) -> str:
    return (VECTORS / name).read_text()


def cells(text: str) -> list[str]:
    """Return the words of an output without rules, which are its heading and rows."""
    return [word for word in text.split() if not set(word) <= {"─"}]


def test_all_resets() -> None:
    """Each recorded reset is compared."""
    assert {path.stem for path in (VECTORS / "reset-offsets").glob("*.kafka")} == {*SCENARIOS, "export"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_resets(show: Show, name: str) -> None:
    """A reset shows the same columns, rows and offsets as Kafka's tool, plus the current offset."""
    ours = cells(show(reset_offsets, "billing", topic=["orders"], dry_run=True, **SCENARIOS[name])[0])
    assert ours == cells(recorded(f"reset-offsets/{name}.zkafka"))
    assert ours[3::5] == ["CURRENT-OFFSET", "10", "2"]
    del ours[3::5]
    assert ours == cells(recorded(f"reset-offsets/{name}.kafka"))


def test_export(show: Show) -> None:
    """An export has the same lines of znodes as Kafka's tool."""
    ours = show(export_offsets, ["billing"])[0]
    assert ours == recorded("export/zk.zkafka")
    assert sorted(ours.split()) == sorted(recorded("export/zk.kafka").split())


def test_csv() -> None:
    """The lines of kafka-consumer-groups --export are read, and written in the same format."""
    text = recorded("reset-offsets/export.kafka")
    offsets = parse_offsets_file("export.kafka", text, "billing")
    assert [(*one.partition, one.offset) for one in offsets] == [("orders", 0, 11), ("orders", 1, 3)]
    assert csv_text(offsets, with_group=False) == text.rstrip("\n") + "\n"


def test_deletion(show: Show) -> None:
    """A deletion shows the same message as Kafka's tool."""
    ours = show(delete, ["billing"])[1]
    assert recorded("delete/group.kafka").strip() in ours
    assert recorded("delete/group.zkafka").strip() in ours
