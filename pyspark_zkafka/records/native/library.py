"""Loads the compiled code, and converts arguments of its functions."""

from __future__ import annotations

import ctypes
import sysconfig
from ctypes import (
    POINTER,
    Structure,
    addressof,
    c_bool,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint64,
    c_void_p,
    create_string_buffer,
)
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from pyspark_zkafka.conditions import NO_NATIVE_PATH
from pyspark_zkafka.model.topic_names import require_topic_name

INTERFACE = 12
"""The ZKAFKA_INTERFACE of `zkafka.h` that this module calls."""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ARRAY_BYTES = 80  # sizeof(struct ArrowArray)


class Flaws(Structure):
    """`zkafka_flaws`: for each column, the offset of the first record that Spark cannot represent, or -1."""

    _fields_ = tuple(
        (name, c_int64)
        for name in ("key_not_utf8", "value_not_utf8", "timestamp_too_large", "timestamp_ms", "header_not_utf8")
    )


class FedBatches(Structure):
    """`zkafka_fed`: the complete, readable batches at the start of a response.

    `malformed` is nonzero if the next batch has an impossible length, `exhausted` if the response has no complete batch.
    Offsets and epoch are -1 without a batch.
    """

    _fields_ = (
        *((name, c_int64) for name in ("size", "first_offset", "next_offset")),
        *((name, c_int32) for name in ("last_epoch", "malformed", "exhausted")),
    )


class Decoded(Structure):
    """`zkafka_decoded`: the result of decoding record batches."""

    _fields_ = (
        *((name, c_int64) for name in ("records", "bytes", "first")),
        *((name, c_int32) for name in ("unordered", "exhausted", "magic")),
        *((name, c_int64) for name in ("batch", "position")),
        ("codec", c_int32),
        *((name, c_int64) for name in ("begin", "end")),
    )


class OpenBatch(Structure):
    """`zkafka_open_batch`: a record batch that rows are appended to."""

    _fields_ = (
        ("data", c_void_p),
        *((name, c_int64) for name in ("capacity", "used", "records", "base_timestamp_ms", "max_timestamp_ms", "needed")),
    )


class AvroProgram(Structure):
    """`zkafka_avro_program` and `zkafka_avro_encoding`: the addresses of a program's parts, and the number of columns."""

    _fields_ = (*((name, c_void_p) for name in ("nodes", "links", "columns", "constants")), ("column_count", c_int32))


_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "interface": (c_int, ()),
    "decoder_new": (c_void_p, (c_char_p, c_int32)),
    "decoder_close": (None, (c_void_p,)),
    "decoder_project": (c_bool, (c_void_p, POINTER(c_int32), POINTER(c_int32), c_int32)),
    "decoder_seek": (None, (c_void_p, c_int64)),
    "decoder_feed": (
        c_bool,
        (c_void_p, c_void_p, c_int64, POINTER(c_int64), POINTER(c_int64), c_int64, POINTER(FedBatches)),
    ),
    "decoder_decode": (
        c_int32,
        (c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_int64, c_int64, c_int64, POINTER(Decoded)),
    ),
    "decoder_take": (c_bool, (c_void_p, c_void_p, POINTER(Flaws))),
    "encode": (
        c_int64,
        (POINTER(OpenBatch), c_void_p, c_int64, c_void_p, c_int32, c_void_p, c_int32, c_void_p, c_void_p, c_int64),
    ),
    "encode_again": (c_int64, (POINTER(OpenBatch), c_void_p, c_int64, c_int64)),
    "close_batch": (None, (c_void_p, c_int64, c_int32, c_int64, c_int64, c_int64, c_int64, c_int32, c_int32)),
    "avro_decode": (c_int64, (POINTER(AvroProgram), c_void_p, c_int32, c_int64, c_void_p, c_void_p)),
    "avro_encode": (c_int32, (POINTER(AvroProgram), c_void_p, c_void_p, c_void_p)),
    "loans_new": (c_void_p, ()),
    "loans_close": (None, (c_void_p,)),
    "loans_count": (c_int64, (c_void_p,)),
    "lend": (c_bool, (c_void_p, c_void_p)),
    "hash": (c_bool, (c_int32, c_void_p, c_int32, c_void_p)),
    "hash_rows": (
        c_bool,
        (c_char_p, c_void_p, c_int32, c_void_p, c_int32, c_void_p, c_void_p, c_void_p, POINTER(c_uint64)),
    ),
}


