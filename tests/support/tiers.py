"""Parameters of tests that `make test` leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

__all__ = ["seldom"]


def seldom(*cases: Any) -> list[ParameterSet]:
    """Mark cases of a parametrization as `long`: cases that can fail alone, but rarely do.

    Examples
    --------
    ::

        @pytest.mark.parametrize("size", [1000, *seldom(0, 100, 5000)])
    """
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long) for case in cases]
