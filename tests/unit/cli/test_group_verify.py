"""``zkafka groups verify`` on an ensemble of values, where no broker leads a partition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from pyspark_zkafka.cli.group_verify import verify
from pyspark_zkafka.cli.output import Row
from tests.support.ensemble_client import EnsembleClient


@pytest.fixture
def client(client: EnsembleClient) -> EnsembleClient:
    """The ensemble without brokers."""
    del client.ensemble.nodes["/brokers/ids/1"]
    return client


def test_problems(run: Callable[..., list[Row]], capsys: pytest.CaptureFixture[str]) -> None:
    """A problem is a row with its remedy, and the exit status; the ends of logs are not needed for it."""
    with pytest.raises(typer.Exit) as caught:
        run(verify, ["g"])
    assert caught.value.exit_code == 1
    shown = capsys.readouterr()
    assert "No broker leads t-0, t-1" in shown.err
    assert '"partition": 1' in shown.out
