"""The graph that the figures refer to: 2 M nodes, 30 M power-law edges, 128 x float32.

    python benchmarks/graph.py FOLDER

writes edges.csv, edges.npy (2, E), feat.npy (N, 128), seeds.npy, and their compiled forms graph.gl and x.gd.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import graphzero as gz

NODES, EDGES, DIM = 2_000_000, 30_000_000, 128


def raw(folder: Path) -> tuple[Path, Path]:
    """Write the raw files that are missing; return the paths of edges.csv and feat.npy."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "edges.csv").exists():  # the last to be written
        write_raw(folder)
    return folder / "edges.csv", folder / "feat.npy"


def edges(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the sources and targets of all edges."""

    def endpoints(power: float) -> np.ndarray:
        return rng.permutation(NODES)[np.minimum((NODES * rng.random(EDGES) ** power).astype(np.int64), NODES - 1)]

    return endpoints(1.8), endpoints(2.5)


def write_raw(folder: Path) -> None:
    rng = np.random.default_rng(0)
    src, dst = edges(rng)
    np.save(folder / "edges.npy", np.stack([src, dst]))
    features = np.lib.format.open_memmap(folder / "feat.npy", "w+", np.float32, (NODES, DIM))
    for start in range(0, NODES, 100_000):
        features[start : start + 100_000] = rng.standard_normal((100_000, DIM), dtype=np.float32)
    features.flush()
    np.save(folder / "seeds.npy", rng.permutation(NODES)[:200_000])
    with (folder / "edges.csv").open("w") as out:
        for start in range(0, EDGES, 1_000_000):
            pairs = zip(src[start : start + 1_000_000].tolist(), dst[start : start + 1_000_000].tolist(), strict=True)
            out.write("\n".join(map("%d,%d".__mod__, pairs)) + "\n")


def compiled(folder: Path) -> tuple[Path, Path]:
    """Create the files that are missing; return the paths of graph.gl and x.gd."""
    raw(folder)
    graph, features = folder / "graph.gl", folder / "x.gd"
    if not graph.exists():
        gz.compile_graph(folder / "edges.npy", graph, num_nodes=NODES)
    if not features.exists():
        gz.compile_features(folder / "feat.npy", features)
    return graph, features


def csr_for_torch(folder: Path) -> None:
    """Write the rows as int64 .npy files, as the peers' operators need them."""
    if not (folder / "indices.npy").exists():
        indptr, indices = gz.Graph(compiled(folder)[0]).csr()
        np.save(folder / "indptr.npy", indptr.astype(np.int64))
        np.save(folder / "indices.npy", indices.astype(np.int64))


if __name__ == "__main__":
    print(*compiled(Path(sys.argv[1])))
