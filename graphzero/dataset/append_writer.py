"""Writes the files of an append: deltas of what grows, and new files of splits that lose ids or get older ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..args.progress import Callback
from ..compile.features import compile_features
from ..sources.keys import keys_of
from ..stores.features import FeatureStore
from .append_plan import AppendPlan, ChangedEdges
from .appended_nodes import NewNodes
from .change import Change
from .manifest import ArrayRef, EdgeType, Manifest, NodeType, edge_key
from .node_ids import NEW, ORIGINAL

__all__ = ["AppendWriter"]


class AppendWriter:
    """Writes what an `AppendPlan` says, in the folder of a `Change`."""

    def __init__(self, change: Change, plan: AppendPlan, threads: int) -> None:
        """Prepare; nothing is written yet."""
        self._change, self._plan, self._threads = change, plan, threads
        self._before: Manifest = change.before
        self._deltas = {file: list(added) for file, added in self._before.deltas.items()}
        self._callback: Callback | None = None
        self.files: list[str] = []
        self.edges = {"added": 0, "removed": 0, "duplicates_dropped": 0, "self_loops_dropped": 0}  # without reverses

    def write(self, callback: Callback | None) -> Manifest:
        """Write every file; return the manifest that names them."""
        self._callback = callback
        edges = {key: self._edge_type(entry) for key, entry in self._before.edges.items()}
        nodes = {name: self._node_type(name, entry) for name, entry in self._before.nodes.items()}
        after = replace(self._before, nodes=nodes, edges=edges)
        base = set(after.base_files())  # a split that was rewritten has no deltas
        return replace(after, deltas={file: tuple(added) for file, added in self._deltas.items() if file in base})

    # -- edges --------------------------------------------------------------------------------------------------------

    def _edge_type(self, entry: EdgeType) -> EdgeType:
        change, nodes = self._plan.edges[entry.type], self._plan.nodes
        ends = nodes[entry.source], nodes[entry.target]
        if change.changes or any(end.count for end in ends):
            self._topology(entry, change, ends[0].total, ends[1].total)
        if change.features:
            self._rows({ref.file: {} for ref in entry.features.values()}, entry.features, change.features)
        splits = {
            name: self._split(ref, change.splits.get(name), change.gone, change.data.splits[name])
            for name, ref in entry.splits.items()
        }
        count = None if entry.count is None else entry.count + change.given
        return replace(entry, splits=splits, count=count)

    def _topology(self, entry: EdgeType, change: ChangedEdges, sources: int, targets: int) -> None:
        path, deltas = self._before.paths(self._change.folder, entry.file)
        name, out = self._new(entry.file)
        report = _core.write_topology_delta(
            path,
            list(deltas),
            out,
            num_sources=sources,
            num_targets=targets,
            sources=change.src,
            targets=change.dst,
            weights=change.weights,
            times=change.times,
            edge_ids=change.edge_ids,
            removed_sources=change.removed[0],
            removed_targets=change.removed[1],
            removed_edge_ids=change.removed_ids,
            memory=self._plan.memory,
            threads=self._threads,
            progress=self._callback,
        )
        if report["missing"]:
            raise ValueError(f"remove_edges: {report['missing']} edges do not exist in {edge_key(entry.type)}")
        if report["duplicates_dropped"] and change.weights is not None:
            raise ValueError(
                f"edges: {report['duplicates_dropped']} edges of {edge_key(entry.type)} exist already. The graph was "
                "compiled without duplicates, and how weights are combined is not stored in it: omit these edges, name "
                "them in remove_edges as well, or compile everything again"
            )
        if not self._plan.is_mirror(entry.type):
            for what in self.edges:
                self.edges[what] += int(report[what])
        self._deltas.setdefault(entry.file, []).append(name)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _node_type(self, name: str, entry: NodeType) -> NodeType:
        node = self._plan.nodes[name]
        gone = self._plan.removed_nodes.get(name, np.empty(0, np.int64))
        splits = {
            split: self._split(ref, node.splits.get(split), gone, node.data.splits[split])
            for split, ref in entry.splits.items()
        }
        labels = entry.labels and replace(entry.labels, classes=max(entry.labels.classes, node.num_classes))
        if node.count:
            refs = {f"features.{key}": ref for key, ref in entry.features.items()}
            rows = {f"features.{key}": values for key, values in node.rows.items()}
            if entry.labels is not None and node.labels is not None:
                refs["labels"], rows["labels"] = entry.labels, node.labels
            self._rows({ref.file: {} for ref in refs.values()}, refs, rows)
            if entry.ids is not None:
                ids = np.arange(node.before, node.total)
                self._feature_delta(entry.ids, {ORIGINAL: ids, NEW: ids})
            self._keys(entry, node)
        return replace(entry, count=node.total, splits=splits, labels=labels)

    def _keys(self, entry: NodeType, node: NewNodes) -> None:
        """Write the map of the new original ids; their ids follow those of the maps before it."""
        if entry.keys is None:
            return
        name, out = self._new(entry.keys.file)
        text = self._new(entry.keys.text) if entry.keys.text else ("", "")
        keys = keys_of(node.keys)
        builder = _core.IdMapBuilder(
            text=keys[0] is not None, memory=self._plan.memory, threads=self._threads, spill_folder=os.path.dirname(out)
        )
        builder.map(*keys)
        builder.close()
        builder.write(out, text[1], None)
        self._deltas.setdefault(entry.keys.file, []).append(name)
        if entry.keys.text:
            self._deltas.setdefault(entry.keys.text, []).append(text[0])

    # -- files --------------------------------------------------------------------------------------------------------

    def _new(self, file: str) -> tuple[str, str]:
        name, path = self._change.target(file)
        self.files.append(path)
        return name, path

    def _rows(
        self, files: dict[str, dict[str, Any]], refs: Mapping[str, ArrayRef], rows: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        """Write a delta of each file, with the rows of all of its arrays."""
        for key, values in rows.items():
            files[refs[key].file][refs[key].array] = values
        for file, arrays in files.items():
            if any(map(len, arrays.values())):
                self._feature_delta(file, arrays)

    def _feature_delta(self, file: str, rows: dict[str, npt.NDArray[Any]]) -> None:
        """Write a delta of one file; arrays that the manifest does not name get rows of zeros."""
        path, deltas = self._before.paths(self._change.folder, file)
        count = len(next(iter(rows.values())))
        given = {}
        with FeatureStore(path, deltas=deltas) as store:
            for array in store.names:
                one = store[array]
                own = rows.get(array, np.zeros((count, *one.shape[1:]), one.dtype))
                given[array] = np.ascontiguousarray(own, dtype=one.dtype)
        name, out = self._new(file)
        _core.write_feature_delta(
            path, list(deltas), out, list(given.items()), threads=self._threads, progress=self._callback
        )
        self._deltas.setdefault(file, []).append(name)

    def _split(
        self,
        ref: ArrayRef,
        added: npt.NDArray[np.int64] | None,
        gone: npt.NDArray[np.int64],
        old: npt.NDArray[np.int64],
    ) -> ArrayRef:
        """Add ids to a split and take others out: by a delta if the new ones come last, otherwise in a new file."""
        lost = old.ndim == 1 and len(gone) > 0 and bool(np.isin(old, gone).any())
        if not lost and (added is None or not len(added)):
            return ref
        added = np.empty((0, *old.shape[1:]), np.int64) if added is None else added
        last = old.ndim == 2 or not len(old) or not len(added) or added[0] > old[-1]
        users = [one for one in self._before.array_refs() if one.file == ref.file]
        if last and not lost and len(users) == 1:
            self._feature_delta(ref.file, {ref.array: added})
            return ref
        whole = np.concatenate([old, added])
        if old.ndim == 1:
            whole = np.sort(whole[~np.isin(whole, gone)])
        name, out = self._new(ref.file)
        compile_features(whole, out, name=ref.array, num_threads=self._threads or None, progress=False)
        return replace(ref, file=name)
