"""Topics of a member that Kafka coordinates."""

from __future__ import annotations

from pyspark_zkafka.group.kafka_topics import TopicLookup
from pyspark_zkafka.protocol.planning import Subscribe, SubscribePattern


def test_names() -> None:
    """Topics that are named are looked up once, without a request, and again only for another client."""
    lookup = TopicLookup(Subscribe(("u", "t")))
    assert set(lookup.find(1.0, lambda: 1 / 0)) == {"t", "u"}  # type: ignore[arg-type, return-value]
    assert not lookup.is_due(1e9)
    lookup.repeat()
    assert lookup.is_due(1.0)


def test_pattern() -> None:
    """The topics of a pattern are looked up every few seconds."""
    lookup = TopicLookup(SubscribePattern("t.*"))
    assert lookup.is_due(1.0)
    assert lookup.find(1.0, lambda: ["t1", "u"]) == ("t1",)
    assert not lookup.is_due(5.9)
    assert lookup.is_due(6.0)
