"""Mounting and verifying: how long a file takes to open, and how fast the deep check reads it.

    python benchmarks/mount.py FOLDER [--json PATH]

FOLDER is made by benchmarks/graph.py. Mounting is timed from a fresh interpreter's first open (cold code, warm page
cache) and as the best of many. `verify` runs on one thread, and is compared with two plain ways to read the same bytes
on one thread: zlib's CRC-32, the cost of a simple checksum, and NumPy's maximum, the cost of reading each value.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from pathlib import Path

import graph
import measure
import numpy as np

import graphzero as gz
from graphzero import _core

FIRST = """
import json, sys, time
import graphzero as gz
kind = gz.Graph if sys.argv[1].endswith(".gl") else gz.FeatureStore
start = time.perf_counter()
kind(sys.argv[1])
print(json.dumps(time.perf_counter() - start))
"""


def mount(path: Path) -> dict[str, float]:
    """Milliseconds of the first mount of a process, and of the best of 200."""
    kind = gz.Graph if path.suffix == ".gl" else gz.FeatureStore
    first = min(measure.run_peer(sys.executable, FIRST, path) for _ in range(3))
    return {"first_ms": first * 1e3, "best_ms": measure.best_of(200, lambda: kind(path)) * 1e3}


def verify(path: Path) -> dict[str, float]:
    """Gigabytes per second on one thread: verify, zlib's CRC, NumPy's maximum."""
    data = np.memmap(path, np.uint8, "r")
    size = data.nbytes / 1e9
    return {
        "verify_gb_s": size / measure.best_of(5, lambda: _core.verify(str(path), 1)),
        "zlib_gb_s": size / measure.best_of(2, lambda: zlib.crc32(data)),
        "touch_gb_s": size / measure.best_of(3, lambda: data.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    figures, rows = {}, []
    for path in graph.compiled(arguments.folder):
        m, v = mount(path), verify(path)
        figures[path.suffix[1:]] = {"bytes": path.stat().st_size, **m, **v}
        size = f"{path.name}, {path.stat().st_size / 1e9:.2f} GB"
        rows.append((f"mount {size}", f"{m['best_ms']:.3f} ms", f"first of a process {m['first_ms']:.2f} ms"))
        against = (
            f"{v['verify_gb_s'] / v['zlib_gb_s']:.1f}x zlib.crc32, {v['verify_gb_s'] / v['touch_gb_s']:.2f}x max()"
        )
        rows.append((f"verify {size}, 1 thread", f"{v['verify_gb_s']:.2f} GB/s", against))
    measure.show("Mount and verify", rows, arguments.folder)
    measure.save(arguments.json, figures, arguments.folder)


if __name__ == "__main__":
    main()
