"""The choice between compiled code and pure Python, and its reasons."""

from __future__ import annotations

import ctypes
import logging
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.formats import avro, avro_encoder
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.model.planning import Listener, Split
from pyspark_zkafka.options.batch import parse_write
from pyspark_zkafka.options.values import ConnectionOptions, Transport
from pyspark_zkafka.records import select as choice
from pyspark_zkafka.records.native import library
from pyspark_zkafka.write.plan import plan_write

PURE = "pure Python is used"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget the loaded library before and after the test."""
    library.load.cache_clear()
    yield
    library.load.cache_clear()


@pytest.fixture
def absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package installed without a compiler."""
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))


def connection(transport: Transport) -> ConnectionOptions:
    return ConnectionOptions(None, "b:9092", Listener(), {}, transport)


def assert_unused(reason: str) -> None:
    """Check that the reason for pure Python is logged, and is in the error if the compiled code is required."""
    assert library.library() is None
    assert reason in library.describe()
    assert PURE in library.describe()
    with pytest.raises(OptionError) as caught:
        library.require()
    assert caught.value.condition == "NO_NATIVE_PATH"
    assert caught.value.message.startswith("This needs the compiled code, but ")
    assert reason in caught.value.message
    assert "Only exactly-once writes, Avro, transport=direct and reads by Sail need it" in caught.value.message
    assert PURE not in caught.value.message


def test_there() -> None:
    """A library that was built is used."""
    assert library.describe() == "the compiled code is used"
    assert library.require() is library.library()


@pytest.mark.usefixtures("absent")
def test_not_built() -> None:
    """Without a compiler there is no library, and the reason says so."""
    assert_unused("the compiled code was not built when the package was installed")


@pytest.fixture
def source_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree without a library, from which the package was imported."""
    folder = tmp_path / "pyspark_zkafka/records/native"
    folder.mkdir(parents=True)
    (folder / "zkafka.h").touch()
    monkeypatch.setattr(library, "__file__", str(folder / "library.py"))
    return tmp_path


def test_source_tree(source_tree: Path) -> None:
    """If the package was imported from a source tree without a library, the reason names the source tree."""
    assert_unused(f"not built in the source tree {source_tree}, from which the package was imported")


def test_warning_of_a_source_tree(source_tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A process that reads with a source tree's pure Python warns once, with the remedy, unless the user chose that."""
    choice.warn_of_source_tree.cache_clear()
    for transport in ("librdkafka", "auto", "auto"):
        assert not choice.uses_native(connection(transport))
    (warned,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert f"not built in the source tree {source_tree}" in warned.message
    assert "pip install" in warned.message


@pytest.mark.usefixtures("absent")
def test_no_warning_of_an_installed_package(caplog: pytest.LogCaptureFixture) -> None:
    """With transport=auto, a package that was installed without a compiler uses pure Python, and logs that as INFO."""
    choice.warn_of_source_tree.cache_clear()
    with caplog.at_level(logging.INFO):
        assert not choice.uses_native(connection("auto"))
    assert "was not built when the package was installed: pure Python is used" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is found next to its module, under each name that builds give it."""
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert library.built() is None
    (tmp_path / "_arrow_path.so").touch()
    assert library.built() == tmp_path / "_arrow_path.so"
    (tmp_path / "_arrow_path.abi3.so").touch()
    assert library.built() == tmp_path / "_arrow_path.abi3.so"


def test_path_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that cannot be opened is named, with the loader's reason."""
    monkeypatch.setattr(library, "built", lambda: tmp_path / "gone.so")
    assert_unused("the compiled code cannot be loaded (")
    assert "gone.so: cannot open shared object file" in library.describe()


def test_file_that_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not a library for this machine is named, with the loader's reason."""
    (tmp_path / "_arrow_path.so").write_bytes(b"\x7fELF nonsense")
    monkeypatch.setattr(library, "built", lambda: tmp_path / "_arrow_path.so")
    assert_unused("the compiled code cannot be loaded (")


def test_library_without_our_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library without zkafka's functions is named, with the loader's reason."""
    monkeypatch.setattr(library, "built", lambda: Path("libc.so.6"))
    assert_unused("undefined symbol: zkafka_")


def test_wrong_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of another package version is not called."""
    monkeypatch.setattr(library, "INTERFACE", 0)
    assert_unused("belongs to another version of this package")


class TestChoice:
    """The option transport."""

    @pytest.mark.usefixtures("absent")
    def test_direct_where_it_is_absent(self) -> None:
        """With direct and without compiled code, an error says what to do."""
        with pytest.raises(OptionError, match=r"\[NO_NATIVE_PATH\] This needs .* Reinstall it with"):
            choice.uses_native(connection("direct"))

    @pytest.mark.usefixtures("absent")
    def test_exactly_once_where_it_is_absent(self) -> None:
        """Without compiled code, an exactly-once write is refused when it is planned."""
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "deliveryGuarantee": "exactly-once"}
        with pytest.raises(OptionError, match=r"\[NO_NATIVE_PATH\] .*Only exactly-once writes, .* need it"):
            plan_write(parse_write(options))

    @pytest.mark.usefixtures("absent")
    def test_direct_where_an_executor_lacks_it(self) -> None:
        """Tasks with direct fail on a machine without compiled code, and do not use another transport."""
        how, split = connection("direct"), Split(TopicPartition("t", 0), 0, 1, 0, 1, (0,), ("127.0.0.1:1",))
        properties = consumer_properties(how, "127.0.0.1:1", "g")
        for task in (
            choice.open_consumer(how, properties, split, pa.schema([("offset", pa.int64())])),
            choice.open_producer(how, {"bootstrap.servers": "127.0.0.1:1"}),
            choice.open_transactional({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "id"}),
        ):
            with pytest.raises(OptionError, match="NO_NATIVE_PATH"), task:
                pass


