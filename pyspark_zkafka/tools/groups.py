"""``zkafka groups``: consumer groups in ZooKeeper, and their offsets."""

from __future__ import annotations

import typer

from pyspark_zkafka.tools import (
    group_delete,
    group_describe,
    group_files,
    group_list,
    group_members,
    group_migrate,
    group_plan,
    group_reset,
    group_verify,
)

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Show and change consumer groups and their offsets.")
_COMMANDS = (
    group_list,
    group_describe,
    group_members,
    group_verify,
    group_plan,
    group_reset,
    group_files,
    group_delete,
    group_migrate,
)
for _commands in _COMMANDS:
    _commands.add_to(app)
