"""Set-up of Spark's workers: garbage collection, the C library's allocator, SIGTERM, and callers."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import pickle
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from importlib.machinery import ModuleSpec
from io import BufferedReader, BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_zkafka.errors import ZKafkaError
from pyspark_zkafka.read.readers import ViewReader, ZKafkaReader, ZKafkaStreamReader
from pyspark_zkafka.worker import (
    LogFormatter,
    TaskObject,
    build,
    collector_paused,
    concise_errors,
    is_called_by,
    keep_freed_memory,
    send_promptly,
    whole_input,
)
from pyspark_zkafka.write.writers import ZKafkaStreamWriter, ZKafkaWriter

ALLOCATE = """
import resource
from pyspark_zkafka.worker import keep_freed_memory

kept = keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    batch = bytearray(8 * 1024 * 1024)
    batch[::4096] = bytes(2048)
    del batch
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
IN_A_WORKER = """
import gc, sys, types, weakref
from importlib.machinery import ModuleSpec
from pyspark_zkafka.worker import prepared_worker

gc.disable()

class Node: pass

def cycle():
    node = Node()
    node.itself = node
    return node

def task():
    with prepared_worker(for_task=True):
        import pyspark_zkafka.model.pushdown

def in_a_worker(call):
    names = {"__spec__": ModuleSpec("pyspark.worker", None), "__name__": "__main__"}
    exec("def main(call): return call()", names)
    return names["main"](call)

def import_another():
    name = f"another_{len(sys.modules)}"
    sys.modules[name] = types.ModuleType(name)
"""
FREEZE = f"""{IN_A_WORKER}
before = len(gc.get_objects())
in_a_worker(task)
frozen = gc.get_freeze_count()
node = cycle()
in_a_worker(task)
del node
print(frozen > before // 2, gc.get_freeze_count() == frozen, gc.collect() >= 2)
"""
FREEZE_AGAIN = f"""{IN_A_WORKER}
in_a_worker(task)
left = []
for _ in range(5):
    present = cycle()  # when the imports of a task are frozen, and garbage afterwards
    left += [weakref.ref(present), weakref.ref(cycle())]
    import_another()
    in_a_worker(task)
    del present
import_another()
in_a_worker(task)
print([one() for one in left] == [None] * 10, gc.get_freeze_count() > 10_000)
"""
DO_NOT_FREEZE = f"""{IN_A_WORKER}
task()
print(gc.get_freeze_count())
"""
WARN = """
import logging, os
from pyspark_zkafka.worker import prepared_worker

if "CONFIGURED" in os.environ:
    logging.basicConfig(format="mine: %(message)s")
with prepared_worker():
    pass
logging.getLogger("pyspark_zkafka.read.stream_session").warning("%s", "lost\\n\x1b[2J")
"""
TERMINATE = """
import atexit, os, signal
from pyspark_zkafka.worker import exit_on_sigterm, ignoring_sigterm

atexit.register(print, "atexit")
exit_on_sigterm()
with ignoring_sigterm():
    os.kill(os.getpid(), signal.SIGTERM)
print("ignored", flush=True)
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    print("finally")
"""

HANG = """
import os, signal, threading
from pyspark_zkafka import worker

worker._LONGEST_EXIT_S = 1
worker.exit_on_sigterm()
lock = threading.Lock()
lock.acquire()
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    lock.acquire()
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter with a minimal environment."""
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=given
    )


def test_memory_is_kept() -> None:
    """With glibc, only the first batch maps pages; with other libraries, nothing is changed and nothing fails."""
    kept, faults = run(ALLOCATE).stdout.split()
    assert kept == str(platform.libc_ver()[0] == "glibc")
    assert kept == "False" or int(faults) < 3 * 2048


@pytest.mark.parametrize(
    ("variable", "value", "left"),
    [
        ("MALLOC_ARENA_MAX", "4", {-8, -3, -1}),  # YARN sets it for its containers
        ("MALLOC_MMAP_THRESHOLD_", "1000000", {-8, -1}),
        ("MALLOC_TRIM_THRESHOLD_", "1000000", {-8, -3}),
        ("MALLOC_TOP_PAD_", "1000000", {-8, -3, -1}),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1000000:glibc.malloc.arena_max=2", {-8, -3}),
        ("GLIBC_TUNABLES", "glibc.malloc.check=3", {-8, -3, -1}),
    ],
)
def test_the_environment_goes_before(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, left: set[int]) -> None:
    """Thresholds of the allocator that the environment sets are kept. The number of arenas, a limit, is 1 in any case."""
    found = {}
    library = SimpleNamespace(mallopt=lambda number, value: found.setdefault(number, value) == value)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setenv(variable, value)
    assert keep_freed_memory.__wrapped__()
    assert found.keys() == left


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries have other allocators")
def test_memory_is_released_if_the_environment_says_so() -> None:
    """With a user's threshold for mapped memory, each batch maps its pages again."""
    kept, faults = run(ALLOCATE, MALLOC_MMAP_THRESHOLD_="1000000").stdout.split()
    assert kept == "True"
    assert int(faults) > 40 * 2048


