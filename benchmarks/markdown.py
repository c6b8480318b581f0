"""Tables of the documentation made from figures; each stands between two comments of its page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any

from benchmarks.engines import ENGINES
from benchmarks.matrix import MAIN_MASTER
from benchmarks.results import EITHER, PEERS, CaseName, Contender, Round, Summary, cases, ratio, summaries
from benchmarks.session import ROOT, SETTINGS
from benchmarks.shapes import SHAPES

PAGES = (ROOT / "docs" / "why.md", ROOT / "docs" / "performance.md", ROOT / "docs" / "benchmarks.md")
"""The pages whose tables `replaced` replaces."""
_BLOCK = re.compile(r"(?s)(?<=<!-- figures: )([a-z0-9-]+)( -->\n).*?(?=<!-- end of figures -->)")
_MAIN_SHAPES = ("small", "big")
_MAIN_WORKS = ("read", "write", "stream20")
_PEER_NAMES = {"jvm": "defaults", "jvm-tuned": "tuned", "jvm-idempotent": "tuned, idempotent"}
WORKS = {
    "read": "read, all columns",
    "value": "read, value alone",
    "group": "read and group",
    "write": "write with keys",
    "write-nokey": "write without keys",
    "stream20": "stream, 20 micro-batches",
    "stream-tiny": "stream, tiny micro-batches",
    "stream-wide": "stream, 500 partitions of 100 records",
    "copy": "stream from topic to topic",
}
_OF_MICRO_BATCHES = {"copy": "micro-batches", "stream-tiny": "stream-tiny", "stream-wide": "stream-wide"}
"""The tables of works whose micro-batches are timed, by work."""
_Case = tuple[CaseName, list[Round]]


def tables(document: dict[str, Any]) -> dict[str, str]:
    """Return all tables for which there are enough figures, by name."""
    rounds: list[Round] = document["rounds"]
    found: dict[str, str] = {}
    if all(_main(rounds, work) for work in _MAIN_WORKS):  # otherwise these would lose the rows of the other works
        found |= {"environment": _environment(document), "summary": _summary_table(rounds), "all": _all_ratios(rounds)}
    found |= {work: _speeds(_main(rounds, work)) for work in WORKS if work not in _OF_MICRO_BATCHES}
    found["exactly-once"] = _exactly_once(rounds)
    found |= {name: _micro_batches(rounds, work) for work, name in _OF_MICRO_BATCHES.items()}
    found |= {name: _memory(rows) if name == "memory" else _figures(rows) for name, rows in document["figures"].items()}
    return {name: table for name, table in found.items() if table}


def replaced(page: str, found: dict[str, str]) -> str:
    """Return a page's text with its tables replaced by those in `found`."""
    return _BLOCK.sub(lambda block: f"{block[1]}{block[2]}{_inside(block, found)}", page)


def _inside(block: re.Match[str], found: dict[str, str]) -> str:
    name = block[1]
    return f"\n{found[name]}\n\n" if name in found else block[0][len(block[1] + block[2]) :]


def _environment(document: dict[str, Any]) -> str:
    rounds, where = document["rounds"], document["environment"]
    others = mean(one.usage.other_cpu_s / one.seconds for one in rounds)
    numbers = sorted({len({one.number for one in found}) for found in cases(rounds).values()})
    return (
        f"Measured on {where['date'][:10]} with {where['cores']} cores, {where['brokers']} on the same machine, pyspark "
        f"{where['pyspark']}, Python {where['python']}; medians of {' or '.join(map(str, numbers))} rounds. "
        f"Other processes took {others:.2f} cores meanwhile."
    )


def _main(rounds: Iterable[Round], work: str) -> list[_Case]:
    """Return the first case of each main shape that has a peer."""
    found: dict[str, _Case] = {}
    for case, some in cases(rounds).items():
        wanted = case.master == MAIN_MASTER and case.work == work and case.shape in _MAIN_SHAPES
        if wanted and any(one.engine in PEERS for one in some):
            found.setdefault(case.shape, (case, some))
    return [found[shape] for shape in _MAIN_SHAPES if shape in found]


def _speeds(found: list[_Case]) -> str:
    """Return speed, CPU time and ratios of all contenders, shapes side by side."""
    if not found:
        return ""
    peers = [peer for peer in PEERS if any(one.engine == peer for _, some in found for one in some)]
    against = "; ".join(_PEER_NAMES[peer] for peer in peers)
    heads = [[f"{_sized(case)}: M records/s", "CPU s/M", f"times JVM {against}"] for case, _ in found]
    by_contender = [{one.contender: one for one in summaries(some)} for _, some in found]
    contenders = dict.fromkeys(one for several in by_contender for one in several)
    rows = [[_label(one), *(cell for each in by_contender for cell in _cells(each.get(one), peers))] for one in contenders]
    return _table(["", *(cell for head in heads for cell in head)], rows)


def _cells(found: Summary | None, peers: Sequence[str]) -> list[str]:
    if found is None:
        return ["-", "-", "-"]
    ours = found.contender.engine.startswith("ours")
    ratios = [_times(found.ratios[peer], ours=ours) if peer in found.ratios else "-" for peer in peers]
    return [_speed(found.records_per_s), f"{found.spark_cpu_s_per_million:.2f}", "; ".join(ratios)]


