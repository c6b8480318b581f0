"""Files of offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.znodes.groups import LegacyPartition
from pyspark_zkafka.tools.offset_files import OffsetLine, csv_text, parse_offsets_file, zk_text

T0 = TopicPartition("t", 0)

# Characters that ZooKeeper allows in a path, including those with a meaning in one of the two formats.
GROUPS = st.text(st.sampled_from("abz.-_:, \"'ü\u2028\u00a0"), min_size=1).filter(lambda name: name not in (".", ".."))
TOPICS = st.text(st.sampled_from("abz.-_"), min_size=1).filter(lambda name: name not in (".", ".."))
MODERN = st.builds(TopicPartition, TOPICS, st.integers(0, 10**6))
LEGACY = st.builds(LegacyPartition, TOPICS, st.integers(0, 100), st.integers(0, 100))


@given(st.dictionaries(st.tuples(GROUPS, MODERN | LEGACY), st.integers(0, 2**63 - 1), min_size=1))
def test_lines_of_znodes_round_trip(offsets: dict[tuple[str, TopicPartition | LegacyPartition], int]) -> None:
    """Exported lines of znodes are imported unchanged, with any group names and with partitions of Kafka 0.7."""
    exported = [OffsetLine(group, partition, offset) for (group, partition), offset in offsets.items()]
    assert parse_offsets_file("f", zk_text(exported)) == exported


@given(st.dictionaries(st.tuples(GROUPS, MODERN), st.integers(0, 2**63 - 1), min_size=1))
def test_csv_round_trips(offsets: dict[tuple[str, TopicPartition], int]) -> None:
    """Exported CSV with a column for the group is imported unchanged."""
    exported = [OffsetLine(group, partition, offset) for (group, partition), offset in offsets.items()]
    assert parse_offsets_file("f", csv_text(exported, with_group=True)) == exported


def test_three_columns() -> None:
    """Lines without a group belong to the given group, and quotes, a header and Windows line ends are accepted."""
    text = '\ufefftopic,partition,offset\r\n"t",0,7\r\n\r\n t2 , 1 , 8\r\n'
    found = [OffsetLine("g", T0, 7), OffsetLine("g", TopicPartition("t2", 1), 8)]
    assert parse_offsets_file("f", text, "g") == found


def test_blanks_of_group_names() -> None:
    """Blanks belong to a group's name, as for kafka-consumer-groups, but not to other cells."""
    found = parse_offsets_file("f", ' g ,t , 0, 7\r\n"g ",t,0,8 \n')
    assert found == [OffsetLine(" g ", T0, 7), OffsetLine("g ", T0, 8)]
    with pytest.raises(OptionError, match="it is of group ' g', not 'g'"):
        parse_offsets_file("f", " g,t,0,1\n", "g")


def test_lines_after_an_empty_one_count() -> None:
    """Lines after an empty line are read, although ImportZkOffsets drops them silently."""
    text = "/consumers/g/offsets/t/0:1\n\n/consumers/g/offsets/t/1:2\n"
    assert len(parse_offsets_file("f", text)) == 2


def test_negative_offsets() -> None:
    """An offset of -1 is read like any other, and commands decide its meaning."""
    assert parse_offsets_file("f", "/consumers/g/offsets/t/0:-1\n") == [OffsetLine("g", T0, -1)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("/consumers/g/offsets/t/0\n", "line 1"),
        ("/consumers/g/owners/t/0:1\n", "line 1"),
        ("/consumers/g/offsets/t/x:1\n", "line 1: 'x' is not a partition"),
        ("/consumers/g/offsets/t/0:1x\n", "line 1: '1x' is not an offset"),
        ("/consumers/g/offsets/t/0:9223372036854775808\n", "is not an offset"),
        ("/consumers/../offsets/t/0:1\n", "cannot be the name of a group"),
        ("/consumers/g/offsets/t t/0:1\n", "not valid for a topic"),
        ("/consumers/g/offsets/t/0:1\n/consumers/g/offsets/t/0:2\n", "line 2: another line has offset 1"),
        ("/consumers/g/offsets/t/0:1\ng,t,0,1\n", "line 2"),
        ("g,t,0,1\nt,0,1\n", "line 2: it names no group; give --group"),
        ("g,t,0\n", "names no group"),
        ("g,t,0,1,2\n", "5 columns"),
        ("g,t,-1,1\n", "'-1' is not a partition"),
        ("g,t,0,\n", "'' is not an offset"),
        (f"g,t,0,1\n{'x' * 200_000}\n", "line 2: it is not CSV"),
    ],
)
def test_malformed_files(text: str, problem: str) -> None:
    """Each line that cannot be used is reported by number with the reason."""
    with pytest.raises(OptionError, match=r"INVALID_OFFSETS_FILE.*cannot be used") as raised:
        parse_offsets_file("f", text)
    assert problem in str(raised.value)


def test_all_problems_at_once() -> None:
    """All lines are checked before the error is raised."""
    with pytest.raises(OptionError, match=r"line 1: .*; line 3: "):
        parse_offsets_file("f", "g,t,x,1\ng,t,0,1\ng,t,0,x\n")


@pytest.mark.parametrize("line", ["h,t,0,1\n", "/consumers/h/offsets/t/0:1\n"])
def test_another_group(line: str) -> None:
    """A line of another group than the given one is an error in either format."""
    with pytest.raises(OptionError, match="it is of group 'h', not 'g'"):
        parse_offsets_file("f", line, "g")
