"""Connection options."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.model.planning import Listener
from pyspark_zkafka.options.batch import parse_connection, parse_read, parse_write
from pyspark_zkafka.options.option import Scope
from pyspark_zkafka.options.values import ZooKeeperConfig, ZooKeeperTls
from tests.support.option_problems import only_problem, problems

ZK = {"zookeeper.connect": "zk:2181"}


def ensemble(options: dict[str, str]) -> ZooKeeperConfig:
    """Return the configuration of the ensemble in some options, which by default is at `ZK`."""
    found = parse_connection({**ZK, **options}).zookeeper
    assert found is not None
    return found


@pytest.mark.parametrize("parse", [parse_read, parse_write])
def test_a_cluster_must_be_named(parse: Any) -> None:
    """Options without ZooKeeper and brokers are refused, since they name no cluster."""
    expected = "set zookeeper.connect, or kafka.bootstrap.servers for a cluster without ZooKeeper"
    assert any(expected in problem for problem in problems(parse, {"subscribe": "a"} if parse is parse_read else {}))
    assert any(expected in problem for problem in problems(parse, {"kafka.bootstrap.servers": " "}))


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zk", "zk:2181", ""),
        ("zk:2182", "zk:2182", ""),
        ("zk:2181/", "zk:2181", ""),
        ("zk:2181/kafka", "zk:2181", "/kafka"),
        ("zk:2181/kafka/", "zk:2181", "/kafka"),
        ("zk/a/b", "zk:2181", "/a/b"),
        (" zk1:2181 , zk2 /kafka", "zk1:2181,zk2:2181", "/kafka"),
        ("zk1,zk2:2182,zk3", "zk1:2181,zk2:2182,zk3:2181", ""),
        ("10.0.0.1:2181", "10.0.0.1:2181", ""),
        ("[::1]", "[::1]:2181", ""),
        ("[::1]:2182/k", "[::1]:2182", "/k"),
        ("[fe80::1]:2181,[fe80::2]", "[fe80::1]:2181,[fe80::2]:2181", ""),
        ("[::ffff:10.0.0.1]:2181", "[::ffff:10.0.0.1]:2181", ""),
    ],
)
def test_zookeeper_connect(text: str, hosts: str, chroot: str) -> None:
    """Hosts get the default port, blanks are removed, and the chroot has no trailing slash."""
    found = ensemble({"zookeeper.connect": text})
    assert found == ZooKeeperConfig(hosts, chroot, 6000, 6000, "open")
    assert found.connect == hosts + chroot


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "/kafka", ":2181", "zk:", "zk:port", "zk:123456", "zk:0", "zk:65536", "zk,,zk2", "zk1:2181,", "::1",
        "[::1", "zk//a", "zk/a//b", "a b:2181", "zk:2181:2181", "zk:2181,/kafka", "zk1:2181/kafka,zk2:2181/kafka",
    ],
)  # fmt: skip
def test_bad_zookeeper_connect(text: str) -> None:
    """A malformed ensemble is quoted next to the expected form."""
    says = only_problem(parse_connection, {"zookeeper.connect": text})
    assert f"zookeeper.connect is {text.strip()!r}; expected host:port[,host:port...][/chroot], e.g. zk1:2181" in says


@pytest.mark.parametrize(
    ("given", "session_ms", "connection_ms"),
    [
        ({}, 6000, 6000),
        ({"zookeeper.session.timeout.ms": "9000"}, 9000, 9000),
        ({"zookeeper.connection.timeout.ms": "500"}, 6000, 500),
        ({"zookeeper.session.timeout.ms": "9000", "zookeeper.connection.timeout.ms": "500"}, 9000, 500),
    ],
)
def test_zookeeper_timeouts(given: dict[str, str], session_ms: int, connection_ms: int) -> None:
    """The connection time-out defaults to the session time-out."""
    found = ensemble(given)
    assert found.session_timeout_ms == session_ms
    assert found.connection_timeout_ms == connection_ms


@pytest.mark.parametrize(
    ("text", "auth"),
    [
        ("digest:user:pass:word", ("digest", "user:pass:word")),
        ("DIGEST:user:p", ("digest", "user:p")),
        ("sasl:DIGEST-MD5:user:p", ("sasl", "DIGEST-MD5:user:p")),
        ("SASL:digest-md5:user:p:q", ("sasl", "digest-md5:user:p:q")),
    ],
)
def test_zookeeper_auth(text: str, auth: tuple[str, str]) -> None:
    """The scheme is converted to lower case, and the credential stays as given."""
    assert ensemble({"zookeeper.auth": text}).auth == auth


def test_acl_of_groups() -> None:
    """Clients that log in, by a credential or a certificate, can restrict access to znodes."""
    certificate = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": "/me.pem"}
    for login in ({"zookeeper.auth": "digest:user:p"}, certificate):
        assert ensemble({**login, "zookeeper.acl": "creator"}).acl == "creator"
    says = only_problem(parse_connection, {**ZK, "zookeeper.acl": "readable"})
    assert says == ("zookeeper.acl=readable requires a login; set zookeeper.auth or zookeeper.ssl.keystore.location")


@pytest.mark.parametrize("text", ["", "hunter2", "user:hunter2", "digest:hunter2", "sasl:user:hunter2"])
def test_bad_zookeeper_auth_is_not_quoted(text: str) -> None:
    """A malformed credential is reported without its value."""
    says = only_problem(parse_connection, {**ZK, "zookeeper.auth": text})
    assert says.startswith("zookeeper.auth is malformed; expected digest:user:password or sasl:DIGEST-MD5:user:password")
    assert "hunter2" not in says


@pytest.mark.parametrize("text", ["sasl:GSSAPI:user:hunter2", "sasl:gssapi", "kerberos:u:hunter2"])
def test_kerberos_to_zookeeper(text: str) -> None:
    """Kerberos to ZooKeeper is refused with the alternatives, and without the credential."""
    says = only_problem(parse_connection, {**ZK, "zookeeper.auth": text})
    assert "zookeeper.auth is malformed; expected digest:user:password or sasl:DIGEST-MD5:user:password" in says
    assert "Kerberos to ZooKeeper is not supported, use one of these or certificates" in says
    assert "hunter2" not in says


def test_zookeeper_tls() -> None:
    """With TLS, one PEM file has certificate and key; without TLS, such files are a problem."""
    given = {
        "zookeeper.ssl.truststore.location": "/ca.pem",
        "zookeeper.ssl.keystore.location": "/me.pem",
        "zookeeper.ssl.keystore.password": "pw",
    }
    found = ensemble({**given, "zookeeper.ssl.client.enable": "true"})
    assert found.tls == ZooKeeperTls("/ca.pem", "/me.pem", "pw", check_hostname=True)
    with pytest.raises(OptionError, match=r"zookeeper.ssl.keystore.location needs zookeeper.ssl.client.enable=true"):
        ensemble({**given, "zookeeper.ssl.client.enable": "false"})


@pytest.mark.parametrize(("text", "checked"), [("HTTPS", True), ("", False), ("none", False)])
def test_zookeeper_host_names(text: str, checked: bool) -> None:
    """Host names are checked unless the option is none or empty."""
    algorithm = {"zookeeper.ssl.endpoint.identification.algorithm": text}
    assert ensemble({"zookeeper.ssl.client.enable": "true", **algorithm}).tls == ZooKeeperTls(check_hostname=checked)


def test_brokers_alone() -> None:
    """Brokers given without ZooKeeper are not among the client's properties."""
    connection = parse_connection({"kafka.bootstrap.servers": " k1:9092,k2:9092 ", "kafka.group.id": "g"})
    assert connection.zookeeper is None
    assert connection.bootstrap_servers == "k1:9092,k2:9092"
    assert not {"bootstrap.servers", "group.id"} & set(connection.kafka)


