"""Checks of properties by the installed librdkafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_zkafka.brokers.clients import MessageClient
from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection
from pyspark_zkafka.options.client_properties import (
    UNKNOWN,
    Validation,
    is_librdkafka_without_kerberos,
    load_librdkafka,
    translate,
    validate,
    validate_together,
)
from pyspark_zkafka.options.client_property_table import PROPERTIES, REFUSED
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.records.producer import producer_properties
from tests.support.option_problems import problems as problems_of

VECTORS = Path(__file__).parents[2] / "vectors" / "librdkafka_config_names.json"
LIBRDKAFKA: dict[str, str] = json.loads(VECTORS.read_text(encoding="utf-8"))["properties"]
BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def parsed(options: dict[str, str]) -> ConnectionOptions:
    return parse_connection({**BROKERS, **options})


def problems(options: dict[str, str]) -> tuple[str, ...]:
    """Return the problems with some options."""
    return problems_of(parsed, options)


@pytest.fixture
def no_librdkafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An installation of confluent_kafka without the compiled module."""
    (tmp_path / "confluent_kafka").mkdir()
    (tmp_path / "confluent_kafka" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    load_librdkafka.cache_clear()
    yield
    load_librdkafka.cache_clear()


def test_accepted_properties() -> None:
    """A property that is in librdkafka but in no table reaches the clients of reads and writes."""
    options = {"kafka.Test.Mock.Broker.RTT": "5"}
    read, write = parsed(options), parse_connection({**BROKERS, **options}, "write")
    assert read.kafka == {"test.mock.broker.rtt": "5"}
    assert producer_properties(write, "127.0.0.1:1")["test.mock.broker.rtt"] == "5"
    with MessageClient(consumer_properties(read, "127.0.0.1:1", "g")):
        pass


def test_values_that_librdkafka_refuses() -> None:
    """A value that librdkafka refuses is a problem with the reason, in the user's spelling."""
    found = problems({"kafka.Test.Mock.Num.Brokers": "-5", "kafka.acks": "1", "minPartition": "1"})
    assert [problem.split()[0] for problem in found] == ["unknown", "kafka.Test.Mock.Num.Brokers", "kafka.acks"]
    assert "is '-5'; librdkafka refuses it: " in found[1]
    assert "outside allowed range" in found[1]


@pytest.mark.parametrize("name", ["kafka.logger", "kafka.on_commit", "kafka.default.topic.config", "kafka.no.such"])
def test_unknown_names(name: str) -> None:
    """A name that is unknown to Java and librdkafka is a problem, even if confluent-kafka has it."""
    (problem,) = problems({name: "x"})
    assert problem.startswith(f"{name} is unknown to Kafka's Java clients and to librdkafka")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("fetch.max.bite", "fetch.max.bytes"), ("socket.keepalife.enable", "socket.keepalive.enable"), ("ackz", "acks")],
)
def test_the_nearest_name(slip: str, meant: str) -> None:
    """The error for a misspelled name suggests the nearest one from the tables or from librdkafka."""
    with pytest.raises(OptionError, match=rf"did you mean kafka\.{meant}\?"):
        parse_connection({**BROKERS, f"kafka.{slip}": "1"}, "write" if meant == "acks" else "read")


@pytest.mark.parametrize(("name", "value"), [("no.such", "1"), ("isolation.level", "many"), ("fetch.min.bytes", "0")])
def test_an_executor_with_another_librdkafka(name: str, value: str) -> None:
    """If a task's librdkafka refuses a property that the driver's accepts, the error names the property and the remedy."""
    with pytest.raises(OptionError, match=r"UNUSABLE_KAFKA_PROPERTY.*same librdkafka") as caught:
        MessageClient({"group.id": "g", name: value}).__enter__()
    assert name in str(caught.value)


def test_secrets_that_librdkafka_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a secret value nor librdkafka's reason for refusing it is shown."""
    validation = Validation(known=True, problem='Invalid value "open-sesame"')
    monkeypatch.setattr("pyspark_zkafka.options.client_properties.validate", lambda name, value: validation)
    _, (problem,) = translate({"new.password": "open-sesame"}, "consumer")
    assert problem.startswith("kafka.new.password is malformed")
    assert "open-sesame" not in problem


@pytest.mark.parametrize("value", ["12", "007", "1.5", "0x10", "12 monkeys", "-", " \u0663", "1_000", "9" * 600])
def test_text_that_looks_like_a_number(value: str) -> None:
    """Text is passed on unchanged, even if it looks like a number."""
    assert parsed({"kafka.client.id": value}).kafka == {"client.id": value.strip()}
    assert parsed({"kafka.sasl.password": value}).kafka == {"sasl.password": value}


@pytest.mark.parametrize(
    ("name", "given"), [("check.crcs", "TRUE"), ("broker.address.family", "V4"), ("debug", "Fetch, msg")]
)
def test_words_in_any_case(name: str, given: str) -> None:
    """Words are accepted in any case, as in librdkafka."""
    assert parsed({f"kafka.{name}": given}).kafka[name].lower() == given.lower()


