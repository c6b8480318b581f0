"""UTF-8 as the C code and Python's decoder see it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.native.scripts import Limits, Native, Record, assert_script, gathered
from tests.support.cases import each

_EDGES = """
00 7f 80 bf c080 c1bf c2 c280 c27f dfbf e08080 e09fbf e0a080 e0a0 ecbfbf ed9fbf eda080 edbfbf ee8080 efbfbf efbf f0808080
f08fbfbf f0908080 f09080 f3bfbfbf f48fbfbf f4908080 f5808080 f888808080 fe ff efbbbf c28080 e180c0 f18080ff
"""
EDGES = tuple(map(bytes.fromhex, _EDGES.split()))


def is_text(native: Native, texts: Sequence[bytes]) -> list[bool]:
    """What the C code takes for UTF-8."""
    schema, found = pa.schema([("value", pa.string())]), []
    for text in texts:
        [(_, batch)] = gathered(native, schema, [Record(5, None, text)], Limits())
        assert isinstance(batch, pa.RecordBatch) or "orders-3 at offset 5 is not UTF-8" in batch
        found.append(isinstance(batch, pa.RecordBatch))
    return found


def is_python_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def assert_texts(native: Native, texts: Sequence[bytes]) -> None:
    assert dict(zip(texts, is_text(native, texts), strict=True)) == {text: is_python_text(text) for text in texts}


@each("before", [b"", b"a", b"1234567", b"12345678", "\u00e4\u4e2d".encode()])
@each("behind", [b"", b"z", b"12345678"])
def test_edges_of_utf8(native: Native, before: bytes, behind: bytes) -> None:
    """Overlong forms, surrogates, what is beyond U+10FFFF and what is cut off are no UTF-8, wherever they are."""
    assert_texts(native, [before + edge + behind for edge in EDGES])


def test_all_pairs_of_bytes(native: Native) -> None:
    """Two bytes are UTF-8 where Python says so: a column of texts is rejected at the same record."""
    firsts = range(256)
    for first in (0x7F, 0x80, *range(0xC0, 0xE2), 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF):
        pairs = [bytes((first, second)) for second in firsts]
        good = [pair for pair in pairs if is_python_text(pair)]
        assert_script(
            native, pa.schema([("value", pa.string())]), [Record(n, None, t) for n, t in enumerate(good)], Limits()
        )
        assert_texts(native, random.Random(first).sample(pairs, 12))


MIXED = (
    st.binary(max_size=24)
    | st.lists(st.sampled_from(EDGES), max_size=5).map(b"".join)
    | st.text(max_size=12).map(str.encode)
)


@given(st.lists(MIXED, max_size=9))
def test_any_bytes_as_text(native: Native, texts: list[bytes]) -> None:
    """Bytes are UTF-8 where Python's decoder says so."""
    assert_texts(native, texts)
