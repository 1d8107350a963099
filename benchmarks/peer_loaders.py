"""The loaders of other libraries over the files of benchmarks/peers.py, which runs this in their own environments.

    PYTHON benchmarks/peer_loaders.py pyg|graphbolt FOLDER --rows FILE --offset BYTES [--in-ram] [--seconds 100] ...

Needs neither graphzero nor anything else than the library and NumPy. Rows of features come from a mapping of the file
with MADV_RANDOM, since the default advice reads `read_ahead_kb` for each page fault, or from a copy in RAM. Prints a
line of JSON before the first batch and after each, and waits for a line in return: the caller reads counters then.
"""

from __future__ import annotations

import argparse
import json
import mmap
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch


def loaded(folder: Path, name: str) -> torch.Tensor:
    return torch.from_numpy(np.load(folder / f"{name}.npy"))


def rows_of(args: argparse.Namespace) -> torch.Tensor:
    """The features: mapped copy-on-write, which torch accepts without a warning, or read into RAM."""
    shape = (args.nodes, args.columns)
    if args.in_ram:
        rows = np.fromfile(args.rows, np.float32, args.nodes * args.columns, offset=args.offset)
        return torch.from_numpy(rows.reshape(shape))
    mapped = np.memmap(args.rows, np.float32, "c", args.offset, shape)
    mapped._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return torch.from_numpy(mapped)


def deliver(epochs: Iterable[Iterable[int]], batches: int, seconds: float) -> None:
    """Go through the batches of some epochs, which have so many rows each; stop after so many seconds."""
    _tell({"batches": batches})
    begin = time.perf_counter()
    for epoch in epochs:
        for rows in epoch:
            at = time.perf_counter() - begin
            _tell({"rows": rows, "at": at})
            if at > seconds:
                return


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)
    sys.stdin.readline()


def pyg(args: argparse.Namespace) -> tuple[int, Callable[[], Iterator[int]]]:
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    from torch_sparse import SparseTensor

    rowptr, col = loaded(args.folder, "indptr"), loaded(args.folder, "indices")
    adjacency = SparseTensor(rowptr=rowptr, col=col, sparse_sizes=(args.nodes, args.nodes), is_sorted=True)
    data = Data(x=rows_of(args), y=loaded(args.folder, "labels"), adj_t=adjacency)
    options: dict[str, Any] = {"batch_size": args.batch_size, "shuffle": True, "num_workers": args.workers}
    loader = NeighborLoader(data, args.fanouts, loaded(args.folder, "train"), **options)
    return len(loader), lambda: (len(batch.x) for batch in loader)


def graphbolt(args: argparse.Namespace) -> tuple[int, Callable[[], Iterator[int]]]:
    import dgl.graphbolt as gb

    graph = gb.fused_csc_sampling_graph(loaded(args.folder, "indptr"), loaded(args.folder, "indices"))
    features = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(rows_of(args))})
    seeds = loaded(args.folder, "train")
    items = gb.ItemSet((seeds, loaded(args.folder, "labels")[seeds]), names=("seed_nodes", "labels"))
    batches = gb.ItemSampler(items, batch_size=args.batch_size, shuffle=True)
    batches = batches.sample_neighbor(graph, args.fanouts).fetch_feature(features, node_feature_keys=["x"])
    loader = gb.DataLoader(batches, num_workers=args.workers)
    return -(-len(seeds) // args.batch_size), lambda: (len(batch.node_features["x"]) for batch in loader)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=("pyg", "graphbolt"))
    parser.add_argument("folder", type=Path, help="indptr, indices, labels and train as .npy")
    parser.add_argument("--rows", help="the file of features")
    parser.add_argument("--offset", type=int, help="where they begin in it")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--columns", type=int)
    parser.add_argument("--fanouts", type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--in-ram", action="store_true")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="stop after this long")
    args = parser.parse_args()
    batches, epoch = (pyg if args.library == "pyg" else graphbolt)(args)
    deliver((epoch() for _ in range(args.epochs)), batches, args.seconds)


if __name__ == "__main__":
    main()