def test_imports_are_frozen_once() -> None:
    """Objects present at the first call are frozen, and later ones are still collected if nothing is imported."""
    assert run(FREEZE).stdout.split() == ["True", "True", "True"]


def test_garbage_is_not_frozen_for_good() -> None:
    """In a worker that lives long, objects that were frozen with later imports are collected once they are garbage."""
    assert run(FREEZE_AGAIN).stdout.split() == ["True", "True"]


def test_other_processes_are_not_frozen() -> None:
    """Outside of Spark's workers, as in a program that runs tasks itself, the program's objects are left alone."""
    assert run(DO_NOT_FREEZE).stdout.split() == ["0"]


def paused_and_failed() -> bool:
    """Return whether the collector runs in a block that pauses it and then fails."""
    inside = True
    with suppress(KeyError), collector_paused():
        inside = gc.isenabled()
        raise KeyError
    return inside


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_paused_and_restored(enabled: bool) -> None:
    """The cycle collector is paused inside the block and restored afterwards, even if the block fails."""
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        inside = paused_and_failed()
        assert inside is False
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_sigterm_ends_a_process_in_an_orderly_way() -> None:
    """SIGTERM runs ``finally`` clauses and atexit functions despite a second signal, and can be ignored for a block."""
    done = run(TERMINATE)
    assert done.stdout.split() == ["ignored", "finally", "atexit"]
    assert done.returncode == 128 + signal.SIGTERM


def test_an_exit_that_hangs_ends() -> None:
    """An exit that waits for ever, for a lock that the interrupted code has left locked, ends by SIGALRM."""
    assert run(HANG).returncode == -signal.SIGALRM


def test_callers() -> None:
    """A module is found anywhere on the call stack by its full name."""
    assert is_called_by("_pytest.python")
    assert not is_called_by("pyspark.sql.worker.plan_data_source_read")


def test_warnings_have_level_and_logger() -> None:
    """A worker's warning is one line with its level and logger, unless logging is configured."""
    assert run(WARN).stderr.endswith(" WARNING pyspark_zkafka.read.stream_session: lost\\n\\x1b[2J\n")
    assert run(WARN, CONFIGURED="1").stderr == "mine: lost\n\x1b[2J\n"


def test_control_characters_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters in a log line are escaped, but a traceback keeps its lines."""
    log = logging.getLogger("test_control_characters_in_the_log")
    log.propagate = False
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    log.warning("%s", "a\x1b[2J\r\n\ud800b", exc_info=ValueError("why\x1b[2J\nnot"))
    assert capsys.readouterr().err == "WARNING a\\x1b[2J\\r\\n\\ud800b\nValueError: why\\x1b[2J\nnot\n"


class Reader(TaskObject):
    """A stand-in for a reader that Spark sends to its tasks."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """A worker's end of a TCP connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"task")
            accepted.recv(4)
            accepted.sendall(b"result")
            if sys.platform == "linux":
                # Without this, the kernel delays acknowledgements only if the result follows the task within 40 ms.
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            yield accepted


def daemon(module: str = "pyspark.daemon") -> Callable[[Any, Callable[[], Any]], Any]:
    """Return a function that calls another one, with a socket in the variable that Spark's daemon uses."""
    names: dict[str, Any] = {"__spec__": ModuleSpec(module, None), "__name__": "__main__"}
    exec("def worker(sock, call):\n    return call()\n", names)
    return names["worker"]


def nodelay(connection: socket.socket) -> bool:
    """Return whether small segments are sent at once."""
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


@pytest.mark.parametrize("buffered", [b"", b"\xff\xff\xff\xfc"])
def test_input_that_ends_early(buffered: bytes) -> None:
    """Batches are complete if Spark's worker has the message after them, and not if the connection has ended."""
    names: dict[str, Any] = {"__spec__": ModuleSpec("pyspark.worker", None)}
    exec("def main(infile, call):\n    return call()\n", names)
    batches = whole_input(iter("ab"))
    assert [next(batches), next(batches)] == ["a", "b"]
    with nullcontext() if buffered else pytest.raises(EOFError, match="before its input"):
        assert names["main"](BufferedReader(BytesIO(buffered)), lambda: list(batches)) == []


