"""References to environment variables and files."""

from __future__ import annotations

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.values import resolve_references, task_rack


@pytest.mark.parametrize(
    ("rack", "expected"),
    [
        ("a", "a"),
        ("${env:ZONE}", "b"),
        ("eu-${env:ZONE}", "eu-b"),
        ("${env:ZONE:-c}", "b"),
        ("${env:NONE:-c}", "c"),
        ("${env:EMPTY:-c}", "c"),
    ],
)
def test_task_rack(rack: str, expected: str) -> None:
    """A task's rack is literal text, its executor's variable, or the default if the variable is missing or empty."""
    assert task_rack(rack, {"ZONE": "b", "EMPTY": ""}) == expected


def test_no_rack() -> None:
    """A missing or empty variable is an error that names it and says where to set it."""
    with pytest.raises(OptionError, match=r"client.rack.*environment variable NONE, which is not set on the executor"):
        task_rack("${env:NONE}", {})
    with pytest.raises(OptionError, match=r"\$\{env:EMPTY\}.*which is empty on the executor; .*spark.executorEnv.NAME"):
        task_rack("${env:EMPTY}", {"EMPTY": ""})


def test_defaults_of_secrets() -> None:
    """An empty secret without a default stays empty."""
    assert resolve_references("${env:A}-${env:B:-x}-${env:B:-}", {"A": "", "B": ""}) == "-x-"
