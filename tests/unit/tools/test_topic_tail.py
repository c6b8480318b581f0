"""``zkafka topics tail``: starts, lines and ends, with fake messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from pyspark_zkafka.errors import DataLoss, OptionError, UnknownTopic
from pyspark_zkafka.model.nouns import OffsetRange, TopicPartition
from pyspark_zkafka.model.offsets import EARLIEST, LATEST, Ago, AtTimestamp, FromEdge
from pyspark_zkafka.testing import MockCluster
from pyspark_zkafka.tools.command import Target
from pyspark_zkafka.tools.topic_records import (
    Format,
    as_text,
    decoder,
    json_record,
    line_writer,
    parse_start,
    read_records,
    tail,
)
from tests.support.foreign_headers import write_header

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def message(
    offset: int, value: bytes | None = b"v", *, tp: TopicPartition = T0, error: int | None = None, **more: Any
) -> Message:
    """Return a message of confluent-kafka, or an error at an offset."""
    failed = None if error is None else KafkaError(error)
    settings = {"timestamp": (1, 1_795_228_865_441), **more}
    return Message(topic=tp.topic, partition=tp.partition, offset=offset, value=value, error=failed, **settings)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", EARLIEST),
        ("Latest", LATEST),
        ("latest-10", FromEdge(LATEST, -10)),
        ("earliest+3", FromEdge(EARLIEST, 3)),
        ("17", 17),
        ("1700000000000", 1_700_000_000_000),
        ("2026-01-31T10:00:00Z", AtTimestamp(1_769_853_600_000)),
        ("10 minutes ago", Ago(600_000)),
    ],
)
def test_starts(text: str, position: object) -> None:
    """A start is an offset, a value of the option startingOffsets, or a time."""
    assert parse_start(text) == position


@pytest.mark.parametrize("text", ["", "-1", "committed", "latest+1", "yesterday", "9" * 30])
def test_malformed_starts_are_refused(text: str) -> None:
    """A malformed start is refused with all valid forms."""
    with pytest.raises(ValueError, match="earliest, latest, latest-10"):
        parse_start(text)


RICH = message(7, "grün".encode(), key=b"k", headers=[("a", b"1"), ("b", None), ("c", b"\xff")])
BYTES, NULL = message(8, b"\xff\n"), message(9, None, key=b"", timestamp=(0, -1))
LATER = message(10, timestamp=(1, 2**63 - 1))


@pytest.mark.parametrize(
    ("message", "form", "options", "expected"),
    [
        (RICH, "text", {}, "grün\n".encode()),
        (RICH, "text", {"key": True}, "k\tgrün\n".encode()),
        (RICH, "text", {"meta": True}, "0\t7\t2026-11-21T02:41:05.441Z\ta=1,b=,c=\\xff\tgrün\n".encode()),
        (RICH, "hex", {"key": True}, b"6b\t6772c3bc6e\n"),
        (BYTES, "text", {}, b"\xff\n\n"),
        (BYTES, "text", {"escape": True}, b"\\xff\\n\n"),
        (message(1, b"\x1b[2Ja\tb"), "text", {"escape": True}, b"\\x1b[2Ja\tb\n"),
        (NULL, "text", {"key": True, "meta": True}, b"0\t9\t-\t-\t\t\n"),
        (NULL, "hex", {}, b"\n"),
        (LATER, "text", {"meta": True}, b"0\t10\t9223372036854775807\t-\tv\n"),
    ],
)
def test_lines(message: Any, form: Format, options: dict[str, bool], expected: bytes) -> None:
    """Bytes are written unchanged to a pipe, and escaped on a terminal."""
    assert line_writer(form, as_text, **{"key": False, "meta": False, "escape": False, **options})(message) == expected


def test_headers_are_read_first() -> None:
    """Headers are read before a decoder reads them, which may be the last time: see `UNREADABLE_HEADERS`."""
    order: list[str] = []

    class Noting(Message):
        def headers(self) -> list[tuple[str, bytes | None]] | None:
            order.append("line")
            return None

    def fields(_: Any) -> tuple[Any, Any]:
        order.append("decoder")
        return None, "v"

    noting = Noting(topic="t", partition=0, offset=1, value=b"v", timestamp=(0, -1))
    line_writer("text", fields, key=False, meta=True, escape=False)(noting)
    assert order == ["line", "decoder"]


def test_json() -> None:
    """JSON has all fields, with base64 for bytes that are not UTF-8."""
    line = line_writer("json", as_text, key=False, meta=False, escape=True)(RICH)
    assert json.loads(line) == {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp": "2026-11-21T02:41:05.441Z",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}, {"name": "c", "value_base64": "/w=="}],
        "key": "k",
        "value": "grün",
    }
    assert json_record(BYTES, as_text)["value_base64"] == "/wo="
    null = json_record(NULL, as_text)
    assert null["value"] is None
    assert null["timestamp"] is None

    class Unreadable(Message):
        def headers(self) -> Any:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")

    with pytest.raises(OptionError, match="header with a name that is not UTF-8"):
        json_record(Unreadable(topic="t", partition=0, offset=1), as_text)


def test_numbers_that_json_lacks() -> None:
    """NaN and infinities are strings, at any depth, in JSON and in decoded text."""
    decoded = {"a": [float("nan"), 1.5], "b": (float("-inf"), b"\xff")}
    shown = {"a": ["NaN", 1.5], "b": ["-Infinity", "/w=="]}
    for form, expected in (("json", {"key": "Infinity", "value": shown}), ("text", shown)):
        line = line_writer(form, lambda _: (float("inf"), decoded), key=False, meta=False, escape=False)
        found = json.loads(line(message(1)), parse_constant=pytest.fail)
        assert (found if form == "text" else {name: found[name] for name in expected}) == expected


def test_header_name_that_is_not_utf8() -> None:
    """It is an error after the earlier records. These are many, as Python takes another path for frequent calls."""
    with MockCluster() as cluster:
        cluster.create_topic("t", partitions=1)
        cluster.produce("t", [{"value": b"v", "headers": [("h", b"1")]}] * 100)
        write_header(cluster.bootstrap_servers, "t", b"\xff\xfe")
        tail = [sys.executable, "-m", "pyspark_zkafka.tools", "topics", "tail", "t", "--from", "earliest", "--exit"]
        for options in (["--format", "json"], ["--meta"]):
            command = [*tail, *options, "--bootstrap-server", cluster.bootstrap_servers]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            assert found.returncode == 2
            assert len(found.stdout.splitlines()) == 100
            assert "The record at offset 100 of t-0 has a header with a name that is not UTF-8" in found.stderr


def test_decoded_time_beyond_the_calendar(new_target: Callable[..., Target], capsys: pytest.CaptureFixture[str]) -> None:
    """A decoded time that Python's calendar does not have leaves the record's bytes as they are, with a note."""
    schema = '{"type": "long", "logicalType": "timestamp-micros"}'
    target = new_target(as_json=False, dry_run=False)
    fields = decoder(target, "t", {"value.format": "avro", "value.schema": schema})
    written = message(5, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")
    assert fields(written) == (None, written.value())
    assert "t-0 at offset 5: a date or time cannot be shown" in capsys.readouterr().err
    assert fields(message(6, b"\x02"))[1] == datetime(1970, 1, 1, 0, 0, 0, 1, timezone.utc)


def test_decoded_maps(new_target: Callable[..., Target]) -> None:
    """Maps are objects at any depth, also empty ones."""
    schema = "m map<string, array<struct<n: map<string, int>>>>, e map<string, int>, l array<int>, s struct<x: int>"
    fields = decoder(new_target(as_json=True, dry_run=False), "t", {"value.format": "json", "value.schema": schema})
    document = {"m": {"a": [{"n": {"b": 1}}, None]}, "e": {}, "l": [], "s": None}
    assert fields(message(5, json.dumps(document).encode()))[1] == document


def test_wrong_formats(new_target: Callable[..., Target]) -> None:
    """An error about options names only what was given."""
    with pytest.raises(OptionError, match=r"did you mean value\.format") as caught:
        decoder(new_target(as_json=False, dry_run=False), "t", {"value.formt": "json"})
    assert "mode" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "no name", "a/b", "x" * 600])
def test_names_of_topics(new_target: Callable[..., Target], name: str) -> None:
    """A name that no topic can have is refused before the cluster is asked."""
    with pytest.raises(OptionError, match="TOPIC"):
        tail.__wrapped__(new_target(as_json=False, dry_run=False), name)  # type: ignore[attr-defined]


@dataclass
class Consumer:
    """A fake of confluent-kafka's consumer that returns the prepared answers."""

    answers: list[list[Message]]
    assigned: list[Any] = field(default_factory=list)
    paused: list[Any] = field(default_factory=list)
    is_known: bool = False

    def list_topics(self, topic: str, timeout_s: float) -> Any:
        partitions = {0: None} if self.is_known else {}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})

    def assign(self, partitions: list[Any]) -> None:
        self.assigned += [(p.topic, p.partition, p.offset) for p in partitions]

    def pause(self, partitions: list[Any]) -> None:
        self.paused += [p.partition for p in partitions]

    def consume(self, most: int, timeout_s: float) -> list[Message]:
        if not self.answers:
            raise KeyboardInterrupt
        return self.answers.pop(0)


