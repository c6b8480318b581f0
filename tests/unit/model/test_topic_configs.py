"""Names and values of topics' settings, without a broker."""

from __future__ import annotations

from pyspark_zkafka.model.topic_configs import config_problems
from tests.support.cases import each


@each(
    ("name", "good", "bad"),
    [
        ("retention.ms", ["-1", "86400000"], ["-2", "soon", "1.5", "", "9223372036854775808"]),
        ("retention.bytes", ["-1", "0"], ["1k"]),
        ("segment.bytes", ["14", "1073741824"], ["13", "2147483648"]),
        ("cleanup.policy", ["compact", "delete", "compact,delete", "compact, delete"], ["", "none", "compact,"]),
        ("compression.type", ["producer", "zstd"], ["zip"]),
        ("min.cleanable.dirty.ratio", ["0", "0.5", "1"], ["1.1", "nan", "half"]),
        ("preallocate", ["true", "false"], ["yes"]),
        ("message.timestamp.type", ["CreateTime"], ["createtime"]),
        ("leader.replication.throttled.replicas", ["0:1,1:2", "*"], []),
    ],
)
def test_values(name: str, good: list[str], bad: list[str]) -> None:
    """A value has the type and the range that Kafka expects."""
    assert [value for value in good if config_problems({name: value})] == []
    for value in bad:
        (problem,) = config_problems({name: value})
        assert problem.startswith(f"{name} is {value!r}; expected ")


def test_unknown_names() -> None:
    """All problems are reported, in Kafka's words for an unknown name."""
    assert config_problems({"retention.msec": "5", "preallocate": "maybe"}) == [
        "Unknown topic config name: retention.msec",
        "preallocate is 'maybe'; expected true or false",
    ]
