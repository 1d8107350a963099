"""The arguments of a loader (features, seeds, times, labels), checked and in the form that it works with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.dtypes import dtype_name, refuse_text
from ..args.ids import IdArray, as_ids
from ..args.times import as_times
from ..dataset.dataset import Dataset
from ..stores.features import FeatureStore
from .batch import ATTRIBUTES

if TYPE_CHECKING:
    import torch

Features = FeatureStore | Sequence[FeatureStore] | Mapping[str, FeatureStore] | None


def find_split(
    types: Mapping[Any, Any], split: str, of_type: Any, *, kind: str, option: str, word: str = "split"
) -> tuple[Any, IdArray]:
    """Return the type that has a split, and the split; ValueError unless `of_type`, or exactly one type, has it."""
    has = {name: list(data.splits) for name, data in types.items() if data.splits}
    if of_type is not None and of_type not in list(types):
        raise ValueError(f"no {kind} type {of_type!r}; the dataset has {', '.join(map(repr, types))}")
    having = [name for name in has if split in has[name] and of_type in (None, name)]
    if not having:
        listed = "; ".join(f"{name!r}: {', '.join(splits)}" for name, splits in has.items()) or "none"
        of = "" if of_type is None else f" of {kind} type {of_type!r}"
        raise ValueError(f"no {word} {split!r}{of}; the dataset has {word}s {listed}")
    if len(having) > 1:
        found = ", ".join(map(repr, having))
        raise ValueError(f"{word} {split!r} exists for several {kind} types, {found}; choose one with {option}=")
    return having[0], types[having[0]].splits[split]


def seeds_or_split(
    data: Any, seeds: Any, split: str | None, of_type: Any, find: Callable[..., tuple[Any, Any]], name: str
) -> tuple[Any, Any]:
    """Return the type of the seeds, where it is known, and the seeds: those given, or those of a dataset's split."""
    if split is None:
        return of_type, seeds
    if seeds is not None:
        raise ValueError(f"pass either split={split!r} or {name}=")
    if not isinstance(data, Dataset):
        raise ValueError(f"split is {split!r}, but only a Dataset has splits; pass one, or {name}=")
    found, seeds = find(data, split, of_type)
    return found if data.is_typed else of_type, seeds


def seeds_of_type(
    seeds: Any, of_type: Any, types: list[Any], is_type: Callable[[Any], bool], *, kind: str, option: str, name: str
) -> tuple[Any, Any]:
    """Return the type of the seeds and the seeds, which may be given as `(type, seeds)` or `{type: seeds}`."""
    named = None
    if isinstance(seeds, Mapping):
        if len(seeds) != 1:
            raise ValueError(f"{name} are of types {list(seeds)}, expected one {kind} type; create a loader for each")
        named, seeds = next(iter(seeds.items()))
    elif isinstance(seeds, (tuple, list)) and len(seeds) == 2 and is_type(seeds[0]):
        named, seeds = seeds
    if named is not None and of_type is not None and as_type(of_type) != as_type(named):
        raise ValueError(f"{name} are of type {as_type(named)!r}, but {option} is {of_type!r}")
    of_type = of_type if named is None else named
    if of_type is None and len(types) == 1:
        of_type = types[0]
    if of_type is None:
        example = f"Pass {option}= or {name}=(type, {'ids' if kind == 'node' else name})"
        listed = ", ".join(map(repr, types))
        raise ValueError(f"the type of the {name} is unknown. {example}; the graph has {kind} types {listed}")
    return as_type(of_type), seeds


def as_type(name: Any) -> Any:
    """Return a node type as it is, an edge type as a tuple."""
    return tuple(name) if isinstance(name, list) else name


def named_features(
    features: Features,
    default: str,
    dtype: str | None,
    *,
    kind: type,
    where: str,
) -> dict[str, tuple[FeatureStore, str | None]]:
    """Name each store: the user's name in a dict, the array's own in a list, `default` for a single store.

    Return each store with the dtype to convert its rows to. They become attributes of a `kind`, whose own names are
    taken; messages begin with `where`.
    """
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
            raise ValueError(f"{where}two features have the same name; pass a dict to rename them")
    else:
        named = {default: features}
    for name, store in named.items():
        if not isinstance(store, FeatureStore):
            raise TypeError(
                f"{where}feature {name!r} must be a FeatureStore, got {type(store).__name__}; gz.compile_features "
                "writes a .gd file of rows, gz.FeatureStore(path) opens it"
            )
        if not isinstance(name, str) or not name.isidentifier() or name in ATTRIBUTES or hasattr(kind, name):
            raise ValueError(
                f"{where}feature name {name!r} is reserved or not a valid identifier; pass a dict to rename it"
            )
    return {name: (store, _converted(store, dtype)) for name, store in named.items()}


