"""Imports: string ids against pandas, Parquet against pyarrow's scan, long ids in text, compressed npz, all in one run.

python benchmarks/importing.py --edges 5000000 --names 500000 --npz 500MB --limit 1GB
The full figures: --edges 100000000 --names 10000000 --npz 20GB --limit 2GB --folder DISK (as root, for the limit; 25 GB
of disk and 12 GB of RAM, for pandas)
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import limited
import measure
import numpy as np

import graphzero as gz
from graphzero.args.sizes import format_size, parse_size

_STEP = 1 << 20
_REPEAT = 3
GROUPS = ["strings", "archive", "columns", "digits"]


# -- what is read -----------------------------------------------------------------------------------------------------


def write_names(folder: str, edges: int, names: int) -> None:
    """Write edges between names of 12 to 20 characters, as CSV and as Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
    ends = np.concatenate([[0], np.cumsum(rng.integers(12, 21, names))]).astype(np.int32)
    text = letters[rng.integers(0, 38, int(ends[-1]), dtype=np.uint8)]
    pool = pa.Array.from_buffers(pa.string(), names, [None, pa.py_buffer(ends), pa.py_buffer(text)])
    schema = pa.schema([("src", pa.string()), ("dst", pa.string())])
    plain = pa.csv.WriteOptions(quoting_style="none")
    with (
        pa.csv.CSVWriter(path(folder, "names.csv"), schema, write_options=plain) as csv,
        pa.parquet.ParquetWriter(path(folder, "names.parquet"), schema) as parquet,
    ):
        for at in range(0, edges, _STEP):
            ids = rng.integers(0, names, (2, min(_STEP, edges - at)))
            table = pa.table([pool.take(pa.array(column)) for column in ids], schema=schema)
            csv.write_table(table)
            parquet.write_table(table)


def write_numbers(path: str, edges: int, digits: int) -> None:
    """Write edges whose ids have exactly so many digits, near one another so that compiling does not matter."""
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(1)
    first = 10 ** (digits - 1)
    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    plain = pa.csv.WriteOptions(include_header=False)
    with pa.csv.CSVWriter(path, schema, write_options=plain) as out:
        for at in range(0, edges, _STEP):
            ids = first + rng.integers(0, 1_000_000, (2, min(_STEP, edges - at)))
            out.write_table(pa.table({"src": ids[0], "dst": ids[1]}, schema))


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


