"""`graphzero quickstart`: a graph of real packages, a trained model and a report, within a minute."""

from __future__ import annotations

import csv
import importlib.util
import os
import shlex
import sys
import tempfile
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from graphzero.dataset.dataset import Dataset
from graphzero.dataset.manifest import MANIFEST
from graphzero.errors import GraphZeroError
from graphzero.importing import import_dataset

from . import terminal
from .quickstart_graph import PackageGraph, package_graph
from .train import require_torch

if TYPE_CHECKING:
    from graphzero.train import EpochRecord, TrainResult

_NAME = "debian-packages"
_MEMORY = "64MB"
_EPOCHS = 15


def command(
    folder: Annotated[Path, typer.Argument(help="Folder for the data and the report.")] = Path("graphzero-quickstart"),
    packages: Annotated[
        int, typer.Option(min=100, max=3000, help="Number of packages; those with the most relations are used.")
    ] = 3000,
    browse: Annotated[
        bool, typer.Option("--browse/--no-browse", help="Open the report in a browser, if there is a desktop.")
    ] = True,
    json: terminal.Json = False,
) -> None:
    """Train a first model in under a minute, on a graph of real packages, and write a report.

    The graph has 3,000 Debian packages and what they depend on, from the package index of this machine or, where there
    is none, from a sample that comes with GraphZero. The model learns the section that a package belongs to.
    """
    begin = time.perf_counter()
    say = terminal.errors if json else terminal.console
    say.print("[bold]GraphZero quickstart[/]: which section does a Debian package belong to?\n", soft_wrap=True)
    require_torch()
    found = package_graph(packages)
    say.print(f"[cyan]1/3[/] A graph, from {found.where}", soft_wrap=True)
    dataset = _dataset(folder, found)
    _write_edges(folder / "edges.csv", found)
    train, test = (len(dataset.splits[split]) for split in ("train", "test"))
    say.print(
        f"    {dataset.num_nodes:,} packages, {len(found.source):,} relations (depends, recommends, suggests), "
        f"{dataset.num_classes} sections\n",
        soft_wrap=True,
    )
    say.print(f"[cyan]2/3[/] GraphSAGE learns from {train:,} packages, in a memory budget of {_MEMORY}", soft_wrap=True)
    result, checkpoint = _train(dataset, say)
    report = folder / "report.html" if importlib.util.find_spec("matplotlib") else None
    if report is not None:
        result.write_report(report)
    say.print(f"\n[cyan]3/3[/] Tested on {test:,} packages that it did not learn from", soft_wrap=True)
    by_words = _by_words(dataset)
    figures = _figures(dataset, result, by_words)
    if json:
        seconds = time.perf_counter() - begin
        terminal.print_json(figures | {"report": report, "dataset": dataset.path, "seconds": seconds})
        return
    _print_figures(figures)
    _print_examples(dataset, by_words, _predict(dataset, checkpoint))
    opened = report is not None and browse and _open(report)
    _print_next(folder, report, opened, time.perf_counter() - begin)


def _dataset(folder: Path, found: PackageGraph) -> Dataset:
    data = folder / "data"
    if (data / MANIFEST).exists() and Dataset(data).name != _NAME:
        raise GraphZeroError(f"{data}: this dataset was not made by the quickstart; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    return import_dataset(
        {"source": found.source, "target": found.target},
        data,
        nodes={"id": found.names, "label": found.sections, "x": found.words},
        node_columns={"features": ["x"]},
        splits="60/20/20",
        directed=False,
        dedup=True,
        name=_NAME,
        overwrite=True,
    ).dataset


def _write_edges(path: Path, found: PackageGraph) -> None:
    """Write the relations as anyone has them: a CSV file of names."""
    lines = (f"{source},{target}\n" for source, target in zip(found.source, found.target, strict=True))
    path.write_text("source,target\n" + "".join(lines), encoding="utf-8")


def _train(dataset: Dataset, say: Any) -> tuple[TrainResult, Path]:
    from graphzero.train import Observer, Trainer, TrainOptions

    class EveryFifth(Observer):
        def epoch(self, record: EpochRecord, best: bool) -> None:
            if (record.epoch + 1) % 5 == 0:
                say.print(f"    epoch {record.epoch + 1:>2}  validation accuracy {record.score():.1%}")

    options = TrainOptions(
        hidden=64, dropout=0.3, fanouts=[10, 5], batch_size=256, epochs=_EPOCHS, lr=0.01, memory=_MEMORY, device="cpu"
    )
    checkpoint = Path(dataset.path, "runs", "1.npz")
    return Trainer(dataset, options, checkpoint=checkpoint, observer=EveryFifth()).fit(overwrite=True), checkpoint


