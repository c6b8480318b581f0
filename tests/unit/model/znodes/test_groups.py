"""Registrations, owners and offsets of consumer groups, in the formats of all versions."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import CodecError, OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes import groups

ONE = {"a": 1}
ACCEPTED = [
    (b'{"pattern":"static","subscription":{"a":1}}', groups.ConsumerRegistration(ONE)),
    (b'{"subscription":{"a":1},"x":[],"pattern":"static","timestamp":5}', groups.ConsumerRegistration(ONE, timestamp="5")),
    (b' {"subscription" : {"a" : 1} , "pattern" : "static"}\n', groups.ConsumerRegistration(ONE)),
    (b'{"version":1,"subscription":{"a":1},"pattern":"new"}', groups.ConsumerRegistration(ONE)),
    (b'{"subscription":{"a":1},"pattern":"static","assignor":7}', groups.ConsumerRegistration(ONE)),
    (b'{"version":1,"subscription":{},"pattern":"static"}', groups.ConsumerRegistration({})),
    (
        b'{"version":1,"subscription":{"a.*":1,"b.*":2},"pattern":"white_list"}',
        groups.ConsumerRegistration({"a.*": 1}, "white_list"),
    ),
    (b'{"version":1,"subscription":{"(":1},"pattern":"static"}', groups.ConsumerRegistration({"(": 1})),
    (
        b'{ "pattern":"static", "subscription":{ "a":1, "b":2 }, "timestamp":"7", "version":1 }',
        groups.ConsumerRegistration({"a": 1, "b": 2}, "static", "7"),
    ),
    (b'{ "a": 4,"b": 1 }', groups.ConsumerRegistration({"a": 4, "b": 1})),
    (b'{"a":4}', groups.ConsumerRegistration({"a": 4})),
    (b"*2*a.*", groups.ConsumerRegistration({"a.*": 2}, "white_list")),
    (b"!1!a|b", groups.ConsumerRegistration({"a|b": 1}, "black_list")),
]


@pytest.mark.parametrize(("data", "expected"), ACCEPTED)
def test_registrations_that_the_jvm_accepts(data: bytes, expected: groups.ConsumerRegistration) -> None:
    """Registrations that Kafka's 1.1.1 consumer accepts are accepted, and so are those of 0.8.0 and 0.7."""
    assert groups.decode_registration("/consumers/g/ids/c", data) == expected


@pytest.mark.parametrize("assignor", [None, "sticky"])
@pytest.mark.parametrize("timestamp", [None, "7"])
def test_encoded_registration(timestamp: str | None, assignor: str | None) -> None:
    """A registration is written as by consumers since 0.8.1, with the assignor after their keys, and can be read."""
    data = groups.encode_registration(groups.ConsumerRegistration({"ä": 2, "a": 1}, "static", timestamp, assignor))
    expected = '{"version":1,"subscription":{"ä":2,"a":1},"pattern":"static"'
    expected += "" if timestamp is None else ',"timestamp":"7"'
    expected += "" if assignor is None else ',"assignor":"sticky"'
    assert data.decode() == expected + "}"
    found = groups.decode_registration("/consumers/g/ids/c", data)
    assert found == groups.ConsumerRegistration({"ä": 2, "a": 1}, "static", timestamp, assignor)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\xff",
        b"peer-a",
        b"[]",
        b"{}",
        b'{"version":1}',
        b'{"version":1,"subscription":{"a":1},"timestamp":"1"}',
        b'{"version":1,"subscription":{"a":1},"pattern":null}',
        b'{"version":1,"subscription":{"a":1},"pattern":1}',
        b'{"version":1,"pattern":"static"}',
        b'{"version":1,"subscription":[],"pattern":"static"}',
        b'{"version":1,"subscription":{"a":1.0},"pattern":"static"}',
        b'{"version":1,"subscription":{"a":"1"},"pattern":"static"}',
        b'{"version":1,"subscription":{"a":0},"pattern":"static"}',
        b'{"version":1,"subscription":{"a":true},"pattern":"static"}',
        b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
        b'{"a":0}',
        b'{"a":{}}',
        b"*0*a",
        b"*2!a",
        b"*2*(",
        b"*9999999999*a",
    ],
)
def test_registrations_that_the_jvm_refuses(data: bytes | None) -> None:
    """Registrations that Kafka's 1.1.1 consumer refuses are errors with the znode's path and data, and the right form."""
    with pytest.raises(CodecError, match="/consumers/g/ids/c") as caught:
        groups.decode_registration("/consumers/g/ids/c", data)
    assert caught.value.parameters["data"] == data
    assert str(caught.value.parameters["expected"]).startswith("a consumer's registration: JSON such as {")