def client_of(consumer: Consumer) -> Any:
    """Return a client with a consumer."""
    return SimpleNamespace(consumer=consumer, warm_up=lambda topic: None, note=None)


@pytest.fixture
def reading() -> Callable[..., tuple[Consumer, list[int]]]:
    """A function that reads ranges from prepared answers, and returns the consumer and the offsets read.

    The offsets are also added to `found`, for reads that end with an error.
    """

    def run(
        ranges: list[OffsetRange], *answers: list[Message], until_end: bool = True, found: list[int] | None = None
    ) -> tuple[Consumer, list[int]]:
        consumer, found = Consumer(list(answers)), [] if found is None else found
        for messages in read_records(client_of(consumer), ranges, until_end=until_end):
            found += [message.offset() or 0 for message in messages]
        return consumer, found

    return run


def test_reading_to_the_ends(reading: Any) -> None:
    """A partition ends at its range's end, even if its last offsets have no record, and an empty one is not read."""
    end = KafkaError._PARTITION_EOF
    ranges = [OffsetRange(T0, 3, 5), OffsetRange(T1, 0, 9), OffsetRange(TopicPartition("t", 2), 4, 4)]
    consumer, found = reading(
        ranges,
        [message(3), message(4), message(5)],
        [message(0, tp=T1), message(6)],
        [],
        [message(9, None, tp=T1, error=end)],
    )
    assert found == [3, 4, 0]
    assert consumer.assigned == [("t", 0, 3), ("t", 1, 0)]
    assert consumer.paused == [0, 1]
    assert reading([OffsetRange(T0, 5, 5)])[1] == []


