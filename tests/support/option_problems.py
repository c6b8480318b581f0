"""The problems that a parser of options reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from pyspark_zkafka.errors import OptionError


def problems(parse: Callable[[Mapping[str, str]], object], options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the problems with some options."""
    with pytest.raises(OptionError) as caught:
        parse(options)
    assert caught.value.condition == "INVALID_OPTIONS"
    found: tuple[str, ...] = caught.value.parameters["problems"]
    return found


def only_problem(parse: Callable[[Mapping[str, str]], object], options: Mapping[str, str]) -> str:
    """Return the only problem with some options."""
    (problem,) = problems(parse, options)
    return problem
