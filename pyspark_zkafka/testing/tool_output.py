"""Output of Kafka's tools for groups, parsed; pure."""

from __future__ import annotations

from pyspark_zkafka.protocol.model import TopicPartition

__all__ = ["parse_description", "parse_exported", "parse_groups", "parse_verdict"]

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
