"""Distributions and site of a release. Needs the extras "release" and "docs"."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, **environ: str) -> None:
    """Run a command in the project's folder, and show its output if it fails."""
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}  # points to this pyspark
    done = subprocess.run(command, cwd=ROOT, env={**inherited, **environ}, text=True, check=False, **output)
    assert done.returncode == 0, done.stdout


def test_distributions() -> None:
    """Two builds of each distribution are identical, and pip installs the right one in an empty environment."""
    run(".ci/dist", PYTHON=sys.executable)
    run(".ci/try_dist", PYTHON=sys.executable)


def test_site(tmp_path: Path) -> None:
    """The site builds without a warning, and requests nothing from other hosts."""
    site = str(tmp_path / "site")
    run(sys.executable, "-m", "mkdocs", "build", "--site-dir", site, NO_MKDOCS_2_WARNING="1")
    run(sys.executable, "docs/check_site.py", site)
