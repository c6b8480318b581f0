"""One ZooKeeper and one broker for all security tests.

The broker has a listener for each login method. ZooKeeper offers plain text, SASL and, on a separate port, TLS with client
certificates.
"""

from __future__ import annotations

import ipaddress
import traceback
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography import x509

from pyspark_zkafka.testing import LocalCluster
from tests.support.certificates import Authority
from tests.support.security import MODULES, SECRET, WRONG, Options
from tests.support.signed_tokens import Signer

LISTENERS = {
    "LOGIN": "SASL_PLAINTEXT",
    "TOKENS": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "ELSEWHERE": "SSL",
    "MUTUAL": "SSL",
    "BOTH": "SASL_SSL",
}
RENEWED_S = 4
"""Time after which a connection to the listener TOKENS must log in again."""


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """PEM files of two authorities, and certificates and keys of servers and clients, signed by the first."""
    folder = tmp_path_factory.mktemp("pem")
    ours, others = Authority(folder, "our-authority"), Authority(folder, "other-authority")
    here, elsewhere = x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("broker.example")
    return {
        "authority": ours.file,
        "other authority": others.file,
        "server": ours.issue("server", here),
        "server elsewhere": ours.issue("elsewhere", elsewhere),
        "client": ours.issue("client", x509.DNSName("client.example")),
        "locked client": ours.issue("locked", x509.DNSName("client.example"), SECRET),
    }


@pytest.fixture(scope="session")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    """A signer whose tokens the listener TOKENS accepts."""
    return Signer(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="session")
def fortress(tmp_path_factory: pytest.TempPathFactory, pem: dict[str, str], signer: Signer) -> Iterator[LocalCluster]:
    """The servers, SCRAM credentials of alice, and a topic with ten records."""
    jaas = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    jaas.write_text(f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="{SECRET}"; }};\n')
    with LocalCluster(
        brokers=1,
        listeners=LISTENERS,
        broker_config=_broker_config(pem, signer),
        zookeeper_config={
            "secureClientPort": "{port:tls}",
            "secureClientPortAddress": "{host}",
            "ssl.keyStore.location": pem["server"],
            "ssl.trustStore.location": pem["authority"],
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        },
        zookeeper_jvm_options=[
            f"-Djava.security.auth.login.config={jaas}",
            "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        ],
    ) as cluster:
        _add_scram_user(cluster)
        cluster.create_topic("orders", partitions=2)
        cluster.produce("orders", [{"value": b"%d" % n, "partition": n % 2} for n in range(10)])
        yield cluster


def _broker_config(pem: dict[str, str], signer: Signer) -> Options:
    config = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
    }
    for name in ("login", "both"):
        config[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{MODULES}.plain.PlainLoginModule required user_alice="{SECRET}";'
        )
        config[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = f"{MODULES}.scram.ScramLoginModule required;"
        config[f"listener.name.{name}.oauthbearer.sasl.jaas.config"] = (
            f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        )
    for name in ("tls", "elsewhere", "mutual", "both"):
        certificate = "server elsewhere" if name == "elsewhere" else "server"
        config[f"listener.name.{name}.ssl.keystore.location"] = pem[certificate]
        config[f"listener.name.{name}.ssl.truststore.location"] = pem["authority"]
    tokens = "listener.name.tokens.oauthbearer"
    config |= {
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{tokens}.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        f"{tokens}.sasl.server.callback.handler.class": f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{tokens}.connections.max.reauth.ms": f"{RENEWED_S * 1000}",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{signer.public_keys}",
        "sasl.oauthbearer.expected.audience": signer.audience,
    }
    return config | {"listener.name.mutual.ssl.client.auth": "required"}


def _add_scram_user(cluster: LocalCluster) -> None:
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("alice", kind, SECRET.encode())
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.alter_user_scram_credentials([change])["alice"].result(30)


@pytest.fixture
def shown(caplog: pytest.LogCaptureFixture) -> Callable[..., None]:
    """Fails if a password is in any log at any level, or in its arguments: objects, or errors with their causes."""
    caplog.set_level(1)

    def check(*things: object) -> None:
        texts = [caplog.text, *map(repr, things)]
        texts += ["".join(traceback.format_exception(thing)) for thing in things if isinstance(thing, BaseException)]
        for text in texts:
            assert SECRET not in text
            assert WRONG not in text

    return check


@pytest.fixture
def brokers(fortress: LocalCluster) -> Options:
    """Options that reach the brokers through ZooKeeper."""
    return {"zookeeper.connect": fortress.zookeeper_connect}
