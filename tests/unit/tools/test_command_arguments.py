"""Arguments of commands: files, NAME=VALUE, topics with partitions, and times."""

from __future__ import annotations

import io
import traceback
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pyspark_zkafka.errors import OptionError, UnknownTopic
from pyspark_zkafka.model.nouns import ClusterSnapshot, Topic, TopicPartition
from pyspark_zkafka.tools import app as zkafka
from pyspark_zkafka.tools.command import (
    find_partitions,
    parse_pairs,
    parse_partitions,
    read_config_file,
    read_text,
    require_topics,
)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash stands for the standard input, which is UTF-8 whatever the locale."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("größer".encode()), "ascii", "surrogateescape"))
    assert read_text("-") == "größer"


def test_standard_input_that_is_not_text() -> None:
    """Other bytes on the standard input are a wrong option, and the error has the remedy."""
    result = CliRunner().invoke(zkafka, ["groups", "import", "-", "--zookeeper", "127.0.0.1:1"], input=b"\xff\xfe")
    expected = "[INVALID_OPTION] The standard input cannot be read: it is not text in UTF-8. Convert it to UTF-8\n"
    assert result.exit_code == 2
    assert result.stderr == expected


@pytest.mark.parametrize(
    "command",
    [
        ["admin", "reassign", "--reassignment-json-file"],
        ["groups", "import"],
        ["groups", "reset-offsets", "g", "--from-file"],
    ],
)
@pytest.mark.parametrize("name", ["latin", "missing", "."])
def test_files_that_cannot_be_read(command: list[str], name: str, tmp_path: Path) -> None:
    """A file that is missing, or is not text, is a wrong option, and the error has its name and the reason."""
    (tmp_path / "latin").write_bytes(b"{\xff}")
    result = CliRunner().invoke(zkafka, [*command, str(tmp_path / name), "--zookeeper", "127.0.0.1:1"])
    reasons = {"latin": "it is not text in UTF-8", "missing": "No such file or directory", ".": "Is a directory"}
    expected = (
        f"[INVALID_OPTION] The file {tmp_path / name} cannot be read: {reasons[name]}. Correct its name or its text\n"
    )
    assert result.exit_code == 2
    assert result.stderr == expected


def _no_prompt(label: str) -> str:
    raise AssertionError(f"asked for {label}")


def _read(path: Path, text: str) -> dict[str, str]:
    path.write_text(text)
    return read_config_file(path, _no_prompt, {"ZK_SECRET": "s3cret"})


def test_names_of_properties(tmp_path: Path) -> None:
    """Kafka's own properties get a prefix, and options of this package do not."""
    text = "security.protocol = SASL_SSL\nzookeeper.session.timeout.ms: 9000\nkafka.client.id=tool\n# no\n! comment\n"
    assert _read(tmp_path / "client.properties", text) == {
        "kafka.security.protocol": "SASL_SSL",
        "zookeeper.session.timeout.ms": "9000",
        "kafka.client.id": "tool",
    }


def test_continued_lines(tmp_path: Path) -> None:
    """A value continues after a backslash at the end of a line, as in Java's properties."""
    assert _read(tmp_path / "f", "sasl.mechanism=SCRAM-\\\n    SHA-512\n") == {"kafka.sasl.mechanism": "SCRAM-SHA-512"}


def test_secrets(tmp_path: Path) -> None:
    """Secrets come from the environment, a file or the terminal."""
    (tmp_path / "password").write_text("p4ss\n")
    file = tmp_path / "f"
    file.write_text(
        f"zookeeper.auth=digest:tool:${{env:ZK_SECRET}}\nsasl.password=${{file:{tmp_path}/password}}\n"
        "ssl.key.password=${prompt:Key}\n"
    )
    assert read_config_file(file, lambda label: f"<{label}>", {"ZK_SECRET": "s3cret"}) == {
        "zookeeper.auth": "digest:tool:s3cret",
        "kafka.sasl.password": "p4ss",
        "kafka.ssl.key.password": "<Key>",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=${env:MISSING}", "environment variable MISSING, which is not set"),
        ("a=${file:/does/not/exist}", "file /does/not/exist, which cannot be read"),
        ("a=\\u00zz", r"has no Java properties: \\u is not followed by four hexadecimal digits\. Correct the file"),
    ],
)
def test_unreadable_properties(tmp_path: Path, text: str, expected: str) -> None:
    """A malformed file is an error that names the file."""
    with pytest.raises(OptionError, match=expected) as caught:
        _read(tmp_path / "broken.properties", text)
    assert "broken.properties" in caught.value.message


def test_secret_in_unreadable_properties(tmp_path: Path) -> None:
    """The error for a malformed value does not quote it, and neither does its traceback."""
    secret = "\\uhush"
    with pytest.raises(OptionError) as caught:
        _read(tmp_path / "broken.properties", f"sasl.password={secret}")
    assert "uhu" not in "".join(traceback.format_exception(caught.value))


def test_missing_properties(tmp_path: Path) -> None:
    """A missing file is an error."""
    with pytest.raises(OptionError, match=r"missing cannot be read: No such file or directory\. Correct its name"):
        read_config_file(tmp_path / "missing", _no_prompt)


def test_pairs() -> None:
    """A name may have several values; a value may be empty or contain an equals sign."""
    assert parse_pairs(["a=1", "b=", "c=x=y", "a=2"], "--option") == [("a", "1"), ("b", ""), ("c", "x=y"), ("a", "2")]
    assert parse_pairs(None, "--option") == []


@pytest.mark.parametrize(
    ("text", "strict"), [("a", False), ("=1", False), (" =1", False), ("\udcff=1", False), ("a=", True), ("a=b=c", True)]
)
def test_malformed_pairs(text: str, strict: bool) -> None:
    """A pair needs a name and, in strict mode, a value without an equals sign."""
    with pytest.raises(typer.BadParameter, match="write NAME=VALUE"):
        parse_pairs([text], "--option", strict=strict)


@pytest.mark.parametrize("topics", [[], ["a"], ["b", "a", "a"]])
def test_topics_that_exist(topics: list[str]) -> None:
    """Topics may be given in any order and repeatedly."""
    require_topics(topics, ["a", "b", "c"])


def test_topics_that_do_not_exist() -> None:
    """The error lists each unknown topic once, sorted, and names the command that lists the existing ones."""
    with pytest.raises(UnknownTopic, match=r"UNKNOWN_TOPIC\] Topics do not exist: x, y; see zkafka topics list$"):
        require_topics(["y", "a", "x", "y"], {"a"})


def test_partitions() -> None:
    """A topic without numbers stands for all of its partitions, and one error lists all unknown topics and partitions."""
    snapshot = ClusterSnapshot({}, {"t": Topic("t", {0: (1,), 1: (1,)}), "u": Topic("u", {0: (1,)})})
    assert find_partitions(parse_partitions(["t", "t:1", "u:0"]), snapshot) == [
        TopicPartition("t", 0),
        TopicPartition("t", 1),
        TopicPartition("u", 0),
    ]
    assert [tp.partition for tp in find_partitions(parse_partitions(["t:0", "t:1"]), snapshot)] == [0, 1]
    with pytest.raises(UnknownTopic, match="no x, u-3;"):
        find_partitions(parse_partitions(["t", "x", "u:3"]), snapshot)


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:a", "t:1,", "t:-1", "t:1,-2", "t:1:2"])
def test_malformed_partitions(text: str) -> None:
    """An argument must be a topic, or a topic with partition numbers."""
    with pytest.raises(OptionError, match="write TOPIC"):
        parse_partitions([text])
