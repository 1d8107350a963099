"""GraphSAGE and GCN in plain torch, for sampled batches and for whole graphs, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..args.suggest import did_you_mean
from .neighbourhood import Neighbourhood, layers_of

__all__ = ["GCN", "MODELS", "Aggregation", "GraphSAGE", "SampledModel", "make_model"]

Aggregation = Literal["mean", "sum", "gcn"]


class SampledModel(nn.Module):
    """A stack of layers, each of which aggregates the neighbours' rows and combines the result with the node's own row.

    Subclasses define `aggregation` and `combine`. Keeping the two apart lets one model run over
    sampled batches, over a graph in RAM, and layer by layer over files (`gz.inference`).
    """

    aggregation: ClassVar[Aggregation] = "mean"

    def __init__(self, in_dim: int, hidden: int, out_dim: int, num_layers: int = 2, dropout: float = 0.5) -> None:
        """Create a stack with `in_dim` inputs, `out_dim` outputs and layers of width `hidden` in between."""
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers is {num_layers}, expected at least 1")
        self.dims = [in_dim, *[hidden] * (num_layers - 1), out_dim]
        self.dropout = dropout

    @property
    def num_layers(self) -> int:
        """The number of layers, which is the number of hops that a batch must have."""
        return len(self.dims) - 1

    def combine(self, layer: int, own: Tensor, aggregated: Tensor) -> Tensor:
        """Return the rows after `layer`, from the rows before it and the aggregated rows of the neighbours."""
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
        degree: Tensor | None = None,
    ) -> Tensor:
        """Return one row per seed when the hop counts of a sampled batch are given, else one row per node.

        `edge_index[0]` sends to `edge_index[1]`. `degree` is each node's degree in the whole graph; GCN uses it to
        estimate the sum over the full neighbourhood without bias.
        """
        if num_sampled_nodes is None or num_sampled_edges is None:
            parts = [Neighbourhood.from_edges(edge_index, x.shape[0])] * self.num_layers
        else:
            if len(num_sampled_edges) != self.num_layers:
                raise ValueError(
                    f"the batch has {len(num_sampled_edges)} hops, but the model has {self.num_layers} layers"
                )
            whole = Neighbourhood.from_edges(edge_index, x.shape[0], sum(num_sampled_nodes[:-1]))
            parts = layers_of(whole, num_sampled_nodes, num_sampled_edges)
        if not x.is_floating_point():
            x = x.float()
        x = x.flatten(1) if x.dim() > 2 else x
        scale = gcn_scale(parts[0], degree, x.dtype) if self.aggregation == "gcn" else None
        for layer, part in enumerate(parts):
            x = x[: part.num_sources]
            own = x[: part.num_targets]
            x = self.combine(layer, own, _aggregate(self.aggregation, part, x, scale, degree))
        return x

    def between(self, layer: int, x: Tensor) -> Tensor:
        """Apply ReLU and dropout, except after the last layer."""
        if layer + 1 == self.num_layers:
            return x
        return functional.dropout(functional.relu(x, inplace=True), self.dropout, self.training)


class GraphSAGE(SampledModel):
    """GraphSAGE with mean aggregation: two linear maps, of the node's own row and of its neighbours' mean.

    >>> model = GraphSAGE(8, 16, 3)
    >>> model(torch.randn(4, 8), torch.tensor([[1, 2, 3], [0, 0, 1]])).shape
    torch.Size([4, 3])
    """

    aggregation: ClassVar[Aggregation] = "mean"

    def __init__(self, in_dim: int, hidden: int, out_dim: int, num_layers: int = 2, dropout: float = 0.5) -> None:
        """Create the layers, initialised like torch.nn.Linear."""
        super().__init__(in_dim, hidden, out_dim, num_layers, dropout)
        pairs = list(zip(self.dims, self.dims[1:], strict=False))
        self.neighbours = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.own = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)

    def combine(self, layer: int, own: Tensor, aggregated: Tensor) -> Tensor:
        """Add the two linear maps."""
        out: Tensor = self.neighbours[layer](aggregated) + self.own[layer](own)
        return self.between(layer, out)


class GCN(SampledModel):
    """The graph convolution of Kipf and Welling: symmetric normalisation by degree, with self-loops.

    >>> model = GCN(8, 16, 3)
    >>> model(torch.randn(4, 8), torch.tensor([[1, 2, 3], [0, 0, 1]])).shape
    torch.Size([4, 3])
    """

    aggregation: ClassVar[Aggregation] = "gcn"

    def __init__(self, in_dim: int, hidden: int, out_dim: int, num_layers: int = 2, dropout: float = 0.5) -> None:
        """Create the layers, with Glorot initialisation as in the paper."""
        super().__init__(in_dim, hidden, out_dim, num_layers, dropout)
        self.linear = nn.ModuleList(nn.Linear(a, b) for a, b in zip(self.dims, self.dims[1:], strict=False))
        for linear in self.linear:
            assert isinstance(linear, nn.Linear)
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def combine(self, layer: int, own: Tensor, aggregated: Tensor) -> Tensor:
        """Apply the linear map; `aggregated` includes the node itself."""
        out: Tensor = self.linear[layer](aggregated)
        return self.between(layer, out)


MODELS: dict[str, type[SampledModel]] = {"sage": GraphSAGE, "gcn": GCN}


def make_model(
    name: str, in_dim: int, hidden: int, out_dim: int, num_layers: int = 2, dropout: float = 0.5
) -> SampledModel:
    """Make a model by name: "sage" or "gcn"."""
    if name not in MODELS:
        known = f"{', '.join(map(repr, MODELS))}{did_you_mean(name, MODELS)}"
        raise ValueError(f"model is {name!r}, expected one of {known}")
    return MODELS[name](in_dim, hidden, out_dim, num_layers, dropout)


def gcn_scale(part: Neighbourhood, degree: Tensor | None, dtype: torch.dtype) -> Tensor:
    """1 / sqrt(degree + 1) for every node of a batch; the degree within the batch when the graph's is not given."""
    if degree is None:
        degree = functional.pad(part.counts, (0, part.num_sources - part.num_targets))
    return (degree.to(dtype) + 1).rsqrt().unsqueeze(1)


def _aggregate(how: Aggregation, part: Neighbourhood, x: Tensor, scale: Tensor | None, degree: Tensor | None) -> Tensor:
    if how == "mean":
        return part.mean(x)
    if how == "sum":
        return part.sum(x)
    assert scale is not None
    near = scale[: part.num_targets]
    total = part.sum(x * scale[: part.num_sources])
    if degree is not None:  # scale a sample of k out of d neighbours to all d
        total = total * (degree[: part.num_targets] / part.counts.clamp(min=1)).to(x.dtype).unsqueeze(1)
    return near * total + near * near * x[: part.num_targets]
