"""`graphzero doctor`: measure the disk and the machine, and say in plain words what to expect and to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from graphzero.doctor import examine

from . import terminal


def command(
    folder: Annotated[Path, typer.Argument(help="The folder or dataset whose disk is meant.")] = Path("."),
    size: Annotated[str, typer.Option(metavar="SIZE", help="The most that the scratch file may take.")] = "256MB",
    json: terminal.Json = False,
) -> None:
    """Measure the disk and the machine; say what to expect and what to change. Takes a few seconds."""
    if json:
        terminal.print_json(examine(folder, size=size))
        return
    with terminal.errors.status("measuring the disk under " + escape(str(folder))):
        report = examine(folder, size=size)
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
        terminal.print_note("ok" if good else "!", "green" if good else "bold yellow", finding["text"])
        if finding["fix"]:
            terminal.print_note("", "", "-> " + finding["fix"])
    if report["dataset"] is not None and "batches" in report["dataset"]:
        terminal.print_note("=>", "cyan", _epoch(report["dataset"]))


def _epoch(expected: dict[str, Any]) -> str:
    tail = (
        "It all fits in RAM: only the first pass reads."
        if expected["fits_in_ram"]
        else "The loader's cache saves what it holds."
    )
    return (
        f"One epoch of {expected['name']} is {expected['batches']:,} batches of {expected['batch_size']} seeds and "
        f"about {terminal.short(expected['rows_a_batch'])} rows (fanouts {expected['fanouts']}). With nothing in RAM "
        f"its reads take about {terminal.duration(expected['epoch_seconds_cold'])}; one page fault at a time, about "
        f"{terminal.duration(expected['epoch_seconds_faults'])}. {tail}"
    )


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
