"""Kafka's own command-line tools, as functions.

Tools for groups are Kafka 1.1.1's, the last version with the old consumer. They reach brokers and groups of any version
through ZooKeeper, and take 1 to 2 s each.

References
----------
kafka.tools.VerifyConsumerRebalance, kafka.tools.ExportZkOffsets, kafka.admin.ConsumerGroupCommand (Kafka 1.1.1).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing.conditions import TOOL_FAILED, TOOL_TIMED_OUT
from pyspark_zkafka.testing.jars import archiving_classes, class_archive, find_java, kafka_classpath
from pyspark_zkafka.testing.spec import jvm_command

_OLD_TOOLS = "1.1.1"
_APART = "org.apache.kafka.tools."  # in a jar of their own
_GROUPS = "kafka.admin.ConsumerGroupCommand"
_HEAP_MB = 128
_LOG4J = Path(__file__).with_name("tools-log4j.properties")
_VERDICTS = {"Rebalance operation successful !": True, "Rebalance operation failed !": False}


def run_kafka_tool(kafka_version: str, main_class: str, *args: str, timeout_s: float = 60, stdin: str | None = None) -> str:
    """Run one of Kafka's tools, for example ``kafka.tools.UpdateOffsetsInZK``, and return its standard output.

    Blocks until the tool ends, for at most `timeout_s` after its jars are fetched.

    Raises
    ------
    LocalClusterError
        ``TOOL_FAILED`` if the exit status is not 0; ``TOOL_TIMED_OUT``, after killing the tool; the errors of
        `fetch_jars`. Many tools report a failure only in their output.
    """
    java = find_java()
    apart = [f"org.apache.kafka:kafka-tools:{kafka_version}"] if main_class.startswith(_APART) else []
    classpath = kafka_classpath(kafka_version, *apart)
    with archiving_classes(class_archive(java, main_class, classpath)) as options:
        logging = f"-Dlog4j.configuration={_LOG4J.as_uri()}"
        try:
            done = subprocess.run(
                jvm_command(java, _HEAP_MB, [*options, logging], main_class, args), capture_output=True,
                env={**os.environ, "CLASSPATH": classpath}, input=stdin or "", encoding="utf-8", errors="replace",
                timeout=timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as exc:
            raise TOOL_TIMED_OUT(
                f"{main_class} did not end within {timeout_s:g} s; {_outputs(exc.stdout, exc.stderr)}"
            ) from exc
        if done.returncode != 0:
            raise TOOL_FAILED(
                f"{main_class} of Kafka {kafka_version} ended with {done.returncode}; {_outputs(done.stdout, done.stderr)}",
                status=done.returncode,
            )
    return done.stdout


def verify_consumer_rebalance(zookeeper_connect: str, group: str) -> bool:
    """True if a thread of a registered consumer owns each partition that the group subscribes to.

    Also true for a group without members, or one that does not exist. The tool does not check which member owns what.
    """
    main = "kafka.tools.VerifyConsumerRebalance"
    output = run_kafka_tool(_OLD_TOOLS, main, "--zookeeper.connect", zookeeper_connect, "--group", group)
    verdicts = [_VERDICTS[line.strip()] for line in output.splitlines() if line.strip() in _VERDICTS]
    if len(verdicts) != 1:
        raise _unexpected(main, output)
    return verdicts[0]


def list_groups(zookeeper_connect: str) -> list[str]:
    """List the names of all groups under ``/consumers``, sorted."""
    output = run_kafka_tool(_OLD_TOOLS, _GROUPS, "--zookeeper", zookeeper_connect, "--list")
    return sorted(line for line in output.splitlines() if line and not line.startswith("Note:"))


def describe_group(zookeeper_connect: str, group: str) -> list[dict[str, str]]:
    """Return the tool's rows of a group's partitions and idle members, in no order; each maps column names to texts.

    The columns are ``TOPIC``, ``PARTITION``, ``CURRENT-OFFSET``, ``LOG-END-OFFSET``, ``LAG`` and ``CONSUMER-ID``. Unknown
    values are ``-``. Raises `TOOL_FAILED` if there is no such group.
    """
    output = run_kafka_tool(_OLD_TOOLS, _GROUPS, "--zookeeper", zookeeper_connect, "--describe", "--group", group)
    lines = [line.split() for line in output.splitlines() if line.strip()]
    header = next((i for i, words in enumerate(lines) if words[0] == "TOPIC"), None)
    if header is None:
        raise _unexpected(_GROUPS, output)
    return [dict(zip(lines[header], words, strict=True)) for words in lines[header + 1 :]]


def export_offsets(zookeeper_connect: str, group: str, path: str | os.PathLike[str]) -> dict[TopicPartition, int]:
    """Export the committed offsets of a group in ZooKeeper to the file `path`, which is overwritten, and return them.

    The lines are ``/consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET``, in no order. kafka.tools.ImportZkOffsets imports
    the file.
    """
    main, file = "kafka.tools.ExportZkOffsets", os.fspath(path)
    run_kafka_tool(_OLD_TOOLS, main, "--zkconnect", zookeeper_connect, "--group", group, "--output-file", file)
    offsets = {}
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        znode, _, offset = line.rpartition(":")
        topic, partition = znode.split("/")[-2:]
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _unexpected(main: str, output: str) -> LocalClusterError:
    return TOOL_FAILED(f"{main} gave no answer; its output is\n{output.strip() or '(nothing)'}")


def _outputs(*outputs: str | bytes | None) -> str:
    """Join both outputs, which are bytes after a timeout."""
    texts = [o.decode(errors="replace") if isinstance(o, bytes) else o or "" for o in outputs]
    return "its output is\n" + ("\n".join(t.strip() for t in texts if t.strip()) or "(nothing)")
