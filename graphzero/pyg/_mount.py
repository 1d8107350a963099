"""Graphs for a sampler: mounted files, or objects in memory compiled into files once and mounted."""

from __future__ import annotations

import hashlib
import os
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from ..compile.graph import compile_graph
from ..dataset.dataset import Dataset
from ..stores.graph import Graph
from ..stores.hetero import HeteroGraph
from ._edges import HOMOGENEOUS, EdgeList, EdgeType, GraphContents, as_times, describe, is_remote
from ._temporary import make_folder, remove_with
from .stores import FeatureStore, GraphStore

__all__ = ["MountedGraph", "mount"]


@dataclass(eq=False)
class MountedGraph:
    """Mounted topologies by edge type, with the data for temporal and weighted sampling.

    With `backward`, edges are followed from source to target: those of objects in memory are stored reversed, under
    reversed types; a mounted homogeneous graph uses its out-rows. Immutable; pickles as the paths of its files.
    """

    homogeneous: bool
    num_nodes: dict[str, int]
    relations: dict[EdgeType, Graph]
    node_time: dict[str, torch.Tensor] = field(default_factory=dict)
    edge_timed: bool = False
    weighted: bool = False
    side: str = "in"  # which rows of a homogeneous file are followed
    owner: CompiledEdges | None = None  # removes temporary files with its last reference

    @property
    def graph(self) -> Graph:
        """The topology of a homogeneous graph."""
        return self.relations[HOMOGENEOUS]

    def typed(self) -> HeteroGraph:
        """All topologies as one graph."""
        return HeteroGraph(self.relations, self.num_nodes)

    def __getstate__(self) -> dict[str, Any]:
        """Omit the owner: a worker uses the files, its parent removes them."""
        return {**self.__dict__, "owner": None}

    def __copy__(self) -> MountedGraph:
        """Return self, which is immutable, so that copies keep the files."""
        return self

    def __deepcopy__(self, _: Any) -> MountedGraph:
        """Return self."""
        return self


