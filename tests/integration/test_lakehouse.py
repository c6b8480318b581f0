"""The examples of docs/lakehouse.md, with the last version of Spark for which both formats have jars."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_zkafka.testing import fetch_jars
from tests.support.documentation import ROOT, blocks
from tests.support.older_pyspark import with_pyspark

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

DRIVER = Path(__file__).parent / "drivers" / "lakehouse.py"
PAGE = ROOT / "docs" / "lakehouse.md"
SPARK = "4.1.4"
"""The pyspark of the page's examples. Delta Lake 4.4.0 and Iceberg 1.12.0 have no jars for the version of other tests."""

# The first test may install pyspark and fetch the jars.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def coordinates(group: str) -> str:
    """Return the coordinates of a format's jar in the page's settings of the session."""
    (found,) = {c for block in blocks(PAGE) for c in re.findall(rf'"({re.escape(group)}:[^"]+)"', block.text)}
    return found


@pytest.mark.parametrize(("name", "group"), [("Delta Lake", "io.delta"), ("Iceberg", "org.apache.iceberg")])
def test_a_repeated_micro_batch(
    name: str,
    group: str,
    zkafka_cluster: LocalCluster,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """A micro-batch that is repeated after the table's commit adds no row; later ones are written."""
    topic = new_topic(partitions=2)
    records = [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", None), (None, "9")]
    zkafka_cluster.produce(topic, [{"key": key, "value": value, "partition": key == "c"} for key, value in records])
    jars = ",".join(map(str, fetch_jars(coordinates(group))))
    environ = {**with_pyspark(SPARK), "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"}
    command = [sys.executable, str(DRIVER), name, jars, zkafka_cluster.bootstrap_servers, topic, str(tmp_path)]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])

    assert found["first"] == {
        "orders": sorted(([*record] for record in records), key=str),
        "audit": sorted(([*record] for record in records), key=str),
        "latest": [["a", "2"], ["c", "1"]],
    }
    assert found["repeated"] == found["first"]
    assert found["ended"] == found["forgotten"]  # each query did repeat its micro-batch

    assert len(found["later"]["orders"]) == len(found["later"]["audit"]) == len(records) + 1
    assert found["later"]["latest"] == [["a", "late"], ["c", "1"]]
