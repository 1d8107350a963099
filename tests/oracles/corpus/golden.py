"""Golden files: what a release wrote, kept for ever, so that later releases are held to reading it.

`python tests/oracles/corpus/golden.py VERSION` freezes what the installed graphzero writes; 0.2's were made the same
way with that release. Files are stored compressed, as text, with what has to be read from them.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "golden"

# One small graph with everything: a repeated edge, a self-loop, an isolated node.
EDGES = [(0, 1), (0, 4), (1, 0), (1, 2), (1, 3), (3, 3), (4, 0), (4, 0), (2, 4)]
WEIGHTS = [0.5, 1.0, 2.0, 0.25, 1.5, 3.0, 1.0, 4.0, 0.125]
NODES = 6
ROWS = [[i + 0.5 * j for j in range(3)] for i in range(NODES)]


@dataclass(frozen=True)
class Release:
    """The files of one release."""

    version: str
    files: dict[str, bytes]


def releases() -> list[Release]:
    """All that are kept, oldest first."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        kept = json.loads(path.read_text())
        files = {name: zlib.decompress(base64.b64decode(text)) for name, text in kept["files"].items()}
        found.append(Release(kept["version"], files))
    return found


def neighbours(node: int) -> list[int]:
    """What the rows of the graph must say, in any order."""
    return sorted(v for u, v in EDGES if u == node)


def weights_by_neighbour(node: int) -> list[tuple[int, float]]:
    """The same with weights."""
    return sorted((v, w) for (u, v), w in zip(EDGES, WEIGHTS, strict=True) if u == node)


def _write_all(gz: Any, folder: Path) -> None:
    edges, rows = folder / "edges.csv", folder / "rows.csv"
    edges.write_text("".join(f"{u},{v},{w}\n" for (u, v), w in zip(EDGES, WEIGHTS, strict=True)))
    rows.write_text("".join(f"{i}," + ",".join(map(str, row)) + "\n" for i, row in enumerate(ROWS)))
    if not hasattr(gz, "compile_graph"):  # 0.1 and 0.2
        gz.convert_csv_to_gl(str(edges), str(folder / "graph.gl"), directed=True)
        gz.convert_csv_to_gd(str(rows), str(folder / "rows.gd"), dtype=gz.DataType.FLOAT32)
        return
    import numpy as np

    pairs = np.array(EDGES).T
    weights, times = np.array(WEIGHTS, np.float32), np.arange(len(EDGES))
    gz.compile_graph(
        (pairs[0], pairs[1], weights, times), folder / "graph.gl", direction="both", edge_ids=True, num_nodes=NODES
    )
    gz.compile_graph((pairs[0], pairs[1] + 3), folder / "typed.gl", direction="both", num_nodes=(NODES, NODES + 3))
    gz.compile_features(np.array(ROWS, np.float32), folder / "rows.gd")
    gz.compile_features(np.array(ROWS, np.float32), folder / "half.gd", dtype="float16")


def freeze(version: str) -> None:
    """Write what the importable graphzero writes into the folder."""
    import graphzero

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_all(graphzero, folder)
        written = sorted(p for p in folder.iterdir() if p.suffix in (".gl", ".gd"))
        files = {p.name: base64.b64encode(zlib.compress(p.read_bytes(), 9)).decode() for p in written}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{version}.json").write_text(json.dumps({"version": version, "files": files}, indent=1) + "\n")


if __name__ == "__main__":
    freeze(sys.argv[1])
