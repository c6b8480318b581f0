"""The C code with a fake in librdkafka's place."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator

import pytest

from pyspark_zkafka.transport.native import library
from tests.native.scripts import HERE, Native, compile_c


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """The installed C code, in a copy with globals of its own, with the fake in librdkafka's place."""
    built = library.built()
    assert built is not None, "the compiled path is not built: pip install -e . with a C compiler"
    folder = tmp_path_factory.mktemp("native")
    fake = compile_c(folder / "fake.so", "-shared", "-fPIC", "-fvisibility=hidden", HERE / "fake_librdkafka.c")
    functions = library.c_functions(shutil.copy(built, folder / "copy.so"))
    why = ctypes.create_string_buffer(512)
    assert functions.bind(str(fake).encode(), why, 512), why.value
    found = Native(functions, ctypes.CDLL(str(fake)))
    yield found
    found.close()
