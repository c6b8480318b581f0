"""Translation of the options `kafka.*` to librdkafka's properties.

A property is translated to its equivalent, refused with the reason, or passed on under its own name if librdkafka has it
and accepts the value. None is dropped: each property that a user sets has its effect, or is an error.

References
----------
``ConsumerConfig`` and ``ProducerConfig`` of kafka-clients 3.9.1; CONFIGURATION.md of librdkafka 2.16.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark_zkafka.options.client_property_rules import broken_rules, disables_idempotence
from pyspark_zkafka.options.client_property_table import PROPERTIES, ClientProperty
from pyspark_zkafka.options.connection_properties import concerns_connection
from pyspark_zkafka.options.refused_client_properties import REFUSED

__all__ = ["NO_OBJECTION", "UNKNOWN", "Role", "Verdict", "is_of_connection", "is_secret", "translate"]

Role = Literal["consumer", "producer"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """librdkafka's verdict on a property.

    `known` is true if it has the property; `problem` is its reason to refuse the value; `value` is an accepted value as it
    reads it; `names` are the properties that it has, if it does not have this one.
    """

    known: bool
    problem: str = ""
    value: str = ""
    names: tuple[str, ...] = ()


UNKNOWN, NO_OBJECTION = Verdict(known=False), Verdict(known=True)
Judge = Callable[[str, str], Verdict]

_SECRET = re.compile(
    r".*(password|passphrase|secret|jaas|private\.key).*"
    r"|sasl\.username|sasl\.oauthbearer\.config|ssl_key|ssl\.key\.(location|pem)|ssl\.(ca|certificate)\.pem"
    r"|ssl\.keystore\.(key|certificate\.chain)|ssl\.truststore\.certificates",
    re.DOTALL,
)
"""Names of properties that Java declares as passwords, that librdkafka redacts, that are PEM texts, or sound secret."""


_DEFAULT_MECHANISM = "GSSAPI"


def translate(
    properties: Mapping[str, str], role: Role, judge: Judge = lambda name, value: NO_OBJECTION
) -> tuple[dict[str, str], list[str]]:
    """librdkafka's properties for those of a user, in their order, and a text for each problem.

    The names in `properties` lack the prefix ``kafka.``, are Java's or librdkafka's, and case-insensitive. A property of
    the other client is a problem, since it would have no effect. `judge` is librdkafka's check of a value, by the
    property's name in lower case.

    Each problem names its property as the user wrote it, behind ``kafka.``, and never repeats a secret value. If there is
    one, the properties must not be used.

    As in Java's producer, ``acks=1``, ``retries=0`` or more than five requests in flight imply
    ``enable.idempotence=false``; if the user enables idempotence, they are a problem.

    Examples
    --------
    >>> translate({"Buffer.Memory": "33554432", "linger.ms": "20"}, "producer")
    ({'queue.buffering.max.kbytes': '32768', 'linger.ms': '20'}, [])
    >>> translate({"auto.offset.reset": "earliest"}, "consumer")[1]
    ['kafka.auto.offset.reset is refused: use startingOffsets, or the option auto.offset.reset without the prefix kafka.']
    """
    translated: dict[str, str] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    lowered = _lowered(properties, role)
    for name, value in properties.items():
        try:
            found = _translate_one(name.strip().lower(), value, role, lowered, judge)
        except ValueError as problem:
            problems.append(f"kafka.{name} {problem}")
            continue
        for target, text in found.items():
            if translated.setdefault(target, text) != text:
                problems.append(f"kafka.{name} contradicts kafka.{origins[target]}: both set librdkafka's {target}")
            origins.setdefault(target, name)
    # With a property missing or misread, the rules would only report consequences of that.
    problems = problems or broken_rules(translated, of_consumer=role == "consumer") or _kerberos(translated, judge)
    if role == "producer" and disables_idempotence(translated):
        translated["enable.idempotence"] = "false"
    return translated, problems


def _kerberos(translated: Mapping[str, str], judge: Judge) -> list[str]:
    """The problem of a login with Kerberos, which is that without a mechanism as well, if librdkafka has none."""
    is_login = translated.get("security.protocol", "").startswith("SASL")
    if not is_login or translated.get("sasl.mechanism", _DEFAULT_MECHANISM) != _DEFAULT_MECHANISM:
        return []
    problem = judge("sasl.mechanism", _DEFAULT_MECHANISM).problem
    return (
        [f"kafka.sasl.mechanism is {_DEFAULT_MECHANISM}, the default; librdkafka refuses it: {problem}"] if problem else []
    )


def is_secret(name: str) -> bool:
    """True if a property's value must not be shown; with or without the prefix ``kafka.``, in any case, also if unknown.

    >>> is_secret("kafka.SASL.jaas.config"), is_secret("my.password"), is_secret("sasl.mechanism")
    (True, True, False)
    """
    return _SECRET.fullmatch(name.strip().lower().removeprefix("kafka.")) is not None


def is_of_connection(name: str) -> bool:
    """True if a user's property, without the prefix ``kafka.``, in any case, is translated to one of the connection.

    >>> is_of_connection("Send.Buffer.Bytes"), is_of_connection("ssl.truststore.type"), is_of_connection("max.in.flight")
    (True, True, False)
    """
    plain = name.strip().lower()
    targets = {target for row in PROPERTIES if row.name == plain for target in row.target_names()}
    return any(map(concerns_connection, targets | {plain}))


def _by_name(client: str) -> dict[str, list[ClientProperty]]:
    rows: dict[str, list[ClientProperty]] = {}
    for row in PROPERTIES:
        if client in row.clients:
            rows.setdefault(row.name, []).append(row)
    return rows


_TABLES: dict[Role, dict[str, list[ClientProperty]]] = {"consumer": _by_name("C"), "producer": _by_name("P")}
_OTHER: dict[Role, Role] = {"consumer": "producer", "producer": "consumer"}
_OPERATION: dict[Role, str] = {"consumer": "read", "producer": "write"}


def _lowered(properties: Mapping[str, str], role: Role) -> dict[str, str]:
    """The values in lower case by name, and also by the name that an alias stands for."""
    lowered = {name.strip().lower(): value.strip().lower() for name, value in properties.items()}
    rows = [row for name in lowered for row in _TABLES[role].get(name, []) if not row.when]
    return {target: lowered[row.name] for row in rows for target in row.target_names()} | lowered


def _translate_one(name: str, value: str, role: Role, lowered: Mapping[str, str], judge: Judge) -> Mapping[str, str]:
    if "\0" in value:
        raise ValueError("contains a zero byte, at which librdkafka would end it; remove it")
    rows = _TABLES[role].get(name)
    if rows is None:
        return _pass_on(name, value, role, judge)
    row = next((row for row in rows if _applies(row, lowered)), None)
    if row is None:
        raise ValueError(f"needs {' or '.join(map(_condition, rows))}" + _advice(rows[-1]))
    try:
        read = row.read(value)
    except ValueError as expected:
        raise ValueError(f"{_shown(name, value)}; expected {expected}" + _advice(row)) from None
    found = dict.fromkeys(row.target_names(), read) if isinstance(read, str) else read
    for target, text in found.items() if row.checked_by_librdkafka else ():
        _check_value(name, value, text, judge(target, text))
    return found


def _pass_on(name: str, value: str, role: Role, judge: Judge) -> Mapping[str, str]:
    """A property that is in neither table, if librdkafka accepts it."""
    # Blanks may be part of a secret, but not of a file's name.
    text = value if is_secret(name) and not name.endswith((".location", ".file")) else value.strip()
    verdict = UNKNOWN if name in REFUSED or name in _TABLES[_OTHER[role]] else judge(name, text)
    if not verdict.known:
        raise ValueError(_refusal(name, role, verdict.names))
    if not text:
        raise ValueError(f"{_shown(name, value)}; expected a text that is not empty")
    _check_value(name, value, text, verdict)
    return {name: text}


def _check_value(name: str, value: str, text: str, verdict: Verdict) -> None:
    if verdict.problem:
        reason = "" if is_secret(name) else f": {verdict.problem}"
        raise ValueError(f"{_shown(name, value)}; librdkafka refuses it{reason}")
    if _is_misread(text, verdict.value):
        raise ValueError(f"{_shown(name, value)}; expected a whole number: librdkafka would read {verdict.value}")


def _is_misread(text: str, value: str) -> bool:
    """True if librdkafka reads a text as another number: it ignores what follows the digits, and reads octal numbers."""
    if not (re.match(r"\s*[+-]?[0-9]", text) and re.fullmatch(r"-?[0-9]{1,10}", value)):
        return False
    try:
        # Decimal numbers are read back with six digits.
        return not math.isclose(float(text), int(value), rel_tol=1e-5) if "." in text else int(text) != int(value)
    except ValueError:
        return True


def _applies(row: ClientProperty, lowered: Mapping[str, str]) -> bool:
    if not row.when:
        return True
    return lowered.get(str(row.when[0])) in [None if value is None else value.lower() for value in row.when[1:]]


def _condition(row: ClientProperty) -> str:
    name, *values = row.when
    return " or ".join(f"no {name}" if value is None else f"{name}={value}" for value in values)


def _advice(row: ClientProperty) -> str:
    return f"; {row.otherwise}" if row.otherwise else ""


def _shown(name: str, value: str) -> str:
    if is_secret(name):
        return "is malformed (its value is secret and not shown)"
    return f"is {value!r}" if len(value) <= 80 else f"is {value[:80]!r}..."


def _refusal(name: str, role: Role, names: tuple[str, ...]) -> str:
    other = _OTHER[role]
    if name in REFUSED:
        return f"is refused: {REFUSED[name]}"
    if name in _TABLES[other]:
        operation = _OPERATION[other]
        return (
            f"is a {other}'s property, without effect on a {_OPERATION[role]}; remove it, or set it where you {operation}"
        )
    near = difflib.get_close_matches(name, [*_TABLES[role], *REFUSED, *names], n=1, cutoff=0.75)
    hint = f"; did you mean kafka.{near[0]}?" if near else ""
    return f"is unknown to Kafka's Java clients and to librdkafka{hint}"
