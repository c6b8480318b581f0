"""The admin client of groups, without brokers."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from pyspark_zkafka.brokers.group_admin import GroupAdmin
from pyspark_zkafka.errors import OptionError


def test_a_client_that_cannot_be_replaced() -> None:
    """After a lost connection each request tries to replace the client, as long as that fails, e.g. for want of a file."""
    with GroupAdmin("127.0.0.1:1", {}) as admin:
        first = admin._client
        admin._reports(KafkaError(KafkaError._TRANSPORT))
        admin._config |= {"security.protocol": "ssl", "ssl.ca.location": "/missing.pem"}
        for _ in range(2):
            with pytest.raises(OptionError, match="UNUSABLE_KAFKA_PROPERTY"):
                admin._begin_request()
        admin._config |= {"security.protocol": "plaintext", "ssl.ca.location": ""}
        admin._begin_request()
        assert admin._client is not first
