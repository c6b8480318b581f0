"""The documents, compared with the code."""

from __future__ import annotations

import ast
import json
import re
import runpy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pyspark_zkafka.model.assignors import STRATEGIES
from pyspark_zkafka.model.znodes import cluster, groups
from pyspark_zkafka.options.client_property_table import PROPERTIES
from pyspark_zkafka.options.kinds import FORMAT
from pyspark_zkafka.options.table import BY_NAME, KAFKA_STRATEGIES, TABLE
from tests.support.commands import problem
from tests.support.documentation import (
    ROOT,
    RUN,
    SHELL,
    Block,
    blocks,
    is_fragment,
    pages,
    program,
    statements,
    znode_examples,
)

DOCS = ROOT / "docs"
DESIGN = ROOT / "DESIGN.md"
PACKAGE = ROOT / "pyspark_zkafka"
PAGES = [*pages(), DESIGN]
SITE = runpy.run_path(str(DOCS / "site_pages.py"))
PAGES_OF_SITE = {page.name: page for page in [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in SITE["ROOT_PAGES"])]}
BLOCKS = [block for page in PAGES for block in blocks(page)]

SPARK_OPTIONS = {
    *("kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets"),
    *("startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy", "failOnDataLoss", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries"),
    *("fetchOffset.retryIntervalMs", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions"),
    *("maxRecordsPerPartition", "groupIdPrefix", "kafka.group.id", "includeHeaders", "topic", "kafka.*"),
}
"""The options of KafkaSourceProvider and KafkaWriter (spark-sql-kafka-0-10, 4.2.0)."""

ZNODES: dict[str, Callable[[str, bytes], Any]] = {
    "/brokers/ids/<id>": cluster.decode_broker,
    "/brokers/topics/<topic>": cluster.decode_topic,
    "/brokers/topics/<topic>/partitions/<partition>/state": cluster.decode_partition_state,
    "/controller": cluster.decode_controller,
    "/cluster/id": cluster.decode_cluster_id,
    "/config/topics/<topic>": cluster.decode_topic_config,
    "/admin/reassign_partitions": cluster.decode_reassignment,
    "/admin/preferred_replica_election": cluster.decode_preferred_election,
    "/consumers/<group>/ids/<consumer>": groups.decode_registration,
    "/consumers/<group>/owners/<topic>/<partition>": groups.decode_owner,
    "/consumers/<group>/offsets/<topic>/<partition>": groups.decode_offset,
}
"""The documented znodes, with their decoders."""


GENERATED = runpy.run_path(str(DOCS / "generate.py"))["pages"]()


@pytest.mark.parametrize("page", GENERATED)
def test_generated_pages(page: str) -> None:
    """The generated pages are up to date with `make docs`."""
    assert (DOCS / page).read_text() == GENERATED[page]


def test_pictures() -> None:
    """The pictures are up to date with `make docs`."""
    for name, drawn in runpy.run_path(str(DOCS / "pictures.py"))["pictures"]().items():
        assert (DOCS / name).read_text() == drawn


def anchors(page: Path) -> set[str]:
    """Return the fragments of a page's headings, as GitHub and mkdocs name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links(page: Path) -> None:
    """Every link to a file of the project leads to an existing file, and to a heading of it."""
    for target, fragment in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if not target.startswith("http"):
            linked = page.parent / target if target else page
            assert linked.exists(), target
            assert not fragment or fragment in anchors(linked), f"{target}#{fragment}"


@pytest.mark.parametrize("page", PAGES_OF_SITE.values(), ids=PAGES_OF_SITE)
def test_links_in_the_site(page: Path) -> None:
    """In the site, which has all pages in one folder, every link leads to a page, a heading or a picture of the site."""
    text = SITE["in_site"](page.read_text(), page.parent)
    for target, fragment in re.findall(r"\]\((?!http)([^)#]*)(?:#([^)]*))?\)", text):
        linked = PAGES_OF_SITE.get(target, DOCS / target) if target else page
        assert linked.exists(), target
        assert not fragment or fragment in anchors(linked), f"{target}#{fragment}"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    """Each fence belongs to a block, and each block is run, is output or a diagram, or gives a reason."""
    found = blocks(page)
    fences = re.findall(r"^ *(?:```|~~~)", page.read_text(), re.MULTILINE)
    assert len(fences) == 2 * len(found)
    assert [f"{block}: {block.language}" for block in found if not (block.reason or block.language in (*RUN, "text"))] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"])
def test_python_compiles(block: Block) -> None:
    """Python blocks compile, even if they are not run."""
    compile(f"(reader\n{block.text})" if is_fragment(block) else block.text, str(block), "exec")


def test_first_steps_need_no_rights() -> None:
    """A newcomer can paste the blocks of docs/index.md as they are: none writes to a folder in the root folder."""
    assert [str(block) for block in blocks(DOCS / "index.md") if re.search(r"[\"' ]/\w", block.text)] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in SHELL])
def test_commands_exist(block: Block) -> None:
    """The package's commands and the Makefile's targets exist, even if they are not run."""
    words = [program(statement) for statement in statements(block)]
    assert [problem(w) for w in words if w[0] in ("zkafka", "make") and problem(w)] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_name_their_cluster(page: Path) -> None:
    """Commands have an address as an option, or follow an export on their page, also in output and in blocks not run."""
    said = [s for block in blocks(page) for s in statements(block) if block.language in SHELL or s.startswith("export ")]
    exports = [number for number, statement in enumerate(said) if statement.startswith("export ZKAFKA_")]
    before = said[: exports[0]] if exports else said
    commands = [s for s in before if program(s)[0] == "zkafka" and program(s)[1] not in ("checkpoint", "cluster", "demo")]
    assert [s for s in commands if "--zookeeper" not in s and "--bootstrap-server" not in s] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "json"])
def test_json_parses(block: Block) -> None:
    """JSON blocks are well formed."""
    json.loads(block.text)


class TestZnodes:
    """docs/zookeeper.md."""

    @pytest.mark.parametrize("path", ZNODES)
    def test_example_is_readable(self, path: str) -> None:
        """The example of each znode can be decoded like a real one."""
        real_path = re.sub(r"<id>|<partition>", "0", re.sub(r"<topic>", "orders", path))
        ZNODES[path](
            real_path.replace("<group>", "billing").replace("<consumer>", "billing_c1"), znode_examples()[path].encode()
        )


def table_rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its first two lines."""
    section = (DOCS / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [row.strip("|").split("|") for row in section.splitlines() if row.startswith("|")][2:]


def codes(cell: str) -> list[str]:
    """Return a cell's texts in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def codes_of(page: str) -> set[str]:
    """Return a page's texts in backticks, without its blocks."""
    return set(codes(re.sub(r"(?ms)^```.*?^```$", "", (DOCS / page).read_text())))


def test_strategies() -> None:
    """The pages on groups have every assignment strategy."""
    assert set(STRATEGIES) - codes_of("groups-zookeeper.md") == set()
    assert set(KAFKA_STRATEGIES) - codes_of("groups-kafka.md") == set()


def test_formats() -> None:
    """The page on formats has every format."""
    assert set(FORMAT.form.split(" or ")) - codes_of("formats.md") == set()


class TestMigration:
    """Guides for migration."""

    @pytest.mark.parametrize(
        ("page", "heading"),
        [
            ("migrate-from-spark-kafka.md", "Read options"),
            ("migrate-from-spark-kafka.md", "Write options"),
            ("migrate-from-streaming-0-8.md", "kafkaParams and Spark's settings"),
        ],
    )
    def test_options_exist(self, page: str, heading: str) -> None:
        """Every option that a guide offers is in the table of options or is a client property."""
        known = {row.name for row in TABLE} | {f"kafka.{row.name}" for row in PROPERTIES} | {"kafka.group.id"}
        offered = {name for row in table_rows(page, heading) for name in codes(row[1])}
        assert offered - known == set()

    def test_every_spark_option_has_a_row(self) -> None:
        """The guide from Spark's Kafka source covers all of its options."""
        page = "migrate-from-spark-kafka.md"
        rows = [*table_rows(page, "Read options"), *table_rows(page, "Write options")]
        assert SPARK_OPTIONS - {name for row in rows for name in codes(row[0])} == set()


def misread_lines(text: str) -> list[str]:
    """Return the list lines that Python-Markdown, which renders the site, reads differently from GitHub.

    >>> misread_lines("Steps:\\n1. one\\n\\n   more\\n2. two\\n\\n- a\\n  b\\n- c")
    ['1. one', '   more', '2. two']
    """
    found, in_list, in_first_paragraph, above = [], False, False, ""
    for line in re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        if re.match(r"(?:[-*]|\d+\.) ", line):
            if above and not in_first_paragraph:
                found.append(line)
            in_list = in_first_paragraph = True
        elif in_list and not above and re.match(r" {1,3}\S", line):
            found.append(line)
        elif line and not line.startswith(" ") and not above:
            in_list = False
        if not line:
            in_first_paragraph = False
        above = line
    return found


@pytest.mark.parametrize("page", PAGES)
def test_lists_are_read_alike(page: Path) -> None:
    """Lists follow a blank line, their further paragraphs are indented by four, and a blank line ends them."""
    assert misread_lines(page.read_text()) == []


@cache
def definitions() -> dict[str, set[str]]:
    """Return the names defined by each module, by its path in the package without suffix; members as ``Class.member``."""
    return {
        path.relative_to(PACKAGE).with_suffix("").as_posix(): set(_defined(ast.parse(path.read_text(encoding="utf-8"))))
        for path in PACKAGE.rglob("*.py")
    }


def _defined(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{member}" for member in _defined(node))
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def unknown_name(name: str) -> str | None:
    """Return the problem of a name in DESIGN.md: ``module.function``, ``folder/module.Class.method`` or ``Class.method``.

    >>> unknown_name("batch_planner.plan_batch"), unknown_name("SplitReader.batches"), unknown_name("auto.offset.reset")
    (None, None, None)
    >>> unknown_name("offsets.resolve")
    'offsets.resolve: not one module'
    >>> unknown_name("batch_planner.plan")
    'batch_planner.plan: not defined'
    """
    module, _, member = name.partition(".")
    if name.lower() in BY_NAME:
        return None
    if module[0].isupper():
        is_defined = any(name in names for names in definitions().values())
        return None if is_defined else f"{name}: not defined"
    found = [path for path in definitions() if path == module] or [
        path for path in definitions() if path.endswith(f"/{module}")
    ]
    if len(found) != 1:
        return f"{name}: not one module"
    return None if member in definitions()[found[0]] else f"{name}: not defined"


def unknown_path(path: str) -> str | None:
    """Return the problem of a path in DESIGN.md, which must be a path below the root or the end of one file in the package.

    >>> unknown_path("read/batch_planner.py"), unknown_path("batch_planner.py"), unknown_path("tests/unit/test_docs.py")
    (None, None, None)
    >>> unknown_path("offsets.py")
    'offsets.py: not one file'
    """
    if (ROOT / path).exists() or (PACKAGE / path).exists():
        return None
    count = sum(file.as_posix().endswith(f"/{path}") for file in PACKAGE.rglob(Path(path).name))
    return None if count == 1 else f"{path}: not one file"


def test_names_in_the_design() -> None:
    """Every path and every name of a function, class or method in DESIGN.md exists and is unambiguous."""
    words = set(codes(DESIGN.read_text(encoding="utf-8")))
    everywhere = {name.rpartition(".")[2] for names in definitions().values() for name in names}
    paths = {word for word in words if re.fullmatch(r"[\w/]+\.(py|c|h)|[\w/]+/", word)}
    names = {word for word in words - paths if re.fullmatch(r"(\w+/)*\w+(\.\w+)+", word)}
    assert list(filter(None, [*map(unknown_path, sorted(paths)), *map(unknown_name, sorted(names))])) == []
    assert {word for word in words if re.fullmatch(r"_\w+|_?[A-Z]\w*", word)} - everywhere == set()
