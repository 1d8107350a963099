"""`graphzero demo`: make a graph, train on it with too little memory for it, and compare, in a few minutes."""

from __future__ import annotations

import contextlib
import importlib.util
import json as json_module
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from graphzero.args.sizes import parse_size
from graphzero.compile.synth import synthesize
from graphzero.dataset.dataset import Dataset
from graphzero.dataset.manifest import MANIFEST
from graphzero.errors import GraphZeroError
from graphzero.machine import disk as _disk
from graphzero.machine.memory_limit import MemoryLimit, memory_limit

from . import terminal
from .train import require_torch

_DIM = 128
_SPLITS = {"train": 0.02, "valid": 0.005, "test": 0.005}


def command(
    folder: Annotated[Path, typer.Argument(help="Folder for the data.")] = Path("demo-data"),
    nodes: Annotated[int, typer.Option(min=1000, help="Number of nodes, with ten edges each.")] = 3_000_000,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 3,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory budget for the loader.")] = "300MB",
    limit: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Memory limit of the process, enforced by a control group where permitted."),
    ] = "1GB",
    clean: Annotated[bool, typer.Option("--clean", help="Delete the data afterwards.")] = False,
    json: terminal.Json = False,
) -> None:
    """Make a graph, train on it out of core under a memory limit, and compare with loading everything."""
    require_torch()
    say = terminal.errors if json else terminal.console
    parse_size(memory)
    allowed = parse_size(limit, "limit")
    say.print(
        "[bold]GraphZero demo[/]: train on a graph within a memory budget, then with everything in RAM\n",
        soft_wrap=True,
    )

    say.print(
        "[cyan]1/4[/] Make a graph: power-law degrees, communities, features that hint at the class", soft_wrap=True
    )
    dataset, seconds = _dataset(folder, nodes)
    graph, x = dataset.graph, dataset.features["x"]
    took = f"made and compiled in {terminal.duration(seconds)}" if seconds else "made earlier"
    say.print(
        f"    {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {x.feature_dim} x {x.dtype_name}: "
        f"{terminal.size(dataset.nbytes)} on disk, {took}\n",
        soft_wrap=True,
    )
    options = {"fanouts": [10, 5], "epochs": epochs, "memory": memory, "hidden": 128, "lr": 0.005, "device": "cpu"}
    report = folder / "report.html" if importlib.util.find_spec("matplotlib") else None

    with memory_limit(allowed) as group:
        _disk.forget(dataset.files)
        say.print(
            f"[cyan]2/4[/] Train GraphSAGE out of core: budget {memory}, {_enforced(group, limit)}", soft_wrap=True
        )
        out_of_core = _run("out-of-core", dataset.path, options, say, group, report)
        out_of_core["group_peak"] = group.peak if group is not None else None
    say.print("\n[cyan]3/4[/] The same with everything loaded into RAM, no limit")
    in_ram = _run("in-ram", dataset.path, options, say)

    if json:
        figures = {"out_of_core": out_of_core, "in_ram": in_ram, "dataset": dataset.info, "limited": group is not None}
        terminal.print_json(figures | {"report": report, "kept": not clean})
    else:
        say.print("\n[cyan]4/4[/] Side by side")
        _compare(out_of_core, in_ram, limit if group is not None else None)
        _next_steps(folder, report, clean)
    if clean:
        _remove(folder, report)


def _dataset(folder: Path, nodes: int) -> tuple[Dataset, float]:
    """Open the data of an earlier demo of the same size, or make it; the seconds are 0 for the former."""
    if (folder / "data" / MANIFEST).exists():
        dataset = Dataset(folder / "data")
        if dataset.info["about"].get("made_by") != "graphzero synth":
            raise GraphZeroError(f"{folder / 'data'}: this dataset was not made by the demo; choose another folder")
        if dataset.num_nodes == nodes:
            return dataset, 0.0
    need = int(nodes * (_DIM * 4 + 10 * 4 + 8) * 2.2)  # the files, and space to sort the edges
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < need:
        raise GraphZeroError(
            f"{folder}: {terminal.size(free)} free, the demo needs {terminal.size(need)}; "
            f"choose another folder or fewer --nodes"
        )
    begin = time.perf_counter()
    with terminal.progress_bars() as progress:
        dataset = synthesize(
            folder / "data",
            nodes=nodes,
            edges=10 * nodes,
            dim=_DIM,
            classes=16,
            signal=1.0,
            splits=_SPLITS,
            progress=progress,
            overwrite=True,
        )
    return dataset, time.perf_counter() - begin


