"""Translate the options `kafka.*` to librdkafka's properties.

A property is translated to its equivalent, refused with the reason, or passed on under its own name if librdkafka
accepts it. No property is dropped.

The first check loads the library that confluent-kafka's module is linked to, through ctypes. It does not import
confluent-kafka, and opens no connection.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, Literal

from pyspark_zkafka.options.client_property_table import PASSWORD_MECHANISMS, PROPERTIES, REFUSED, ClientProperty
from pyspark_zkafka.options.values import DELIVERY_TIMEOUT_MS
from pyspark_zkafka.token_providers import PRESETS, PROVIDER

Role = Literal["consumer", "producer"]

_OTHER: dict[Role, Role] = {"consumer": "producer", "producer": "consumer"}
_OPERATION: dict[Role, str] = {"consumer": "read", "producer": "write"}

_SECRET = re.compile(
    r".*(password|passphrase|secret|jaas|private\.key).*"
    r"|sasl\.username|sasl\.oauthbearer\.config|ssl_key|ssl\.key\.(location|pem)|ssl\.(ca|certificate)\.pem"
    r"|ssl\.keystore\.(key|certificate\.chain)|ssl\.truststore\.certificates",
    re.DOTALL,
)
"""Properties that are passwords in Java, PEM texts, or redacted by librdkafka, and other names that sound secret."""

_DEFAULT_MECHANISM = "GSSAPI"
_NO_KERBEROS = (
    "kafka.sasl.mechanism is GSSAPI, the default: install pyspark-zkafka[kerberos] on the driver and on every executor, or "
    "use SCRAM, PLAIN, OAUTHBEARER or client certificates (docs/security.md, Kerberos)"
)
LIBRDKAFKA_WITHOUT_KERBEROS = (
    "a librdkafka with Kerberos. The wheels of confluent-kafka have none: build confluent-kafka with libsasl2 "
    "(docs/security.md, Kerberos)"
)
_IDEMPOTENT_IN_FLIGHT = 5
_FETCH_BYTES, _RESPONSE_BYTES, _RESPONSE_OVERHEAD_BYTES = 52_428_800, 100_000_000, 512  # librdkafka's
# Properties that make a client connect, read files, log in or log.
_EFFECTS = (
    "bootstrap.servers",
    "debug",
    "https.",
    "log_level",
    "sasl.oauthbearer.token.provider",
    "security.protocol",
    "test.",
)

# Excludes other characters: C ends a string at a zero byte, and the library would see another name than the checks here.
_NAME = re.compile(r"[a-z0-9._]+")
_CLIENT_TYPES: dict[Role, int] = {"producer": 0, "consumer": 1}  # rd_kafka_type_t
_UNKNOWN_NAME, _OK = -2, 0  # rd_kafka_conf_res_t
_NO_CONSUMER_CLOSE = 0x8
_TEXT_BYTES = 512
_SIZE_POINTER = ctypes.POINTER(ctypes.c_size_t)
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (ctypes.c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (ctypes.c_void_p,)),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t),
    ),
    "rd_kafka_conf_get": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, _SIZE_POINTER)),
    "rd_kafka_conf_dump": (ctypes.POINTER(ctypes.c_char_p), (ctypes.c_void_p, _SIZE_POINTER)),
    "rd_kafka_conf_dump_free": (None, (ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t)),
    "rd_kafka_new": (ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)),
    "rd_kafka_destroy_flags": (None, (ctypes.c_void_p, ctypes.c_int)),
    "rd_kafka_yield": (None, (ctypes.c_void_p,)),
}


def _by_name(client: str) -> dict[str, list[ClientProperty]]:
    rows: dict[str, list[ClientProperty]] = {}
    for row in PROPERTIES:
        if client in row.clients:
            rows.setdefault(row.name, []).append(row)
    return rows


_TABLES: dict[Role, dict[str, list[ClientProperty]]] = {"consumer": _by_name("C"), "producer": _by_name("P")}


def translate(properties: Mapping[str, str], role: Role) -> tuple[dict[str, str], list[str]]:
    """Return librdkafka's properties, in the order of the user's, and a text for each problem.

    The names in `properties` are Java's or librdkafka's, without the prefix ``kafka.``, and case-insensitive. A property of
    the other client is a problem, because it would have no effect. A problem names its property as the user wrote it, and
    never repeats a secret value. If there is a problem, the properties must not be used.

    As in Java's producer, ``acks=1``, ``retries=0`` or more than five requests in flight imply
    ``enable.idempotence=false``. They are a problem if the user enables idempotence.

    >>> translate({"Buffer.Memory": "33554432", "linger.ms": "20"}, "producer")
    ({'queue.buffering.max.kbytes': '32768', 'linger.ms': '20'}, [])
    >>> translate({"auto.offset.reset": "earliest"}, "consumer")[1]
    ['kafka.auto.offset.reset is refused: use startingOffsets, or the option auto.offset.reset without the prefix kafka.']
    """
    translated: dict[str, str] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    # The values in lower case. An aliased property is under both of its names.
    given = {name.strip().lower(): value.strip().lower() for name, value in properties.items()}
    rows = [row for name in given for row in _TABLES[role].get(name, []) if not row.when]
    lowered = {target: given[row.name] for row in rows for target in row.target_names()} | given
    for name, value in properties.items():
        try:
            found = _translate_one(name.strip().lower(), value, role, lowered)
        except ValueError as problem:
            problems.append(f"kafka.{name} {problem}")
            continue
        for target, text in found.items():
            if translated.setdefault(target, text) != text:
                problems.append(f"kafka.{name} contradicts kafka.{origins[target]}: both set librdkafka's {target}")
            origins.setdefault(target, name)
    if role == "producer" and "enable.idempotence" not in translated:
        # As in ProducerConfig.postProcessAndValidateIdempotenceConfigs.
        in_flight = int(translated.get("max.in.flight.requests.per.connection", "1"))
        acks, retries = translated.get("acks", "all"), translated.get("retries")
        if acks != "all" or retries == "0" or in_flight > _IDEMPOTENT_IN_FLIGHT:
            translated["enable.idempotence"] = "false"
    # A missing or misread property would cause further problems in the later checks.
    return translated, problems or _login_problems(translated) or _problems_together(translated, role)


def is_secret(name: str) -> bool:
    """True if a property's value must not be shown.

    The name is case-insensitive, may have the prefix ``kafka.``, and need not be known.

    >>> is_secret("kafka.SASL.jaas.config"), is_secret("my.password"), is_secret("sasl.mechanism")
    (True, True, False)
    """
    return _SECRET.fullmatch(name.strip().lower().removeprefix("kafka.")) is not None


def _translate_one(name: str, value: str, role: Role, lowered: Mapping[str, str]) -> Mapping[str, str]:
    if "\0" in value:
        raise ValueError("contains a zero byte, where librdkafka would end the value; remove it")
    rows = _TABLES[role].get(name)
    if rows is None:
        return _pass_on(name, value, role)
    row = next((row for row in rows if row.applies(lowered)), None)
    if row is None:
        raise ValueError(f"needs {' or '.join(row.condition for row in rows)}; {rows[-1].otherwise}")
    try:
        read = row.read(value)
    except ValueError as expected:
        advice = f"; {row.otherwise}" if row.otherwise and not row.when else ""
        raise ValueError(f"{_shown(name, value)}; expected {expected}{advice}") from None
    found = dict.fromkeys(row.target_names(), read) if isinstance(read, str) else read
    for target, text in found.items() if row.is_judged else ():
        _check_value(name, value, text, validate(target, text))
    return found


def _pass_on(name: str, value: str, role: Role) -> Mapping[str, str]:
    """Pass on a property that is in neither table, if librdkafka accepts it."""
    other = _OTHER[role]
    if name in REFUSED:
        raise ValueError(f"is refused: {REFUSED[name]}")
    if name in _TABLES[other]:
        raise ValueError(
            f"is a {other} property, without effect on a {_OPERATION[role]}; remove it, or set it where you "
            f"{_OPERATION[other]}"
        )
    # Blanks may be part of a secret, but not of a file's name.
    text = value if is_secret(name) and not name.endswith((".location", ".file")) else value.strip()
    validation = validate(name, text)
    if not validation.known:
        import difflib  # for errors alone

        near = difflib.get_close_matches(name, [*_TABLES[role], *REFUSED, *validation.names], n=1, cutoff=0.75)
        hint = f"; did you mean kafka.{near[0]}?" if near else ""
        raise ValueError(f"is unknown to Kafka's Java clients and to librdkafka{hint}")
    if not text:
        raise ValueError(f"{_shown(name, value)}; expected a text that is not empty")
    _check_value(name, value, text, validation)
    return {name: text}


def _check_value(name: str, value: str, text: str, validation: Validation) -> None:
    if validation.problem:
        reason = "" if is_secret(name) else f": {validation.problem}"
        raise ValueError(f"{_shown(name, value)}; librdkafka refuses it{reason}")
    if _is_misread(text, validation.value):
        raise ValueError(f"{_shown(name, value)}; expected a whole number: librdkafka would read {validation.value}")


def _is_misread(text: str, value: str) -> bool:
    """True if librdkafka reads a text as another number: it ignores text after the digits, and reads octal numbers."""
    if not (re.match(r"\s*[+-]?[0-9]", text) and re.fullmatch(r"-?[0-9]{1,10}", value)):
        return False
    try:
        # Decimal numbers are read back with six digits.
        return not math.isclose(float(text), int(value), rel_tol=1e-5) if "." in text else int(text) != int(value)
    except ValueError:
        return True


def _shown(name: str, value: str) -> str:
    if is_secret(name):
        return "is malformed (its value is secret and not shown)"
    return f"is {value!r}" if len(value) <= 80 else f"is {value[:80]!r}..."


def _login_problems(translated: Mapping[str, str]) -> list[str]:
    """List problems that librdkafka would report only at login, or not at all."""
    mechanism = translated.get("sasl.mechanism", _DEFAULT_MECHANISM)
    if mechanism in PASSWORD_MECHANISMS and not {"sasl.username", "sasl.password"} <= translated.keys():
        return [f"kafka.sasl.mechanism={mechanism} needs kafka.sasl.jaas.config, or kafka.sasl.username and password"]
    is_oidc, provider = translated.get("sasl.oauthbearer.method") == "oidc", translated.get(PROVIDER)
    if provider is not None and (is_oidc or mechanism != "OAUTHBEARER"):
        return [f"kafka.{PROVIDER} needs kafka.sasl.mechanism=OAUTHBEARER, without kafka.sasl.oauthbearer.method=oidc"]
    has_token = is_oidc or provider is not None or translated.get("enable.sasl.oauthbearer.unsecure.jwt") == "true"
    if mechanism == "OAUTHBEARER" and not has_token:
        return [
            f"kafka.sasl.mechanism=OAUTHBEARER needs kafka.{PROVIDER} (a function that returns a token, or one of "
            f"{', '.join(PRESETS)}), or kafka.sasl.oauthbearer.method=oidc and its properties"
        ]
    return [_NO_KERBEROS] if has_kerberos_login(translated) and find_spec("gssapi") is None else []


def has_kerberos_login(properties: Mapping[str, Any]) -> bool:
    """Return True if librdkafka's properties have a login by Kerberos."""
    is_sasl = str(properties.get("security.protocol", "")).startswith("SASL")
    return is_sasl and properties.get("sasl.mechanism", _DEFAULT_MECHANISM) == _DEFAULT_MECHANISM


