"""Kafka's own command-line tools, as functions.

The wrappers run those of Kafka 1.1.1, the last ones that know consumers of the old kind. They reach brokers and groups of
any version through ZooKeeper, and take 1 to 2 s each.

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
from pyspark_zkafka.testing.configs import jvm_command
from pyspark_zkafka.testing.jars import find_java, kafka_classpath, tools_classpath

__all__ = [
    "describe_group",
    "export_offsets",
    "list_groups",
    "parse_description",
    "parse_exported",
    "parse_groups",
    "parse_verdict",
    "run_kafka_tool",
    "verify_consumer_rebalance",
]

_OLD_TOOLS = "1.1.1"
_APART = "org.apache.kafka.tools."
_GROUPS = "kafka.admin.ConsumerGroupCommand"
_HEAP_MB = 128
_LOG4J = Path(__file__).with_name("tools-log4j.properties")


def run_kafka_tool(kafka_version: str, main_class: str, *args: str, timeout_s: float = 60, stdin: str | None = None) -> str:
    """Run one of Kafka's tools, for example ``kafka.tools.UpdateOffsetsInZK``, and return its standard output.

    Blocks until it ends, for `timeout_s` at most, without the fetching of jars. `stdin` is its standard input.

    Raises
    ------
    LocalClusterError
        ``TOOL_FAILED`` when its exit status is not 0, with its standard error; ``TOOL_TIMED_OUT``, after killing it; what
        `fetch_jars` raises. Many tools report a failure only in their output.
    """
    logging = [f"-Dlog4j.configuration={_LOG4J.as_uri()}"]
    command = jvm_command(find_java(), _HEAP_MB, logging, main_class, args)
    classpath = tools_classpath if main_class.startswith(_APART) else kafka_classpath
    environ = {**os.environ, "CLASSPATH": classpath(kafka_version)}
    try:
        done = subprocess.run(
            command, env=environ, input=stdin or "", capture_output=True, encoding="utf-8", errors="replace",
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
    """True if each partition that a group subscribes to is owned by a registered consumer's thread.

    True for a group that has no members, and for one that does not exist. The tool does not judge which member owns what.
    """
    main = "kafka.tools.VerifyConsumerRebalance"
    output = run_kafka_tool(_OLD_TOOLS, main, "--zookeeper.connect", zookeeper_connect, "--group", group)
    verdict = parse_verdict(output)
    if verdict is None:
        raise _unexpected(main, output)
    return verdict


def list_groups(zookeeper_connect: str) -> list[str]:
    """The names of all groups under ``/consumers``, sorted."""
    return parse_groups(run_kafka_tool(_OLD_TOOLS, _GROUPS, "--zookeeper", zookeeper_connect, "--list"))


def describe_group(zookeeper_connect: str, group: str) -> list[dict[str, str]]:
    """A group's partitions and idle members, as the tool's rows: its texts by its column names.

    The columns are ``TOPIC``, ``PARTITION``, ``CURRENT-OFFSET``, ``LOG-END-OFFSET``, ``LAG`` and ``CONSUMER-ID``; ``-``
    stands for an unknown value. The rows are in no order. Raises `TOOL_FAILED` when there is no such group.
    """
    output = run_kafka_tool(_OLD_TOOLS, _GROUPS, "--zookeeper", zookeeper_connect, "--describe", "--group", group)
    rows = parse_description(output)
    if rows is None:
        raise _unexpected(_GROUPS, output)
    return rows


def export_offsets(zookeeper_connect: str, group: str, path: str | os.PathLike[str]) -> dict[TopicPartition, int]:
    """The committed offsets of a group in ZooKeeper, exported to the file `path`, which is overwritten.

    Each of its lines is ``/consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET``, in no order; kafka.tools.ImportZkOffsets
    imports it.
    """
    main, file = "kafka.tools.ExportZkOffsets", os.fspath(path)
    run_kafka_tool(_OLD_TOOLS, main, "--zkconnect", zookeeper_connect, "--group", group, "--output-file", file)
    return dict(parse_exported(line) for line in Path(file).read_text(encoding="utf-8").splitlines())


def _unexpected(main: str, output: str) -> LocalClusterError:
    return TOOL_FAILED(f"{main} gave no answer; its output is\n{output.strip() or '(nothing)'}")


def _outputs(*outputs: str | bytes | None) -> str:
    """Both outputs, which are bytes after a timeout."""
    texts = [o.decode(errors="replace") if isinstance(o, bytes) else o or "" for o in outputs]
    return "its output is\n" + ("\n".join(t.strip() for t in texts if t.strip()) or "(nothing)")


_VERDICTS = {"Rebalance operation successful !": True, "Rebalance operation failed !": False}


def parse_verdict(output: str) -> bool | None:
    """The verdict of VerifyConsumerRebalance; None if there is none, or more than one."""
    verdicts = [_VERDICTS[line.strip()] for line in output.splitlines() if line.strip() in _VERDICTS]
    return verdicts[0] if len(verdicts) == 1 else None


def parse_groups(output: str) -> list[str]:
    """The groups that ConsumerGroupCommand lists, sorted."""
    return sorted(line for line in output.splitlines() if line and not line.startswith("Note:"))


def parse_description(output: str) -> list[dict[str, str]] | None:
    """The rows of ConsumerGroupCommand's table, its texts by its column names; None if there is no table."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    header = next((i for i, words in enumerate(lines) if words[0] == "TOPIC"), None)
    if header is None:
        return None
    return [dict(zip(lines[header], words, strict=True)) for words in lines[header + 1 :]]


def parse_exported(line: str) -> tuple[TopicPartition, int]:
    """A line of ExportZkOffsets.

    >>> parse_exported("/consumers/g/offsets/orders/3:17")
    (TopicPartition(topic='orders', partition=3), 17)
    """
    znode, _, offset = line.rpartition(":")
    topic, partition = znode.split("/")[-2:]
    return TopicPartition(topic, int(partition)), int(offset)
