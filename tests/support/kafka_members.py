"""Members of groups in Kafka as separate processes, which tests stop and kill."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.support.memberships import KINDS

__all__ = ["KafkaMemberProcess"]

_PROGRAM = """
import json, sys
from pyspark_zkafka.group.offsets import KafkaMemberOffsets
from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Subscribe
from tests.support.memberships import kafka_member

servers, group, topic, options = sys.argv[1:]
member = kafka_member(servers, group, Subscribe((topic,)), **json.loads(options))
member.join()
with KafkaGroupOffsets(servers, {}, group) as stored:
    offsets, owner = KafkaMemberOffsets(member, stored), None
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "settle":
            settled, owner = member.wait_settled(60), member.owner
            answer = sorted(tp.partition for tp in member.rebalance()) if settled else None
        elif command == "owned":
            owner = member.owner
            answer = sorted(tp.partition for tp in member.owned())
        elif command == "commit":
            places = {TopicPartition(topic, int(number)): int(numbers[0]) for number in numbers[1:]}
            answer = sorted(tp.partition for tp in offsets.commit(places, owner).lost)
        print(json.dumps(answer), flush=True)
member.leave()
"""


class KafkaMemberProcess:
    """A joined member; `kind` is one of `KINDS`, and the options are fields of KafkaGroupOptions.

    When it settles, it starts to read everything assigned to it.
    """

    def __init__(self, servers: str, group: str, topic: str, kind: str, **options: Any) -> None:
        arguments = [servers, group, topic, json.dumps({**KINDS[kind], **options})]
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    def settle(self) -> list[int] | None:
        """Wait until the member is settled; return the partitions that it owns, or None after a time-out."""
        return self._ask("settle")  # type: ignore[no-any-return]

    def owned(self) -> list[int]:
        """Return the partitions that it owns now."""
        return self._ask("owned")  # type: ignore[no-any-return]

    def commit(self, offset: int, *partitions: int) -> list[int]:
        """Commit an offset for partitions, as the owner that the last `settle` or `owned` returned.

        Returns the partitions that were lost.
        """
        return self._ask("commit", offset, *partitions)  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Leave the group, and end the process."""
        self._process.communicate(timeout=30)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, *words: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())
