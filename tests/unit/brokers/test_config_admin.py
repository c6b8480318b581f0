"""Requests about configurations: errors of brokers, and brokers that do not answer."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.config_admin import ConfigAdmin, invalid_config
from pyspark_zkafka.errors import BrokersUnavailable, ZKafkaError


@pytest.mark.parametrize("code", [KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST, KafkaError.POLICY_VIOLATION])
def test_invalid_configuration(code: int) -> None:
    """What a broker finds wrong with a configuration is an error of the user's options, in the broker's words."""
    error = invalid_config("orders", KafkaError(code, "Unknown topic config name: retention"))
    assert error is not None
    assert error.condition == "INVALID_TOPIC_CONFIG"
    text = "The configuration of orders is not valid: Unknown topic config name: retention; correct the name or the value"
    assert error.message == text
    assert not error.retriable


@pytest.mark.parametrize(
    "code", [KafkaError._TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNSUPPORTED_VERSION]
)
def test_other_errors(code: int) -> None:
    """Other errors are not about the configuration."""
    assert invalid_config("orders", KafkaError(code)) is None


def test_brokers_out_of_reach() -> None:
    """If no broker answers, the error says what was being done."""
    with ConfigAdmin("127.0.0.1:1", {"socket.timeout.ms": 300}) as admin:
        with pytest.raises(BrokersUnavailable, match="validating the configuration of orders at 127"):
            admin.check_topic_config("orders", {"retention.ms": "1"})
        with pytest.raises(BrokersUnavailable, match="describing the configuration of broker 1 at 127"):
            admin.broker_config(1, "transaction.max.timeout.ms")


def test_broker_that_does_not_know_the_request(servers: str) -> None:
    """A broker without the request, as Kafka before 0.11, has validated nothing, which is no error of the options."""
    with ConfigAdmin(servers, {"socket.timeout.ms": 1000}) as admin, pytest.raises(ZKafkaError) as caught:
        admin.check_topic_config("t", {"retention.ms": "1"})
    assert caught.value.condition != "INVALID_TOPIC_CONFIG"
