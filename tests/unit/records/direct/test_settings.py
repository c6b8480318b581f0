"""Settings from librdkafka's properties."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_zkafka.brokers.properties import consumer_properties
from pyspark_zkafka.model.planning import Listener
from pyspark_zkafka.options.values import ConnectionOptions
from pyspark_zkafka.records.direct.settings import ReadSettings, settings_of
from pyspark_zkafka.wire.protocol import Unsupported
from pyspark_zkafka.wire.settings import Login, TokenEndpoint, client_settings_of

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "open-sesame"}


def settings(**kafka: Any) -> ReadSettings:
    """Return the settings of a read with properties, in which _ stands for a dot."""
    given = {name.replace("_", "."): value for name, value in kafka.items()}
    return settings_of(
        consumer_properties(ConnectionOptions(None, "b", Listener(), given, "auto"), "b1:1,b2:2", "g", 10**6)
    )


def test_defaults() -> None:
    """The default properties of a read are all honoured."""
    found = settings()
    assert found.client.servers == (("b1", 1), ("b2", 2))
    assert found.client.tls is None
    assert found.client.login is None
    assert found.fetch == (10, 1, 64 * 1024**2, 2 * 1024**2, False, "")
    assert found.client.reconnect_backoff.first_s == 0.02


def test_given() -> None:
    """A user's properties take effect."""
    found = settings(
        max_partition_fetch_bytes="4096",
        fetch_min_bytes="5",
        isolation_level="read_committed",
        client_rack="a",
        client_id="me",
        socket_timeout_ms="1500",
        broker_address_family="v4",
    )
    assert found.fetch == (10, 5, 64 * 1024**2, 4096, True, "a")
    client = found.client
    assert client.client_id == "me"
    assert client.socket.request_timeout_s == 1.5
    assert client.socket.family.name == "AF_INET"


@pytest.mark.parametrize(
    ("kafka", "why"),
    [
        ({"debug": "fetch"}, "debug"),
        ({"plugin_library_paths": "x", "debug": "all"}, "debug, plugin.library.paths"),
        ({"security_protocol": "SSL", "ssl_crl_location": "x"}, "ssl.crl.location"),
        ({"fetch_min_bytes": "-5"}, "the value of fetch.min.bytes"),
        ({"fetch_error_backoff_ms": "soon"}, "the value of fetch.error.backoff.ms"),
        ({"socket_keepalive_enable": "perhaps"}, "the value of socket.keepalive.enable"),
        ({"broker_address_family": "v5"}, "the value of broker.address.family"),
        ({"isolation_level": "none"}, "the value of isolation.level"),
        ({"security_protocol": "SASL_PLAINTEXT"}, r"sasl.mechanism=GSSAPI without the extra pyspark-zkafka\[kerberos\]"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "sasl.mechanism=OAUTHBEARER without sasl.oauthbearer.method=oidc",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_method": "oidc"},
            "sasl.mechanism=OAUTHBEARER without the id and the secret of a client, and an endpoint for tokens",
        ),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "a login without user and password"),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_username": "alice",
                "sasl_password": "se\u0301same",
            },
            "sasl.mechanism=SCRAM-SHA-256 with a user or a password that SASLprep changes",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_username": "al\u017fce",
                "sasl_password": "sesame",
            },
            "sasl.mechanism=SCRAM-SHA-512 with a user or a password that SASLprep changes",
        ),
        ({"security_protocol": "other"}, "security.protocol=other"),
    ],
)
def test_unsupported_property_is_named(kafka: dict[str, Any], why: str) -> None:
    """Unsupported properties raise an error that names them, so that librdkafka is used."""
    with pytest.raises(Unsupported, match=f"^{why}$"):
        settings(**kafka)


@pytest.mark.parametrize("servers", ["PLAINTEXT://b:1", "b:x", ":1"])
def test_servers_in_another_notation_are_unsupported(servers: str) -> None:
    """Servers in another notation are left to librdkafka."""
    with pytest.raises(Unsupported, match="a bootstrap server"):
        settings_of({"bootstrap.servers": servers})


def test_secrets() -> None:
    """Passwords and keys appear in no representation."""
    given = {name.replace(".", "_"): value for name, value in LOGIN.items()}
    found = settings(**given, ssl_key_pem="open-sesame", ssl_key_password="open-sesame", ssl_certificate_pem="open-sesame")
    assert found.client.login is not None
    assert found.client.login.password == "open-sesame"
    assert found.client.tls is not None
    assert found.client.tls.key_pem == "open-sesame"
    assert "open-sesame" not in repr(found)


@pytest.mark.parametrize("protocol", ["ssl", "SSL", "SASL_SSL"])
def test_tls(protocol: str) -> None:
    """TLS checks certificate and host unless configured otherwise."""
    found = settings(**{**{n.replace(".", "_"): v for n, v in LOGIN.items()}, "security_protocol": protocol}).client.tls
    assert found is not None
    assert found.checks_certificate
    assert found.checks_host
    lax = settings(security_protocol=protocol.replace("SASL_", ""), ssl_endpoint_identification_algorithm="none").client.tls
    assert lax is not None
    assert lax.checks_certificate
    assert not lax.checks_host


def test_token_endpoint() -> None:
    """OAUTHBEARER needs a client's id and secret, and a token endpoint."""
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "open-sesame",
        "sasl.oauthbearer.token.endpoint.url": "https://login/token",
        "sasl.oauthbearer.extensions": "a=1, b=2",
    }
    found = settings_of({"bootstrap.servers": "b", **given}).client.login
    assert found == TokenEndpoint("https://login/token", "me", "open-sesame", None, ("a=1", "b=2"))
    assert "open-sesame" not in repr(found)
    for name, value in (("grant.type", "jwt"), ("token.endpoint.url", "file:///etc/passwd")):
        with pytest.raises(Unsupported, match=name):
            settings_of({"bootstrap.servers": "b", **given, f"sasl.oauthbearer.{name}": value})


@pytest.mark.parametrize("password", ["s\u00e9same", "\u5bc6\u7801"])
def test_scram_outside_ascii(password: str) -> None:
    """A password that SASLprep leaves as it is can be used with SCRAM."""
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "al\u00efce", "sasl.password": password}
    settings = client_settings_of({"bootstrap.servers": "b", "security.protocol": "SASL_SSL", **login})
    assert settings.login == Login("SCRAM-SHA-256", "al\u00efce", password)
