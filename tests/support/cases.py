"""Many cases of one check, as one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run one test for all cases of a table; its failure names every failed case.

    Use ``pytest.mark.parametrize`` instead if the cases check different behaviour or need their own fixtures. An id for
    each case costs time in every process that collects the tests.
    """
    named = (names,) if isinstance(names, str) else names
    given_cases = list(cases)
    if any(isinstance(case, ParameterSet) for case in given_cases):
        raise TypeError("cases of `each` are plain values; pytest.param has ids and marks, which one test cannot have")
    rows = [(case,) if isinstance(names, str) else tuple(case) for case in given_cases]
    if not rows:
        raise ValueError(f"no cases of {', '.join(named)}")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        others = signature.replace(parameters=[p for name, p in signature.parameters.items() if name not in named])

        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            given = others.bind(*args, **kwargs).arguments
            failed, first = [], None
            for row in rows:
                try:
                    test(**given, **dict(zip(named, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - collected, and raised below
                    first = first or error
                    case = ", ".join(f"{name}={shown(value)}" for name, value in zip(named, row, strict=True))
                    failed.append(f"{case}: {type(error).__name__}: {error}")
            if failed:
                raise AssertionError("\n".join([f"{len(failed)} of {len(rows)} cases failed:", *failed])) from first

        run.__signature__ = others  # type: ignore[attr-defined]
        return run

    return decorate


def shown(value: object) -> str:
    """Return a case's value on one line of bounded length."""
    text = getattr(value, "__name__", None) or ascii(value)
    return text if len(text) <= 200 else f"{text[:150]}... ({len(text)} characters)"
