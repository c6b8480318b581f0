"""``kafka-consumer-groups``, asked about one group, and its tables."""

from __future__ import annotations

from pyspark_zkafka.testing import run_kafka_tool

__all__ = ["GroupsTool", "Row", "numbers", "table"]

_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

Row = dict[str, str]


def table(output: str) -> list[Row]:
    """Return the rows of a table, by column. No cell may have blanks or be empty. Without a table there are no rows."""
    lines = [line.split() for line in output.splitlines() if line.strip(" ─")]
    header = next((n for n, words in enumerate(lines) if words[0] == "GROUP"), len(lines))
    return [dict(zip(lines[header], words, strict=False)) for words in lines[header + 1 :]]


def numbers(assignment: str) -> set[int]:
    """Return the partitions of an assignment: ``topic(0,1)``, or ``topic:0,1`` since Kafka 4."""
    return {int(number) for number in assignment.rstrip(");").replace("(", ":").rpartition(":")[2].split(",")}


class GroupsTool:
    """The tool of one version of Kafka, asked about one group."""

    def __init__(self, servers: str, group: str, version: str) -> None:
        self._servers, self._group = servers, group
        self._version = version

    def rows(self, *options: str) -> list[Row]:
        """Return the rows that ``--describe`` prints with some options."""
        return table(self.output("--describe", "--group", self._group, *options))

    def output(self, *arguments: str) -> str:
        """Return what the tool prints."""
        return run_kafka_tool(self._version, _TOOL, "--bootstrap-server", self._servers, *arguments)