@pytest.mark.parametrize(
    ("given", "listener"),
    [
        ({}, Listener()),
        ({"listener.name": "INSIDE"}, Listener("INSIDE")),
        ({"kafka.security.protocol": "SSL"}, Listener(None, "SSL")),
        ({"kafka.security.protocol": "SSL", "listener.name": "x"}, Listener("x", "SSL")),
    ],
)
def test_listener(given: dict[str, str], listener: Listener) -> None:
    """The listener is given by name, or by the security protocol."""
    found = parse_connection({**ZK, **given}).listener
    assert found.name == listener.name
    assert found.security_protocol.upper() == listener.security_protocol


@pytest.mark.parametrize(("given", "expected"), [(None, False), ("read_uncommitted", False), ("read_committed", True)])
def test_isolation_level(given: str | None, expected: bool) -> None:
    """Open and aborted transactions are excluded only on request."""
    options = ZK if given is None else {**ZK, "kafka.isolation.level": given}
    assert parse_connection(options).read_committed is expected


@pytest.mark.parametrize("scope", ["read", "stream", "write"])
@pytest.mark.parametrize("name", ["kafka.metadata.broker.list", "Kafka.Metadata.Broker.List"])
@pytest.mark.parametrize("others", [{}, {"zookeeper.connect": "zk:2181"}, {"kafka.bootstrap.servers": "k:1"}])
def test_brokers_by_their_old_name(others: dict[str, str], name: str, scope: Scope) -> None:
    """metadata.broker.list is an alias of kafka.bootstrap.servers, with and without ZooKeeper."""
    connection = parse_connection({name: " k:1 ", **others}, scope)
    assert connection.bootstrap_servers == "k:1"
    assert "bootstrap.servers" not in connection.kafka


def test_brokers_by_two_names() -> None:
    """The two names of the brokers' option must agree."""
    with pytest.raises(OptionError, match=r"broker\.list contradicts kafka\.Bootstrap\.Servers: both set"):
        parse_connection({"kafka.Bootstrap.Servers": "k:1", "kafka.metadata.broker.list": "k:2"})


@pytest.mark.parametrize(
    "servers",
    ["k", "k:9092,", "k1:1, k2:2", "[::1]:9092", "[::1]", "::1", "[fe80::1%eth0]:1", "SASL_SSL://k:9093", "a_b.c-d:1"],
)
def test_brokers(servers: str) -> None:
    """An address of a broker has the forms of librdkafka."""
    assert parse_connection({"kafka.bootstrap.servers": servers}).bootstrap_servers == servers.strip()


@pytest.mark.parametrize(
    "servers",
    [
        ",", "http://k:9092", "k:http", "k/9092", "k1:1 k2:2", "k:123456", "k:65536", "a:1,b:0",
        "[::1]:x", "[::1]:", "[::1]:0", "[::1]:65536", "[::1:9092", "::1]:9092", "[k:1",
    ],
)  # fmt: skip
def test_wrong_brokers(servers: str) -> None:
    """A text that has no address of a broker is refused with the expected form, before anything is connected."""
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers is .*; expected host:port"):
        parse_connection({"kafka.bootstrap.servers": servers})


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "kafka.metadata.broker.list"])
def test_no_brokers(name: str) -> None:
    """An empty list of brokers is a problem."""
    with pytest.raises(OptionError, match=rf"{name} is ' '; expected a text that is not empty"):
        parse_connection({name: " ", "zookeeper.connect": "zk:2181"})
