"""`import_dataset`: a file, a folder or an object -> a dataset folder."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._ids import IdArray
from .._progress import Callback, Reporting
from .._reports import GraphReport
from .._sizes import format_size
from ..compile import compile_graph
from ..compile_rows import compile_features
from ..dataset import Dataset
from ..errors import InputError
from ..features import FeatureStore
from ..row_sources import is_text
from .detect import plan_for
from .mapped import needs_map, node_ids_from
from .node_tables import add_node_table
from .parts import as_rows, count_of, drawn_splits, is_path, label_rows, label_stream, named_splits
from .plan import Plan
from .stage import Stage, check_target, fingerprint

__all__ = ["ImportReport", "import_dataset"]

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """What `import_dataset` found and made."""

    path: str
    kind: str
    found: list[str]  # what was seen in the source, a line each
    nodes: int
    edges: int
    bytes: int  # of all files
    seconds: dict[str, float]  # by part, and "total"
    peak_memory: int  # the most that the engine's buffers held; Python and the page cache are not in it
    resumed: list[str]  # files that an earlier run had finished
    graph: GraphReport

    @property
    def dataset(self) -> Dataset:
        """The dataset, opened."""
        return Dataset(self.path)

    def __str__(self) -> str:
        """Return a short account for people."""
        parts = ", ".join(f"{part} {s:.2f} s" for part, s in self.seconds.items() if part != "total")
        lines = [f"found: {self.kind}", *(f"  {line}" for line in self.found)]
        lines += [f"  {name}: finished by an earlier run" for name in self.resumed]
        lines.append(f"{self.path}: {self.nodes:,} nodes, {self.edges:,} edges, {format_size(self.bytes)}")
        lines.append(f"  {self.seconds['total']:.2f} s: {parts}")
        lines.append(f"  peak memory {format_size(self.peak_memory)}")
        lines += str(self.graph).splitlines()[3:]
        return "\n".join(lines)


def import_dataset(
    source: Any,
    out: Path,
    *,
    nodes: Any = None,
    node_columns: Mapping[str, Any] | None = None,
    features: Any = None,
    labels: Any = None,
    splits: Any = None,
    num_nodes: int | None = None,
    num_classes: int | None = None,
    name: str | None = None,
    dtype: Any = None,
    direction: str = "in",
    id_base: int | None = None,
    ids: str | None = "auto",
    node_ids: Any = None,
    memory: int | float | str = "1GB",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    overwrite: bool = False,
    **graph_options: Any,
) -> ImportReport:
    """Make the dataset folder `out` from what you have: edges in a file, a folder or an object, and files beside them.

    source: anything `compile_graph` takes, a `.npz` archive with `edge_index`, a PyG `Data`, or a folder of OGB,
        MAG240M, IGB (their homogeneous parts), GraphBolt, KONECT, PyG (`processed/*.pt`) or Parquet files.
        `graph_options` go to `compile_graph`: `directed=False`, `columns=`, `weights=`, `times=`, `edge_ids=`,
        `dedup=`, `self_loops=`.
    nodes: a table with a row a node: a DataFrame, an Arrow table, Parquet, CSV. Its columns are the id ("id", or the
        first), label, split, and features: numbers become x, lists a matrix each, text codes whose names are kept.
        `node_columns` names them: {"id": ..., "label": ..., "split": ..., "features": [...]}.
    features: a `.npy`, `.npz`, `.pt`, `.gd` file, text of `id,f1,f2,...` lines, an array, or a dict of names to them.
        A single one is named "x". Rows beyond the last id in the edges are isolated nodes.
    labels: one whole number a node, -1 or NaN for none: the same kinds of file, text of one column or of `id,label`.
    splits: a dict, a `.npz`, `.pt` or `.json` file, or a folder, with ids or masks by name (train, valid, test); or
        shares such as "60/20/20", drawn from the nodes that have a label.
    num_nodes: checked against the edges when given; else the number of feature or label rows is, else the largest id
        + 1 is taken.
    ids: "auto" maps ids that are strings to 0, 1, 2, ... and keeps the map as `ds.ids`; "map" does so for sparse
        integers too; None takes integers as the numbers of nodes.
    node_ids: with mapped ids, the original ids of the rows of features and labels: a list, an array, a text file.
    direction: "in" stores rows of sources, which message passing follows; "out" and "both" are for walks.
    memory: what the engine may hold at a time.

    Files are made in `<out>.importing` and linked into the dataset when all are complete. An import that was killed
    goes on from the files that it had finished. Nothing appears at `out` before.

    >>> import graphzero as gz
    >>> report = gz.import_dataset("edges.csv", "mine", features="x.npy", labels="y.npy")  # doctest: +SKIP
    >>> report.dataset.num_nodes  # doctest: +SKIP
    2708
    """
    target = os.path.abspath(os.fspath(out))
    check_target(target, overwrite)
    plan = plan_for(source)
    if nodes is not None:
        if node_ids is not None:
            raise ValueError("nodes has the ids of nodes already: leave node_ids out")
        node_ids = _ids_of_rows(add_node_table(plan, nodes, dict(node_columns or {})))
    _override(plan, features, labels, splits, num_nodes, num_classes, name, id_base or 0)
    options = {**plan.graph, "direction": direction, **graph_options}
    if id_base is not None:  # a source may know its own: Matrix Market, KONECT
        options["id_base"] = id_base
    _choose_ids(plan, ids, node_ids, options)
    key = fingerprint(
        source, nodes, dict(node_columns or {}), features, labels, plan.num_nodes, dtype and str(dtype), options
    )
    stage = Stage(target, key)
    work = _Work(plan, stage, options, dtype, {"memory": memory, "num_threads": num_threads})
    start, done = time.perf_counter(), False
    try:
        with Reporting(progress) as callback:
            work.common["progress"] = callback or False
            made = work.compile()
            dataset = work.publish(target, made, overwrite)
        done = True
    finally:
        stage.close(remove=done)
    work.seconds["total"] = time.perf_counter() - start
    return ImportReport(
        path=target,
        kind=plan.kind,
        found=plan.found,
        nodes=dataset.num_nodes,
        edges=made.edges,
        bytes=dataset.nbytes,
        seconds=work.seconds,
        peak_memory=work.peak,
        resumed=stage.resumed,
        graph=made,
    )


def _ids_of_rows(ids: Any) -> Any:
    """Return the ids of a node table where they need a map; None where they are 0, 1, 2, ... in order."""
    numbers = isinstance(ids, np.ndarray) and np.array_equal(ids, np.arange(len(ids)))
    return None if numbers else ids


def _choose_ids(plan: Plan, ids: str | None, node_ids: Any, options: dict[str, Any]) -> None:
    """Decide whether ids are mapped, and check what that means for rows that come by number."""
    if ids == "auto":
        mapped = node_ids is not None or (not options.get("id_base") and needs_map(plan.edges, options))
        ids = "map" if mapped else None
        if mapped:
            plan.found.append("ids: strings, mapped to 0, 1, 2, ...")
    if ids is None:
        if node_ids is not None:
            raise ValueError("node_ids are for ids='map'")
        return
    options.update(ids=ids, node_ids=None if node_ids is None else node_ids_from(node_ids))
    if node_ids is None and (plan.features or plan.labels is not None or (plan.splits and "" not in plan.splits)):
        raise ValueError(
            "ids are mapped, so rows of features, labels and ids in splits need the original ids of the rows: give "
            "node_ids=, a list or a file with one id a row"
        )


def _override(
    plan: Plan,
    features: Any,
    labels: Any,
    splits: Any,
    num_nodes: int | None,
    num_classes: int | None,
    name: str | None,
    id_base: int,
) -> None:
    """Put the caller's arguments over what the layout says."""
    if features is not None:
        named = features if isinstance(features, Mapping) else {"x": features}
        plan.features = {key: as_rows(value, key) for key, value in named.items()}
        plan.found += [f"features {key}: {_shown(value)}" for key, value in named.items()]
    if labels is not None:
        plan.labels = label_rows(labels, id_base)
        plan.found.append(f"labels: {_shown(labels)}")
    if splits is not None:
        plan.splits = named_splits(splits, id_base)
        plan.found.append(f"splits: {_shown(splits)}")
    plan.num_classes = plan.num_classes if num_classes is None else num_classes
    plan.name = plan.name if name is None else name
    if num_nodes is not None:
        if plan.num_nodes is not None and plan.num_nodes != num_nodes:
            raise InputError(f"num_nodes is {num_nodes}, the {plan.kind} declares {plan.num_nodes}")
        plan.num_nodes = num_nodes


