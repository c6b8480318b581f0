"""Leaks of secret options into logs, plans, checkpoints and processes."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from pyspark_zkafka.options.batch import parse_read
from pyspark_zkafka.read.batch_planner import plan_batch
from pyspark_zkafka.read.readers import split_partitions
from tests.support.certificates import Authority
from tests.support.security import SECRET, Options, jaas_config
from tests.support.signed_tokens import PROVIDER, TOKEN_START, Signer

if TYPE_CHECKING:
    from pyspark_zkafka.testing import LocalCluster

ROOT = Path(__file__).resolve().parents[3]
DRIVER = ROOT / "tests" / "integration" / "drivers" / "planted_secrets.py"
ZKAFKA = [sys.executable, "-c", "from pyspark_zkafka.tools import main; main()"]
DOCUMENTED_REGEX = re.search(r"spark\.redaction\.regex=([^']*)'", (ROOT / "docs" / "security.md").read_text())

PLANTED = {
    "jaas, and sasl.password": SECRET,
    "zookeeper digest": "planted-zookeeper-digest",
    "zookeeper key": "planted-zookeeper-key",
    "key in PEM": "planted-key-in-pem",
    "key store": "planted-key-store",
    "refused jaas": "planted-refused-jaas",
    "refused password": "planted-refused-password",
    "refused sasl to zookeeper": "planted-zookeeper-sasl",
    "malformed zookeeper.auth": "planted-malformed-auth",
    "unknown password": "planted-unknown-password",
    "oauth client": "planted-oauth-client",
    "token": TOKEN_START,
    "referred": "planted-referred",
}


@dataclass
class Processes:
    """Watches the arguments and environments of all processes on this machine, inside a ``with`` block."""

    arguments: set[str] = field(default_factory=set)
    environments: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Processes:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(1):
            for process in Path("/proc").glob("[0-9]*"):
                for name, found in (("cmdline", self.arguments), ("environ", self.environments)):
                    with suppress(OSError):
                        found.add((process / name).read_bytes().decode("utf-8", "replace"))


@dataclass(frozen=True)
class Artefacts:
    """Everything that a run stored or printed, by name."""

    texts: Mapping[str, str]

    def where(self, secret: str) -> list[str]:
        """Return the artefacts that contain a secret: plain, escaped in JSON, or in hexadecimal as in a binary plan."""
        forms = {secret, json.dumps(secret)[1:-1], secret.encode().hex()}
        return [name for name, text in self.texts.items() if any(form in text for form in forms)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, pem: dict[str, str]) -> dict[str, str]:
    """Files of private keys, each with its own password; ZooKeeper trusts the one for ZooKeeper."""
    folder = tmp_path_factory.mktemp("keys")
    authority, client = Authority(folder, "clients"), x509.DNSName("client.example")
    found = {name: authority.issue(name.replace(" ", "-"), client, PLANTED[name]) for name in ("key in PEM", "key store")}
    return {
        **found,
        "zookeeper key": locked_again(pem["locked client"], PLANTED["zookeeper key"], folder / "zookeeper.pem"),
    }


def locked_again(file: str, password: str, target: Path) -> str:
    """Write a key and its certificate to a file with another password, and return the file."""
    content = Path(file).read_bytes()
    key = load_pem_private_key(content, SECRET.encode())
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    target.write_bytes(locked + content[content.index(b"-----BEGIN CERTIFICATE") :])
    return str(target)


@pytest.fixture(scope="module")
def steps(fortress: LocalCluster, pem: dict[str, str], keys: dict[str, str], signer: Signer) -> dict[str, Options]:
    """Options of each step of the driver: all secret options, right and wrong."""
    chroot = fortress.zookeeper_connect.partition("/")[2]
    zookeeper = {
        "zookeeper.connect": f"127.0.0.1:{fortress.port('zookeeper', 'tls')}/{chroot}",
        "zookeeper.auth": f"digest:alice:{PLANTED['zookeeper digest']}",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": pem["authority"],
        "zookeeper.ssl.keystore.location": keys["zookeeper key"],
        "zookeeper.ssl.keystore.password": PLANTED["zookeeper key"],
    }
    brokers = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.ssl.ca.location": pem["authority"],
        "listener.name": "BOTH",
    }
    in_pem = {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": keys["key in PEM"],
        "kafka.ssl.key.password": PLANTED["key in PEM"],
    }
    in_store = {
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.location": keys["key store"].replace(".pem", ".p12"),
        "kafka.ssl.keystore.password": PLANTED["key store"],
    }
    jaas = {"kafka.sasl.jaas.config": jaas_config("plain.PlainLoginModule")}
    password = {"kafka.sasl.username": "alice", "kafka.sasl.password": SECRET}
    refused_jaas = {"kafka.sasl.jaas.config": jaas_config("plain.PlainLoginModule", PLANTED["refused jaas"])}
    refused_password = {**password, "kafka.sasl.password": PLANTED["refused password"]}
    oauth = {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.method": "oidc",
        "kafka.sasl.oauthbearer.client.id": "me",
        "kafka.sasl.oauthbearer.client.secret": PLANTED["oauth client"],
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
    }
    token = {
        "listener.name": "TOKENS",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.provider": PROVIDER,
        "kafka.sasl.oauthbearer.config": signer.config(),
    }
    by_librdkafka = {"transport": "librdkafka", "kafka.debug": "all"}
    secure, orders = {**zookeeper, **brokers}, {"subscribe": "orders"}
    impatient = {"fetchOffset.numRetries": "0", "kafka.request.timeout.ms": "3000"}
    referred = {"zookeeper.auth": "digest:alice:${env:PLANTED_DIGEST}", "kafka.sasl.password": "${env:PLANTED_PASSWORD}"}
    return {
        "read": {**secure, **jaas, **in_pem, **orders},
        "referred read": {**secure, **password, **referred, **orders},
        "scram read": {**secure, **password, "kafka.sasl.mechanism": "SCRAM-SHA-256", **orders},
        "token read": {**secure, **token, **orders},
        "librdkafka read": {**secure, **password, **in_store, **orders, **by_librdkafka},
        "librdkafka scram read": {**secure, **password, "kafka.sasl.mechanism": "SCRAM-SHA-256", **orders, **by_librdkafka},
        "librdkafka token write": {**secure, **token, "topic": "copied", **by_librdkafka},
        "write": {**secure, **password, **in_store, "topic": "copied"},
        "stream": {**secure, **jaas, **in_pem, **orders, "group.id": "planted"},
        "view": {**secure, **password, **in_store, "view": "offsets"},
        "refused stream": {**secure, **refused_jaas, **orders},
        "refused read": {**secure, **refused_password, **orders},
        "refused write": {**secure, **refused_password, "topic": "copied"},
        "refused zookeeper": {
            **secure,
            **jaas,
            **orders,
            "zookeeper.auth": f"sasl:DIGEST-MD5:alice:{PLANTED['refused sasl to zookeeper']}",
        },
        "malformed read": {**secure, **jaas, **orders, "zookeeper.auth": PLANTED["malformed zookeeper.auth"]},
        "unknown option": {**secure, **jaas, **orders, "kafka.my.password": PLANTED["unknown password"]},
        "unreachable authority": {**secure, **oauth, **orders, **impatient},
    }


FAILING = {"refused stream", "refused read", "refused write", "refused zookeeper", "malformed read", "unknown option"}
FAILING |= {"unreachable authority"}


def run_driver(folder: Path, steps: Mapping[str, Options], conf: Options) -> dict[str, str]:
    """Return the output, the event log and the checkpoints of the driver, by name."""
    given = {
        "folder": str(folder),
        "options": steps,
        "conf": {
            "spark.driver.memory": "640m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.task.maxFailures": "1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{folder}",
            "spark.eventLog.compress": "false",
            "spark.sql.warehouse.dir": str(folder / "tables"),
            **conf,
        },
    }
    # Spark's workers log like their driver: Python imports this module at startup.
    (folder / "sitecustomize.py").write_text(
        "import logging\nlogging.basicConfig()\n"
        "for name in ('pyspark_zkafka', 'kazoo'): logging.getLogger(name).setLevel(1)\n"
    )
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "PLANTED_PASSWORD": SECRET,
        "PLANTED_DIGEST": PLANTED["referred"],
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    with (folder / "output").open("w") as output, (folder / "log").open("w") as log:
        subprocess.run(
            [sys.executable, str(DRIVER)],
            input=json.dumps(given),
            stdout=output,
            stderr=log,
            text=True,
            cwd=folder,
            env=environ,
            timeout=540,
            check=False,
        )
    texts = {}
    for place, _, names in os.walk(folder):  # Spark's processes may still be deleting their folders
        for file in (Path(place) / name for name in names):
            with suppress(FileNotFoundError):
                if file.is_file():
                    texts[str(file.relative_to(folder))] = file.read_bytes().decode("utf-8", "replace")
    return texts


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_an_application(
    fortress: LocalCluster, steps: dict[str, Options], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Plans, event log, checkpoints, logs, errors and arguments of processes contain no secret, in success and failure.

    Spark masks options by the regular expression in the documentation.
    """
    assert DOCUMENTED_REGEX is not None
    fortress.create_topic("copied", partitions=2)
    with Processes() as processes:
        texts = run_driver(tmp_path, steps, {"spark.redaction.regex": DOCUMENTED_REGEX[1]})
    artefacts = Artefacts({**texts, "arguments of processes": "\n".join(processes.arguments)})
    assert {name: where for name, secret in PLANTED.items() if (where := artefacts.where(secret))} == {}
    output = texts["output"]
    for step in steps:
        assert f"{'failed' if step in FAILING else 'done'} {step}\n" in output, texts["log"][-3000:]
    assert "rows: 10" in output
    assert "The direct transport is used" in texts["log"]
    assert any(name.startswith("stream/checkpoint/offsets") for name in texts)
    assert any('"Event":"SparkListenerApplicationEnd"' in text for text in texts.values())
    assert processes.arguments
    environments = Artefacts({"environments": "\n".join(processes.environments)})
    record_property("environments", [name for name, secret in PLANTED.items() if environments.where(secret)])


