"""Secrets in options: no text of the package shows their values."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_zkafka.errors import OptionError
from pyspark_zkafka.options.batch import parse_connection, parse_read, parse_write
from pyspark_zkafka.options.client_properties import is_secret
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.stream import parse_stream
from pyspark_zkafka.options.table import TABLE

Parser = Callable[[Mapping[str, str]], Any]

CONNECT = {"zookeeper.connect": "zk1:2181"}
READ, WRITE = {**CONNECT, "subscribe": "t"}, {**CONNECT, "topic": "t"}
PARSERS: dict[str, tuple[Parser, dict[str, str]]] = {
    "read": (parse_read, READ),
    "stream": (parse_stream, {**READ, "group.id": "g"}),
    "write": (parse_write, WRITE),
    "connection": (parse_connection, CONNECT),
}
SASL = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
PEM = {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.type": "PEM", "kafka.ssl.truststore.type": "PEM"}
OAUTH = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.method": "oidc",
    "kafka.sasl.oauthbearer.client.id": "me",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{}";'
TABLE_SECRETS = [option.name for option in TABLE if option.secret]
CLIENT_SECRETS = sorted({f"kafka.{row.name}" for row in PROPERTIES if is_secret(row.name)})
MORE_SECRETS = [
    "kafka.sasl.password",
    "kafka.sasl.oauthbearer.config",
    "kafka.ssl.key.pem",
    "kafka.my.own.password",
    "kafka.secret",
]
ALL = [*TABLE_SECRETS, *CLIENT_SECRETS, *MORE_SECRETS]
PUBLIC_OF_LOGINS = [
    "basic.auth.credentials.source",
    "bearer.auth.credentials.source",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.scope",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
]
"""Options of a schema registry's login that are not secret."""
FORMS = {"zookeeper.auth": "digest:alice:{}", "kafka.sasl.jaas.config": JAAS}
BESIDE: list[dict[str, str]] = [
    {},
    SASL,
    {**SASL, "kafka.sasl.username": "me"},
    PEM,
    OAUTH,
    {"zookeeper.ssl.client.enable": "true"},
]
# Differs from every name and message, so that a match means that the value is shown.
SECRETS = st.text(st.characters(codec="utf-8", exclude_characters='"\\'), max_size=12).map("Pl4nted{}Secr3t".format)


@settings(max_examples=25)
@given(secret=SECRETS, beside=st.sampled_from(BESIDE), bare=st.booleans(), upper=st.booleans())
@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("name", ALL)
def test_no_text_has_the_value(
    name: str, parser: str, secret: str, beside: dict[str, str], bare: bool, upper: bool
) -> None:
    """Neither representations nor errors show a secret, well-formed or not."""
    parse, others = PARSERS[parser]
    value = secret if bare else FORMS.get(name, "{}").replace("{}", secret)
    options = {**others, **beside, name.upper() if upper and not name.startswith("kafka.") else name: value}
    try:
        found = parse(options)
    except OptionError as error:
        shown = [str(error), repr(error), repr(error.parameters), "".join(traceback.format_exception(error))]
    else:
        shown = [repr(found), str(found), repr(getattr(found, "connection", found)), f"{found}"]
        assert repr(pickle.loads(pickle.dumps(found))) == repr(found)
    for text in shown:
        for part in (secret, secret.encode("unicode_escape").decode(), repr(secret)[1:-1], "Pl4nted"):
            assert part not in text


@pytest.mark.parametrize("kind", ["env", "file"])
@pytest.mark.parametrize("name", [*TABLE_SECRETS, "kafka.sasl.password", "kafka.ssl.key.password"])
def test_referred_secrets(name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A referenced secret is never shown, even if its option is malformed."""
    secret = "Pl4ntedSecr3t"
    monkeypatch.setenv("PLACE", secret)
    (tmp_path / "place").write_text(secret)
    reference = "${env:PLACE}" if kind == "env" else f"${{file:{tmp_path}/place}}"
    for form in ("{}", FORMS.get(name, "{}")):
        try:
            text = repr(parse_read({**READ, name: form.replace("{}", reference)}))
        except OptionError as error:
            text = "".join(traceback.format_exception(error))
        assert secret not in text


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """The error of a secret in a file that is not UTF-8 has none of the file's bytes."""
    (tmp_path / "key").write_bytes(b"Pl4nted\xffSecr3t")
    with pytest.raises(OptionError, match=r"kafka\.sasl\.password refers to the file \S+key, which is not UTF-8") as caught:
        parse_connection(
            {**CONNECT, **SASL, "kafka.sasl.username": "me", "kafka.sasl.password": f"${{file:{tmp_path}/key}}"}
        )
    text = "".join(traceback.format_exception(caught.value))
    assert "Pl4nted" not in text
    assert "0xff" not in text


def test_the_table_names_the_secrets() -> None:
    """Every option whose name looks secret is marked as secret, except the public ones of logins."""
    unmarked = [o.name for o in TABLE if not o.secret and (is_secret(o.name) or "password" in o.name or "auth" in o.name)]
    assert unmarked == [f"schema.registry.{name}" for name in PUBLIC_OF_LOGINS]
    assert TABLE_SECRETS == [
        "zookeeper.auth",
        "zookeeper.ssl.keystore.password",
        "schema.registry.url",
        "schema.registry.basic.auth.user.info",
        "schema.registry.bearer.auth.token",
        "schema.registry.bearer.auth.client.secret",
        "schema.registry.ssl.key.password",
        "schema.registry.proxy",
    ]
