"""Builds the compiled code, where there is a C compiler; everything else is in setup.cfg."""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

SOURCES = (
    *("avro", "avro_encoder", "columns", "hashes", "row_hashes", "record_batches"),
    *("messages", "aborted_transactions", "crc32c", "encoder", "loans"),
)
HEADERS = ("aborted_transactions", "arrow_abi", "columns", "crc32c", "messages", "zkafka")
FOLDER = "pyspark_zkafka/records/native"
# auto: where there is a compiler; on: an error where there is none; off: left out.
NATIVE_PATH = os.environ.get("ZKAFKA_NATIVE_PATH", "auto")

if NATIVE_PATH not in ("auto", "on", "off"):
    raise SystemExit(f"ZKAFKA_NATIVE_PATH is {NATIVE_PATH!r}; expected auto, on or off")


class OnlyPresentModules(build_py):
    """Copies the modules into an empty folder: earlier builds in the source tree may have left others."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib, "pyspark_zkafka"), ignore_errors=True)
        super().run()


class OptionalLibrary(build_ext):
    """Builds the library; without one, the distribution is pure, and so is its wheel."""

    def run(self) -> None:
        for extension in self.extensions:  # an older library must not pass for the result
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
        super().run()
        if self.extensions and not all(Path(self.get_ext_fullpath(e.name)).exists() for e in self.extensions):
            self.distribution.ext_modules = []
            wheel = self.distribution.get_command_obj("bdist_wheel", create=False)
            if wheel is not None:
                wheel.root_is_pure = True


class AnyPythonWheel(bdist_wheel):
    """A wheel for every version of Python: the C code does not use Python's API."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


LIBRARY = Extension(
    "pyspark_zkafka.records.native._arrow_path",
    [f"{FOLDER}/{name}.c" for name in SOURCES],
    depends=[f"{FOLDER}/{name}.h" for name in HEADERS],
    extra_compile_args=["-std=c11", "-D_GNU_SOURCE", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
    py_limited_api=True,
    optional=NATIVE_PATH == "auto",
)

setup(
    ext_modules=[] if NATIVE_PATH == "off" else [LIBRARY],
    cmdclass={"build_py": OnlyPresentModules, "build_ext": OptionalLibrary, "bdist_wheel": AnyPythonWheel},
)
