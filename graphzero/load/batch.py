"""Mini-batches, with the names that PyG users know: `Batch`, and `HeteroBatch` by type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..args.html_table import html_table
from ..sample.hetero_subgraph import EdgeTypeName

if TYPE_CHECKING:
    import torch

__all__ = ["AnyBatch", "Batch", "HeteroBatch", "TypeData"]

_Own = TypeVar("_Own", bound="Attributes")

# What a batch may have besides its rows, in the order in which it lists them; features cannot have these names.
ATTRIBUTES = (
    *("y", "edge_index", "n_id", "e_id", "input_id"),
    *("edge_label_index", "edge_label", "edge_label_time", "src_index", "dst_pos_index", "dst_neg_index"),
    *("batch", "seed_time", "batch_size", "num_sampled_nodes", "num_sampled_edges"),
    "num_padding_nodes",
)


class Attributes:
    """Named values of nodes and edges: a whole `Batch`, or what a `HeteroBatch` has for one type."""

    n_id: torch.Tensor
    edge_index: torch.Tensor

    def __init__(self, **attributes: Any) -> None:
        """Hold these attributes."""
        self.__dict__.update(attributes)

    @classmethod
    def _of(cls: type[_Own], attributes: dict[str, Any]) -> _Own:
        """Hold this dict itself."""
        made = cls.__new__(cls)
        made.__dict__ = attributes
        return made

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return int(self.n_id.shape[0])

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return int(self.edge_index.shape[1])

    def keys(self) -> list[str]:
        """The names of the attributes."""
        return list(self.__dict__)

    def __getitem__(self, key: str) -> Any:
        """Return an attribute by name: `batch["x"]`."""
        return self.__dict__[key]

    def __contains__(self, key: str) -> bool:
        """Whether there is an attribute of this name."""
        return key in self.__dict__

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Iterate over (name, value)."""
        return iter(self.__dict__.items())

    def _map(self: _Own, change: Callable[[torch.Tensor], torch.Tensor]) -> _Own:
        """Return a copy with every tensor changed."""
        return type(self)._of(changed(self.__dict__, change))


class Batch(Attributes):
    """A sampled subgraph with its rows: what `NeighborLoader` yields.

    Attributes, torch tensors unless noted:

    - `x` and the other named features: one row per node of `n_id`; `edge_attr` and the other edge features: one row
      per edge of `e_id`
    - `y`: the labels of the seeds, `batch_size` of them
    - `edge_index`: (2, E), row 0 the neighbour, row 1 the node it was sampled for, both positions in `n_id`; edges are
      sorted by row 1
    - `n_id`: global node ids, the seeds first; `e_id`: edge ids
    - `batch_size`: how many seeds (int); `input_id`: their positions among the loader's seeds
    - `num_sampled_nodes`, `num_sampled_edges`: how many each hop added (lists of int)
    - `num_padding_nodes`: with `pad_nodes=True`, how many of `num_sampled_nodes` are padding: the last ones of each hop
    - `batch`: for disjoint sampling, the seed each node belongs to; `seed_time`: for temporal sampling

    >>> for batch in loader:  # doctest: +SKIP
    ...     out = model(batch.x, batch.edge_index)[: batch.batch_size]
    ...     loss = cross_entropy(out, batch.y)
    """

    batch_size: int
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    x: torch.Tensor
    y: torch.Tensor
    e_id: torch.Tensor
    input_id: torch.Tensor

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """Return the batch with every tensor on `device`."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def to_pyg(self) -> Any:
        """Return a `torch_geometric.data.Data` with the same attributes (needs `graphzero[pyg]`)."""
        from torch_geometric.data import Data

        data = Data(**self.__dict__)
        data.num_nodes = self.num_nodes
        return data

    def __repr__(self) -> str:
        """Show shapes, as PyG does: `Batch(x=[423, 128], edge_index=[2, 576], batch_size=16)`."""
        return f"Batch({', '.join(f'{k}={shape_of(v)}' for k, v in self)})"

    def _repr_html_(self) -> str:
        """Return a table of shapes, for notebooks."""
        return html_table("Batch", html_rows(self), ("attribute", "shape or value", "dtype"))


class TypeData(Attributes):
    """What a batch holds for one node type or edge type: attributes, as `batch["paper"].x`."""

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError, which lists the attributes."""
        raise AttributeError(f"no attribute {name!r}; this type has {', '.join(self.__dict__) or 'none'}")

    def __repr__(self) -> str:
        """Show shapes: `{x=[423, 128], n_id=[423]}`."""
        return "{" + ", ".join(f"{k}={shape_of(v)}" for k, v in self) + "}"


