"""Draw the pictures of the pages, as SVG for light and dark screens. ``make docs`` runs this; a test compares the files."""

from __future__ import annotations

from pathlib import Path

_STYLE = """
  .back { fill: #ffffff } text { fill: #222222; font: 13px sans-serif }
  .note { fill: #555555; font-size: 12px } .head { font-weight: bold }
  .box { stroke-width: 1.5 } .line { stroke: #555555; stroke-width: 1.5; fill: none; marker-end: url(#tip) }
  .rest { stroke: #999999; stroke-width: 1; stroke-dasharray: 4 4 } .tip { fill: #555555 }
  .a { fill: #dbe4ff; stroke: #3f51b5 } .b { fill: #ffe3c2; stroke: #b26500 } .c { fill: #d8f0d8; stroke: #2e7d32 }
  .d { fill: #eeeeee; stroke: #777777 } .curve { stroke: #3f51b5; stroke-width: 2.5; fill: none }
  @media (prefers-color-scheme: dark) {
    .back { fill: #1e2129 } text { fill: #e6e6e6 } .note { fill: #b5b5b5 }
    .line { stroke: #b5b5b5 } .rest { stroke: #777777 } .tip { fill: #b5b5b5 }
    .a { fill: #2c3566; stroke: #8c9eff } .b { fill: #5c3a10; stroke: #ffb74d } .c { fill: #1f4523; stroke: #81c784 }
    .d { fill: #33363f; stroke: #9a9a9a } .curve { stroke: #8c9eff }
  }
"""
_TIP = (
    '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    '<path class="tip" d="M0 0L8 4L0 8z"/></marker>'
)


class Picture:
    """An SVG that grows by boxes, arrows and texts."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">',
            f"<style>{_STYLE}</style>",
            f"<defs>{_TIP}</defs>",
            f'<rect class="back" width="{width}" height="{height}"/>',
        ]

    def text(self, x: int, y: int, said: str, kind: str = "") -> None:
        self._parts.append(f'<text x="{x}" y="{y}" class="{kind}">{said}</text>')

    def box(self, x: int, y: int, width: int, kind: str, *lines: str, height: int = 0) -> None:
        height = height or 14 + 17 * len(lines)
        self._parts.append(f'<rect class="box {kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>')
        for number, line in enumerate(lines):
            self.text(x + 8, y + 20 + 17 * number, line)

    def arrow(self, *points: tuple[int, int], kind: str = "line") -> None:
        path = " ".join(f"{x},{y}" for x, y in points)
        self._parts.append(f'<polyline class="{kind}" points="{path}"/>')

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</svg>", ""])


def micro_batch() -> Picture:
    """Two micro-batches of a member, and a second member that joins during the first one."""
    picture = Picture(900, 330, "A micro-batch, and a second member of the group that joins meanwhile")
    for x, said in ((10, "time"), (120, "micro-batch 7"), (660, "micro-batch 8")):
        picture.text(x, 24, said, "head")
    picture.arrow((50, 20), (108, 20))
    for x in (112, 450, 652):
        picture.arrow((x, 34), (x, 262), kind="rest")
    for y, said in ((66, "driver"), (116, "partition 0"), (156, "partition 1"), (196, "partition 2"), (236, "partition 3")):
        picture.text(10, y, said, "head")
    picture.box(120, 45, 150, "a", "plans 0, 1 and 2")
    picture.box(458, 45, 186, "a", "commits 0, 1, 2; releases 2")
    picture.box(660, 45, 150, "a", "plans 0 and 1")
    for y in (95, 135):
        picture.box(120, y, 322, "a", "read by the first member")
        picture.box(660, y, 230, "a", "read by the first member")
    picture.box(120, 175, 322, "a", "read by the first member: kept until the end")
    picture.box(660, 175, 230, "b", "read by the second member")
    picture.box(120, 215, 190, "d", "owned, nothing new in it")
    picture.box(345, 215, 545, "b", "released at once, read by the second member")
    picture.arrow((328, 290), (328, 252))
    picture.text(262, 306, "second member joins", "note")
    return picture


def transports() -> Picture:
    """The way of a record from a broker to Spark, and back, by each transport."""
    picture = Picture(900, 300, "The two transports: direct, in C, and librdkafka")
    picture.text(150, 24, "direct", "head")
    picture.text(540, 24, "librdkafka", "head")
    for y, said in ((66, "broker"), (126, "fetch or send"), (196, "convert"), (266, "Spark's JVM")):
        picture.text(10, y, said, "head")
    picture.box(150, 45, 720, "d", "record batches")
    picture.box(150, 105, 330, "c", "sockets in Python: the next fetch is under way", "while one is decoded")
    picture.box(540, 105, 330, "b", "librdkafka: threads of its own,", "and queues of records")
    picture.box(150, 175, 330, "c", "C: a record batch is an Arrow batch,", "without an object for each record")
    picture.box(540, 175, 330, "b", "Python: a message object for each record,", "then an Arrow batch")
    picture.box(150, 245, 720, "d", "Arrow batches through a socket")
    for x in (300, 700):
        for start, end in ((77, 103), (154, 173), (224, 243)):
            picture.arrow((x, start), (x, end))
            picture.arrow((x + 40, end), (x + 40, start))
    return picture


def owners() -> Picture:
    """The members of a group, the partitions that each owns, and where that is recorded."""
    picture = Picture(900, 250, "Two members of a group, and the partitions that each of them owns")
    for y, said in ((66, "members"), (176, "partitions")):
        picture.text(10, y, said, "head")
    picture.box(110, 45, 370, "a", "a query of zkafka, however many executors", "consumer.id receipts_1")
    picture.box(510, 45, 370, "b", "a JVM consumer, or another query", "consumer.id receipts_2")
    for number in range(4):
        kind, x = "ab"[number // 2], 110 + 200 * number
        offset = ("1,204", "1,198", "1,310", "1,277")[number]
        picture.box(x, 155, 170, kind, f"payments-{number}", f"owner: receipts_{number // 2 + 1}", f"offset: {offset}")
        picture.arrow((x + 85, 95), (x + 85, 153))
    picture.text(110, 242, "Only the owner reads a partition, and commits its offset.", "note")
    return picture


def lag() -> Picture:
    """The lag of a group while its query stands still, and while it catches up."""
    picture = Picture(900, 270, "The lag of a group: low, growing while its query is stopped, and falling when it is back")
    picture.text(10, 24, "lag", "head")
    picture.arrow((40, 230), (40, 20))
    picture.arrow((40, 230), (880, 230))
    picture.text(845, 250, "time", "head")
    picture.arrow((40, 215), (200, 210), (430, 70), (560, 130), (700, 212), (870, 214), kind="curve")
    for x, said in ((200, "the query stops"), (430, "it restarts"), (560, "a second member joins"), (700, "caught up")):
        picture.arrow((x, 34), (x, 230), kind="rest")
        picture.text(x + 6, 44, said, "note")
    picture.text(60, 200, "a micro-batch's records", "note")
    return picture


def pictures() -> dict[str, str]:
    """Return the pictures, by file name."""
    drawn = {"micro-batch": micro_batch, "transports": transports, "owners": owners, "lag": lag}
    return {f"{name}.svg": str(draw()) for name, draw in drawn.items()}


if __name__ == "__main__":
    for name, text in pictures().items():
        (Path(__file__).parent / name).write_text(text)
