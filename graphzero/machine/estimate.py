"""Estimates disk, RAM and seconds per epoch of training on a dataset, and checks that with a short run."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..dataset.dataset import Dataset
from ..load.loader import NeighborLoader
from ..load.seeds import split_of
from ..stores.features import FeatureStore
from .disk import PAGE, forget

__all__ = ["check", "estimate"]

FANOUTS = (15, 10, 5)
BATCH = 1024
_RESIDENT = 256 << 20  # bytes of features that copies are timed on: larger than the CPU caches
_COPIED = 64 << 20  # bytes copied to time it
_SWEPT = 0.6  # share of the disk's speed that a sweep gets while sampling and copying (measured: 1.6-2.4 of 3.6 GB/s)
_MORE_COPIES = 2  # CPU time per swept row, in copies: out of the read buffer, and finding the batches that need it


def estimate(
    dataset: Dataset,
    disk: dict[str, Any],
    *,
    fanouts: Sequence[int] = FANOUTS,
    batch_size: int = BATCH,
    memory: int | str = "auto",
    gpu_bytes: int = 0,
) -> dict[str, Any]:
    """Return the bytes and seconds of an epoch over the training split, by the loader's own model.

    `disk` has figures of `graphzero doctor`: reads per second ("random_1" and "random_256", by how many are in flight)
    and bytes per second ("sequential"). A few batches
    are sampled twice to measure their size and, the second time, the cost of sampling from RAM; copying rows is
    measured too. The loader's plan says which files fit in RAM and how many batches share a read; the cost is computed
    for this disk. With `gpu_bytes`, what a GPU has free for rows, "gpu" has what `gpu_memory` would change. Without a
    "train" split only the size is returned.
    """
    found: dict[str, Any] = {"name": dataset.name, "bytes": dataset.nbytes}
    if not _has_train(dataset):
        return found
    loader = _loader(dataset, fanouts, batch_size, memory)
    graph, parts = loader._source.open()
    speeds = disk["random_256"], disk["sequential"]
    plan = _core.LoadPlan.estimate(graph, parts, loader._seeds, loader._options, *speeds, device_bytes=gpu_bytes)
    stores = _stores(dataset)
    rows, widths = plan["rows"], plan["row_bytes"]
    copied = sum(rows[name] * widths[name] for name in rows)
    threads = plan["threads"]
    rate = _copy_rate(stores, threads) if copied else math.inf
    copy_seconds, sweep_seconds = copied / rate, _MORE_COPIES * plan["swept_rows_bytes"] / rate
    in_ram = (plan["sample_seconds"] + copy_seconds) / threads
    processor = in_ram + sweep_seconds / threads
    disk_seconds = plan["disk_seconds"] / (_SWEPT if plan["window"] else 1)
    batch, batches = max(disk_seconds, processor), plan["batches"]
    circle = plan["swept_bytes"] / disk["sequential"] / _SWEPT
    pages = sum(rows[name] * math.ceil(widths[name] / PAGE) for name in rows)
    if gpu_bytes > 0 and copied:
        missing = sum(rows[name] * widths[name] * (1 - plan["hits"][name]) for name in rows)
        kept = sum(plan["slots"][name] * widths[name] for name in rows)
        found["gpu"] = {
            "bytes": gpu_bytes,
            "share_of_rows": kept / sum(store.num_nodes * _row_bytes(store) for store in stores),
            "hit_rate": 1 - missing / copied,
            "bytes_a_batch": int(missing),
            "epoch_seconds_in_ram": batches * (plan["sample_seconds"] + missing / rate) / threads,
        }
    return found | {
        "batches": batches,
        "fanouts": list(fanouts),
        "batch_size": batch_size,
        "memory": memory,
        "threads": threads,
        "rows_a_batch": sum(rows.values()),
        "bytes_a_batch": copied,
        "window": plan["window"],
        "fits_in_ram": all(way in ("mapped", "whole") for way in plan["ways"].values()),
        "ram_bytes": plan["topology_bytes"] + plan["mapped_bytes"] + plan["memory"],
        "why": plan["why"],
        "load_seconds": plan["load_seconds"],
        "circle_seconds": circle,
        "batch_seconds": {
            "sample": plan["sample_seconds"],
            "copy": copy_seconds,
            "sweep": sweep_seconds,
            "disk": disk_seconds,
        },
        "epoch_seconds_cold": plan["load_seconds"] + _lag(circle, ends=True) + batches * batch,
        "epoch_seconds_later": batches * batch,
        "epoch_seconds_in_ram": batches * in_ram,
        "epoch_seconds_faults": batches * pages / disk["random_1"],
    }


def check(folder: str | os.PathLike[str], expected: dict[str, Any], *, seconds: float = 10.0) -> list[dict[str, Any]]:
    """Run part of an epoch with a cold page cache, then part of a later one, and compare with an estimate.

    Both run in a new process, where nothing is mapped yet; each pass ends after `seconds`, or with its epoch. Returns
    the batches, the estimated and measured seconds, and the error of each pass; an error of 0.1 is 10 % too high.
    """
    asked = {"folder": os.fspath(folder), "seconds": seconds}
    asked |= {name: expected[name] for name in ("fanouts", "batch_size", "memory")}
    command = [sys.executable, "-c", "from graphzero.machine.estimate import run_passes; run_passes()"]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the run that checks the estimate failed: {done.stderr.strip().splitlines()[-1]}")
    found = []
    a_batch = expected["epoch_seconds_later"] / expected["batches"]
    for name, load, (batches, took) in zip(
        ("cold", "later"), (expected["load_seconds"], 0.0), json.loads(done.stdout), strict=True
    ):
        lag = _lag(expected["circle_seconds"], ends=batches == expected["batches"])
        estimated = load + lag + batches * a_batch
        error = estimated / took - 1
        found.append({"pass": name, "batches": batches, "estimated": estimated, "measured": took, "error": error})
    return found


def _lag(circle: float, *, ends: bool) -> float:
    """Return the cost of filling and of draining a window: half a cycle each, since few batches share it."""
    return circle if ends else circle / 2


def run_passes() -> None:
    """Run the passes that `check` requests on standard input; print the batches and seconds of each."""
    import torch  # noqa: F401  # the first batch would import it, at a cost that is none of the loader's

    asked = json.load(sys.stdin)
    dataset = Dataset(asked["folder"])
    forget(dataset.files)
    passes = []
    begin = time.perf_counter()
    loader = _loader(dataset, asked["fanouts"], asked["batch_size"], asked["memory"])
    for _ in range(2):
        batches = 0
        for _batch in loader:
            batches += 1
            if time.perf_counter() - begin > asked["seconds"]:
                break
        passes.append((batches, time.perf_counter() - begin))
        begin = time.perf_counter()
    print(json.dumps(passes))


def _has_train(dataset: Dataset) -> bool:
    try:
        return len(split_of(dataset, "train", None)[1]) > 0
    except (KeyError, ValueError):
        return False


def _loader(dataset: Dataset, fanouts: Sequence[int], batch_size: int, memory: int | str) -> NeighborLoader:
    return NeighborLoader(
        dataset, split="train", fanouts=list(fanouts), batch_size=batch_size, shuffle=True, seed=0, memory=memory
    )


def _stores(dataset: Dataset) -> list[FeatureStore]:
    return [store for node in dataset.nodes.values() for store in node.features.values()]


def _row_bytes(store: FeatureStore) -> int:
    return int(store.feature_dim * (2 if store.dtype_name == "bfloat16" else store.dtype.itemsize))


def _copy_rate(stores: Sequence[FeatureStore], threads: int) -> float:
    """Measure the bytes per second that one of `threads` threads copies from random rows in RAM.

    Threads share the memory bandwidth, so two rarely copy twice as much as one.
    """
    store = max(stores, key=lambda s: s.num_nodes * _row_bytes(s))
    width = _row_bytes(store)
    near = max(1, min(store.num_nodes, _RESIDENT // width))
    store.gather(np.arange(near), io="mmap")  # reads its pages into RAM
    ids = np.random.default_rng(0).integers(0, near, max(1, _COPIED // width))
    best = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        store.gather(ids, io="mmap", num_threads=threads)
        best = min(best, time.perf_counter() - begin)
    return len(ids) * width / best / threads
