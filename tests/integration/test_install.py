"""Installed packages: with the compiled code, or in pure Python if built without a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.source_tree import copy_source_tree

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).parent / "drivers" / "round_trip.py"
IMPORT_ALL = """
import importlib, pkgutil, pyspark_zkafka
for module in pkgutil.walk_packages(pyspark_zkafka.__path__, "pyspark_zkafka."):
    if not module.name.endswith(("__main__", ".plugin", "._arrow_path")):
        importlib.import_module(module.name)
"""
LEFTOVERS = ("pyspark_zkafka/deleted/__init__.py", "pyspark_zkafka/records/native/_arrow_path.abi3.so")
Build = Callable[..., Path]


def run(*command: str | Path, **environment: str) -> str:
    """Run a command that must succeed, and return its output."""
    everything = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    elsewhere = tempfile.gettempdir()  # python -c would import the package from the source tree
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=everything, cwd=elsewhere, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def setuptools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tools that build a wheel, as pyproject.toml requires them."""
    folder = tmp_path_factory.mktemp("setuptools")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "setuptools>=70.1")
    return folder


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, setuptools: Path) -> Build:
    """Builds a wheel from a copy of the source tree that has leftovers of a build; takes a compiler and variables."""

    def make(compiler: str, **environment: str) -> Path:
        tree, out = copy_source_tree(tmp_path_factory.mktemp("tree")), tmp_path_factory.mktemp("wheel")
        for folder in "lib", f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}":
            for leftover in LEFTOVERS:
                (path := tree / "build" / folder / leftover).parent.mkdir(parents=True)
                path.touch()
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
        run(*pip, "--wheel-dir", out, tree, CC=compiler, PYTHONPATH=str(setuptools), **environment)
        [wheel] = out.glob("*.whl")
        return wheel

    return make


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Installs a wheel into a new environment that shares the wheel's dependencies, and returns its folder of commands."""

    def make(wheel: Path) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        commands = folder / "bin"
        python = commands / "python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
        packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        (Path(packages) / "shared.pth").write_text(sysconfig.get_path("purelib"))
        return commands

    return make


@pytest.fixture(scope="module")
def without_compiler(build: Build) -> Path:
    """A wheel built without a compiler."""
    return build("/bin/false")


@pytest.fixture(scope="module")
def pure(without_compiler: Path, install: Callable[[Path], Path]) -> Path:
    return install(without_compiler)


@pytest.fixture(scope="module")
def compiled(build: Build, install: Callable[[Path], Path]) -> Path:
    """The folder of commands of an installation with the compiled code."""
    wheel = build(shutil.which("cc") or shutil.which("gcc") or "cc")
    assert is_for_every_python(wheel)
    assert LEFTOVERS[0] not in files_of(wheel)
    [library] = [name for name in files_of(wheel) if name.endswith(".so")]
    assert library.startswith("pyspark_zkafka/records/native/_arrow_path.")
    return install(wheel)


def is_for_every_python(wheel: Path) -> bool:
    """Return whether a wheel is for this platform and any Python 3."""
    python, abi, platform = wheel.stem.split("-")[-3:]
    return (python, abi) == ("py3", "none") and platform == sysconfig.get_platform().replace("-", "_").replace(".", "_")


def files_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_no_compiler_no_library(without_compiler: Path) -> None:
    """A wheel built without a compiler is platform-independent, with the Python code and without a library."""
    assert without_compiler.name.endswith("-py3-none-any.whl")
    names = files_of(without_compiler)
    assert {"pyspark_zkafka/records/native/library.py", "pyspark_zkafka/py.typed"} <= set(names)
    assert not [name for name in names if name.endswith(".so") or "deleted" in name]
    with zipfile.ZipFile(without_compiler) as archive:
        [about] = [archive.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL")]
    assert "Root-Is-Purelib: true\nTag: py3-none-any\n" in about


def test_pure_by_choice(build: Build) -> None:
    """ZKAFKA_NATIVE_PATH=off builds a wheel without the library despite a compiler."""
    wheel = build("cc", ZKAFKA_NATIVE_PATH="off")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in files_of(wheel) if name.endswith(".so")]


def test_no_pure_wheel_by_mistake(build: Build) -> None:
    """ZKAFKA_NATIVE_PATH=on makes the build fail without a compiler."""
    with pytest.raises(AssertionError, match="/bin/false"):
        build("/bin/false", ZKAFKA_NATIVE_PATH="on")


def test_pure_python_is_said(pure: Path) -> None:
    """`zkafka --version` says that pure Python is used, and why; Python imports the installed package."""
    found = run(pure / "zkafka", "--version")
    assert "the compiled code was not built when the package was installed: pure Python is used" in found
    place = run(pure / "python", "-c", "import pyspark_zkafka; print(pyspark_zkafka.__file__)")
    assert Path(place.strip()).is_relative_to(pure.parent)


def test_compiled_path_is_said(compiled: Path) -> None:
    """`zkafka --version` says that the compiled code is used."""
    assert "the compiled code is used\n" in run(compiled / "zkafka", "--version")


def test_pure_python_works(pure: Path, zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """A package installed without a compiler writes and reads."""
    servers = zkafka_cluster.bootstrap_servers
    assert run(pure / "python", DRIVER, servers, new_topic(partitions=2), "auto") == "100 written, 100 read\n"


def test_compiled_path_works(compiled: Path, zkafka_cluster: LocalCluster, new_topic: Callable[..., str]) -> None:
    """A package installed with a compiler writes and reads with the compiled code."""
    servers = zkafka_cluster.bootstrap_servers
    assert run(compiled / "python", DRIVER, servers, new_topic(partitions=2), "direct") == "100 written, 100 read\n"


def test_compiled_path_asked_for_in_vain(pure: Path, zkafka_cluster: LocalCluster) -> None:
    """Requiring the compiled code where it was not built raises an error that says so."""
    found = run(pure / "python", DRIVER, zkafka_cluster.bootstrap_servers, "t", "direct")
    assert found.startswith(
        "[NO_NATIVE_PATH] This needs the compiled code, but the compiled code was not built when the package"
    )


def test_oldest_clients(tmp_path: Path) -> None:
    """Every module can be imported with the oldest releases of the clients, and of the command's packages, in setup.cfg."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    required = [line.split(">=") for line in config["options"]["install_requires"].split()]
    oldest = [f"{name}=={floor}" for name, floor in required if name not in {"pyspark", "pyarrow", "numpy", "mmh3"}]
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path, *oldest)
    run(sys.executable, "-c", IMPORT_ALL, PYTHONPATH=f"{tmp_path}:{ROOT}")