def _shown(value: Any) -> str:
    if is_path(value):
        path = os.fspath(value)
        sized = os.path.isfile(path)
        return f"{path}, {format_size(os.path.getsize(path))}" if sized else str(path)
    return type(value).__name__


class _Work:
    """Makes the files of one import, in order: graph, features; then labels, splits and manifest in one step."""

    def __init__(self, plan: Plan, stage: Stage, options: dict[str, Any], dtype: Any, common: dict[str, Any]) -> None:
        self.plan, self.stage, self.options, self.dtype, self.common = plan, stage, options, dtype, common
        self.seconds: dict[str, float] = {}
        self.peak = 0
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
        told = {}  # rows of text features, whose number only their end tells
        if self.count is None:
            told = {key: self._rows(key) for key, rows in self.plan.features.items() if is_path(rows) and is_text(rows)}
        report = self._graph(self.count)
        most = max([report.nodes, *told.values()])
        if most > report.nodes:
            report = self._graph(most, again=True)
        self.count = report.nodes
        for key in self.plan.features:
            if told.get(key) != self.count:
                self._rows(key, again=key in told)
        return report

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
                self.stage.path("graph.gl"),
                num_nodes=count,
                **options,
                **self._announced("graph"),
            )
        except InputError as error:
            if count is None or "num_nodes" not in str(error):
                raise
            raise InputError(f"{error} ({self.origin})") from error
        given = self.options.get("node_ids")
        if given is not None and report.nodes != len(given):
            from ..idmap import IdMap

            first = next(iter(IdMap(str(report.id_map)).to_original([len(given)])))
            raise InputError(
                f"ids of the edges that no row of the nodes has: {report.nodes - len(given)}, such as {first!r}"
            )
        self._account("graph", start, report.peak_memory)
        self.stage.note("graph.gl", dataclasses.asdict(report))
        return report

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
            dtype=self.dtype,
            num_nodes=self.count,
            **text,
            **self._announced(key),
        )
        self._account(f"features {key}", start, report.peak_memory)
        self.stage.note(file, report.nodes)
        return report.nodes

    def publish(self, target: str, graph: GraphReport, overwrite: bool) -> Dataset:
        """Put the files, labels and splits into the dataset folder."""
        start = time.perf_counter()
        plan, labels, classes = self.plan, None, None
        if plan.labels is not None:
            rows = plan.labels if hasattr(plan.labels, "blocks") else label_rows(plan.labels)
            labels, classes = label_stream(rows, plan.num_classes, graph.nodes)
        splits = dict(plan.splits)
        if "" in splits:
            known = None if plan.labels is None else self._whole_labels(graph.nodes)
            splits = dict(drawn_splits(splits[""], known, graph.nodes))
        dataset = Dataset.create(
            target,
            self.stage.path("graph.gl"),
            features={key: FeatureStore(self.stage.path(f"x.{key}.gd"), key) for key in plan.features},
            labels=labels,
            num_classes=classes,
            splits=splits,
            name=plan.name,
            ids=graph.id_map,
            about={"made_by": "graphzero import", "kind": plan.kind, "found": plan.found, **plan.about},
            overwrite=overwrite,
            **self.common,
        )
        self.seconds["publishing"] = time.perf_counter() - start
        return dataset

    def _whole_labels(self, count: int) -> IdArray:
        rows = self.plan.labels if hasattr(self.plan.labels, "blocks") else label_rows(self.plan.labels)
        return np.concatenate(list(label_stream(rows, None, count)[0]))

    def _announced(self, part: str) -> dict[str, Any]:
        """Return the shared options with a progress callback that names the part."""
        progress = self.common.get("progress")
        if not callable(progress):
            return self.common
        return {**self.common, "progress": lambda phase, done, total: progress(f"{part}: {phase}", done, total)}

    def _account(self, part: str, start: float, peak: int) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start
        self.peak = max(self.peak, peak)
