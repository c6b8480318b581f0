"""Groups recorded from clusters of 3.9.1 and 1.1.1, compared with Kafka's tools; see tests/vectors/cli/groups."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.inspect.groups import GroupReport, GroupReports, LogBounds, LogsReport, PartitionReport, decode_groups
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools.group_verify import COLUMNS, verify_group
from pyspark_zkafka.tools.output import Output
from pyspark_zkafka.zookeeper.connection import Znode, ZnodeStat

FOLDER = Path(__file__).parents[2] / "vectors" / "cli" / "groups"
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0].isdigit())
FAILED, SUCCESSFUL = "Rebalance operation failed !", "Rebalance operation successful !"
BEYOND_KAFKA = {"foreign", "garbage", "offsets", "shuffled"}
"""Groups with problems that VerifyConsumerRebalance does not detect."""


class Recorded:
    """The recorded groups of a version of Kafka."""

    def __init__(self, version: str) -> None:
        self.folder = FOLDER / version
        facts = json.loads((self.folder / "znodes.json").read_text())
        nodes = {
            path: Znode(None if data is None else data.encode(), ZnodeStat(czxid, 0, modified, session, mzxid))
            for path, (data, session, czxid, mzxid, modified) in facts["nodes"].items()
        }
        groups = decode_groups(facts["children"]["/consumers"], facts["children"], nodes)
        kafka = {g: {place(name): offset for name, offset in f.items()} for g, f in facts["kafka"].items()}
        self.groups: dict[str, GroupReport] = {
            name: replace(group, kafka_offsets=kafka.get(name, {})) for name, group in groups.items()
        }
        self.logs = {place(name): LogBounds(*bounds) for name, bounds in facts["logs"].items()}

    def descriptions(self) -> dict[str, list[PartitionReport]]:
        """Return the reports of partitions by group, with the offsets in Kafka."""
        return {
            name: GroupReports({name: group}, "both", LogsReport(self.logs)).partitions
            for name, group in self.groups.items()
        }

    def lines(self, file: str) -> list[list[str]]:
        """Return the words of a file's lines, without errors, headings and rules."""
        words = [line.split() for line in (self.folder / file).read_text().splitlines()]
        return [line for line in words if line and line[0] not in ("Error:", "TOPIC", "GROUP", '"') and "─" not in line[0]]


def place(name: str) -> TopicPartition:
    """Return the partition of a name such as ``orders-3``."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


@pytest.fixture(params=VERSIONS)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """The recorded groups of each version of Kafka."""
    return Recorded(request.param)


def words(*values: Any) -> list[str]:
    """Return values as Kafka's tools write them."""
    return ["-" if value is None else str(value) for value in values]


def test_descriptions_are_those_of_kafka(recorded: Recorded) -> None:
    """Descriptions equal the rows of kafka-consumer-groups, apart from partitions that do not exist."""
    for group, rows in recorded.descriptions().items():
        ours = [words(row.topic, row.partition, row.offset, row.latest, row.lag, row.consumer) for row in rows]
        theirs = sorted(recorded.lines(f"describe-{group}.txt"))
        if group == "garbage":
            assert theirs == []  # the tool fails
            continue
        existing = [words for words, row in zip(ours, rows, strict=True) if row.latest is not None or row.topic is None]
        assert sorted(existing) == theirs
        assert len(ours) - len(existing) == (2 if group == "offsets" else 0)


def test_written_tables(recorded: Recorded) -> None:
    """The recorded output of the commands has the same rows and groups, with the offsets of both stores."""
    rows = [row for rows in recorded.descriptions().values() for row in rows]
    expected = [
        words(r.group, r.topic, r.partition, r.offset, r.latest, r.lag, r.consumer, r.host)
        + words(r.zookeeper_offset, r.kafka_offset)
        for r in rows
    ]
    assert recorded.lines("zkafka-describe.txt") == expected
    listed = [[name, str(g.member_count), ",".join(sorted(g.topics)), g.state] for name, g in recorded.groups.items()]
    assert [line[:4] for line in recorded.lines("zkafka-list.txt")] == listed
    assert sorted(recorded.lines("list.txt")) == [[name] for name, *_ in listed]


def test_verdicts_are_those_of_kafka(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    """Problems are found wherever VerifyConsumerRebalance fails and where it does not look, and all are in the output."""
    found = {name: verify_group(group, recorded.logs) for name, group in recorded.groups.items()}
    for name, problems in found.items():
        verdict = (recorded.folder / f"verify-{name}.txt").read_text().strip()
        assert verdict == (FAILED if problems and name not in BEYOND_KAFKA else SUCCESSFUL)
    assert {name for name, problems in found.items() if problems} == {*BEYOND_KAFKA, "thread", "unowned", "zombie"}
    Output().rows([asdict(problem) for problems in found.values() for problem in problems], COLUMNS)
    written = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert written == [line.rstrip() for line in (recorded.folder / "zkafka-verify.txt").read_text().splitlines()]
