"""Parameters of the exporter."""

from __future__ import annotations

import pytest

from pyspark_zkafka.cli.exporter import parse_address, parse_selection
from pyspark_zkafka.errors import OptionError


@pytest.mark.parametrize("text", ["9308x", ":", ":99999", "::1:9308", "host", ":-1"])
def test_malformed_addresses(text: str) -> None:
    """An address that is none is a wrong option, which the error quotes."""
    with pytest.raises(OptionError, match=r"--listen-address is .*; use HOST:PORT"):
        parse_address(text)


def test_a_malformed_filter() -> None:
    """A malformed regex is a wrong option, which the error names."""
    with pytest.raises(OptionError, match=r"--group-filter is .*, which is no regular expression"):
        parse_selection("orders", "(")


def test_filters_find_a_part_of_the_name() -> None:
    """As with kafka_exporter, a filter matches anywhere in the name, and everything by default."""
    selection = parse_selection("", "^bill")
    assert selection.topics.search("orders")
    assert selection.groups.search("billing")
    assert not selection.groups.search("rebilling")
