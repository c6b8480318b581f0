"""``zkafka topics produce`` and ``tail`` on real brokers."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.testing import MockCluster, run_kafka_tool
from pyspark_zkafka.tools import app
from tests.support.fill import fill
from tests.support.topics import KEPT, arrived

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

NewTopic = Callable[..., str]
Command = Callable[..., "subprocess.CompletedProcess[bytes]"]
PRODUCER = "kafka.tools.ConsoleProducer"


@pytest.fixture(params=["zookeeper", pytest.param("brokers", marks=pytest.mark.long)])
def words(request: pytest.FixtureRequest, zkafka_cluster: LocalCluster) -> Callable[..., list[str]]:
    """The words of a command on the shared cluster, through ZooKeeper or through brokers only."""
    by_zookeeper = request.param == "zookeeper"
    where = (
        ["--zookeeper", zkafka_cluster.zookeeper_connect]
        if by_zookeeper
        else ["--bootstrap-server", zkafka_cluster.bootstrap_servers]
    )
    return lambda *arguments: [sys.executable, "-m", "pyspark_zkafka.tools", "topics", *arguments, *where]


@pytest.fixture
def run(words: Callable[..., list[str]]) -> Command:
    """Runs a command to its end: ``run("tail", topic, "--exit")``."""

    def command(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(words(*arguments), input=stdin, capture_output=True, timeout=120, check=False)

    return command


def lines(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """Return the lines printed by a command that succeeded."""
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def test_round_trip(run: Command, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """`produce` writes to the partitions that Java's producer chooses, and `tail` shows these records."""
    keys = [f"k{n}" for n in range(20)]
    text = "".join(f"{key}\t{key.upper()}\n" for key in keys).encode() + b"gone\t"
    ours, javas = new_topic(partitions=5), new_topic(partitions=5)
    headers = ("--header", "source=cli", "--header", "source=\udcff")  # the byte 0xff
    done = run("produce", ours, "--key-separator", r"\t", *headers, "--empty-as-null", stdin=text)
    assert done.returncode == 0
    assert done.stdout == b""
    assert done.stderr.decode() == f"Produced 21 record(s) to {ours}.\n"
    properties = ("--property", "parse.key=true", "--property", "null.marker=NONE")
    where = ("--bootstrap-server", zkafka_cluster.bootstrap_servers)
    run_kafka_tool("3.9.1", PRODUCER, *where, "--topic", javas, *properties, stdin=text.decode() + "NONE\n", timeout_s=120)
    by_ours, by_java = (arrived(zkafka_cluster.bootstrap_servers, topic, 5) for topic in (ours, javas))
    for partition in range(5):
        assert [r[1:3] for r in by_ours[partition]] == [r[1:3] for r in by_java[partition]]
        assert all(r[3] == [("source", b"cli"), ("source", b"\xff")] for r in by_ours[partition])

    shown = lines(run("tail", ours, "--from", "earliest", "--exit", "--key"))
    assert sorted(shown) == sorted(["gone\t", *(f"{key}\t{key.upper()}" for key in keys)])
    rows = [json.loads(line) for line in lines(run("tail", ours, "--from", "earliest", "--exit", "--format", "json"))]
    assert {(row["key"], row["value"]) for row in rows} == {("gone", None), *((key, key.upper()) for key in keys)}
    assert all([h.get("value") for h in row["headers"]] == ["cli", None] and row["topic"] == ours for row in rows)
    assert all(row["timestamp"].endswith("Z") for row in rows)


