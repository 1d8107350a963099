"""Draw how vectors in partitions are trained, for guides/embeddings.md: writes partitions-light.svg and -dark.svg."""

from __future__ import annotations

from pathlib import Path

INKS = {  # text, weak text, boxes, lines, our own boxes
    "light": ("#1f2733", "#5b6675", "#eef2f7", "#9aa5b4", "#2563c9"),
    "dark": ("#e4e8ee", "#98a3b2", "#232b36", "#66728a", "#3b76d6"),
}
PARTS, CELL = 4, 34


def partitions(scheme: str) -> str:
    """On the left vectors on disk and in RAM, on the right the pairs of partitions in their order."""
    ink, dim, plain, line, ours = INKS[scheme]
    lines: list[str] = []

    def text(x: float, y: float, words: str, size: int = 13, fill: str = dim, anchor: str = "middle") -> None:
        lines.append(f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{words}</text>')

    def box(x: float, y: float, w: float, words: str, own: bool) -> None:
        lines.append(f'<rect x="{x}" y="{y}" width="{w}" height="30" rx="6" fill="{ours if own else plain}"/>')
        text(x + w / 2, y + 20, words, 13, "#ffffff" if own else ink)

    text(75, 20, "vectors on disk")
    for part in range(PARTS):
        box(20, 32 + 38 * part, 110, f"partition {part}", part in (1, 3))
    text(255, 20, "two in RAM")
    for row, part in enumerate((1, 3)):
        box(200, 51 + 76 * row, 110, f"partition {part}", True)
        lines.append(f'<path d="M134 {47 + 38 * part}L196 {66 + 76 * row}" stroke="{line}" stroke-width="2"/>')
    text(255, 112, "train pairs of 1 and 3")
    left, top = 400, 32
    text(left + PARTS * CELL / 2, 20, "order of pairs")
    order = [(0, 1), (0, 2), (0, 3), (1, 3), (1, 2), (2, 3)]
    for a in range(PARTS):
        text(left - 10, top + CELL * a + 22, str(a))
        text(left + CELL * a + CELL / 2, top + CELL * PARTS + 18, str(a))
        for b in range(PARTS):
            number = order.index((a, b)) + 1 if (a, b) in order else 0
            x, y, now = left + CELL * b, top + CELL * a, (a, b) == (1, 3)
            fill = ours if now else plain if number or a == b else "none"
            lines.append(f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="4" fill="{fill}"/>')
            if number:
                text(x + CELL / 2, y + 22, str(number), 14, "#ffffff" if now else ink)
    said = "Vectors of four partitions on disk; two are in RAM, and the six pairs of partitions are trained one by one"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 200" width="560" role="img" '
        f'font-family="system-ui, Segoe UI, sans-serif">\n<title>{said}</title>\n' + "\n".join(lines) + "\n</svg>\n"
    )


if __name__ == "__main__":
    for scheme in INKS:
        (Path(__file__).parent / f"partitions-{scheme}.svg").write_text(partitions(scheme))
