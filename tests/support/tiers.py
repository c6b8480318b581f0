"""Parameters and repetitions of tests that `make test` leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

__all__ = ["repetitions", "seldom"]


def seldom(*cases: Any) -> list[ParameterSet]:
    """Mark cases of a parametrization as `long`: cases that can fail alone, but rarely do.

    Examples
    --------
    ::

        @pytest.mark.parametrize("size", [1000, *seldom(0, 100, 5000)])
    """
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long) for case in cases]


def repetitions(most: int, everyday: int = 40) -> int:
    """Return how many schedules or examples a test tries: `most` of them in `make test-all`, fewer in `make test`.

    Examples
    --------
    ::

        @settings(max_examples=repetitions(250))
    """
    return everyday if settings.get_current_profile_name() == "everyday" else most
