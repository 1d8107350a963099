"""The files of a `Plan`, made and resumed one by one, and the dataset of them."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import numpy as np

from ..args.dtypes import FLOATS
from ..args.progress import named
from ..compile.edge_log import BothWays, EdgeLog, FileBothWays, alternating, repeated
from ..compile.features import compile_features
from ..compile.graph import compile_graph
from ..compile.mapped import DuplicateIdError
from ..compile.reports import GraphReport
from ..dataset import manifest as _manifest
from ..dataset.columns import CATEGORY, NUMBER, TIME
from ..dataset.dataset import Dataset
from ..dataset.parts import as_edge_type
from ..errors import InputError
from ..sample.hetero_subgraph import EdgeTypeName
from ..sources.edge_blocks import GraphFileSource
from ..sources.rows import all_rows, is_text
from ..stores.features import FeatureStore
from ..stores.graph import Graph
from ..stores.idmap import IdMap, text_path
from .parts import check_dtype, count_of, drawn_splits, fitted, is_path, labelled_nodes, shared_notes, stored_labels
from .plan import EdgePlan, Plan
from .stage import Stage

_STEP = 1 << 22  # edges whose ids are marked together

__all__ = ["Work"]


class Work:
    """Makes the files of one import, in order: graphs, features; then labels, splits and manifest in one step."""

    def __init__(
        self, plan: Plan, stage: Stage, options: dict[str, Any], dtype: Any, reverse: bool, common: dict[str, Any]
    ) -> None:
        """Take the plan; `options` of `compile_graph` apply to every edge type."""
        self.plan, self.stage, self.options, self.dtype, self.common = plan, stage, options, dtype, common
        self.reverse, self.peak = reverse, 0
        self.seconds: dict[str, float] = {}
        self.losses: list[str] = []
        self.counts: dict[str, int] = {}
        self._origin = "the declared number of nodes"
        stored = [*plan.nodes.values(), *(plan.edges.values() if not plan.plain else ())]
        check_dtype(dtype, [key for one in stored for key in one.features])
        for edge_type in plan.edges:
            as_edge_type(edge_type)
        if plan.shares is not None and all(node.labels is None for node in plan.nodes.values()):
            raise InputError(f"splits is {plan.shares!r}, drawn from nodes that have labels; no node type has labels")
        own = plan.edge.options if plan.plain else {}
        self._tagged = bool(own.pop("tag_reverse", False))
        if self._tagged and own.get("directed") is False:
            raise ValueError("tag_reverse already stores each edge in both directions: omit directed")
        for name, node in plan.nodes.items():
            rows = {**node.features, "labels": node.labels} if own.get("ids") is None else {}
            known = ((count_of(source), key) for key, source in rows.items() if source is not None)
            count, key = next((one for one in known if one[0] is not None), (None, ""))
            if node.num_nodes is not None:
                self.counts[name] = node.num_nodes
            elif count is not None:
                self.counts[name], self._origin = count, f"the rows of {key}"

    def _prefix(self, name: str) -> str:
        """Return what file names of a type start with."""
        return "" if self.plan.plain else f"{name}."

    def _graph_file(self, edge_type: EdgeTypeName) -> str:
        return "graph.gl" if self.plan.plain else f"{_manifest.edge_key(edge_type)}.gl"

    # -- graphs and features ------------------------------------------------------------------------------------------

    def compile(self) -> GraphReport:
        """Make the compiled files; return a report of all graphs together."""
        plan = self.plan
        text = self._text_rows() if plan.plain and not self.counts else {}
        reports = [self._graph(edge_type) for edge_type in plan.edges]
        if plan.plain:
            (name,), (edge_type,) = plan.nodes, plan.edges
            self.counts[name] = max([reports[0].nodes, plan.one.least_nodes, *text.values()])
            if self.counts[name] > reports[0].nodes:
                reports = [self._graph(edge_type, again=True)]
            plan.one.id_map = reports[0].id_map
        for name, node in plan.nodes.items():
            for key in node.features:
                if key not in text or text[key] != self.counts.get(name):
                    self._node_rows(name, key, again=key in text)
        if self._tagged:
            doubled = {key: repeated(all_rows(rows, key)[0]) for key, rows in plan.edge.features.items()}
            plan.edge.features = {**doubled, "reverse": alternating(reports[0].source_edges)}
            plan.found.append("edges: each followed by its reverse, marked in the edge feature reverse")
        for edge_type, report in zip(plan.edges, reports, strict=True):
            for key in plan.edges[edge_type].features:
                self._edge_rows(edge_type, key, report.source_edges * (2 if self._tagged else 1))
        return reports[0] if plan.plain else _together(reports)

    def _text_rows(self) -> dict[str, int]:
        """Compile the features in text, whose number of rows is known once they are read; return these."""
        (name,) = self.plan.nodes
        features = self.plan.one.features
        return {key: self._node_rows(name, key) for key, rows in features.items() if is_path(rows) and is_text(rows)}

    def _graph(self, edge_type: EdgeTypeName, again: bool = False) -> GraphReport:
        file, plain = self._graph_file(edge_type), self.plan.plain
        known = None if again else self.stage.finished(file)
        if known is not None:
            return GraphReport(**known)
        start, edge = time.perf_counter(), self.plan.edges[edge_type]
        counts = self.counts.get(edge_type[0]), self.counts.get(edge_type[2])
        nodes = counts if edge_type[0] != edge_type[2] else counts[0]
        options = {"num_nodes": nodes, "allow_empty": not plain, **self.options, **edge.options}
        if "ids" in options:
            options.pop("id_base", None)
        if edge.features or self._tagged or (not plain and any(np.ndim(ids) == 1 for ids in edge.splits.values())):
            options["edge_ids"] = True
        what = "graph" if plain else " ".join(edge_type)
        path = self.stage.path("one-way.gl" if self._tagged else file)
        try:
            report = compile_graph(edge.edges, path, **options, **self._announced(what))
        except DuplicateIdError as error:
            place = self.plan.one.id_place
            raise DuplicateIdError(error.row, error.value, place(error.row) if place else "") from None
        except InputError as error:
            if not plain:
                raise InputError(f"{edge_type}: {error}") from error
            if nodes is None or "num_nodes" not in str(error):
                raise
            raise InputError(f"{error} ({self._origin})") from error
        if self._tagged:
            report = self._both_ways(report, file, options.get("direction", "in"))
        if options.get("node_ids") is not None and not self.plan.one.some_ids:
            _check_ids(report, len(options["node_ids"]))
        self._account("graph" if plain else f"edges {what}", start, report.peak_memory)
        keys = [] if report.id_map is None else [report.id_map, text_path(report.id_map)]
        self.stage.note(file, dataclasses.asdict(report), [os.path.basename(path) for path in keys])
        return report

    def _both_ways(self, one_way: GraphReport, file: str, direction: str) -> GraphReport:
        """Compile the edges again, each followed by its reverse, which the edge feature "reverse" marks."""
        source, shared = FileBothWays(one_way.path), self._announced("graph, both ways")
        report = compile_graph(source, self.stage.path(file), direction=direction, edge_ids=True, **shared)
        os.unlink(one_way.path)
        return dataclasses.replace(
            one_way,
            path=report.path,
            edges=report.edges,
            bytes=report.bytes,
            peak_memory=max(one_way.peak_memory, report.peak_memory),
            spilled_bytes=one_way.spilled_bytes + report.spilled_bytes,
        )

    def _node_rows(self, name: str, key: str, again: bool = False) -> int:
        plain, source = self.plan.plain, self.plan.nodes[name].features[key]
        options: dict[str, Any] = {"num_nodes": self.counts.get(name)}
        if key not in (NUMBER, CATEGORY, TIME) and (plain or self._stores_as(source)):  # those are kept exactly
            options["dtype"] = self.dtype
        if plain and is_path(source):
            options["id_base"] = self.plan.edge.options.get("id_base", 0)
        what = f"features {key}" if plain else f"features {name} {key}"
        return self._rows(f"x.{self._prefix(name)}{key}.gd", key, source, what, options, again)

    def _edge_rows(self, edge_type: EdgeTypeName, key: str, expected: int) -> None:
        source = self.plan.edges[edge_type].features[key]
        exact = self.plan.plain or key in (NUMBER, CATEGORY, TIME) or not self._stores_as(source)
        what = f"edge features {key}" if self.plan.plain else f"edge features {' '.join(edge_type)} {key}"
        file = f"e.{self._prefix(_manifest.edge_key(edge_type))}{key}.gd"
        found = self._rows(file, key, source, what, {} if exact else {"dtype": self.dtype})
        if found != expected:
            raise InputError(f"{what}: {found} rows, expected {expected}, one per edge of the source")

    def _stores_as(self, source: Any) -> bool:
        """Whether rows of a typed dataset are stored as `dtype`: floats are, codes and years stay whole numbers."""
        if self.dtype is None or (is_path(source) and is_text(os.fspath(source))) or hasattr(source, "__next__"):
            return self.dtype is not None
        return all_rows(source, "x")[0].dtype in FLOATS

    def _rows(self, file: str, key: str, source: Any, what: str, options: dict[str, Any], again: bool = False) -> int:
        known = None if again else self.stage.finished(file)
        if known is not None:
            return int(known)
        start = time.perf_counter()
        report = compile_features(
            source, self.stage.path(file), name=key, report_error=True, **options, **self._announced(what)
        )
        self.losses += [f"{what}: {loss}" for loss in report.losses.values()]
        self._account(what, start, report.peak_memory)
        self.stage.note(file, report.nodes)
        return report.nodes

    def _announced(self, part: str) -> dict[str, Any]:
        """Return the shared options with a progress callback that names the part."""
        return {**self.common, "progress": named(self.common.get("progress"), part)}

    def _account(self, part: str, start: float, peak: int) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start
        self.peak = max(self.peak, peak)

    # -- the dataset --------------------------------------------------------------------------------------------------

    def publish(self, target: str, overwrite: bool) -> Dataset:
        """Put the files, labels and splits into the dataset folder."""
        start, plan = time.perf_counter(), self.plan
        counts = self.counts if plan.plain else {**self._needed(), **self.counts}
        parts: dict[str, Any] = {**self._labels_and_splits(counts), **self._stores()}
        for name, splits in parts["splits"].items():
            plan.found += shared_notes(splits, "node", "" if plan.plain else f" of {name}")
        for edge_type, splits in parts["edge_splits"].items():
            plan.found += shared_notes(splits, "edge", "" if plan.plain else f" of {' '.join(edge_type)}")
        columns = {edge_type: edge.columns for edge_type, edge in plan.edges.items()}
        parts["table_columns"] = {name: node.columns for name, node in plan.nodes.items()} | columns
        parts["ids"] = {name: node.id_map for name, node in plan.nodes.items()}
        parts = {what: {name: found for name, found in of.items() if _is_given(found)} for what, of in parts.items()}
        if plan.plain:  # without the names of its types
            parts = {what: next(iter(of.values()), None) for what, of in parts.items()}
            parts["graph"] = parts.pop("graphs")
        else:
            parts |= {"num_nodes": counts, "time_unit": plan.time_unit, "reverse": self.reverse, "typed": plan.typed}
        dataset = Dataset.create(
            target,
            **parts,
            name=plan.name,
            about=fitted({"made_by": "graphzero import", "kind": plan.kind, "found": plan.found, **plan.about}),
            overwrite=overwrite,
            **self.common,
        )
        if plan.tasks is not None:
            plan.tasks(dataset)
        self.seconds["publishing"] = time.perf_counter() - start
        return dataset

    def _labels_and_splits(self, counts: dict[str, int]) -> dict[str, dict[Any, Any]]:
        plan = self.plan
        labels, classes, splits = dict[Any, Any](), dict[Any, Any](), dict[Any, Any]()
        for name, node in plan.nodes.items():
            splits[name] = dict(node.splits)
            if node.labels is not None:
                labels[name], classes[name] = stored_labels(node.labels, node.num_classes, counts[name])
            shares = node.splits.get("") if plan.shares is None or node.labels is None else plan.shares
            if shares is not None:
                nodes = np.arange(counts[name]) if node.labels is None else labelled_nodes(node.labels)
                splits[name] = dict(drawn_splits(shares, nodes))
        return {"labels": labels, "num_classes": classes, "splits": splits}

    def _stores(self) -> dict[str, dict[Any, Any]]:
        """Return the graphs, the features, and the splits of edges by type."""
        plan, path = self.plan, self.stage.path
        edge_features = {}
        for edge_type, edge in plan.edges.items():
            prefix = self._prefix(_manifest.edge_key(edge_type))
            edge_features[edge_type] = {k: FeatureStore(path(f"e.{prefix}{k}.gd"), k) for k in edge.features}
        return {
            "graphs": {edge_type: path(self._graph_file(edge_type)) for edge_type in plan.edges},
            "features": {
                name: {key: FeatureStore(path(f"x.{self._prefix(name)}{key}.gd"), key) for key in node.features}
                for name, node in plan.nodes.items()
            },
            "edge_features": edge_features,
            "edge_splits": {
                edge_type: _of_kept_edges(edge, path(self._graph_file(edge_type)))
                for edge_type, edge in plan.edges.items()
            },
        }

    def _needed(self) -> dict[str, int]:
        """Return how many nodes of each type the edges need, where nothing else says it."""
        needed: dict[str, int] = {}
        for edge_type in self.plan.edges:
            with Graph(self.stage.path(self._graph_file(edge_type))) as graph:
                for name, count in zip((edge_type[0], edge_type[2]), graph.shape, strict=True):
                    needed[name] = max(needed.get(name, 0), count)
        return needed


def _of_kept_edges(edge: EdgePlan, graph_path: str) -> dict[str, Any]:
    """Return splits of edges without the ids of those that are not in the file, as dedup and self_loops leave out."""
    found = {name: values for name, values in edge.splits.items() if isinstance(values, np.ndarray) and values.size}
    ids = {name: v for name, v in found.items() if v.ndim == 1 and v.dtype.kind in "iu" and int(v.min()) >= 0}
    if not ids:
        return dict(edge.splits)
    with Graph(graph_path) as graph:
        if not graph.has_edge_ids:
            return dict(edge.splits)
        stored = graph._open().array(f"{'in' if graph.direction == 'in' else 'out'}.edge_ids")
        kept = np.zeros(graph._largest_edge_id() + 2, bool)
        for at in range(0, len(stored), _STEP):
            kept[stored[at : at + _STEP]] = True
    # Numbers of rows past the largest id are left out too; other ids may be wrong, which is an error.
    kept[-1] = not isinstance(edge.edges, (BothWays, EdgeLog))
    return edge.splits | {name: values[kept[np.minimum(values, len(kept) - 1)]] for name, values in ids.items()}


def _is_given(part: Any) -> bool:
    return part is not None and (not isinstance(part, (dict, list)) or bool(part))


def _check_ids(report: GraphReport, known: int) -> None:
    """Raise InputError if the edges have ids that are not among the `known` rows."""
    if report.nodes != known:
        first = next(iter(IdMap(str(report.id_map)).to_original([known])))
        kinds = (
            "; no id is both a source and a target: if these are two kinds of nodes, name two types in a description"
        )
        raise InputError(
            f"{report.nodes - known} ids in the edges have no row in the node table, such as {first!r}; add rows, or "
            "describe the tables in a file (see the guide on importing), where missing: drop leaves such edges out and "
            f"missing: fill adds the nodes{kinds if _is_bipartite(report) else ''}"
        )


def _is_bipartite(report: GraphReport) -> bool:
    """Whether no node is both a source and a target."""
    sources, targets = np.zeros(report.nodes, bool), np.zeros(report.nodes, bool)
    for block in GraphFileSource(report.path).edge_blocks():
        sources[block.src], targets[block.dst] = True, True
    return not (sources & targets).any()


def _together(reports: list[GraphReport]) -> GraphReport:
    """Return one report for all edge types."""
    first = reports[0]
    totals = ("edges", "source_edges", "bytes", "spilled_bytes", "lines_skipped", "duplicates_dropped")
    return GraphReport(
        path=os.path.dirname(first.path),
        nodes=first.nodes,
        seconds={phase: sum(r.seconds[phase] for r in reports) for phase in first.seconds},
        peak_memory=max(r.peak_memory for r in reports),
        **{name: sum(getattr(r, name) for r in reports) for name in (*totals, "self_loops_dropped")},
    )
