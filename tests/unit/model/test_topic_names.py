"""Names of topics, by Kafka's own rules."""

from __future__ import annotations

import pytest

from pyspark_zkafka.model.topic_names import RULE, describe_bad_names, is_topic_name, shown_name
from tests.support.cases import each


@each("name", ["a", "0", "A.b_c-9", "...", "-", "__consumer_offsets", "x" * 249, "x" * 255])
def test_allowed(name: str) -> None:
    """Letters, digits, dots, underscores and hyphens, up to 255 of them: as many as Kafka before 0.10 allowed."""
    assert is_topic_name(name)


@each("name", ["", ".", "..", "x" * 256, "a b", "a/b", "a\0b", "a,b", "a\n", "\u00e4", "\u0663", "\ud800", "a:b"])
def test_not_allowed(name: str) -> None:
    """Nothing else, and neither of the two names that a folder cannot have."""
    assert not is_topic_name(name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\0b", r"'a\x00b'"),
        ("\udcff\ud800", r"'\udcff\ud800'"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 60}'... (61 characters)"),
    ],
)
def test_shown(name: str, shown: str) -> None:
    """A name is shown in quotes and escaped, and of a long one its beginning and its length."""
    assert shown_name(name) == shown


def test_description() -> None:
    """Only the bad ones of some names are described, the first five of them."""
    assert describe_bad_names("subscribe", ["a", "b"]) is None
    assert describe_bad_names("subscribe", ["a", "."]) == f"subscribe names the topic '.'; {RULE}; correct it"
    many = describe_bad_names("subscribe", [f"{n}/" for n in range(7)])
    assert many is not None
    assert many.startswith("subscribe names the topics '0/', '1/', '2/', '3/', '4/' and 2 more; ")
