"""Requests to the brokers about configurations: theirs, and those of topics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource

from pyspark_zkafka.brokers.admin import KafkaAdmin
from pyspark_zkafka.conditions import INVALID_TOPIC_CONFIG
from pyspark_zkafka.errors import OptionError

__all__ = ["ConfigAdmin", "invalid_config"]

_INVALID_CONFIG_CODES = frozenset({KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST, KafkaError.POLICY_VIOLATION})


class ConfigAdmin(KafkaAdmin):
    """A `KafkaAdmin` that also reads and validates configurations; needs Kafka 0.11 or later."""

    def check_topic_config(self, topic: str, config: Mapping[str, str]) -> None:
        """Have a broker validate the whole of a topic's configuration, and change nothing.

        Raises
        ------
        OptionError
            A name or a value is wrong.
        ZKafkaError
            No broker answers, or it does not know the request.
        """
        self._begin_request()
        doing, resource = f"validating the configuration of {topic}", ConfigResource("topic", topic, dict(config))
        with warnings.catch_warnings():
            # Brokers before 2.3 do not know the request that replaces this one.
            warnings.simplefilter("ignore", DeprecationWarning)
            futures = self._admin().alter_configs([resource], validate_only=True, request_timeout=self._timeout_s)
        try:
            self._result(doing, futures[resource])
        except KafkaException as error:
            raise invalid_config(topic, error.args[0]) or self._error(error, doing) from error

    def broker_config(self, broker: int, name: str) -> str | None:
        """The value of a broker's setting, None if the broker does not have it."""
        self._begin_request()
        resource = ConfigResource("broker", str(broker))
        future = self._admin().describe_configs([resource], request_timeout=self._timeout_s)[resource]
        doing = f"describing the configuration of broker {broker}"
        found = self._call(doing, lambda _: self._result(doing, future)).get(name)
        return None if found is None else found.value


def invalid_config(topic: str, error: KafkaError) -> OptionError | None:
    """The error for a configuration that a broker refuses; None for an error that is not about the configuration."""
    if error.code() not in _INVALID_CONFIG_CODES:
        return None
    text = f"The configuration of {topic} is not valid: {error.str()}"
    return INVALID_TOPIC_CONFIG(f"{text}; correct the name or the value")
