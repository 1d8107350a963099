"""Try an installed wheel with NumPy alone: the package is whole, and the way of the data works from end to end.

    python tests/wheel_smoke.py

Run by the wheel builds on every platform, where the checkout is not on the path.
"""

from __future__ import annotations

import importlib.resources
import sys
import tempfile
from pathlib import Path

import numpy as np

import graphzero as gz


def main() -> None:
    package = importlib.resources.files(gz)
    for name in ("py.typed", "_core.pyi"):
        assert (package / name).is_file(), f"{name} is not in the wheel"
    assert "torch" not in sys.modules, "import graphzero brought torch in"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Windows keeps what is still mapped
        edges = np.array([[0, 0, 1, 2, 3], [1, 2, 2, 3, 0]])
        rows = np.arange(12, dtype=np.float32).reshape(4, 3)
        graph, features = Path(folder) / "g.gl", Path(folder) / "x.gd"
        gz.compile_graph(edges, graph)
        gz.compile_features(rows, features)
        with gz.Graph(graph) as g, gz.FeatureStore(features) as fs:
            assert g.get_neighbours(0).tolist() == [1, 2]
            assert g.sample([0], [-1, -1]).node.tolist() == [0, 1, 2, 3]
            assert g.batch_random_walk_uniform([0, 1], 5).shape == (2, 6)
            assert fs.gather([3, 1]).tolist() == rows[[3, 1]].tolist()
        for path in (graph, features):
            assert gz.verify(path)
    print(f"graphzero {gz.__version__} works: {package}")


if __name__ == "__main__":
    main()
