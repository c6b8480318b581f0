"""The client of a schema registry, with a fake of Confluent's client."""

from __future__ import annotations

import ssl
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2 as httpx
import pytest
from confluent_kafka.schema_registry import RegisteredSchema, Schema, SchemaReference
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
from cryptography import x509

from pyspark_zkafka import errors
from pyspark_zkafka.formats.registry import Registry, StoredSchema, UnknownSchema, open_registry
from pyspark_zkafka.options.values import RegistryOptions
from pyspark_zkafka.retries import Timing
from tests.support.certificates import Authority
from tests.support.web_server import WebRequest, WebServer

OPTIONS = RegistryOptions(("http://registry:8081",), ())


class Client:
    """A client that gives the prepared answers in turn, repeats the last one, and records the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            self.requests.append((name, *arguments))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask


class Clock:
    """A clock that only sleeping advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def timing(self) -> Timing:
        """Return the timing of a registry."""
        return Timing(clock=lambda: self.now, now=lambda: self.now, jitter=lambda: 0.5, sleep=self.sleep)


def registry(*answers: Any) -> tuple[Registry, Client, Clock]:
    client, clock = Client(*answers), Clock()
    return Registry(OPTIONS, client, clock.timing()), client, clock  # type: ignore[arg-type]


def stored(schema: Schema, number: int = 7) -> RegisteredSchema:
    return RegisteredSchema("t-value", 1, number, None, schema)


def asks(found: Registry) -> dict[str, Callable[[], object]]:
    """Return one request of each kind."""
    return {
        "schema": lambda: found.schema(7),
        "subject": lambda: found.subject("s"),
        "register": lambda: found.register("s", StoredSchema("x", "AVRO"), auto=True, normalize=False),
    }


UNKNOWN = SchemaRegistryError(404, 40403, "Schema not found")
AWAY = httpx.ConnectError("Connection refused")


class TestSchemasOfIds:
    """Lookups by id."""

    def test_cache(self) -> None:
        """A schema is requested once."""
        found, client, _ = registry(Schema("x"))
        assert found.schema(7) == found.schema(7) == StoredSchema("x", "AVRO", id=7)
        assert client.requests == [("get_schema", 7)]

    def test_context(self) -> None:
        """An id is requested in the context of the subject, and cached for that context."""
        found, client, _ = registry(Schema("x"), Schema("y"))
        assert [found.schema(7, context).text for context in ("", ":.staging:", "")] == ["x", "y", "x"]
        assert client.requests == [("get_schema", 7), ("get_schema", 7, ":.staging:")]

    def test_guid(self) -> None:
        """A schema is requested by GUID, and a registry that does not know this request has no such schema."""
        found, client, _ = registry(Schema("x", "JSON"))
        assert found.schema("guid") == StoredSchema("x", "JSON")
        assert client.requests == [("get_schema_by_guid", "guid")]
        with pytest.raises(UnknownSchema, match="the registry has no schema GUID guid"):
            registry(SchemaRegistryError(404, 0, "no resource"))[0].schema("guid")

    @pytest.mark.parametrize("code", [0, 404])
    def test_large(self, code: int) -> None:
        """An id above 31 bits is unknown. Registries reply with another error code, since the id is no Java int."""
        found, _, _ = registry(SchemaRegistryError(404, code, "HTTP 404 Not Found"))
        with pytest.raises(UnknownSchema, match="the registry has no schema id 2147483648"):
            found.schema(1 << 31)

    def test_unknown_id(self) -> None:
        """An unknown id is requested again after 30 seconds."""
        found, client, clock = registry(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, Schema("x"))
        for _ in range(2):
            with pytest.raises(UnknownSchema, match=r"^the registry has no schema id 7$"):
                found.schema(7)
            clock.sleep(29)
        assert len(client.requests) == 2
        clock.sleep(2)
        with pytest.raises(UnknownSchema):
            found.schema(7)
        clock.sleep(31)
        assert found.schema(7).text == "x"

    def test_propagation(self) -> None:
        """A schema that a registry receives within a second is not unknown. Many unknown ids wait three times in all."""
        found, client, clock = registry(UNKNOWN, Schema("x"), UNKNOWN, Schema("y"), UNKNOWN)
        assert [found.schema(number).text for number in (6, 7)] == ["x", "y"]
        assert clock.now == 102
        for _ in range(2):
            for unknown in range(10, 15):
                with pytest.raises(UnknownSchema):
                    found.schema(unknown)
        assert len(client.requests) == 4 + 6
        assert clock.now == 103

    def test_many_unknown(self) -> None:
        """Unknown ids are forgotten once they may be requested again."""
        found, _, clock = registry(UNKNOWN)
        for number in range(5000):
            clock.sleep(0.1)
            with pytest.raises(UnknownSchema):
                found.schema(number)
        assert len(found._unknown) <= 1000

    def test_references(self) -> None:
        """Each reference is followed once, also to a version that was deleted since."""
        inner = stored(Schema("inner"))
        outer = stored(Schema("outer", references=[SchemaReference("i", "inner-value", 2)]))
        asked = Schema("x", references=[SchemaReference("o", "outer-value", 1), SchemaReference("i", "inner-value", 2)])
        found, client, _ = registry(asked, outer, inner)
        assert found.schema(7).references == {"o": "outer", "i": "inner"}
        assert client.requests[1:] == [("get_version", "outer-value", 1, True), ("get_version", "inner-value", 2, True)]

    def test_references_in_a_context(self) -> None:
        """A reference is in the context of the schema, unless it names its own."""
        asked = Schema("x", references=[SchemaReference("o", "o", 1), SchemaReference("i", ":.b:i", 2)])
        found, client, _ = registry(asked, stored(Schema("outer")), stored(Schema("inner")))
        found.schema(7, ":.a:")
        assert client.requests[1:] == [("get_version", ":.a:o", 1, True), ("get_version", ":.b:i", 2, True)]

    def test_missing_reference(self) -> None:
        """A schema with a reference that the registry lacks is unknown, for 30 seconds and with the reference's name."""
        asked = Schema("x", references=[SchemaReference("o", "outer-value", 1)])
        found, client, clock = registry(asked, UNKNOWN, asked, UNKNOWN, asked, stored(Schema("outer")))
        for _ in range(2):
            with pytest.raises(UnknownSchema, match="has no version 1 of subject outer-value, to which schema id 7 refers"):
                found.schema(7)
        assert len(client.requests) == 4
        clock.sleep(31)
        assert found.schema(7).references == {"o": "outer"}
        expected = "UNKNOWN_SUBJECT.* version 1 of subject outer-value, to which version latest of subject t-value refers"
        with pytest.raises(errors.SchemaRegistryRefused, match=expected):
            registry(stored(asked), UNKNOWN)[0].subject("t-value")