def write_papers(folder: str, size: int) -> None:
    """Write papers100M's folder: features are two thirds of `size` bytes before compression, edges one third.

    Features have few values, so that the archive fits the disk; edges are random. A part of each is held at a time.
    """
    import gzip
    import zipfile

    from numpy.lib import format as npy

    raw, split = path(folder, "papers/raw"), path(folder, "papers/split/time")
    os.makedirs(raw)
    os.makedirs(split)
    rng = np.random.default_rng(3)
    rows, edges = size * 2 // 3 // 512, size // 3 // 16
    few = np.arange(8, dtype="<f4") / 8
    with zipfile.ZipFile(path(raw, "data.npz"), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, shape, dtype in (
            ("edge_index", (2, edges), "<i8"),
            ("node_feat", (rows, 128), "<f4"),
            ("num_nodes_list", (1,), "<i8"),
            ("num_edges_list", (1,), "<i8"),
        ):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                npy.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": shape})
                count = int(np.prod(shape))
                if count == 1:
                    out.write(np.array([rows if "nodes" in name else edges], dtype).tobytes())
                    continue
                for at in range(0, count, _STEP):
                    part = rng.integers(0, rows if dtype == "<i8" else 8, min(_STEP, count - at))
                    out.write((part.astype(dtype) if dtype == "<i8" else few[part]).tobytes())
    labels = np.where(rng.random(rows) < 0.02, rng.integers(0, 172, rows), np.nan)
    np.savez(path(raw, "node-label.npz"), node_label=labels.reshape(-1, 1))
    for name, first in (("train", 0), ("valid", 1), ("test", 2)):
        with gzip.open(path(split, f"{name}.csv.gz"), "wt") as file:
            file.writelines(f"{node}\n" for node in range(first, min(rows, 30_000), 3))


# -- parts, each in a process of its own ------------------------------------------------------------------------------


def strings(folder: str, memory: str, kind: str) -> dict[str, Any]:
    """Compile string ids; return figures of the report."""
    report = gz.compile_graph(path(folder, f"names.{kind}"), path(folder, "ours.gl"), ids="map", memory=memory)
    return {"nodes": report.nodes, "edges": report.edges, "buffers": report.peak_memory}


def pandas(folder: str, memory: str, kind: str) -> dict[str, Any]:
    """Do the same by pandas: read with its fastest engine, factorize both columns together, compile."""
    import pandas as pd

    read = pd.read_csv if kind == "csv" else pd.read_parquet
    frame = read(path(folder, f"names.{kind}"), engine="pyarrow")
    codes, _ = pd.factorize(pd.concat([frame["src"], frame["dst"]], ignore_index=True))
    half = len(codes) // 2
    gz.compile_graph((codes[:half], codes[half:]), path(folder, "pandas.gl"), memory=memory)
    return {}


def archive(folder: str, memory: str) -> dict[str, Any]:
    """Import a compressed archive."""
    report = gz.import_dataset(path(folder, "papers"), path(folder, "npz"), memory=memory, overwrite=True)
    return {"nodes": report.nodes, "edges": report.edges, "buffers": report.peak_memory}


PARTS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    **{f"strings-{kind}": functools.partial(strings, kind=kind) for kind in ("csv", "parquet")},
    **{f"pandas-{kind}": functools.partial(pandas, kind=kind) for kind in ("csv", "parquet")},
    "archive": archive,
}


def timed(part: str, folder: str, memory: str) -> dict[str, Any]:
    """Return the figures of a part, with wall-clock and processor seconds: the machine may be shared."""
    start, used = time.perf_counter(), os.times()
    figures = PARTS[part](folder, memory)
    now = os.times()
    seconds = {"seconds": time.perf_counter() - start, "cpu": now.user + now.system - used.user - used.system}
    return {**figures, **seconds}


def path(folder: str, name: str) -> str:
    """Return the path of a file of the benchmark."""
    return os.path.join(folder, name)


# -- main -------------------------------------------------------------------------------------------------------------


def parquet_ratio(folder: str, memory: str) -> dict[str, float]:
    """Compile Parquet edges, against a scan of the same columns by pyarrow that drops them."""
    import pyarrow.dataset

    def scan() -> None:
        source = pyarrow.dataset.dataset(path(folder, "edges.parquet"))
        sum(batch.num_rows for batch in source.to_batches(columns=["src", "dst"]))

    def read() -> float:
        return gz.compile_graph(path(folder, "edges.parquet"), path(folder, "p.gl"), memory=memory).seconds["reading"]

    alone = reading = float("inf")
    for _ in range(_REPEAT):  # in turn: other load affects both alike
        alone, reading = min(alone, measure.best_of(1, scan)), min(reading, read())
    return {"scan": alone, "reading": reading}


def digit_speeds(folder: str, memory: str, edges: int) -> dict[int, float]:
    """Return MB/s of reading text by the number of digits of its ids. Rounds alternate, so that load affects all."""
    files = {digits: path(folder, f"{digits}.csv") for digits in (7, 9, 19)}
    for digits, file in files.items():
        write_numbers(file, edges, digits)
        warm(file)
    speeds = dict.fromkeys(files, 0.0)
    for _ in range(_REPEAT):
        for digits, file in files.items():
            report = gz.compile_graph(file, path(folder, "d.gl"), memory=memory, id_base=10 ** (digits - 1))
            speeds[digits] = max(speeds[digits], os.path.getsize(file) / report.seconds["reading"] / 1e6)
    for file in files.values():
        os.unlink(file)
    return speeds