def _summary_table(rounds: list[Round]) -> str:
    """Return the table of why.md: speeds under both settings, and ratios to the JVM connector's fastest row."""
    mains = [one for work in _MAIN_WORKS for one in _main(rounds, work)]
    head = ["M records/s", *(f"zkafka, {name}" for name in SETTINGS), *(f"JVM, {_PEER_NAMES[peer]}" for peer in PEERS)]
    rows = []
    for case, some in mains:
        by_contender = {one.contender: one for one in summaries(some)}
        fastest = max((peer for peer in PEERS if Contender(peer, EITHER) in by_contender), key=_speed_of(by_contender))
        ours = [by_contender.get(Contender("ours", name)) for name in SETTINGS]
        cells = ["-" if one is None else f"{_speed(one.records_per_s)} ({_times(one.ratios[fastest])})" for one in ours]
        theirs = [by_contender.get(Contender(peer, EITHER)) for peer in PEERS]
        cells += ["-" if one is None else _speed(one.records_per_s) for one in theirs]
        rows.append([f"{WORKS[case.work]}, {SHAPES[case.shape].label}", *cells])
    return _table(head, rows)


def _speed_of(by_contender: dict[Contender, Summary]) -> Any:
    return lambda peer: by_contender[Contender(peer, EITHER)].records_per_s


def _all_ratios(rounds: list[Round]) -> str:
    """Return ratios of zkafka's speed and CPU time to its peers', in every case."""
    rows = []
    for case, some in cases(rounds).items():
        by_contender = {one.contender: one for one in summaries(some)}
        ours = [by_contender[one] for name in SETTINGS if (one := Contender("ours", name)) in by_contender]
        peers = [peer for peer in PEERS if Contender(peer, EITHER) in by_contender]
        if not ours or not peers:
            continue
        cells = ["; ".join(_times(one.ratios[peer]) for peer in peers) for one in ours]
        cells += ["; ".join(f"{1 / one.cpu_ratios[peer]:.2f}" for peer in peers) for one in ours]
        rows.append([f"{WORKS[case.work]}, {_sized(case)}, {case.master}", *cells])
    against = "; ".join(_PEER_NAMES[peer] for peer in PEERS)
    heads = [f"{what}, {name}: to {against}" for what in ("speed", "CPU") for name in SETTINGS]
    return _table(["", *heads], rows) if rows else ""


def _exactly_once(rounds: list[Round]) -> str:
    """Return the speed of exactly-once next to at-least-once, under both settings."""
    rows = []
    for case, some in cases(rounds).items():
        if case.work != "write" or case.master != MAIN_MASTER or not any(one.engine == "ours-once" for one in some):
            continue
        by_contender = {one.contender: one for one in summaries(some)}
        cells = []
        for name in SETTINGS:
            once, least = Contender("ours-once", name), Contender("ours", name)
            if once in by_contender:
                found = ratio(some, once, least, lambda one: one.seconds) or 0.0
                cells += [
                    _speed(by_contender[least].records_per_s),
                    f"{_speed(by_contender[once].records_per_s)} ({found:.2f})",
                ]
        rows.append([f"{case.records / 1e6:g} M records of {SHAPES[case.shape].label}", *cells])
    heads = [f"{guarantee}, {name}" for name in SETTINGS for guarantee in ("at-least-once", "exactly-once")]
    return _table(["M records/s", *heads], rows) if rows else ""


def _micro_batches(rounds: list[Round], work: str) -> str:
    """Return milliseconds per micro-batch as Spark reports them: medians over all, a row for each master."""
    found = {case: some for case, some in cases(rounds).items() if case.work == work}
    contenders = list(dict.fromkeys(one.contender for some in found.values() for one in some))
    rows = []
    for case, some in found.items():
        for part in ("addBatch", "triggerExecution"):
            times = [[one.extra["median_ms"][part] for one in some if one.contender == each] for each in contenders]
            rows.append([f"`{part}`, {case.master}", *(f"{median(several):.0f}" if several else "-" for several in times)])
    return _table(["ms", *map(_label, contenders)], rows) if rows else ""


def _memory(rows: list[dict[str, Any]]) -> str:
    """Return MiB of a worker above a bare one: a row for each engine and settings, a column for each work."""
    works = list(dict.fromkeys(row["work"] for row in rows))
    found = {(f"{row['engine']} ({row['settings']})", row["work"]): str(row["above it MiB"]) for row in rows}
    engines = dict.fromkeys(engine for engine, _ in found)
    return _table(["MiB", *works], [[engine, *(found.get((engine, work), "-") for work in works)] for engine in engines])


def _figures(found: list[dict[str, Any]]) -> str:
    """Return rows as measured; rows with other columns start another table."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for row in found:
        cells = [f"{value:,.2f}" if isinstance(value, float) else str(value) for value in row.values()]
        groups.setdefault(tuple(row), []).append(cells)
    return "\n\n".join(_table(list(head), rows) for head, rows in groups.items())


def _label(contender: Contender) -> str:
    name = ENGINES[contender.engine].label
    return name if contender.settings == EITHER else f"{name} ({contender.settings})"


def _sized(case: CaseName) -> str:
    return f"{SHAPES[case.shape].label}, {case.records / 1e6:g} M"


def _speed(records_per_s: float) -> str:
    return f"{records_per_s / 1e6:.2f}"


def _times(found: float, *, ours: bool = True) -> str:
    """Return a ratio of speed, with the word **slower** below 1."""
    said = f"{found:.2f}"
    return f"{said} **slower**" if ours and float(said) < 1 else said


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first, *others = [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in (head, *rows)]
    return "\n".join([first, f"|{'---|' * len(head)}", *others])
