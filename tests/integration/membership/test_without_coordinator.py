"""Members on a cluster that cannot coordinate groups yet."""

from __future__ import annotations

import logging

import pytest

from pyspark_zkafka.model.planning import Subscribe
from pyspark_zkafka.testing import LocalCluster
from tests.support.memberships import KINDS, kafka_member

pytestmark = pytest.mark.long


def test_too_few_brokers(caplog: pytest.LogCaptureFixture) -> None:
    """If __consumer_offsets cannot be created, a KIP-848 member warns and waits; its protocol is not blamed."""
    with LocalCluster(kafka_version="4.3.1", brokers=1, broker_config={"offsets.topic.replication.factor": "3"}) as cluster:
        cluster.create_topic("t", partitions=2)
        member = kafka_member(cluster.bootstrap_servers, "g", Subscribe(("t",)), **KINDS["consumer"])
        member.join()
        try:
            with caplog.at_level(logging.WARNING):
                assert not member.wait_settled(8)
            assert member.rebalance() == {}
        finally:
            member.leave()
    assert "there is no __consumer_offsets, so that no broker coordinates the group" in caplog.text
