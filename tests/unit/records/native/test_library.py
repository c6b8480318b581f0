"""Which path is used, and what is said where the compiled one cannot be."""

from __future__ import annotations

import ctypes
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.planning import Listener
from pyspark_zkafka.options.values import ConnectionOptions, Transport
from pyspark_zkafka.records import producer
from pyspark_zkafka.records import select as choice
from pyspark_zkafka.records.native import library

PURE = "pure Python is used"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget what was loaded, before and after the test."""
    library.load.cache_clear()
    yield
    library.load.cache_clear()


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that was installed without a compiler."""
    monkeypatch.setattr(library, "built", lambda: None)


@pytest.fixture
def bound_to(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has the compiled path find librdkafka's functions in another library, or in none."""

    def bind(path: str | None) -> None:
        monkeypatch.setattr(library, "find_spec", lambda name: SimpleNamespace(origin=path))

    return bind


def connection(transport: Transport) -> ConnectionOptions:
    return ConnectionOptions(None, "b:9092", Listener(), {}, transport)


def assert_unused(reason: str) -> None:
    """The reason for pure Python is logged, and is in the error if the compiled path is required."""
    assert library.library() is None
    assert reason in library.describe()
    assert PURE in library.describe()
    with pytest.raises(OptionError) as caught:
        library.require()
    assert caught.value.condition == "NO_NATIVE_PATH"
    assert caught.value.message.startswith("The compiled path is required, but ")
    assert reason in caught.value.message
    assert "leave transport at auto" in caught.value.message


def test_there() -> None:
    """Where it was built, it is used, with the librdkafka that confluent-kafka uses."""
    import confluent_kafka

    assert library.describe() == f"the compiled path is used, with librdkafka {confluent_kafka.libversion()[0]}"
    assert library.require() is library.library()


def test_same_librdkafka() -> None:
    """It is the very library that confluent-kafka has loaded: there is one in the process."""
    code = (
        "import confluent_kafka; from pyspark_zkafka.records.native.library import require; require(); "
        "print(len({l.split()[-1] for l in open('/proc/self/maps') if 'librdkafka' in l}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@pytest.mark.usefixtures("absent")
def test_not_built() -> None:
    """Without a compiler there is no library, and the reason says so."""
    assert_unused("the compiled path was not built when the package was installed")


def test_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library lies beside its module, under one of the names that builds give it."""
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert library.built() is None
    (tmp_path / "_arrow_path.so").touch()
    assert library.built() == tmp_path / "_arrow_path.so"
    (tmp_path / "_arrow_path.abi3.so").touch()
    assert library.built() == tmp_path / "_arrow_path.abi3.so"


def test_path_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that cannot be opened is named, with the loader's reason."""
    monkeypatch.setattr(library, "built", lambda: tmp_path / "gone.so")
    assert_unused("the compiled path cannot be loaded (")
    assert "gone.so: cannot open shared object file" in library.describe()


def test_file_that_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a file that is something else, e.g. for another processor."""
    (tmp_path / "_arrow_path.so").write_bytes(b"\x7fELF nonsense")
    monkeypatch.setattr(library, "built", lambda: tmp_path / "_arrow_path.so")
    assert_unused("the compiled path cannot be loaded (")


def test_library_without_our_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a library that has not our functions."""
    monkeypatch.setattr(library, "built", lambda: Path("libc.so.6"))
    assert_unused("undefined symbol: zkafka_")


def test_wrong_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of another version of the package is not called."""
    monkeypatch.setattr(library, "INTERFACE", 0)
    assert_unused("belongs to another version of this package")


def test_librdkafka_without_a_function(bound_to: Any) -> None:
    """A librdkafka that lacks a function is not used, and the function is named."""
    bound_to("libc.so.6")
    assert_unused("cannot use confluent-kafka's librdkafka (it has no function rd_kafka_version_str)")


def test_librdkafka_that_cannot_be_opened(bound_to: Any) -> None:
    """One that cannot be opened is not used, for the loader's reason."""
    bound_to("/no/such/librdkafka.so")
    assert_unused("(/no/such/librdkafka.so: cannot open shared object file")


def test_confluent_kafka_without_a_compiled_module(bound_to: Any) -> None:
    """A confluent-kafka that brings no library is not used."""
    bound_to(None)
    assert_unused("(confluent-kafka has no compiled module)")


@pytest.mark.parametrize(("version", "good"), [("1.5.3", False), ("1.6.0", True), ("2.99.1-rc1", True), ("3.0.0", False)])
def test_versions_of_librdkafka(monkeypatch: pytest.MonkeyPatch, version: str, good: bool) -> None:
    """Only versions whose functions are known are used."""
    c_functions = library.c_functions

    def of_version(path: Path) -> Any:
        functions = c_functions(path)
        functions.librdkafka_version = version.encode
        return functions

    monkeypatch.setattr(library, "c_functions", of_version)
    if good:
        assert library.describe() == f"the compiled path is used, with librdkafka {version}"
    else:
        assert_unused(f"(its version {version} is not from 1.6 to before 3.0)")


def test_failure_to_bind_keeps_what_was_bound() -> None:
    """A library that lacks functions does not affect the library in use."""
    functions = library.require()
    why = ctypes.create_string_buffer(512)
    assert not functions.bind(b"libc.so.6", why, 512)
    assert why.value == b"it has no function rd_kafka_version_str"
    assert functions.librdkafka_version()


def test_reason_that_is_cut_off() -> None:
    """A reason is cut to the room that there is for it."""
    why = ctypes.create_string_buffer(512)
    why[8] = b"!"
    assert not library.require().bind(b"libc.so.6", why, 8)
    assert (why.value, why[8]) == (b"it has ", b"!")


class FakeProducer:
    """A producer that sends nothing."""

    def __init__(self, properties: Mapping[str, Any], make_sender: Any) -> None:
        self.make_sender = make_sender

    def __enter__(self) -> FakeProducer:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def counting(self) -> AbstractContextManager[None]:
        return nullcontext()


class TestChoice:
    """The option transport."""

    def test_auto(self) -> None:
        """Left alone, it is the compiled path where that is there."""
        assert choice.uses_native(connection("auto"))

    @pytest.mark.usefixtures("absent")
    def test_auto_where_it_is_absent(self, caplog: pytest.LogCaptureFixture) -> None:
        """Else it is pure Python, and the log says why."""
        with caplog.at_level(logging.INFO):
            assert not choice.uses_native(connection("auto"))
        assert "was not built when the package was installed: pure Python is used" in caplog.text

    def test_python(self, caplog: pytest.LogCaptureFixture) -> None:
        """With python it is pure Python, though the other is there."""
        with caplog.at_level(logging.INFO):
            assert not choice.uses_native(connection("librdkafka"))
        assert "transport=librdkafka: pure Python is used" in caplog.text

    def test_direct(self) -> None:
        """With direct it is the compiled path."""
        assert choice.uses_native(connection("direct"))

    @pytest.mark.usefixtures("absent")
    def test_direct_where_it_is_absent(self) -> None:
        """With direct where it is not there, it is an error that says what to do."""
        with pytest.raises(OptionError, match=r"\[NO_NATIVE_PATH\] The compiled path is .* Install from a wheel"):
            choice.uses_native(connection("direct"))

    def test_senders(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The path determines senders and hashes."""
        from pyspark_zkafka.model.key_hashes import hash_keys as python
        from pyspark_zkafka.records.direct.sender import DirectSender
        from pyspark_zkafka.records.librdkafka_sender import MessageSender
        from pyspark_zkafka.records.native.hashes import hash_keys as compiled

        monkeypatch.setattr(producer, "CountingProducer", FakeProducer)
        paths: tuple[tuple[Transport, Any, Any], ...]
        paths = ("direct", DirectSender, compiled), ("librdkafka", MessageSender, python)
        for transport, sender, hashes in paths:
            how = connection(transport)
            with choice.open_producer(how, {"bootstrap.servers": "127.0.0.1:1"}) as opened:
                assert opened.make_sender is sender
            assert choice.hash_function(how) is hashes


def test_settings() -> None:
    """Properties become name, value, name, value, null, in their order, as texts in UTF-8."""
    found = library.settings_array({"a": 1, "b": True, "c": "\u00e4"})
    assert list(found) == [b"a", b"1", b"b", b"True", b"c", "\u00e4".encode(), None]


def test_structs_are_as_large_as_in_c(tmp_path: Path) -> None:
    """The structs that Python reads have the sizes that the C compiler gives them."""
    names = {"report": library.Report, "decoded": library.Decoded, "flaws": library.Flaws}
    names |= {"counts": library.CCounts, "failure": library.CFailure, "error": library.TransactionError}
    sizes = "".join(f'printf("%zu ", sizeof(struct zkafka_{name}));' for name in names)
    source = f'#include "zkafka.h"\n#include <stdio.h>\nint main(void) {{ {sizes} return ZKAFKA_INTERFACE; }}'
    (tmp_path / "sizes.c").write_text(source)
    include = f"-I{Path(library.__file__).parent}"
    subprocess.run(["cc", include, "-o", tmp_path / "sizes", tmp_path / "sizes.c"], check=True)
    done = subprocess.run([str(tmp_path / "sizes")], capture_output=True, text=True, check=False)
    assert list(map(int, done.stdout.split())) == [ctypes.sizeof(kind) for kind in names.values()]
    assert done.returncode == library.INTERFACE
