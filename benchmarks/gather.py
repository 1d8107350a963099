"""Gather, warm and cold: random 512-byte rows against torch, NumPy over a mapping, and the disk's own speed.

    python benchmarks/gather.py FOLDER [--warm] [--places] [--cold] [--gigabytes 8] [--repeat 15] [--json OUT]

FOLDER gets a feature file of that size (made once). Cold figures need root, to empty the page cache. They are compared
with page faults of a mapping, with MADV_RANDOM and without, and with fio (benchmarks/disk.py).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import disk
import measure
import numpy as np

import graphzero as gz

DIM = 128  # float32: 512 bytes per row
WARM_ROWS, WARM_BATCH = 2_000_000, 400_000
COLD_BATCH, FAULTED = 200_000, 2_000  # page faults are so slow that a few rows are enough
DENSE_ROWS = 2_097_152  # 1 GiB of rows, all of them, in random order


def make(path: Path, rows: int) -> Path:
    """A feature file of noise: zeros would distort the figures of disks that compress."""

    def blocks() -> Iterator[np.ndarray]:
        random = np.random.default_rng(0)
        for start in range(0, rows, 1 << 18):
            yield random.random((min(1 << 18, rows - start), DIM), dtype=np.float32)

    if not path.exists():
        gz.compile_features(blocks(), path, progress=False)
    return path


def warm(folder: Path, repeat: int) -> tuple[list[tuple[str, str, str]], dict[str, float]]:
    """Rows in RAM: ours from the mapped file, torch's from a tensor of its own."""
    import torch

    torch.set_num_threads(gz._core.default_threads())
    fs = gz.FeatureStore(make(folder / "warm.gd", WARM_ROWS))
    x = torch.from_numpy(fs.get_tensor().copy())
    view = fs.get_tensor()
    ids = np.random.default_rng(1).integers(0, WARM_ROWS, WARM_BATCH)
    tensor_ids = torch.from_numpy(ids)
    out = torch.empty(WARM_BATCH, DIM)
    fs.gather(ids)  # pages in RAM, buffers in the pool
    work: dict[str, Callable[[], Any]] = {
        "torch.index_select": lambda: torch.index_select(x, 0, tensor_ids),
        "torch.index_select, out=": lambda: torch.index_select(x, 0, tensor_ids, out=out),
        "NumPy, mapped file": lambda: view[ids],
        "gather": lambda: fs.gather(tensor_ids),
        "gather, out=": lambda: fs.gather(ids, out=out),
        "gather, 1 thread": lambda: fs.gather(ids, num_threads=1),
    }
    best = {name: float("inf") for name in work}
    for _ in range(repeat):  # in turns, so that other load affects all alike
        for name, call in work.items():
            best[name] = min(best[name], measure.best_of(1, call))
    rate = {name: WARM_BATCH / seconds for name, seconds in best.items()}
    base = rate["torch.index_select"]
    rows = [(name, f"{r / 1e6:.1f} M rows/s", f"{r / base:.1f} x torch.index_select") for name, r in rate.items()]
    return rows, rate


def places(folder: Path, repeat: int) -> tuple[list[tuple[str, str, str]], dict[str, float]]:
    """Rows in RAM to a new array and to the user's own, by the default and from the mapping, files just opened too."""
    path = make(folder / "warm.gd", WARM_ROWS)
    gz.FeatureStore(path).preload()
    ids = np.random.default_rng(1).integers(0, WARM_ROWS, WARM_BATCH)
    room = np.empty(WARM_BATCH * DIM + 64, np.float32)
    on_line = (-room.ctypes.data % 64) // 4
    shifted = room[on_line + 4 :][: WARM_BATCH * DIM].reshape(WARM_BATCH, DIM)  # 16 past a line, as NumPy's arrays are
    seconds: dict[str, float] = {}
    for _ in range(repeat):
        for io in ("auto", "mmap"):
            fs = gz.FeatureStore(path)  # its pages are in RAM, but not mapped yet
            for name, out in (("untouched", None), ("new array", None), ("out=", shifted)):
                start = time.perf_counter()
                fs.gather(ids, out=out, io=io)
                took = time.perf_counter() - start
                seconds[f"{io}, {name}"] = min(took, seconds.get(f"{io}, {name}", took))
    rates = {name: WARM_BATCH / s / 1e6 for name, s in seconds.items()}
    rows = [(f"gather, {name}", f"{rate:.1f} M rows/s", "") for name, rate in rates.items()]
    return rows, {f"places {name}": rate for name, rate in rates.items()}


