"""``zkafka groups``: consumer groups in ZooKeeper, and their offsets."""

from __future__ import annotations

import typer

from pyspark_zkafka.cli import group_describe, group_list, group_members, group_plan, group_verify

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Show and change consumer groups and their offsets.")
for _commands in (group_list, group_describe, group_members, group_verify, group_plan):
    _commands.add_to(app)
