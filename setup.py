"""Builds the compiled path, where there is a C compiler; everything else is in setup.cfg."""

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

SOURCES = ("client", "columns", "consumer", "producer", "hashes")
HEADERS = ("arrow_abi", "client", "columns", "rdkafka_abi", "zkafka")
FOLDER = "pyspark_zkafka/transport/native"


class AnyPythonWheel(bdist_wheel):
    """A wheel for a platform and every version of Python: the C code does not know which Python calls it."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[
        Extension(
            "pyspark_zkafka.transport.native._arrow_path",
            [f"{FOLDER}/{name}.c" for name in SOURCES],
            depends=[f"{FOLDER}/{name}.h" for name in HEADERS],
            extra_compile_args=["-std=c11", "-D_GNU_SOURCE", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
            libraries=["dl"],
            py_limited_api=True,
            optional=True,  # without a compiler, pure Python is used
        )
    ],
    cmdclass={"bdist_wheel": AnyPythonWheel},
)