def run(options: argparse.Namespace, folder: str) -> None:
    """Make the sources, measure every part, show the table. Sources are removed when they are no longer needed."""
    limit = parse_size(options.limit) if os.geteuid() == 0 else None
    figures: dict[str, Any] = {}

    def apart(part: str, limit: int | None) -> None:
        figures[part] = limited.run(part, limit, "--folder", folder, cold=False)
        print(part, figures[part], flush=True)

    if "strings" in options.parts:
        write_names(folder, options.edges, options.names)
        for kind in ("csv", "parquet"):
            warm(path(folder, f"names.{kind}"))
            apart(f"strings-{kind}", limit)
            apart(f"pandas-{kind}", None)
            os.unlink(path(folder, f"names.{kind}"))
    if "archive" in options.parts:
        write_papers(folder, parse_size(options.npz))
        apart("archive", limit)
        shutil.rmtree(path(folder, "papers"))
        shutil.rmtree(path(folder, "npz"), ignore_errors=True)
    if "columns" in options.parts:
        write_parquet(path(folder, "edges.parquet"), options.edges)
        figures["parquet"] = parquet_ratio(folder, options.memory)
        os.unlink(path(folder, "edges.parquet"))
    if "digits" in options.parts:
        figures["mb_s"] = digit_speeds(folder, options.memory, options.edges)
    measure.show("Imports", rows_of(options, figures, limit), folder)
    measure.save(options.json, figures, folder)


def warm(file: str) -> None:
    """Read a file, so that the first part that reads it does not wait for the disk."""
    with open(file, "rb", buffering=0) as stream:
        while stream.read(1 << 24):
            pass


def rows_of(options: argparse.Namespace, figures: dict[str, Any], limit: int | None) -> list[tuple[str, str, str]]:
    """Return the table."""
    rows = []
    named = f"{options.edges:,} string-id edges, {options.names:,} names"
    for part, what in (
        ("strings-csv", f"{named}, CSV"),
        ("strings-parquet", f"{named}, Parquet"),
        ("archive", f"papers100M folder of {options.npz}, compressed"),
    ):
        found, inside = figures.get(part), "no limit" if limit is None else f"in {format_size(limit)}"
        if found is None:
            continue
        if "failed" in found:
            rows.append((what, "failed", f"{inside}: {found['failed']}, {found.get('kills', 0)} kills"))
            continue
        held = f"anonymous {format_size(found['peak_anonymous'])}, buffers {format_size(found['buffers'])}"
        rows.append((what, f"{found['seconds']:.1f} s", f"{found['cpu']:.1f} s CPU, {inside}, peak {held}"))
        peer = figures.get(part.replace("strings", "pandas"), {})
        if "seconds" in peer and peer is not found:
            ratio = f"ours {peer['seconds'] / found['seconds']:.1f} times, {peer['cpu'] / found['cpu']:.1f} in CPU time"
            peak = format_size(peer["peak_anonymous"])
            rows.append(("  pandas factorize + compile", f"{peer['seconds']:.1f} s", f"{ratio}; its peak {peak}"))
    if "parquet" in figures:
        share = figures["parquet"]["scan"] / figures["parquet"]["reading"]
        rows.append(("Parquet edges", f"{share:.2f}", "of the speed of pyarrow's scan (at least 0.5)"))
    for digits, speed in figures.get("mb_s", {}).items():
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
    parser.add_argument("--parts", nargs="+", choices=GROUPS, default=GROUPS, help="what to measure (default: all)")
    parser.add_argument("--folder", help="folder for files (default: a temporary folder)")
    parser.add_argument("--json")
    parser.add_argument("--run", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        limited.child(lambda: timed(options.run, options.folder, options.memory))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run(options, folder)


if __name__ == "__main__":
    main()