def test_registration_without_threads() -> None:
    """A topic without threads is refused, and the error says why."""
    with pytest.raises(CodecError) as caught:
        groups.decode_registration("/consumers/g/ids/c", b'{"version":1,"subscription":{"a":0},"pattern":"static"}')
    assert str(caught.value.parameters["expected"]).endswith(" (a number of threads is 1 or more)")


@pytest.mark.parametrize("data", [None, b"", b"\xff"])
def test_malformed_owners(data: bytes | None) -> None:
    """An owner without a thread, or one that is not UTF-8, is an error that names the znode."""
    with pytest.raises(CodecError, match=r"expected an owner: the id of a consumer's thread") as caught:
        groups.decode_owner("/some/path", data)
    assert (caught.value.parameters["path"], caught.value.parameters["data"]) == ("/some/path", data)


@pytest.mark.parametrize(
    ("data", "offset"),
    [(b"20", 20), (b"+7", 7), (b"007", 7), (b"-1", -1), (b"-0", 0), (b"9223372036854775807", 2**63 - 1)],
)
def test_offsets_that_java_parses(data: bytes, offset: int) -> None:
    """Offsets are parsed as by Long.parseLong."""
    assert groups.decode_offset("/o", data) == offset


@pytest.mark.parametrize(
    "data",
    [None, b"", b" 7", b"7 ", b"7\n", b"abc", b"7.0", b"1_0", b"0x1", b"+", b"--1", b"9223372036854775808", "٧".encode()],
)
def test_offsets_that_are_errors(data: bytes | None) -> None:
    """Blanks, fractions, more than 64 bits and non-Latin digits are errors that name the znode."""
    with pytest.raises(CodecError, match=r"Znode /o .*, expected an offset: a decimal number of 64 bits"):
        groups.decode_offset("/o", data)


def test_keys_of_owners_and_offsets_are_partitions_in_both_layouts() -> None:
    """A number is a partition, two numbers are a broker's partition of 0.7, and errors for other keys name the znode."""
    assert groups.parse_key("/x", "t", "12") == TopicPartition("t", 12)
    assert groups.parse_key("/x", "t", "3-12") == groups.LegacyPartition("t", 3, 12)
    for key in ("", "a", "-1", "01", "1-", "1-2-3", "9999999999", "\udc80"):
        with pytest.raises(CodecError, match=r"Znode /x .*, expected a partition, or broker-partition") as caught:
            groups.parse_key("/x", "t", key)
        assert caught.value.parameters["data"] == key.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("group", ["", ".", "..", "a/b", "a\0", "a\n", "a\x85", "\udcff", "\U0001f600"])
def test_group_that_cannot_name_a_znode(group: str) -> None:
    """A group whose name cannot be part of a path is refused."""
    with pytest.raises(
        OptionError, match=r"\[INVALID_GROUP\] The group name .* cannot be the name of a znode; use letters"
    ):
        groups.offsets_path(group)


@pytest.mark.parametrize(
    ("regex", "normal"),
    [
        ("a,b", "a|b"),
        (" a , b ", "a|b"),
        ("'a.*'", "a.*"),
        ('"\'a"', "a"),
        ("a'b", "a'b"),
        ("\ta\n", "a"),
        ("a\tb", "a\tb"),
        ("' a'", "a"),
        ("\x01a\x02", "a"),
        ("\u00a0a", "\u00a0a"),
        ("X'a'X", "X'a'X"),
    ],
)
def test_filters_are_normalised_as_the_consumer_does_it(regex: str, normal: str) -> None:
    """Commas become alternatives, and spaces, surrounding quotes and Java's blanks are dropped, as by the old consumer."""
    assert groups.normalise_filter(regex) == normal


def test_consumer_of_a_thread() -> None:
    """Names of consumers with dashes are found in recorded thread ids."""
    consumer = groups.generated_consumer_id("g-static1", "vm", 1795228857340, 0xA1264592_0123_4567)
    assert consumer == "g-static1_vm-1795228857340-a1264592"
    assert groups.thread_id(consumer, 10) == "g-static1_vm-1795228857340-a1264592-10"
    assert groups.consumer_of_thread(groups.thread_id(consumer, 10)) == consumer
    assert groups.consumer_of_thread("nodash") == "nodash"
