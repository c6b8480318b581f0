"""Znodes of topic configuration and of administration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_zkafka.errors import CodecError
from pyspark_zkafka.protocol.model import TopicPartition
from pyspark_zkafka.protocol.znodes import admin


def test_topic_config() -> None:
    """A topic's configuration keeps the order of the znode."""
    found = admin.decode_topic_config("/c", b'{"version":1,"config":{"retention.ms":"1","cleanup.policy":"compact"}}')
    assert list(found.items()) == [("retention.ms", "1"), ("cleanup.policy", "compact")]


def test_reassignment_and_election() -> None:
    """Partitions keep the order of the znode; those of a reassignment have their new replicas."""
    moves = b'{"topic":"t","partition":1,"replicas":[2,1]},{"topic":"s","partition":0,"replicas":[3]}'
    data = b'{"version":1,"partitions":[%s]}' % moves
    assert list(admin.decode_reassignment("/r", data).items()) == [
        (TopicPartition("t", 1), (2, 1)),
        (TopicPartition("s", 0), (3,)),
    ]
    assert admin.decode_preferred_election("/e", data) == (TopicPartition("t", 1), TopicPartition("s", 0))


Decoder = Callable[[str, "bytes | None"], object]

BAD: list[tuple[Decoder, bytes | None]] = [
    (admin.decode_topic_config, None),
    (admin.decode_topic_config, b'{"version":1}'),
    (admin.decode_topic_config, b'{"version":1,"config":{"retention.ms":1}}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":{}}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":[1]}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (admin.decode_reassignment, b'{"version":1,"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}'),
    (admin.decode_preferred_election, None),
    (admin.decode_preferred_election, b'{"version":1,"partitions":[{"partition":0}]}'),
]


@pytest.mark.parametrize(("decode", "data"), BAD)
def test_malformed_data(decode: Decoder, data: bytes | None) -> None:
    """Each decoder names the znode and shows what it found."""
    with pytest.raises(CodecError, match=r"Znode /some/path cannot be read: found"):
        decode("/some/path", data)