def _remove(folder: Path, report: Path | None) -> None:
    """Remove what the demo made, and the folder if it is then empty."""
    shutil.rmtree(folder / "data")
    if report is not None:
        report.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _enforced(group: MemoryLimit | None, limit: str) -> str:
    if group is not None:
        return f"and the kernel kills the process if it passes {limit}, page cache included"
    return "not enforced by the kernel (a control group needs root here), but measured"


def _run(
    kind: str,
    dataset: str,
    options: Mapping[str, Any],
    say: Any,
    group: MemoryLimit | None = None,
    report: Path | None = None,
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        result, chosen = Path(scratch, "result.json"), Path(scratch, "options.json")
        chosen.write_text(json_module.dumps(dict(options)))
        command = [sys.executable, "-m", "graphzero.cli.demo_runs", kind, dataset, str(result), str(chosen)]
        if report is not None:
            command.append(str(report))
        with _lines(group.wrap(command) if group is not None else command) as lines:
            for line in lines:
                say.print(f"    {line.rstrip()}", soft_wrap=True, markup=False)
        if not result.exists():
            killed = group is not None and group.kills > 0
            why = "killed by the kernel for exceeding the limit" if killed else "see its message above"
            raise GraphZeroError(f"the {kind} run failed ({why})")
        figures: dict[str, Any] = json_module.loads(result.read_text())
        return figures


@contextlib.contextmanager
def _lines(command: list[str]) -> Iterator[Iterator[str]]:
    """Run a command and yield its output lines; an error or Ctrl-C here also ends it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield iter(process.stdout)
        process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def _compare(ours: dict[str, Any], ram: dict[str, Any], limit: str | None) -> None:
    def both(name: str, show: Any) -> tuple[str, str]:
        return show(ours[name]), show(ram[name])

    rows = [
        ("test accuracy", *both("test_accuracy", lambda v: f"{v:.1%}")),
        ("training seeds per second", *both("seeds_per_second", lambda v: f"{v:,.0f}")),
        ("ready to train after", *both("ready_seconds", terminal.duration)),
        ("peak memory, anonymous", *both("peak_anonymous", terminal.size)),
        ("peak memory, with mapped files", *both("peak_resident", terminal.size)),
        ("limit set by the kernel", limit or "none", "none"),
    ]
    terminal.print_table(["", ">GraphZero, out of core", ">everything in RAM"], rows)
    share = ours["peak_anonymous"] / ram["peak_anonymous"]
    speed = ours["seeds_per_second"] / ram["seeds_per_second"]
    terminal.console.print(
        f"Out of core used {share:.0%} of the memory at {speed:.0%} of the speed. Its memory depends on the budget, "
        f"not on the size of the graph.\n",
        soft_wrap=True,
    )


def _next_steps(folder: Path, report: Path | None, clean: bool) -> None:
    lines = ["[bold]What next[/]"]
    if shutil.which("graphzero") is None:  # `make demo` runs it from an environment that is not active in the shell
        lines.append(f"  . {Path(sys.executable).parent / 'activate'}  first, so that the shell finds graphzero")
    if report is not None and not clean:
        lines.append(f"  open {report}  plots of throughput, memory and where the time went")
    if not clean:
        lines.append(f"  graphzero train {folder / 'data'} --epochs 3 --checkpoint run.npz --report run.html")
    lines += [
        "  graphzero compile edges.csv graph.gl      your own graph",
        "  graphzero synth arxiv --preset arxiv      a graph of a published shape",
        "  graphzero doctor                          what this machine's disk and memory allow",
    ]
    if not clean:
        lines.append(f"The data is in {folder}; to delete it: rm -r {folder}")
    for line in lines:
        terminal.console.print(line, soft_wrap=True)
