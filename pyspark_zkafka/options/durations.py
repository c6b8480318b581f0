"""Lengths of time as Spark's users write them."""

from __future__ import annotations

import re

__all__ = ["parse_duration_ms"]

_MICROSECONDS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("", "ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("week", "weeks"), 604_800_000_000),
}
_EXPECTED = (
    'a duration such as 15m, 10s, 500ms or "1 hour 30 minutes": whole numbers of us, ms, s, m (or min), h, d or the whole '
    "words, up to weeks; a number alone is milliseconds"
)


def parse_duration_ms(text: str) -> int:
    """A duration in milliseconds, rounded down.

    Accepts the suffixes of Spark's configuration, the words of its interval strings, and several of them in a row, in any
    case of letters.

    >>> parse_duration_ms("15m"), parse_duration_ms("1 hour 30 minutes"), parse_duration_ms("250")
    (900000, 5400000, 250)

    Raises
    ------
    ValueError
        With what was expected.

    References
    ----------
    org.apache.spark.network.util.JavaUtils.timeStringAs, Spark 4.2.
    """
    words = re.sub(r"^interval\s+", "", text.strip().lower())
    parts = re.findall(r"([0-9]+)\s*([a-z]*)\s*", words)
    well_formed = re.fullmatch(r"[0-9]{1,18}|([0-9]{1,18}\s*[a-z]+\s*)+", words)
    if not well_formed or any(unit not in _MICROSECONDS for _, unit in parts):
        raise ValueError(_EXPECTED)
    return sum(int(number) * _MICROSECONDS[unit] for number, unit in parts) // 1_000
