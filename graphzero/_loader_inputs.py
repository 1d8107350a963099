"""What a loader is given (features, seeds, labels), checked and in the form that it works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._dtypes import dtype_name
from ._ids import as_ids
from .batch import Batch
from .features import FeatureStore

if TYPE_CHECKING:
    import torch

# Attributes of a batch that features may not be called.
_TAKEN = {
    *("y", "edge_index", "n_id", "e_id", "input_id", "batch", "batch_size", "seed_time"),
    *("num_sampled_nodes", "num_sampled_edges"),
}
Features = FeatureStore | Sequence[FeatureStore] | Mapping[str, FeatureStore] | None


def named_parts(features: Features, default: str, dtype: str | None, *, by_edge: bool = False) -> dict[str, Any]:
    """Name each store: the user's name in a dict, the array's own in a list, `default` for a single store."""
    if features is None:
        return {}
    named: dict[str, Any]
    if isinstance(features, FeatureStore):
        named = {default: features}
    elif isinstance(features, Mapping):
        named = dict(features)
    elif isinstance(features, (list, tuple)):
        named = {getattr(store, "name", f"[{i}]"): store for i, store in enumerate(features)}
        if len(named) != len(features):
            raise ValueError("two features have the same name: pass a dict that names them")
    else:
        named = {default: features}
    for name, store in named.items():
        if not isinstance(store, FeatureStore):
            raise TypeError(
                f"feature {name!r} must be a FeatureStore, got {type(store).__name__}: gz.compile_features makes a .gd "
                "file of rows, gz.FeatureStore(path) opens it"
            )
        if not isinstance(name, str) or not name.isidentifier() or name in _TAKEN or hasattr(Batch, name):
            raise ValueError(f"feature name {name!r} is taken or no attribute name: pass a dict with other names")
    return {name: (store, by_edge, _converted(store, dtype)) for name, store in named.items()}


def _converted(store: FeatureStore, dtype: str | None) -> str | None:
    if dtype is None or store.dtype_name == dtype or store.dtype_name not in ("float16", "bfloat16", "int8", "float32"):
        return None
    return dtype


def wanted_dtype(dtype: Any) -> str | None:
    if dtype is None:
        return None
    if dtype_name(dtype) != "float32":
        raise ValueError(f"dtype is {dtype_name(dtype)!r}, expected 'float32' or None (as on disk)")
    return "float32"


def resolve_seeds(seeds: Any, num_nodes: int) -> _core.Numbers:
    """Return the seeds without a copy where their array will do; None is a range, which takes no memory."""
    if seeds is None:
        return _core.Numbers.range(num_nodes)
    array = seeds.detach().cpu().numpy() if hasattr(seeds, "detach") else np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"seeds is a mask of shape {array.shape}, expected ({num_nodes},)")
        return _core.Numbers(np.flatnonzero(array).astype(np.int64, copy=False))
    if array.dtype == np.int32 and array.ndim == 1 and array.flags.c_contiguous:
        return _core.Numbers(array)
    return _core.Numbers(as_ids(seeds, "seeds"))


def as_labels(labels: Any, num_nodes: int) -> torch.Tensor | None:
    if labels is None:
        return None
    import torch

    if isinstance(labels, FeatureStore):
        labels = labels.get_tensor()
    if not isinstance(labels, torch.Tensor):
        labels = np.asarray(labels)
        if labels.dtype.kind not in "iufb":
            raise TypeError(f"labels must be numbers, one for each node, got dtype {labels.dtype}")
        labels = torch.from_numpy(labels if labels.flags.writeable else labels.copy())  # torch has no read-only memory
    tensor: torch.Tensor = labels
    if tensor.shape[:1] != (num_nodes,):
        raise ValueError(f"labels has shape {tuple(tensor.shape)}, expected an entry for each of {num_nodes} nodes")
    return tensor
