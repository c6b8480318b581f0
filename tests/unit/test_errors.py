"""The error tree: texts, parameters, pickling, and its documentation."""

from __future__ import annotations

import pickle
import re

import pytest

from pyspark_zkafka import errors
from pyspark_zkafka.errors import CodecError, DataLoss, ZKafkaError


def family(kind: type[ZKafkaError]) -> list[type[ZKafkaError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in family(child))]


FAMILY = [kind for kind in family(ZKafkaError) if kind.__module__ == errors.__name__]
PLAIN = [kind for kind in FAMILY if kind is not CodecError]


def drawn() -> dict[str, tuple[int, bool]]:
    """Return depth and retriability of each class as drawn in the module's docstring."""
    lines = [re.match(r"    ([ │├└─]*)(\w+)(.*)", line) for line in (errors.__doc__ or "").splitlines()]
    return {m[2]: (len(m[1]) // 4, "(retriable)" in m[3]) for m in lines if m and m[2][0].isupper()}


@pytest.mark.parametrize("kind", PLAIN)
def test_error_survives_pickling(kind: type[ZKafkaError]) -> None:
    """Every error keeps its class, condition, text and parameters when pickled."""
    error = kind("SOME_CONDITION", "it broke; found 3; mend it", partition=3, names=["a"])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert copy.condition == "SOME_CONDITION"
    assert copy.message == "it broke; found 3; mend it"
    assert copy.parameters == {"partition": 3, "names": ["a"]}
    assert str(copy) == str(error) == "[SOME_CONDITION] it broke; found 3; mend it"


@pytest.mark.parametrize("data", [None, b"", b"{", b"x" * 500])
def test_codec_error_survives_pickling(data: bytes | None) -> None:
    """A codec error, which is created from path, bytes and expectation, is the same after pickling."""
    error = CodecError("/controller", data, "a JSON object")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is CodecError
    assert copy.condition == "MALFORMED_ZNODE"
    assert copy.parameters == {"path": "/controller", "data": data, "expected": "a JSON object"}
    assert str(copy) == str(error)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, "found no data, expected"),
        (b"", "found b'', expected"),
        (b"x" * 120, f"found {b'x' * 120!r}, expected"),
        (b"x" * 121, f"found {b'x' * 120!r}... (121 bytes), expected"),
        (b"\xff\n", r"found b'\xff\n', expected"),
    ],
)
def test_codec_error_quotes_at_most_120_bytes(data: bytes | None, shown: str) -> None:
    """The text quotes path and data, which is shortened and shown with its size."""
    text = str(CodecError("/brokers/ids/1", data, "an integer"))
    assert text.startswith("[MALFORMED_ZNODE] Znode /brokers/ids/1 cannot be read: ")
    assert shown in text


def test_all_names_every_class() -> None:
    """`__all__` contains exactly the classes of the tree, sorted."""
    assert errors.__all__ == sorted(kind.__name__ for kind in FAMILY)


def test_docstring_draws_the_tree() -> None:
    """The drawing in the docstring has every class at its depth, and marks the retriable ones."""
    truth = {kind.__name__: (len(kind.__mro__) - len(ZKafkaError.__mro__), kind.retriable) for kind in FAMILY}
    assert drawn() == truth


def test_every_class_says_what_it_means() -> None:
    """Each class has its own docstring."""
    assert [kind.__name__ for kind in FAMILY if not vars(kind).get("__doc__")] == []


def test_parameters_may_be_none() -> None:
    """An error needs no parameters."""
    assert pickle.loads(pickle.dumps(DataLoss("DATA_LOSS", "gone"))).parameters == {}
