"""Steps of the demo, shown with their call and duration, and checks of its claims."""

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
    """Show a step's title, its call and its duration; `spinner` must be off for other live displays."""
    console.print(Panel(f"[cyan]{call}[/]", title=f"[bold]{title}[/]", title_align="left", border_style="blue"))
    begin = time.monotonic()
    with console.status(f"{title} ...") if spinner else nullcontext():
        yield
    console.print(f"[dim]{time.monotonic() - begin:.1f} s[/]\n")


def prove(console: Console, claim: str, holds: bool) -> None:
    """Print a claim as proved, or end the demo."""
    if not holds:
        raise ZKafkaError("DEMO_FAILED", f"This check failed: {claim}; please report it with the output above")
    console.print(f"[green]proved[/] {claim}")
