"""Times and durations as users write them: of Spark's configuration and intervals, of ISO 8601, and "10 minutes ago"."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from pyspark_zkafka.model.offsets import Ago, AtTimestamp

_ISO_DURATION_FORM = 'PnDTnHnMnS, such as P7D or PT1H30M, or words such as "90 minutes"'
_ISO_DURATION = re.compile(  # P and T must not be the last characters
    r"(?P<sign>[-+]?)P(?=.)(?:(?P<days>[-+]?[0-9]{1,12})D)?"
    r"(?:T(?=.)(?:(?P<hours>[-+]?[0-9]{1,12})H)?(?:(?P<minutes>[-+]?[0-9]{1,12})M)?"
    r"(?:(?P<seconds>[-+]?[0-9]{1,12}(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)
_DATETIME_FORM = "a time such as 2026-01-31T10:00:00Z or with +01:00 (without: UTC), a date (from 00:00 UTC)"
_DATETIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:(?<=:[0-9]{2}:[0-9]{2})\.(?P<fraction>[0-9]{1,9}))?"
    r"(?P<zone>Z|[-+][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_TIME_FORM = f'milliseconds since the epoch, {_DATETIME_FORM}, or "10 minutes ago"'
_AGO = re.compile(r"(?P<duration>.*[a-z])\s+ago", re.IGNORECASE | re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MAX_MS = 2**63 - 1

_MICROSECONDS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("", "ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("week", "weeks"), 604_800_000_000),
}
_DURATION_FORM = (
    'a duration such as 15m, 10s, 500ms or "1 hour 30 minutes": whole numbers of us, ms, s, m (or min), h, d or the whole '
    "words, up to weeks; a number alone is milliseconds"
)


def parse_duration_ms(text: str) -> int:
    """Return a duration in milliseconds, rounded down; raises ValueError with the expected form.

    Accepts the suffixes of Spark's configuration (JavaUtils.timeStringAs, Spark 4.2), the words of its interval strings,
    and several of them in a row, all case-insensitive.

    >>> parse_duration_ms("15m"), parse_duration_ms("1 hour 30 minutes"), parse_duration_ms("250")
    (900000, 5400000, 250)
    """
    words = re.sub(r"^interval\s+", "", text.strip().lower())
    parts = re.findall(r"([0-9]+)\s*([a-z]*)\s*", words)
    well_formed = re.fullmatch(r"[0-9]{1,18}|([0-9]{1,18}\s*[a-z]+\s*)+", words)
    if not well_formed or any(unit not in _MICROSECONDS for _, unit in parts):
        raise ValueError(_DURATION_FORM)
    return sum(int(number) * _MICROSECONDS[unit] for number, unit in parts) // 1_000


def parse_iso_duration_ms(text: str) -> int:
    """Return a duration in milliseconds; raises ValueError with the expected form.

    Accepts ``PnDTnHnMn.nS`` of ISO 8601, as Java's Duration reads it, and what `parse_duration_ms` accepts with a unit.

    >>> parse_iso_duration_ms("P1DT2H"), parse_iso_duration_ms("PT0.5S"), parse_iso_duration_ms("90 minutes")
    (93600000, 500, 5400000)
    """
    text = text.strip()
    if text.isdecimal():
        raise ValueError(_ISO_DURATION_FORM)
    match = _ISO_DURATION.fullmatch(text)
    if match is None:
        try:
            return parse_duration_ms(text)
        except ValueError:
            raise ValueError(_ISO_DURATION_FORM) from None
    parts = {name: match[name] for name in ("days", "hours", "minutes", "seconds") if match[name]}
    try:
        length = timedelta(**{name: float(number.replace(",", ".")) for name, number in parts.items()})
    except OverflowError:
        raise ValueError(f"{_ISO_DURATION_FORM}, of at most 999999999 days") from None
    return (length // timedelta(milliseconds=1)) * (-1 if match["sign"] == "-" else 1)


def parse_datetime_ms(text: str) -> int:
    """Return a time of ISO 8601 in milliseconds since the epoch; raises ValueError with the expected form.

    Without a zone, the time is in UTC, as for Kafka's tools. A date alone is its first moment in UTC.

    >>> parse_datetime_ms("2026-11-22T14:00:00.000"), parse_datetime_ms("2026-11-22T15:00:00+01:00")
    (1795356000000, 1795356000000)
    """
    match = _DATETIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)
        digits = (match["zone"] or "Z").replace("Z", "+").replace(":", "").ljust(5, "0")
        found = datetime.fromisoformat(f"{match['day']}T{match['time'] or '00:00'}{digits[:3]}:{digits[3:]}")
        ms = (found - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(_DATETIME_FORM) from None
    return ms + int((match["fraction"] or "0").ljust(3, "0")[:3])


def parse_time(text: str) -> AtTimestamp | Ago:
    """Return a point in time; raises ValueError with the expected forms.

    Accepts milliseconds since the epoch, what `parse_datetime_ms` accepts, and a duration with the word ``ago``.

    >>> parse_time("1700000000000"), parse_time("1970-01-02"), parse_time("1 hour 30 minutes ago")
    (AtTimestamp(timestamp_ms=1700000000000), AtTimestamp(timestamp_ms=86400000), Ago(ms=5400000))
    """
    text = text.strip()
    if re.fullmatch(r"[+]?[0-9]{1,18}", text):
        return AtTimestamp(int(text))
    try:
        if ago := _AGO.fullmatch(text):
            return Ago(min(parse_duration_ms(ago["duration"]), _MAX_MS))
        found_ms = parse_datetime_ms(text)
    except ValueError:
        raise ValueError(_TIME_FORM) from None
    if found_ms < 0:
        raise ValueError(f"{_TIME_FORM}, from 1970 on")
    return AtTimestamp(found_ms)