def test_following(reading: Any) -> None:
    """Without an end, reading continues after the end of a log."""
    answers = [message(5, None, error=KafkaError._PARTITION_EOF)], [message(5)], [message(6)]
    found: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        reading([OffsetRange(T0, 5, 5)], *answers, until_end=False, found=found)
    assert found == [5, 6]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError._AUTO_OFFSET_RESET, DataLoss), (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopic)],
)
def test_records_that_are_gone(code: int, kind: type[Exception]) -> None:
    """A deleted topic and a position outside the log end the command with an error."""
    client = client_of(Consumer([[message(3, None, error=code)]]))
    with pytest.raises(kind):
        list(read_records(client, [OffsetRange(T0, 3, 5)], until_end=True, missing_s=0))


def test_broker_that_does_not_know_the_topic_yet() -> None:
    """A topic that another broker knows has not been deleted: reading continues."""
    unknown = message(3, None, error=KafkaError.UNKNOWN_TOPIC_OR_PART)
    client = client_of(Consumer([[unknown], [message(3), message(4)]], is_known=True))
    nothing, messages = read_records(client, [OffsetRange(T0, 3, 5)], until_end=True)
    assert nothing == []
    assert [message.offset() for message in messages] == [3, 4]


def test_json_on_a_terminal() -> None:
    """JSON for a terminal has printable ASCII alone; elsewhere it has the text itself."""
    text = "é\x9b2J\x7f\u202e"
    lines = [
        line_writer("json", as_text, key=False, meta=False, escape=e)(message(1, text.encode())) for e in (True, False)
    ]
    assert [json.loads(line)["value"] for line in lines] == [text, text]
    assert lines[0].decode().strip().isprintable()
    assert lines[0].isascii()
    assert "é".encode() in lines[1]
