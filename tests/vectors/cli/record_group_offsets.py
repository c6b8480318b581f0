"""Recorder of the outputs of Kafka's tools and of ``zkafka groups`` for the same jobs on the same cluster.

``python tests/vectors/cli/record_group_offsets.py`` starts Kafka 3.9.1, and writes ``NAME.kafka`` and ``NAME.zkafka`` into
``reset-offsets/``, ``export/`` and ``delete/`` next to itself. A test compares them.
"""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.testing.jvm_clients import run_kafka_tool
from pyspark_zkafka.tools import app as zkafka

FOLDER = Path(__file__).parent
RESETS = {
    "to-earliest": ["--to-earliest"],
    "to-latest": ["--to-latest"],
    "to-current": ["--to-current"],
    "to-offset": ["--to-offset", "7"],
    "shift-by": ["--shift-by", "-3"],
    "to-datetime": ["--to-datetime", "2026-11-18T11:06:47.500"],
}
GROUP, TOPIC = "billing", "orders"


def record(cluster: LocalCluster) -> None:
    """Create a topic and a group, and run all jobs."""
    cluster.create_topic(TOPIC, partitions=2)
    times = [{"value": b"v", "partition": 0, "timestamp": 1_795_000_000_000 + n * 1_000} for n in range(20)]
    cluster.produce(TOPIC, [*times, *({"value": b"v", "partition": 1} for _ in range(5))])
    with cluster.zookeeper() as znodes:
        for path in ("ids", f"owners/{TOPIC}"):
            znodes.ensure_path(f"/consumers/{GROUP}/{path}")
        for partition, offset in enumerate([10, 2]):
            znodes.create(f"/consumers/{GROUP}/offsets/{TOPIC}/{partition}", str(offset).encode(), makepath=True)
    ours(cluster, "migrate", GROUP, "--yes")
    main, where = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", cluster.bootstrap_servers
    reset = (main, "--bootstrap-server", where, "--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--dry-run")
    for name, arguments in RESETS.items():
        own = ours(cluster, "reset-offsets", GROUP, "--topic", TOPIC, "--dry-run", *arguments)[0]
        write(f"reset-offsets/{name}", run_kafka_tool("3.9.1", *reset, *arguments), own)
    lines = run_kafka_tool("3.9.1", *reset, "--shift-by", "1", "--export")
    (FOLDER / "reset-offsets" / "export.kafka").write_text(lines)
    file = FOLDER / "export.tmp"
    run_kafka_tool(
        "1.1.1", "kafka.tools.ExportZkOffsets", "--zkconnect", cluster.zookeeper_connect, "--group", GROUP,
        "--output-file", str(file),
    )  # fmt: skip
    write("export/zk", file.read_text(), ours(cluster, "export", GROUP)[0])
    file.unlink()
    ours(cluster, "export", GROUP)
    saved = FOLDER / "saved.tmp"
    saved.write_text(ours(cluster, "export", GROUP)[0])
    main, where = "kafka.admin.ConsumerGroupCommand", cluster.zookeeper_connect
    theirs = run_kafka_tool("1.1.1", main, "--zookeeper", where, "--delete", "--group", GROUP)
    ours(cluster, "import", str(saved), "--yes")
    saved.unlink()
    write("delete/group", theirs, ours(cluster, "delete", GROUP, "--yes")[1])


def ours(cluster: LocalCluster, *arguments: str) -> tuple[str, str]:
    """Return standard output and standard error of ``zkafka groups``."""
    result = CliRunner().invoke(zkafka, ["groups", *arguments, "--zookeeper", cluster.zookeeper_connect])
    if result.exit_code:
        raise SystemExit(result.output)
    return result.stdout, result.stderr


def write(name: str, theirs: str, own: str) -> None:
    """Store both outputs."""
    (FOLDER / name).parent.mkdir(exist_ok=True)
    (FOLDER / f"{name}.kafka").write_text(theirs)
    (FOLDER / f"{name}.zkafka").write_text(own)


if __name__ == "__main__":
    with LocalCluster(brokers=1, broker_config={"offsets.topic.replication.factor": "1"}) as cluster:
        record(cluster)
