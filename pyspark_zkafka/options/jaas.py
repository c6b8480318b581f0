"""Translation of Java's `sasl.jaas.config` to librdkafka's properties.

References
----------
``org.apache.kafka.common.security.JaasConfig`` and ``JaasContext`` of kafka-clients 3.9.1, whose grammar is Java's
``java.io.StreamTokenizer``: ``LoginModule flag (name=value)* ;`` with ``"`` or ``'`` around values other than plain words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["credentials", "parse"]

_SECURITY = "org.apache.kafka.common.security."
_PASSWORD_MODULES = (f"{_SECURITY}plain.PlainLoginModule", f"{_SECURITY}scram.ScramLoginModule")
_REPLACEMENTS = {
    "Krb5LoginModule": "sasl.kerberos.principal, sasl.kerberos.keytab and sasl.kerberos.service.name",
    "OAuthBearerLoginModule": "sasl.oauthbearer.method=oidc, sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret "
    "and sasl.oauthbearer.token.endpoint.url",
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_FORM = '<login module> required username="..." password="...";'

_TOKEN = r"""(?:\s|//[^\n]*|/\*.*?\*/)+
    | (?P<quote>["'])(?P<quoted>(?:\\[^\n]|(?!(?P=quote))[^\\\n])*)(?P=quote)
    | (?P<word>[A-Za-z_$\u00a0-\uffff-][\w$.\u00a0-\uffff-]*)
    | (?P<sign>[=;])
    | (?P<other>.)"""
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def credentials(text: str) -> dict[str, str]:
    """`sasl.username` and `sasl.password` of a PLAIN or SCRAM login; no error text repeats a value.

    Raises
    ------
    ValueError
        With what is expected: the text is malformed, or names a login module without an equivalent in librdkafka.

    Examples
    --------
    >>> credentials('org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a;b";')
    {'sasl.username': 'me', 'sasl.password': 'a;b'}
    """
    module, options = parse(text)
    # A shaded client's module, such as Databricks' kafkashaded.org.apache.kafka..., is the same module.
    if not module.endswith(_PASSWORD_MODULES):
        raise ValueError(_instead_of(module))
    unknown = sorted(set(options) - {"username", "password"})
    if unknown:
        raise ValueError(f"only username and password: librdkafka has no {', '.join(unknown)}")
    if not (options.get("username") and options.get("password")):
        raise ValueError(f"both a username and a password: {_FORM}")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _instead_of(module: str) -> str:
    replacement = _REPLACEMENTS.get(module.rpartition(".")[2])
    if replacement is None:
        return "PlainLoginModule or ScramLoginModule, since librdkafka does not run Java's login modules"
    return f"{replacement} instead, since librdkafka does not run Java's login modules"


def parse(text: str) -> tuple[str, dict[str, str]]:
    """The login module's class and its options; raises ValueError with what is expected, without any value."""
    tokens = list(_tokens(text))
    kinds = "".join(kind for kind, _ in tokens)
    if not re.fullmatch(r"w[wq]([wq]=[wq])*;", kinds) or tokens[1][1].lower() not in _FLAGS:
        raise ValueError(f"one login module, its flag and its options, closed by a semicolon: {_FORM}")
    values = [value for _, value in tokens[2:-1]]
    return tokens[0][1], dict(zip(values[0::3], values[2::3], strict=True))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Each token's kind (w: word, q: quoted, = and ; themselves, ?: anything else) and its value."""
    for found in re.finditer(_TOKEN, text, re.VERBOSE | re.DOTALL | re.ASCII):
        if found["quoted"] is not None:
            yield "q", _ESCAPE.sub(lambda m: _unescape(m[1]), found["quoted"])
        elif found["word"] is not None:
            yield "w", found["word"]
        elif found["sign"] or found["other"]:
            yield found["sign"] or "?", ""


def _unescape(escape: str) -> str:
    return chr(int(escape, 8)) if escape[0] in "01234567" else _CONTROLS.get(escape, escape)
