"""Imports of one node type and one edge type: the files of a `Plan`, resumed one by one, and the dataset of them."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import numpy as np

from ..compile.edge_log import FileBothWays, alternating, repeated
from ..compile.features import compile_features
from ..compile.graph import compile_graph
from ..compile.reports import GraphReport
from ..dataset.columns import CATEGORY, NUMBER, TIME
from ..dataset.dataset import Dataset
from ..errors import InputError
from ..sources.rows import all_rows, is_text
from ..stores.features import FeatureStore
from ..stores.idmap import text_path
from .parts import check_dtype, count_of, drawn_splits, fitted, is_path, labelled_nodes, stored_labels
from .plan import Plan
from .stage import Stage

__all__ = ["PlainWork"]


class PlainWork:
    """Makes the files of one import, in order: graph, features; then labels, splits and manifest in one step."""

    def __init__(self, plan: Plan, stage: Stage, options: dict[str, Any], dtype: Any, common: dict[str, Any]) -> None:
        """Take the plan and the options of `compile_graph`."""
        self.plan, self.stage, self.options, self.dtype, self.common = plan, stage, options, dtype, common
        self.seconds: dict[str, float] = {}
        self.losses: list[str] = []
        self.peak = 0
        check_dtype(dtype, plan.features)
        self.tagged = bool(options.pop("tag_reverse", False))
        if self.tagged and options.get("directed") is False:
            raise ValueError("tag_reverse already stores each edge in both directions: omit directed")
        if plan.edge_features or self.tagged:
            options["edge_ids"] = True
        self.count, self.origin = plan.num_nodes, "the declared number of nodes"
        mapped = options.get("ids") is not None
        for key, rows in (
            {**plan.features, "labels": plan.labels} if self.count is None and not mapped else {}
        ).items():
            count = None if rows is None else count_of(rows)
            if count is not None and self.count is None:
                self.count, self.origin = count, f"the rows of {key}"

    def compile(self) -> GraphReport:
        """Make the compiled files; the number of nodes is known afterwards."""
        counted = {}  # rows of text features, whose number is known once they are read
        if self.count is None:
            counted = {
                key: self._rows(key) for key, rows in self.plan.features.items() if is_path(rows) and is_text(rows)
            }
        report = self._graph(self.count)
        most = max([report.nodes, self.plan.least_nodes, *counted.values()])
        if most > report.nodes:
            report = self._graph(most, again=True)
        self.count = report.nodes
        for key in self.plan.features:
            if counted.get(key) != self.count:
                self._rows(key, again=key in counted)
        if self.tagged:
            doubled = {k: repeated(all_rows(rows, k)[0]) for k, rows in self.plan.edge_features.items()}
            self.plan.edge_features = {**doubled, "reverse": alternating(report.source_edges)}
            self.plan.found.append("edges: each followed by its reverse, marked in the edge feature reverse")
        for key, rows in self.plan.edge_features.items():
            self._edge_rows(key, rows, report.source_edges * (2 if self.tagged else 1))
        return report

    def _edge_rows(self, key: str, rows: Any, edges: int) -> None:
        file = f"e.{key}.gd"
        found = self.stage.finished(file)
        if found is None:
            start = time.perf_counter()
            report = compile_features(rows, self.stage.path(file), name=key, **self._announced(key))
            self._account(f"edge features {key}", start, report.peak_memory)
            self.stage.note(file, report.nodes)
            found = report.nodes
        if int(found) != edges:
            raise InputError(f"edge features {key}: {found} rows, expected {edges}, one per edge of the source")

    def _graph(self, count: int | None, again: bool = False) -> GraphReport:
        known = None if again else self.stage.finished("graph.gl")
        if known is not None:
            return GraphReport(**known)
        start = time.perf_counter()
        options = (
            self.options if "ids" not in self.options else {k: v for k, v in self.options.items() if k != "id_base"}
        )
        try:
            report = compile_graph(
                self.plan.edges,
                self.stage.path("one-way.gl" if self.tagged else "graph.gl"),
                num_nodes=count,
                **options,
                **self._announced("graph"),
            )
        except InputError as error:
            if count is None or "num_nodes" not in str(error):
                raise
            raise InputError(f"{error} ({self.origin})") from error
        if self.tagged:
            report = self._both_ways(report)
        given = self.options.get("node_ids")
        if given is not None and report.nodes != len(given) and not self.plan.some_ids:
            from ..stores.idmap import IdMap

            first = next(iter(IdMap(str(report.id_map)).to_original([len(given)])))
            raise InputError(
                f"{report.nodes - len(given)} ids in the edges have no row in the node table, such as {first!r}"
            )
        self._account("graph", start, report.peak_memory)
        keys = [] if report.id_map is None else [report.id_map, text_path(report.id_map)]
        self.stage.note("graph.gl", dataclasses.asdict(report), [os.path.basename(path) for path in keys])
        return report

    def _both_ways(self, one_way: GraphReport) -> GraphReport:
        """Compile the edges again, each followed by its reverse, which the edge feature "reverse" marks."""
        source = FileBothWays(one_way.path)
        shared = self._announced("graph, both ways")
        report = compile_graph(
            source, self.stage.path("graph.gl"), direction=self.options.get("direction", "in"), edge_ids=True, **shared
        )
        os.unlink(one_way.path)
        return dataclasses.replace(
            one_way,
            path=report.path,
            edges=report.edges,
            bytes=report.bytes,
            peak_memory=max(one_way.peak_memory, report.peak_memory),
            spilled_bytes=one_way.spilled_bytes + report.spilled_bytes,
        )

    def _rows(self, key: str, again: bool = False) -> int:
        file = f"x.{key}.gd"
        known = None if again else self.stage.finished(file)
        if known is not None:
            return int(known)
        start = time.perf_counter()
        text = {"id_base": self.options.get("id_base", 0)} if is_path(self.plan.features[key]) else {}
        report = compile_features(
            self.plan.features[key],
            self.stage.path(file),
            name=key,
            dtype=None if key in (NUMBER, CATEGORY, TIME) else self.dtype,
            num_nodes=self.count,
            report_error=True,
            **text,
            **self._announced(key),
        )
        self.losses += [f"features {key}: {loss}" for loss in report.losses.values()]
        self._account(f"features {key}", start, report.peak_memory)
        self.stage.note(file, report.nodes)
        return report.nodes

    def publish(self, target: str, graph: GraphReport, overwrite: bool) -> Dataset:
        """Put the files, labels and splits into the dataset folder."""
        start = time.perf_counter()
        plan, labels, classes = self.plan, None, None
        if plan.labels is not None:
            labels, classes = stored_labels(plan.labels, plan.num_classes, graph.nodes)
        splits = dict(plan.splits)
        if "" in splits:
            nodes = np.arange(graph.nodes) if plan.labels is None else labelled_nodes(plan.labels)
            splits = dict(drawn_splits(splits[""], nodes))
        dataset = Dataset.create(
            target,
            self.stage.path("graph.gl"),
            features={key: FeatureStore(self.stage.path(f"x.{key}.gd"), key) for key in plan.features},
            labels=labels,
            num_classes=classes,
            splits=splits,
            edge_features={key: FeatureStore(self.stage.path(f"e.{key}.gd"), key) for key in plan.edge_features},
            edge_splits=plan.edge_splits,
            table_columns=plan.columns or None,
            name=plan.name,
            ids=graph.id_map,
            about=fitted({"made_by": "graphzero import", "kind": plan.kind, "found": plan.found, **plan.about}),
            overwrite=overwrite,
            **self.common,
        )
        self.seconds["publishing"] = time.perf_counter() - start
        return dataset

    def _announced(self, part: str) -> dict[str, Any]:
        """Return the shared options with a progress callback that names the part."""
        progress = self.common.get("progress")
        if not callable(progress):
            return self.common
        return {**self.common, "progress": lambda phase, done, total: progress(f"{part}: {phase}", done, total)}

    def _account(self, part: str, start: float, peak: int) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start
        self.peak = max(self.peak, peak)
