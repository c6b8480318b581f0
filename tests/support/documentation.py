"""The code blocks of README.md, CONTRIBUTING.md and docs/*.md.

Tests run blocks of ``python``, and the commands ``zkafka`` and ``export`` in blocks of ``sh`` and ``console`` (``$``
commands with their output), unless a comment right above a block gives a reason: ``<!-- not run: needs YARN -->``. They
parse ``json``. ``text`` is for output and diagrams.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

__all__ = ["RUN", "SHELL", "Block", "blocks", "is_fragment", "pages", "program", "statements", "znode_examples"]

ROOT = Path(__file__).resolve().parents[2]
SHELL = ("sh", "console")
RUN = ("python", "json", *SHELL)
"""Languages of blocks that tests run."""

_BLOCK = re.compile(
    r"^(?: *<!-- not run: (?P<reason>[^\n]+) -->\n\n?)?"
    r"(?P<indent> *)```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line of its fence, its language, and the reason if it is not run."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Return the pages for users and contributors, README first."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page, text.count("\n", 0, found.end("language")) + 1, found["language"], dedent(found["text"]), found["reason"]
        )
        for found in _BLOCK.finditer(text)
    ]


def is_fragment(block: Block) -> bool:
    """Return True for Python that starts with ``.option``: it shows only options of a read."""
    return block.text.startswith(".option(")


def statements(block: Block) -> list[str]:
    """Return the commands of a ``sh`` or ``console`` block, with continuation lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def program(statement: str) -> list[str]:
    """Return the words of a command up to a pipe or redirection, without leading assignments and its program's folder.

    >>> program("JAVA_HOME=/opt/java .venv/bin/pip install 'pyspark-zkafka[sasl]' > log  # SASL")
    ['pip', 'install', 'pyspark-zkafka[sasl]']
    """
    words = shlex.split(statement, comments=True)
    while len(words) > 1 and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    end = next((i for i, word in enumerate(words) if re.fullmatch(r"[|<>&;]+", word)), len(words))
    return [words[0].rpartition("/")[2], *words[1:end]]


def znode_examples() -> dict[str, str]:
    """Return the examples of docs/zookeeper.md, by the path in the heading above each."""
    sections = re.findall(
        r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", (ROOT / "docs" / "zookeeper.md").read_text(), re.MULTILINE | re.DOTALL
    )
    found = {path: re.search(r"^```\w+\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL) for path, text in sections}
    return {path: example[1] for path, example in found.items() if example}
