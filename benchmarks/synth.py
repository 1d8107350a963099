"""Synthetic data: edges and rows per second from blocks, against a few lines of NumPy that hold everything in RAM."""

from __future__ import annotations

import argparse

import numpy as np
from measure import best_of, save, show

from graphzero.compile.synth import SyntheticGraph

NODES, EDGES, DIM = 2_000_000, 20_000_000, 128


def plain_edges() -> None:
    """Power-law ends through two stored permutations: no communities, memory grows with the graph."""
    random = np.random.default_rng(0)
    for power in (1.8, 2.5):
        ranks = np.minimum((NODES * random.random(EDGES) ** power).astype(np.int64), NODES - 1)
        random.permutation(NODES)[ranks]


def plain_rows(rows: int) -> None:
    np.random.default_rng(0).standard_normal((rows, DIM), dtype=np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="write the figures there")
    options = parser.parse_args()
    graph = SyntheticGraph(nodes=NODES, edges=EDGES, dim=DIM, classes=16)
    rows = 200_000
    few = SyntheticGraph(nodes=rows, edges=0, dim=DIM, classes=16)
    seconds = {
        "edges": best_of(3, lambda: [None for _ in graph.edge_blocks()]),
        "plain_edges": best_of(3, plain_edges),
        "rows": best_of(3, lambda: [None for _ in few.feature_blocks()]),
        "plain_rows": best_of(3, lambda: plain_rows(rows)),
    }
    figures = {
        "edges_per_second": EDGES / seconds["edges"],
        "edges_vs_plain": seconds["plain_edges"] / seconds["edges"],
        "rows_per_second": rows / seconds["rows"],
        "rows_vs_plain": seconds["plain_rows"] / seconds["rows"],
    }
    show(
        f"synthetic data, {NODES:,} nodes",
        [
            ("edges", f"{figures['edges_per_second'] / 1e6:.1f} M/s", f"{figures['edges_vs_plain']:.1f} x plain NumPy"),
            (
                f"rows of {DIM}",
                f"{figures['rows_per_second'] / 1e6:.2f} M/s",
                f"{figures['rows_vs_plain']:.1f} x plain NumPy",
            ),
        ],
    )
    save(options.json, figures)


if __name__ == "__main__":
    main()