def timed_cold(work: Callable[[], Any]) -> float:
    """Seconds of a run that finds nothing in the page cache."""
    measure.drop_caches()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cold(folder: Path, gigabytes: float, repeat: int) -> tuple[list[tuple[str, str, str]], dict[str, float]]:
    """Rows on disk: a sparse batch, a dense one, the same rows by page faults, and the disk alone."""
    total = int(gigabytes * 2**30) // (4 * DIM)
    path = make(folder / "cold.gd", total)
    fs = gz.FeatureStore(path)
    ids = np.random.default_rng(2).integers(0, total, COLD_BATCH)
    dense = np.random.default_rng(3).permutation(min(DENSE_ROWS, total))
    out = np.ones((dense.size, DIM), np.float32)
    rate: dict[str, float] = {}

    def keep_best(name: str, value: float) -> None:
        rate[name] = max(rate.get(name, 0.0), value)

    for _ in range(repeat):  # in turns: the speed of disks varies
        measure.drop_caches()
        found = disk.speed(path)
        keep_best("random", found["random"])
        keep_best("sequential", found["sequential"])
        # a mapping of its own each time, since mapped pages stay in RAM
        keep_best("mapped", FAULTED / timed_cold(lambda: disk.mapped(fs, random=False)[ids[:FAULTED]]))
        keep_best("advised", FAULTED / timed_cold(lambda: disk.mapped(fs, random=True)[ids[:FAULTED]]))
        for io in ("auto", "uring", "pread"):
            if io != "uring" or not gz._core.uring_refusal():
                keep_best(io, COLD_BATCH / timed_cold(lambda io=io: fs.gather(ids, io=io)))
        keep_best("dense", dense.size * 512 / timed_cold(lambda: fs.gather(dense, out=out)))
    peer = found["by"]
    rows = disk.rows_of({"by": peer, "random": rate["random"], "sequential": rate["sequential"]})
    rows += [
        (f"mmap, MADV_RANDOM, {FAULTED:,} rows", f"{rate['advised'] / 1e3:.2f} K rows/s", "one thread, a fault a row"),
        (f"mmap, default advice, {FAULTED:,} rows", f"{rate['mapped'] / 1e3:.2f} K rows/s", "readahead at each fault"),
    ]
    for io in ("auto", "uring", "pread"):
        if io in rate:
            against = f"{rate[io] / rate['random']:.2f} x {peer}, {rate[io] / rate['advised']:.0f} x MADV_RANDOM"
            rows.append((f"gather, io={io!r}, {COLD_BATCH:,} rows", f"{rate[io] / 1e3:.0f} K rows/s", against))
    against = f"{rate['dense'] / rate['sequential']:.2f} x {peer} sequential"
    rows.append(
        (f"gather, {dense.size:,} rows of {dense.size * 512 >> 20} MiB", f"{rate['dense'] / 1e9:.2f} GB/s", against)
    )
    return rows, rate


def main() -> None:
    """Run the selected parts, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--places", action="store_true", help="new array or the user's own, default or mapping")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--gigabytes", type=float, default=8)
    parser.add_argument("--repeat", type=int, default=None)
    parser.add_argument("--json")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    both = not (options.warm or options.cold or options.places)
    figures: dict[str, Any] = {}
    if options.warm or both:
        rows, figures["warm"] = warm(options.folder, options.repeat or 15)
        measure.show(f"Warm: {WARM_BATCH:,} random rows of 512 bytes out of {WARM_ROWS:,}", rows, options.folder)
    if options.places:
        rows, figures["places"] = places(options.folder, options.repeat or 9)
        measure.show(f"In RAM: {WARM_BATCH:,} random rows of 512 bytes out of {WARM_ROWS:,}", rows, options.folder)
    if options.cold or both:
        rows, figures["cold"] = cold(options.folder, options.gigabytes, options.repeat or 3)
        ahead = measure.machine(options.folder)["read_ahead_kb"]
        title = f"Cold: a {options.gigabytes:g} GiB file, page cache empty, read_ahead_kb {ahead}, depth 256 a thread"
        measure.show(title, rows, options.folder)
    measure.save(options.json, figures, options.folder)


if __name__ == "__main__":
    main()
