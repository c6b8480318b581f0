"""Queries that copy numbered rows from one topic to another, in applications that can be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.applications import Application
from tests.support.copied_rows import Copy

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster


@pytest.fixture(scope="session")
def shared_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """An application with four cores, of all tests that need no other one."""
    application = Application(tmp_path_factory.mktemp("application"))
    yield application
    application.close()


@pytest.fixture
def application(shared_application: Application) -> Application:
    """The shared application, without rules."""
    shared_application.set_rules()
    return shared_application


@pytest.fixture
def new_application(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    """Makes applications of a test's own: ``new_application(cores=1, task_failures=3, conf={...})``."""
    with ExitStack() as opened:

        def make(**settings: Any) -> Application:
            made = Application(tmp_path / f"application-{settings.get('cores', 4)}", **settings)
            opened.callback(made.close)
            return made

        yield make


@pytest.fixture
def copy(zkafka_cluster: LocalCluster, new_topic: Callable[..., str], application: Application, tmp_path: Path) -> Copy:
    """Four slots copy 1,200 rows in three micro-batches."""
    return Copy(zkafka_cluster, application, new_topic(partitions=4), new_topic(partitions=3), tmp_path / "checkpoint")
