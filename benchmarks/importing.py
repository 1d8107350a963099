"""String ids against pandas factorize + compile, and Parquet edges against pyarrow's own scan, in one run.

python benchmarks/importing.py --edges 5000000 --names 1000000   (the full figures: 100000000 and 10000000)
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

import numpy as np

import graphzero as gz


def write_names(path: str, edges: int, names: int) -> None:
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
    pool = [bytes(letters[rng.integers(0, 38, size)]) for size in rng.integers(12, 21, names)]
    with open(path, "wb") as file:
        file.write(b"src,dst\n")
        for at in range(0, edges, 1 << 20):
            pairs = rng.integers(0, names, (min(1 << 20, edges - at), 2)).tolist()
            file.write(b"\n".join(pool[u] + b"," + pool[v] for u, v in pairs) + b"\n")


def strings(folder: str, edges: int, names: int, memory: str) -> None:
    import pandas as pd

    path = os.path.join(folder, "names.csv")
    write_names(path, edges, names)
    start = time.perf_counter()
    report = gz.compile_graph(path, os.path.join(folder, "ours.gl"), ids="map", memory=memory)
    ours = time.perf_counter() - start
    print(f"string ids, ours:   {ours:7.2f} s, {edges / ours:,.0f} edges/s, buffers {report.peak_memory / 1e6:.0f} MB")
    start = time.perf_counter()
    frame = pd.read_csv(path)
    codes, _ = pd.factorize(np.concatenate([frame["src"].to_numpy(), frame["dst"].to_numpy()]))
    gz.compile_graph((codes[:edges], codes[edges:]), os.path.join(folder, "pandas.gl"))
    theirs = time.perf_counter() - start
    print(f"string ids, pandas: {theirs:7.2f} s; ours is {theirs / ours:.1f} times as fast")


def parquet(folder: str, edges: int) -> None:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    path = os.path.join(folder, "edges.parquet")
    rng = np.random.default_rng(1)
    pa.parquet.write_table(pa.table({name: rng.integers(0, edges // 10, edges) for name in ("src", "dst")}), path)
    start = time.perf_counter()
    rows = sum(batch.num_rows for batch in pa.dataset.dataset(path).to_batches(columns=["src", "dst"]))
    scan = time.perf_counter() - start
    start = time.perf_counter()
    gz.compile_graph(path, os.path.join(folder, "parquet.gl"))
    ours = time.perf_counter() - start
    print(
        f"parquet: scan {rows / scan:,.0f} rows/s, compile {edges / ours:,.0f} edges/s ({scan / ours:.2f} of the scan)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--memory", default="1GB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        strings(folder, options.edges, options.names, options.memory)
        parquet(folder, options.edges)


if __name__ == "__main__":
    main()
