"""ListOffsets responses; test_vectors.py has their bytes."""

from __future__ import annotations

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.wire.offset_messages import ListedOffset, read_list_offsets
from pyspark_zkafka.wire.protocol import Reader


def test_several_offsets_in_version_0() -> None:
    """Version 0 lists offsets of segments, newest first; the first one is the answer."""
    data = bytes.fromhex("00000001 000161 00000001 00000003 0000 00000002 0000000000000009 0000000000000002")
    assert read_list_offsets(Reader(data)) == {TopicPartition("a", 3): ListedOffset(0, 9)}
