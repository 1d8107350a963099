"""What training on a dataset takes on this machine: disk, RAM and seconds an epoch; and a short run that checks it."""

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
from ..load.seed_nodes import split_of
from ..stores.features import FeatureStore
from . import disk as _disk

__all__ = ["check", "estimate"]

FANOUTS = (15, 10, 5)
BATCH = 1024
_RESIDENT = 256 << 20  # bytes of features that stand for all of them where copies are timed: more than caches hold
_COPIED = 64 << 20  # bytes that are copied for that
_SWEPT = 0.6  # of the disk's speed reaches a sweep beside sampling and copying: 1.6 to 2.4 of 3.6 GB/s were measured
_MORE_COPIES = 2  # of a row that a sweep brings, in processor time: from the read buffer, and finding who wants it


def estimate(
    dataset: Dataset,
    disk: dict[str, Any],
    *,
    fanouts: Sequence[int] = FANOUTS,
    batch_size: int = BATCH,
    memory: int | str = "auto",
) -> dict[str, Any]:
    """Return what an epoch over the training split takes: bytes and seconds, by the loader's own model.

    `disk` has the figures of `graphzero.doctor`: reads a second at random, bytes a second in sequence. A few batches
    are sampled, twice: their size and, the second time, what sampling costs in RAM are measured. So is copying rows.
    The loader's plan says which files fit into RAM and for how many batches rows are read together; what that costs is
    computed for this disk. Without a "train" split only the size is returned.
    """
    found: dict[str, Any] = {"name": dataset.name, "bytes": dataset.nbytes}
    if not _has_train(dataset):
        return found
    loader = _loader(dataset, fanouts, batch_size, memory)
    graph, parts = loader._source.open()
    plan = _core.LoadPlan.estimate(graph, parts, loader._seeds, loader._options, disk["random_256"], disk["sequential"])
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
    pages = sum(rows[name] * math.ceil(widths[name] / _disk.PAGE) for name in rows)
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
    """Run part of an epoch with the files out of the page cache, then of a later one; compare with an estimate.

    A process of its own does it, in which nothing is mapped yet; each pass ends after `seconds`, or with its epoch.
    Returned are, for each pass, batches, seconds estimated and measured, and the error: 0.1 is 10 % too many.
    """
    asked = {"folder": os.fspath(folder), "seconds": seconds}
    asked |= {name: expected[name] for name in ("fanouts", "batch_size", "memory")}
    command = [sys.executable, "-c", "from graphzero.estimate import run_passes; run_passes()"]
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
    """What a window costs that is filled, and one that runs empty: half a circle each, since few batches share it."""
    return circle if ends else circle / 2


def run_passes() -> None:
    """Do what `check` asks for on standard input; print batches and seconds of each pass."""
    import torch  # noqa: F401  # the first batch would import it, at a cost that is none of the loader's

    asked = json.load(sys.stdin)
    dataset = Dataset(asked["folder"])
    _disk.forget(dataset.files)
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
    """Measure bytes a second that one of `threads` threads copies from rows at random places in RAM.

    They share the memory's bandwidth, so that two of them rarely copy twice as much as one.
    """
    store = max(stores, key=lambda s: s.num_nodes * _row_bytes(s))
    width = _row_bytes(store)
    near = max(1, min(store.num_nodes, _RESIDENT // width))
    store.gather(np.arange(near), io="mmap")  # its pages are in RAM from now on
    ids = np.random.default_rng(0).integers(0, near, max(1, _COPIED // width))
    best = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        store.gather(ids, io="mmap", num_threads=threads)
        best = min(best, time.perf_counter() - begin)
    return len(ids) * width / best / threads
