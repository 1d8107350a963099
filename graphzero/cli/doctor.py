"""`graphzero doctor`: measure the disk and the machine, and report what to expect and what to change."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from graphzero.dataset.manifest import MANIFEST
from graphzero.machine.doctor import examine

from . import terminal
from .keywords import as_options
from .train import numbers

_CHECK_SECONDS = 10.0


def command(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder or dataset to measure.")] = Path("."),
    size: Annotated[str, typer.Option(metavar="SIZE", help="Maximum size of the scratch file.")] = "256MB",
    fanouts: Annotated[str, typer.Option(metavar="N,N", help="Fanouts to estimate for.")] = "15,10,5",
    batch_size: Annotated[int, typer.Option(min=1, help="Batch size to estimate for.")] = 1024,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory budget for the loader, or auto.")] = "auto",
    check: Annotated[
        bool, typer.Option("--check", help="Run parts of two epochs (about 20 s) and compare them with the estimate.")
    ] = False,
    json: terminal.Json = False,
) -> None:
    """Measure the disk and the machine; report what to expect and what to change. Takes a few seconds.

    For a dataset with a training split, also estimate the disk, RAM and time that an epoch needs, from a cold start
    and with everything in RAM. The time of the model itself is not included.
    """
    if not (folder / MANIFEST).exists():
        estimated = ("fanouts", "batch_size", "memory", "check")
        terminal.refuse_given(context, estimated, f"needs a dataset to estimate for, but {folder} is not one")
    with contextlib.nullcontext() if json else terminal.errors.status("measuring " + escape(str(folder))):
        report = examine(
            folder,
            size=size,
            fanouts=numbers(fanouts, "--fanouts"),
            batch_size=batch_size,
            memory=memory,
            check_seconds=_CHECK_SECONDS if check else 0,
        )
    if json:
        terminal.print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    disk, memory, cpu, torch = report["disk"], report["memory"], report["processors"], report["torch"]
    facts: list[tuple[str, object]] = [
        (
            "disk",
            _words(
                disk["file_system"],
                disk["device"] and f"on {disk['device']}",
                f"{terminal.size(disk['free_bytes'])} free",
            ),
        ),
        ("sequential", f"{terminal.size(disk['sequential'])}/s"),
        ("random, 1 in flight", _reads(disk["random_1"])),
        ("random, 256 in flight", _reads(disk["random_256"])),
        ("readahead", "unknown" if disk["readahead_bytes"] is None else f"{disk['readahead_bytes'] >> 10} KiB"),
        ("O_DIRECT", _yes(disk["o_direct"])),
        ("io_uring", _yes(report["io_uring"]["works"])),
        (
            "RAM",
            _words(_size(memory["total"]), memory["available"] and f"{terminal.size(memory['available'])} available"),
        ),
        ("cgroup limit", "none" if memory["cgroup_limit"] is None else terminal.size(memory["cgroup_limit"])),
        ("processors", _words(f"{cpu['usable']} of {cpu['count']}", cpu["model"])),
        ("locked memory", _limit(report["limits"]["memlock"], True)),
        ("open files", _limit(report["limits"]["open_files"], False)),
        ("memory maps", _limit(report["limits"]["max_map_count"], False)),
        ("torch", "not installed" if torch is None else f"{torch['version']}, {torch['threads']} threads"),
    ]
    if torch is not None and torch["gpus"]:
        facts.append(("GPU", ", ".join(torch["gpus"])))
    terminal.print_facts(f"{report['folder']} (measured on {disk['measured']})", facts)
    terminal.console.print()
    for finding in report["findings"]:
        good = finding["level"] == "good"
        terminal.print_note("ok" if good else "!", "green" if good else "bold yellow", as_options(finding["text"]))
        if finding["fix"]:
            terminal.print_note("", "", "-> " + as_options(finding["fix"]))
    if report["dataset"] is not None and "batches" in report["dataset"]:
        terminal.console.print()
        _print_estimate(report["dataset"])


def _print_estimate(expected: dict[str, Any]) -> None:
    parts = expected["batch_seconds"]
    batches = "1 batch" if expected["batches"] == 1 else f"{expected['batches']:,} batches"
    processor = f"sample {_ms(parts['sample'])} and copy {_ms(parts['copy'])}, divided by {expected['threads']} threads"
    facts: list[tuple[str, object]] = [
        (
            "an epoch",
            f"{batches} of {expected['batch_size']} seeds, fanouts {expected['fanouts']}: "
            f"{terminal.short(expected['rows_a_batch'])} rows, {terminal.size(expected['bytes_a_batch'])} each",
        ),
        ("on disk", terminal.size(expected["bytes"])),
        ("in RAM", f"{terminal.size(expected['ram_bytes'])}: {expected['why']}"),
        ("per batch", f"{processor}; disk {_ms(parts['disk'])}"),
        ("first epoch", f"{terminal.duration(expected['epoch_seconds_cold'])}, with nothing in RAM before"),
        ("later epochs", terminal.duration(expected["epoch_seconds_later"])),
        ("all in RAM", terminal.duration(expected["epoch_seconds_in_ram"])),
        ("by page faults", f"{terminal.duration(expected['epoch_seconds_faults'])}, as plain memory maps read"),
    ]
    if gpu := expected.get("gpu"):
        facts.append(
            (
                "rows on the GPU",
                f"{gpu['share_of_rows']:.0%} fit into half of its free memory (--gpu-memory) and serve about "
                f"{gpu['hit_rate']:.0%} of the uses: {terminal.size(gpu['bytes_a_batch'])} per batch to copy, "
                f"{terminal.duration(gpu['epoch_seconds_in_ram'])} per epoch if the rest is in RAM",
            )
        )
    for found in expected.get("check", ()):
        facts.append(
            (
                f"check, {found['pass']}",
                f"{found['batches']:,} batches: estimated {terminal.duration(found['estimated'])}, "
                f"took {terminal.duration(found['measured'])}, error {found['error']:+.0%}",
            )
        )
    terminal.print_facts(f"Loading {expected['name']} here, estimated (without the model)", facts)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def _reads(count: float) -> str:
    return f"{terminal.short(count)} reads/s of 4 KiB ({terminal.size(count * 4096)}/s)"


def _size(value: int | None) -> str:
    return "unknown" if value is None else terminal.size(value)


def _limit(value: int | None, is_bytes: bool) -> str:
    if value is None:
        return "no limit"
    return terminal.size(value) if is_bytes else f"{value:,}"


def _yes(value: bool) -> str:
    return "works" if value else "does not work here"


def _words(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)
