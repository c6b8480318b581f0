"""Set up Spark's Python workers: garbage collection, allocator, socket, SIGTERM, errors; and find the calling module."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import socket
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, TypeVar

from pyspark_zkafka._version import __version__
from pyspark_zkafka.errors import ZKafkaError, printable

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MALLOC = (
    ("MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold", -3, 32 * 1024 * 1024),
    ("MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold", -1, 64 * 1024 * 1024),
)
"""Settings of glibc's allocator: the environment variable and the tunable by which users set them, number, and value."""
_ARENA_MAX = -8

_DAEMON, _WORKER = "pyspark.daemon", "pyspark.worker"
_TCP_OPTIONS = ("TCP_NODELAY", "TCP_QUICKACK")  # TCP_QUICKACK exists on Linux only

_LONGEST_EXIT_S = 60
_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_frozen_modules = 0


class LogFormatter(logging.Formatter):
    """Formatter that escapes control characters, so that a message cannot control a terminal or imitate further lines.

    A traceback keeps its line breaks. Other control characters in it are escaped.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback if there is one."""
        message = {"msg": printable(record.getMessage()), "args": None}
        return super().format(logging.makeLogRecord({**record.__dict__, **message}))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


@contextmanager
def prepared_worker(*, for_task: bool = False) -> Iterator[None]:
    """Prepare Spark's worker for a call. The ``with`` block contains the call's imports.

    If logging is not configured, as in Spark's workers, warnings show their time, level and logger.

    In Spark's workers, all objects that exist before and after the imports are excluded from garbage collection. Spark's
    worker collects after each task, plan and commit. For the hundred thousand objects that are modules, classes and
    functions, that takes 15 to 30 ms, more than a task of a small micro-batch. Within the block, nothing is collected:
    imports leave almost no garbage, and collections would prolong them by a twentieth.

    With `for_task`, tunes the allocator for batches. Call before threads start.

    Other engines run all tasks as threads of one process, whose collector and allocator are left as they are.
    """
    if logging.lastResort is not None and logging.lastResort.formatter is None:
        logging.lastResort.setFormatter(LogFormatter(_LOG_FORMAT))
    if not is_within_pyspark():
        yield
        return
    _freeze_imports(collect=_frozen_modules > 0)
    with collector_paused():
        yield
    _freeze_imports(collect=False)
    if for_task:
        keep_freed_memory()


def _freeze_imports(*, collect: bool) -> None:
    """Exclude all objects from garbage collection, if modules were imported since the last call.

    In a worker that lives long, each call would also exclude what earlier tasks have left, for good. `collect` therefore
    first collects everything, including objects that were excluded before.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        if collect:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)


@contextmanager
def concise_errors() -> Iterator[None]:
    """Make Spark's worker report an error of this package by its text alone, without a traceback. Also a decorator.

    The text says all that a user needs. Spark prints it several times, and would put the traceback before each copy. Errors
    that this package does not define keep their traceback, and so do all errors if SPARK_HIDE_TRACEBACK is set and empty.
    The worker exits after the error, so setting the variable affects no other code.
    """
    try:
        yield
    except ZKafkaError:
        _log.debug("A call by Spark failed", exc_info=True)
        if is_within_pyspark():
            os.environ.setdefault("SPARK_HIDE_TRACEBACK", "1")
        raise


@cache
def keep_freed_memory() -> bool:
    """Make glibc keep up to 64 MiB of freed memory, unless environment variables set other limits. False without glibc.

    A task frees a batch of several MiB and needs as much for the next batch. The kernel clears and maps each page of newly
    allocated memory, which took a fifth of the CPU when reading records of 1 KB. All threads allocate from one arena.
    Otherwise each of librdkafka's threads would have an arena that keeps 64 MiB, and memory freed after reading from one
    broker would not be reused for the next broker. The number of arenas is 1 even if the environment allows more, as on
    YARN.
    """
    import ctypes

    tunables = os.environ.get("GLIBC_TUNABLES", "")
    ours = [setting for name, tunable, *setting in _MALLOC if name not in os.environ and f"{tunable}=" not in tunables]
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all([mallopt(*setting) for setting in ((_ARENA_MAX, 1), *ours)])


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable garbage collection for a ``with`` block that creates thousands of objects without cycles.

    This saves more time than any other optimisation of the pure-Python path.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def exit_on_sigterm() -> None:
    """Make SIGTERM run ``finally`` clauses and atexit functions.

    Spark ends the process that plans a stream with SIGTERM. Without this, a member's registration and claims would block
    its group until the session expires.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)
        atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)  # the exit has begun: do not interrupt it


