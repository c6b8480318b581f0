"""The installed librdkafka's judgement of client properties, through ctypes.

The first check loads the library that confluent-kafka's module is linked to. It does not import confluent-kafka, and opens
no connection.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from typing import Any, Literal

Role = Literal["consumer", "producer"]

_KIND: dict[Role, int] = {"producer": 0, "consumer": 1}  # rd_kafka_type_t
_UNKNOWN_NAME, _OK = -2, 0  # rd_kafka_conf_res_t
_NO_CONSUMER_CLOSE = 0x8
_TEXT_BYTES = 512
_SIZE = ctypes.POINTER(ctypes.c_size_t)
# No other characters: in C, a string ends at a zero byte, and the library would see another name than the checks here.
_NAME = re.compile(r"[a-z0-9._]+")
_KERBEROS = ("sasl.mechanism", "GSSAPI")
_NO_KERBEROS = (
    "it was built without Kerberos, as it is in confluent-kafka's wheels; use SCRAM, PLAIN, OAUTHBEARER or client "
    "certificates, or build confluent-kafka with a librdkafka that has libsasl2 (docs/security.md, Kerberos)"
)
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
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (ctypes.c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (ctypes.c_void_p,)),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t),
    ),
    "rd_kafka_conf_get": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, _SIZE)),
    "rd_kafka_conf_dump": (ctypes.POINTER(ctypes.c_char_p), (ctypes.c_void_p, _SIZE)),
    "rd_kafka_conf_dump_free": (None, (ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t)),
    "rd_kafka_new": (ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)),
    "rd_kafka_destroy_flags": (None, (ctypes.c_void_p, ctypes.c_int)),
    "rd_kafka_yield": (None, (ctypes.c_void_p,)),
}


@dataclass(frozen=True, slots=True)
class Validation:
    """librdkafka's validation of a property.

    `known` is true if librdkafka has the property. `problem` is its reason to refuse the value; `value` is an accepted
    value as librdkafka reads it. For an unknown property, `names` has the known ones.
    """

    known: bool
    problem: str = ""
    value: str = ""
    names: tuple[str, ...] = ()


UNKNOWN, NO_OBJECTION = Validation(known=False), Validation(known=True)


def validate(name: str, value: str) -> Validation:
    """Validate a property; `NO_OBJECTION` if the library cannot be loaded."""
    if not _NAME.fullmatch(name) or "\0" in value:
        return UNKNOWN
    library = load()
    if library is None:
        return NO_OBJECTION
    conf, text = library.rd_kafka_conf_new(), ctypes.create_string_buffer(_TEXT_BYTES)
    try:
        found = library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, _TEXT_BYTES)
        if found == _UNKNOWN_NAME:
            return Validation(known=False, names=_names(library, conf))
        if found != _OK:
            return Validation(known=True, problem=text.value.decode(errors="replace").strip())
        if (name, value) == _KERBEROS and "sasl_gssapi" not in _value(library, conf, "builtin.features").split(","):
            return Validation(known=True, problem=_NO_KERBEROS)
        return Validation(known=True, value=_value(library, conf, name))
    finally:
        library.rd_kafka_conf_destroy(conf)


def validate_together(properties: Mapping[str, str], defaults: Mapping[str, str], role: Role) -> str:
    """Return the reason to refuse accepted properties together; empty if there is none or the library cannot be loaded.

    Creates a client without brokers, with `defaults` for properties that are not given, and closes it. Takes about 1 ms.
    """
    judged = {name: value for name, value in properties.items() if not name.startswith(_EFFECTS)}
    library = load() if judged else None
    if library is None:
        return ""
    conf, text = library.rd_kafka_conf_new(), ctypes.create_string_buffer(_TEXT_BYTES)
    for name, value in {**defaults, **judged, "log_level": "0"}.items():
        library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, _TEXT_BYTES)
    text.value = b""
    client = library.rd_kafka_new(_KIND[role], conf, text, _TEXT_BYTES)
    if client is not None:
        library.rd_kafka_destroy_flags(client, _NO_CONSUMER_CLOSE)
        return ""
    library.rd_kafka_conf_destroy(conf)
    return text.value.decode(errors="replace").strip()


def _value(library: Any, conf: int, name: str) -> str:
    """Return the value of a property; empty if it cannot be read."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    read = library.rd_kafka_conf_get(conf, name.encode(), text, ctypes.byref(ctypes.c_size_t(_TEXT_BYTES)))
    return text.value.decode(errors="replace") if read == _OK else ""


def _names(library: Any, conf: int) -> tuple[str, ...]:
    """List the library's properties that have a default value."""
    count = ctypes.c_size_t()
    dumped = library.rd_kafka_conf_dump(conf, ctypes.byref(count))
    names = tuple(dumped[i].decode() for i in range(0, count.value, 2))
    library.rd_kafka_conf_dump_free(dumped, count)
    return names


@cache
def load() -> Any | None:
    """Load the library; None if its functions cannot be found, for example because it is linked statically."""
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