def library() -> Any | None:
    """The functions of the compiled code, named without ``zkafka_``. None if it cannot be used (see `describe`).

    Each function releases the GIL while it runs.
    """
    return load()[0]


def describe() -> str:
    """One line that says whether the compiled code is used, and if not, why."""
    return load()[1]


def require() -> Any:
    """The functions of `library`. Raises OptionError (NO_NATIVE_PATH) with the reason if it cannot be used."""
    found, text = load()
    if found is None:
        raise NO_NATIVE_PATH(
            f"This needs the compiled code, but {text.partition(': pure Python')[0]}. Reinstall it with --force-reinstall "
            "--no-deps from a Linux wheel, or with a C compiler, on the driver and every executor, and start Spark outside "
            "the package's source tree. Only exactly-once writes, Avro, transport=direct and reads by Sail need it",
        )
    return found


@cache
def load() -> tuple[Any | None, str]:
    """Load the library once per process. Returns the results of `library` and `describe`."""
    path = built()
    if path is None:
        return None, f"the compiled code was not built {_place()}: pure Python is used"
    try:
        functions = c_functions(path)
    except (OSError, AttributeError) as error:
        return None, f"the compiled code cannot be loaded ({error}): pure Python is used"
    if functions.interface() != INTERFACE:
        return (
            None,
            f"{path.name} belongs to another version of this package: pure Python is used until you reinstall it",
        )
    return functions, "the compiled code is used"


def built() -> Path | None:
    """The shared library next to this module. None if it was not built."""
    folder = Path(__file__).parent
    suffixes = (".abi3.so", sysconfig.get_config_var("EXT_SUFFIX") or ".so", ".so")
    return next((path for s in suffixes if (path := folder / f"_arrow_path{s}").is_file()), None)


def is_unbuilt_source_tree() -> bool:
    """True in a source tree without the library. Python finds such a tree in its working folder before the package."""
    return built() is None and _is_source_tree()


def _is_source_tree() -> bool:
    return (Path(__file__).parent / "zkafka.h").is_file()  # an installed package has no headers


def _place() -> str:
    """Describe where the library is missing, for the text of `load`."""
    if _is_source_tree():
        return f"in the source tree {Path(__file__).parents[3]}, from which the package was imported"
    return "when the package was installed"


def c_functions(path: Path) -> Any:
    """The typed functions of a shared library. Raises OSError and AttributeError."""
    dll, functions = ctypes.CDLL(str(path)), SimpleNamespace()
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(dll, f"zkafka_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    return functions


def topic_argument(name: str) -> bytes:
    """A topic name as the argument of a C function. Raises InvalidRow for a name that C cannot hold."""
    require_topic_name(name)
    return name.encode()


def headers_argument(headers: pa.Array | None) -> pa.Array | None:
    """The headers of rows in the type that C expects."""
    return headers if headers is None or headers.type == _HEADERS else headers.cast(_HEADERS)


class CArray:
    """Memory of a ``struct ArrowArray``: empty for C to fill, or with an array for C to read. Releases the array."""

    def __init__(self) -> None:
        self._buffer: Any = create_string_buffer(_ARRAY_BYTES)
        self._filled: pa.DataType | None = None

    @classmethod
    def of(cls, array: pa.Array | None) -> CArray:
        """Export an array to pass to C. None becomes the null pointer."""
        made = cls()
        if array is None:
            made._buffer = None
        else:
            array._export_to_c(addressof(made._buffer))
            made._filled = array.type
        return made

    @property
    def address(self) -> int | None:
        """The address of the struct. None stands for the null pointer."""
        return None if self._buffer is None else addressof(self._buffer)

    @property
    def column(self) -> tuple[int | None, bool]:
        """The two arguments for a column of bytes or text: the address, and whether the offsets have 64 bits."""
        return self.address, self._filled in (pa.large_binary(), pa.large_string())

    def array(self, type: pa.DataType) -> pa.Array:
        """Import the array that C has filled in."""
        return pa.Array._import_from_c(self.address, type)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Import the batch that C has filled in."""
        return pa.RecordBatch._import_from_c(self.address, schema)

    def __del__(self) -> None:
        if self._filled is not None:
            pa.Array._import_from_c(self.address, self._filled)
