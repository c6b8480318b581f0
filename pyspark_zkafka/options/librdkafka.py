"""Questions to the installed librdkafka about properties: it may be newer than the tables of this package.

The library is the one that confluent-kafka's own module is linked to. No client is made for a question, and nothing is
loaded before the first one.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from importlib.util import find_spec
from typing import Any

from pyspark_zkafka.options.client_properties import UNKNOWN, Verdict

__all__ = ["judge"]

_UNKNOWN_NAME, _OK = -2, 0  # rd_kafka_conf_res_t
_WHY_BYTES = 512
# Through C, any other name may reach the library as one that is refused here: it ends at a zero byte.
_NAME = re.compile(r"[a-z0-9._]+")
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (ctypes.c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (ctypes.c_void_p,)),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t),
    ),
}


def judge(name: str, value: str) -> Verdict:
    """The verdict on a property; `UNKNOWN`, too, where the library cannot be asked: about this one, or at all."""
    library = _library() if _NAME.fullmatch(name) and "\0" not in value else None
    if library is None:
        return UNKNOWN
    conf, why = library.rd_kafka_conf_new(), ctypes.create_string_buffer(_WHY_BYTES)
    found = library.rd_kafka_conf_set(conf, name.encode(), value.encode(), why, _WHY_BYTES)
    library.rd_kafka_conf_destroy(conf)
    if found == _UNKNOWN_NAME:
        return UNKNOWN
    return Verdict(known=True, problem="" if found == _OK else why.value.decode(errors="replace"))


@cache
def _library() -> Any | None:
    spec = find_spec("confluent_kafka") and find_spec("confluent_kafka.cimpl")
    if spec is None or spec.origin is None:
        return None
    try:
        library = ctypes.CDLL(spec.origin)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None  # a librdkafka whose functions are not to be found, e.g. linked statically
    return library
