"""OAUTHBEARER with tokens from a function, against a broker that verifies signatures, with both transports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from pyspark_zkafka import token_providers
from pyspark_zkafka.errors import BrokersUnavailable, ClusterStateError
from pyspark_zkafka.testing import LocalCluster
from tests.integration.security.conftest import RENEWED_S
from tests.support.security import TEN, Options, fails_soon, read_values, write_values
from tests.support.signed_tokens import PROVIDER, Signer
from tests.support.tiers import seldom

BOTH = pytest.mark.parametrize("transport", ["direct", "librdkafka"])


@pytest.fixture(autouse=True)
def no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears the process's tokens."""
    monkeypatch.setattr(token_providers, "_tokens", {})


@pytest.fixture
def login(brokers: Options, signer: Signer) -> Callable[..., Options]:
    """Makes options that log in with a token."""

    def options(provider: str = PROVIDER, config: str | None = None, **others: str) -> Options:
        return {
            **brokers,
            "listener.name": "TOKENS",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.provider": provider,
            "kafka.sasl.oauthbearer.config": signer.config() if config is None else config,
            **others,
        }

    return options


@BOTH
def test_read_and_write(
    login: Callable[..., Options], fortress: LocalCluster, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Reads and writes log in with the function's token, which no log contains."""
    caplog.set_level(1)
    topic = f"tokens-{transport}"
    fortress.create_topic(topic, partitions=1)
    write_values(login(topic=topic, transport=transport), TEN)
    assert read_values(login(subscribe=topic, transport=transport)) == TEN
    (token,) = token_providers._tokens.values()
    assert token.text not in caplog.text
    assert ("The direct transport is used" in caplog.text) == (transport == "direct")


def test_in_spark(spark: SparkSession, login: Callable[..., Options], signer: Signer) -> None:
    """Driver and executors import the function, and a worker requests one token for all its tasks."""
    before = signer.count()
    frame = spark.read.format("zkafka").options(**login(subscribe="orders", transport="direct")).load()
    for _ in range(3):
        assert sorted(bytes(row.value) for row in frame.select("value").collect()) == TEN
    assert 1 <= signer.count() - before < 9


@pytest.mark.long
@BOTH
def test_renewed_on_idle_connections(login: Callable[..., Options], signer: Signer, transport: str) -> None:
    """Idle connections whose token and session expired log in again with a new token."""
    config = signer.config(lifetime_s=RENEWED_S)
    options = login(config=config, subscribe="orders", transport=transport)
    assert read_values(options) == TEN
    before = signer.count()
    time.sleep(2 * RENEWED_S + 1)
    started = time.monotonic()
    assert read_values(options) == TEN
    assert time.monotonic() - started < 25
    assert signer.count() > before


@pytest.mark.parametrize("transport", ["direct", *seldom("librdkafka")])
def test_refused_and_failing(
    login: Callable[..., Options], transport: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The broker refuses another signer's token, and an error names a function that fails. Both errors come soon."""
    stranger = Signer(tmp_path_factory.mktemp("stranger"))
    wrong = login(config=stranger.config(), subscribe="orders", transport=transport)
    fails_soon(ClusterStateError, "REFUSED_BY_BROKER", lambda: read_values(wrong))
    broken = login(config=json.dumps({}), subscribe="orders", transport=transport)
    fails_soon(BrokersUnavailable, "TOKEN_UNAVAILABLE.*KeyError", lambda: read_values(broken))
    missing = login(provider="tests.support.signed_tokens:nothing", subscribe="orders", transport=transport)
    fails_soon(BrokersUnavailable, "TOKEN_UNAVAILABLE.*AttributeError", lambda: read_values(missing))
