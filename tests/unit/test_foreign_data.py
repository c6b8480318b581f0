"""Rules against running data as code, beyond those in ruff.toml."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pyspark_zkafka"

FORBIDDEN_BUILTINS = {"compile", "__import__", "input"}
PLACES = {
    "testing": "LocalCluster starts Java, by a list of arguments and without a shell",
    "formats/protobuf.py": "protoc reports errors only on its standard error; its arguments are a list, without a shell",
}
"""Packages and modules that may start processes, with the reason."""


def offences(path: Path, text: str) -> Iterator[str]:
    """Yield forbidden uses of foreign data or of a shell in a module."""
    place = path.relative_to(PACKAGE)
    starts_processes = not PLACES.keys().isdisjoint({place.parts[0], place.as_posix()})
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
            if "subprocess" in names and not starts_processes:
                yield "imports subprocess"
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in FORBIDDEN_BUILTINS:
                yield f"calls {name}"
            if name.startswith("subprocess."):
                if any(keyword.arg is None for keyword in node.keywords):
                    yield f"calls {name} with keywords that cannot be checked"
                if any(keyword.arg == "shell" for keyword in node.keywords):
                    yield f"calls {name} with shell="


def test_no_data_becomes_code() -> None:
    """No module compiles or imports data, and only listed places start processes, without a shell."""
    found = {path.relative_to(PACKAGE): list(offences(path, path.read_text("utf-8"))) for path in PACKAGE.rglob("*.py")}
    assert found
    assert {str(path): offending for path, offending in found.items() if offending} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import subprocess", "imports subprocess"),
        ("from subprocess import run", "imports subprocess"),
        ("__import__('os')", "calls __import__"),
        ("subprocess.run('ls', shell=True)", "calls subprocess.run with shell="),
        ("subprocess.run('ls', **more)", "calls subprocess.run with keywords that cannot be checked"),
    ],
)
def test_offences_are_found(text: str, found: str) -> None:
    """The check detects forbidden uses."""
    assert list(offences(PACKAGE / "stream" / "reader.py", text)) == [found]


def test_named_places_exist() -> None:
    """Each listed place starts processes."""
    for place in PLACES:
        modules = [PACKAGE / place] if place.endswith(".py") else (PACKAGE / place).rglob("*.py")
        assert any("import subprocess" in path.read_text("utf-8") for path in modules)
