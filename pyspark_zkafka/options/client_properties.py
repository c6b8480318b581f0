"""Translate the options `kafka.*` to librdkafka's properties.

Each property is translated to its equivalent, refused with the reason, or passed on under its own name if librdkafka
accepts it. No property is dropped.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from pyspark_zkafka.options.client_property_table import PASSWORD_MECHANISMS, PROPERTIES, REFUSED, ClientProperty
from pyspark_zkafka.options.librdkafka import Role, Validation, validate, validate_together
from pyspark_zkafka.options.values import DELIVERY_TIMEOUT_MS
from pyspark_zkafka.token_providers import PRESETS, PROVIDER

_SECRET = re.compile(
    r".*(password|passphrase|secret|jaas|private\.key).*"
    r"|sasl\.username|sasl\.oauthbearer\.config|ssl_key|ssl\.key\.(location|pem)|ssl\.(ca|certificate)\.pem"
    r"|ssl\.keystore\.(key|certificate\.chain)|ssl\.truststore\.certificates",
    re.DOTALL,
)
"""Names of properties that are passwords in Java, redacted by librdkafka, PEM texts, or sound secret."""

_DEFAULT_MECHANISM = "GSSAPI"
_IDEMPOTENT_IN_FLIGHT = 5
_FETCH_BYTES, _RESPONSE_BYTES, _RESPONSE_OVERHEAD_BYTES = 52_428_800, 100_000_000, 512  # librdkafka's
_OTHER: dict[Role, Role] = {"consumer": "producer", "producer": "consumer"}
_OPERATION: dict[Role, str] = {"consumer": "read", "producer": "write"}


def translate(properties: Mapping[str, str], role: Role) -> tuple[dict[str, str], list[str]]:
    """Return librdkafka's properties, in the order of the user's, and a text for each problem.

    The names in `properties` are Java's or librdkafka's, without the prefix ``kafka.``, and case-insensitive. A property of
    the other client is a problem, because it would have no effect. Each problem names its property as the user wrote it,
    and never repeats a secret value. If there is a problem, the properties must not be used.

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
    # The values in lower case by name, and also by the name that an alias stands for.
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


def _by_name(client: str) -> dict[str, list[ClientProperty]]:
    rows: dict[str, list[ClientProperty]] = {}
    for row in PROPERTIES:
        if client in row.clients:
            rows.setdefault(row.name, []).append(row)
    return rows


_TABLES: dict[Role, dict[str, list[ClientProperty]]] = {"consumer": _by_name("C"), "producer": _by_name("P")}


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
    if mechanism == _DEFAULT_MECHANISM and translated.get("security.protocol", "").startswith("SASL"):
        problem = validate("sasl.mechanism", mechanism).problem
        return [f"kafka.sasl.mechanism is {mechanism}, the default; librdkafka refuses it: {problem}"] if problem else []
    return []


def _problems_together(translated: Mapping[str, str], role: Role) -> list[str]:
    """Return librdkafka's objection to the properties together with our defaults, which depend on the user's values."""
    if role == "consumer":
        fetch = int(translated.get("fetch.max.bytes", max(_FETCH_BYTES, int(translated.get("message.max.bytes", "0")))))
        room = max(_RESPONSE_BYTES, fetch + _RESPONSE_OVERHEAD_BYTES)
        defaults = {
            "fetch.max.bytes": str(fetch),
            "receive.message.max.bytes": str(room),
            "session.timeout.ms": "1",  # max.poll.interval.ms must not be shorter
        }
    else:
        transaction_ms = translated.get("transaction.timeout.ms")
        delivery_ms = min(DELIVERY_TIMEOUT_MS, int(transaction_ms or DELIVERY_TIMEOUT_MS))
        defaults = {"enable.idempotence": "true", "delivery.timeout.ms": str(delivery_ms), "linger.ms": "0"}
        if transaction_ms is not None and translated.get("enable.idempotence") != "false":
            defaults["transactional.id"] = "any"
    reason = validate_together(translated, defaults, role)
    return [f"kafka.*: librdkafka refuses the properties together: {reason}; correct one of them"] if reason else []
