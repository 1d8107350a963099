"""Draw the pipeline of README.md and of the first page: writes pipeline-light.svg and pipeline-dark.svg."""

from __future__ import annotations

from pathlib import Path

INKS = {  # text, weak text, boxes, arrows, our own boxes
    "light": ("#1f2733", "#5b6675", "#eef2f7", "#9aa5b4", "#2563c9"),
    "dark": ("#e4e8ee", "#98a3b2", "#232b36", "#66728a", "#3b76d6"),
}


def pipeline(scheme: str) -> str:
    """Two rows: once from your data to files, then every epoch from files to batches."""
    ink, dim, plain, line, ours = INKS[scheme]
    lines: list[str] = []

    def text(x: float, y: float, words: str, size: int = 13, fill: str = dim, bold: bool = False) -> None:
        weight = ' font-weight="600"' if bold else ""
        lines.append(
            f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="middle"{weight}>{words}</text>'
        )

    def box(x: float, y: float, w: float, title: str, words: str, own: bool = False) -> None:
        lines.append(f'<rect x="{x}" y="{y}" width="{w}" height="58" rx="8" fill="{ours if own else plain}"/>')
        text(x + w / 2, y + 25, title, 14, "#ffffff" if own else ink, bold=True)
        text(x + w / 2, y + 44, words, 12, "#ffffff" if own else dim)

    def arrow(x1: float, x2: float, y: float) -> None:
        lines.append(f'<path d="M{x1} {y}H{x2 - 6}" stroke="{line}" stroke-width="2" fill="none"/>')
        lines.append(f'<path d="M{x2 - 8} {y - 5}L{x2} {y}L{x2 - 8} {y + 5}z" fill="{line}"/>')

    text(20, 20, "once", 13, dim, bold=True)
    box(0, 30, 160, "your data", "CSV, Parquet, OGB, PyG")
    box(200, 30, 160, "compile", "within memory=", own=True)
    box(400, 30, 160, ".gl and .gd files", "on the SSD")
    text(50, 128, "every epoch", 13, dim, bold=True)
    box(0, 138, 160, "files", "mapped, not loaded")
    box(200, 138, 160, "sample and read", "many batches ahead", own=True)
    box(400, 138, 160, "your training loop", "PyTorch, PyG batches")
    for y in (59, 167):
        arrow(164, 198, y)
        arrow(364, 398, y)
    said = "Your data is compiled once to files; every epoch, batches are sampled and read ahead from them"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 200" width="560" role="img" '
        f'font-family="system-ui, Segoe UI, sans-serif">\n<title>{said}</title>\n' + "\n".join(lines) + "\n</svg>\n"
    )


if __name__ == "__main__":
    for scheme in INKS:
        (Path(__file__).parent / f"pipeline-{scheme}.svg").write_text(pipeline(scheme))
