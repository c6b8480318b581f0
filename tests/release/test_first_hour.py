"""A newcomer's first hour: docs/index.md, block by block, in a fresh environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pyspark_zkafka.testing.jars import cache_folder
from tests.support.documentation import ROOT, SHELL, blocks
from tests.support.source_tree import copy_source_tree

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

CHECKS = """
import sys
import pyspark_zkafka
imported = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark_zkafka").__file__).first()
assert imported == pyspark_zkafka.__file__
assert imported.startswith(sys.prefix)
assert orders.count() == 1000
assert spark.read.parquet(f"{folder}/rows").count() == 1000
copied = spark.read.format("zkafka").options(**kafka, subscribe="invoices").load()
assert copied.count() == 1000
print("the first hour is over")
"""


def _pasted(step: str) -> str:
    """Return the block, and for the start of the cluster also what the reader pastes: the line `export` that it prints."""
    return f'eval "$({step.strip()} | grep "^export ")"' if step.startswith("zkafka cluster up") else step


def test_first_steps(tmp_path: Path) -> None:
    """All commands and programs of docs/index.md work in the order of the page; workers import the installed package."""
    home = tmp_path / "home"
    home.mkdir()
    shell, python = ["set -e"], []
    for block in blocks(ROOT / "docs" / "index.md"):
        if block.language in SHELL:
            shell.append(block.text)
        elif block.language == "python":
            python.append(block.text)
    program = tmp_path / "first_steps.py"
    program.write_text("\n".join([*python, CHECKS]))
    *first, last = shell
    assert last.strip() == "zkafka cluster down"
    steps = [_pasted(step) for step in first]
    script = "\n".join([*steps[:1], f"trap '{last.strip()}' EXIT", *steps[1:], f"python {program}"])
    environ = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TMPDIR": str(tmp_path),
        "ZKAFKA_CACHE": str(cache_folder()),
        "ZKAFKA_CLUSTER_DATA": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=copy_source_tree(tmp_path / "clone"),
        env=environ | {name: os.environ[name] for name in os.environ if name.startswith("PIP_") or name == "JAVA_HOME"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "the first hour is over" in done.stdout
