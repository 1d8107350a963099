"""The edges of a sampled batch grouped by receiver, so that summing over neighbours is fast on a CPU and on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Neighbourhood"]


class Neighbourhood:
    """Edges grouped by receiver: node i receives messages from `sources[offsets[i]:offsets[i + 1]]`.

    The sampler lists edges by hop and, within a hop, by the node that was expanded; every node is expanded once, so
    the receivers ascend over the whole batch and the edges are already grouped. Edges in any other order are sorted
    first.

    >>> n = Neighbourhood.from_edges(torch.tensor([[1, 2, 2], [0, 0, 1]]), num_nodes=3)
    >>> n.sum(torch.tensor([[1.0], [10.0], [100.0]])).tolist()
    [[110.0], [100.0], [0.0]]
    """

    def __init__(self, sources: Tensor, offsets: Tensor, num_sources: int, order: Tensor | None = None) -> None:
        """Use existing groups: `offsets` has one entry more than there are receivers.

        `order` has the positions of the edges in their original list; None if they are in that order.
        """
        self.order = order
        self.sources = sources
        self.offsets = offsets
        self.num_sources = num_sources

    @classmethod
    def from_edges(cls, edge_index: Tensor, num_nodes: int, num_targets: int | None = None) -> Neighbourhood:
        """Group a (2, E) edge list whose second row receives. Targets are the first `num_targets` nodes."""
        sources, targets, order = edge_index[0], edge_index[1], None
        # Whether they ascend is known only once a GPU has computed it; sorting them there waits for nothing.
        if targets.is_cuda or not bool((targets[1:] >= targets[:-1]).all()):
            targets, order = torch.sort(targets, stable=True)
            sources = sources[order]
        offsets = _offsets(targets, num_nodes if num_targets is None else num_targets)
        return cls(sources.contiguous(), offsets, num_nodes, order)

    @property
    def num_targets(self) -> int:
        """The number of receivers."""
        return int(self.offsets.numel()) - 1

    @property
    def counts(self) -> Tensor:
        """The number of neighbours of each target."""
        return self.offsets[1:] - self.offsets[:-1]

    def first(self, num_targets: int, num_edges: int, num_sources: int) -> Neighbourhood:
        """The part that a later layer needs: the first targets, their edges, and the sources of those."""
        return Neighbourhood(self.sources[:num_edges], self.offsets[: num_targets + 1], num_sources)

    def sum(self, x: Tensor) -> Tensor:
        """Add up the rows of `x` over each target's neighbours; zero where there are none."""
        out: Tensor = _NeighbourSum.apply(x, self.sources, self.offsets)  # type: ignore[no-untyped-call]
        return out

    def mean(self, x: Tensor) -> Tensor:
        """The average row of `x` over each target's neighbours; zero where there are none."""
        return self.sum(x) / self.counts.clamp(min=1).to(x.dtype).unsqueeze(1)

    def mean_of_edges(self, values: Tensor) -> Tensor:
        """The average over each target's edges of rows given per edge, in the original order of the edges."""
        values = values if self.order is None else values[self.order]
        count = self.sources.numel()
        edges = Neighbourhood(torch.arange(count, device=values.device), self.offsets, count)
        return edges.mean(values[:count])


def layers_of(
    neighbourhood: Neighbourhood, num_sampled_nodes: Sequence[int], num_sampled_edges: Sequence[int]
) -> list[Neighbourhood]:
    """One neighbourhood per layer, outermost first, each without the nodes that no later layer reads.

    After the first of three layers only nodes within two hops of the seeds are needed, and so on; the last layer
    computes only the seeds.
    """
    hops = len(num_sampled_edges)
    parts = []
    for layer in range(hops):
        inner = hops - layer
        parts.append(
            neighbourhood.first(
                sum(num_sampled_nodes[:inner]), sum(num_sampled_edges[:inner]), sum(num_sampled_nodes[: inner + 1])
            )
        )
    return parts


class _NeighbourSum(torch.autograd.Function):
    # embedding_bag is the one torch kernel that gathers and adds in a single pass: 8 to 12 times faster than
    # index_add_ here, forward; backward it is the same sum over the transposed groups (benchmarks/aggregation.py).

    @staticmethod
    def forward(ctx: Any, x: Tensor, sources: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(sources, offsets)
        ctx.num_sources = x.shape[0]
        return _bag(sources, offsets, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        (grad,) = grads
        sources, offsets = ctx.saved_tensors
        receivers = torch.repeat_interleave(offsets[1:] - offsets[:-1], output_size=sources.numel())
        if grad.device.type != "cpu":
            # In float32 at least: a sum of many numbers of 8 bits stops growing.
            dtype = torch.promote_types(grad.dtype, torch.float32)
            total = torch.zeros((ctx.num_sources, grad.shape[1]), dtype=dtype, device=grad.device)
            return total.index_add_(0, sources, grad[receivers].to(dtype)).to(grad.dtype), None, None
        # NumPy sorts packed 64-bit keys with SIMD, some 10 times faster than torch.sort.
        keys = (sources.numpy() << 32) | receivers.numpy()
        keys.sort()
        back = torch.from_numpy(keys & np.int64(0xFFFFFFFF))
        return _bag(back, _offsets(sources, ctx.num_sources), grad.contiguous()), None, None


def _bag(rows: Tensor, offsets: Tensor, x: Tensor) -> Tensor:
    if rows.numel() == 0:
        return x.new_zeros((offsets.numel() - 1, x.shape[1]))
    return functional.embedding_bag(rows, x, offsets, mode="sum", include_last_offset=True)


def _offsets(ids: Tensor, count: int) -> Tensor:
    offsets = torch.zeros(count + 1, dtype=torch.int64, device=ids.device)
    if ids.is_cuda:  # bincount would wait for the largest id
        ends = ids.long() + 1
        offsets.scatter_add_(0, ends, torch.ones_like(ends))
        return offsets.cumsum_(0)
    torch.cumsum(torch.bincount(ids, minlength=count), 0, out=offsets[1:])
    return offsets
