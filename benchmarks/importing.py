"""Imports: string ids against pandas, Parquet against pyarrow's scan, long ids in text, compressed npz, all in one run.

python benchmarks/importing.py --edges 5000000 --names 1000000 --npz 500MB --limit 1GB
The full figures: --edges 100000000 --names 10000000 --npz 20GB --limit 2GB --folder DISK (as root, for the limit)
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import limited
import measure
import numpy as np

import graphzero as gz
from graphzero._sizes import format_size, parse_size

_STEP = 1 << 20
_REPEAT = 3


# -- what is read -----------------------------------------------------------------------------------------------------


def write_names(path: str, edges: int, names: int) -> None:
    """Write edges between names of 12 to 20 characters."""
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
    pool = [bytes(letters[rng.integers(0, 38, size)]) for size in rng.integers(12, 21, names)]
    with open(path, "wb") as file:
        file.write(b"src,dst\n")
        for at in range(0, edges, _STEP):
            pairs = rng.integers(0, names, (min(_STEP, edges - at), 2)).tolist()
            file.write(b"\n".join(pool[u] + b"," + pool[v] for u, v in pairs) + b"\n")


def write_numbers(path: str, edges: int, digits: int) -> None:
    """Write edges whose ids have exactly so many digits, near one another so that compiling does not matter."""
    rng = np.random.default_rng(1)
    first = 10 ** (digits - 1)
    with open(path, "wb") as file:
        for at in range(0, edges, _STEP):
            pairs = (first + rng.integers(0, 1_000_000, (min(_STEP, edges - at), 2))).tolist()
            file.write(b"\n".join(b"%d,%d" % (u, v) for u, v in pairs) + b"\n")


def write_parquet(path: str, edges: int) -> None:
    """Write a Parquet file of integer edges, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet

    rng = np.random.default_rng(2)
    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for at in range(0, edges, _STEP):
            columns = rng.integers(0, max(edges // 10, 10), (2, min(_STEP, edges - at)))
            writer.write_table(pa.table({"src": columns[0], "dst": columns[1]}, schema))


def write_npz(path: str, size: int) -> None:
    """Write papers100M's kind of archive: compressed edges and features, a part of each at a time."""
    import zipfile

    from numpy.lib import format as npy

    rng = np.random.default_rng(3)
    rows, edges = size // 2 // 512, size // 2 // 16
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, shape, dtype in (("edge_index", (2, edges), "<i8"), ("node_feat", (rows, 128), "<f4")):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                npy.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": shape})
                count = shape[0] * shape[1]
                for at in range(0, count, 1 << 20):
                    part = rng.integers(0, max(rows, 2), min(1 << 20, count - at))
                    out.write(part.astype(dtype).tobytes())


# -- parts, each in a process of its own ------------------------------------------------------------------------------


def strings(folder: str, memory: str) -> dict[str, Any]:
    """Compile string ids; what the report says."""
    start = time.perf_counter()
    report = gz.compile_graph(path(folder, "names.csv"), path(folder, "ours.gl"), ids="map", memory=memory)
    return {"seconds": time.perf_counter() - start, "nodes": report.nodes, "buffers": report.peak_memory}


def pandas(folder: str, memory: str) -> dict[str, Any]:
    """Do the same by pandas: read, factorize, compile."""
    import pandas as pd

    start = time.perf_counter()
    frame = pd.read_csv(path(folder, "names.csv"))
    codes, _ = pd.factorize(np.concatenate([frame["src"].to_numpy(), frame["dst"].to_numpy()]))
    half = len(codes) // 2
    gz.compile_graph((codes[:half], codes[half:]), path(folder, "pandas.gl"), memory=memory)
    return {"seconds": time.perf_counter() - start}


def archive(folder: str, memory: str) -> dict[str, Any]:
    """Import a compressed archive."""
    start = time.perf_counter()
    report = gz.import_dataset(path(folder, "data.npz"), path(folder, "npz"), memory=memory, overwrite=True)
    return {"seconds": time.perf_counter() - start, "edges": report.edges, "buffers": report.peak_memory}


PARTS: dict[str, Callable[[str, str], dict[str, Any]]] = {"strings": strings, "pandas": pandas, "archive": archive}


def path(folder: str, name: str) -> str:
    """Return the path of a file of the benchmark."""
    return os.path.join(folder, name)


# -- here -------------------------------------------------------------------------------------------------------------


def parquet_ratio(folder: str, memory: str) -> dict[str, float]:
    """Compile Parquet edges, against a scan of the same columns by pyarrow that drops them."""
    import pyarrow.dataset

    def scan() -> None:
        source = pyarrow.dataset.dataset(path(folder, "edges.parquet"))
        sum(batch.num_rows for batch in source.to_batches(columns=["src", "dst"]))

    def read() -> float:
        return gz.compile_graph(path(folder, "edges.parquet"), path(folder, "p.gl"), memory=memory).seconds["reading"]

    alone = measure.best_of(_REPEAT, scan)
    return {"scan": alone, "reading": min(read() for _ in range(_REPEAT))}


def digit_speeds(folder: str, memory: str) -> dict[int, float]:
    """Return MB/s of reading text by the number of digits of its ids."""
    speeds = {}
    for digits in (7, 9, 19):
        file = path(folder, f"{digits}.csv")
        options: dict[str, Any] = {"memory": memory, "id_base": 10 ** (digits - 1)}
        seconds = min(
            gz.compile_graph(file, path(folder, "d.gl"), **options).seconds["reading"] for _ in range(_REPEAT)
        )
        speeds[digits] = os.path.getsize(file) / seconds / 1e6
    return speeds


def run(options: argparse.Namespace, folder: str) -> None:
    """Make the sources, measure every part, show the table."""
    write_names(path(folder, "names.csv"), options.edges, options.names)
    write_parquet(path(folder, "edges.parquet"), options.edges)
    write_npz(path(folder, "data.npz"), parse_size(options.npz))
    for digits in (7, 9, 19):
        write_numbers(path(folder, f"{digits}.csv"), min(options.edges, 20_000_000), digits)
    limit = parse_size(options.limit) if os.geteuid() == 0 else None
    apart = {part: limited.run(part, limit, "--folder", folder, cold=False) for part in ("strings", "archive")}
    apart["pandas"] = limited.run("pandas", None, "--folder", folder, cold=False)
    figures = {**apart, "parquet": parquet_ratio(folder, options.memory), "mb_s": digit_speeds(folder, options.memory)}
    measure.show("Imports", rows_of(options, figures, limit), folder)
    measure.save(options.json, figures, folder)


def rows_of(options: argparse.Namespace, figures: dict[str, Any], limit: int | None) -> list[tuple[str, str, str]]:
    """Return the table."""
    rows = []
    for part, what in (("strings", f"{options.edges:,} string-id edges, {options.names:,} names"), ("archive", "npz")):
        found = figures[part]
        inside = "no limit" if limit is None else f"in {format_size(limit)}"
        if "failed" in found:
            rows.append((what, "failed", f"{inside}: {found['failed']}, {found.get('kills', 0)} kills"))
            continue
        peak = format_size(found.get("group_peak", found["peak_anonymous"]))
        rows.append(
            (what, f"{found['seconds']:.1f} s", f"{inside}, peak {peak}, buffers {format_size(found['buffers'])}")
        )
    if "failed" not in figures["strings"] and "failed" not in figures["pandas"]:
        ratio = figures["pandas"]["seconds"] / figures["strings"]["seconds"]
        rows.append(("pandas factorize + compile", f"{figures['pandas']['seconds']:.1f} s", f"ours {ratio:.1f} times"))
    share = figures["parquet"]["scan"] / figures["parquet"]["reading"]
    rows.append(("Parquet edges", f"{share:.2f}", "of the speed of pyarrow's scan (at least 0.5)"))
    for digits, speed in figures["mb_s"].items():
        ratio = speed / figures["mb_s"][7]
        rows.append((f"text, ids of {digits} digits", f"{speed:.0f} MB/s", f"{ratio:.2f} of 7 digits (at least 0.8)"))
    return rows


def main() -> None:
    """Parse options; --run is how the program calls itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--npz", default="500MB", help="of the arrays, before compression")
    parser.add_argument("--memory", default="1GB", help="budget of each import")
    parser.add_argument("--limit", default="2GB", help="of the control group, as root")
    parser.add_argument("--folder", help="where files go; a temporary folder unless given")
    parser.add_argument("--json")
    parser.add_argument("--run", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        limited.child(lambda: PARTS[options.run](options.folder, options.memory))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run(options, folder)


if __name__ == "__main__":
    main()
