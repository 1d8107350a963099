"""Imports of several node and edge types: the files of a `TypedPlan`, resumed one by one, and the dataset of them."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..args.dtypes import FLOATS
from ..args.suggest import did_you_mean
from ..compile.features import compile_features
from ..compile.graph import compile_graph
from ..compile.reports import GraphReport
from ..dataset import manifest as _manifest
from ..dataset.columns import CATEGORY, NUMBER, TIME
from ..dataset.dataset import Dataset
from ..dataset.parts import as_edge_type
from ..errors import InputError
from ..sample.hetero_subgraph import EdgeTypeName
from ..sources.rows import all_rows, is_text
from ..stores.features import FeatureStore
from .parts import (
    as_rows,
    check_dtype,
    count_of,
    drawn_splits,
    fitted,
    is_path,
    is_shares,
    label_rows,
    labelled_nodes,
    named_splits,
    stored_labels,
)
from .plan import TypedPlan
from .stage import Stage

__all__ = ["TypedWork", "choose_types", "override_typed"]


def choose_types(plan: TypedPlan, asked: Iterable[Any] | None) -> None:
    """Keep the requested edge types, given as three names or joined by underscores."""
    if asked is None:
        return
    wanted: set[EdgeTypeName] = set()
    for one in asked:
        known = next((t for t in plan.edges if one in (t, list(t), _manifest.edge_key(t))), None)
        if known is None:
            keys = [_manifest.edge_key(t) for t in plan.edges]
            raise InputError(f"no edge type {one!r}, the source has {', '.join(keys)}{did_you_mean(one, keys)}")
        wanted.add(known)
    left = [_manifest.edge_key(t) for t in plan.edges if t not in wanted]
    plan.keep(wanted)
    if left:
        plan.found.append(f"left out: {', '.join(left)}")


def override_typed(plan: TypedPlan, given: Mapping[str, Any]) -> None:
    """Put the caller's arguments, dicts by node type, over what the layout says."""
    for what, value in given.items():
        if value is None:
            continue
        if what == "splits" and is_shares(value):
            plan.shares = value
            plan.found.append(f"splits: {value}, drawn from the nodes that have a label")
            continue
        if not isinstance(value, Mapping) or any(key not in plan.nodes for key in value):
            types = ", ".join(map(repr, plan.nodes))
            raise InputError(f"{what} must be a dict by node type for this source, with some of {types}")
        for name, one in value.items():
            node = plan.nodes[name]
            if what == "features":
                named = one if isinstance(one, Mapping) else {"x": one}
                node.features |= {key: as_rows(rows, key) for key, rows in named.items()}
            elif what == "labels":
                node.labels = label_rows(one, complete=True)
            elif what == "splits":
                node.splits = named_splits(one)
            elif what == "num_classes":
                node.num_classes = one
            elif node.num_nodes not in (None, one):
                raise InputError(f"num_nodes[{name!r}] is {one}, the {plan.kind} declares {node.num_nodes}")
            else:
                node.num_nodes = one
        plan.found.append(f"{what}: as given, of {', '.join(value)}")