@pytest.mark.usefixtures("no_librdkafka")
def test_a_librdkafka_that_cannot_be_loaded() -> None:
    """If librdkafka cannot be loaded, its properties are passed on unchecked, but the tables still apply."""
    assert load_librdkafka() is None
    names = [name for name, scope in LIBRDKAFKA.items() if scope == "*" and name not in REFUSED]
    for name in set(names) - {row.name for row in PROPERTIES} | {"no.such"}:
        assert parsed({f"kafka.{name}": "x"}).kafka == {name: "x"}
    assert parsed({"kafka.fetch.wait.max.ms": "7"}).kafka == {"fetch.wait.max.ms": "7"}
    assert "expected a whole number" in problems({"kafka.fetch.max.bytes": "soon"})[0]
    with (
        pytest.raises(OptionError, match=r"UNUSABLE_KAFKA_PROPERTY.*no\.such"),
        MessageClient(consumer_properties(parsed({"kafka.no.such": "x"}), "127.0.0.1:1", "g")),
    ):
        pass


def test_properties_together(capfd: pytest.CaptureFixture[str]) -> None:
    """Properties are checked together without connecting, logging in or writing to librdkafka's log."""
    given = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL", "debug": "all", "client.id": "me"}
    assert validate_together({**given, "ssl.ca.location": "/no/such/file"}, {}, "consumer") == ""
    assert validate_together(given, {"fetch.max.bytes": "1000"}, "consumer").startswith("`fetch.max.bytes` must be >= ")
    assert validate_together({"bootstrap.servers": "127.0.0.1:1"}, {"fetch.max.bytes": "1000"}, "consumer") == ""
    assert capfd.readouterr().err == ""


def test_refusals_come_first() -> None:
    """A refused property is refused even though librdkafka has it."""
    (problem,) = problems({"kafka.enable.auto.commit": "true"})
    assert "is refused: offsets are committed when Spark" in problem


@pytest.mark.parametrize(
    "name", ["plugin.library.paths\0", "plugin.library.paths\0x", "enable.auto.commit\0", "f\u00e9", "a b"]
)
def test_names_that_no_property_can_have(name: str) -> None:
    """A name that librdkafka would read as another one, which may be refused, is unknown."""
    (problem,) = problems({f"kafka.{name}": "no-such-plugin"})
    assert "is unknown to Kafka's Java clients and to librdkafka" in problem
    assert validate(name, "no-such-plugin") == UNKNOWN


@pytest.mark.parametrize(
    "name", ["bootstrap.servers", "client.id", "ssl.ca.location", "sasl.password", "test.mock.broker.rtt", "no.such"]
)
def test_values_with_a_zero_byte(name: str) -> None:
    """A value that librdkafka would truncate at a zero byte is a problem for every property, and a secret is not shown."""
    (problem,) = problems({f"kafka.{name}": "5\0open-sesame"})
    assert problem == f"kafka.{name} contains a zero byte, where librdkafka would end the value; remove it"
    assert validate(name, "5\0open-sesame") == UNKNOWN


KERBEROS = {"kafka.security.protocol": "sasl_ssl"}


@pytest.mark.parametrize("login", [{}, {"kafka.sasl.mechanism": "GSSAPI"}, {"kafka.sasl.mechanisms": "gssapi"}])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "sasl_ssl"])
def test_kerberos_without_its_extra(login: dict[str, str], protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kerberos without the extra is refused before anything connects, and with it accepted."""
    given = {"kafka.security.protocol": protocol, **login}
    monkeypatch.setattr("pyspark_zkafka.options.client_properties.find_spec", lambda name: None)
    (problem,) = problems(given)
    assert problem.startswith("kafka.sasl.mechanism is GSSAPI, the default: install pyspark-zkafka[kerberos]")
    monkeypatch.setattr("pyspark_zkafka.options.client_properties.find_spec", lambda name: object())
    assert parsed(given).kafka


def test_kerberos_that_the_library_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's two jobs, its transport and a member in Kafka, are refused if the library was built without Kerberos."""
    monkeypatch.setattr("pyspark_zkafka.options.client_properties.find_spec", lambda name: object())
    by_librdkafka = {**KERBEROS, "transport": "librdkafka"}
    member = {**BROKERS, "subscribe": "t", **KERBEROS, "group.id": "g"}
    (of_transport,), (of_member,) = problems(by_librdkafka), problems_of(parse_stream, member)
    assert of_transport.startswith("transport=librdkafka with kafka.sasl.mechanism=GSSAPI needs a librdkafka with Kerberos")
    assert of_member.startswith("a member of a group that Kafka coordinates")
    for module in ("batch", "stream"):
        monkeypatch.setattr(f"pyspark_zkafka.options.{module}.is_librdkafka_without_kerberos", lambda: False)
    assert parsed(by_librdkafka).transport == "librdkafka"
    assert parse_stream(member).group is not None


def test_the_library_of_the_wheels() -> None:
    """The wheels of confluent-kafka have no Kerberos."""
    assert is_librdkafka_without_kerberos()


def test_kerberos_without_a_login() -> None:
    """A mechanism without a login has no effect, and is accepted."""
    assert parsed({"kafka.sasl.mechanism": "GSSAPI"}).kafka["sasl.mechanism"] == "GSSAPI"
