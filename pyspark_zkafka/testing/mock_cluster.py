"""A cluster in this process, without Java: librdkafka's mock brokers, on real ports of the loopback interface."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from pyspark_zkafka.model.topic_names import RULE, is_topic_name
from pyspark_zkafka.options.client_properties import load_librdkafka
from pyspark_zkafka.testing.conditions import BAD_CLUSTER, CLUSTER_NOT_RUNNING, NO_MOCK_BROKERS, REFUSED_BY_CLUSTER
from pyspark_zkafka.testing.topics import Record, produce

_PRODUCER = 0  # rd_kafka_type_t
_TEXT_BYTES = 512
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_destroy": (None, (ctypes.c_void_p,)),
    "rd_kafka_err2str": (ctypes.c_char_p, (ctypes.c_int,)),
    "rd_kafka_mock_cluster_new": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
    "rd_kafka_mock_cluster_destroy": (None, (ctypes.c_void_p,)),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, (ctypes.c_void_p,)),
    "rd_kafka_mock_set_controller_id": (None, (ctypes.c_void_p, ctypes.c_int32)),
    "rd_kafka_mock_topic_create": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
}


class MockCluster:
    """Mock brokers in this process, which other processes of this machine can reach. They start within milliseconds.

    Reads, streams and writes work, by both transports. These features are missing: ZooKeeper, starts by timestamp, consumer
    groups (a query with `group.id` waits), exactly-once writes, the configuration of topics and brokers, the creation and
    deletion of topics by clients, TLS and logins. If a client asks for a missing topic, the brokers create it with four
    partitions. Records stay in memory. If there are many, the brokers drop the oldest records.

    Raises
    ------
    LocalClusterError
        ``BAD_CLUSTER`` if `brokers` is below 1. ``NO_MOCK_BROKERS`` if confluent-kafka's librdkafka does not have
        the functions of mock brokers.

    Examples
    --------
    >>> with MockCluster() as cluster:
    ...     cluster.create_topic("orders", partitions=2)
    ...     cluster.produce("orders", [{"key": b"k", "value": b"v", "partition": 1}])
    {1: [0]}
    """

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._library: Any = None
        self._client: int | None = None
        self._cluster: int | None = None

    def __enter__(self) -> MockCluster:
        if self._brokers < 1:
            raise BAD_CLUSTER(f"brokers is {self._brokers}, and must be 1 or more")
        self._library = _library()
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", text, _TEXT_BYTES)
        self._client = self._library.rd_kafka_new(_PRODUCER, conf, text, _TEXT_BYTES)
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, self._brokers)
        if self._cluster is None:
            self.__exit__()
            raise REFUSED_BY_CLUSTER(f"librdkafka cannot start {self._brokers} mock brokers; check the limit of open files")
        # Without a controller, clients cannot describe topics.
        self._library.rd_kafka_mock_set_controller_id(self._cluster, 1)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._cluster is not None:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        if self._client is not None:
            self._library.rd_kafka_destroy(self._client)
        self._cluster = self._client = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers, for `kafka.bootstrap.servers`."""
        cluster = self._running()
        servers: bytes = self._library.rd_kafka_mock_cluster_bootstraps(cluster)
        return servers.decode()

    def create_topic(self, topic: str, partitions: int = 1, replication: int = 1) -> None:
        """Create an empty topic. Raises ``REFUSED_BY_CLUSTER``, for example because it exists."""
        cluster = self._running()
        refused = f"The mock cluster refused to create topic {topic!r}"
        # librdkafka checks neither the name nor the numbers, and ends the process for a negative number.
        if not is_topic_name(topic):
            raise REFUSED_BY_CLUSTER(f"{refused}: {RULE}; correct the name")
        if partitions < 1 or replication < 1:
            raise REFUSED_BY_CLUSTER(f"{refused}: it needs at least 1 partition and 1 replica; correct the arguments")
        code = self._library.rd_kafka_mock_topic_create(cluster, topic.encode(), partitions, replication)
        if code:
            reason = self._library.rd_kafka_err2str(code).decode()
            raise REFUSED_BY_CLUSTER(f"{refused}: {reason}; correct the arguments")

    def produce(self, topic: str, records: Iterable[Record]) -> dict[int, list[int]]:
        """Produce records, as `LocalCluster.produce` does, and return their offsets by partition."""
        return produce({"bootstrap.servers": self.bootstrap_servers, "log_level": 0}, topic, records)

    def _running(self) -> int:
        if self._cluster is None:
            raise CLUSTER_NOT_RUNNING("The mock cluster does not run; use it inside its with block")
        return self._cluster


def _library() -> Any:
    library = load_librdkafka()
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as exc:
        raise NO_MOCK_BROKERS(
            f"This confluent-kafka has no mock brokers ({exc}); install confluent-kafka's wheel in a newer version"
        ) from exc
    return library
