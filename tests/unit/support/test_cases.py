"""Several cases of one check as a single test."""

from __future__ import annotations

import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each


def test_every_case_runs() -> None:
    """All cases are checked in order, even after a failure, and the error names exactly the failed cases."""
    seen = []

    @each(("number", "text"), [(1, "a"), (2, "b"), (3, "c" * 1000)])
    def check(number: int, text: str) -> None:
        seen.append(number)
        assert number == 2

    with pytest.raises(AssertionError) as caught:
        check()
    assert seen == [1, 2, 3]
    assert re.match(
        r"2 of 3 cases failed:\nnumber=1, text='a': AssertionError: assert 1 == 2\n"
        r"number=3, text='c{149}\.\.\. \(1002 characters\): AssertionError: assert 3 == 2$",
        str(caught.value),
    )
    assert isinstance(caught.value.__cause__, AssertionError)


def test_kinds_of_failures() -> None:
    """Errors fail a case like assertions do, and so do the failures that pytest raises."""

    @each("text", ["1", "x", None])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(AssertionError, match=r"2 of 3 cases failed:\ntext='1': Failed: DID NOT .*\ntext=None: TypeError: "):
        check()


def test_products() -> None:
    """Two tables give all pairs of their cases."""
    seen = []

    @each("letter", "ab")
    @each("number", [1, 2])
    def check(letter: str, number: int) -> None:
        seen.append((letter, number))

    check()
    assert seen == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


@given(letter=st.sampled_from("ab"))
@each("number", range(3))
def test_generated_examples(number: int, letter: str) -> None:
    """Hypothesis generates the other arguments once for all cases."""
    assert (letter in "ab", number in range(3)) == (True, True)


@each("number", range(3))
def test_fixtures(tmp_path: object, number: int) -> None:
    """Parameters that are not part of a case are fixtures."""
    assert tmp_path
    assert list(inspect.signature(test_fixtures).parameters) == ["tmp_path"]


def test_no_cases() -> None:
    """A test without cases is refused, since it would check nothing."""
    with pytest.raises(ValueError, match="no cases of number"):
        each("number", [])