@pytest.mark.long
def test_of_the_command(fortress: LocalCluster, steps: dict[str, Options], tmp_path: Path) -> None:
    """Neither the output of commands with --debug nor their processes' arguments contain a secret, even after a failure."""
    texts: dict[str, str] = {}
    with Processes() as processes:
        for step in ("read", "write", "refused read", "refused zookeeper", "malformed read", "unknown option"):
            options = {name: value for name, value in steps[step].items() if name not in ("subscribe", "topic")}
            file = tmp_path / "client.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
            for command in (["topics", "list"], ["groups", "describe", "--all", "--json"]):
                words = [*ZKAFKA, *command, "--command-config", str(file), "--debug"]
                done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
                texts[f"{step}: {' '.join(command)}"] = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert texts["read: topics list"].startswith("0\n")
    assert texts["malformed read: topics list"].startswith(("1\n", "2\n"))
    artefacts = Artefacts({**texts, "arguments of processes": "\n".join(processes.arguments)})
    assert {name: where for name, secret in PLANTED.items() if (where := artefacts.where(secret))} == {}


def test_of_pickled_partitions(fortress: LocalCluster, steps: dict[str, Options]) -> None:
    """Pickled input partitions contain no secret; tasks receive secrets once, with the reader."""
    options = parse_read(steps["read"])
    plan = plan_batch(options)
    partitions = split_partitions(options, plan.splits, plan.bootstrap_servers)
    assert sum(len(partition.splits) for partition in partitions) == 2
    pickled = Artefacts({"partitions": pickle.dumps(partitions).decode("latin-1")})
    assert [name for name, secret in PLANTED.items() if pickled.where(secret)] == []
