"""The rows of the table for formats and for the schema registry."""

from __future__ import annotations

from pyspark_zkafka.options import kinds
from pyspark_zkafka.options.kinds import BOOLEAN, PEM_FILE, Kind, text
from pyspark_zkafka.options.option import Option, Rule, excludes, needs, of_reads, of_writes
from pyspark_zkafka.options.values import CONFLUENT_FORMATS, FORMATS

PREFIX = "schema.registry."
_CONFLUENT = tuple(CONFLUENT_FORMATS)
_RULES = {**FORMATS, **CONFLUENT_FORMATS}
_WITH_SCHEMA = tuple(name for name, rules in _RULES.items() if rules.has_schema)
_WITH_MESSAGES = tuple(name for name, rules in _RULES.items() if rules.has_messages)
_COLUMNS = ("value.format", "key.format")
_OF_REGISTRY = Rule(_COLUMNS, _CONFLUENT, "needs a format of Confluent, such as value.format=avro-confluent")


def _of_column(column: str) -> tuple[Option, ...]:
    is_confluent = needs(
        f"{column}.format",
        *_CONFLUENT,
        problem="concerns a schema registry, and has no effect with {found}; leave it out",
    )
    return (
        Option(
            f"{column}.format",
            kinds.FORMAT,
            f"Format of the column {column}. The formats of Confluent look schemas up in schema.registry.url. See "
            "[Formats](formats.md).",
            "binary",
            rules=(needs(f"{PREFIX}url", when=_CONFLUENT),),
        ),
        Option(
            f"{column}.schema",
            kinds.SCHEMA,
            "Read: the schema that gives the column's type. Write: the schema to encode by.",
            derived="read: the subject's schema; write: made from the column's type",
            rules=(
                needs(
                    f"{column}.format",
                    *_WITH_SCHEMA,
                    problem=f"has no effect with {{found}}; set {column}.format to the schema's format, or leave it out",
                ),
            ),
        ),
        Option(
            f"{column}.schema.message",
            text(),
            "Name of the Protobuf message, with its package.",
            derived="the file's first message",
            rules=(
                needs(
                    f"{column}.format",
                    *_WITH_MESSAGES,
                    problem="names a Protobuf message, and has no effect with {found}; leave it out",
                ),
            ),
        ),
        of_reads(
            f"{column}.schema.version",
            kinds.SCHEMA_VERSION,
            "Version of the subject's schema that gives the column's type.",
            "latest",
            rules=(
                is_confluent,
                excludes(f"{column}.schema", problem=f"and {column}.schema both give the column's type; set only one"),
            ),
        ),
        Option(
            f"{column}.subject",
            text(),
            "The subject in the registry.",
            derived="named by the strategy, the next option",
            rules=(is_confluent,),
        ),
        Option(
            f"{column}.subject.name.strategy",
            kinds.SUBJECT_STRATEGY,
            f"How subjects are named. A read without `{column}.schema` needs the default.",
            "TopicNameStrategy",
            rules=(
                is_confluent,
                excludes(f"{column}.subject", problem=f"and {column}.subject exclude each other; set only one"),
            ),
        ),
    )


def _of_registry(
    name: str, kind: Kind, doc: str, derived: str = "", *, secret: bool = False, rules: tuple[Rule, ...] = ()
) -> Option:
    return Option(PREFIX + name, kind, doc, derived=derived, secret=secret, rules=(_OF_REGISTRY, *rules))


def _of_tokens(name: str, kind: Kind, doc: str, *, secret: bool = False) -> Option:
    source = needs(f"{PREFIX}bearer.auth.credentials.source")
    return _of_registry(f"bearer.auth.{name}", kind, doc, secret=secret, rules=(source,))


REGISTRY: tuple[Option, ...] = (
    _of_registry(
        "url",
        kinds.REGISTRY_URLS,
        "Addresses of a schema registry that has Confluent's API. Each is tried in turn.",
        secret=True,
    ),
    _of_registry(
        "basic.auth.credentials.source",
        kinds.CREDENTIALS_SOURCE,
        "Where user and password are: in the next option, or in the URL.",
        "USER_INFO if the next option is set, URL if the address has a login",
        rules=(needs(f"{PREFIX}basic.auth.user.info", when=("user_info",)),),
    ),
    _of_registry("basic.auth.user.info", text("user:password"), "User and password.", secret=True),
    _of_registry("bearer.auth.credentials.source", kinds.TOKEN_SOURCE, "Where bearer tokens come from."),
    _of_tokens("token", kinds.TOKEN, "The token, with STATIC_TOKEN.", secret=True),
    _of_tokens("issuer.endpoint.url", text("URL"), "The endpoint that issues tokens."),
    _of_tokens("client.id", text(), "The client's id there."),
    _of_tokens("client.secret", text(), "The client's secret there.", secret=True),
    _of_tokens("scope", text(), "The scope of tokens."),
    _of_tokens("logical.cluster", text(), "The registry's logical cluster."),
    _of_tokens("identity.pool.id", text(), "The identity pool."),
    _of_registry(
        "ssl.ca.location",
        PEM_FILE,
        "Trusted authorities.",
        "SSL_CERT_FILE or SSL_CERT_DIR of the environment, else the package certifi",
    ),
    _of_registry("ssl.certificate.location", PEM_FILE, "The client's certificate."),
    _of_registry(
        "ssl.key.location", PEM_FILE, "The client's private key.", rules=(needs(f"{PREFIX}ssl.certificate.location"),)
    ),
    _of_registry("ssl.key.password", text(), "Password of the private key.", secret=True),
    _of_registry("proxy", text("URL"), "A proxy for requests to the registry.", secret=True),
)
"""Options of a schema registry: names of Confluent's client, with a prefix."""

FORMATTING: tuple[Option, ...] = (
    *_of_column("value"),
    *_of_column("key"),
    of_reads(
        "mode",
        kinds.PARSE_MODE,
        "If a record cannot be decoded: fail; return null, with the record's bytes and the reason in the columns "
        "`_corrupt_record` and `_corrupt_reason`; or leave the record out.",
        "FAILFAST",
        rules=(Rule(_COLUMNS, ("string", *_WITH_SCHEMA), "is about decoding; set value.format or key.format"),),
    ),
    *REGISTRY,
    of_writes(
        "auto.register.schemas",
        BOOLEAN,
        "Register the schema under the subject. If false, the schema must be registered.",
        derived="true, unless use.latest.version is true",
        rules=(
            _OF_REGISTRY,
            excludes(
                *("use.latest.version", "true"),
                problem="and use.latest.version=true contradict each other; set only one",
                when=("true",),
            ),
        ),
    ),
    of_writes("use.latest.version", BOOLEAN, "Encode by the latest schema of the subject.", "false", rules=(_OF_REGISTRY,)),
    of_writes(
        "normalize.schemas",
        BOOLEAN,
        "Let the registry normalize the schema before it compares it.",
        "false",
        rules=(_OF_REGISTRY,),
    ),
)
