"""A packed environment on a standalone cluster whose Python lacks the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pyspark
import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.source_tree import copy_source_tree
from tests.support.spark_standalone import SparkStandalone, spark_standalone

DRIVER = Path(__file__).parent / "drivers" / "packed_environment.py"
SPARK_HOME = Path(pyspark.__file__).parent
# Without pyspark, which Spark provides, and without dependencies of the command line.
NEEDED = ("confluent-kafka", "kazoo", "mmh3", "numpy", "pyarrow")
PACKED_PYTHON = "./env/bin/python"

# The first test also installs and packs the environment; test_standalone.py tests tasks on a standalone cluster.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed environment with the package and the packages that it needs."""
    folder = tmp_path_factory.mktemp("packed")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "packed")
    tree = copy_source_tree(folder / "tree")
    needed = [f"{name}=={version(name)}" for name in NEEDED]
    pip = (sys.executable, "-m", "pip", "--python", folder / "packed" / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-deps", tree, *needed)
    packed = folder / "env.tar.gz"
    run(sys.executable, "-m", "venv_pack", "--prefix", folder / "packed", "--output", packed, "--compress-level", "1")
    return packed


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with only its standard library, which the workers use as python3."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python3"


@pytest.fixture(scope="module")
def standalone(bare_python: Path) -> Iterator[SparkStandalone]:
    """A master and two workers with the bare Python."""
    path, python = f"{bare_python.parent}{os.pathsep}{os.environ['PATH']}", str(bare_python)
    environ = {"PATH": path, "PYTHONPATH": "", "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    with spark_standalone(workers=2, environ=environ) as cluster:
        yield cluster


@pytest.fixture
def submit(
    standalone: SparkStandalone, archive: Path, zkafka_cluster: LocalCluster, new_topic: Callable[..., str], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Submits the job from a folder where the packed environment is unpacked for the driver."""
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "env", filter="fully_trusted")  # links lead to the machine's Python

    def run_job(*arguments: str, found: str = "find", **environment: str) -> subprocess.CompletedProcess[str]:
        ours = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        environ = {name: value for name, value in os.environ.items() if name not in ours} | environment
        memory = ("--executor-memory", "512m", "--total-executor-cores", "2")
        job = (str(DRIVER), zkafka_cluster.zookeeper_connect, new_topic(partitions=4), found)
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", standalone.master, *memory, *arguments, *job]
        environ["SPARK_HOME"] = str(SPARK_HOME)
        return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path, env=environ)

    return run_job


def assert_done_by(done: subprocess.CompletedProcess[str], standalone: SparkStandalone, driver: Path) -> None:
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert sorted(int(record["value"]) for record in answer["records"]) == list(range(100))
    assert Path(answer["driver"]).is_relative_to(driver)
    for place in {Path(record["place"]) for record in answer["records"]}:
        [worker] = [worker for worker in standalone.workers if place.is_relative_to(worker)]
        assert place.relative_to(worker).parts[2] == "env"  # application/executor/env


def test_workers_lack_the_package(bare_python: Path) -> None:
    """The workers' Python has neither the package nor its dependencies."""
    for name in ("pyspark_zkafka", "pyspark", "pyarrow", "confluent_kafka"):
        done = subprocess.run([bare_python, "-I", "-c", f"import {name}"], capture_output=True, text=True, check=False)
        assert f"ModuleNotFoundError: No module named '{name}'" in done.stderr


def test_sent_along(
    submit: Callable[..., subprocess.CompletedProcess[str]], standalone: SparkStandalone, archive: Path, tmp_path: Path
) -> None:
    """With --archives and PYSPARK_PYTHON, tasks write and read with the packed environment."""
    done = submit("--archives", f"{archive}#env", PYSPARK_PYTHON=PACKED_PYTHON)
    assert_done_by(done, standalone, tmp_path / "env")


def test_named_by_a_setting(
    submit: Callable[..., subprocess.CompletedProcess[str]], standalone: SparkStandalone, archive: Path, tmp_path: Path
) -> None:
    """A source registered by the job runs with the Python that spark.pyspark.python names."""
    settings = ("--conf", f"spark.pyspark.python={PACKED_PYTHON}")
    done = submit("--archives", f"{archive}#env", *settings, found="register")
    assert_done_by(done, standalone, tmp_path / "env")


def test_not_sent(submit: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Without the archive, tasks fail because no worker has that Python."""
    done = submit(PYSPARK_PYTHON=PACKED_PYTHON)
    assert done.returncode != 0
    assert f'Cannot run program "{PACKED_PYTHON}"' in done.stderr