class TypedWork:
    """Makes the files of one import, in order: graphs, features; then labels, splits and manifest in one step."""

    def __init__(
        self, plan: TypedPlan, stage: Stage, options: dict[str, Any], dtype: Any, reverse: bool, common: dict[str, Any]
    ) -> None:
        """Take the plan; `options` of `compile_graph` apply to every edge type."""
        self.plan, self.stage, self.options, self.dtype, self.common = plan, stage, options, dtype, common
        self.reverse = reverse
        self.seconds: dict[str, float] = {}
        self.peak = 0
        self.counts: dict[str, int] = {}
        self.losses: list[str] = []
        check_dtype(dtype, [key for one in plan.parts() for key in one.features])
        for edge_type in plan.edges:
            as_edge_type(edge_type)
        if plan.shares is not None and all(node.labels is None for node in plan.nodes.values()):
            raise InputError(f"splits is {plan.shares!r}, drawn from nodes that have labels; no node type has labels")
        for name, node in plan.nodes.items():
            rows = {**node.features, "labels": node.labels}
            known = (count_of(source) for source in rows.values() if source is not None)
            count = node.num_nodes if node.num_nodes is not None else next((n for n in known if n is not None), None)
            if count is not None:
                self.counts[name] = count

    def compile(self) -> GraphReport:
        """Make the compiled files; return a report of all graphs together."""
        reports = [self._graph(edge_type) for edge_type in self.plan.edges]
        for name, node in self.plan.nodes.items():
            for key in node.features:
                self._rows(f"x.{name}.{key}.gd", key, node.features, self.counts.get(name), f"features {name} {key}")
        for (edge_type, edge), graph in zip(self.plan.edges.items(), reports, strict=True):
            for key in edge.features:
                what = f"edge features {' '.join(edge_type)} {key}"
                found = self._rows(f"e.{_manifest.edge_key(edge_type)}.{key}.gd", key, edge.features, None, what)
                if found != graph.source_edges:
                    expected = f"{graph.source_edges}, one per edge of the source"
                    raise InputError(f"{what}: {found} rows, expected {expected}")
        return _together(reports)

    def _graph(self, edge_type: EdgeTypeName) -> GraphReport:
        file = f"{_manifest.edge_key(edge_type)}.gl"
        known = self.stage.finished(file)
        if known is not None:
            return GraphReport(**known)
        start, edge = time.perf_counter(), self.plan.edges[edge_type]
        counts = self.counts.get(edge_type[0]), self.counts.get(edge_type[2])
        options = {"num_nodes": counts if edge_type[0] != edge_type[2] else counts[0], **self.options, **edge.options}
        if edge.features or any(np.ndim(ids) == 1 for ids in edge.splits.values()):
            options["edge_ids"] = True
        what = " ".join(edge_type)
        try:
            report = compile_graph(
                edge.edges, self.stage.path(file), allow_empty=True, **options, **self._announced(what)
            )
        except InputError as error:
            raise InputError(f"{edge_type}: {error}") from error
        self._account(f"edges {what}", start, report.peak_memory)
        self.stage.note(file, dataclasses.asdict(report))
        return report

    def _rows(self, file: str, key: str, sources: dict[str, Any], count: int | None, what: str) -> int:
        known = self.stage.finished(file)
        if known is not None:
            return int(known)
        start, source = time.perf_counter(), sources[key]
        exact = key in (NUMBER, CATEGORY, TIME)  # NaN and codes are kept as they are
        dtype = self.dtype if self.dtype is not None and not exact and _is_float(source) else None
        report = compile_features(
            source,
            self.stage.path(file),
            name=key,
            dtype=dtype,
            num_nodes=count,
            report_error=True,
            **self._announced(what),
        )
        self.losses += [f"{what}: {loss}" for loss in report.losses.values()]
        self._account(what, start, report.peak_memory)
        self.stage.note(file, report.nodes)
        return report.nodes

    def publish(self, target: str, overwrite: bool) -> Dataset:
        """Put the files, labels and splits into the dataset folder."""
        start, plan = time.perf_counter(), self.plan
        graphs = {t: self.stage.path(f"{_manifest.edge_key(t)}.gl") for t in plan.edges}
        counts = {**self._needed(), **self.counts}
        labels: dict[str, Any] = {}
        classes: dict[str, int] = {}
        splits: dict[str, Any] = {}
        for name, node in plan.nodes.items():
            splits[name] = dict(node.splits)
            if node.labels is not None:
                labels[name], found = stored_labels(node.labels, node.num_classes, counts[name])
                classes |= {} if found is None else {name: found}
            if plan.shares is not None and node.labels is not None:
                node.splits = {"": plan.shares}
            if "" in node.splits:
                nodes = labelled_nodes(node.labels) if node.labels is not None else None
                splits[name] = dict(drawn_splits(node.splits[""], np.arange(counts[name]) if nodes is None else nodes))
        dataset = Dataset.create(
            target,
            graphs=graphs,
            num_nodes=counts,
            features={
                name: {key: FeatureStore(self.stage.path(f"x.{name}.{key}.gd"), key) for key in node.features}
                for name, node in plan.nodes.items()
                if node.features
            },
            labels=labels,
            num_classes=classes,
            splits={name: found for name, found in splits.items() if found},
            edge_features={
                t: {k: self._store(f"e.{_manifest.edge_key(t)}.{k}.gd", k) for k in edge.features}
                for t, edge in plan.edges.items()
                if edge.features
            },
            edge_splits={t: edge.splits for t, edge in plan.edges.items() if edge.splits},
            table_columns={name: node.columns for name, node in plan.nodes.items() if node.columns}
            | {edge_type: edge.columns for edge_type, edge in plan.edges.items() if edge.columns},
            time_unit=plan.time_unit,
            ids={name: node.id_map for name, node in plan.nodes.items() if node.id_map is not None},
            reverse=self.reverse,
            typed=plan.typed,
            name=plan.name,
            about=fitted({"made_by": "graphzero import", "kind": plan.kind, "found": plan.found, **plan.about}),
            overwrite=overwrite,
            **self.common,
        )
        if plan.tasks is not None:
            plan.tasks(dataset)
        self.seconds["publishing"] = time.perf_counter() - start
        return dataset

    def _needed(self) -> dict[str, int]:
        """Return how many nodes of each type the edges need, where nothing else says it."""
        from ..stores.graph import Graph

        needed: dict[str, int] = {}
        for source, relation, target in self.plan.edges:
            with Graph(self.stage.path(f"{_manifest.edge_key((source, relation, target))}.gl")) as graph:
                for name, count in zip((source, target), graph.shape, strict=True):
                    needed[name] = max(needed.get(name, 0), count)
        return needed

    def _store(self, file: str, key: str) -> FeatureStore:
        return FeatureStore(self.stage.path(file), key)

    def _account(self, part: str, start: float, peak: int) -> None:
        self.seconds[part] = time.perf_counter() - start
        self.peak = max(self.peak, peak)

    def _announced(self, part: str) -> dict[str, Any]:
        """Return the shared options with a progress callback that names the part."""
        progress = self.common.get("progress")
        if not callable(progress):
            return self.common
        return {**self.common, "progress": lambda phase, done, total: progress(f"{part}: {phase}", done, total)}


def _is_float(source: Any) -> bool:
    """Whether rows are floats: only those are stored in another type, codes and years stay whole numbers."""
    if is_path(source):
        return is_text(os.fspath(source)) or all_rows(source, "x")[0].dtype in FLOATS
    return all_rows(source, "x")[0].dtype in FLOATS if not hasattr(source, "__next__") else True


def _together(reports: list[GraphReport]) -> GraphReport:
    """Return one report for all edge types."""
    first = reports[0]
    seconds = {phase: sum(r.seconds[phase] for r in reports) for phase in first.seconds}
    return GraphReport(
        path=os.path.dirname(first.path),
        nodes=first.nodes,
        edges=sum(r.edges for r in reports),
        source_edges=sum(r.source_edges for r in reports),
        bytes=sum(r.bytes for r in reports),
        seconds=seconds,
        peak_memory=max(r.peak_memory for r in reports),
        spilled_bytes=sum(r.spilled_bytes for r in reports),
        lines_skipped=sum(r.lines_skipped for r in reports),
        duplicates_dropped=sum(r.duplicates_dropped for r in reports),
        self_loops_dropped=sum(r.self_loops_dropped for r in reports),
    )