class TestSubjects:
    """Lookups by subject, and registration."""

    def test_latest(self) -> None:
        """The latest version is requested each time, and a version can be named."""
        found, client, _ = registry(stored(Schema("x")))
        assert found.subject("t-value") == found.subject("t-value", 3) == StoredSchema("x", "AVRO", id=7)
        assert client.requests == [("get_version", "t-value", "latest"), ("get_version", "t-value", 3)]

    def test_unknown_subject(self) -> None:
        """An unknown subject is an error that names it and the registry."""
        expected = r"UNKNOWN_SUBJECT.*registry http://registry:8081 has no latest version of subject t-value"
        with pytest.raises(errors.SchemaRegistryRefused, match=expected):
            registry(SchemaRegistryError(404, 40401, "no"))[0].subject("t-value")
        with pytest.raises(errors.SchemaRegistryRefused, match="has no version 9 of subject t-value"):
            registry(SchemaRegistryError(404, 40402, "no"))[0].subject("t-value", 9)

    def test_registration(self) -> None:
        """A schema is registered, or only looked up."""
        found, client, _ = registry(stored(Schema("x"), 9))
        for auto in (True, False):
            assert found.register("t-value", StoredSchema("x", "AVRO"), auto=auto, normalize=True) == 9
        requests = ["register_schema_full_response", "lookup_schema"]
        assert client.requests == [(name, "t-value", Schema("x"), True) for name in requests]

    def test_not_registered(self) -> None:
        """Without registration, an unknown schema is an error that names the options."""
        with pytest.raises(errors.SchemaRegistryRefused, match=r"UNKNOWN_SUBJECT.*set auto\.register\.schemas=true"):
            registry(UNKNOWN)[0].register("t-value", StoredSchema("x", "AVRO"), auto=False, normalize=False)

    def test_simultaneous_registration(self) -> None:
        """A registry may refuse a schema while another task registers it under the same new subject: it is asked again."""
        found, client, _ = registry(SchemaRegistryError(409, 409, "already exists"), stored(Schema("x"), 9))
        assert found.register("t-value", StoredSchema("x", "AVRO"), auto=True, normalize=False) == 9
        assert len(client.requests) == 2

    def test_incompatible(self) -> None:
        """A refused schema is an error with the registry's reason, and says what to change."""
        expected = r"SCHEMA_NOT_REGISTERED.*\(status 409.*; correct the schema or the frame, or change the subject's comp"
        with pytest.raises(errors.SchemaRegistryRefused, match=expected):
            registry(SchemaRegistryError(409, 409, "not compatible"))[0].register(
                "t-value", StoredSchema("x", "AVRO"), auto=True, normalize=False
            )


