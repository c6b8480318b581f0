"""``zkafka groups export`` on an ensemble of values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from pyspark_zkafka.errors import GroupError
from pyspark_zkafka.tools.group_files import Format, export_offsets
from pyspark_zkafka.tools.output import Row
from tests.support.ensemble_client import EnsembleClient


def test_export(run: Callable[..., list[Row]]) -> None:
    """The offsets of the named groups, or of all, sorted by group."""
    assert [(row["group"], row["partition"], row["offset"]) for row in run(export_offsets, None, all_groups=True)] == [
        ("g", 0, 5),
        ("idle", 1, 7),
    ]
    with pytest.raises(GroupError, match="Group nobody does not exist"):
        run(export_offsets, ["g", "nobody"])


def test_left_out(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """Partitions without an offset, and positions of Kafka 0.7 in CSV, are left out without an error."""
    client.put("/consumers/g/offsets/t/1", b"-1")
    client.put("/consumers/g/offsets/t/1-0", b"4096")
    assert [row["partition"] for row in run(export_offsets, ["g"], format=Format.csv)] == [0]
    assert [row["partition"] for row in run(export_offsets, ["g"])] == [0, "1-0"]


def test_unreadable_offset(client: EnsembleClient, run: Callable[..., list[Row]]) -> None:
    """An offset that cannot be read fails the command, after the others were written."""
    client.put("/consumers/g/offsets/t/1", b"five")
    with pytest.raises(typer.Exit) as caught:
        run(export_offsets, ["g"])
    assert caught.value.exit_code == 1
