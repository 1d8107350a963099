"""A training run as one self-contained HTML page: figures first, then plots, for light and dark themes."""

from __future__ import annotations

import html
import io
import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..args.sizes import format_size, parse_size
from ..args.target import check_extension
from .metrics import shown

if TYPE_CHECKING:
    from .records import TrainResult

__all__ = ["require_plots", "write_report"]

# Plots use these placeholder colours, which become CSS variables in the page: one SVG serves light and dark.
_INK, _GRID = "#010203", "#040506"
_SERIES = ["#a10001", "#a10002", "#a10003", "#a10004", "#a10005"]
_STAGES = ["sample", "read", "copy", "compute", "wait"]


def require_plots() -> None:
    """Raise ImportError, with the command that helps, when matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("a report needs matplotlib: pip install 'graphzero[report]'") from error


def write_report(result: TrainResult, path: str | os.PathLike[str]) -> None:
    """Write `result` to `path` atomically."""
    check_extension(os.fspath(path), "report")
    require_plots()
    plots = [
        _figure(
            "Accuracy and loss", "By epoch; the marked epoch gave the weights that were kept.", _draw_learning, result
        ),
        _figure("Throughput", "Training seeds per second; gaps are evaluation.", _draw_throughput, result),
        _figure(
            "Memory",
            "What the kernel counted for this process; a control group counts its page cache too.",
            _draw_memory,
            result,
        ),
        _figure(
            "Where the time went",
            "Seconds per epoch. Sample, read and copy run on the loader's threads during compute; "
            "wait is the time that training waited for them.",
            _draw_stages,
            result,
        ),
    ]
    page = _PAGE.format(
        title=html.escape(f"{type(result.model).__name__} on {result.data['nodes']:,} nodes"),
        subtitle=_subtitle(result),
        tiles="".join(_tile(*t) for t in _tiles(result)),
        plots="".join(plots),
        scores=_score_table(result),
        table=_epoch_table(result),
        details=_details(result),
        data=html.escape(json.dumps(result.to_dict())),
        style=_STYLE,
    )
    _write_whole(Path(path), page)


# -- the page ---------------------------------------------------------------------------------------------------------


def _tiles(result: TrainResult) -> list[tuple[str, str, str]]:
    data = result.data
    total = data["topology_bytes"] + data["feature_bytes"]
    score = result.test_score if result.test_score is not None else result.val_score
    which = "test" if result.test_score is not None else "validation"
    figure = f"{score:.1%}" if result.metric == "accuracy" else shown(result.metric, score)
    return [
        (figure, f"{which} {_metric(result)}", f"best epoch {result.best_epoch + 1} of {len(result.epochs)}"),
        (
            f"{result.seeds_per_second:,.0f}",
            "seeds per second",
            f"{len(result.epochs)} epochs in {result.seconds:.0f} s",
        ),
        (format_size(result.peak_anonymous), "peak memory", f"anonymous, whole process; budget {data['budget']}"),
        (format_size(total), "on disk", f"{data['nodes']:,} nodes, {data['edges']:,} edges"),
    ]


def _subtitle(result: TrainResult) -> str:
    read = sum(e.bytes_read + e.topology_bytes_read for e in result.epochs)
    how = f"out of core: {format_size(read)} read from disk" if read else "with all data in RAM"
    return f"A training run of GraphZero, {how}."


def _metric(result: TrainResult) -> str:
    return {"auc": "AUC"}.get(result.metric, result.metric)


def _tile(figure: str, label: str, note: str) -> str:
    figure, label, note = (html.escape(part) for part in (figure, label, note))
    return f'<div class="tile"><b>{figure}</b><span>{label}</span><small>{note}</small></div>'


def _epoch_table(result: TrainResult) -> str:
    heads = [
        "epoch",
        "loss",
        "train",
        f"validation {_metric(result)}",
        "seconds",
        "seeds/s",
        "read",
        "from RAM",
        "waiting for",
    ]
    rows = []
    for e in result.epochs:
        cells = [
            str(e.epoch + 1),
            f"{e.loss:.4f}",
            "" if e.train_accuracy is None else f"{e.train_accuracy:.2%}",
            shown(result.metric, e.score()),
            f"{e.seconds:.2f}",
            f"{e.seeds_per_second:,.0f}",
            format_size(e.bytes_read),
            f"{e.hit_rate:.0%}",
            e.bottleneck,
        ]
        mark = ' class="best"' if e.epoch == result.best_epoch else ""
        rows.append(f"<tr{mark}>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>")
    head = "".join(f"<th>{h}</th>" for h in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _score_table(result: TrainResult) -> str:
    scores = {
        "validation": _all_scores(result.val_accuracy, result.val_metrics),
        "test": _all_scores(result.test_accuracy, result.test_metrics),
    }
    scores = {split: found for split, found in scores.items() if found}
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("", *scores))
    names = dict.fromkeys(name for found in scores.values() for name in found)
    rows = [
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f"<td>{shown(name, found[name]) if name in found else ''}</td>" for found in scores.values())
        for name in names
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'{row}</tr>' for row in rows)}</tbody></table>"


def _all_scores(accuracy: float | None, others: dict[str, float]) -> dict[str, float]:
    return others if accuracy is None else {"accuracy": accuracy, **others}


def _details(result: TrainResult) -> str:
    pairs = {**result.options.to_dict(), **{f"data: {k}": v for k, v in result.data.items()}}
    shown = {k: v for k, v in pairs.items() if v is not None}
    return "".join(f"<dt>{html.escape(str(k))}</dt><dd>{html.escape(str(v))}</dd>" for k, v in shown.items())


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# -- the plots --------------------------------------------------------------------------------------------------------


def _figure(title: str, note: str, draw: Callable[[Any, TrainResult], None], result: TrainResult) -> str:
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {
        "svg.fonttype": "none",  # text stays text: it takes the page's font and colour
        "svg.hashsalt": title,  # ids must differ between the plots of one page
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _GRID,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "grid.color": _GRID,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=_SERIES),
        "legend.frameon": False,
        "font.size": 10,
        "lines.linewidth": 1.8,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        figure.patch.set_alpha(0)
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes, result)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in [(_INK, "--ink"), (_GRID, "--grid"), *((c, f"--s{i}") for i, c in enumerate(_SERIES))]:
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'font: ([\d.]+)px [^;"]*', r"font-size: \1px", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)
    return f"<figure><figcaption><b>{html.escape(title)}</b><span>{html.escape(note)}</span></figcaption>{svg}</figure>"


def _whole_epochs(axes: Any, count: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlim(0.5, max(count, 1) + 0.5)
    axes.set_xlabel("epoch")


def _draw_learning(axes: Any, result: TrainResult) -> None:
    epochs = [e.epoch + 1 for e in result.epochs]
    label = "validation" if result.metric == "accuracy" else f"validation {_metric(result)}"
    percent = result.metric == "accuracy"
    scale = 100 if percent else 1
    axes.plot(epochs, [e.score() * scale for e in result.epochs], "o-", markersize=4, label=label)
    trained = [e.train_accuracy * scale for e in result.epochs if e.train_accuracy is not None]
    if trained:
        axes.plot(epochs, trained, "o-", markersize=4, label="training")
    if result.best_epoch >= 0:
        axes.plot([result.best_epoch + 1], [result.val_score * scale], "o", markersize=11, fillstyle="none", color=_INK)
    axes.set_ylabel("accuracy, %" if percent else _metric(result))
    _whole_epochs(axes, max(epochs, default=1))
    loss = axes.twinx()
    loss.grid(False)
    loss.spines["right"].set_visible(True)
    loss.patch.set_alpha(0)
    loss.plot(epochs, [e.loss for e in result.epochs], "--", color=_SERIES[2])
    loss.set_ylabel("loss")
    loss.set_ylim(bottom=0)
    axes.plot([], [], "--", color=_SERIES[2], label="loss (right)")
    _legend_above(axes, 3)


def _draw_throughput(axes: Any, result: TrainResult) -> None:
    points = result.progress
    step = max(1, len(points) // 150)
    points = points[::step]
    times, rates = [], []
    for (t0, n0), (t1, n1) in itertools.pairwise(points):
        times.append((t0 + t1) / 2)
        rates.append((n1 - n0) / max(t1 - t0, 1e-9))
    axes.fill_between(times, rates, alpha=0.2, color=_SERIES[0], linewidth=0)
    axes.plot(times, rates, color=_SERIES[0])
    mean = result.seeds_per_second
    axes.axhline(mean, color=_INK, linestyle=":", linewidth=1.2, label=f"mean while training: {mean:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _legend_above(axes, 2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("seeds per second")


def _draw_memory(axes: Any, result: TrainResult) -> None:
    samples = result.memory[:: max(1, len(result.memory) // 400)]
    times = [s.seconds for s in samples]
    axes.plot(times, [s.anonymous / 1e6 for s in samples], label="anonymous")
    axes.plot(times, [s.file / 1e6 for s in samples], label="mapped files")
    if any(s.group is not None for s in samples):
        axes.plot(times, [(s.group or 0) / 1e6 for s in samples], label="control group")
    if result.options.memory != "auto":
        budget = parse_size(result.options.memory) / 1e6
        axes.axhline(budget, color=_INK, linestyle=":", linewidth=1.2, label="engine's budget")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB")
    _legend_above(axes, 4)


def _draw_stages(axes: Any, result: TrainResult) -> None:
    width = 0.8 / len(_STAGES)
    for index, stage in enumerate(_STAGES):
        places = [e.epoch + 1 + (index - (len(_STAGES) - 1) / 2) * width for e in result.epochs]
        axes.bar(places, [e.stages[stage] for e in result.epochs], width * 0.92, label=stage, color=_SERIES[index])
    axes.grid(False, axis="x")
    axes.set_ylabel("seconds")
    _whole_epochs(axes, max((e.epoch + 1 for e in result.epochs), default=1))
    _legend_above(axes, len(_STAGES))


def _legend_above(axes: Any, columns: int) -> None:
    axes.legend(ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0), columnspacing=1.2, handlelength=1.2)


_STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #ffffff; --ink: #1f2733; --dim: #5b6675; --grid: #dfe3e9;
  --s0: #2563c9; --s1: #d9730d; --s2: #21885b; --s3: #8a4fd0; --s4: #98a2b0; --mark: #eaf1fd; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1b212a; --ink: #e4e8ee; --dim: #98a3b2;
  --grid: #343d4a; --s0: #6ea3f7; --s1: #f0a35c; --s2: #5cc596; --s3: #b98df0; --s4: #6b7787; --mark: #22304a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 17px; margin: 32px 0 12px; }
header p { margin: 0 0 20px; color: var(--dim); }
.tiles { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); margin-bottom: 14px; }
.tile, figure, .card { background: var(--card); border: 1px solid var(--grid); border-radius: 10px;
  padding: 16px 18px; }
.tile b { display: block; font-size: 27px; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tile span { display: block; } .tile small { color: var(--dim); }
.plots { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); }
figure { margin: 0; } figcaption b { display: block; } figcaption span { color: var(--dim); font-size: 13px; }
figure svg { width: 100%; height: auto; margin-top: 8px; } figure svg text { font-family: inherit; }
.card { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { color: var(--dim); font-weight: 500; } tr:last-child td { border-bottom: 0; } .best td { background: var(--mark); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<header><h1>{title}</h1><p>{subtitle}</p></header>
<div class="tiles">{tiles}</div>
<div class="plots">{plots}</div>
<h2>Scores of the best epoch</h2>
<div class="card">{scores}</div>
<h2>Epochs</h2>
<div class="card">{table}</div>
<h2>Options and data</h2>
<div class="card"><dl>{details}</dl></div>
</main>
<template id="result">{data}</template>
</body>
</html>
"""
