"""Maps between the ids of nodes before and after a dataset was reordered."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.ids import IdArray, as_ids
from ..args.suggest import did_you_mean
from ..errors import FormatError
from ..stores.features import FeatureStore
from ..stores.idmap import IdMap

_CHUNK = 1 << 20  # numbers per block in verify
ORIGINAL, NEW = "original", "new"  # arrays of the file: by new id, by original id


class NodeIds:
    """New ids from original ones and back: `ds.ids.to_new([5])`, `ds.ids.to_original(batch.n_id)`.

    Nothing is loaded: only the requested ids are read from the file. In a dataset that was not reordered, both return
    their argument.
    """

    def __init__(
        self, count: int, path: tuple[str, tuple[str, ...]] | None, keys: Sequence[tuple[str, str]] | None = None
    ) -> None:
        """Take the file with the ids of `count` nodes, and its deltas; None if they were not reordered.

        `keys` are the files of the map to the ids of the source, if they were mapped, and of its deltas.
        """
        self._keys = None if keys is None else IdMap(*keys[0], deltas=keys[1:])
        self.types: Mapping[str, NodeIds] = {}
        self._count = count
        self._path: str | None = None if path is None else path[0]
        self._deltas = () if path is None else path[1]
        self._mounted: FeatureStore | None = None
        with contextlib.suppress(FormatError):  # raised on use
            self._store()  # opened now, so that ids stay valid if the dataset is replaced

    @property
    def changed(self) -> bool:
        """Whether the dataset was reordered, so that ids differ from the original ones."""
        return self._path is not None

    @property
    def mapped(self) -> bool:
        """Whether the source's own ids were mapped, so that they are strings or sparse integers."""
        return self._keys is not None

    @property
    def keys(self) -> IdMap | None:
        """The map to the source's own ids, of nodes as they were before a reorder; None if they were not mapped."""
        return self._keys

    def to_original(self, ids: Any) -> Any:
        """Return the original ids of nodes of this dataset, as int64; a torch tensor for a torch tensor.

        If the ids of the source were mapped, returns those: a list of strings, or int64.
        """
        found = self._look_up(ids, ORIGINAL)
        return found if self._keys is None else self._keys.to_original(found)

    def to_dense(self, ids: Any, *, missing: str = "raise") -> IdArray:
        """Return the ids in this dataset of nodes given by the ids of the source, as int64.

        missing: "raise" raises KeyError for the first unknown id; "mark" returns -1 for unknown ids.
        """
        if self._keys is None:
            raise ValueError("this dataset has no id map (ids='map'), so its ids are those of the source")
        found = self._keys.to_dense(ids, missing=missing)
        if not self.changed:
            return found
        known = found >= 0
        found[known] = self._look_up(found[known], NEW)
        return found

    def __getitem__(self, node_type: str) -> NodeIds:
        """Return the ids of one node type."""
        if node_type not in self.types:
            hint = did_you_mean(node_type, self.types)
            raise KeyError(f"no node type {node_type!r}; the dataset has {', '.join(map(repr, self.types))}{hint}")
        return self.types[node_type]

    def to_new(self, ids: Any) -> Any:
        """Return the ids in this dataset of nodes given by their original ids, as int64."""
        return self._look_up(ids, NEW)

    def arrays(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Return original ids by new id and new ids by original id, views of the file; None if nothing changed."""
        store = self._store()
        return None if store is None else (store[ORIGINAL].get_tensor(), store[NEW].get_tensor())

    def verify(self, step: int = 1 << 20) -> None:
        """Raise FormatError unless the two arrays are inverse permutations."""
        arrays = self.arrays()
        if arrays is None:
            return
        there, back = arrays
        for name, ids in ((ORIGINAL, there), (NEW, back)):
            check_range(ids, 0, self._count, f"{self._path}: {name}", "node id")
        for at in range(0, self._count, step):
            part = there[at : at + step]
            bad = np.flatnonzero(back[part] != np.arange(at, at + len(part)))
            if bad.size:
                node = at + int(bad[0])
                raise FormatError(
                    f"{self._path}: new[original[{node}]] = {back[there[node]]}, expected {node} (not inverse)"
                )

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self._count

    def __repr__(self) -> str:
        """Return `NodeIds(1,000 nodes, reordered)`."""
        return f"NodeIds({self._count:,} nodes, {'reordered' if self.changed else 'not reordered'})"

    def _store(self) -> FeatureStore | None:
        if self._mounted is None and self._path is not None:
            self._mounted = self._mount(self._path)
        return self._mounted

    def _mount(self, path: str) -> FeatureStore:
        store = FeatureStore(path, deltas=self._deltas)
        for name in (ORIGINAL, NEW):
            if name not in store.names or len(store[name].shape) != 1 or store[name].dtype.kind != "i":
                raise FormatError(f"{path}: expected vectors of integers 'original' and 'new', found {store.names}")
        if store.num_nodes != self._count:
            raise FormatError(f"{path}: has {store.num_nodes} rows, expected {self._count}, one per node")
        return store

    def _look_up(self, ids: Any, name: str) -> Any:
        wanted = as_ids(ids)
        store = self._store()
        if store is None:
            _core.check_ids(wanted, "ids", self._count, "nodes")
            found = wanted.copy()
        else:
            found = store.gather(wanted, name=name).astype(np.int64)
        if hasattr(ids, "detach"):
            import torch

            return torch.from_numpy(found)
        return found


def check_range(values: npt.NDArray[Any], least: int, past: int, where: str, what: str) -> None:
    """Raise FormatError at the first of `values` that is out of range."""
    for begin in range(0, len(values), _CHUNK):
        part = values[begin : begin + _CHUNK]
        bad = np.flatnonzero((part < least) | (part >= past))
        if bad.size:
            at = begin + int(bad[0])
            raise FormatError(f"{where}[{at}] = {values[at]}, expected a {what} from {least} to {past - 1}")