@pytest.mark.long
def test_starts(run: Command, zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """Each start, partition and count selects its records, and bytes are shown in hexadecimal and Base64."""
    topic, now_ms = new_topic(partitions=2, config=KEPT), time.time_ns() // 1_000_000
    aged = [{"value": f"v{n}", "partition": 0, "timestamp": now_ms - (20 - n) * 3_600_000} for n in range(20)]
    zkafka_cluster.produce(topic, [*aged, {"value": b"\xff\x00", "key": b"k", "partition": 1}])
    zkafka_cluster.delete_records(topic, {0: 3})
    everything = [f"v{n}" for n in range(3, 20)]
    iso_time = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms // 1000 - 9000))
    for arguments, expected in (
        (["--from", "earliest"], everything),
        ([], everything[-10:]),
        (["--from", "latest-2"], everything[-2:]),
        (["--from", "latest"], []),
        (["--from", "17"], everything[-3:]),
        (["--from", "0"], everything),
        (["--from", "earliest+15"], everything[-2:]),
        (["--from", "5 hours ago"], everything[-4:]),
        (["--from", "2 hours ago", "--count", "1"], everything[-1:]),
        (["--from", iso_time], everything[-2:]),
        (["--from", "earliest", "--count", "2"], everything[:2]),
    ):
        done = run("tail", topic, "--partition", "0", "--exit", *arguments)
        assert lines(done) == expected, arguments
        assert ("is outside the log" in done.stderr.decode()) == (arguments == ["--from", "0"])
    assert lines(run("tail", topic, "--partition", "1", "--exit", "--format", "hex", "--key")) == ["6b\tff00"]
    (row,) = lines(run("tail", topic, "--partition", "1", "--exit", "--json"))
    assert json.loads(row)["value_base64"] == "/wA="
    (shown,) = lines(run("tail", topic, "--from", "latest-1", "--partition", "0", "--exit", "--meta"))
    assert shown.split("\t")[:2] == ["0", "19"]
    assert shown.split("\t")[3:] == ["-", "v19"]


@pytest.mark.long
def test_refused(run: Command, new_topic: NewTopic) -> None:
    """Unknown topics and partitions, malformed starts, and lines without a key are errors."""
    topic, missing = new_topic(), f"none-{secrets.token_hex(4)}"
    for arguments, status, says in (
        (["tail", missing, "--exit"], 1, "UNKNOWN_TOPIC"),
        (["produce", missing], 1, "UNKNOWN_TOPIC"),
        (["tail", topic, "--partition", "7"], 1, "UNKNOWN_TOPIC"),
        (["tail", topic, "--from", "yesterday"], 2, "--from is 'yesterday'; expected earliest, latest, latest-10"),
        (["produce", topic, "--partition", "7"], 1, "partition 7"),
        (["produce", topic, "--key-separator", ":"], 2, "Line 2 has no key separator ':'"),
    ):
        done = run(*arguments, stdin=b"a:b\nc\n")
        assert done.returncode == status, (arguments, done.stderr)
        assert says in done.stderr.decode(), (arguments, done.stderr)


def test_no_topic_is_created(zkafka_mock_cluster: MockCluster) -> None:
    """Neither command creates a missing topic, on brokers that create topics on request."""
    servers = zkafka_mock_cluster.bootstrap_servers
    Producer({"bootstrap.servers": servers}).list_topics("created", 30)
    for arguments in (["tail", "missing", "--exit"], ["produce", "missing"]):
        command = [sys.executable, "-m", "pyspark_zkafka.tools", "topics", *arguments, "--bootstrap-server", servers]
        done = subprocess.run(command, input=b"a\n", capture_output=True, timeout=120, check=False)
        assert done.returncode == 1, done.stderr
        assert b"UNKNOWN_TOPIC" in done.stderr, done.stderr
    with KafkaAdmin(servers, {}) as admin:
        assert admin.topic_names() == ["created"]


def test_output_without_a_descriptor(zkafka_mock_cluster: MockCluster) -> None:
    """`tail` writes to an output that is no file, as in a notebook."""
    servers = zkafka_mock_cluster.bootstrap_servers
    zkafka_mock_cluster.create_topic("t")
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("t", b"a")
    producer.flush(30)
    arguments = ["topics", "tail", "t", "--from", "earliest", "--exit", "--bootstrap-server", servers]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout == "a\n", done.output


def test_following(
    words: Callable[..., list[str]], run: Command, zkafka_cluster: LocalCluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    """`tail` shows new records as they arrive, and Ctrl-C ends it quietly."""
    topic = new_topic()
    fill(zkafka_cluster, topic, 3, value="old")
    command = words("tail", topic, "--from", "latest-1")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        try:
            assert following.stdout is not None
            assert following.stdout.readline() == b"old2\n"
            config = tmp_path / "producer.properties"
            config.write_text("compression.type=zstd\n")
            done = run("produce", topic, "--json", "--command-config", str(config), stdin=b"one\ntwo\n")
            assert done.returncode == 0
            assert json.loads(done.stdout) == [{"topic": topic, "records": 2}]
            assert [following.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
            os.kill(following.pid, signal.SIGINT)
            assert following.communicate(timeout=30) == (b"", b"")
            assert following.returncode == 0
        finally:
            following.kill()


def test_interactive_input(words: Callable[..., list[str]], zkafka_cluster: LocalCluster, new_topic: NewTopic) -> None:
    """`produce` writes each line when it is entered, and Ctrl-C ends it with the number of records."""
    topic = new_topic()
    with subprocess.Popen(words("produce", topic), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as producing:
        try:
            assert producing.stdin is not None
            producing.stdin.write(b"one\n")
            producing.stdin.flush()
            until = time.monotonic() + 60
            found: list[Any] = []
            while not found and time.monotonic() < until:
                found = arrived(zkafka_cluster.bootstrap_servers, topic)[0]
            assert [r[2] for r in found] == [b"one"]
            os.kill(producing.pid, signal.SIGINT)
            assert producing.wait(30) == 0
            assert producing.stderr is not None
            assert producing.stderr.read().decode() == f"Produced 1 record(s) to {topic}.\n"
        finally:
            producing.kill()


@pytest.mark.parametrize("records", [1, 2000], ids=["quiet", "busy"])
def test_broken_pipe(
    words: Callable[..., list[str]], zkafka_cluster: LocalCluster, new_topic: NewTopic, records: int
) -> None:
    """`tail` ends without a message when its reader closes the pipe, whether or not records arrive."""
    topic = new_topic()
    fill(zkafka_cluster, topic, records, size_bytes=200)
    with subprocess.Popen(
        words("tail", topic, "--from", "earliest"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as following:
        try:
            assert following.stdout is not None
            assert following.stderr is not None
            following.stdout.readline()
            following.stdout.close()
            assert following.wait(60) == 0
            assert following.stderr.read() == b""
        finally:
            following.kill()


@pytest.mark.long
def test_formats(run: Command, new_topic: NewTopic) -> None:
    """`tail` decodes with the options of a read; an undecodable record is shown unchanged, with a note."""
    topic = new_topic(partitions=1)
    assert run("produce", topic, stdin=b'{"id": 7, "at": "2026-01-31T10:00:00Z"}\nnonsense\n').returncode == 0
    options = ["--option", "value.format=json", "--option", "value.schema=id bigint, at timestamp"]
    done = run("tail", topic, "--from", "earliest", "--exit", *options)
    assert lines(done) == ['{"id": 7, "at": "2026-01-31 10:00:00+00:00"}', "nonsense"]
    assert f"{topic}-0 at offset 1: value: the bytes are no JSON" in done.stderr.decode()
    found = [json.loads(line) for line in lines(run("tail", topic, "--from", "earliest", "--exit", "--json", *options))]
    assert [one["value"] for one in found] == [{"id": 7, "at": "2026-01-31 10:00:00+00:00"}, "nonsense"]
    wrong = run("tail", topic, "--exit", "--option", "value.format=json")
    assert wrong.returncode == 2
    assert b"use --option value.schema=" in wrong.stderr