@cache
def is_librdkafka_without_kerberos() -> bool:
    """Return True if librdkafka was built without Kerberos; False if it cannot be loaded."""
    library = load_librdkafka()
    if library is None:
        return False
    conf = library.rd_kafka_conf_new()
    try:
        return "sasl_gssapi" not in _conf_value(library, conf, "builtin.features").split(",")
    finally:
        library.rd_kafka_conf_destroy(conf)


def _problems_together(translated: Mapping[str, str], role: Role) -> list[str]:
    """Return librdkafka's objection to the properties combined with our defaults, which depend on the user's values."""
    if role == "consumer":
        fetch = int(translated.get("fetch.max.bytes", max(_FETCH_BYTES, int(translated.get("message.max.bytes", "0")))))
        room = max(_RESPONSE_BYTES, fetch + _RESPONSE_OVERHEAD_BYTES)
        defaults = {
            "fetch.max.bytes": str(fetch),
            "receive.message.max.bytes": str(room),
            "session.timeout.ms": "1",  # max.poll.interval.ms must not be shorter
        }
    else:
        defaults = {"enable.idempotence": "true", "delivery.timeout.ms": str(DELIVERY_TIMEOUT_MS), "linger.ms": "0"}
    reason = validate_together(translated, defaults, role)
    return [f"kafka.*: librdkafka refuses the properties together: {reason}; correct one of them"] if reason else []


