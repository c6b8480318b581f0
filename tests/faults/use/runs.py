"""One run of a streaming query without Spark: Spark's calls to the stream reader, in a process that can be killed."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pytest

from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.read import stream_positions, stream_session
from pyspark_zkafka.read.readers import ZKafkaStreamReader
from pyspark_zkafka.read.stream_driver import StreamDriver  # noqa: F401, to be preloaded
from tests.faults.use.plants import PLANTS

__all__ = ["PROCESSES", "Checkpoint", "Died", "Planner", "Read"]

PROCESSES = multiprocessing.get_context("forkserver")
"""Starts processes with everything already imported, within milliseconds."""
PROCESSES.set_forkserver_preload(["tests.faults.use.runs", "tests.faults.use.writes"])

_ANSWER_S = 0.4
_PATIENCE_S = 100.0
_END_S = 30.0
_STOPPED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes after SIGTERM: of a process that has not begun to read, and of `worker.exit_on_sigterm`."""
_COLUMNS = pa.schema(
    [
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)

Read = dict[TopicPartition, dict[int, bytes]]
"""The values that a micro-batch has read, by offset."""


class Died(Exception):
    """The process has ended or does not answer."""


class Planner:
    """The process of a run, which plans and reads. `call` raises the error that the call raised there."""

    def __init__(self, options: Mapping[str, str], plant: str | None = None) -> None:
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=_serve, args=(theirs, dict(options), plant), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the stream reader, or `read_all`."""
        try:
            self._pipe.send((name, arguments))
            if not self._pipe.poll(_PATIENCE_S):
                raise Died(f"{name} has not returned after {_PATIENCE_S:.0f} s")
            answer = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise Died(f"the process ended in {name}") from error
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def stop(self) -> None:
        """End the run with SIGTERM, as Spark does: the member leaves its group. Raises Died if it does not end in order."""
        is_ended = self._end(signal.SIGTERM)
        if not is_ended:
            raise Died(f"the process has not ended {_END_S:.0f} s after SIGTERM")
        if self._process.exitcode not in _STOPPED:
            raise Died(f"the process has ended with exit code {self._process.exitcode}")

    def kill(self) -> None:
        """End the run with SIGKILL: nothing is closed."""
        self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> bool:
        """Signal the process if it runs, and wait for its end. Returns False if it had to be killed."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, by)
        self._process.join(_END_S)
        is_ended = not self._process.is_alive()
        self._process.kill()
        self._process.join()
        self._pipe.close()
        return is_ended


def _serve(pipe: Connection, options: dict[str, str], plant: str | None) -> None:
    logging.basicConfig(
        filename=os.environ.get("ZKAFKA_USE_LOG", os.devnull),
        level=logging.INFO,
        format="%(asctime)s %(process)d %(name)s %(message)s",
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    patch = pytest.MonkeyPatch()
    for module in (stream_session, stream_positions):  # a silent leader costs less time
        patch.setattr(module, "ANSWER_S", _ANSWER_S)
    if plant is not None:
        PLANTS[plant].apply(patch)
    try:
        reader = ZKafkaStreamReader(parse_stream(options), _COLUMNS)
        calls = {"read_all": lambda start, end: _read_all(reader, start, end)}
    except Exception as error:  # noqa: BLE001
        reader, calls, failed = None, {}, error
    try:
        while True:
            name, arguments = pipe.recv()
            if reader is None:
                pipe.send(failed)
                continue
            try:
                pipe.send((calls.get(name) or getattr(reader, name))(*arguments))
            except Exception as error:  # noqa: BLE001
                pipe.send(error)
    finally:
        if reader is not None:
            reader.stop()  # on SIGTERM, where one of Spark's workers runs its atexit functions


def _read_all(reader: ZKafkaStreamReader, start: dict[str, Any], end: dict[str, Any]) -> Read:
    """Plan the tasks of a micro-batch, and run them one after another."""
    found: Read = {}
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            for row in batch.to_pylist():
                tp = TopicPartition(row["topic"], row["partition"])
                there = found.setdefault(tp, {})
                assert row["offset"] not in there, f"{tp} at {row['offset']} comes twice in one micro-batch"
                assert row["offset"] > max(there, default=-1), f"{tp} at {row['offset']} comes too late"
                there[row["offset"]] = row["value"]
    return found


class Checkpoint:
    """The offset log and the commit log of a query.

    Attributes
    ----------
    offsets : list of dict
        The end of each planned micro-batch.
    finished : int
        The number of micro-batches in the commit log.
    """

    def __init__(self) -> None:
        self.offsets: list[dict[str, Any]] = []
        self.finished = 0

    @property
    def is_interrupted(self) -> bool:
        """True if the last micro-batch is unfinished and will be repeated."""
        return len(self.offsets) > self.finished