class HeteroBatch:
    """A sampled subgraph of a typed graph with its rows: what `NeighborLoader` yields for typed graphs.

    `batch["paper"]` has, for the nodes of a type: `x` and the other named features, `n_id`, `num_sampled_nodes` (the
    number of seeds, then one number per hop), `num_padding_nodes` if nodes are padded; for the type of the seeds also
    `y`, `batch_size`, `input_id`, and `seed_time` for temporal sampling; `batch` for disjoint sampling.
    `batch["author", "writes", "paper"]` has, for the edges of a type: `edge_index`, where row 0 counts in the source
    type's `n_id` and row 1, by which edges are sorted, in the target type's, `e_id`, `num_sampled_edges` and the named
    edge features. Every type of the graph is present, empty or not.

    `batch.x_dict`, `batch.edge_index_dict`, ... collect one attribute from all types that have it.

    >>> for batch in loader:  # doctest: +SKIP
    ...     out = model(batch.x_dict, batch.edge_index_dict)["paper"][: batch["paper"].batch_size]
    ...     loss = cross_entropy(out, batch["paper"].y)
    """

    def __init__(self, nodes: Mapping[str, TypeData], edges: Mapping[EdgeTypeName, TypeData]) -> None:
        """Make a batch of what each type has."""
        self._nodes = dict(nodes)
        self._edges = dict(edges)

    @property
    def node_types(self) -> list[str]:
        """The node types of the graph."""
        return list(self._nodes)

    @property
    def edge_types(self) -> list[EdgeTypeName]:
        """The edge types of the graph."""
        return list(self._edges)

    def metadata(self) -> tuple[list[str], list[EdgeTypeName]]:
        """(node_types, edge_types), as PyG's `to_hetero` takes them."""
        return self.node_types, self.edge_types

    @property
    def num_nodes(self) -> int:
        """How many nodes the subgraph has, of all types."""
        return sum(data.num_nodes for data in self._nodes.values())

    @property
    def num_edges(self) -> int:
        """How many edges the subgraph has, of all types."""
        return sum(data.num_edges for data in self._edges.values())

    def __getitem__(self, key: str | EdgeTypeName) -> TypeData:
        """Return what a type has: `batch["paper"]`, `batch["author", "writes", "paper"]`."""
        types: dict[Any, TypeData] = self._edges if isinstance(key, tuple) else self._nodes
        if key not in types:
            what = "edge" if isinstance(key, tuple) else "node"
            raise KeyError(f"no {what} type {key!r}; the batch has {', '.join(map(repr, types)) or 'none'}")
        return types[key]

    def __contains__(self, key: object) -> bool:
        """Whether the graph has this node type or edge type."""
        return key in self._nodes or key in self._edges

    def __iter__(self) -> Iterator[tuple[str | EdgeTypeName, TypeData]]:
        """Iterate over (type, what it has): node types, then edge types."""
        yield from self._nodes.items()
        yield from self._edges.items()

    def collect(self, name: str) -> dict[Any, Any]:
        """Return one attribute of all types that have it: `batch.collect("x")` is `batch.x_dict`."""
        return {key: data[name] for key, data in self if name in data}

    def __getattr__(self, name: str) -> Any:
        """Collect an attribute by type: `batch.x_dict`."""
        if name.endswith("_dict") and not name.startswith("_"):
            found = self.collect(name.removesuffix("_dict"))
            if found:
                return found
            has = sorted({key for _, data in self for key, _ in data})
            raise AttributeError(f"no type of the batch has {name.removesuffix('_dict')!r}; they have {has}")
        raise AttributeError(f"a HeteroBatch has no attribute {name!r}; attributes belong to types: batch[type].{name}")

    def to(self, device: Any, non_blocking: bool = False) -> HeteroBatch:
        """Return the batch with every tensor on `device`."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def to_pyg(self) -> Any:
        """Return a `torch_geometric.data.HeteroData` over the same memory (needs `graphzero[pyg]`)."""
        from torch_geometric.data import HeteroData

        data = HeteroData()
        for key, values in self:
            data[key].update(dict(values))
        for key, values in self._nodes.items():
            data[key].num_nodes = values.num_nodes
        return data

    to_hetero_data = to_pyg

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> HeteroBatch:
        """Return a copy with every tensor changed."""
        made = HeteroBatch(
            {key: data._map(change) for key, data in self._nodes.items()},
            {key: data._map(change) for key, data in self._edges.items()},
        )
        added = {k: v for k, v in self.__dict__.items() if k not in made.__dict__}  # by the user
        made.__dict__.update(changed(added, change))
        return made

    def __repr__(self) -> str:
        """Show shapes by type, one type per line, as PyG does."""
        lines = [f"  {key if isinstance(key, str) else ', '.join(key)}={data}," for key, data in self]
        return "HeteroBatch(\n" + "\n".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        """Return a table of shapes by type, for notebooks."""
        rows = [
            (" ".join([key] if isinstance(key, str) else key) if i == 0 else "", *row)
            for key, data in self
            for i, row in enumerate(html_rows(data))
        ]
        return html_table("HeteroBatch", rows, ("type", "attribute", "shape or value", "dtype"))


AnyBatch = Batch | HeteroBatch


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor, without importing torch."""
    return hasattr(value, "detach") and hasattr(value, "to")


def shape_of(value: Any) -> str:
    """Show a tensor by its shape, anything else as it is."""
    return str(list(value.shape)) if is_tensor(value) else repr(value)


def html_rows(data: Attributes) -> list[tuple[str, str, str]]:
    """Return name, shape and dtype of each attribute."""
    return [(k, shape_of(v), str(v.dtype).removeprefix("torch.") if is_tensor(v) else "") for k, v in data]


def changed(values: Mapping[str, Any], change: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """Return the values with every tensor changed."""
    return {name: change(value) if is_tensor(value) else value for name, value in values.items()}
