"""Kafka's JVM programs: the old high-level consumer, which ZooKeeper coordinates, and command-line tools as functions.

Tools for groups come from Kafka 1.1.1, the last version with the old consumer. They reach brokers and groups of any version
through ZooKeeper. A call takes 1 to 2 s.

References
----------
kafka.tools.VerifyConsumerRebalance, kafka.tools.ExportZkOffsets, kafka.admin.ConsumerGroupCommand (Kafka 1.1.1).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark_zkafka.errors import LocalClusterError
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.testing.conditions import (
    BAD_CONSUMER,
    CONSUMER_DID_NOT_END,
    CONSUMER_DIED,
    CONSUMER_NOT_READY,
    CONSUMER_NOT_RUNNING,
    CONSUMER_RUNNING,
    NOT_COMMITTED,
    TOOL_FAILED,
    TOOL_TIMED_OUT,
)
from pyspark_zkafka.testing.jars import archiving_classes, class_archive, compiled_program, find_java, kafka_classpath
from pyspark_zkafka.testing.processes import ServerProcesses, Wait
from pyspark_zkafka.testing.spec import jvm_command

_CONSUMER = "old-consumer"
_CONSUMER_SOURCE = Path(__file__).with_name("OldConsumer.java")
_EVENTS, _COMMANDS = "events", "commands"
# The supervisor does not redirect its children to these files. The shell does, and becomes the JVM.
_REDIRECTED = ("/bin/sh", "-c", f'exec "$@" <{_COMMANDS} >{_EVENTS}', _CONSUMER)
_CONSUMER_DEFAULTS = {
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": "1000",
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "30000",  # ten JVMs that start at once are slow
}
_STOP_TIMEOUT_S = 30
_REAP_TIMEOUT_S = 10
_LOG_TAIL_LINES = 20

_OLD_TOOLS = "1.1.1"
_GROUP_TOOL = "kafka.admin.ConsumerGroupCommand"
_TOOLS_PACKAGE = "org.apache.kafka.tools."  # these tools are in a separate jar
_TOOL_HEAP_MB = 128
_TOOL_LOG4J = Path(__file__).with_name("tools-log4j.properties")
_VERDICTS = {"Rebalance operation successful !": True, "Rebalance operation failed !": False}


@dataclass(frozen=True, slots=True)
class OldRecord:
    """A consumed record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class OldConsumer:
    """A group member in a JVM process: the high-level consumer of Kafka 1.1.1 or 0.8.2.2.

    It consumes records continuously, and ends with the process that started it. Start and end it in one thread. `records`,
    `failures` and `commit` are thread-safe.

    Parameters
    ----------
    cluster_zookeeper_connect : str
        See `LocalCluster.zookeeper_connect`.
    group : str
        The consumer group.
    topics : mapping, optional
        The number of streams by topic: a static subscription.
    white_list, black_list : str, optional
        A regex of topics, instead of `topics`. Kafka 1.1.1 matches nothing if JSON must escape the regex: write ``[.]``
        for a dot.
    streams : int
        The number of streams of a white or black list.
    kafka_version : str
        ``1.1.1`` or ``0.8.2.2``. 1.1.1 cannot read from brokers of 0.8.2.2.
    consumer_id : str, optional
        The member registers as ``{group}_{consumer_id}``. By default, Kafka generates an id.
    strategy : str
        ``range`` or ``roundrobin``, the ``partition.assignment.strategy``.
    properties : mapping, optional
        Overrides of the consumer's properties. Unlike Kafka's defaults, the consumer starts at the smallest offset,
        commits each second, and waits 30 s for ZooKeeper.
    heap_mb : int
        The largest heap, in MiB. A process that needs more ends.

    Notes
    -----
    The program is compiled once for each version. A start takes about 1 s. If the streams cannot be created, because a
    rebalance failed or the id is taken, the process retries until it succeeds. If a later rebalance fails, the member has
    no partitions until the next rebalance, as in Kafka.

    The consumed offset advances microseconds before a record is reported. If the timer commits and SIGKILL arrives in
    between, the record is lost. A record that `commit` or `stop` covers is in `records`.
    """

    def __init__(
        self,
        cluster_zookeeper_connect: str,
        group: str,
        *,
        topics: Mapping[str, int] | None = None,
        white_list: str | None = None,
        black_list: str | None = None,
        streams: int = 1,
        kafka_version: Literal["1.1.1", "0.8.2.2"] = "1.1.1",
        consumer_id: str | None = None,
        strategy: str = "range",
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 64,
    ) -> None:
        self.group, self.consumer_id, self.kafka_version = group, consumer_id, kafka_version
        self._subscriptions = {"--topics": topics, "--whitelist": white_list, "--blacklist": black_list}
        self._streams, self._heap_mb = streams, heap_mb
        own_id = {} if consumer_id is None else {"consumer.id": consumer_id}
        self._properties = {
            **_CONSUMER_DEFAULTS,
            "zookeeper.connect": cluster_zookeeper_connect,
            "group.id": group,
            **own_id,
            "partition.assignment.strategy": strategy,
            **(properties or {}),
        }
        self._processes: ServerProcesses | None = None
        self._events = ConsumerEvents(Path(os.devnull))
        self._log = ""
        self._commands = -1
        self._sent = 0
        self._one_at_a_time = threading.Lock()

    def __repr__(self) -> str:
        return f"OldConsumer(group={self.group!r}, consumer_id={self.consumer_id!r}, kafka_version={self.kafka_version!r})"

    def start(self, wait: bool = True, timeout_s: float = 60) -> OldConsumer:
        """Start this consumer with empty `records` and `log`, and return it.

        By default, waits until the member is registered and its first rebalance has succeeded. `timeout_s` does not include
        fetching jars and compiling.

        Raises
        ------
        LocalClusterError
            ``BAD_CONSUMER``, ``CONSUMER_RUNNING``, ``NOT_COMPILED``; ``CONSUMER_NOT_READY`` and ``CONSUMER_DIED``,
            with the end of the log, after ending the process; the errors of `fetch_jars`.
        """
        arguments = self._arguments()
        if self.running:
            raise CONSUMER_RUNNING(f"{self!r} already runs; stop() or kill() it first")
        self._reap()
        java = find_java()
        classpath, main = compiled_program(java, self.kafka_version, _CONSUMER_SOURCE)
        command = jvm_command(java, self._heap_mb, ["-XX:+ExitOnOutOfMemoryError"], main, arguments)
        try:
            self._launch(command, classpath)
            if wait:
                self.wait_ready(timeout_s)
        except BaseException:
            self._reap()
            raise
        return self

    def wait_ready(self, timeout_s: float = 60) -> None:
        """Wait until the first rebalance has succeeded. Raises the errors of `start`, but leaves the process running."""

        def ready() -> bool:
            is_ready = bool(self._events.others("ready"))
            if not is_ready and not self.running:
                raise CONSUMER_DIED(f"{self!r} ended before it was ready; {self._tail()}")
            return is_ready

        if not Wait(timeout_s).until(ready):
            raise CONSUMER_NOT_READY(f"{self!r} has no streams after {timeout_s:g} s; {self._tail()}")

    def stop(self) -> None:
        """Shut the consumer down (SIGTERM), even if it is paused. Returns when the process has ended.

        The member commits, unless auto-commit is off, and deletes its znodes. Does nothing if the consumer does not run.
        Raises `CONSUMER_DID_NOT_END` after 30 s.
        """
        if not self._end(signal.SIGTERM, _STOP_TIMEOUT_S):
            raise CONSUMER_DID_NOT_END(
                f"{self!r} did not end within {_STOP_TIMEOUT_S} s of SIGTERM; {self._tail()}\n"
                "use kill() for a consumer that cannot shut down, e.g. without ZooKeeper",
            )
        self._reap()

    def kill(self) -> None:
        """Kill the process (SIGKILL). Its znodes remain until its session expires."""
        self._end(signal.SIGKILL, _STOP_TIMEOUT_S)
        self._reap()

    def pause(self) -> None:
        """Pause the process (SIGSTOP). Its session expires after the session timeout."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> OldConsumer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self._end(signal.SIGTERM, _REAP_TIMEOUT_S)
        self._reap()

    @property
    def records(self) -> list[OldRecord]:
        """The records since the last start. Each stream's records are in order. They remain after the process has ended."""
        return self._events.records()

    @property
    def failures(self) -> list[str]:
        """The errors of streams and commits since the last start."""
        return [event["message"] for event in self._events.others("failed")]

    def commit(self, timeout_s: float = 30) -> None:
        """Commit the records consumed so far, and wait for the answer.

        Raises `NOT_COMMITTED`, after `timeout_s` or with the consumer's reason, and `CONSUMER_NOT_RUNNING`.
        """
        with self._one_at_a_time:
            self._require_running()
            os.write(self._commands, b"commit\n")
            before, self._sent = self._sent, self._sent + 1  # earlier commands may not be answered yet

            def answer() -> dict[str, Any] | None:
                return next(iter(self._commits()[before:]), None if self.running else {"message": "the process ended"})

            result = Wait(timeout_s).until(answer) or {"message": f"no answer within {timeout_s:g} s"}
        if "message" in result:
            raise NOT_COMMITTED(f"{self!r} did not commit: {result['message']}; {self._tail()}")

    @property
    def running(self) -> bool:
        """True if the process exists, even if paused."""
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """The process id. None if the consumer does not run."""
        return None if self._processes is None else self._processes.pid(_CONSUMER)

    @property
    def log(self) -> str:
        """The log of the process. It remains after the process has ended."""
        processes = self._processes
        return self._log if processes is None else processes.log(_CONSUMER).read_text(encoding="utf-8", errors="replace")

    def _arguments(self) -> list[str]:
        given = [(name, value) for name, value in self._subscriptions.items() if value]
        if len(given) != 1:
            found = f"found {len(given)} of them; set one"
            raise BAD_CONSUMER(f"A consumer needs exactly one of topics, white_list and black_list; {found}")
        name, value = given[0]
        listed = value if isinstance(value, str) else ",".join(f"{topic}={count}" for topic, count in value.items())
        return [name, listed, "--streams", str(self._streams), *(f"{k}={v}" for k, v in self._properties.items())]

    def _launch(self, command: list[str], classpath: str) -> None:
        processes = ServerProcesses()
        processes.open()
        commands, events = processes.folder / _COMMANDS, processes.folder / _EVENTS
        os.mkfifo(commands)
        # Opened for reading as well: no open call blocks, and the consumer sees no end of file while this process lives.
        self._commands = os.open(commands, os.O_RDWR)
        for file in (events, processes.log(_CONSUMER)):
            file.touch()
        self._processes, self._events, self._sent = processes, ConsumerEvents(events), 0
        processes.start(_CONSUMER, [*_REDIRECTED, *command], {"CLASSPATH": classpath})

    def _commits(self) -> list[dict[str, Any]]:
        """Return the answers to all commits so far, successful or not."""
        return [e for e in self._events.others("committed", "failed") if e.get("during", "commit") == "commit"]

    def _tail(self) -> str:
        return "its log ends with\n" + "\n".join(self.log.splitlines()[-_LOG_TAIL_LINES:])

    def _require_running(self) -> None:
        if not self.running:
            raise CONSUMER_NOT_RUNNING(f"{self!r} does not run; start() it, or check its `log`")

    def _signal(self, number: signal.Signals) -> None:
        if self._processes is None or not self._processes.send(_CONSUMER, number):
            self._require_running()

    def _end(self, number: signal.Signals, timeout_s: float) -> bool:
        """End the process with a signal. Returns False after the timeout."""
        return self._processes is None or self._processes.end(_CONSUMER, number, timeout_s)

    def _reap(self) -> None:
        """Release the process and its folder. Keeps the events and the log."""
        if self._processes is None:
            return
        processes, self._log, self._processes = self._processes, self.log, None
        self._events.records()
        processes.close()
        os.close(self._commands)


