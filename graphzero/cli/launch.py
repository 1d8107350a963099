"""Run a command in several processes with torchrun: they end together, and one error is printed for all."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import typer

from graphzero.machine.ranks import local_threads

from . import faults

_MARK = "GRAPHZERO_LAUNCHED"  # set for ranks that `launch` starts: it prints their errors
_PATIENCE = "300"  # seconds for ranks to save after Ctrl-C
_PR_SET_PDEATHSIG = 1


def is_rank() -> bool:
    """Whether a launcher started this process as one of several."""
    world = os.environ.get("WORLD_SIZE", "")
    return world.isdigit() and int(world) > 1 and {"RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def launch(nproc: int) -> None:
    """Run this command again in `nproc` ranks on this host; raise typer.Exit with the code of a rank that fails.

    Ctrl-C is forwarded to all ranks, once. When a rank fails, the others are terminated, and its error is printed.
    """
    from graphzero import _core

    threads = str(max(1, _core.default_threads() // nproc))
    added = {_MARK: "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
    added["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _PATIENCE)
    with tempfile.TemporaryDirectory(prefix="graphzero-ranks-") as logs, _environment(added):
        code = _run_agent(nproc, logs)
    if code:
        raise typer.Exit(code)


def _run_agent(nproc: int, logs: str) -> int:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed."):  # the agent's log is summarised in one line below
            logging.getLogger(name).setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=nproc,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        logs_specs=DefaultLogsSpecs(log_dir=logs),
    )
    try:
        elastic_launch(config, sys.executable)("-m", "graphzero", *sys.argv[1:])
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    except ChildFailedError as failed:
        cause = first_cause(failed.failures)
        if cause.code != faults.EXIT_INTERRUPTED:
            typer.echo(f"graphzero: error: rank {cause.rank} of {nproc}: {cause.text}", err=True)
        return cause.code
    return 0


class Cause(NamedTuple):
    """Why a run ended: the rank, its message and its exit code."""

    rank: int
    text: str
    code: int


def first_cause(failures: Mapping[int, Any]) -> Cause:
    """Return the first cause: a rank's own error, else its death, else the errors that these caused in other ranks."""
    causes = []
    for rank, failure in failures.items():
        note = failure.error_file_data.get("message") if isinstance(failure.error_file_data, dict) else None
        if isinstance(note, dict) and "time" in note.get("extraInfo", {}):
            about = note["extraInfo"]
            causes.append((2 if about["follows"] else 0, about["time"], Cause(rank, note["message"], failure.exitcode)))
        elif failure.exitcode < 0:
            ended = failure.exitcode == -signal.SIGTERM  # by the agent, after another rank had failed
            causes.append((3 if ended else 1, 0, Cause(rank, _death(-failure.exitcode), faults.EXIT_FAULT)))
        else:
            causes.append((1, 0, Cause(rank, f"ended with exit code {failure.exitcode}", failure.exitcode)))
    return min(causes)[2]


def _death(number: int) -> str:
    hint = ", possibly out of memory; try a lower --memory or --nproc" if number == signal.SIGKILL else ""
    return f"killed by {signal.Signals(number).name}{hint}"


@contextlib.contextmanager
def joined(device: str | None) -> Iterator[bool]:
    """Join the process group if this process is a rank; yield whether it is the rank that reports.

    A rank that fails leaves its error to the launcher and exits at once, so that the others do not wait for it.
    """
    if not is_rank():
        yield True
        return
    import torch
    from torch import distributed

    _die_with_launcher()
    if _MARK not in os.environ and os.environ.get("OMP_NUM_THREADS", "1") == "1":
        torch.set_num_threads(local_threads())  # torchrun sets 1 for every rank
    cuda = torch.cuda.is_available() and (device is None or device.startswith("cuda"))
    try:
        distributed.init_process_group("nccl" if cuda else "gloo")
        leaving: typer.Exit | None = None
        try:
            yield distributed.get_rank() == 0
        except typer.Exit as asked:
            leaving = asked
        distributed.barrier()  # no rank exits before everything is written
        distributed.destroy_process_group()
    except BaseException as error:
        _fail(error)
    if leaving is not None:
        raise leaving


def _fail(error: BaseException) -> None:
    """Write the error to the launcher's error file, and exit."""
    if faults.debug.get():
        traceback.print_exc()
    text = faults.message(error) if not isinstance(error, KeyboardInterrupt) else "interrupted"
    now = time.time()
    about = {"timestamp": str(int(now)), "time": now, "follows": follows(error), "py_callstack": traceback.format_exc()}
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        with contextlib.suppress(OSError), open(path, "w") as file:
            json.dump({"message": {"message": text, "extraInfo": about}}, file)
    if _MARK not in os.environ:
        typer.echo(f"graphzero: error: rank {os.environ['RANK']}: {text}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(faults.exit_code(error))


def follows(error: BaseException) -> bool:
    """Whether an error is a consequence of another rank's exit."""
    from torch import distributed

    text = str(error)
    return isinstance(error, distributed.DistError) or (
        isinstance(error, RuntimeError) and ("gloo" in text.lower() or "Connection closed by peer" in text)
    )


def _die_with_launcher() -> None:
    """Make Linux end this rank when the launcher is killed: it runs in its own session."""
    if _MARK in os.environ and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
