"""What the demo's parts share: steps that say what they do and how long it took, and claims that are proved."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.panel import Panel

from pyspark_zkafka.errors import ZKafkaError

__all__ = ["prove", "step"]


@contextmanager
def step(console: Console, title: str, call: str, *, spinner: bool = True) -> Iterator[None]:
    """Show what is being done, by which call, and how long it took; `spinner` must be off for other live displays."""
    console.print(Panel(f"[cyan]{call}[/]", title=f"[bold]{title}[/]", title_align="left", border_style="blue"))
    begin = time.monotonic()
    with console.status(f"{title} ...") if spinner else nullcontext():
        yield
    console.print(f"[dim]{time.monotonic() - begin:.1f} s[/]\n")


def prove(console: Console, claim: str, holds: bool) -> None:
    """Say that a claim is proved, or end the demo."""
    if not holds:
        raise ZKafkaError("DEMO_FAILED", f"This check failed: {claim}; please report it with the output above")
    console.print(f"[green]proved[/] {claim}")
