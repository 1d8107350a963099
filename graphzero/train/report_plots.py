"""The plots of report pages."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..args.sizes import format_size
from ..pages.figure import INK, SERIES, figure_of, legend_above

if TYPE_CHECKING:
    from .records import TrainResult

__all__ = ["metric_name", "plots_of", "plots_of_several", "waits"]

_NAME = 20  # characters of a run in a legend
_FAR = 3  # times the memory of the process
_MOST_BARS, _MOST_MARKS = 25, 50  # epochs
_STAGES = ["sample", "read", "copy", "compute", "wait"]


def metric_name(metric: str) -> str:
    """Return a metric as it is shown."""
    return {"auc": "AUC", "mrr": "MRR"}.get(metric, metric)


def waits(result: TrainResult) -> str:
    """Return what the epochs waited for: 'reading (3 of 4 epochs)'."""
    found = Counter(e.bottleneck for e in result.epochs)
    count = len(result.epochs)
    return ", ".join(f"{what} ({n} of {count} epochs)" for what, n in found.most_common())


def tier_rates(result: TrainResult) -> str:
    """Return what the tiers gave in all epochs: 'From RAM: 40.0% of the bytes of rows, 1.2 GB/s. ...'."""
    seconds = max(sum(e.seconds for e in result.epochs), 1e-9)
    host, kept = sum(e.bytes_useful for e in result.epochs), sum(e.kept_bytes for e in result.epochs)
    ram = sum(e.bytes_useful * e.hit_rate for e in result.epochs)
    copied = sum(e.device_bytes for e in result.epochs)
    total = max(host + kept, 1)
    found = [("On the GPU", kept), ("From RAM", ram), ("From the disk", host - ram)]
    lines = [
        f"{name}: {size / total:.1%} of the bytes of rows, {format_size(size / seconds)}/s."
        for name, size in found
        if size > 0
    ]
    if copied:
        lines.append(f"Copied to the GPU: {format_size(copied / seconds)}/s.")
    return " ".join(lines)


def plots_of(result: TrainResult) -> list[str]:
    """Return the figures of one run."""
    return [
        figure_of(
            "Score and loss", "By epoch; the marked epoch gave the weights that were kept.", _draw_learning, result
        ),
        figure_of("Throughput", "Training seeds per second; gaps are evaluation.", _draw_throughput, result),
        figure_of(
            "Memory",
            f"{_limits(result)[1]}The process also has torch and the model.",
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
        figure_of("Where the rows came from", f"Bytes per epoch. {tier_rates(result)}", _draw_tiers, result),
    ]


def plots_of_several(runs: Mapping[str, TrainResult]) -> list[str]:
    """Return the figures that compare runs."""
    runs = _shortened(runs)
    return [
        figure_of("Validation score", "By epoch.", _draw_scores, runs),
        figure_of("Loss", "Of training, by epoch.", _draw_losses, runs),
        figure_of("Time per epoch", "Seconds of training, without evaluation.", _draw_times, runs),
        figure_of("Memory", "Anonymous memory of the process, over time.", _draw_memories, runs),
    ]


def _shortened(runs: Mapping[str, TrainResult]) -> Mapping[str, TrainResult]:
    """Return runs by names that fit into a legend: the file without its folders, or the end of the path."""
    found = [os.path.basename(name)[:_NAME] for name in runs]
    if len(set(found)) < len(runs):
        found = [name if len(name) <= _NAME else "…" + name[-_NAME:] for name in runs]
    return dict(zip(found, runs.values(), strict=True)) if len(set(found)) == len(runs) else runs


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
    style = "o-" if len(epochs) <= _MOST_MARKS else "-"
    axes.plot(epochs, [e.score() * scale for e in result.epochs], style, markersize=4, label=label)
    trained = [e.train_accuracy * scale for e in result.epochs if e.train_accuracy is not None]
    if trained and percent:  # other metrics are not computed in training
        axes.plot(epochs, trained, style, markersize=4, label="training")
    if result.best_epoch >= 0:
        axes.plot(
            [result.best_epoch + 1],
            [result.val_score * scale],
            "o",
            markersize=11,
            fillstyle="none",
            color=INK,
            clip_on=False,
        )
    axes.set_ylabel("accuracy, %" if percent else metric_name(result.metric))
    _whole_epochs(axes, max(epochs, default=1))
    loss = axes.twinx()
    loss.grid(False)
    loss.spines["right"].set_visible(True)
    loss.patch.set_alpha(0)
    loss.plot(epochs, [e.loss for e in result.epochs], "--", color=SERIES[2])
    loss.set_ylabel("loss")
    loss.set_ylim(bottom=0)
    axes.plot([], [], "--", color=SERIES[2], label="loss (right)")
    legend_above(axes, 3)


def _draw_throughput(axes: Any, result: TrainResult) -> None:
    points = result.progress
    step = max(1, len(points) // 150)
    points = points[::step]
    times, rates = [], []
    for (t0, n0), (t1, n1) in itertools.pairwise(points):
        times.append((t0 + t1) / 2)
        rates.append((n1 - n0) / max(t1 - t0, 1e-9))
    axes.fill_between(times, rates, alpha=0.2, color=SERIES[0], linewidth=0)
    axes.plot(times, rates, color=SERIES[0])
    mean = result.seeds_per_second
    axes.axhline(mean, color=INK, linestyle=":", linewidth=1.2, label=f"mean while training: {mean:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    legend_above(axes, 2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("seeds per second")


def _limits(result: TrainResult) -> tuple[dict[str, Any], str]:
    """Return what is drawn next to the memory of the process, by name: a budget, and the use of a control group.

    What is far above the process would flatten its line, and is named in the returned text instead.
    """
    found: dict[str, Any] = {}
    budget, text = result.data.get("budget_bytes"), ""
    highest = max((max(s.anonymous, s.file) for s in result.memory), default=0)
    if budget and result.data["budget"] != "auto":
        text = f"The budget of the engine's buffers is {format_size(budget)}. "
        if budget <= _FAR * highest:
            found["budget of the engine"] = budget
    group = [s.group for s in result.memory if s.group is not None]
    if group and max(group) <= _FAR * highest:
        found["control group"] = [s.group or 0 for s in result.memory]
    if group:
        text += f"The control group, with page cache and other processes, used up to {format_size(max(group))}. "
    return found, text


def _draw_memory(axes: Any, result: TrainResult) -> None:
    step = max(1, len(result.memory) // 400)
    samples, limits = result.memory[::step], _limits(result)[0]
    times = [s.seconds for s in samples]
    axes.plot(times, [s.anonymous / 1e6 for s in samples], label="process")
    axes.plot(times, [s.file / 1e6 for s in samples], label="mapped files")
    if any(s.engine for s in samples):
        axes.plot(times, [(s.engine or 0) / 1e6 for s in samples], label="engine")
    if "control group" in limits:
        axes.plot(times, [used / 1e6 for used in limits["control group"][::step]], label="control group")
    if "budget of the engine" in limits:
        budget = limits["budget of the engine"] / 1e6
        axes.axhline(budget, color=INK, linestyle=":", linewidth=1.2, label="budget of the engine")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB")
    legend_above(axes, 3)


def _draw_tiers(axes: Any, result: TrainResult) -> None:
    tiers = {
        "kept on the GPU": [float(e.kept_bytes) for e in result.epochs],
        "from RAM": [e.bytes_useful * e.hit_rate for e in result.epochs],
        "read from disk": [float(e.bytes_read + e.topology_bytes_read) for e in result.epochs],
        "copied to the GPU": [float(e.device_bytes) for e in result.epochs],
    }
    tiers = {name: sizes for name, sizes in tiers.items() if "GPU" not in name or any(sizes)}
    most = max((size for of in tiers.values() for size in of), default=0.0)
    unit, scale = next((pair for pair in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)) if most >= pair[1]), ("bytes", 1))
    _draw_bars(axes, [e.epoch for e in result.epochs], {k: [v / scale for v in of] for k, of in tiers.items()})
    axes.set_ylabel(unit)


def _draw_stages(axes: Any, result: TrainResult) -> None:
    stages = {stage: [e.stages.get(stage, 0.0) for e in result.epochs] for stage in _STAGES}
    _draw_bars(axes, [e.epoch for e in result.epochs], stages)
    axes.set_ylabel("seconds")


def _draw_bars(axes: Any, epochs: list[int], values: Mapping[str, list[float]]) -> None:
    width = 0.8 / len(values)
    for index, (label, of) in enumerate(values.items()):
        if len(epochs) > _MOST_BARS:  # bars would be hairlines
            axes.plot([epoch + 1 for epoch in epochs], of, label=label, color=SERIES[index])
            continue
        places = [epoch + 1 + (index - (len(values) - 1) / 2) * width for epoch in epochs]
        axes.bar(places, of, width * 0.92, label=label, color=SERIES[index])
    axes.grid(False, axis="x")
    axes.set_ylim(bottom=0)
    _whole_epochs(axes, max((epoch + 1 for epoch in epochs), default=1))
    legend_above(axes, len(values))


def _lines(axes: Any, runs: Mapping[str, TrainResult], value: Callable[[TrainResult, Any], float], what: str) -> None:
    for index, (name, result) in enumerate(runs.items()):
        style = ("-", "--", ":", "-.")[index // len(SERIES) % 4]
        epochs = [e.epoch + 1 for e in result.epochs]
        mark = "o" if len(epochs) <= _MOST_MARKS else None
        axes.plot(epochs, [value(result, e) for e in result.epochs], style, marker=mark, markersize=4, label=name)
    axes.set_ylabel(what)
    _whole_epochs(axes, max((e.epoch + 1 for result in runs.values() for e in result.epochs), default=1))
    legend_above(axes, 3)


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
    legend_above(axes, 3)
