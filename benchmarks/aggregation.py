"""Summing over sampled neighbours: the grouped sum against index_add_, sparse CSR and PyG, forward and backward.

python benchmarks/aggregation.py [--threads 2] [--json PATH]
"""

from __future__ import annotations

import argparse

import measure
import torch

from graphzero.train.neighbourhood import Neighbourhood


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    figures = {}
    # the outer and the inner layer of [15, 10, 5] x 1,024
    for name, sources, targets, edges, dim in [
        ("outer", 423_000, 60_000, 576_000, 128),
        ("inner", 60_000, 14_000, 135_000, 128),
    ]:
        receivers = torch.sort(torch.randint(0, targets, (edges,)))[0]
        edge_index = torch.stack([torch.randint(0, sources, (edges,)), receivers])
        x = torch.randn(sources, dim, requires_grad=True)
        pull = torch.randn(targets, dim)
        ours = Neighbourhood.from_edges(edge_index, sources, targets)
        ones = torch.ones(edges)
        sparse = torch.sparse_csr_tensor(ours.offsets, edge_index[0], ones, (targets, sources))

        def plain(x: torch.Tensor = x, e: torch.Tensor = edge_index, n: int = targets) -> torch.Tensor:
            return torch.zeros(n, x.shape[1]).index_add(0, e[1], x[e[0]])

        timings = {}
        for label, forward in {
            "ours": lambda: ours.sum(x),  # noqa: B023
            "index_add_": plain,
            "sparse CSR": lambda: sparse @ x,  # noqa: B023
        }.items():
            with torch.no_grad():
                timings[f"{label} forward"] = measure.best_of(5, forward)
            if label != "sparse CSR":  # its backward gives a sparse result of another kind
                out = forward()
                back = lambda: torch.autograd.grad(out, x, pull, retain_graph=True)  # noqa: B023, E731
                timings[f"{label} backward"] = measure.best_of(5, back)
        figures[name] = timings
        rows = [
            (what, f"{seconds * 1e3:.1f} ms", f"{seconds / timings['ours ' + what.split()[-1]]:.1f} x ours")
            for what, seconds in timings.items()
        ]
        measure.show(f"Sum over neighbours, {name} layer: {edges:,} edges, {args.threads} threads", rows)
    measure.save(args.json, figures)


if __name__ == "__main__":
    main()
