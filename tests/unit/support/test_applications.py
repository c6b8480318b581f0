"""Applications that are killed at inconvenient moments, with drivers that need no Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import applications
from tests.support.applications import Application, Outcome
from tests.support.eventually import eventually
from tests.support.processes import alive

ANSWERING = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"outcome": {"error": None, "batches": []}}), flush=True)
"""

FORKING = """
import json, os, pathlib, signal, sys, time

def fork(number, frame):
    if (child := os.fork()) == 0:
        time.sleep(600)
    pathlib.Path("forked").write_text(str(child))

signal.signal(signal.SIGUSR1, fork)
print(json.dumps({"outcome": {"error": None, "batches": []}}), flush=True)
while True:
    signal.pause()
"""


@dataclass(frozen=True)
class Nothing:
    """A request without content."""


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Callable[[str], Application]]:
    """Makes applications with a given program as their driver."""
    made: list[Application] = []

    def make(program: str) -> Application:
        driver = tmp_path / "driver.py"
        driver.write_text(program)
        made.append(Application(tmp_path, driver=str(driver)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def run(one: Application) -> Outcome:
    """Run an empty query."""
    one.start(Nothing())
    return one.wait(30)


def test_killed_while_idle(application: Callable[[str], Application]) -> None:
    """An application that was killed between two queries starts again with the next one."""
    one = application(ANSWERING)
    assert run(one) == Outcome()
    (driver,) = one.processes
    os.kill(driver, signal.SIGKILL)
    eventually(lambda: not alive(driver))
    assert run(one) == Outcome()
    assert driver not in one.processes


def test_forked_while_it_is_killed(
    application: Callable[[str], Application], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that the application forks while its processes are being killed is killed, too."""
    one, forked, kill = application(FORKING), tmp_path / "forked", os.kill
    assert run(one) == Outcome()

    def fork_first(pid: int, number: int) -> None:
        if not forked.exists():
            kill(pid, signal.SIGUSR1)
            eventually(lambda: forked.exists() and forked.read_text())
        kill(pid, number)

    monkeypatch.setattr(applications.os, "kill", fork_first)
    one.kill()
    assert not alive(int(forked.read_text()))
