"""``zkafka checkpoint show`` on made-up checkpoint folders, and files of checkpoints, parsed from text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyspark_zkafka.errors import CheckpointError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.tools import app
from pyspark_zkafka.tools.checkpoint_show import SourceEnd, parse_offset_log, parse_source_end

META = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def ours(*ranges: list[int]) -> str:
    """Return an offset of this package."""
    partitions = {str(n): given for n, given in enumerate(ranges)}
    return json.dumps({"version": 1, "topics": {"t": {"known": len(ranges), "partitions": partitions}}})


def spark(*ends: int) -> str:
    """Return an offset of Spark's Kafka source."""
    return json.dumps({"t": {str(n): end for n, end in enumerate(ends)}})


def write(folder: Path, offsets: dict[int, list[str]], commits: list[int], initial: str | None = None) -> str:
    """Write a checkpoint; `initial` is the start of its first source."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    (folder / "metadata").write_text('{"id":"8f1c"}')
    for number, sources in offsets.items():
        (folder / "offsets" / str(number)).write_text("\n".join(["v1", META, *sources]))
        (folder / "offsets" / f".{number}.crc").write_bytes(b"crc\xff")
    for number in commits:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    if initial is not None:
        (folder / "sources" / "0").mkdir(parents=True)
        (folder / "sources" / "0" / "0").write_text(f"\0v1\n{initial}")
    return str(folder)


def invoke(*arguments: str) -> tuple[int, str, str]:
    """Return the exit status, the output and the notes of ``zkafka checkpoint show``."""
    done = CliRunner().invoke(app, ["checkpoint", "show", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_positions_of_a_query(tmp_path: Path) -> None:
    """All sources of a query are shown, with the numbers of the last finished and the last planned micro-batch."""
    path = write(tmp_path, {10: [spark(5, 6), ours([0, 3]), "7"], 11: [spark(8, 6), ours([3, 9], [0, 1]), "8"]}, [9, 10])
    status, out, err = invoke(path, "--json")
    common = {"query": "8f1c", "committed_batch": 10, "planned_batch": 11}
    rows = [
        (0, "kafka", "t", 0, 5, 8),
        (0, "kafka", "t", 1, 6, 6),
        (1, "zkafka", "t", 0, 3, 9),
        (1, "zkafka", "t", 1, 0, 1),
        (2, "other", None, None, None, None),
    ]
    names = ("source", "format", "topic", "partition", "committed_offset", "planned_offset")
    assert status == 0
    assert json.loads(out) == [{**dict(zip(names, row, strict=True)), **common} for row in rows]
    assert "Micro-batch 11 is planned, and the last finished one is 10" in err
    assert "COMMITTED-OFFSET" in invoke(f"file://{path}")[1]


@pytest.mark.parametrize(
    ("offsets", "commits", "initial", "source", "expected"),
    [
        ({3: [spark(5, 6)]}, [3], None, None, '{"t":{"0":5,"1":6}}'),
        ({3: [spark(5)], 4: [spark(9, 2)]}, [3], None, None, '{"t":{"0":5,"1":-2}}'),
        ({3: [ours([0, 5])], 4: [ours([5, 9], [2, 7])]}, [3], None, None, '{"t":{"0":5,"1":2}}'),
        ({0: [ours([4, 5])]}, [], None, None, '{"t":{"0":4}}'),
        ({0: [spark(5)]}, [], spark(4), None, '{"t":{"0":4}}'),
        ({0: ["-"]}, [0], spark(4), None, '{"t":{"0":4}}'),
        ({0: [spark(5)]}, [], None, None, '{"t":{"0":-2}}'),
        ({0: [spark(5)]}, [], "{}", None, '{"t":{"0":-2}}'),
        ({0: [spark(5), ours([0, 7])]}, [0], None, "1", '{"t":{"0":7}}'),
        ({0: ["7", ours([0, 7])]}, [0], None, None, '{"t":{"0":7}}'),
    ],
)
def test_starting_offsets(
    tmp_path_factory: pytest.TempPathFactory,
    offsets: dict[int, list[str]],
    commits: list[int],
    initial: str | None,
    source: str | None,
    expected: str,
) -> None:
    """The starting offsets for a query that takes over follow the last finished micro-batch."""
    path = write(tmp_path_factory.mktemp("c"), offsets, commits, initial)
    status, out, _ = invoke(path, "--as", "starting-offsets", *(["--source", source] if source else []))
    assert status == 0
    assert out == expected + "\n"


@pytest.mark.parametrize(
    ("offsets", "commits", "options", "status", "says"),
    [
        ({}, [], [], 1, "NOT_A_CHECKPOINT.*no micro-batch was planned"),
        ({4: [spark(5)]}, [3], [], 1, "has commits/3, but no offsets/3"),
        ({0: [spark(5)]}, [0], ["--source", "1"], 2, "--source is '1'; the query has the sources 0"),
        ({0: [spark(5), spark(6)]}, [0], ["--as", "starting-offsets"], 2, "2 sources of Kafka"),
        ({0: ["7"]}, [0], ["--as", "starting-offsets"], 2, "neither of zkafka nor of Spark"),
        ({0: ["{}"]}, [0], ["--as", "starting-offsets"], 2, "neither of zkafka nor of Spark"),
        ({0: ["-"]}, [0], ["--as", "starting-offsets"], 2, "neither of zkafka nor of Spark"),
    ],
)
def test_incomplete_checkpoints_and_other_sources_are_refused(
    tmp_path_factory: pytest.TempPathFactory,
    offsets: dict[int, list[str]],
    commits: list[int],
    options: list[str],
    status: int,
    says: str,
) -> None:
    """A folder without a complete checkpoint and a source that cannot be taken over are errors."""
    found, _, err = invoke(write(tmp_path_factory.mktemp("c"), offsets, commits), *options)
    assert found == status
    assert re.search(says, err)


def test_pattern_without_topics(tmp_path: Path) -> None:
    """Spark's source has the offsets `{}` while its pattern matches no topic, and its start shows that it is Spark's."""
    path = write(tmp_path, {0: ["{}"]}, [0], "{}")
    assert [(row["format"], row["topic"]) for row in json.loads(invoke(path, "--json")[1])] == [("kafka", None)]
    status, _, err = invoke(path, "--as", "starting-offsets")
    assert status == 2
    assert "The source has no partition yet" in err


def test_places() -> None:
    """Only local folders are read."""
    status, _, err = invoke("hdfs://nn1:8020/checkpoints/billing")
    assert status == 2
    assert "copy the checkpoint here first" in err
    assert invoke("//[nn1/checkpoints")[0] == 2
    assert invoke("/no/such/folder")[0] == 1


# --- files as text

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OURS = json.dumps({"version": 1, "topics": {"t": {"known": 2, "partitions": {"0": [3, 9], "1": [7, 7, 7, 901]}}}})
SPARKS, OTHER_PARTITION = '{"t":{"0":5}}', '{"t":{"1":6}}'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["v1", META, SPARKS], {"0": SourceEnd("kafka", {T0: 5})}),
        (["v1", META, "-", OTHER_PARTITION, "7"], {"0": None, "1": SourceEnd("kafka", {T1: 6}), "2": SourceEnd("other")}),
        (["v2", META, "0:-", f"1:{OTHER_PARTITION}"], {"0": None, "1": SourceEnd("kafka", {T1: 6})}),
        (["v1", META, OURS], {"0": SourceEnd("zkafka", {T0: 9, T1: 7}, {T0: 3, T1: 7}, in_group=True)}),
        (["v1", META], {}),
    ],
)
def test_offset_log(lines: list[str], expected: object) -> None:
    """The offsets of each source are read from both versions of Spark's log."""
    assert parse_offset_log("\n".join(lines), "f") == expected