@dataclass(frozen=True, slots=True)
class Validation:
    """librdkafka's validation of a property.

    `known` is true if librdkafka has the property. `problem` is its reason to refuse the value. `value` is an accepted
    value as librdkafka reads it. For an unknown property, `names` has the names of all known properties.
    """

    known: bool
    problem: str = ""
    value: str = ""
    names: tuple[str, ...] = ()


UNKNOWN, NO_OBJECTION = Validation(known=False), Validation(known=True)


def validate(name: str, value: str) -> Validation:
    """Ask librdkafka to validate a property. Returns `NO_OBJECTION` if the library cannot be loaded."""
    if not _NAME.fullmatch(name) or "\0" in value:
        return UNKNOWN
    library = load_librdkafka()
    if library is None:
        return NO_OBJECTION
    conf, text = library.rd_kafka_conf_new(), ctypes.create_string_buffer(_TEXT_BYTES)
    try:
        found = library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, _TEXT_BYTES)
        if found == _UNKNOWN_NAME:
            return Validation(known=False, names=_conf_names(library, conf))
        if found != _OK:
            return Validation(known=True, problem=text.value.decode(errors="replace").strip())
        return Validation(known=True, value=_conf_value(library, conf, name))
    finally:
        library.rd_kafka_conf_destroy(conf)


