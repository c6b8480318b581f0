"""A session of Sail, an engine for PySpark code without a JVM, whose server runs in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def sail_session() -> Iterator[SparkSession]:
    """Start a server, and yield a session that knows the data source."""
    # Otherwise Sail 0.7 repartitions the rows of most writes after it has counted their tasks, and fails them.
    os.environ.setdefault("SAIL_EXECUTION__DEFAULT_PARALLELISM", "1")
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    from pyspark_zkafka import ZKafkaDataSource

    server = SparkConnectServer()
    server.start(background=True)
    try:
        _, port = server.listening_address
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        session.dataSource.register(ZKafkaDataSource)
        yield session
        session.stop()
    finally:
        server.stop()
