"""Training runs as self-contained HTML pages: one run in detail, or several side by side."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..args.progress import duration
from ..args.sizes import format_size
from ..args.target import check_extension
from ..pages.figure import require_plots
from ..pages.page import fact_list, page_of, table_of_rows, tile, write_whole
from .metrics import shown
from .report_plots import metric_name, plots_of, plots_of_several, waits

if TYPE_CHECKING:
    from .records import TrainResult

__all__ = ["require_plots", "write_comparison", "write_report"]

_MOST_CLASSES, _FEW_CLASSES = 20, 8  # of a confusion matrix; of one with room for wide columns


def write_report(result: TrainResult, path: str | os.PathLike[str]) -> None:
    """Write one run to `path` atomically."""
    check_extension(os.fspath(path), "report")
    require_plots()
    parts = [
        f'<div class="tiles">{"".join(tile(*t) for t in _tiles(result))}</div>',
        f'<div class="plots">{"".join(plots_of(result))}</div>',
        "<h2>Scores of the best epoch</h2>",
        _score_table(result),
        *_baseline_note(result),
        *_confusion(result),
        "<h2>Epochs</h2>",
        _epoch_table(result),
        "<h2>The run</h2>",
        fact_list(_facts(result)),
        "<h2>Options</h2>",
        fact_list(result.options.to_dict().items()),
        f'<template id="result">{html.escape(json.dumps(result.to_dict()))}</template>',
    ]
    write_whole(Path(path), page_of(_title(result), _subtitle(result), parts))


def write_comparison(runs: Mapping[str, TrainResult], path: str | os.PathLike[str]) -> None:
    """Write several runs, by name, to one page: their results, the options in which they differ, and their plots."""
    check_extension(os.fspath(path), "report")
    require_plots()
    table = {name: _compared(result) for name, result in runs.items()}
    heads = list(dict.fromkeys(head for facts in table.values() for head in facts))
    same = {head: len({facts[head] for facts in table.values()}) == 1 for head in ("dataset", "date", "precision")}
    heads = [head for head in heads if not same.get(head)]
    rows = [[name, *(facts[head] for head in heads)] for name, facts in table.items()]
    options = {name: result.options.to_dict() for name, result in runs.items()}
    names = next(iter(options.values()), {})
    differing = [key for key in names if len({json.dumps(of.get(key)) for of in options.values()}) > 1]
    values = [[name, *(str(of[key]) for key in differing)] for name, of in options.items()]
    parts = [
        table_of_rows(["run", *heads], rows),
        f'<div class="plots" style="margin-top:14px">{"".join(plots_of_several(runs))}</div>',
        "<h2>Options that differ</h2>",
        table_of_rows(["run", *differing], values)
        if differing
        else '<p class="note">None: all runs had the same options.</p>',
        "<h2>Commands</h2>",
        fact_list((name, result.facts.get("command")) for name, result in runs.items()),
    ]
    datasets = ", ".join(dict.fromkeys(_dataset(result) for result in runs.values()))
    days = ", ".join(dict.fromkeys(day for facts in table.values() if (day := facts["date"]))) if same["date"] else ""
    said = f"Training runs of GraphZero, compared.{f' {days}.' * bool(days)}"
    write_whole(Path(path), page_of(f"{len(runs)} runs on {datasets}", said, parts))


# -- parts ------------------------------------------------------------------------------------------------------------


def _dataset(result: TrainResult) -> str:
    return str(result.facts.get("dataset") or f"{result.data['nodes']:,} nodes")


def _model(result: TrainResult) -> str:
    return str(result.facts.get("model") or type(result.model).__name__)


def _title(result: TrainResult) -> str:
    day = str(result.facts.get("date", "")).split(" ")[0]
    return " · ".join(part for part in (_dataset(result), _model(result), day) if part)


def _subtitle(result: TrainResult) -> str:
    read = sum(e.bytes_read + e.topology_bytes_read for e in result.epochs)
    how = f"Trained out of core: {format_size(read)} read from disk." if read else "Trained with all data in RAM."
    task = {"nodes": "", "links": "Link prediction. "}.get(result.options.task, f"Task {result.options.task}. ")
    return f"{task}{how}" + (f" Bound by {waits(result)}." if result.epochs else "")


def _tiles(result: TrainResult) -> list[tuple[str, str, str]]:
    data = result.data
    total = data["topology_bytes"] + data["feature_bytes"]
    which, scores = (
        ("test", result.test_metrics) if result.test_score is not None else ("validation", result.val_metrics)
    )
    score = result.test_score if result.test_score is not None else result.val_score
    figure = f"{score:.1%}" if result.metric == "accuracy" else shown(result.metric, score)
    best = f"best epoch {result.best_epoch + 1} of {len(result.epochs)}"
    links = [f"{metric_name(name)} {scores[name]:.3f}" for name in ("mrr", "hits@1", "hits@10") if name in scores]
    return [
        (figure, f"{which} {metric_name(result.metric)}", ", ".join([*links, best])),
        (
            f"{result.seeds_per_second:,.0f}",
            "seeds per second",
            f"{len(result.epochs)} epochs in {duration(result.seconds)}",
        ),
        (format_size(result.peak_anonymous), "peak memory", f"anonymous, whole process; budget {data['budget']}"),
        (format_size(total), "on disk", f"{data['nodes']:,} nodes, {data['edges']:,} edges"),
    ]


def _epoch_table(result: TrainResult) -> str:
    heads = ["epoch", "loss", "train accuracy", f"validation {metric_name(result.metric)}", "seconds", "seeds/s"]
    heads += ["read from disk", "rows from RAM", "bound by"]
    rows = [
        [
            str(e.epoch + 1),
            f"{e.loss:.4f}",
            "" if e.train_accuracy is None else f"{e.train_accuracy:.2%}",
            shown(result.metric, e.score()),
            f"{e.seconds:.2f}",
            f"{e.seeds_per_second:,.0f}",
            format_size(e.bytes_read + e.topology_bytes_read),
            f"{e.hit_rate:.0%}",
            e.bottleneck,
        ]
        for e in result.epochs
    ]
    best = next((i for i, e in enumerate(result.epochs) if e.epoch == result.best_epoch), None)
    return table_of_rows(heads, rows, best)


def _score_table(result: TrainResult) -> str:
    scores = {
        "validation": _all_scores(result.val_accuracy, result.val_metrics),
        "test": _all_scores(result.test_accuracy, result.test_metrics),
    }
    scores = {split: found for split, found in scores.items() if found}
    if result.own_baseline:
        scores[f"baseline of {list(scores)[-1]}" if scores else "baseline"] = result.own_baseline
    names = dict.fromkeys(name for found in scores.values() for name in found)
    rows = [
        [metric_name(name), *(shown(name, found[name]) if name in found else "" for found in scores.values())]
        for name in names
    ]
    return table_of_rows(["score", *scores], rows)


def _baseline_note(result: TrainResult) -> list[str]:
    if not result.own_baseline:
        return []
    what = "largest class" if "accuracy" in result.own_baseline else "mean"
    return [f'<p class="note">The baseline always answers the {what} of the training split.</p>']


def _all_scores(accuracy: float | None, others: dict[str, float]) -> dict[str, float]:
    return others if accuracy is None else {"accuracy": accuracy, **others}


def _confusion(result: TrainResult) -> list[str]:
    """Return the confusion matrix of the most frequent classes."""
    counts: list[list[int]] = result.confusion.get("counts", [])
    if not counts:
        return []
    names = [str(name) for name in result.confusion.get("classes", [])]
    names += [str(i) for i in range(len(names), len(counts))]
    kept = sorted(sorted(range(len(counts)), key=lambda i: -sum(counts[i]))[:_MOST_CLASSES])
    head = "".join(f'<th title="{html.escape(names[j])}">{html.escape(names[j])}</th>' for j in kept)
    rows = []
    for i in kept:
        total = max(sum(counts[i]), 1)
        cells = "".join(
            f'<td style="background:color-mix(in srgb,var(--s{0 if i == j else 1}) {60 * counts[i][j] / total:.0f}%,'
            f'transparent)">{counts[i][j]:,}</td>'
            for j in kept
        )
        rows.append(f"<tr><th>{html.escape(names[i])}</th>{cells}</tr>")
    kind = "confusion many" if len(kept) > _FEW_CLASSES else "confusion"
    few = f" The {len(kept)} most frequent of {len(counts)} classes." if len(kept) < len(counts) else ""
    return [
        f"<h2>Confusion matrix, {html.escape(str(result.confusion.get('split', '')))}</h2>",
        f'<p class="note">Rows are true classes, columns predicted ones.{few}</p>',
        f'<div class="card"><table class="{kind}"><tr><th></th>{head}</tr>{"".join(rows)}</table></div>',
    ]


def _facts(result: TrainResult) -> list[tuple[str, Any]]:
    facts, data = dict(result.facts), dict(result.data)
    versions = ", ".join(f"{name} {version}" for name, version in facts.pop("versions", {}).items())
    if data.get("budget_bytes"):
        data["budget_bytes"] = format_size(data["budget_bytes"])
    for name in ("topology_bytes", "feature_bytes"):
        data[name] = format_size(data[name])
    named = {"budget_bytes": "budget in use", "topology_bytes": "topology", "feature_bytes": "size of features"}
    found = [*facts.items(), ("versions", versions), ("checkpoint", result.checkpoint)]
    return found + [(named.get(name, name.replace("_", " ")), value) for name, value in data.items()]


def _compared(result: TrainResult) -> dict[str, str]:
    score = result.test_score
    seconds = sum(e.seconds for e in result.epochs) / max(len(result.epochs), 1)
    return {
        "dataset": _dataset(result),
        "date": str(result.facts.get("date", "")).split(" ")[0],
        "model": _model(result),
        "precision": result.options.precision,
        "test": "" if score is None else f"{shown(result.metric, score)} {metric_name(result.metric)}",
        "validation": shown(result.metric, result.val_score),
        "epochs": str(len(result.epochs)),
        "s/epoch": f"{seconds:.2f}",
        "seeds/s": f"{result.seeds_per_second:,.0f}",
        "read": format_size(sum(e.bytes_read + e.topology_bytes_read for e in result.epochs)),
        "peak memory": format_size(result.peak_anonymous),
    }
