"""``zkafka topics produce``: records from lines."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from io import BytesIO

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.rows import check_columns
from pyspark_zkafka.tools.topic_records import interrupted_afterwards, make_batch, read_lines


@pytest.mark.parametrize(
    ("arrived", "expected"),
    [
        ([], []),
        ([b"a\nb\n"], [[b"a", b"b"]]),
        ([b"a\nb"], [[b"a"], [b"b"]]),
        ([b"a", b"b\nc", b"\n"], [[b"ab"], [b"c"]]),
        ([b"\n\n"], [[b"", b""]]),
        ([b"a\r\n\r\nb\rc\r", b"\nd\r"], [[b"a", b""], [b"b\rc"], [b"d"]]),
    ],
)
def test_lines(arrived: list[bytes], expected: list[list[bytes]]) -> None:
    """Lines are yielded once they are complete. The last one may lack its line break, LF or CRLF. Bytes stay unchanged."""
    pieces = iter(arrived)
    assert list(read_lines(lambda size: next(pieces, b""))) == expected


def test_a_long_input() -> None:
    """Lines are complete even if they were read in several pieces."""
    lines = [b"%d" % n * 10 for n in range(300_000)]
    source = BytesIO(b"\n".join(lines))
    assert [line for part in read_lines(source.read1) for line in part] == lines


def test_records() -> None:
    """A line is a value, or a key and a value, and all records have the same headers and partition."""
    (plain,) = make_batch([b"a"], 0, None, [], None, empty_as_null=False).to_pylist()
    assert plain == {"key": None, "value": b"a", "partition": None, "headers": None}
    batch = make_batch([b"k:a:b", b":", b"x:"], 0, b":", [("h", b"1")], 3, empty_as_null=False)
    check_columns(batch.schema, "t")
    assert [(r["key"], r["value"]) for r in batch.to_pylist()] == [(b"k", b"a:b"), (b"", b""), (b"x", b"")]
    assert all(r["partition"] == 3 and r["headers"] == [{"key": "h", "value": b"1"}] for r in batch.to_pylist())


def test_empty_as_null() -> None:
    """Empty keys and values become null if requested, as tombstones require."""
    batch = make_batch([b"k:", b":v", b":"], 0, b":", [], None, empty_as_null=True)
    assert [(r["key"], r["value"]) for r in batch.to_pylist()] == [(b"k", None), (None, b"v"), (None, None)]
    assert make_batch([b""], 0, None, [], None, empty_as_null=True).to_pylist()[0]["value"] is None


def test_line_without_a_separator() -> None:
    """The error for a line without a separator has the line's number in the whole input."""
    with pytest.raises(OptionError, match="Line 12 has no key separator '::'; 10 records before it are written"):
        make_batch([b"a::b", b"a:b"], 10, b"::", [], None, empty_as_null=False)


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """Python's handler of Ctrl-C, as in a command: Spark's session replaces it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_sending(presses: int) -> None:
    """Ctrl-C waits for the records that are being sent, and a second one does not."""
    acknowledged = False

    def send() -> None:
        nonlocal acknowledged
        with interrupted_afterwards():
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
            acknowledged = True

    with pytest.raises(KeyboardInterrupt):
        send()
    assert acknowledged == (presses == 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_ctrl_c() -> None:
    """SIGINT stays ignored where it was ignored before, as in a shell's background jobs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupted_afterwards():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
