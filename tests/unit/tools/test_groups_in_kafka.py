"""Commands about groups on a cluster without ZooKeeper, with fake brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer

from pyspark_zkafka.brokers.groups import GroupState
from pyspark_zkafka.conditions import BROKERS_UNAVAILABLE, UNREADABLE_GROUP
from pyspark_zkafka.errors import GroupError, ZKafkaError
from pyspark_zkafka.model.ledger import LedgerGroup
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.view_tables import Row
from pyspark_zkafka.tools.command import Target
from pyspark_zkafka.tools.group_delete import delete
from pyspark_zkafka.tools.group_describe import describe, list_
from pyspark_zkafka.tools.group_files import export_offsets
from pyspark_zkafka.tools.group_reset import reset_offsets
from pyspark_zkafka.tools.group_verify import verify
from tests.support.group_brokers import GroupBrokers, active, raising

BROKERS = {"kafka.bootstrap.servers": "broker1:9092"}
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ODD = UNREADABLE_GROUP("Group odd cannot be described", group="odd")
HIDDEN = UNREADABLE_GROUP("The offsets of group hidden cannot be read", group="hidden")
LEDGER = str(LedgerGroup("zkafka-8f1c", 4, 1))

Run = Callable[..., tuple[list[Row], str, int]]


@pytest.fixture
def group_admin() -> GroupBrokers:
    """Topic ``t``, with group ``g``, a ledger, a group that cannot be described, and one whose offsets cannot be read."""
    return GroupBrokers(
        {T0: (0, 100), T1: (10, 20)},
        stored={"g": {T1: 15}, LEDGER: {T0: 7000}, "odd": {T0: 1}, "hidden": {}},
        states={"odd": GroupState.unreadable(ODD)},
        unread={"hidden": HIDDEN},
    )


@pytest.fixture
def run(new_target: Callable[..., Target], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with ``--json`` and ``--yes``; returns its rows, its notes and its exit status."""

    def run(command: Any, *arguments: Any, **options: Any) -> tuple[list[Row], str, int]:
        status = 0
        try:
            command.__wrapped__(new_target(as_json=True, dry_run=False, connection=BROKERS), *arguments, **options)
        except typer.Exit as done:
            status = done.exit_code
        shown = capsys.readouterr()
        return json.loads(shown.out), shown.err, status

    return run


def test_list(run: Run) -> None:
    """Each group is a row; what cannot be read has its reason there, and hides no other group."""
    rows, _, _ = run(list_, lag=True)
    found = {row["group"]: (row["state"], row["store"], row["lag"], row["error"]) for row in rows}
    assert found == {
        "g": ("Empty", "kafka", 5, None),
        LEDGER: ("Empty", "ledger", None, None),
        "odd": ("Unreadable", "kafka", 99, ODD.message),
        "hidden": ("Empty", "kafka", None, HIDDEN.message),
    }


@pytest.mark.parametrize(
    ("command", "is_failure"), [(list_, False), (describe, False), (verify, True), (export_offsets, True)]
)
def test_broker_that_does_not_list_its_groups(run: Run, group_admin: GroupBrokers, command: Any, is_failure: bool) -> None:
    """Groups of the other brokers are shown, with a note."""
    group_admin.stored, group_admin.states, group_admin.unread = {"g": {T1: 15}}, {}, {}
    group_admin.unlisted = [BROKERS_UNAVAILABLE("listing the groups of broker 2: no answer")]
    rows, notes, status = run(command, **({} if command is list_ else {"all_groups": True}))
    assert [row["group"] for row in rows] == ([] if command is verify else ["g"])
    assert "listing the groups of broker 2: no answer" in notes
    assert status == int(is_failure)


@pytest.mark.parametrize("command", [describe, verify, export_offsets])
def test_ledgers(run: Run, command: Any) -> None:
    """All groups do not include ledgers, whose offsets are numbers of micro-batches."""
    rows, _, _ = run(command, None, all_groups=True)
    assert LEDGER not in {row["group"] for row in rows}


def test_verify(run: Run, group_admin: GroupBrokers) -> None:
    """Offsets outside of the logs, and of partitions that do not exist, are problems with their remedies."""
    group_admin.stored = {"g": {T0: 101, T1: 9, U0: 1}, "well": {T0: 100}}
    rows, _, status = run(verify, ["g", "well"])
    assert [(row["group"], row["topic"], row["partition"], row["problem"]) for row in rows] == [
        ("g", "t", 0, "offset beyond the log"),
        ("g", "t", 1, "offset before the log"),
        ("g", "u", 0, "offset of an unknown topic"),
    ]
    assert rows[0]["remedy"] == "zkafka groups reset-offsets g --topic t:0 --to-latest"
    assert status == 1


def test_what_cannot_be_verified(run: Run) -> None:
    """A group that cannot be read makes the exit status 1."""
    assert run(verify, ["g"]) == ([], "", 0)
    for name, error in (("odd", ODD), ("hidden", HIDDEN)):
        rows, notes, status = run(verify, ["g", name])
        assert rows == []
        assert status == 1
        assert error.message in notes


def test_export(run: Run) -> None:
    """Offsets of a group are exported although its members cannot be described. Others are left out."""
    rows, notes, status = run(export_offsets, ["odd"])
    assert [(row["group"], row["offset"]) for row in rows] == [("odd", 1)]
    assert notes == ""
    assert status == 0
    rows, notes, status = run(export_offsets, ["g", "hidden"])
    assert [(row["group"], row["offset"]) for row in rows] == [("g", 15)]
    assert status == 1
    assert HIDDEN.message in notes


def test_export_of_an_unknown_group(run: Run, group_admin: GroupBrokers) -> None:
    """A group that no broker coordinates is an error."""
    group_admin.states["nobody"] = GroupState("Dead")
    with pytest.raises(GroupError, match="Group nobody does not exist in Kafka"):
        run(export_offsets, ["g", "nobody"])


def test_reset(run: Run, group_admin: GroupBrokers) -> None:
    """Without ZooKeeper, offsets are reset in Kafka, without another option."""
    run(reset_offsets, "g", all_topics=True, to_earliest=True)
    assert group_admin.stored["g"] == {T1: 10}


def test_delete(run: Run, group_admin: GroupBrokers) -> None:
    """A group with members is not deleted; a group that cannot be described says why."""
    group_admin.states["g"] = active(2)
    with pytest.raises(GroupError, match="GROUP_ACTIVE"):
        run(delete, ["g"])
    with pytest.raises(ZKafkaError, match="Group odd cannot be described"):
        run(delete, ["odd"])


def test_delete_offsets_of_a_topic(run: Run, group_admin: GroupBrokers) -> None:
    """A group that refuses does not keep the next one from losing its offsets, and is the error at the end."""
    group_admin.stored = {"refusing": {T0: 1}, "g": {T0: 2, U0: 3}}
    group_admin.before_change = raising(UNREADABLE_GROUP("group refusing has members", group="refusing"), "refusing")
    with pytest.raises(GroupError, match="refusing"):
        run(delete, ["refusing", "g"], topic="t")
    assert group_admin.stored == {"refusing": {T0: 1}, "g": {U0: 3}}
