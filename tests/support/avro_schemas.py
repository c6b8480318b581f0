"""Avro schemas in JSON."""

from __future__ import annotations

from typing import Any

__all__ = ["long", "record"]


def long(**more: Any) -> dict[str, Any]:
    """Return the type long with a logical type."""
    return {"type": "long", **more}


def record(*fields: tuple[Any, ...], name: str = "R", **more: Any) -> dict[str, Any]:
    """Return a record. A field has a name, a type, and optionally a default and an alias."""
    made = []
    for field, type, *rest in fields:
        made.append({"name": field, "type": type, **({"default": rest[0]} if rest else {})})
        if len(rest) > 1:
            made[-1]["aliases"] = [rest[1]]
    return {"type": "record", "name": name, "fields": made, **more}
