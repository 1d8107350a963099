"""Draw the picture of architecture.md: writes load.svg next to this file."""

from __future__ import annotations

from sweep import CLAIMS, DIM, EMPTY, HELD, INK, KEPT, Picture

FILE, THREAD, MEMORY = KEPT, CLAIMS[0], EMPTY


def load() -> None:
    """Files on the left, threads in the middle, memory around them; below, the queue with the states of batches."""
    p = Picture(840, 524, "Files, threads and memory of a loader, and the states of a batch")

    def box(x: float, y: float, w: float, h: float, title: str, words: str, fill: str = MEMORY) -> None:
        ink = "#ffffff" if fill == THREAD else INK
        p.box(x, y, w, h, fill)
        p.text(x + w / 2, y + 22, title, 13, ink, "middle", bold=True)
        p.text(x + w / 2, y + 42, words, 12, ink if fill == THREAD else DIM, "middle")

    p.text(90, 32, "files", 14, anchor="middle", bold=True)
    p.text(290, 32, "threads", 14, anchor="middle", bold=True)
    p.text(610, 32, "memory=, one budget", 14, anchor="middle", bold=True)
    p.box(430, 44, 390, 296, "none", HELD)

    box(20, 60, 140, 70, "graph.gl", "topology", FILE)
    box(20, 220, 140, 70, "features.gd", "one per array", FILE)
    box(210, 60, 160, 70, "workers", "sample, finish", THREAD)
    box(210, 220, 160, 70, "sweep", "one per array", THREAD)

    box(450, 60, 160, 70, "sampled batches", "packed subgraphs")
    box(640, 60, 160, 70, "ready batches", "subgraph and rows")
    box(450, 220, 160, 70, "window", "rows of many batches")
    box(640, 220, 160, 70, "batch in use", "your training step")
    p.text(450, 320, "and the buffers of reads and of sampling", 12, DIM)

    p.line([(160, 95), (208, 95)], arrow=True)
    p.line([(160, 255), (208, 255)], arrow=True)
    p.line([(370, 95), (448, 95)], arrow=True)
    p.line([(370, 255), (448, 255)], arrow=True)
    p.line([(530, 130), (530, 175), (290, 175), (290, 218)], CLAIMS[2], arrow=True, dashed=True)
    p.text(300, 168, "requests for rows", 12, CLAIMS[2])
    p.line([(610, 95), (638, 95)], arrow=True)
    p.line([(590, 220), (690, 132)], arrow=True)
    p.text(655, 185, "copy", 12, DIM)
    p.line([(740, 130), (740, 218)], arrow=True)
    p.text(750, 185, "next()", 12, DIM)

    p.text(20, 380, "The queue: each batch has one state, and the next one in line is on the left", 14, bold=True)
    states = ["kReady", "kReady", "kRequested", "kRequested", "kRequested", "kSampled", "kPlanned"]
    fills = {"kReady": "#2a6f97", "kRequested": "#8fb3c9", "kSampled": "#d9e0e5", "kPlanned": "#ffffff"}
    for i, state in enumerate(states):
        x = 20 + i * 114
        p.box(x, 396, 106, 50, fills[state])
        p.text(x + 53, 417, f"batch {i + 7}", 12, "#ffffff" if state == "kReady" else INK, "middle", bold=True)
        p.text(x + 53, 435, state, 12, "#ffffff" if state == "kReady" else INK, "middle")
    p.text(20, 468, "delivered in order", 12, DIM)
    p.text(248, 468, "rows are being read, or have arrived", 12, DIM)
    p.text(590, 468, "requests go in order", 12, DIM)
    p.text(20, 502, "When memory is short, batches go back to kPlanned and are built again, identical bit for bit.", 13)
    p.write("load.svg")


if __name__ == "__main__":
    load()