def validate_together(properties: Mapping[str, str], defaults: Mapping[str, str], role: Role) -> str:
    """Return librdkafka's reason to refuse a combination of accepted properties. Empty if it accepts, or cannot be loaded.

    Creates a client without brokers, with `defaults` for properties that are not given, and closes it. Takes about 1 ms.
    """
    judged = {name: value for name, value in properties.items() if not name.startswith(_EFFECTS)}
    library = load_librdkafka() if judged else None
    if library is None:
        return ""
    conf, text = library.rd_kafka_conf_new(), ctypes.create_string_buffer(_TEXT_BYTES)
    for name, value in {**defaults, **judged, "log_level": "0"}.items():
        library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, _TEXT_BYTES)
    text.value = b""
    client = library.rd_kafka_new(_CLIENT_TYPES[role], conf, text, _TEXT_BYTES)
    if client is not None:
        library.rd_kafka_destroy_flags(client, _NO_CONSUMER_CLOSE)
        return ""
    library.rd_kafka_conf_destroy(conf)
    return text.value.decode(errors="replace").strip()


def _conf_value(library: Any, conf: int, name: str) -> str:
    """Return the value of a property. Empty if it cannot be read."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    read = library.rd_kafka_conf_get(conf, name.encode(), text, ctypes.byref(ctypes.c_size_t(_TEXT_BYTES)))
    return text.value.decode(errors="replace") if read == _OK else ""


def _conf_names(library: Any, conf: int) -> tuple[str, ...]:
    """List the library's properties that have a default value."""
    count = ctypes.c_size_t()
    dumped = library.rd_kafka_conf_dump(conf, ctypes.byref(count))
    names = tuple(dumped[i].decode() for i in range(0, count.value, 2))
    library.rd_kafka_conf_dump_free(dumped, count)
    return names


@cache
def load_librdkafka() -> Any | None:
    """Load the installed librdkafka. None if its functions cannot be found, for example because it is linked statically."""
    package = PathFinder.find_spec("confluent_kafka")
    module = package and PathFinder.find_spec("confluent_kafka.cimpl", package.submodule_search_locations)
    if module is None or module.origin is None:
        return None
    try:
        library = ctypes.CDLL(module.origin)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return library