def test_input_outside_of_sparks_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark's worker, there is nothing to check. A task whose worker does not show its input fails."""
    assert list(whole_input(iter("ab"))) == ["a", "b"]
    monkeypatch.setattr("pyspark.TaskContext._taskContext", object())
    with pytest.raises(ZKafkaError, match=r"UNSUPPORTED_PYSPARK.*whether the task has received its whole input"):
        list(whole_input(iter("ab")))


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_QUICKACK is an option of Linux")
def test_a_task_is_acknowledged_at_once(connection: socket.socket) -> None:
    """A worker acknowledges and sends without delay after a reader was unpickled in it."""
    sent = pickle.dumps(Reader("orders"))
    assert not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    received = daemon()(connection, lambda: pickle.loads(sent))
    assert received.topic == "orders"
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    assert nodelay(connection)


@pytest.mark.parametrize("kind", [ZKafkaReader, ViewReader, ZKafkaStreamReader, ZKafkaWriter, ZKafkaStreamWriter])
def test_all_that_tasks_receive_sets_up_the_socket(kind: type[TaskObject], connection: socket.socket) -> None:
    """Each reader and writer switches off the delay when unpickled, and keeps its state."""
    sent = kind.__new__(kind)
    sent.__dict__["_options"] = "given"
    received = daemon()(connection, lambda: pickle.loads(pickle.dumps(sent)))
    assert vars(received) == {"_options": "given"}
    assert nodelay(connection) is True


def test_another_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of another build is refused before its state is unpickled, which may have other fields or classes."""
    sent = pickle.dumps(Reader("orders")).replace(b"orders", b"\xff" * 6)
    monkeypatch.setattr("pyspark_zkafka.worker.build", lambda: "0.0.9+1")
    with pytest.raises(ZKafkaError, match=r"VERSIONS_DIFFER.*driver has \S+ \S+, and .* executor has 0\.0\.9\+1 in"):
        pickle.loads(sent)


def test_builds_of_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of one version differ if a module was added or has another size; other files and places do not count."""
    found = []
    for name in "one", "other":
        (package := tmp_path / name / "package").mkdir(parents=True)
        (package / "worker.py").write_text("x = 1\n")
        monkeypatch.setattr("pyspark_zkafka.worker.__file__", str(package / "worker.py"))
        found.append(build.__wrapped__())
    assert found[0] == found[1]
    for added in "library.so", "module.py":
        (package / added).write_text("")
        found.append(build.__wrapped__())
    (package / "worker.py").write_text("x = 10\n")
    found.append(build.__wrapped__())
    assert [found[0] == other for other in found] == [True, True, True, False, False]
    assert found[3] != found[4]


def test_sockets_of_others_are_not_touched(connection: socket.socket) -> None:
    """A reader unpickled outside a forked worker changes no socket."""
    assert not send_promptly()
    assert not daemon("pyspark.worker")(connection, send_promptly)
    assert daemon("users.daemon")(connection, lambda: pickle.loads(pickle.dumps(Reader("orders")))).topic == "orders"
    assert not nodelay(connection)


def test_workers_without_these_options_still_work(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with a Unix socket, a closed one or no socket at all, or without TCP_QUICKACK, still works."""
    ours, others = socket.socketpair()
    with ours, others:
        assert not daemon()(ours, send_promptly)
    monkeypatch.delattr(socket, "TCP_QUICKACK", raising=False)
    assert daemon()(connection, send_promptly)
    connection.close()
    assert not daemon()(connection, send_promptly)
    assert not daemon()("no socket", send_promptly)


@pytest.mark.parametrize(
    ("error", "caller", "given", "expected"),
    [
        (ZKafkaError("CONDITION", "text"), "pyspark.worker", None, "1"),
        (ZKafkaError("CONDITION", "text"), "pyspark.worker", "", ""),
        (ZKafkaError("CONDITION", "text"), "a_program_of_the_user", None, None),
        (ValueError("a bug"), "pyspark.worker", None, None),
    ],
)
def test_tracebacks_are_hidden(
    monkeypatch: pytest.MonkeyPatch, error: Exception, caller: str, given: str | None, expected: str | None
) -> None:
    """A worker reports this package's errors without traceback, unless the user wants it, and bugs with traceback."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # so that monkeypatch removes the variable that the call sets
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK")
    if given is not None:
        monkeypatch.setenv("SPARK_HIDE_TRACEBACK", given)

    @concise_errors()
    def read() -> None:
        raise error

    with pytest.raises(type(error)):
        daemon(caller)(None, read)
    assert os.environ.get("SPARK_HIDE_TRACEBACK") == expected
