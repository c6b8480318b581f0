"""Files of client properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.tools.config_file import read_config_file


def _no_prompt(label: str) -> str:
    raise AssertionError(f"asked for {label}")


def _read(path: Path, text: str) -> dict[str, str]:
    path.write_text(text)
    return read_config_file(path, _no_prompt, {"ZK_SECRET": "s3cret"})


def test_names(tmp_path: Path) -> None:
    """Kafka's own properties are prefixed, options of this package are not."""
    text = "security.protocol = SASL_SSL\nzookeeper.session.timeout.ms: 9000\nkafka.client.id=tool\n# no\n! comment\n"
    assert _read(tmp_path / "client.properties", text) == {
        "kafka.security.protocol": "SASL_SSL",
        "zookeeper.session.timeout.ms": "9000",
        "kafka.client.id": "tool",
    }


def test_continued_lines(tmp_path: Path) -> None:
    """A value goes on after a backslash at the end of a line, as in Java's properties."""
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
        ("a=\\u00zz", "cannot be read"),
    ],
)
def test_unreadable(tmp_path: Path, text: str, expected: str) -> None:
    """What cannot be read is an error that names the file."""
    with pytest.raises(OptionError, match=expected) as caught:
        _read(tmp_path / "broken.properties", text)
    assert "broken.properties" in caught.value.message


def test_missing_file(tmp_path: Path) -> None:
    """A missing file is an error."""
    with pytest.raises(OptionError, match="No such file"):
        read_config_file(tmp_path / "missing", _no_prompt)
