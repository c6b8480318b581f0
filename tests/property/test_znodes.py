"""Decoding of znodes returns what was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyspark_zkafka.model.nouns import Broker, Endpoint, PartitionState, Topic, TopicPartition
from pyspark_zkafka.model.topic_names import is_topic_name
from pyspark_zkafka.model.znodes import cluster, groups
from pyspark_zkafka.model.znodes import cluster as znodes
from pyspark_zkafka.model.znodes.codec import encode_json

INT = st.integers(-(2**31), 2**31 - 1)
ID = st.integers(0, 2**31 - 1)
COUNT = st.integers(1, 2**31 - 1)
THREADS = st.integers(1, groups.MAX_THREADS // 4)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NAME = st.text("abcXYZ019._-", min_size=1, max_size=20).filter(is_topic_name)
REPLICAS = st.dictionaries(ID, st.lists(ID, max_size=4).map(tuple), max_size=8)
PARTITIONS = st.builds(TopicPartition, TEXT, ID)
TIMESTAMP = st.none() | st.integers(0, 2**63).map(str)


@given(
    st.integers(2, 5),
    st.lists(st.text("ABCZ09_-", min_size=1, max_size=8), unique=True, max_size=4),
    st.sampled_from(["", "kafka1", "127.0.0.1", "::1", "fe80::1%eth0"]),
    st.integers(0, 65535),
    st.none() | TEXT,
)
def test_brokers(version: int, names: list[str], host: str, port: int, rack: str | None) -> None:
    """A broker of any version with endpoints is decoded to its endpoints, rack, host and port."""
    protocols = {name: "SSL" if version > 3 else name for name in names}
    broker = Broker(7, tuple(Endpoint(name, protocols[name], host, port) for name in names), rack)
    written = {
        "version": version,
        "endpoints": [f"{e.listener}://{e}" for e in broker.endpoints],
        "listener_security_protocol_map": protocols,
        "rack": rack,
        "host": host,
        "port": port,
        "timestamp": "5",
    }
    found = znodes.decode_broker("/brokers/ids/7", encode_json(written))
    assert found == znodes.BrokerRegistration(broker, version, host, port, "5")


@given(REPLICAS, st.none() | TEXT)
def test_topics(partitions: dict[int, tuple[int, ...]], topic_id: str | None) -> None:
    """A topic is decoded to its id and its replicas, partitions in numeric order."""
    written = {"version": 3, "topic_id": topic_id, "partitions": {str(p): ids for p, ids in partitions.items()}}
    found = znodes.decode_topic("/brokers/topics/t", encode_json(written))
    assert found == Topic("t", partitions, topic_id)
    assert list(found.partitions) == sorted(partitions)


@given(st.builds(PartitionState, st.integers(-1, 2**31 - 1), INT, st.lists(INT, max_size=5).map(tuple), INT))
def test_partition_states(state: PartitionState) -> None:
    """Decoding a partition's state returns leader, epochs and ISR."""
    written = {key: getattr(state, key) for key in ("controller_epoch", "leader", "leader_epoch", "isr")}
    assert znodes.decode_partition_state("/s", encode_json(written)) == state


@given(ID, TIMESTAMP)
def test_controllers(broker: int, timestamp: str | None) -> None:
    """A controller is decoded from JSON and from a bare id."""
    found = znodes.decode_controller("/c", encode_json({"version": 1, "brokerid": broker, "timestamp": timestamp}))
    assert found == znodes.ControllerInfo(broker, timestamp)
    assert znodes.decode_controller("/c", str(broker).encode()) == znodes.ControllerInfo(broker)


@given(st.dictionaries(TEXT, TEXT, max_size=4))
def test_topic_configs(config: dict[str, str]) -> None:
    """A configuration is decoded in its own order."""
    found = cluster.decode_topic_config("/c", encode_json({"version": 1, "config": config}))
    assert list(found.items()) == list(config.items())


@given(st.dictionaries(PARTITIONS, st.lists(ID, max_size=3).map(tuple), max_size=4))
def test_reassignments_and_elections(replicas: dict[TopicPartition, tuple[int, ...]]) -> None:
    """Decoding reassignments and elections returns what was written."""
    data = encode_json({"partitions": [{**tp._asdict(), "replicas": ids} for tp, ids in replicas.items()]})
    assert cluster.decode_reassignment("/r", data) == list(replicas.items())
    assert cluster.decode_preferred_election("/e", data) == tuple(replicas)


@given(st.dictionaries(NAME, THREADS, max_size=4), TIMESTAMP)
def test_registrations_round_trip(subscription: dict[str, int], timestamp: str | None) -> None:
    """Decoding a consumer's registration returns what was written."""
    registration = groups.ConsumerRegistration(subscription, "static", timestamp)
    assert groups.decode_registration("/c", groups.encode_registration(registration)) == registration


@given(st.integers(-(2**63), 2**63 - 1))
def test_offsets_round_trip(offset: int) -> None:
    """Decoding an offset returns what was written."""
    assert groups.decode_offset("/o", groups.encode_offset(offset)) == offset


@given(NAME, ID)
def test_keys_round_trip(topic: str, partition: int) -> None:
    """The last parts of an owner's and an offset's path give the partition."""
    tp = TopicPartition(topic, partition)
    for path in (groups.owner_path("g", tp), groups.offset_path("g", tp)):
        assert groups.parse_key(path, *path.split("/")[-2:]) == tp
