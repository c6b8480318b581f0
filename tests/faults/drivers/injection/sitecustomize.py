"""Points of a write at which a process fails as a test demands.

Python imports this module at its start, in each process of an application with this folder on its PYTHONPATH.

The folder in the environment variable ZKAFKA_TEST_FAULTS has ``rules.json``, which is read anew at each point: a list of
rules. Each rule fires once. It has a `point` and an `action`. It may be limited to a `batch`, a `slot` and
an `attempt`, and have `after` (marks to wait for first) and `seconds` (of `sleep`, or before `kill`). Each point that is
reached leaves a mark, a file that holds the process id: ``commit.after-1-3`` for micro-batch 1, slot 3.

Points are ``before``, ``during`` and ``after`` each of ``begin``, ``commit_offset``, ``commit`` and ``abort`` of a slot's
transaction, and, on the driver, ``driver_commit``; and ``foreach_batch.after``. The slot is -1 on the driver. Actions are
``kill`` (the application), ``kill_executor``, ``kill_worker``, ``stop_worker``, ``raise``, ``sleep`` and ``wait`` (only for
the marks).
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["kill_application", "reach"]

FOLDER = "ZKAFKA_TEST_FAULTS"
_WRAPPED = {
    "pyspark_zkafka.records.direct.transactions": {"DirectTransactions": ("begin", "commit_offset", "commit", "abort")},
    "pyspark_zkafka.write.writers": {"ZKafkaStreamWriter": ("commit",)},
}
_DRIVERS = {"ZKafkaStreamWriter": "driver_commit"}
_PATIENCE_S = 120.0


class Injected(RuntimeError):
    """The error of the action ``raise``."""


def install() -> None:
    """Wrap the methods of the points when their modules are imported; without the environment variable, do nothing."""
    if FOLDER in os.environ:
        sys.meta_path.insert(0, _Finder())


def reach(point: str, batch: int, slot: int = -1, attempt: int = 0) -> None:
    """Leave a mark, and apply the first matching rule, if any."""
    folder = Path(os.environ[FOLDER])
    (folder / f"{point}-{batch}-{slot}").write_text(str(os.getpid()))
    rule = _rule(folder, point, batch, slot, attempt)
    if rule is not None:
        _act(rule, folder)


def kill_application() -> None:
    """Kill all processes of this session, which the application's driver leads, this process last."""
    session, own = os.getsid(0), os.getpid()
    for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
        try:
            if pid != own and os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.kill(own, signal.SIGKILL)


def _kill_executor() -> None:
    """Kill this worker's JVM, the parent of Spark's daemon, and this worker."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _rule(folder: Path, point: str, batch: int, slot: int, attempt: int) -> dict[str, Any] | None:
    try:
        rules = json.loads((folder / "rules.json").read_text())
    except FileNotFoundError:
        return None
    here = {"point": point, "batch": batch, "slot": slot, "attempt": attempt}
    for number, rule in enumerate(rules):
        if all(rule.get(name, value) == value for name, value in here.items()) and _is_first(folder / f"fired-{number}"):
            return dict(rule)
    return None


def _is_first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _act(rule: dict[str, Any], folder: Path) -> None:
    for mark in rule.get("after", ()):
        _wait_for(folder / mark)
    action, seconds = rule["action"], rule.get("seconds", 0.0)
    if action == "kill":
        time.sleep(seconds)
        kill_application()
    elif action == "kill_executor":
        _kill_executor()
    elif action == "kill_worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop_worker":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "raise":
        raise Injected(f"injected at {rule['point']}")
    elif action == "sleep":
        time.sleep(seconds)
    elif action != "wait":  # the marks were waited for above
        raise ValueError(f"no such action: {action}")


def _wait_for(mark: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not mark.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"no mark {mark.name} after {_PATIENCE_S:g} s")
        time.sleep(0.005)


def _wrapped(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a method with the points before, during and after it."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        here = _place(args)
        reach(f"{name}.before", *here)
        threading.Thread(target=reach, args=(f"{name}.during", *here), daemon=True).start()
        result = method(*args, **kwargs)
        reach(f"{name}.after", *here)
        return result

    return call


def _place(args: tuple[Any, ...]) -> tuple[int, int, int]:
    """Return a task's micro-batch, slot and attempt; on the driver, the micro-batch that a writer's commit names."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return args[-1], -1, 0
    return int(context.getLocalProperty("streaming.sql.batchId") or 0), context.partitionId(), context.attemptNumber()


class _Finder(MetaPathFinder):
    """Finds the modules to wrap as other finders do, and wraps them once they are executed."""

    def __init__(self) -> None:
        self._searched: set[str] = set()

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _WRAPPED or name in self._searched:
            return None
        self._searched.add(name)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Wrapper(spec.loader, _WRAPPED[name])
        return spec


class _Wrapper(Loader):
    def __init__(self, loader: Loader, wrapped: dict[str, tuple[str, ...]]) -> None:
        self._loader = loader
        self._wrapped = wrapped

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for kind, methods in self._wrapped.items():
            owner = getattr(module, kind)
            for name in methods:
                setattr(owner, name, _wrapped(getattr(owner, name), _DRIVERS.get(kind, name)))


install()
