"""References to secrets in the values of options, as Kafka's config providers write them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["resolve_references"]

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")


def resolve_references(value: str, environment: Mapping[str, str] = os.environ) -> str:
    """A value with each ``${env:NAME}`` and ``${file:PATH}`` replaced by what it refers to.

    A file is used whole, without the line break at its end. Spark shows options in its web interface and in its event log:
    a reference keeps the secret out of both.

    Raises
    ------
    ValueError
        The environment variable is not set, or the file cannot be read; the text does not contain the value.

    Examples
    --------
    >>> resolve_references("digest:alice:${env:ZK}", {"ZK": "s3cret"})
    'digest:alice:s3cret'
    """

    def resolved(reference: re.Match[str]) -> str:
        kind, name = reference.groups()
        try:
            return environment[name] if kind == "env" else Path(name).read_text(encoding="utf-8").rstrip("\r\n")
        except KeyError:
            raise ValueError(f"refers to the environment variable {name}, which is not set") from None
        except OSError as error:
            raise ValueError(f"refers to the file {name}, which cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:  # which has the secret
            raise ValueError(f"refers to the file {name}, which is not UTF-8") from None

    return _REFERENCE.sub(resolved, value)