def _by_words(dataset: Dataset) -> np.ndarray[Any, Any]:
    """Return the classes that a linear model finds by the words of a name, without the graph."""
    import torch

    x = torch.from_numpy(np.array(dataset.features["x"].get_tensor()))
    y, train = torch.from_numpy(np.asarray(dataset.labels)).long(), torch.from_numpy(np.array(dataset.splits["train"]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Linear(x.shape[1], int(dataset.num_classes or 0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(model(x[train]), y[train])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return np.asarray(model(x).argmax(1))


def _figures(dataset: Dataset, result: TrainResult, by_words: np.ndarray[Any, Any]) -> dict[str, Any]:
    labels, test = np.asarray(dataset.labels), np.array(dataset.splits["test"])
    common = int(np.bincount(labels[np.array(dataset.splits["train"])]).argmax())
    return {
        "most_common": _sections(dataset)[common],
        "most_common_accuracy": float((labels[test] == common).mean()),
        "words_accuracy": float((labels[test] == by_words[test]).mean()),
        "test_accuracy": result.test_accuracy,
    }


def _sections(dataset: Dataset) -> list[str]:
    return list(dataset.info["about"]["classes"])


def _print_figures(figures: dict[str, Any]) -> None:
    rows = [
        (f"always the most common section ({figures['most_common']})", figures["most_common_accuracy"]),
        ("by the words of its name, without the graph", figures["words_accuracy"]),
        ("by its name and its neighbours in the graph", figures["test_accuracy"]),
    ]
    for name, accuracy in rows:
        terminal.console.print(f"    {name:<48} {accuracy:>6.1%}", soft_wrap=True, markup=False)


def _predict(dataset: Dataset, checkpoint: Path) -> dict[str, str]:
    """Return the section that the model predicts for each package."""
    from graphzero.train.predictions import predict

    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "predictions.csv")
        predict(dataset, checkpoint, out, memory=_MEMORY, device="cpu")
        with open(out, newline="", encoding="utf-8") as file:
            return {row["id"]: row["prediction"] for row in csv.DictReader(file)}


def _print_examples(dataset: Dataset, by_words: np.ndarray[Any, Any], predicted: dict[str, str]) -> None:
    """Print some packages of the test whose section the graph finds and the name does not."""
    labels, sections = np.asarray(dataset.labels), _sections(dataset)
    test = np.array(dataset.splits["test"])
    rows = []
    for node, name in zip(test.tolist(), dataset.ids.to_original(test), strict=True):
        if predicted[str(name)] == sections[labels[node]] != sections[by_words[node]]:
            rows.append((name, sections[by_words[node]], predicted[str(name)]))
    if rows:
        terminal.print_table(("", "by its name", "with the graph, correct"), rows[:: max(1, len(rows) // 4)][:4])


def _open(report: Path) -> bool:
    """Open the report in the browser of a desktop; False on a server, in a pipe, or if there is no browser."""
    desktop = sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if not sys.stdout.isatty() or not desktop or "SSH_CONNECTION" in os.environ:
        return False
    try:
        return webbrowser.open(report.resolve().as_uri())
    except (OSError, webbrowser.Error):
        return False


def _print_next(folder: Path, report: Path | None, opened: bool, seconds: float) -> None:
    data = folder / "data"
    shown = f"{report}{' (opened in your browser)' if opened else ''}"
    if report is None:
        shown = "not written, matplotlib is missing: pip install matplotlib"
    terminal.console.print()
    terminal.print_facts(f"Done in {terminal.duration(seconds)}", [("dataset", data), ("report", shown)])
    mine = [str(folder / "edges.csv"), str(folder / "mine")]
    longer = ["--epochs", "30", "--hidden", "256", "--report", str(folder / "longer.html")]
    steps = [
        (
            "the section of every package, with probabilities",
            ["predict", str(data), "--out", str(folder / "sections.csv")],
        ),
        ("a larger model, with a report of its own", ["train", str(data), *longer]),
        ("another task: which packages need each other", ["train", str(data), "--task", "links", "--epochs", "5"]),
        ("edges of your own, such as these", ["import", *mine, *(["--overwrite"] if Path(mine[1]).exists() else [])]),
    ]
    terminal.console.print("\n[bold]What next[/]")
    for what, words in steps:
        terminal.console.print(f"  [dim]# {what}[/]", soft_wrap=True)
        terminal.console.print(f"  {shlex.join(['graphzero', *words])}", soft_wrap=True, markup=False)
