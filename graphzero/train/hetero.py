"""GraphSAGE for graphs with several node and edge types, in plain torch, for sampled batches and for graphs in RAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from ..sample.hetero_subgraph import EdgeTypeName
from .neighbourhood import Neighbourhood

__all__ = ["HeteroSAGE"]

Rows = Mapping[EdgeTypeName, Tensor]
Counts = Mapping[Any, Sequence[int]]  # per type, a number for each hop


class HeteroSAGE(nn.Module):
    """One GraphSAGE layer for each edge type and hop, summed over the edge types that end at a node type.

    Rows of each node type are mapped to `hidden` columns first. A type that is not in `in_dims` gets one learned
    vector for all of its nodes, which takes no memory per node; differences between such nodes are learned from
    their neighbours.

    >>> model = HeteroSAGE({"paper": 8}, (["paper", "author"], [("author", "writes", "paper")]), 16, 3, ["paper"])
    >>> edges = {("author", "writes", "paper"): torch.tensor([[0, 1], [0, 2]])}
    >>> model({"paper": torch.randn(4, 8)}, edges, {"paper": 4, "author": 2})["paper"].shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        in_dims: Mapping[str, int],
        metadata: tuple[Sequence[str], Sequence[EdgeTypeName]],
        hidden: int,
        out_dim: int,
        targets: Sequence[str],
        num_layers: int = 2,
        dropout: float = 0.5,
    ) -> None:
        """Make the layers: `in_dims` has the columns of types with features, `targets` the types with outputs."""
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers is {num_layers}, expected at least 1")
        self.node_types, self.edge_types = list(metadata[0]), [(s, r, t) for s, r, t in metadata[1]]
        for name in (*in_dims, *targets):
            if name not in self.node_types:
                raise ValueError(f"no node type {name!r}, the graph has {', '.join(map(repr, self.node_types))}")
        self.in_dims = {name: int(in_dims[name]) for name in self.node_types if in_dims.get(name)}
        self.hidden, self.out_dim, self.dropout = hidden, out_dim, dropout
        self.targets, self.num_layers = list(targets), num_layers
        # Lists in the order of the types: names of types may hold dots, which names of modules may not.
        self.enter = nn.ModuleList(nn.Linear(self.in_dims.get(name, 1), hidden) for name in self.node_types)
        self.neighbours, self.own = nn.ModuleList(), nn.ModuleList()
        for layer in range(num_layers):
            width = out_dim if layer + 1 == num_layers else hidden
            self.neighbours.append(
                nn.ModuleList(
                    nn.Linear(hidden, width, bias=False) if edge_type[2] in self.kept(layer) else nn.Identity()
                    for edge_type in self.edge_types
                )
            )
            self.own.append(
                nn.ModuleList(
                    nn.Linear(hidden, width) if name in self.kept(layer) else nn.Identity() for name in self.node_types
                )
            )

    def arguments(self) -> dict[str, Any]:
        """What `HeteroSAGE(**arguments)` takes to make a model of the same shape, as JSON values."""
        return {
            "in_dims": self.in_dims,
            "metadata": [self.node_types, [list(edge_type) for edge_type in self.edge_types]],
            "hidden": self.hidden,
            "out_dim": self.out_dim,
            "targets": self.targets,
            "num_layers": self.num_layers,
            "dropout": self.dropout,
        }

    def kept(self, layer: int) -> list[str]:
        """The node types that have rows after a layer."""
        return self.targets if layer + 1 == self.num_layers else self.node_types

    def forward(
        self,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeTypeName, Tensor],
        num_nodes: Mapping[str, int],
        num_sampled_nodes: Counts | None = None,
        num_sampled_edges: Counts | None = None,
        edge_rows: Rows | None = None,
    ) -> dict[str, Tensor]:
        """Return rows of the target types: those of the seeds when the hop counts of a batch are given, else all.

        `num_nodes` is the number of nodes per type. `edge_index[type][0]` sends to `edge_index[type][1]`. `edge_rows`
        has a row of `hidden` columns per edge, by edge type, which is added to the message along that edge.
        """
        neighbourhoods = {
            key: Neighbourhood.from_edges(edges, num_nodes[key[0]], num_nodes[key[2]])
            for key, edges in edge_index.items()
        }
        rows = {name: self._enter(name, x, num_nodes[name]) for name in self.node_types}
        for layer in range(self.num_layers):
            if num_sampled_nodes is None or num_sampled_edges is None:
                sizes, parts = dict(num_nodes), neighbourhoods
            else:
                sizes, parts = self._within(
                    self.num_layers - layer, neighbourhoods, num_sampled_nodes, num_sampled_edges
                )
            rows = {name: self._layer_of(layer, name, rows, sizes[name], parts, edge_rows) for name in self.kept(layer)}
        return rows

    def _enter(self, name: str, x: Mapping[str, Tensor], count: int) -> Tensor:
        linear = self.enter[self.node_types.index(name)]
        if name in self.in_dims:
            own = x[name].reshape(count, self.in_dims[name])
            out: Tensor = linear(own if own.is_floating_point() else own.float())
            return out
        assert isinstance(linear, nn.Linear)
        vector: Tensor = linear(linear.weight.new_ones((1, 1)))
        return vector.expand(count, -1)

    def _within(
        self, hops: int, parts: Mapping[EdgeTypeName, Neighbourhood], nodes: Counts, edges: Counts
    ) -> tuple[dict[str, int], dict[EdgeTypeName, Neighbourhood]]:
        """Drop what no later layer reads: the nodes beyond `hops` hops, and the edges to them."""
        if any(len(counts) != self.num_layers for counts in edges.values()):
            found = {len(counts) for counts in edges.values()}
            raise ValueError(f"the batch has {sorted(found)} hops, but the model has {self.num_layers} layers")
        sizes = {name: sum(nodes[name][:hops]) for name in self.node_types}
        parts = {
            key: part.first(sizes[key[2]], sum(edges[key][:hops]), sum(nodes[key[0]][: hops + 1]))
            for key, part in parts.items()
        }
        return sizes, parts

    def _layer_of(
        self,
        layer: int,
        name: str,
        rows: Mapping[str, Tensor],
        size: int,
        parts: Mapping[EdgeTypeName, Neighbourhood],
        edge_rows: Rows | None = None,
    ) -> Tensor:
        neighbours, own = self.neighbours[layer], self.own[layer]
        assert isinstance(neighbours, nn.ModuleList)
        assert isinstance(own, nn.ModuleList)
        total: Tensor = own[self.node_types.index(name)](rows[name][:size])
        for number, key in enumerate(self.edge_types):
            if key[2] == name and key in parts:
                part = parts[key]
                message = part.mean(rows[key[0]][: part.num_sources])
                if edge_rows is not None and key in edge_rows:
                    message = message + part.mean_of_edges(edge_rows[key])
                total = total + neighbours[number](message)
        if layer + 1 < self.num_layers:
            total = functional.dropout(functional.relu(total), self.dropout, self.training)
        return total

    def one_layer(
        self,
        layer: int,
        name: str,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeTypeName, Tensor],
        num_nodes: Mapping[str, int],
        count: int,
        edge_rows: Rows | None = None,
    ) -> Tensor:
        """Return the rows after one layer of the first `count` nodes of type `name`, from their direct neighbours.

        `x` has the features for layer 0, and the output of the previous layer otherwise.
        """
        ends = {key: edges for key, edges in edge_index.items() if key[2] == name and num_nodes[key[0]]}
        types = {name, *(key[0] for key in ends)}
        rows = {t: self._enter(t, x, num_nodes[t]) if layer == 0 else x[t] for t in types}
        parts = {key: Neighbourhood.from_edges(edges, num_nodes[key[0]], count) for key, edges in ends.items()}
        return self._layer_of(layer, name, rows, count, parts, edge_rows)

    def needed(self, node_type: str) -> list[set[str]]:
        """The node types that each layer must compute for the outputs of `node_type`."""
        found = [{node_type}]
        for _ in range(self.num_layers - 1):
            found.insert(0, found[0] | {key[0] for key in self.edge_types if key[2] in found[0]})
        return found
