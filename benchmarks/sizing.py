"""Arithmetic for large public datasets on one machine: disk, RAM and seconds per epoch, from the figures of doctor.

graphzero doctor DATASET --fanouts 10,5 --json > doctor.json
python benchmarks/sizing.py doctor.json --ram 64GB

Nothing is measured here. Sizes of the datasets are as published; rows per batch are the maximum for the fanouts; the
seconds of a sweep are those of the loader's own model (core/budget/divide.cpp) with the disk's measured speed, and the
processor's time is what doctor measured on its dataset, by row and by byte.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from graphzero import _core
from graphzero.args.sizes import format_size, parse_size

BATCH, FANOUTS = 1024, (10, 5)
MOST = 1024  # batches of a window
SWEEP = 2  # additional copies of each row that a sweep reads, as in doctor's estimate
SWEPT = 0.6  # share of the disk's speed that a sweep reaches, likewise
SPARE = 1 / 8  # share of the RAM left for the model and the system, as by memory="auto"


class Size(NamedTuple):
    """A dataset as published: offsets and edges as they are stored here, nodes with features, columns, bytes per value.

    A topology has an offset for each node; of several types, each relation has those of the nodes it points to.
    """

    name: str
    offsets: int
    edges: int
    rows: int
    columns: int
    value_bytes: int
    train: int


# Graphs of several types store each relation and its reverse, which message passing between types needs: of MAG240M
# cites, writes and affiliated_with, of IGBH cites, written_by, affiliated_to and topic.
_MAG240M = 3 * 121_751_666 + 2 * 122_383_112 + 25_721  # papers, authors, institutions
_IGBH = 4 * 269_346_174 + 2 * 277_220_883 + 26_918 + 712_960  # and fields of study
DATASETS = (
    Size("papers100M, float32", 111_059_956, 1_615_685_872, 111_059_956, 128, 4, 1_207_179),
    Size("papers100M, float16", 111_059_956, 1_615_685_872, 111_059_956, 128, 2, 1_207_179),
    Size("MAG240M, float16", _MAG240M, 2 * 1_728_364_232, 121_751_666, 768, 2, 1_112_392),
    Size("IGB260M, float32", 269_346_174, 3_995_777_033, 269_346_174, 1024, 4, 136_278_514),
    Size("IGB260M, float16", 269_346_174, 3_995_777_033, 269_346_174, 1024, 2, 136_278_514),
    Size("IGBH-full, float16", _IGBH, 2 * 5_812_005_639, 547_306_935, 1024, 2, 136_278_514),
)


def sized(size: Size, report: dict[str, Any], ram: int) -> dict[str, Any]:
    """Return bytes and seconds for a dataset on the machine of a report, with so much RAM."""
    disk, known = report["disk"], report["dataset"]
    width = size.columns * size.value_bytes
    topology = 4 * size.edges + 8 * size.offsets  # ids of 32 bits, offsets of 64
    features = size.rows * width
    rows = BATCH * sum(math.prod(FANOUTS[:hop]) for hop in range(len(FANOUTS) + 1))
    room = ram * (1 - SPARE) - topology
    window = int(room / (rows * width / 2)) if room > 0 else 0  # a batch that waits holds half of its rows on average
    batches = math.ceil(size.train / BATCH)
    window = min(window, batches, MOST)
    parts = known["batch_seconds"]
    copying = rows * width * parts["copy"] / known["bytes_a_batch"]
    in_ram = (rows * parts["sample"] / known["rows_a_batch"] + copying) / known["threads"]
    reads = _core.swept_seconds(features, rows, window, disk["random_256"], disk["sequential"]) if room > 0 else None
    reads = None if reads is None else reads / SWEPT
    processor, lag = in_ram + SWEEP * copying / known["threads"], features / disk["sequential"] / SWEPT
    if room > features:
        reads, window, processor, lag = 0.0, 0, in_ram, 0.0
    return {
        "dataset": size.name,
        "disk": topology + features,
        "topology": topology,
        "all in RAM": (topology + features) / (1 - SPARE),
        "window": window,
        "batches": batches,
        "epoch": None if reads is None else lag + batches * max(reads, processor),
        "epoch in RAM": batches * in_ram,
        "bound": "topology" if reads is None else "disk" if reads > processor else "processor",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="what `graphzero doctor DATASET --fanouts 10,5 --json` printed")
    parser.add_argument("--ram", default="64GB")
    args = parser.parse_args()
    report, ram = json.loads(args.report.read_text()), parse_size(args.ram, "ram")
    disk, cpu = report["disk"], report["processors"]
    print(
        f"{cpu['usable']} processors ({cpu['model']}), {disk['random_256']:,.0f} reads/s, "
        f"{format_size(int(disk['sequential']))}/s; {format_size(ram)} of RAM, batches of {BATCH}, fanouts {FANOUTS}\n"
    )
    print("| dataset | on disk | topology | RAM to hold all | window | batches | epoch | all in RAM | bound by |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for size in DATASETS:
        found = sized(size, report, ram)
        sizes = [format_size(int(found[name])) for name in ("disk", "topology", "all in RAM")]
        times = ["-" if found[name] is None else duration(found[name]) for name in ("epoch", "epoch in RAM")]
        counts = [f"{found[name]:,}" for name in ("window", "batches")]
        print(f"| {' | '.join([size.name, *sizes, *counts, *times, found['bound']])} |")


def duration(seconds: float) -> str:
    return (
        f"{seconds:,.0f} s"
        if seconds < 600
        else f"{seconds / 60:,.0f} min"
        if seconds < 36_000
        else f"{seconds / 3600:,.1f} h"
    )


if __name__ == "__main__":
    main()
