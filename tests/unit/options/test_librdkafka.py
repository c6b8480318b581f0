"""Properties that are passed on: the installed librdkafka is asked whether it has them and takes their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.kafka.consumer_client import MessageClient
from pyspark_zkafka.kafka.consumer_properties import consumer_properties
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.client_properties import UNKNOWN, Verdict, translate
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.librdkafka import judge
from pyspark_zkafka.options.model import Connection
from pyspark_zkafka.options.refused_client_properties import REFUSED
from pyspark_zkafka.transport.native.consumer import ArrowClient
from pyspark_zkafka.transport.producer import producer_properties

VECTORS = Path(__file__).parents[2] / "vectors" / "librdkafka_config_names.json"
LIBRDKAFKA: dict[str, str] = json.loads(VECTORS.read_text(encoding="utf-8"))["properties"]
BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def parsed(options: dict[str, str]) -> Connection:
    return parse_connection({**BROKERS, **options})


def problems(options: dict[str, str]) -> tuple[str, ...]:
    """Each problem with some options."""
    with pytest.raises(OptionError, match="INVALID_OPTIONS") as caught:
        parsed(options)
    return tuple(caught.value.parameters["problems"])


def test_what_librdkafka_accepts_is_accepted() -> None:
    """A property that is in no table, and in the library, reaches both kinds of clients of reads and those of writes."""
    options = {"kafka.Test.Mock.Broker.RTT": "5"}
    read, write = parsed(options), parse_connection({**BROKERS, **options}, "write")
    assert read.kafka == {"test.mock.broker.rtt": "5"}
    assert producer_properties(write, "127.0.0.1:1")["test.mock.broker.rtt"] == "5"
    for client in (ArrowClient, MessageClient):
        with client(consumer_properties(read, "127.0.0.1:1", "g")):
            pass


def test_values_that_librdkafka_refuses() -> None:
    """Its words on a value are a problem like the others, found before any task runs, in the user's spelling."""
    found = problems({"kafka.Test.Mock.Num.Brokers": "-5", "kafka.acks": "1", "minPartition": "1"})
    assert [problem.split()[0] for problem in found] == ["unknown", "kafka.Test.Mock.Num.Brokers", "kafka.acks"]
    assert "is '-5'; librdkafka refuses it: " in found[1]
    assert "outside allowed range" in found[1]


@pytest.mark.parametrize("name", ["kafka.logger", "kafka.on_commit", "kafka.default.topic.config", "kafka.no.such"])
def test_what_librdkafka_does_not_know(name: str) -> None:
    """A name that only confluent-kafka knows, or nobody, is unknown."""
    (problem,) = problems({name: "x"})
    assert problem.startswith(f"{name} is unknown to Kafka's Java clients and to librdkafka")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("fetch.max.bite", "fetch.max.bytes"), ("socket.keepalife.enable", "socket.keepalive.enable"), ("ackz", "acks")],
)
def test_the_nearest_name(slip: str, meant: str) -> None:
    """A slip of the pen is offered the name that was meant: one of the tables, or of librdkafka."""
    with pytest.raises(OptionError, match=rf"did you mean kafka\.{meant}\?"):
        parse_connection({**BROKERS, f"kafka.{slip}": "1"}, "write" if meant == "acks" else "read")


@pytest.mark.parametrize("client", [ArrowClient, MessageClient])
@pytest.mark.parametrize(("name", "value"), [("no.such", "1"), ("isolation.level", "many"), ("fetch.min.bytes", "0")])
def test_an_executor_that_does_not_take_it(client: Any, name: str, value: str) -> None:
    """Where a task's librdkafka refuses what the driver's took, the error names the property, and where to look."""
    with pytest.raises(OptionError, match=r"UNUSABLE_KAFKA_PROPERTY.*same librdkafka") as caught:
        client({"group.id": "g", name: value}).__enter__()
    assert name in str(caught.value)


def test_secrets_that_librdkafka_refuses() -> None:
    """The value of a property whose name sounds secret is not shown, and neither are librdkafka's words on it."""
    verdict = Verdict(known=True, problem='Invalid value "open-sesame"')
    _, (problem,) = translate({"new.password": "open-sesame"}, "consumer", lambda name, value: verdict)
    assert problem.startswith("kafka.new.password is malformed")
    assert "open-sesame" not in problem


@pytest.mark.parametrize("value", ["12", "007", "1.5", "0x10", "12 monkeys", "-", " \u0663", "1_000", "9" * 600])
def test_text_that_looks_like_a_number(value: str) -> None:
    """Text is passed on as it is, whatever number it looks like."""
    assert parsed({"kafka.client.id": value}).kafka == {"client.id": value.strip()}
    assert parsed({"kafka.sasl.password": value}).kafka == {"sasl.password": value}


@pytest.mark.parametrize(
    ("name", "given"), [("check.crcs", "TRUE"), ("broker.address.family", "V4"), ("debug", "Fetch, msg")]
)
def test_words_in_any_case(name: str, given: str) -> None:
    """Words are written in any case, as librdkafka reads them."""
    assert parsed({f"kafka.{name}": given}).kafka[name].lower() == given.lower()


def test_a_librdkafka_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its properties are passed on all the same, for a client to refuse; what the tables say holds."""
    monkeypatch.setattr("pyspark_zkafka.options.librdkafka._library", lambda: None)
    names = [name for name, scope in LIBRDKAFKA.items() if scope == "*" and name not in REFUSED]
    for name in set(names) - {row.name for row in PROPERTIES} | {"no.such"}:
        assert parsed({f"kafka.{name}": "x"}).kafka == {name: "x"}
    assert parsed({"kafka.fetch.wait.max.ms": "7"}).kafka == {"fetch.wait.max.ms": "7"}
    assert "expected a whole number" in problems({"kafka.fetch.wait.max.ms": "soon"})[0]
    with (
        pytest.raises(OptionError, match=r"UNUSABLE_KAFKA_PROPERTY.*no\.such"),
        MessageClient(consumer_properties(parsed({"kafka.no.such": "x"}), "127.0.0.1:1", "g")),
    ):
        pass


def test_refusals_come_first() -> None:
    """What is refused here for a reason is refused, though librdkafka has it."""
    (problem,) = problems({"kafka.enable.auto.commit": "true"})
    assert "is refused: offsets are committed when" in problem


@pytest.mark.parametrize(
    "name", ["plugin.library.paths\0", "plugin.library.paths\0x", "enable.auto.commit\0", "f\u00e9", "a b"]
)
def test_names_that_no_property_can_have(name: str) -> None:
    """A name that would reach librdkafka as another one, which may be refused, is unknown, and nothing is asked."""
    (problem,) = problems({f"kafka.{name}": "no-such-plugin"})
    assert "is unknown to Kafka's Java clients and to librdkafka" in problem
    assert judge(name, "no-such-plugin") == UNKNOWN


@pytest.mark.parametrize(
    "name", ["bootstrap.servers", "client.id", "ssl.ca.location", "sasl.password", "test.mock.broker.rtt", "no.such"]
)
def test_values_with_a_zero_byte(name: str) -> None:
    """A value that would reach librdkafka cut short is a problem, whoever knows the property; a secret is not shown."""
    (problem,) = problems({f"kafka.{name}": "5\0open-sesame"})
    assert problem == f"kafka.{name} contains a zero byte, at which librdkafka would end it; remove it"
    assert judge(name, "5\0open-sesame") == UNKNOWN
