"""Wait until a condition is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark_zkafka.testing.processes import Wait

__all__ = ["eventually"]

_Found = TypeVar("_Found")


def eventually(
    probe: Callable[[], _Found],
    timeout_s: float = 30,
    message: str | Callable[[], object] = "the condition did not come true",
    poll_s: float = 0.02,
) -> _Found:
    """Return the first truthy result of a probe, which is called at least once; errors of the probe pass through.

    Parameters
    ----------
    message : str or callable
        The text of the failure; a callable is called after the time-out, and its result is shown.

    Raises
    ------
    AssertionError
        The probe's results were falsy until `timeout_s` had passed.

    Examples
    --------
    ::

        eventually(lambda: group.owners() == {0: "c1"}, timeout_s=10, message=group.owners)
    """
    found = Wait(timeout_s, poll_s=poll_s).until(probe)
    if found is None:
        shown = message() if callable(message) else message
        raise AssertionError(f"after {timeout_s:g} s: {shown}")
    return found
