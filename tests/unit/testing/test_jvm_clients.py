"""Events of the old consumer's process, and Kafka's tools, run by a fake Java."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing.jvm_clients import (
    ConsumerEvents,
    OldConsumer,
    OldRecord,
    describe_group,
    export_offsets,
    list_groups,
    run_kafka_tool,
    verify_consumer_rebalance,
)

RECORD = b'{"event":"record","topic":"t","partition":1,"offset":2,"key":null,"value":"dg=="}\n'
MAIN = "kafka.tools.ExportZkOffsets"
NOTE = "Note: This will only show information about consumers that use ZooKeeper (not those using the Java consumer API).\n"
TABLE = """
TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG        CONSUMER-ID
orders                         0          5               7               2          g_a-0
orders                         1          -               -               -          -
"""


def test_whole_lines(tmp_path: Path) -> None:
    """Events are read while the file grows, and an incomplete line is read later."""
    file = tmp_path / "events"
    file.write_bytes(RECORD + b'{"event":"rea')
    events = ConsumerEvents(file)
    assert events.records() == [OldRecord("t", 1, 2, None, b"v")]
    assert events.others("ready") == []
    with file.open("ab") as growing:
        growing.write(b'dy"}\n' + RECORD)
    assert events.others("ready") == [{"event": "ready"}]
    assert len(events.records()) == 2


def test_missing_file(tmp_path: Path) -> None:
    """If the file is gone, earlier events remain."""
    file = tmp_path / "events"
    file.write_bytes(RECORD)
    events = ConsumerEvents(file)
    assert len(events.records()) == 1
    file.unlink()
    assert len(events.records()) == 1


LATE = """
input(), input()
print('{"event": "failed", "during": "commit", "message": "the first one"}\\n{"event": "committed"}', flush=True)
input()
"""


def test_commit_after_a_time_out() -> None:
    """After a commit has timed out, the next commit waits for its own answer."""
    consumer = OldConsumer("zk1:2181", "g", topics={"t": 1})
    try:
        for _ in range(2):
            consumer._launch([sys.executable, "-c", LATE], "")
            with pytest.raises(LocalClusterError, match=r"NOT_COMMITTED.*no answer within 0\.1 s"):
                consumer.commit(timeout_s=0.1)
            consumer.commit()
            consumer.kill()
    finally:
        consumer.kill()


def shown_arguments(output: str) -> str:
    """Return the tool's arguments from all of Java's."""
    return output.partition(f"{MAIN} ")[2].strip()


def test_command(fake_java: Any) -> None:
    """A tool runs with its arguments, the jars of its Kafka version, and an empty standard input."""
    fake_java.runs_as('echo "$@"; echo "$CLASSPATH"; cat')
    command, classpath = run_kafka_tool("1.1.1", MAIN, "--group", "a b").splitlines()
    assert shown_arguments(command) == "--group a b"
    assert "-Dlog4j.configuration=file:" in command
    assert Path(classpath).name == "one-1.0.jar"


def test_standard_input(fake_java: Any) -> None:
    """A tool gets the given standard input, and bytes in its output that are not UTF-8 are replaced."""
    fake_java.runs_as(r"cat; printf '\377'")
    assert run_kafka_tool("1.1.1", MAIN, stdin="gr\u00fcn") == "gr\u00fcn\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("main", "has_tools"), [("org.apache.kafka.tools.GetOffsetShell", True), ("kafka.tools.GetOffsetShell", False)]
)
def test_tools_outside_of_the_core(fake_java: Any, main: str, has_tools: bool) -> None:
    """Tools that have left Kafka's core need another jar."""
    fake_java.runs_as("true")
    run_kafka_tool("3.9.1", main)
    assert ("kafka-tools" in (fake_java.folder / "asked.xml").read_text()) is has_tools


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("echo half; echo wrong >&2; exit 3", "half\nwrong"),
        ("echo ' wrong ' >&2; exit 3", "wrong"),
        ("exit 3", "(nothing)"),
    ],
)
def test_tool_that_fails(fake_java: Any, program: str, shown: str) -> None:
    """A failed tool is an error with its status and output."""
    fake_java.runs_as(program)
    with pytest.raises(LocalClusterError) as caught:
        run_kafka_tool("1.1.1", MAIN)
    assert caught.value.condition == "TOOL_FAILED"
    assert caught.value.parameters["status"] == 3
    assert caught.value.message == f"{MAIN} of Kafka 1.1.1 ended with 3; its output is\n{shown}"


def test_timeout(fake_java: Any) -> None:
    """A tool that does not end is killed, and its output is shown."""
    fake_java.runs_as("echo half; exec sleep 60")
    with pytest.raises(LocalClusterError, match=rf"TOOL_TIMED_OUT\] {MAIN} did not end within 0\.5 s; its output is"):
        run_kafka_tool("1.1.1", MAIN, timeout_s=0.5)


def prints(fake_java: Any, output: str) -> None:
    """Let the tool print a text."""
    fake_java.runs_as(f"cat <<'END'\n{output}END\n")


@pytest.mark.parametrize(("text", "verdict"), [("successful", True), ("failed", False)])
def test_verdict(fake_java: Any, text: str, verdict: bool) -> None:
    """The verdict on a group's partitions is read from the tool's output."""
    prints(fake_java, f"\nRebalance operation {text} !\n")
    assert verify_consumer_rebalance("zk1:2181/kafka", "g") is verdict


@pytest.mark.parametrize(
    ("call", "output", "shown"),
    [
        (verify_consumer_rebalance, "", "(nothing)"),
        (verify_consumer_rebalance, "No partitions are owned\n", "No partitions are owned"),
        (
            verify_consumer_rebalance,
            "Rebalance operation successful !\nRebalance operation failed !\n",
            "Rebalance operation failed !",
        ),
        (describe_group, "", "(nothing)"),
        (describe_group, NOTE, NOTE.strip()),
    ],
)
def test_no_answer(fake_java: Any, call: Any, output: str, shown: str) -> None:
    """An output without an answer, or with several, is shown in an error."""
    prints(fake_java, output)
    with pytest.raises(LocalClusterError, match=r"TOOL_FAILED\] kafka\.\S+ gave no answer; its output is") as caught:
        call("zk1:2181/kafka", "g")
    assert caught.value.message.endswith(shown)


def test_groups(fake_java: Any) -> None:
    """The tool's note is not read as a group."""
    prints(fake_java, f"{NOTE}\nshop\nbilling\n")
    assert list_groups("zk1:2181") == ["billing", "shop"]


def test_description(fake_java: Any) -> None:
    """Rows follow the header, whatever precedes it."""
    prints(fake_java, NOTE + TABLE)
    rows = describe_group("zk1:2181", "g")
    assert [(row["TOPIC"], row["PARTITION"], row["LAG"], row["CONSUMER-ID"]) for row in rows] == [
        ("orders", "0", "2", "g_a-0"),
        ("orders", "1", "-", "-"),
    ]
    prints(fake_java, TABLE.splitlines()[1] + "\n")
    assert describe_group("zk1:2181", "g") == []


def test_exported_offsets(fake_java: Any, tmp_path: Path) -> None:
    """Exported offsets are read from the file that the tool has written."""
    fake_java.runs_as('for file; do :; done; echo "/consumers/g/offsets/t/1:7" > "$file"')
    path = tmp_path / "offsets"
    assert export_offsets("zk1:2181", "g", path) == {TopicPartition("t", 1): 7}
    assert path.exists()
