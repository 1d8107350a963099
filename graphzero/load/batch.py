"""One mini-batch, with the names that PyG users know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["Batch"]


class Attributes:
    """Named values of nodes and their edges: what a batch of one type is, and what one of several holds for a type."""

    n_id: torch.Tensor
    edge_index: torch.Tensor

    def __init__(self, **attributes: Any) -> None:
        """Hold these attributes."""
        self.__dict__.update(attributes)

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


class Batch(Attributes):
    """A sampled subgraph with its rows: what `NeighborLoader` yields.

    Attributes, all torch tensors unless said otherwise:

    - `x` and the other named features: a row for each node of `n_id`; `edge_attr` and the other edge features: a row
      for each edge of `e_id`
    - `y`: the labels of the seeds, `batch_size` of them
    - `edge_index`: (2, E), row 0 the neighbour, row 1 the node it was sampled for, both positions in `n_id`
    - `n_id`: global node ids, the seeds first; `e_id`: edge ids
    - `batch_size`: how many seeds (int); `input_id`: their positions among the loader's seeds
    - `num_sampled_nodes`, `num_sampled_edges`: how many each hop added (lists of int)
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

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
        """Return the batch with every tensor changed."""
        return Batch(**{k: change(v) if is_tensor(v) else v for k, v in self})

    def _tensors(self) -> Iterator[torch.Tensor]:
        return (value for _, value in self if is_tensor(value))

    def to_pyg(self) -> Any:
        """Return a `torch_geometric.data.Data` with the same attributes (needs `graphzero[pyg]`)."""
        from torch_geometric.data import Data

        data = Data(**self.__dict__)
        data.num_nodes = self.num_nodes
        return data

    def __repr__(self) -> str:
        """Show shapes, as PyG does: `Batch(x=[423, 128], edge_index=[2, 576], batch_size=16)`."""
        return f"Batch({', '.join(f'{k}={shape_of(v)}' for k, v in self)})"


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor, without importing torch."""
    return hasattr(value, "detach") and hasattr(value, "to")


def shape_of(value: Any) -> str:
    """Show a tensor by its shape, anything else as it is."""
    return str(list(value.shape)) if is_tensor(value) else repr(value)
