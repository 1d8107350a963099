"""`import_dataset`: a file, a folder or an object -> a dataset folder."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec

from ..args.html_table import HtmlReport
from ..args.ids import as_threads
from ..args.keywords import check_keywords
from ..args.progress import Callback, Reporting
from ..args.shares import is_shares
from ..args.sizes import format_size, parse_size
from ..compile.graph import compile_graph
from ..compile.reorder import check_order, make_ordered
from ..compile.reports import GraphReport
from ..dataset.dataset import Dataset
from ..machine.monitor import MemoryMonitor
from .detect import plan_for
from .label_tables import read_labels
from .node_tables import add_node_table
from .overrides import choose_ids, choose_types, ids_of_rows, override_plain, override_typed, refuse_plain, shown
from .parts import check_shares, is_path
from .plan import Plan
from .stage import Stage, check_target, fingerprint
from .work import Work

__all__ = ["ImportReport", "import_dataset"]

Path = str | os.PathLike[str]
_Given = ParamSpec("_Given")
_LOOK = 0.02  # seconds between looks at the memory


@dataclasses.dataclass(frozen=True)
class ImportReport(HtmlReport):
    """What `import_dataset` found and made."""

    path: str
    kind: str
    found: list[str]  # what was found in the source, one line each
    nodes: int
    edges: int
    bytes: int  # of all files
    seconds: dict[str, float]  # by part, and "total"
    resumed: list[str]  # files that an earlier run had finished
    graph: GraphReport
    peak_buffers: int  # peak of the engine's buffers, a part of peak_memory
    losses: list[str] = dataclasses.field(default_factory=list)  # by storing floats in a smaller type
    peak_memory: int = 0  # peak anonymous memory of the process, including Python, NumPy and Arrow

    @property
    def dataset(self) -> Dataset:
        """The dataset, opened."""
        return Dataset(self.path)

    def __str__(self) -> str:
        """Return a short summary."""
        parts = ", ".join(f"{part} {s:.2f} s" for part, s in self.seconds.items() if part != "total")
        lines = [f"found: {self.kind}", *(f"  {line}" for line in self.found)]
        lines += [f"  {name}: finished by an earlier run" for name in self.resumed]
        lines.append(f"{self.path}: {self.nodes:,} nodes, {self.edges:,} edges, {format_size(self.bytes)}")
        lines.append(f"  {self.seconds['total']:.2f} s: {parts}")
        buffers = format_size(self.peak_buffers)
        lines.append(f"  peak memory of the process {format_size(self.peak_memory)}, the engine's buffers {buffers}")
        lines += [f"  {line}" for line in self.losses]
        lines += str(self.graph).splitlines()[3:]
        return "\n".join(lines)


def _watched(work: Callable[_Given, ImportReport]) -> Callable[_Given, ImportReport]:
    """Add the peak memory of the process to the report of `work`."""

    @functools.wraps(work)
    def watched(*args: _Given.args, **options: _Given.kwargs) -> ImportReport:
        with MemoryMonitor(_LOOK) as monitor:
            report = work(*args, **options)
        return dataclasses.replace(report, peak_memory=max(monitor.peak_anonymous, report.peak_buffers))

    return watched


@_watched
def import_dataset(
    source: Any,
    out: Path,
    *,
    nodes: Any = None,
    node_columns: Mapping[str, Any] | None = None,
    features: Any = None,
    labels: Any = None,
    label: str | None = None,
    splits: Any = None,
    edge_features: Any = None,
    tag_reverse: bool = False,
    num_nodes: Any = None,
    num_classes: Any = None,
    edge_types: Iterable[Any] | None = None,
    reverse: bool = False,
    name: str | None = None,
    dtype: Any = None,
    direction: str = "in",
    id_base: int | None = None,
    ids: str | None = "auto",
    node_ids: Any = None,
    order: str | None = None,
    memory: int | float | str = "1GB",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    overwrite: bool = False,
    **graph_options: Any,
) -> ImportReport:
    """Make the dataset folder `out` from edges in a file, a folder or an object, and the files that go with them.

    source: a description of tables (a `.yaml` or `.json` file, or a dict with `nodes` and `edges`, or with `tables` and
        their keys: see the guides), a folder of tables with a `keys.yaml`, a RelBench database, a SQLite or DuckDB
        file, or anything `compile_graph` takes, a `.npz` archive with `edge_index`, a PyG `Data` or `HeteroData`, or a
        folder of OGB, MAG240M, IGB, IGBH, GraphBolt, KONECT, PyG (`processed/*.pt`) or Parquet files.
        `graph_options` go to `compile_graph`: `directed=False`, `columns=`, `weights=`, `times=`, `edge_ids=`,
        `dedup=`, `self_loops=`.
    nodes: a table with one row per node: a DataFrame, an Arrow table, Parquet, CSV. Its columns are the id ("id", or
        the first), label and split; all others become inputs of models by their kinds. `node_columns` names them:
        {"id": ..., "label": ..., "split": ..., "time": ..., "columns": {...}}; "features": [...] lists columns that
        become feature arrays instead.
    features: a `.npy`, `.npz`, `.pt`, `.gd` file, text of `id,f1,f2,...` lines, an array, or a dict of names to them.
        A single one is named "x". Rows beyond the last id in the edges are isolated nodes.
    labels: one whole number per node, -1 or NaN for none: the same kinds of file, text of one column, or text or a
        table of `id,label`, where ids may be strings and labels the names of classes.
    label: the column with the labels, of `nodes` or of `labels`; of a source of several tables, "table.column".
    splits: a dict, a `.npz`, `.pt` or `.json` file, or a folder, with ids or masks by name (train, valid, test); or
        shares such as "60/20/20", drawn from the nodes that have a label; "80/20" is train and valid.
    edge_features: a row for each edge, in the order of the edges: the same kinds of file. Edges then keep their ids.
    tag_reverse: store each edge followed by its reverse, marked by the edge feature "reverse" (0 or 1);
        `directed=False` stores both ways under one edge id.
    edge_types: the edge types to import from a source of several, such as ["paper__cites__paper"]; `reverse=True` adds
        the reverse of each. For such sources, features, labels, splits and num_nodes are dicts by node type; splits may
        be shares.
    num_nodes: checked against the edges when given; else the number of feature or label rows is, else the largest id
        + 1 is taken.
    ids: "auto" maps ids that are strings to 0, 1, 2, ... and keeps the map as `ds.ids`; "map" does so for sparse
        integers too; None takes integers as the numbers of nodes.
    node_ids: with mapped ids, the original ids of the rows of features and labels: a list, an array, a text file.
    direction: "in" stores rows of sources, which message passing follows; "out" and "both" are for walks.
    order: "degree", "bfs" or "community" orders the nodes as `reorder` does, so that out-of-core loaders read fewer
        bytes; `ds.ids` translates ids. There is no second copy of the features on disk. One node type only.
    memory: what the engine may hold at a time.

    Files are made in `<out>.importing` and linked into the dataset when all are complete. A killed import
    resumes with the files that were complete (not if it was already ordering nodes). Nothing appears at `out` before.

    >>> import graphzero as gz
    >>> report = gz.import_dataset("edges.csv", "mine", features="x.npy", labels="y.npy")  # doctest: +SKIP
    >>> report.dataset.num_nodes  # doctest: +SKIP
    2708
    """
    check_keywords(graph_options, "import_dataset", import_dataset, compile_graph)
    target = os.path.abspath(os.fspath(out))
    check_target(target, overwrite)
    if is_path(source) and os.path.isdir(source) and os.path.isdir(target) and os.path.samefile(source, target):
        raise ValueError(f"{target}: is the source itself, expected another folder for the dataset")
    if is_shares(splits):
        check_shares(splits)
    plan = plan_for(source, label)
    if plan.plain:
        if edge_types is not None or reverse:
            raise ValueError(f"edge_types and reverse are for sources of several types, the {plan.kind} has one")
        if node_columns and nodes is None:
            raise ValueError("node_columns names columns of a node table; pass the table as nodes=")
        if label is not None and nodes is None and labels is None:
            raise ValueError(f"label is {label!r}, a column of a node table; pass the table as nodes=")
        columns = dict(node_columns or {}) | ({} if label is None or labels is not None else {"label": label})
        if nodes is not None:
            if node_ids is not None:
                raise ValueError("nodes already has the ids: omit node_ids")
            rows = add_node_table(plan, nodes, columns, parse_size(memory) // 4, splits)
            node_ids = ids_of_rows(rows)
            if node_ids is None:
                plan.one.least_nodes = len(rows)
        if labels is not None:
            plan.one.labels = read_labels(labels, label, id_base or 0)
            plan.found.append(f"labels: {shown(labels)}")
        override_plain(plan, features, splits, edge_features, num_nodes, num_classes, id_base or 0)
        options = {**plan.edge.options, "direction": direction, **graph_options}
        if tag_reverse:
            options["tag_reverse"] = True
            if "directed" not in graph_options:  # set by an undirected source; tag_reverse does the same
                options.pop("directed", None)
        if id_base is not None:  # a source may define its own: Matrix Market, KONECT
            options["id_base"] = id_base
        choose_ids(plan, ids, node_ids, options, id_base)
        if num_classes is not None and plan.one.labels is None:
            raise ValueError(f"num_classes is {num_classes}, but there are no labels; pass labels= or nodes=")
        plan.edge.options = options
        about: list[Any] = [nodes, columns, edge_features, plan.one.num_nodes]
    else:
        only_plain = {"nodes": nodes, "node_columns": node_columns, "edge_features": edge_features, "id_base": id_base}
        mapped = {"ids": None if ids == "auto" else ids, "node_ids": node_ids}
        refuse_plain(plan, **only_plain, **mapped, tag_reverse=tag_reverse or None)
        given = {"features": features, "labels": labels, "splits": splits, "num_nodes": num_nodes}
        override_typed(plan, {**given, "num_classes": num_classes})
        choose_types(plan, edge_types)
        options = {"direction": direction, **graph_options}
        about = [plan.reads, sorted(map(str, plan.edges))]
    check_order(order, one_type=len(plan.nodes) == 1)
    plan.name = plan.name if name is None else name
    key = fingerprint(source, features, labels, label, dtype and str(dtype), options, *about)
    with Reporting(progress) as callback:
        run = {"memory": memory, "num_threads": num_threads, "progress": callback or False}
        stage = Stage(target, key)
        return _run(plan, stage, target, {} if plan.plain else options, dtype, reverse, order, run, overwrite)


def _handed_over(work: Work, stage: Stage, folder: str) -> Dataset:
    """Publish the dataset to `folder`; its files are no longer those of the stage."""
    dataset = work.publish(folder, overwrite=False)
    stage.forget()
    return dataset


def _run(
    plan: Plan,
    stage: Stage,
    target: str,
    options: dict[str, Any],
    dtype: Any,
    reverse: bool,
    order: str | None,
    run: dict[str, Any],
    overwrite: bool,
) -> ImportReport:
    """Make the files and the dataset."""
    start, done = time.perf_counter(), False
    try:
        seconds = {}
        if plan.prepare is not None:
            plan.prepare(stage.path("tables"), parse_size(run["memory"]), as_threads(run["num_threads"]))
            seconds["reading ids"] = time.perf_counter() - start
        work = Work(plan, stage, options, dtype, reverse or plan.reverse, run)
        made = work.compile()
        if order is None:
            dataset = work.publish(target, overwrite)
        else:
            plan.name = plan.name or os.path.basename(target)
            begin, make = time.perf_counter(), functools.partial(_handed_over, work, stage)
            dataset = make_ordered(target, order, make, overwrite=overwrite, **run)
            seconds["ordering"] = time.perf_counter() - begin - work.seconds["publishing"]
        done = True
    finally:
        stage.close(remove=done)
    return ImportReport(
        path=target,
        kind=plan.kind,
        found=plan.found,
        nodes=sum(data.num_nodes for data in dataset.nodes.values()),
        edges=made.edges,
        bytes=dataset.nbytes,
        seconds={**seconds, **work.seconds, "total": time.perf_counter() - start},
        resumed=stage.resumed,
        graph=made,
        peak_buffers=work.peak,
        losses=work.losses,
    )
