"""Training on a typed graph in a quarter of its size: 100 M edges and their reverses, float16 rows of two node types.

    python benchmarks/typed_outofcore.py FOLDER [--edges 100e6] [--dim 256] [--share 0.25] [--batches 300] [--json OUT]

FOLDER gets a dataset of `gz.synthesize(preset="mag")` whose relations have so many edges together, with rows of papers
and authors: at 100 M edges, 9 M nodes with rows, 4.5 GB of rows and 1 GB of topology. Each run is a process of its own
over the first batches of the train split, [10, 5] x 1,024 by HeteroSAGE:

    in a group     cold, in a control group whose limit, page cache included, is the share of the dataset's size
    in RAM         the same batches without a limit, files read into the page cache first

Losses of both are compared: what is learned does not depend on the memory. A small dataset needs a larger share, since
torch and Python alone take some 250 MB: where a group is too small, the run ends with a BudgetError that states
how much is missing. It needs root, for the control group.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import limited
import measure
import numpy as np
import torch
from epochs import over
from torch.nn import functional

import graphzero as gz
from graphzero.args.sizes import format_size
from graphzero.train import HeteroSAGE

FANOUTS = [10, 5]
MAG_EDGES = 21_111_007  # of the preset at scale 1, reverses not counted
FEATURES = ("paper", "author")


class Step:
    """One training step; keeps its losses."""

    def __init__(self, ds: gz.Dataset, hidden: int) -> None:
        torch.manual_seed(0)
        dims = {name: ds.nodes[name].features["x"].feature_dim for name in FEATURES}
        classes = ds.nodes["paper"].num_classes
        assert classes is not None
        self.model = HeteroSAGE(dims, ds.metadata(), hidden, classes, ["paper"], len(FANOUTS), dropout=0.0)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.losses: list[float] = []

    def __call__(self, batch: Any) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        counts = {name: batch[name].num_nodes for name in batch.node_types}
        sampled = batch.collect("num_sampled_nodes"), batch.collect("num_sampled_edges")
        found = self.model(batch.collect("x"), batch.collect("edge_index"), counts, *sampled)
        out = found["paper"][: batch["paper"].batch_size]
        loss = functional.cross_entropy(out, batch["paper"].y)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def train(ds: gz.Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """Train on the first batches of a fixed order of the train split."""
    paper = ds.nodes["paper"]
    seeds = np.random.default_rng(0).permutation(paper.splits["train"])[: args.batches * args.batch_size]
    loader = gz.NeighborLoader(
        ds.hetero,
        {name: {"x": ds.nodes[name].features["x"]} for name in FEATURES},
        seeds=("paper", seeds),
        labels={"paper": paper.label_store},
        **{"fanouts": FANOUTS, "batch_size": args.batch_size, "seed": 0, "dtype": "float32", "memory": args.memory},
    )
    step = Step(ds, args.hidden)
    figures = over(loader, step)
    return figures | {"losses": step.losses}


def in_ram(ds: gz.Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """Read every file first."""
    for edge in ds.edges.values():
        edge.graph.preload()
    for name in FEATURES:
        ds.nodes[name].features["x"].preload()
    return train(ds, args)


RUNS = {"train": train, "ram": in_ram}


def dataset(args: argparse.Namespace) -> gz.Dataset:
    """Create the dataset if it does not exist."""
    if (args.folder / "dataset.json").exists():
        return gz.Dataset(args.folder)
    scale = float(args.edges) / MAG_EDGES
    options: dict[str, Any] = {"feature_types": FEATURES, "dtype": "float16", "memory": "1GB"}
    return gz.synthesize(args.folder, preset="mag", scale=scale, dim=args.dim, **options)


def rows_of(name: str, done: dict[str, Any], ram: dict[str, Any]) -> list[tuple[str, str, str]]:
    if "failed" in done:
        return [(name, "failed", f"{done['failed']}, kernel kills {done.get('kills')}")]
    stats, plan = done["stats"], done["stats"]["plan"]
    read = (stats["bytes_read"] + stats["topology_bytes_read"]) / done["batches"] / 1e6
    ways = ", ".join(f"{part} {way}" for part, way in plan["ways"].items())
    slower = "" if done is ram or "failed" in ram else f"{done['a_batch'] / ram['a_batch']:.1f} x the time in RAM; "
    rows = [(name, f"{done['a_batch'] * 1e3:,.0f} ms a batch", f"{slower}{done['batches']} batches of {ways}")]
    if "kills" in done:
        peak = f"{format_size(done['peak_anonymous'])} anonymous"
        rows.append((f"{name}: memory", format_size(done["group_peak"] or 0), f"{peak}, kernel kills {done['kills']}"))
        rows.append((f"{name}: read", f"{read:,.0f} MB a batch", f"topology by {plan['topology']}"))
    first, last = (np.mean(part) for part in np.array_split(done["losses"], 2))
    same = "" if done is ram or "failed" in ram else f"; as in RAM: {done['losses'] == ram['losses']}"
    rows.append((f"{name}: loss", f"{first:.3f} -> {last:.3f}", f"means of the first and second half{same}"))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--edges", type=float, default=100e6)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--memory", default="auto")
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--json")
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        limited.child(lambda: RUNS[args.run](gz.Dataset(args.folder), args))
        return
    ds = dataset(args)
    size, edges = ds.nbytes, sum(edge.graph.num_edges for edge in ds.edges.values())
    limit = int(size * args.share)
    grouped, ram = limited.run("train", limit), limited.run("ram", None)
    name = f"in a group of {format_size(limit)}"
    rows = rows_of(name, grouped, ram) + rows_of("in RAM", ram, ram)
    shape = f"{edges:,} edges with reverses, {args.dim} x float16, {format_size(size)}"
    measure.show(f"Typed training out of core: {shape}", rows, args.folder)
    measure.save(args.json, {"bytes": size, "limit": limit, "group": grouped, "ram": ram}, args.folder)
    if grouped.get("kills") or "failed" in grouped:
        sys.exit(1)


if __name__ == "__main__":
    main()