def no_token(cause: Exception) -> OAuthTokenError:
    """Return the error of a client whose request for a token has failed."""
    error = OAuthTokenError("Failed to retrieve token after 0 attempts")
    error.__context__ = cause
    return error


def refused_request(status: int) -> httpx.HTTPStatusError:
    """Return the error of a request that the server answered with a status."""
    request = httpx.Request("POST", "http://issuer/token")
    return httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status, request=request))


NO_TOKENS = [no_token(AWAY), no_token(refused_request(503)), no_token(refused_request(429))]


class TestOutages:
    """Registries that do not respond, or refuse."""

    @pytest.mark.parametrize(
        "failure", [AWAY, httpx.ReadTimeout("timed out"), SchemaRegistryError(503, 50301, "no leader"), *NO_TOKENS]
    )
    def test_short_outage(self, failure: Exception) -> None:
        """A failed request is repeated."""
        found, client, _ = registry(failure, failure, Schema("x"))
        assert found.schema(7).text == "x"
        assert len(client.requests) == 3

    def test_either_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A request is also repeated after an error of httpx, which older clients use, next to httpx2."""
        other = types.ModuleType("httpx")
        other.HTTPError = type("HTTPError", (Exception,), {})  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "httpx", other)
        found, _, _ = registry(other.HTTPError("away"), AWAY, Schema("x"))
        assert found.schema(7).text == "x"

    def test_long_outage(self) -> None:
        """After 30 seconds, a retriable error says what failed and where."""
        found, client, clock = registry(AWAY)
        expected = r"SCHEMA_REGISTRY_UNAVAILABLE.*http://registry:8081 did not return schema id 7 .*: Connection refused"
        with pytest.raises(errors.SchemaRegistryError, match=expected) as caught:
            found.schema(7)
        assert caught.value.retriable
        assert 20 <= clock.now - 100 <= 30
        assert len(client.requests) > 5

    def test_tokens_in_errors(self, caplog: pytest.LogCaptureFixture) -> None:
        """The text of an error that quotes the header with the token is neither logged nor raised."""
        quoted = httpx.LocalProtocolError("Illegal header value b'Bearer abc\\ndef'")
        for failure in (quoted, no_token(quoted)):
            found, _, _ = registry(failure)
            with pytest.raises(errors.SchemaRegistryError, match=r"30 s: .*LocalProtocolError; check") as caught:
                found.schema(7)
            assert "Bearer" not in f"{caplog.text}{caught.value}"

    @pytest.mark.parametrize(
        ("failure", "condition"),
        [
            (SchemaRegistryError(401, 401, "Unauthorized"), "SCHEMA_REGISTRY_REFUSED"),
            (SchemaRegistryError(403, 40301, "denied"), "SCHEMA_REGISTRY_REFUSED"),
            (OAuthTokenError("no token"), "SCHEMA_REGISTRY_REFUSED"),
            (no_token(refused_request(401)), "SCHEMA_REGISTRY_REFUSED"),
            (KeyError("expires_in"), "SCHEMA_REGISTRY_REFUSED"),
            (KeyError("id"), "SCHEMA_REGISTRY_ERROR"),
            (SchemaRegistryError(404, -1, "no such page"), "SCHEMA_REGISTRY_ERROR"),
            (ValueError("no JSON"), "SCHEMA_REGISTRY_ERROR"),
        ],
    )
    def test_refusals(self, failure: Exception, condition: str) -> None:
        """Other failures are reported at once."""
        found, client, _ = registry(failure)
        with pytest.raises(errors.SchemaRegistryRefused) as caught:
            found.schema(7)
        assert caught.value.condition == condition
        assert not caught.value.retriable
        assert len(client.requests) == 1

    @pytest.mark.parametrize("client", [SimpleNamespace(), SimpleNamespace(get_schema=lambda: None)])
    def test_another_client(self, client: object) -> None:
        """A client that lacks a method, or takes other arguments, is not reported as a wrong address."""
        with pytest.raises((AttributeError, TypeError)):
            Registry(OPTIONS, client).schema(7)  # type: ignore[arg-type]

    def test_an_answer_that_the_client_cannot_read(self) -> None:
        """The error names both reasons: the address is none of a registry, or the client does not understand it."""
        found, _, _ = registry(TypeError("string indices must be integers"))
        with pytest.raises(
            errors.SchemaRegistryRefused, match=r"for schema id 7 \(TypeError\); correct.*another version of"
        ):
            found.schema(7)


def test_login() -> None:
    """Confluent's client logs in with the options' user, tries each address and reads the response."""
    with WebServer({"schema": "x", "schemaType": "JSON"}) as server:
        options = RegistryOptions(("http://127.0.0.1:1", server.url), (("basic.auth.user.info", "alice:secret"),))
        found = Registry(options)
        assert found.schema(7) == StoredSchema("x", "JSON", id=7)
        found.close()
    assert server.received[0] == WebRequest("/schemas/ids/7", "Basic YWxpY2U6c2VjcmV0", "")


_ANSWERS = [
    b"", b"<html>", b"null", b"[]", b"5", b"{}", b"[" * 100_000, b'{"id": 1, "schema": null}', b'{"id": "x", "schema": {}}',
    b'{"id": 1, "schema": "x", "references": 5}',
]  # fmt: skip
_IDS = [b"null", b'"x"', b"-1", b"99999999999"]


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        *((answer, ("schema", "subject")) for answer in _ANSWERS),
        *((b'{"id": %s, "schema": "x"}' % number, ("subject", "register")) for number in _IDS),
    ],
)
def test_other_answers(answer: bytes, kinds: tuple[str, ...]) -> None:
    """An address that answers with a web page, other JSON, or an id that does not fit into a payload is no registry."""
    with WebServer(answer) as server:
        found = Registry(RegistryOptions((server.url,), ()))
        for kind in kinds:
            with pytest.raises(
                errors.SchemaRegistryRefused, match=r"SCHEMA_REGISTRY_ERROR.*did not answer as a schema reg"
            ):
                asks(found)[kind]()
        found.close()


def test_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, each request raises an error that names the package and the extra."""
    for name in [name for name in sys.modules if name.startswith("confluent_kafka.schema_registry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "authlib.integrations.httpx_client", None)
    for ask in asks(Registry(OPTIONS)).values():
        with pytest.raises(errors.OptionError, match=r"FORMAT_LIBRARY_MISSING.*the package authlib.*\[schema-registry\]'"):
            ask()


def test_missing_file() -> None:
    """A missing certificate file is an error of the options."""
    options = RegistryOptions(("https://registry",), (("ssl.ca.location", "/nowhere.pem"),))
    with pytest.raises(errors.OptionError, match=r"schema\.registry\.ssl\.\* cannot be used: .*No such file"):
        Registry(options).schema(7)


@pytest.mark.parametrize("proxy", ["http://user:secret/1@host:1", "http://user@host:secret", "foo://user:secret@host"])
def test_malformed_proxies(proxy: str) -> None:
    """An address of a proxy that the client refuses is an error of the options, without the password."""
    with pytest.raises(errors.OptionError, match=r"INVALID_OPTION.*check schema\.registry\.\*, and proxies") as caught:
        Registry(RegistryOptions(("http://registry",), (("proxy", proxy),))).schema(7)
    assert "secret" not in str(caught.value)


def test_malformed_address() -> None:
    """An address that the client refuses is none of a registry."""
    found = Registry(RegistryOptions(("http://registry/\1",), ()))
    with pytest.raises(errors.SchemaRegistryRefused, match="SCHEMA_REGISTRY_ERROR"):
        found.schema(7)
    found.close()


def test_client_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's key with a password needs the option, as OpenSSL would wait for the password on the terminal."""
    passwords: list[object] = []
    load = ssl.SSLContext.load_cert_chain

    def spy(context: ssl.SSLContext, *files: str, **more: Any) -> None:
        passwords.append(more["password"])
        load(context, *files, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    authority = Authority(tmp_path, "authority")
    for password, given, expected in ((None, None, ""), ("secret", "secret", "secret"), ("secret", None, "")):
        file = authority.issue("client", x509.DNSName("localhost"), password)
        properties = {"ssl.certificate.location": file, "ssl.key.location": file}
        properties |= {} if given is None else {"ssl.key.password": given}
        found = Registry(RegistryOptions(("http://127.0.0.1:1",), tuple(properties.items())), timing=Clock().timing())
        is_locked = password is not None and given is None
        says = "place a PEM file there, or correct schema.registry.ssl.key.password" if is_locked else "Connection refused"
        with pytest.raises(errors.ZKafkaError, match=says):
            found.schema(7)
        assert passwords.pop() == expected
        found.close()


def test_one_client_in_a_process() -> None:
    """Equal options share a client, and secrets are not shown."""
    options = RegistryOptions(("http://registry",), (("bearer.auth.credentials.source", "STATIC_TOKEN"),
                              ("bearer.auth.token", "secret")))  # fmt: skip
    assert open_registry(options) is open_registry(RegistryOptions(options.urls, options.properties))
    assert "secret" not in repr(options)
    open_registry(options).close()


def test_many_registries() -> None:
    """A process keeps the clients that it used last: a token that is replaced each hour makes a client each time."""
    options = [RegistryOptions(("http://registry",), (("bearer.auth.token", str(hour)),)) for hour in range(100)]
    clients = [open_registry(each) for each in options]
    assert open_registry(options[-1]) is clients[-1]
    assert open_registry(options[0]) is not clients[0]