def _converted(store: FeatureStore, dtype: str | None) -> str | None:
    if store.scale is not None:  # a model needs the numbers that the int8 values represent
        return "float32"
    return dtype if store.dtype_name in ("float16", "bfloat16", "int8") else None


def wanted_dtype(dtype: Any) -> str | None:
    """Return the dtype to convert features to; None keeps the file's."""
    if dtype is None:
        return None
    if dtype_name(dtype) != "float32":
        raise ValueError(f"dtype is {dtype_name(dtype)!r}, expected 'float32' or None (as on disk)")
    return "float32"


def resolve_seeds(seeds: Any, num_nodes: int) -> IdArray | npt.NDArray[np.int32] | None:
    """Return the seeds without a copy where possible; None means all nodes."""
    if seeds is None:
        return None
    if isinstance(seeds, FeatureStore):
        return _whole_numbers(seeds, "seeds")
    array = seeds.detach().cpu().numpy() if hasattr(seeds, "detach") else np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"seeds is a mask of shape {array.shape}, expected ({num_nodes},)")
        return np.flatnonzero(array).astype(np.int64, copy=False)
    if array.dtype == np.int32 and array.ndim == 1 and array.flags.c_contiguous:
        return array
    return as_ids(seeds, "seeds")


def resolve_time(time: Any, count: int | None = None) -> IdArray | None:
    """Return one timestamp per seed as int64: dates as seconds since 1970; a single one is repeated `count` times."""
    if time is None:
        return None
    return _whole_numbers(time, "time") if isinstance(time, FeatureStore) else as_times(time, count=count)


def _whole_numbers(store: FeatureStore, name: str) -> IdArray:
    """Read a vector of integers by checked reads: a page that cannot be read is an error, not zeros."""
    if len(store.shape) != 1 or store.dtype.kind not in "iu" or store.dtype_name == "bfloat16":
        raise TypeError(
            f"{name} must be a vector of integers; {store.path}: {store.name!r} has shape {store.shape} and dtype "
            f"{store.dtype_name}"
        )
    return as_ids(store.gather(np.arange(store.shape[0])), name)


class Labels:
    """The labels of all nodes: an array in memory, or a `FeatureStore` from which each batch reads its rows."""

    def __init__(self, labels: Any, num_nodes: int) -> None:
        """Check the shape; nothing is read."""
        import torch

        self._num_nodes = num_nodes
        self._store = labels if isinstance(labels, FeatureStore) else None
        self._tensor: torch.Tensor | None = None
        if self._store is not None:
            shape = self._store.shape
            # These two are numbers on disk only through their decoding; the rest is what it is.
            decoded = self._store.scale is not None or self._store.dtype_name == "bfloat16"
            self._dtype = "float32" if decoded else None
        else:
            self._tensor = labels if isinstance(labels, torch.Tensor) else _label_tensor(labels)
            shape = tuple(self._tensor.shape)
        if shape[:1] != (num_nodes,):
            raise ValueError(f"labels has shape {shape}, expected an entry for each of {num_nodes} nodes")
        item = self._tensor.element_size() if self._tensor is not None else max(labels.dtype.itemsize, 4)
        self.nbytes = math.prod(shape) * item  # of all of them, at most

    @property
    def is_file(self) -> bool:
        """Whether they are in a file, which does not change."""
        return self._store is not None

    def check(self) -> None:
        """Raise StorageError if labels that were read are a view of a file that could not be read."""
        if self._tensor is not None and not self.is_on_device:
            _core.check_view(self._tensor.data_ptr(), "labels")

    @property
    def is_on_device(self) -> bool:
        """Whether they are a tensor that is not in the memory of the host."""
        return self._tensor is not None and self._tensor.device.type != "cpu"

    def is_same(self, other: Labels) -> bool:
        """Whether both are the same file, or the same memory."""
        a, b = self._tensor, other._tensor
        if a is None or b is None:
            return self._store is other._store
        return bool(_memory_of(a) == _memory_of(b))

    def all(self) -> torch.Tensor:
        """Return the labels of all nodes."""
        return self.of(np.arange(self._num_nodes)) if self._tensor is None else self._tensor

    def of(self, ids: IdArray) -> torch.Tensor:
        """Return the labels of these nodes. Raises StorageError when the file they are in cannot be read."""
        import torch

        if self._store is not None:
            found: torch.Tensor = self._store.gather(ids, dtype=self._dtype, num_threads=1, as_torch=True)
            return found
        assert self._tensor is not None
        found = self._tensor[torch.from_numpy(ids)]
        self.check()
        return found


def _memory_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _label_tensor(labels: Any) -> torch.Tensor:
    import torch

    array = np.asarray(labels)
    refuse_text(array, "labels")
    if array.dtype.kind not in "iufb":
        raise TypeError(f"labels must be numbers, got dtype {array.dtype}")
    return torch.from_numpy(array if array.flags.writeable else array.copy())  # torch has no read-only memory