def _exit(number: int, frame: object) -> None:
    """Exit, and ignore the second SIGTERM that Spark sends, which must not interrupt the exit.

    The exception may leave a lock of a library locked. The exit would then wait for this lock forever, and the process
    would stay a member of its group. After a minute, SIGALRM therefore ends the process.
    """
    signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LONGEST_EXIT_S)
    sys.exit(128 + number)


@contextmanager
def ignoring_sigterm() -> Iterator[None]:
    """Ignore SIGTERM for a ``with`` block, if `exit_on_sigterm` has set its handler."""
    if signal.getsignal(signal.SIGTERM) is not _exit or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, _exit)


class TaskObject:
    """Base of readers and writers. Spark pickles them once, and each task unpickles them before it reads its input.

    Raises ZKafkaError (``VERSIONS_DIFFER``) in a task with another build of the package. If the other build had other
    fields, values would otherwise shift without an error.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _new_of_build, (type(self), build()), vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        send_promptly()


@concise_errors()
def _new_of_build(kind: type[TaskObject], driver: str) -> TaskObject:
    """Return a new object for the state that follows in the pickle, if it is of this build."""
    if driver != build():
        from pyspark_zkafka.conditions import VERSIONS_DIFFER  # the import of this module must stay cheap

        raise VERSIONS_DIFFER(
            f"The driver has pyspark-zkafka {driver}, and this executor has {build()} in {os.path.dirname(__file__)}; "
            "install the driver's build on every executor, with pip install --force-reinstall if the version is the same",
        )
    return kind.__new__(kind)


@cache
def build() -> str:
    """The package's version, and a checksum over the names and sizes of its modules."""
    root = os.path.dirname(__file__)
    modules = [
        (os.path.relpath(folder, root), name, os.path.getsize(os.path.join(folder, name)))
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".py") and not name.startswith(".")  # editors lock files by broken links
    ]
    return f"{__version__}+{zlib.crc32(repr(sorted(modules)).encode()):08x}"


def send_promptly() -> bool:
    """Disable the delays of TCP between this worker and Spark's JVM. False if the worker has no TCP socket to the JVM.

    The JVM sends a task in two parts. By Nagle's algorithm, the second part waits until the first is acknowledged, and
    in a worker that has run another task, the kernel delays acknowledgements by 40 ms. TCP_QUICKACK sends the pending
    acknowledgement. The kernel resets it when the worker answers, so every task must set it between the two parts.
    TCP_NODELAY sends the end of a task's result without waiting for the JVM's acknowledgement, and stays set.
    """
    connection = next((found for found in _locals(_DAEMON, "sock") if isinstance(found, socket.socket)), None)
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        for option in _TCP_OPTIONS:
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), 1)
    except OSError:
        return False
    return True


def whole_input(batches: Iterator[T]) -> Iterator[T]:
    """Yield a task's batches. Raises EOFError after the last batch if the task has ended before its input.

    If the input fails, or the task is killed, Spark's JVM closes the connection to this worker after any batch. pyarrow
    takes this for the end of the input. After the real end, the JVM sends one more message. Raises ZKafkaError
    (``UNSUPPORTED_PYSPARK``) in a task whose input cannot be found.
    """
    yield from batches
    for infile in _locals(_WORKER, "infile"):
        if not hasattr(infile, "peek"):
            continue
        if not infile.peek(1):
            raise EOFError(
                "Spark has ended the task before its input: the input or another task failed, or the query was stopped"
            )
        return
    from pyspark import TaskContext
    from pyspark import __version__ as spark_version

    if TaskContext.get() is not None:
        from pyspark_zkafka.conditions import UNSUPPORTED_PYSPARK

        raise UNSUPPORTED_PYSPARK(
            f"The Python worker of pyspark {spark_version} does not show whether the task has received its whole input; "
            "write with deliveryGuarantee=at-least-once, or use a tested version of pyspark"
        )


def is_within_pyspark() -> bool:
    """True if a module of pyspark, such as one of Spark's workers, is on the call stack."""
    return any(name.startswith("pyspark.") for name, _ in _callers())


def is_called_by(module: str) -> bool:
    """True if a module, such as one of Spark's workers, is on the call stack."""
    return any(name == module for name, _ in _callers())


def _locals(module: str, name: str) -> Iterator[Any]:
    """Yield the value of a local variable, or None, in each frame of a module on the call stack, innermost first."""
    return (frame.f_locals.get(name) for caller, frame in _callers() if caller == module)


def _callers() -> Iterator[tuple[str, FrameType]]:
    """Yield the frames of the call stack, innermost first, with the full names of their modules."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        spec = frame.f_globals.get("__spec__")
        if spec is not None:
            yield spec.name, frame
        frame = frame.f_back
