"""Draw the pictures of how-reads-work.md: writes circle.svg and row.svg next to this file."""

from __future__ import annotations

import math
from pathlib import Path

PAPER, INK, DIM, LINE = "#fbfaf7", "#24292f", "#6b7280", "#c9c5bb"
CLAIMS = ["#2a6f97", "#468faf", "#d08c2c", "#b5543c"]  # the oldest first
HELD, KEPT, EMPTY = "#7d8b97", "#d9e0e5", "#ffffff"


class Picture:
    """Shapes of one picture, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """Start with a light background, which reads as well on a dark page."""
        self._size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        self._shapes = [f"<title>{title}</title>"]
        self.box(0.5, 0.5, width - 1, height - 1, PAPER, LINE, 10)

    def box(self, x: float, y: float, w: float, h: float, fill: str, stroke: str = LINE, radius: float = 6) -> None:
        """Draw a rectangle."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{radius:g}" fill="{fill}" stroke="{stroke}"/>'
        )

    def text(
        self, x: float, y: float, words: str, size: int = 13, fill: str = INK, anchor: str = "start", bold: bool = False
    ) -> None:
        """Write lines of text from `y` on."""
        style = f'font-size="{size}" fill="{fill}" text-anchor="{anchor}"' + (' font-weight="600"' if bold else "")
        for i, line in enumerate(words.split("\n")):
            self._shapes.append(f'<text x="{x:g}" y="{y + i * (size + 4):g}" {style}>{line}</text>')

    def arc(
        self, cx: float, cy: float, r: float, start: float, end: float, stroke: str, width: float, opacity: float = 1
    ) -> None:
        """Draw part of a circle: turns from the top, clockwise."""
        points = []
        for turn in (start, end):
            angle = 2 * math.pi * (turn - 0.25)
            points.append(f"{cx + r * math.cos(angle):.1f} {cy + r * math.sin(angle):.1f}")
        large = int(end - start > 0.5)
        self._shapes.append(
            f'<path d="M {points[0]} A {r:g} {r:g} 0 {large} 1 {points[1]}" fill="none" stroke="{stroke}" '
            f'stroke-width="{width:g}" stroke-opacity="{opacity:g}"/>'
        )

    def line(
        self, points: list[tuple[float, float]], stroke: str = INK, arrow: bool = False, dashed: bool = False
    ) -> None:
        """Draw a line through points, with an arrow at its end."""
        path = " ".join(f"{'L' if i else 'M'} {x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self._shapes.append(f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="1.6"{dash}/>')
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            angle = math.atan2(y1 - y0, x1 - x0)
            corners = [(x1, y1)] + [(x1 - 9 * math.cos(angle + a), y1 - 9 * math.sin(angle + a)) for a in (0.42, -0.42)]
            drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
            self._shapes.append(f'<polygon points="{drawn}" fill="{stroke}"/>')

    def write(self, name: str) -> None:
        """Write the file next to this script."""
        font = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"'
        shapes = "\n  ".join(self._shapes)
        text = f'<svg xmlns="http://www.w3.org/2000/svg" {self._size} {font} role="img">\n  {shapes}\n</svg>\n'
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")


def circle() -> None:
    """The file as a circle, four claims on it, and the slots of the window."""
    p = Picture(
        800, 400, "The sweep goes round the file; claims are admitted evenly spaced; the window holds their rows"
    )
    cx, cy, now, segments = 190, 205, 0.30, 24
    p.text(cx, 34, "the file, in segments of 1 MiB", 14, anchor="middle", bold=True)
    for i in range(segments):
        p.arc(cx, cy, 142, i / segments + 0.003, (i + 1) / segments - 0.003, LINE, 14)
    hand = 2 * math.pi * (now - 0.25)
    x, y = math.cos(hand), math.sin(hand)
    p.line([(cx + 28 * x, cy + 28 * y), (cx + 160 * x, cy + 160 * y)], INK, arrow=True)
    p.arc(cx, cy, 160, now + 0.015, now + 0.06, INK, 1.6)
    ahead = [2 * math.pi * (now + turn - 0.25) for turn in (0.06, 0.075)]
    p.line([(cx + 160 * math.cos(a), cy + 160 * math.sin(a)) for a in ahead], INK, arrow=True)
    for k, colour in enumerate(CLAIMS):
        start = now - 1 + k / len(CLAIMS) + 0.04
        r = 122 - 22 * k
        p.arc(cx, cy, r, start, now, colour, 13)
        p.arc(cx, cy, r, now, start + 1, colour, 13, 0.22)
    p.text(cx, 380, "solid: read so far. Pale: still to come", 12, DIM, "middle")
    p.text(352, 262, "the sweep", 13, bold=True)

    left = 440
    p.text(left, 34, "claims, the oldest first", 14, bold=True)
    notes = ["96 % of its circle: complete next", "71 %", "46 %", "21 %: admitted last"]
    for k, (colour, note) in enumerate(zip(CLAIMS, notes, strict=True)):
        p.box(left, 48 + 24 * k, 14, 14, colour, colour, 3)
        p.text(left + 24, 60 + 24 * k, f"batch {17 + k}", 13)
        p.text(left + 94, 60 + 24 * k, note, 13, DIM)
    p.text(left, 178, "the window: slots of one row each", 14, bold=True)
    pattern = "HHKHHHEHHKHHHHEHKHHHHHHKHEHHHHKHHHHHHEHHKHHHHHEHHHKHHHEE"
    for i, kind in enumerate(pattern):
        fill = {"H": HELD, "K": KEPT, "E": EMPTY}[kind]
        p.box(left + 20 * (i % 14), 192 + 20 * (i // 14), 16, 16, fill, LINE, 3)
    for k, (fill, note) in enumerate(
        [
            (HELD, "held: at least one claim needs the row"),
            (KEPT, "free, but its row can be shared by a later claim"),
            (EMPTY, "not used yet"),
        ]
    ):
        p.box(left, 292 + 24 * k, 14, 14, fill, LINE, 3)
        p.text(left + 24, 304 + 24 * k, note, 13, DIM)
    p.write("circle.svg")


def row() -> None:
    """What happens to one row."""
    p = Picture(760, 270, "The life of a row: on disk, loading, held, free, and on disk again")
    boxes = [
        (20, "on disk", "no slot"),
        (210, "loading", "has a slot,\nread in flight"),
        (400, "held", "by one claim\nor several"),
        (590, "free", "no claim; the\nrow is still there"),
    ]
    for x, name, note in boxes:
        p.box(x, 100, 150, 76, "#ffffff", INK)
        p.text(x + 75, 124, name, 14, anchor="middle", bold=True)
        p.text(x + 75, 144, note, 12, DIM, "middle")
    for x, words in [(170, "the sweep\npasses"), (360, "the read\narrives"), (550, "the last\nclaim is\ncopied")]:
        p.line([(x + 2, 138), (x + 38, 138)], INK, arrow=True)
        lines = words.count("\n") + 1
        p.text(x + 20, 96 - 16 * (lines - 1), words, 12, INK, "middle")
    p.line([(665, 178), (665, 206), (475, 206), (475, 180)], CLAIMS[0], arrow=True)
    p.text(570, 224, "another claim needs it: shared, no read", 12, CLAIMS[0], "middle")
    p.line([(715, 178), (715, 246), (95, 246), (95, 180)], CLAIMS[3], arrow=True)
    p.text(300, 240, "another row takes its slot (eviction)", 12, CLAIMS[3], "middle")
    p.line([(285, 178), (285, 206), (120, 206), (120, 180)], DIM, arrow=True, dashed=True)
    p.text(202, 200, "the read failed", 12, DIM, "middle")
    p.text(20, 36, "The life of a row", 15, bold=True)
    p.write("row.svg")


if __name__ == "__main__":
    circle()
    row()