class ConsumerEvents:
    """The events of one process so far. Thread-safe."""

    def __init__(self, file: Path) -> None:
        self._file, self._read = file, 0
        self._records: list[OldRecord] = []
        self._others: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def records(self) -> list[OldRecord]:
        with self._lock:
            self._take()
            return list(self._records)

    def others(self, *kinds: str) -> list[dict[str, Any]]:
        """Return all other events of the given kinds."""
        with self._lock:
            self._take()
            return [event for event in self._others if event["event"] in kinds]

    def _take(self) -> None:
        try:
            with self._file.open("rb") as file:
                file.seek(self._read)
                whole = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return  # the process was reaped, after its last event was read
        if whole:
            self._read += len(whole) + 1
            for event in map(json.loads, whole.split(b"\n")):
                if event["event"] == "record":
                    key, value = (None if event[k] is None else b64decode(event[k]) for k in ("key", "value"))
                    self._records.append(OldRecord(event["topic"], event["partition"], event["offset"], key, value))
                else:
                    self._others.append(event)


def run_kafka_tool(kafka_version: str, main_class: str, *args: str, timeout_s: float = 60, stdin: str | None = None) -> str:
    """Run one of Kafka's tools, for example ``kafka.tools.UpdateOffsetsInZK``, and return its standard output.

    Blocks until the tool ends, for at most `timeout_s` after its jars are fetched.

    Raises
    ------
    LocalClusterError
        ``TOOL_FAILED`` if the exit status is not 0; ``TOOL_TIMED_OUT``, after killing the tool; the errors of
        `fetch_jars`. Many tools report a failure only in their output.
    """
    java = find_java()
    apart = [f"org.apache.kafka:kafka-tools:{kafka_version}"] if main_class.startswith(_TOOLS_PACKAGE) else []
    classpath = kafka_classpath(kafka_version, *apart)
    with archiving_classes(class_archive(java, main_class, classpath)) as options:
        logging = f"-Dlog4j.configuration={_TOOL_LOG4J.as_uri()}"
        try:
            done = subprocess.run(
                jvm_command(java, _TOOL_HEAP_MB, [*options, logging], main_class, args), capture_output=True,
                env={**os.environ, "CLASSPATH": classpath}, input=stdin or "", encoding="utf-8", errors="replace",
                timeout=timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as exc:
            raise TOOL_TIMED_OUT(
                f"{main_class} did not end within {timeout_s:g} s; {_outputs(exc.stdout, exc.stderr)}"
            ) from exc
        if done.returncode != 0:
            raise TOOL_FAILED(
                f"{main_class} of Kafka {kafka_version} ended with {done.returncode}; {_outputs(done.stdout, done.stderr)}",
                status=done.returncode,
            )
    return done.stdout


def verify_consumer_rebalance(zookeeper_connect: str, group: str) -> bool:
    """True if each partition of the group's subscriptions is owned by a thread of a registered consumer.

    Also true for unknown groups and for groups without members. The tool does not check which member owns a partition.
    """
    main = "kafka.tools.VerifyConsumerRebalance"
    output = run_kafka_tool(_OLD_TOOLS, main, "--zookeeper.connect", zookeeper_connect, "--group", group)
    verdicts = [_VERDICTS[line.strip()] for line in output.splitlines() if line.strip() in _VERDICTS]
    if len(verdicts) != 1:
        raise _unexpected(main, output)
    return verdicts[0]


def list_groups(zookeeper_connect: str) -> list[str]:
    """List the names of all groups under ``/consumers``, sorted."""
    output = run_kafka_tool(_OLD_TOOLS, _GROUP_TOOL, "--zookeeper", zookeeper_connect, "--list")
    return sorted(line for line in output.splitlines() if line and not line.startswith("Note:"))


def describe_group(zookeeper_connect: str, group: str) -> list[dict[str, str]]:
    """Return the tool's rows of a group's partitions and idle members, in no order. A row maps column names to texts.

    The columns are ``TOPIC``, ``PARTITION``, ``CURRENT-OFFSET``, ``LOG-END-OFFSET``, ``LAG`` and ``CONSUMER-ID``. Unknown
    values are ``-``. Raises `TOOL_FAILED` if there is no such group.
    """
    output = run_kafka_tool(_OLD_TOOLS, _GROUP_TOOL, "--zookeeper", zookeeper_connect, "--describe", "--group", group)
    lines = [line.split() for line in output.splitlines() if line.strip()]
    header = next((i for i, words in enumerate(lines) if words[0] == "TOPIC"), None)
    if header is None:
        raise _unexpected(_GROUP_TOOL, output)
    return [dict(zip(lines[header], words, strict=True)) for words in lines[header + 1 :]]


def export_offsets(zookeeper_connect: str, group: str, path: str | os.PathLike[str]) -> dict[TopicPartition, int]:
    """Export the committed offsets of a group in ZooKeeper to the file `path`, and return them. Overwrites the file.

    The lines are ``/consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET``, in no order. kafka.tools.ImportZkOffsets can import
    the file.
    """
    main, file = "kafka.tools.ExportZkOffsets", os.fspath(path)
    run_kafka_tool(_OLD_TOOLS, main, "--zkconnect", zookeeper_connect, "--group", group, "--output-file", file)
    offsets = {}
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        znode, _, offset = line.rpartition(":")
        topic, partition = znode.split("/")[-2:]
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def _unexpected(main: str, output: str) -> LocalClusterError:
    return TOOL_FAILED(f"{main} gave no answer; its output is\n{output.strip() or '(nothing)'}")


def _outputs(*outputs: str | bytes | None) -> str:
    """Join both outputs of a tool. After a timeout, they are bytes."""
    texts = [o.decode(errors="replace") if isinstance(o, bytes) else o or "" for o in outputs]
    return "its output is\n" + ("\n".join(t.strip() for t in texts if t.strip()) or "(nothing)")
