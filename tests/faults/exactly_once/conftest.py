"""Fixtures of queries that copy numbered rows between topics, in applications that can be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.testing import LocalCluster
from tests.support.applications import Application
from tests.support.copied_rows import Copy


@pytest.fixture(scope="session")
def shared_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application with four cores, shared by all tests that need no other."""
    application = Application(tmp_path_factory.mktemp("application"))
    yield application
    application.close()


@pytest.fixture
def application(shared_application: Application) -> Application:
    """The shared application without fault rules."""
    shared_application.set_rules()
    return shared_application


@pytest.fixture
def new_application(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    """Factory of applications for one test: ``new_application(cores=1, task_failures=3, conf={...})``."""
    with ExitStack() as opened:

        def make(**settings: Any) -> Application:
            made = Application(tmp_path / f"application-{settings.get('cores', 4)}", **settings)
            opened.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="module")
def retrying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application that tries each task up to three times."""
    application = Application(tmp_path_factory.mktemp("retrying"), task_failures=3)
    yield application
    application.close()


@pytest.fixture
def copy(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], application: Application, tmp_path: Path) -> Copy:
    """A copy of 1,200 rows by four slots in three micro-batches."""
    return Copy(zkafka_cluster, application, new_topic(partitions=4), new_topic(partitions=3), tmp_path / "checkpoint")


BY_OLD_BROKERS = pytest.param("old brokers", marks=[pytest.mark.long, pytest.mark.xdist_group("old_cluster")])


@pytest.fixture(params=["brokers", BY_OLD_BROKERS])
def any_copy(request: pytest.FixtureRequest, application: Application, tmp_path: Path) -> Copy:
    """The same copy, also with brokers of version 1.1.1."""
    kind = str(request.param)
    cluster: LocalCluster = request.getfixturevalue("old_cluster" if kind == "old brokers" else "zkafka_cluster")
    name = f"{tmp_path.name}-{kind.split()[0]}"
    cluster.create_topic(f"{name}-source", partitions=4)
    cluster.create_topic(f"{name}-sink", partitions=3)
    return Copy(cluster, application, f"{name}-source", f"{name}-sink", tmp_path / "checkpoint")