def test_every_function_of_c_has_a_caller() -> None:
    """The header declares exactly the functions that the library has and Python calls."""
    package = Path(library.__file__).parents[2]
    declared = set(re.findall(r"ZKAFKA_EXPORT [^;(]*zkafka_(\w+)\(", (package / "records/native/zkafka.h").read_text()))
    code = "".join(path.read_text() for path in package.rglob("*.py"))
    called = {name for name in declared if re.search(rf"(functions|require\(\)|_native)\.{name}\(", code)}
    assert declared == called == vars(library.require()).keys()


def test_structs_are_as_large_as_in_c(tmp_path: Path) -> None:
    """Structs that Python reads have the same sizes as in C."""
    names = {"fed": library.FedBatches, "decoded": library.Decoded, "flaws": library.Flaws, "open_batch": library.OpenBatch}
    expected = {name: ctypes.sizeof(kind) for name, kind in {**names, "avro_program": library.AvroProgram}.items()}
    expected |= {"avro_node": avro.NODE.itemsize, "avro_flaw": avro.FLAW.itemsize}
    expected |= {"avro_encoding": expected["avro_program"], "avro_step": avro_encoder.STEP.itemsize}
    expected |= {"avro_refusal": avro_encoder.REFUSAL.itemsize}
    sizes = "".join(f'printf("%zu ", sizeof(struct zkafka_{name}));' for name in expected)
    source = f'#include "zkafka.h"\n#include <stdio.h>\nint main(void) {{ {sizes} return ZKAFKA_INTERFACE; }}'
    (tmp_path / "sizes.c").write_text(source)
    include = f"-I{Path(library.__file__).parent}"
    subprocess.run(["cc", include, "-o", tmp_path / "sizes", tmp_path / "sizes.c"], check=True)
    done = subprocess.run([str(tmp_path / "sizes")], capture_output=True, text=True, check=False)
    assert list(map(int, done.stdout.split())) == list(expected.values())
    assert done.returncode == library.INTERFACE
