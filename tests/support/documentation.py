"""The code blocks of README.md, CONTRIBUTING.md and docs/*.md.

A comment right above a block, ``<!-- not run: needs YARN -->``, says why no test runs it. Blocks of ``python``, ``sh``,
``console`` (``$`` commands, and their output) and ``json`` without one are run; ``text`` is for output and diagrams.
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
"""The languages of blocks that are run."""

_BLOCK = re.compile(
    r"^(?: *<!-- not run: (?P<reason>[^\n]+) -->\n\n?)?"
    r"(?P<indent> *)```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line of its fence, its language, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """The pages for users and contributors, README first."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page, text.count("\n", 0, found.end("language")) + 1, found["language"], dedent(found["text"]), found["reason"]
        )
        for found in _BLOCK.finditer(text)
    ]


def is_fragment(block: Block) -> bool:
    """True for Python that shows only the options of a read: it begins with ``.option``."""
    return block.text.startswith(".option(")


def statements(block: Block) -> list[str]:
    """The commands of a ``sh`` or ``console`` block, each with its continuation lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def program(statement: str) -> list[str]:
    """The words of a command, up to a pipe or a redirection, without assignments before it and a path to its program.

    >>> program("JAVA_HOME=/opt/java .venv/bin/pip install 'pyspark-zkafka[sasl]' > log  # SASL")
    ['pip', 'install', 'pyspark-zkafka[sasl]']
    """
    words = shlex.split(statement, comments=True)
    while len(words) > 1 and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    end = next((i for i, word in enumerate(words) if re.fullmatch(r"[|<>&;]+", word)), len(words))
    return [words[0].rpartition("/")[2], *words[1:end]]


def znode_examples() -> dict[str, str]:
    """The examples of docs/zookeeper.md, by the path in the heading above each."""
    sections = re.findall(
        r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", (ROOT / "docs" / "zookeeper.md").read_text(), re.MULTILINE | re.DOTALL
    )
    found = {path: re.search(r"^```\w+\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL) for path, text in sections}
    return {path: example[1] for path, example in found.items() if example}