def mount(
    data: Any,
    time_attr: str | None = None,
    weight_attr: str | None = None,
    *,
    backward: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> MountedGraph:
    """Return `data` as a mounted graph; what is in memory is compiled, into `cache_dir` or a temporary folder."""
    if isinstance(data, Dataset):
        return _of_dataset(data, time_attr, weight_attr, backward)
    if isinstance(data, Graph):
        return _of_files({HOMOGENEOUS: data}, {"node": data.num_nodes}, True, time_attr, weight_attr, backward)
    if isinstance(data, HeteroGraph):
        relations = {edge_type: data[edge_type] for edge_type in data.edge_types}
        return _of_files(relations, data.num_nodes, False, time_attr, weight_attr, backward)
    if is_remote(data) and isinstance(data[1], GraphStore):
        return _of_stores(data[0], data[1], time_attr, weight_attr, backward)
    contents = describe(data, time_attr, weight_attr)
    if backward:
        contents.edges = {t[::-1]: edges.reversed() for t, edges in contents.edges.items()}
    return mount_contents(contents, cache_dir)


# -- objects in memory ------------------------------------------------------------------------------------------------


class CompiledEdges:
    """Files compiled from edges in memory: in a temporary folder removed with this object, or in a cache folder."""

    def __init__(self, edges: dict[EdgeType, EdgeList], cache_dir: str | os.PathLike[str] | None) -> None:
        """Compile each type, unless the cache folder has it."""
        self.sources = edges  # kept alive, so that their addresses are not reused (see _shared)
        if cache_dir is None:
            folder = make_folder()
            remove_with(self, folder)
        else:
            folder = _cache_folder(edges, os.fspath(cache_dir))
        self.graphs = {t: _compile(e, os.path.join(folder, f"{i}.gl")) for i, (t, e) in enumerate(edges.items())}


# Graphs in use, by address and version of their source tensors: the loaders of one object for training, validation
# and test share one file.
_shared: weakref.WeakValueDictionary[Any, CompiledEdges] = weakref.WeakValueDictionary()


def mount_contents(contents: GraphContents, cache_dir: str | os.PathLike[str] | None = None) -> MountedGraph:
    """Compile and mount edges in memory, or reuse those of a sampler of the same tensors."""
    key = _key(contents.edges, cache_dir)
    made = _shared.get(key) if key is not None else None
    if made is None:
        made = CompiledEdges(contents.edges, cache_dir)
        if key is not None:
            _shared[key] = made
    return MountedGraph(
        contents.homogeneous,
        contents.num_nodes,
        made.graphs,
        contents.node_time,
        contents.edge_timed,
        contents.weighted,
        owner=made,
    )


def _key(edges: dict[EdgeType, EdgeList], cache_dir: Any) -> Any:
    """Return a key that identifies edges in memory; None if torch does not track changes of a tensor."""
    parts: list[Any] = [None if cache_dir is None else os.path.abspath(os.fspath(cache_dir))]
    for edge_type, edge_list in edges.items():
        parts.append((edge_type, edge_list.num_sources, edge_list.num_targets))
        for tensor in (edge_list.row, edge_list.col, edge_list.weights, edge_list.times):
            if tensor is None:
                parts.append(None)
            elif tensor.is_inference():
                return None
            else:
                parts.append((tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor._version))
    return tuple(parts)


def _compile(edges: EdgeList, path: str) -> Graph:
    if not os.path.exists(path):  # it may exist in a cache folder
        sizes = (edges.num_sources, edges.num_targets)
        compile_graph(
            (edges.row, edges.col),
            path,
            directed=True,
            direction="in",
            weights=edges.weights,
            times=edges.times,
            edge_ids=True,
            num_nodes=sizes[0] if sizes[0] == sizes[1] else sizes,
            progress=False,
        )
    return Graph(path)


def _cache_folder(edges: dict[EdgeType, EdgeList], cache_dir: str) -> str:
    """Return the folder for edges of this content."""
    digest = hashlib.blake2b(digest_size=16)
    for edge_type, edge_list in edges.items():
        digest.update(repr((edge_type, edge_list.num_sources, edge_list.num_targets)).encode())
        for tensor in edge_list.tensors():
            digest.update(repr((tensor.dtype, tuple(tensor.shape))).encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
    folder = os.path.join(os.path.abspath(cache_dir), digest.hexdigest())
    os.makedirs(folder, exist_ok=True)
    return folder


# -- files ------------------------------------------------------------------------------------------------------------


def _of_files(
    relations: dict[EdgeType, Graph],
    num_nodes: dict[str, int],
    homogeneous: bool,
    time_attr: str | None,
    weight_attr: str | None,
    backward: bool,
    node_time: dict[str, torch.Tensor] | None = None,
) -> MountedGraph:
    """Combine mounted files. Times and weights of edges are those of the files, whatever the attribute names."""
    if backward and not homogeneous:
        raise NotImplementedError("sample_direction='backward' is not supported for typed files")
    edge_timed = time_attr is not None and not node_time
    for graph in relations.values():
        if weight_attr is not None and not graph.has_weights:
            raise ValueError(f"weight_attr={weight_attr!r}: {graph.path} has no weights; compile it with weights")
        if edge_timed and homogeneous and not graph.has_times:
            raise ValueError(f"time_attr={time_attr!r}: {graph.path} has no times, and no node attribute has this name")
    if edge_timed and not any(graph.has_times for graph in relations.values()):
        raise ValueError(f"time_attr={time_attr!r}: neither edges nor nodes have times")
    side = side_of(relations[HOMOGENEOUS], backward) if homogeneous else "in"
    return MountedGraph(homogeneous, num_nodes, relations, node_time or {}, edge_timed, weight_attr is not None, side)


def side_of(graph: Graph, backward: bool) -> str:
    """Return which rows of a file to follow: those by target, or by source for `backward`."""
    wanted, other = ("out", "in") if backward else ("in", "out")
    if graph.direction in (wanted, "both"):
        return wanted
    if graph.info["undirected"]:
        return other
    what = "targets of each source" if backward else "sources of each target"
    raise ValueError(
        f"{graph.path} has {other}-rows only, but sampling needs the {what}; compile it with "
        f'direction="{wanted}" or "both"'
    )


def _of_dataset(ds: Dataset, time_attr: str | None, weight_attr: str | None, backward: bool) -> MountedGraph:
    mounted = _of_stores(FeatureStore(ds), GraphStore(ds), time_attr, weight_attr, backward)
    for node_type, node in ds.nodes.items():  # including types without features or edges
        mounted.num_nodes.setdefault(node_type if ds.is_typed else "node", node.num_nodes)
    return mounted


def _of_stores(
    features: Any, graph: GraphStore, time_attr: str | None, weight_attr: str | None, backward: bool
) -> MountedGraph:
    """Use the mounted files of GraphZero's stores; nothing is compiled."""
    homogeneous = None in graph.graphs
    relations = {t or HOMOGENEOUS: g for t, g in graph.graphs.items()}
    num_nodes = {"node": relations[HOMOGENEOUS].num_nodes} if homogeneous else HeteroGraph(relations).num_nodes
    node_time = {}
    for attr in features.get_all_tensor_attrs():
        name = "node" if homogeneous else attr.group_name
        if attr.attr_name == time_attr and isinstance(name, str):
            attr.index = None
            node_time[name] = as_times(features.get_tensor(attr), attr.attr_name)
        elif isinstance(name, str) and name not in num_nodes:
            attr.index = None
            num_nodes[name] = int(features.get_tensor_size(attr)[0])
    return _of_files(relations, num_nodes, homogeneous, time_attr, weight_attr, backward, node_time)
