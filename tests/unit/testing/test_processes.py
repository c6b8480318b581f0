"""The supervisor: its servers end with it, and it ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.testing.processes import DATA_VARIABLE, ServerProcesses
from tests.support.eventually import eventually
from tests.support.processes import alive, parent_of


@pytest.fixture
def processes() -> Iterator[ServerProcesses]:
    opened = ServerProcesses()
    opened.open()
    yield opened
    opened.close()


def test_life_of_a_server(processes: ServerProcesses) -> None:
    """A server runs and writes its log, and its exit status is known."""
    processes.start("one", ["sh", "-c", "echo $GREETING; exit 3"], {"GREETING": "hello"})
    eventually(lambda: processes.exit_status("one") == 3)
    assert processes.log_tail("one") == "hello"
    assert processes.pid("one") is None
    assert not processes.send("one", signal.SIGTERM)


def test_signals(processes: ServerProcesses) -> None:
    """A signal reaches the server, and a signal that ended it is its negative exit status."""
    processes.start("one", ["sleep", "100"], {})
    assert processes.exit_status("one") is None
    assert processes.send("one", signal.SIGTERM)
    eventually(lambda: processes.exit_status("one") == -signal.SIGTERM)


def test_not_to_be_started(processes: ServerProcesses) -> None:
    """A missing program is an error with the system's reason."""
    with pytest.raises(LocalClusterError, match=r"SERVER_NOT_STARTED.*No such file"):
        processes.start("one", ["/nowhere/java"], {})


def test_no_place_for_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for data that does not exist is named with the variable; an empty variable is the default."""
    monkeypatch.setenv(DATA_VARIABLE, "/nowhere/data")
    with pytest.raises(LocalClusterError, match=r"stored in /nowhere/data: No such file.*another one in ZKAFKA_CLUSTER"):
        ServerProcesses().open()
    monkeypatch.setenv(DATA_VARIABLE, "")
    with closing(ServerProcesses()) as processes:
        processes.open()
        assert processes.folder.parent == Path(tempfile.gettempdir())


def test_close_ends_even_stopped_servers() -> None:
    """close removes the folder and ends all servers, even those halted by SIGSTOP, and a second close does nothing."""
    processes = ServerProcesses()
    processes.open()
    pids = [processes.start(name, ["sleep", "100"], {}) for name in ("one", "two")]
    processes.send("two", signal.SIGSTOP)
    folder = processes.folder
    processes.close()
    assert not any(map(alive, pids))
    assert not folder.exists()
    processes.close()
    with pytest.raises(LocalClusterError, match="CLUSTER_NOT_RUNNING"):
        processes.start("one", ["sleep", "1"], {})


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_halted_when_the_signal_is_sent(processes: ServerProcesses) -> None:
    """SIGSTOP has halted all threads of a busy process when `send` returns, and may be repeated; SIGCONT resumes them."""
    # Compression releases the interpreter's lock, so that all threads run.
    spin = "import os, threading, zlib\ndata = os.urandom(1 << 24)\n"
    spin += "for _ in range(4): threading.Thread(target=lambda: [zlib.compress(data) for _ in iter(int, 1)]).start()"
    pid = processes.start("busy", [sys.executable, "-c", spin], {})
    eventually(lambda: len(list(Path(f"/proc/{pid}/task").iterdir())) == 5)
    for _ in range(3):
        processes.send("busy", signal.SIGSTOP)
        assert processes.send("busy", signal.SIGSTOP)
        assert thread_states(pid) == {"T"}
        processes.send("busy", signal.SIGCONT)
        eventually(lambda: "T" not in thread_states(pid))


def thread_states(pid: int) -> set[str]:
    return {stat.read_text().rpartition(") ")[2][0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")}


@pytest.mark.parametrize("folder", ["{parent}/data", "data"])
def test_folder_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """The data are in the folder named by the environment, relative to the caller's, and are removed from it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv(DATA_VARIABLE, folder.format(parent=tmp_path))
    with closing(ServerProcesses()) as found:
        found.open()
        assert found.folder.parent == tmp_path / "data"
    assert list((tmp_path / "data").iterdir()) == []


def test_close_in_a_forked_child_does_nothing(processes: ServerProcesses) -> None:
    """A forked child that closes inherited processes does not end its parent's servers."""
    pid = processes.start("one", ["sleep", "100"], {})
    child = os.fork()
    if child == 0:
        processes.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert processes.exit_status("one") is None
    assert alive(pid)


PARENT = """
import os, signal, subprocess, sys, time
from pyspark_zkafka.testing.processes import ServerProcesses
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
p = ServerProcesses()
p.open()
pids = [p.start(name, ["sleep", "100"], {}) for name in ("one", "two")]
p.send("two", signal.SIGSTOP)
if os.fork() == 0:
    time.sleep(30)   # a child that outlives the parent and holds its pipe
    os._exit(0)
print(p.folder, *pids, flush=True)
while True:
    time.sleep(0.1)  # a signal that comes right before a sleep is noticed after it
"""


def start_parent() -> tuple[subprocess.Popen[str], Path, list[int]]:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    folder, *pids = parent.stdout.readline().split()
    return parent, Path(folder), [int(p) for p in pids]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_parent_killed(number: signal.Signals) -> None:
    """When the parent dies without close, all servers and the folder are removed, even if a forked child survives."""
    parent, folder, pids = start_parent()
    supervisor = parent_of(pids[0])
    try:
        assert all(map(alive, pids))
        os.kill(parent.pid, number)
        eventually(lambda: not any(map(alive, [*pids, supervisor])))
        eventually(lambda: not folder.exists())
    finally:
        os.killpg(parent.pid, signal.SIGKILL)  # the forked child
        parent.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux's kernel signals a child when its parent dies")
def test_supervisor_killed(processes: ServerProcesses) -> None:
    """When the supervisor is killed, the kernel ends the servers, and the next call raises an error."""
    pid = processes.start("one", ["sleep", "100"], {})
    os.kill(parent_of(pid), signal.SIGKILL)
    eventually(lambda: not alive(pid))
    with pytest.raises(LocalClusterError, match="SUPERVISOR_GONE"):
        processes.exit_status("one")
