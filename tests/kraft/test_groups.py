"""``zkafka groups`` and the exporter on a cluster without ZooKeeper, compared with Kafka's own tool."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from pyspark_zkafka.brokers.group_offsets import KafkaGroupOffsets
from pyspark_zkafka.model.nouns import TopicPartition
from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.view_planner import plan_view
from pyspark_zkafka.testing import LocalCluster
from pyspark_zkafka.tools import app as zkafka
from pyspark_zkafka.tools.collector import BrokerReader, ClusterCollector, KafkaReader
from tests.support.eventually import eventually
from tests.support.exporters import running_exporter, value
from tests.support.fill import fill
from tests.support.groups_tool import GroupsTool, Row, table
from tests.support.java_consumer import JavaConsumer
from tests.support.odd_members import odd_member
from tests.support.options import broker_connection

if TYPE_CHECKING:
    from typer.testing import Result

VERSION = "4.3.1"
RECORDS = 10
JSON = b'{"tasks": [1, 2]}'
KINDS = ("classic", "kip848", "empty", "crowded", "connect", "odd")
CONSUMERS = ("classic", "kip848", "empty", "crowded")


@dataclass(frozen=True)
class Groups:
    """Groups by kind. Most read `topic`: three partitions, two of them with records. Kind ``crowded`` reads `small`."""

    cluster: LocalCluster
    topic: str
    small: str

    def name(self, kind: str) -> str:
        """Return the group of a kind."""
        return f"{kind}-of-{self.topic}"

    def tool(self, kind: str) -> GroupsTool:
        """Return Kafka's tool for a group."""
        return GroupsTool(self.cluster.bootstrap_servers, self.name(kind), VERSION)

    def run(self, command: str, *arguments: str, status: int = 0) -> Result:
        """Run ``zkafka groups``."""
        where = ("--bootstrap-server", self.cluster.bootstrap_servers)
        found = CliRunner().invoke(zkafka, ["groups", command, *arguments, *where])
        assert found.exit_code == status, found.output
        return found

    def json(self, command: str, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Return the rows of a command."""
        found: list[dict[str, Any]] = json.loads(self.run(command, *arguments, "--json", status=status).stdout)
        return found

    def commit(self, group: str, offset: int) -> str:
        """Commit an offset for partition 0; return the name of the group."""
        with KafkaGroupOffsets(self.cluster.bootstrap_servers, {}, group) as offsets:
            offsets.commit({TopicPartition(self.topic, 0): offset})
        return group


def java_consumer(groups: Groups, kind: str, protocol: str, log: Path) -> JavaConsumer:
    """Start Kafka's consumer."""
    properties = {
        "bootstrap.servers": groups.cluster.bootstrap_servers,
        "group.id": groups.name(kind),
        "group.protocol": protocol,
        "client.id": f"client-{kind}",
        "auto.offset.reset": "earliest",
    }
    return JavaConsumer(groups.topic, properties, log, VERSION)


def small_consumer(groups: Groups, client: str) -> Consumer:
    """Join the group that has more members than partitions."""
    group = {"group.id": groups.name("crowded"), "client.id": client, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": groups.cluster.bootstrap_servers, **group})
    consumer.subscribe([groups.small])
    return consumer


@pytest.fixture(scope="module")
def groups(kafka4: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Groups]:
    """Consumers of both protocols, which have read all records, two members of one partition, and other groups."""
    token = secrets.token_hex(4)
    found = Groups(kafka4, f"grouped-{token}", f"small-{token}")
    kafka4.create_topic(found.topic, partitions=3)
    kafka4.create_topic(found.small, partitions=1)
    fill(kafka4, found.topic, RECORDS, range(2))
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as opened:
        found.commit(found.name("empty"), 4)
        for kind, protocol in (("classic", "classic"), ("kip848", "consumer")):
            opened.callback(java_consumer(found, kind, protocol, logs / kind).close)
        crowd = [small_consumer(found, f"crowd-{number}") for number in range(2)]
        for consumer in crowd:
            opened.callback(consumer.close)
        for kind, protocol in (("connect", "connect"), ("odd", "consumer")):
            opened.enter_context(odd_member(kafka4.bootstrap_servers, found.name(kind), JSON, protocol))

        def is_read() -> bool:
            for consumer in crowd:
                consumer.poll(0.1)
            (state,) = found.tool("crowded").rows("--state")
            if (state["STATE"], state["#MEMBERS"]) != ("Stable", "2"):
                return False
            rows = [row for kind in ("classic", "kip848") for row in found.tool(kind).rows()]
            return sum(row["LAG"] == "0" for row in rows) == 6

        eventually(is_read, 90)
        yield found


def columns(rows: list[Row], names: str) -> list[tuple[str, ...]]:
    """Return the values of columns, sorted."""
    return sorted(tuple(row.get(name, "missing") for name in names.split()) for row in rows)


@pytest.mark.parametrize("kind", CONSUMERS)
def test_describe(groups: Groups, kind: str) -> None:
    """``describe`` shows the lines of Kafka's tool: partitions, offsets, lags and owners.

    Columns without a value are left out. Only `describe` has a line for each member without partitions.
    """
    shown = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID"
    shown += "" if kind == "empty" else " HOST CLIENT-ID"
    expected = columns(groups.tool(kind).rows(), shown)
    assert expected
    rows = table(groups.run("describe", groups.name(kind)).stdout)
    assert columns([row for row in rows if row["TOPIC"] != "-"], shown) == expected
    assert len(rows) == len(expected) + (kind == "crowded")


def test_idle_member(groups: Groups) -> None:
    """``describe`` has a line for a member without partitions: its id, host and client, which the members have, too."""
    (found,) = [row for row in groups.json("describe", groups.name("crowded")) if row["topic"] is None]
    (expected,) = [row for row in groups.json("members", groups.name("crowded")) if not row["partitions"]]
    assert [found[name] for name in ("consumer", "host", "client_id")] == [
        expected[name] for name in ("consumer", "host", "client_id")
    ]


@pytest.mark.parametrize("kind", CONSUMERS)
def test_members(groups: Groups, kind: str) -> None:
    """``members`` shows the lines of Kafka's tool, and the partitions of each member."""
    shown = "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS"
    output = groups.run("members", groups.name(kind)).stdout
    assert columns(table(output), shown) == columns(groups.tool(kind).rows("--members"), shown)
    assignments: dict[str, list[dict[str, list[int]]]] = {
        "classic": [{groups.topic: [0, 1, 2]}],
        "kip848": [{groups.topic: [0, 1, 2]}],
        "crowded": [{}, {groups.small: [0]}],
        "empty": [],
    }
    rows = groups.json("members", groups.name(kind))
    assert sorted((row["assignment"] for row in rows), key=len) == assignments[kind]


@pytest.mark.parametrize("kind", CONSUMERS)
def test_state(groups: Groups, kind: str) -> None:
    """``list`` shows the state and the number of members that Kafka's tool shows."""
    (expected,) = groups.tool(kind).rows("--state")
    (found,) = [row for row in groups.json("list") if row["group"] == groups.name(kind)]
    assert found["state"] == expected["STATE"]
    assert str(found["members"]) == expected["#MEMBERS"]


def test_list(groups: Groups) -> None:
    """``list`` shows the groups that Kafka's tool lists, with topics and lag. It names the group that it cannot read."""
    rows = {row["group"]: row for row in groups.json("list", "--lag")}
    listed = set(groups.tool("empty").output("--list").split())
    assert set(rows) == listed
    assert {groups.name(kind) for kind in KINDS if kind != "connect"} <= listed
    lags = {kind: rows[groups.name(kind)]["lag"] for kind in CONSUMERS}
    assert lags == {"classic": 0, "kip848": 0, "empty": RECORDS - 4, "crowded": None}
    assert {row["store"] for row in rows.values()} <= {"kafka", "ledger"}
    for kind in ("classic", "kip848", "empty"):
        row = rows[groups.name(kind)]
        assert row["topics"] == [groups.topic]
        assert row["error"] is None
    odd = rows[groups.name("odd")]
    assert odd["state"] == "Unreadable"
    assert odd["members"] is None
    assert odd["topics"] == []
    assert groups.name("odd") in odd["error"]


@pytest.mark.parametrize("kind", ["connect", "odd"])
@pytest.mark.parametrize("command", ["describe", "members", "verify"])
def test_groups_of_other_programs(groups: Groups, command: str, kind: str) -> None:
    """A group that is not of consumers, or has other assignments, does not hide others, and is named on standard error."""
    rows = groups.json(command, groups.name(kind), groups.name("kip848"), status=1)
    assert {row["group"] for row in rows} == (set() if command == "verify" else {groups.name("kip848")})
    found = groups.run(command, groups.name(kind), groups.name("kip848"), status=1)
    assert f"Group {groups.name(kind)} cannot be described" in found.stderr
    assert groups.name("kip848") not in found.stderr


@pytest.mark.parametrize("command", ["describe", "members", "verify", "export", "delete"])
def test_unknown_group(groups: Groups, command: str) -> None:
    """A group that does not exist is an error, which names it, and not the other group."""
    names = ("nobody", groups.name("empty"))
    found = groups.run(command, *names, *(["--yes"] if command == "delete" else []), status=1)
    (line,) = found.stderr.splitlines()
    assert line.startswith("[UNKNOWN_GROUP] Group nobody does not exist in Kafka")
    assert groups.json("describe", groups.name("empty"))


@pytest.mark.parametrize("kind", CONSUMERS)
def test_views(groups: Groups, kind: str) -> None:
    """Views show what the command describes, restricted to a group or to topics."""
    where = {"kafka.bootstrap.servers": groups.cluster.bootstrap_servers, "group.id": groups.name(kind)}

    def view(name: str, **options: str) -> list[dict[str, Any]]:
        return plan_view(name, parse_read({**where, "view": name, **options}))

    described = [row for row in groups.json("describe", groups.name(kind)) if row["topic"] is not None]
    members = [row["consumer"] for row in groups.json("members", groups.name(kind))]
    topics = sorted({row["topic"] for row in described})
    assert view("groups") == [{"group": groups.name(kind), "members": len(members), "topics": topics}]
    assert [row["consumer"] for row in view("members")] == sorted(members)
    for name, columns in (("owners", ["consumer"]), ("offsets", ["offset", "latest", "lag"])):
        keys = ["topic", "partition", *columns]
        expected = [[row[key] for key in keys] for row in described if row[columns[0]] is not None]
        assert [[row[key] for key in keys] for row in view(name)] == expected
    assert view("offsets", subscribe="no-such-topic") == view("owners", **{"group.id": "no-such-group"}) == []


def test_verify(groups: Groups) -> None:
    """Offsets outside of their logs are problems, with the command that corrects them. Others are none."""
    assert groups.json("verify", *map(groups.name, CONSUMERS)) == []
    beyond = groups.commit(groups.name("beyond"), RECORDS + 5)
    (problem,) = groups.json("verify", beyond, groups.name("classic"), status=1)
    assert problem["group"] == beyond
    assert problem["topic"] == groups.topic
    assert problem["partition"] == 0
    assert problem["problem"] == "offset beyond the log"
    assert f"reset-offsets {beyond} --topic {groups.topic}:0 --to-latest" in problem["remedy"]
    (row,) = groups.json("describe", beyond)
    assert row["offset"] == RECORDS + 5
    assert row["latest"] == RECORDS
    assert row["lag"] == -5
    (expected,) = GroupsTool(groups.cluster.bootstrap_servers, beyond, VERSION).rows()
    assert expected["LAG"] == str(row["lag"])


def test_export(groups: Groups) -> None:
    """Offsets are exported as znodes of the old kind, and as CSV."""
    found = groups.run("export", groups.name("classic"), groups.name("empty"))
    rows = [(groups.name("classic"), n, offset) for n, offset in enumerate((RECORDS, RECORDS, 0))]
    rows.append((groups.name("empty"), 0, 4))
    lines = [f"/consumers/{group}/offsets/{groups.topic}/{number}:{offset}" for group, number, offset in rows]
    assert found.stdout.splitlines() == lines
    found = groups.run("export", groups.name("empty"), "--format", "csv")
    assert found.stdout.splitlines() == [f"{groups.topic},0,4"]
    tool = groups.tool("empty").output(
        "--reset-offsets", "--group", groups.name("empty"), "--to-current", "--all-topics", "--export", "--dry-run"
    )
    assert [line.replace('"', "") for line in tool.splitlines() if line.strip()] == found.stdout.splitlines()


def test_reset(groups: Groups) -> None:
    """Offsets of a group without members are reset as Kafka's tool plans it. With members, they stay."""
    name = groups.commit(groups.name("reset"), 3)
    options = ("--topic", groups.topic, "--to-latest")
    tool = GroupsTool(groups.cluster.bootstrap_servers, name, VERSION)
    planned = columns(table(tool.output("--reset-offsets", "--group", name, *options, "--dry-run")), "PARTITION NEW-OFFSET")
    rows = groups.json("reset-offsets", name, *options, "--yes")
    assert sorted((str(row["partition"]), str(row["new_offset"])) for row in rows) == planned
    assert [row["offset"] for row in groups.json("describe", name)] == [RECORDS, RECORDS, 0]
    found = groups.run("reset-offsets", groups.name("classic"), *options, "--yes", status=1)
    assert "GROUP_ACTIVE" in found.stderr
    groups.run("delete", name, "--yes")


def test_delete(groups: Groups) -> None:
    """A group without members is deleted; with members it stays, with the reason, and so do the groups named with it."""
    names = [groups.commit(groups.name(f"gone-{number}"), 3) for number in range(2)]
    for kind in ("classic", "kip848"):
        found = groups.run("delete", names[0], groups.name(kind), "--yes", status=1)
        assert "GROUP_ACTIVE" in found.stderr
        assert groups.name(kind) in found.stderr
    assert groups.json("delete", *names, "--dry-run") == [{"group": name, "topic": None, "offsets": 1} for name in names]
    assert set(names) <= {row["group"] for row in groups.json("list")}
    groups.run("delete", *names, "--yes")
    listed = {row["group"] for row in groups.json("list")}
    assert listed.isdisjoint(names)
    assert {groups.name("classic"), groups.name("kip848")} <= listed


def test_delete_offsets_of_a_topic(groups: Groups) -> None:
    """Offsets of one topic are deleted, unless members subscribe to it, or there are none."""
    name = groups.commit(groups.name("topic"), 3)
    with KafkaGroupOffsets(groups.cluster.bootstrap_servers, {}, name) as offsets:
        offsets.commit({TopicPartition(groups.small, 0): 0})
    found = groups.run("delete", name, "--topic", groups.small, "--yes")
    assert f"Deleted the offsets of topic '{groups.small}'" in found.stderr
    assert [(row["topic"], row["offset"]) for row in groups.json("describe", name)] == [(groups.topic, 3)]
    assert "UNKNOWN_TOPIC" in groups.run("delete", name, "--topic", groups.small, "--yes", status=1).stderr
    for kind in ("classic", "kip848"):
        found = groups.run("delete", groups.name(kind), "--topic", groups.topic, "--yes", status=1)
        assert "GROUP_ACTIVE" in found.stderr
        assert len(groups.json("describe", groups.name(kind))) == 3
    groups.run("delete", name, "--yes")


def test_exporter(groups: Groups) -> None:
    """Metrics have members, owned partitions, offsets and lags of groups in Kafka, and count what cannot be read."""
    connection = broker_connection(groups.cluster.bootstrap_servers)
    ensemble, brokers = KafkaReader(connection, 20), BrokerReader(connection, "kafka", 20)
    collector = ClusterCollector(ensemble.read, brokers.read, 30, "kafka", "Metadata")
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector)
    with closing(ensemble), closing(brokers), closing(collector):
        samples = {
            (s.name, s.labels.get("consumergroup"), s.labels.get("partition")): s.value
            for metric in registry.collect()
            for s in metric.samples
        }
    assert samples["zkafka_up", None, None] == samples["zkafka_brokers_up", None, None] == 1
    assert samples["zkafka_scrape_problems", None, None] == 1
    assert samples["kafka_brokers", None, None] == 3
    for kind, members in (("classic", 1), ("kip848", 1), ("empty", 0), ("crowded", 2)):
        assert samples["kafka_consumergroup_members", groups.name(kind), None] == members
    for kind in ("classic", "kip848"):
        for number, offset in enumerate((RECORDS, RECORDS, 0)):
            assert samples["kafka_consumergroup_current_offset", groups.name(kind), str(number)] == offset
            assert samples["kafka_consumergroup_lag", groups.name(kind), str(number)] == 0
            assert samples["zkafka_consumergroup_partition_owned", groups.name(kind), str(number)] == 1
        assert samples["zkafka_consumergroup_member_partitions", groups.name(kind), None] == 3
    assert samples["kafka_consumergroup_current_offset", groups.name("empty"), "0"] == 4
    assert samples["kafka_consumergroup_lag", groups.name("empty"), "0"] == RECORDS - 4
    assert samples["zkafka_consumergroup_partition_owned", groups.name("empty"), "0"] == 0
    assert ("kafka_consumergroup_members", groups.name("odd"), None) not in samples
    assert not [name for name in samples if name[1] == groups.name("connect")]


def test_exporter_command(groups: Groups) -> None:
    """``zkafka exporter`` serves the metrics with --bootstrap-server alone."""
    with running_exporter("--bootstrap-server", groups.cluster.bootstrap_servers) as exporter:
        found = exporter.scrape()
    place = {"consumergroup": groups.name("empty"), "topic": groups.topic, "partition": 0}
    assert value(found, "zkafka_up") == 1
    assert value(found, "kafka_consumergroup_current_offset", **place) == 4
