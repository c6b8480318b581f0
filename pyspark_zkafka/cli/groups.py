"""``zkafka groups``: consumer groups in ZooKeeper, and their offsets."""

from __future__ import annotations

import typer

from pyspark_zkafka.cli import group_delete, group_files, group_migrate, group_reset

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Show and change consumer groups and their offsets.")
for _commands in (group_reset, group_files, group_delete, group_migrate):
    _commands.add_to(app)