@pytest.mark.parametrize(
    ("numbers", "in_group"),
    [([3, 9], False), ([3, 9, 3], True), ([3, 9, 3, 901], True), ([3, 9, 3, 901, 3], False), ([3, 9, 3, -1, 3], False)],
)
def test_query_in_a_group(numbers: list[int], in_group: bool) -> None:
    """A query is in a group, in ZooKeeper or in Kafka, if its ranges have the group's offset, and it has not left since."""
    found = parse_source_end(json.dumps({"version": 1, "topics": {"t": {"known": 1, "partitions": {"0": numbers}}}}), "f")
    assert found is not None
    assert found.in_group is in_group


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "f is no offset log"),
        (["v1"], "f is no offset log"),
        (["v9", META, "-"], "f is no offset log"),
        (["v1", META, "{"], "f is an offset that is not JSON"),
        (["v1", META, '{"version": 2, "topics": {}}'], "UNKNOWN_CHECKPOINT"),
    ],
)
def test_other_files_are_refused(lines: list[str], says: str) -> None:
    """A file in another format and an offset of a newer version are refused."""
    with pytest.raises(CheckpointError, match=says):
        parse_offset_log("\n".join(lines), "f")


@pytest.mark.parametrize(
    "offset",
    [
        '{"logOffset":0}',
        '{"t":{"x":1}}',
        '{"t":{"0":-1}}',
        '{"t":{"0":"5"}}',
        '{"a":{},"b":1}',
        "{}",
        "5",
        "null",
    ],
)
def test_other_sources(offset: str) -> None:
    """An offset in another format belongs to another source."""
    assert parse_source_end(offset, "f") == SourceEnd("other")


def test_topics_named_like_our_keys() -> None:
    """Spark's offsets of topics named like this package's keys are recognized as Spark's."""
    found = parse_source_end('{"version":{"0":1},"topics":{"0":2}}', "f")
    assert found == SourceEnd("kafka", {TopicPartition("version", 0): 1, TopicPartition("topics", 0): 2})
