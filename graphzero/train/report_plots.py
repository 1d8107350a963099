"""The plots of report pages, as SVG that takes its colours from the page."""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import TrainResult

__all__ = ["figure_of", "metric_name", "plots_of", "plots_of_several", "require_plots", "waits"]

# Placeholder colours, which become CSS variables in the page: one SVG serves light and dark.
_INK, _GRID = "#010203", "#040506"
_SERIES = ["#a10001", "#a10002", "#a10003", "#a10004", "#a10005"]
_STAGES = ["sample", "read", "copy", "compute", "wait"]


def require_plots() -> None:
    """Raise ImportError, with the command that helps, when matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("a report needs matplotlib: pip install 'graphzero[report]'") from error


def metric_name(metric: str) -> str:
    """Return a metric as it is shown."""
    return {"auc": "AUC", "mrr": "MRR"}.get(metric, metric)


def waits(result: TrainResult) -> str:
    """Return what the epochs waited for: 'reading (3 of 4 epochs)'."""
    found = Counter(e.bottleneck for e in result.epochs)
    count = len(result.epochs)
    return ", ".join(f"{what} ({n} of {count} epochs)" for what, n in found.most_common())


def plots_of(result: TrainResult) -> list[str]:
    """Return the figures of one run."""
    return [
        figure_of(
            "Score and loss", "By epoch; the marked epoch gave the weights that were kept.", _draw_learning, result
        ),
        figure_of("Throughput", "Training seeds per second; gaps are evaluation.", _draw_throughput, result),
        figure_of(
            "Memory",
            "The budget limits the engine's buffers. The process also has torch and the model; a control group counts "
            "the page cache too.",
            _draw_memory,
            result,
        ),
        figure_of(
            "Where the time went",
            "Seconds per epoch. Sample, read and copy run on the loader's threads during compute; "
            f"wait is the time that training waited for them. Bound by: {waits(result) or 'nothing yet'}.",
            _draw_stages,
            result,
        ),
        figure_of("Where the rows came from", "GB per epoch: disk, RAM, and copies to a GPU.", _draw_tiers, result),
    ]


def plots_of_several(runs: Mapping[str, TrainResult]) -> list[str]:
    """Return the figures that compare runs."""
    return [
        figure_of("Validation score", "By epoch.", _draw_scores, runs),
        figure_of("Loss", "Of training, by epoch.", _draw_losses, runs),
        figure_of("Time per epoch", "Seconds of training, without evaluation.", _draw_times, runs),
        figure_of("Memory", "Anonymous memory of the process, over time.", _draw_memories, runs),
    ]


def figure_of(title: str, note: str, draw: Callable[[Any, Any], None], of: Any) -> str:
    """Draw one figure, with its caption."""
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
        figure = Figure(figsize=(5.4, 3.0), layout="constrained")
        figure.patch.set_alpha(0)
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes, of)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in [(_INK, "--ink"), (_GRID, "--grid"), *((c, f"--s{i}") for i, c in enumerate(_SERIES))]:
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'font: ([\d.]+)px [^;"]*', r"font-size: \1px", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    return f"<figure><figcaption><b>{escape(title)}</b><span>{escape(note)}</span></figcaption>{svg}</figure>"


def _whole_epochs(axes: Any, count: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlim(0.5, max(count, 1) + 0.5)
    axes.set_xlabel("epoch")


def _draw_learning(axes: Any, result: TrainResult) -> None:
    epochs = [e.epoch + 1 for e in result.epochs]
    label = "validation" if result.metric == "accuracy" else f"validation {metric_name(result.metric)}"
    percent = result.metric == "accuracy"
    scale = 100 if percent else 1
    axes.plot(epochs, [e.score() * scale for e in result.epochs], "o-", markersize=4, label=label)
    trained = [e.train_accuracy * scale for e in result.epochs if e.train_accuracy is not None]
    if trained and percent:  # other metrics are not computed in training
        axes.plot(epochs, trained, "o-", markersize=4, label="training")
    if result.best_epoch >= 0:
        axes.plot([result.best_epoch + 1], [result.val_score * scale], "o", markersize=11, fillstyle="none", color=_INK)
    axes.set_ylabel("accuracy, %" if percent else metric_name(result.metric))
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
    axes.plot(times, [s.anonymous / 1e6 for s in samples], label="process")
    axes.plot(times, [s.file / 1e6 for s in samples], label="mapped files")
    if any(s.engine for s in samples):
        axes.plot(times, [(s.engine or 0) / 1e6 for s in samples], label="engine")
    if any(s.group is not None for s in samples):
        axes.plot(times, [(s.group or 0) / 1e6 for s in samples], label="control group")
    budget = result.data.get("budget_bytes")
    if budget:
        axes.axhline(budget / 1e6, color=_INK, linestyle=":", linewidth=1.2, label="budget of the engine")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB")
    _legend_above(axes, 3)


def _draw_tiers(axes: Any, result: TrainResult) -> None:
    tiers = {
        "from RAM": [e.bytes_useful * e.hit_rate for e in result.epochs],
        "read from disk": [float(e.bytes_read + e.topology_bytes_read) for e in result.epochs],
        "copied to the GPU": [float(e.device_bytes) for e in result.epochs],
    }
    if not any(tiers["copied to the GPU"]):
        del tiers["copied to the GPU"]
    _draw_bars(axes, [e.epoch for e in result.epochs], {k: [v / 1e9 for v in of] for k, of in tiers.items()})
    axes.set_ylabel("GB")


def _draw_stages(axes: Any, result: TrainResult) -> None:
    stages = {stage: [e.stages.get(stage, 0.0) for e in result.epochs] for stage in _STAGES}
    _draw_bars(axes, [e.epoch for e in result.epochs], stages)
    axes.set_ylabel("seconds")


def _draw_bars(axes: Any, epochs: list[int], values: Mapping[str, list[float]]) -> None:
    width = 0.8 / len(values)
    for index, (label, of) in enumerate(values.items()):
        places = [epoch + 1 + (index - (len(values) - 1) / 2) * width for epoch in epochs]
        axes.bar(places, of, width * 0.92, label=label, color=_SERIES[index])
    axes.grid(False, axis="x")
    _whole_epochs(axes, max((epoch + 1 for epoch in epochs), default=1))
    _legend_above(axes, len(values))


def _lines(axes: Any, runs: Mapping[str, TrainResult], value: Callable[[TrainResult, Any], float], what: str) -> None:
    for index, (name, result) in enumerate(runs.items()):
        style = ("-", "--", ":", "-.")[index // len(_SERIES) % 4]
        epochs = [e.epoch + 1 for e in result.epochs]
        axes.plot(epochs, [value(result, e) for e in result.epochs], style, marker="o", markersize=4, label=name)
    axes.set_ylabel(what)
    _whole_epochs(axes, max((e.epoch + 1 for result in runs.values() for e in result.epochs), default=1))
    _legend_above(axes, 3)


def _draw_scores(axes: Any, runs: Mapping[str, TrainResult]) -> None:
    metrics = dict.fromkeys(metric_name(result.metric) for result in runs.values())
    _lines(axes, runs, lambda result, e: e.score(), ", ".join(metrics))


def _draw_losses(axes: Any, runs: Mapping[str, TrainResult]) -> None:
    _lines(axes, runs, lambda result, e: e.loss, "loss")
    axes.set_ylim(bottom=0)


def _draw_times(axes: Any, runs: Mapping[str, TrainResult]) -> None:
    _lines(axes, runs, lambda result, e: e.seconds, "seconds")
    axes.set_ylim(bottom=0)


def _draw_memories(axes: Any, runs: Mapping[str, TrainResult]) -> None:
    for name, result in runs.items():
        axes.plot([s.seconds for s in result.memory], [s.anonymous / 1e6 for s in result.memory], label=name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB")
    _legend_above(axes, 3)


def _legend_above(axes: Any, columns: int) -> None:
    axes.legend(ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0), columnspacing=1.2, handlelength=1.2)
