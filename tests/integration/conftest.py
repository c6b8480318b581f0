"""Fixtures shared by integration tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import ZooKeeperConfig
from pyspark_zkafka.read.stream_driver import StreamDriver
from pyspark_zkafka.testing import LocalCluster
from tests.support.options import ensemble_config
from tests.support.wire import Wire


@pytest.fixture
def zookeeper_config(zkafka_cluster: LocalCluster) -> ZooKeeperConfig:
    """The settings of a connection to the ZooKeeper of the real brokers."""
    hosts, _, chroot = zkafka_cluster.zookeeper_connect.partition("/")
    return ensemble_config(hosts, f"/{chroot}")


@pytest.fixture
def wire(zkafka_cluster: LocalCluster) -> Iterator[Wire]:
    """A proxy in front of ZooKeeper that can cut connections."""
    with Wire(zkafka_cluster.port("zookeeper")) as way:
        yield way


@pytest.fixture
def new_driver(zookeeper: dict[str, str]) -> Iterator[Callable[..., StreamDriver]]:
    """Makes stream drivers for planning calls: ``new_driver({"subscribe": topic}, clock=...)``."""
    with ExitStack() as opened:

        def make(options: dict[str, str], **arguments: Any) -> StreamDriver:
            driver = StreamDriver(parse_stream({**zookeeper, **options}), **arguments)
            return opened.enter_context(closing(driver))

        yield make
