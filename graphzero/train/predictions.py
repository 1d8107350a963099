"""Predictions of a saved run: for all nodes, for a task table, or the best links, as a table or a .gd file."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..args.html_table import HtmlReport
from ..args.progress import Callback, Reporting
from ..args.sizes import parse_size
from ..args.suggest import did_you_mean
from ..args.target import as_target
from ..args.times import as_dates
from ..compile.features import compile_features
from ..dataset.columns import MISSING_TIME
from ..dataset.dataset import Dataset
from ..errors import FormatError
from ..exporting.table_out import as_table_target, is_table, write_table
from ..infer.inference import inference
from ..load.device import as_device
from ..machine.ranks import local_threads
from ..stores.features import FeatureStore
from .checkpoint import load_checkpoint
from .encoded_rows import encoded_stores
from .hetero import HeteroSAGE
from .inputs import Inputs, inference_options, plain_type
from .link_tasks import LinkTask
from .metrics import TopScores
from .records import TrainOptions
from .seeds import Seeds, are_dates, class_names, first_time
from .snapshot import Snapshot, hidden_splits
from .state import load_model
from .targets import Target, target_from
from .top_links import count_of_sources, edge_keys, split_keys, top_links
from .typed_inference import typed_inference

__all__ = ["PredictionReport", "predict"]

_ROWS = 1 << 14  # written together


@dataclass(frozen=True)
class PredictionReport(HtmlReport):
    """What was written, and how long it took."""

    path: str
    rows: int
    columns: int
    seconds: float
    bytes_written: int
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)  # of links, where `split` names the true ones


def predict(
    data: Dataset,
    checkpoint: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    model: torch.nn.Module | None = None,
    node_type: str | None = None,
    split: str | None = None,
    num_layers: int | None = None,
    top: int | None = None,
    exclude: str = "train",
    memory: int | str = "2GB",
    num_threads: int | None = None,
    device: Any = None,
    progress: bool | Callback | None = None,
) -> PredictionReport:
    """Predict with the model of a saved run and write `out`, whose suffix selects the format: .csv, .parquet or .gd.

    Tables have one row per node: `id`, the id in the source; `prediction`, the name of the class or the number;
    and a probability per class or label. A `.gd` has the outputs of the model by node, before softmax. Runs by time
    and runs on a task table have one row per seed, with its time; `split` selects the seeds of one split.

    For links, tables have the `top` (10) targets with the highest scores per source, exactly; `exclude` removes the
    edges that were trained on ("train"), all edges of the graph ("all"), or none ("none"). A `.gd` has the embeddings
    of the nodes of `node_type`. With `split` ("valid" or "test"), the sources are those of its edges, embeddings are
    computed without these edges and later ones, known edges are excluded from the ranking, and the report has MAP@k,
    precision@k and recall@k.

    `progress`: None shows progress on a terminal and in a notebook, True always, False never; a callable receives
    (phase, done, total).

    >>> predict(gz.Dataset("papers"), "run.npz", "predictions.csv").rows  # doctest: +SKIP
    1110600
    """
    begin, path = time.perf_counter(), os.path.abspath(os.fspath(out))
    if not path.endswith((".gd", ".csv", ".parquet")):
        raise ValueError(f"out is {os.fspath(out)!r}, expected a name that ends in .csv, .parquet or .gd")
    if is_table(path):
        as_table_target(path)  # before work that may take hours
    saved = load_checkpoint(checkpoint)
    known = {field.name for field in dataclasses.fields(TrainOptions)}
    named = {key: value for key, value in saved.note.get("options", {}).items() if key in known}
    options = TrainOptions(**{**named, "memory": memory, "num_threads": num_threads})
    where = as_device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
    ready = load_model(checkpoint, model).to(where).eval()
    given = {"node_type": node_type, "split": split, "num_layers": num_layers, "top": top}
    _refuse_unused(data, options, is_table(path), given | {"exclude": None if exclude == "train" else exclude})
    with Reporting(progress, "rows") as callback:
        job = _Job(data, ready, options, os.fspath(checkpoint), where, saved.note.get("about", {}), callback)
        if options.task == "links" and (is_table(path) or top is not None):
            rows, columns = job.links(path, 10 if top is None else top, exclude, split)
        elif _by_seed(options):
            rows, columns = job.seeds(path, split)
        else:
            rows, columns = job.nodes(path, node_type, num_layers)
    seconds, size = time.perf_counter() - begin, os.path.getsize(path)
    return PredictionReport(os.fspath(out), rows, columns, seconds, size, job.metrics)


def _by_seed(options: TrainOptions) -> bool:
    """Whether predictions are for seeds with times, or for the rows of a task table, and not for all nodes."""
    return options.task != "links" and (options.task != "nodes" or options.time is not None)


def _refuse_unused(data: Dataset, options: TrainOptions, table: bool, given: dict[str, Any]) -> None:
    """Raise ValueError for arguments that these predictions do not use."""
    links, seeds = options.task == "links", _by_seed(options)
    best = links and (table or given["top"] is not None)
    used = {
        "node_type": (not seeds and not best, "it is for predictions of all nodes"),
        "split": (seeds or best, "it is for runs by time, task tables and tables of links"),
        "num_layers": (not seeds and not best, "it is for predictions of all nodes"),
        "top": (links, "it is for runs with task='links'"),
        "exclude": (best and given["split"] is None, "it is for tables of links without split"),
    }
    for name, value in given.items():
        if value is not None and not used[name][0]:
            raise ValueError(f"{name} is {value!r}, but {used[name][1]}; omit it")
    if given["node_type"] is not None and given["node_type"] not in data.nodes:
        known = f"{', '.join(map(repr, data.nodes))}{did_you_mean(given['node_type'], data.nodes)}"
        raise ValueError(f"node_type is {given['node_type']!r}, expected one of {known}")


@dataclass(frozen=True)
class _Job:
    data: Dataset
    model: torch.nn.Module
    options: TrainOptions
    checkpoint: str
    device: torch.device
    about: dict[str, Any]
    progress: Callback | None
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)

    def report(self, phase: str, done: int, total: int) -> None:
        """Report progress, if it is shown."""
        if self.progress is not None:
            self.progress(phase, done, total)

    def nodes(self, path: str, node_type: str | None, num_layers: int | None) -> tuple[int, int]:
        """Write the outputs of all nodes of a type."""
        with tempfile.TemporaryDirectory(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path)) as folder:
            raw = Path(folder, "rows.gd") if is_table(path) else Path(as_target(path, "features", self.data.files))
            whose = self.outputs(raw, folder, node_type, num_layers)
            with FeatureStore(raw) as store:
                if not is_table(path):
                    return store.num_nodes, store.feature_dim
                target = None if num_layers is not None else self.target(store.feature_dim)
                blocks = self._blocks(store, whose, target)
                return write_table(path, blocks), 1 + store.feature_dim

    def outputs(self, out: Path, folder: str, node_type: str | None, num_layers: int | None) -> str:
        """Write one row per node to a `.gd`, layer by layer; return the node type."""
        options = self.options
        running: dict[str, Any] = {"memory": options.memory, "num_threads": options.num_threads, "device": self.device}
        running["progress"] = self.progress or False
        if self.data.is_typed:
            if num_layers is not None:
                raise ValueError("num_layers is not supported for typed datasets, which are predicted with all layers")
            whose = self.whose(node_type)
            typed_inference(
                self.model, self.data, out, node_type=whose, feature=options.feature,
                fanouts=None if isinstance(self.model, HeteroSAGE) else list(options.fanouts), **running,
            )  # fmt: skip
            return whose
        inputs = Inputs(self.data, inference_options(self.model, options.feature), typed=False)
        rows = encoded_stores(inputs, self.model, folder, self.device).get(plain_type)
        rows = rows or inputs.stores[plain_type].get("x")
        width = getattr(self.model, "dims", [None])[0]
        if rows is None or width not in (None, rows.feature_dim):
            found = "is missing" if rows is None else f"has {rows.feature_dim} columns"
            what = f"{options.feature!r} of {self.data.path} {found}"
            raise ValueError(f"{self.checkpoint}: trained on features with {width} columns, but {what}")
        layers = num_layers or (None if hasattr(self.model, "num_layers") else options.layers)
        inference(
            self.model, self.data.graph, rows, out, num_layers=layers, direction=options.direction, **running
        )  # fmt: skip
        return next(iter(self.data.nodes))

    def whose(self, node_type: str | None) -> str:
        """Return the node type to predict."""
        able = [node_type or self.options.node_type or next(iter(self.data.nodes))]
        if isinstance(self.model, HeteroSAGE):
            if (self.model.node_types, self.model.edge_types) != self.data.metadata():
                found = f"{self.data.path} has: {self.data.metadata()}"
                raise ValueError(f"{self.checkpoint}: the model was trained on other node and edge types; {found}")
            able = self.model.targets
        if node_type is not None and node_type not in able:
            raise ValueError(f"node_type is {node_type!r}, the model has outputs for {', '.join(able)}")
        return node_type or able[0]

    def target(self, outputs: int) -> Target | None:
        """Return the target of the run; None for embeddings."""
        if self.options.task == "links":
            return None
        note = self.about.get("target", {"kind": "classification", "outputs": outputs})
        try:
            return target_from(note, dataclasses.replace(self.options, metric=None, class_weights=None))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self.checkpoint}: invalid about.target: {error}") from error

    def _blocks(self, store: FeatureStore, whose: str, target: Target | None) -> Iterator[dict[str, Any]]:
        ids, names = self.data.nodes[whose].ids, class_names(self.data, self.options, whose)
        for begin in range(0, store.num_nodes, _ROWS):
            nodes = np.arange(begin, min(begin + _ROWS, store.num_nodes))
            yield {"id": ids.to_original(nodes), **said(store.gather(nodes), target, names)}
            self.report("writing", begin + len(nodes), store.num_nodes)

    def seeds(self, path: str, split: str | None) -> tuple[int, int]:
        """Write one row per seed of a run by time or of a task table, using only what existed at its time."""
        from .trainer import make_task

        task: Any = make_task(self.data, self.options, self.device)
        whose = task.node_type if self.data.is_typed else next(iter(self.data.nodes))
        if split is None and task.table is None:  # every node that has a time
            times = task.node_times[whose] if self.data.is_typed else task.times
            ids = np.flatnonzero(times != MISSING_TIME)
            task.splits = {"all": Seeds(ids, times[ids])}
        elif split is not None:
            if split not in task.splits:
                known = f"{', '.join(map(repr, task.splits))}{did_you_mean(split, task.splits)}"
                raise ValueError(f"split is {split!r}, expected one of {known}")
            task.splits = {split: task.splits[split]}
        target = self.target(task.target.outputs)
        assert target is not None
        parts = {name: (seeds, self._sampled(task, name)) for name, seeds in task.splits.items()}
        rows = np.concatenate([made for _, made in parts.values()])
        if not is_table(path):
            arrays = {"x": rows, "ids": np.concatenate([seeds.ids for seeds, _ in parts.values()])}
            if all(seeds.times is not None for seeds, _ in parts.values()):
                arrays["times"] = np.concatenate([seeds.times for seeds, _ in parts.values()])
            compile_features(arrays, path, progress=False)
            return len(rows), rows.shape[1]
        dated = task.table.dated if task.table is not None else are_dates(self.data, whose, self.options.time)
        names, ids_of = class_names(self.data, self.options, whose), self.data.nodes[whose].ids
        shown: dict[str, Any] = {name: seeds.times for name, (seeds, _) in parts.items() if seeds.times is not None}
        if dated and shown:
            dates = as_dates(np.concatenate(list(shown.values())), self.data.time_unit)  # one type for all splits
            ends = np.cumsum([len(own) for own in shown.values()])[:-1]
            shown = dict(zip(shown, np.split(dates, ends), strict=True))

        def blocks() -> Iterator[dict[str, Any]]:
            for name, (seeds, made) in parts.items():
                for begin in range(0, len(made), _ROWS):
                    at = slice(begin, begin + _ROWS)
                    own: dict[str, Any] = {"id": ids_of.to_original(np.asarray(seeds.ids[at], np.int64))}
                    if name in shown:
                        own["time"] = shown[name][at]
                    own |= {"split": [name] * len(own["id"])} if name != "all" else {}
                    yield own | said(made[at], target, names)

        return write_table(path, blocks()), 2 + rows.shape[1]

    def _sampled(self, task: Any, split: str) -> npt.NDArray[np.float32]:
        """Return the outputs for the seeds of a split, in their order."""
        made = np.zeros((len(task.splits[split]), task.target.outputs), np.float32)
        done = 0
        loader = task.loader(split, self.options.num_threads or local_threads(), parse_size(self.options.memory))
        with torch.no_grad(), closing(iter(loader)) as batches:
            for batch in batches:
                part = batch[task.node_type] if self.data.is_typed else batch
                out = task.scores_of_seeds(self.model, batch)[:, : made.shape[1]]
                made[part.input_id.cpu().numpy()] = out.float().cpu().numpy()
                done += len(part.input_id)
                self.report(f"predicting {split}", done, len(made))
        return made

    def links(self, path: str, top: int, exclude: str, split: str | None) -> tuple[int, int]:
        """Write the targets with the highest scores per source; score them if `split` names true links."""
        if top < 1:
            raise ValueError(f"top is {top}, expected at least 1")
        task = LinkTask(self.data, self.options, self.device)
        ends = (None, None) if task.edge_type is None else (task.edge_type[0], task.edge_type[2])
        if split is not None and not task.size(split):
            raise ValueError(f"split is {split!r}, expected one of {', '.join(map(repr, task.splits))}")
        if split == "train":
            raise ValueError("split is 'train', expected 'valid' or 'test': the model was trained on its links")
        hidden = ("valid", "test") if split is None else hidden_splits(split)
        excluded = edge_keys(task, exclude if split is None else "train", hidden)
        with tempfile.TemporaryDirectory(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path)) as folder:
            job, wanted, many = self, np.empty(0, np.int64), task.graph.num_targets
            if split is not None:
                wanted = split_keys(task, split)
                later = np.unique(np.concatenate([split_keys(task, name) for name in hidden if task.size(name)]))
                since = first_time(task, split) if task.timed else None
                before: Any = Snapshot(self.data, task, later, since, folder)
                job = dataclasses.replace(self, data=before)
            made = {}
            for number, name in enumerate(dict.fromkeys(ends)):
                made[name] = Path(folder, f"end{number}.gd")
                job.outputs(made[name], folder, name, None)
            left, right = (FeatureStore(made[name]) for name in ends)
            sources = None if split is None else np.unique(wanted // many)
            within = ends[0] == ends[1]
            many_sources = left.num_nodes if sources is None else len(sources)
            blocks = top_links(left, right, excluded, top, self.device, within=within, sources=sources)
            blocks = self._counted(blocks, many_sources)
            if split is not None:
                blocks = self._scored(blocks, wanted, many, top)
            return self._write_links(path, blocks, ends)

    def _counted(self, blocks: Iterator[Any], total: int) -> Iterator[Any]:
        done = 0
        for block in blocks:
            yield block
            done += len(block[0])
            self.report("ranking links", done, total)

    def _scored(self, blocks: Iterator[Any], wanted: Any, many: int, top: int) -> Iterator[Any]:
        """Yield the blocks; after the last, `metrics` has the scores of the answers."""
        scores = TopScores(top)
        for sources, targets, values in blocks:
            hits = np.isin(sources[:, None] * many + targets, wanted) & (targets >= 0)
            scores.add(hits, count_of_sources(wanted, sources, many))
            yield sources, targets, values
        self.metrics.update(scores.scores())

    def _write_links(self, path: str, blocks: Iterator[Any], ends: tuple[str | None, str | None]) -> tuple[int, int]:
        if not is_table(path):
            found = list(blocks)
            arrays = {"ids": np.concatenate([b[1] for b in found]), "scores": np.concatenate([b[2] for b in found])}
            compile_features(arrays, path, progress=False)
            return arrays["ids"].shape
        first = next(iter(self.data.nodes))
        source, target = (self.data.nodes[name or first].ids for name in ends)

        def rows() -> Iterator[dict[str, Any]]:
            for sources, targets, scores in blocks:
                kept = targets.reshape(-1) >= 0
                yield {
                    "source": source.to_original(np.repeat(sources, targets.shape[1])[kept]),
                    "rank": np.tile(np.arange(1, targets.shape[1] + 1), len(sources))[kept],
                    "target": target.to_original(targets.reshape(-1)[kept]),
                    "score": scores.reshape(-1)[kept],
                }

        return write_table(path, rows()), 4


def said(rows: Any, target: Target | None, names: list[str]) -> dict[str, Any]:
    """Return table columns for outputs of a model: predictions and probabilities."""
    if target is None:
        return {f"x{column}": rows[:, column] for column in range(rows.shape[1])}
    answers = target.answers(torch.from_numpy(np.array(rows))).numpy()
    if target.kind == "regression":
        return {"prediction": answers.reshape(-1)}
    called = [names[i] if i < len(names) else str(i) for i in range(answers.shape[1])]
    probabilities = {f"p_{name}": answers[:, i] for i, name in enumerate(called)}
    if target.kind == "multilabel":
        return probabilities
    best = answers.argmax(1)
    return {"prediction": [called[i] for i in best] if names else best, **probabilities}
