"""A small server that forks a child for each job: an interpreter with the engine loaded, ready in milliseconds.

Faults are injected into system calls at every place in turn; starting Python anew for each would take most of the time.
A child stops itself before its job, so that a tracer can attach, and reports as JSON what came of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """What came of a job. `error` is the exception's class, '' when there was none; `status` is as of waitpid."""

    status: int
    error: str = ""
    message: str = ""
    fds: tuple[int, int] = (0, 0)  # open before and after

    @property
    def killed(self) -> bool:
        """Whether a signal ended the child."""
        return os.WIFSIGNALED(self.status)

    @property
    def fine(self) -> bool:
        """Whether the job did its work."""
        return self.status == 0 and not self.error


class Forks:
    """The server. `start` gives a stopped child, `finish` lets it go on and waits for it."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        """Start it; `environment` adds to the server's (LD_PRELOAD, say)."""
        folders = [ROOT, ROOT / "tests" / "oracles", ROOT / "tests" / "faults"]
        path = os.pathsep.join(map(str, folders))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )

    def start(self, job: str, *arguments: object) -> int:
        """Fork a child for `jobs.<job>(*arguments)`; it is stopped when this returns its pid."""
        self._say({"job": job, "arguments": [str(a) for a in arguments]})
        return int(self._hear()["pid"])

    def finish(self, pid: int) -> Outcome:
        """Let the child run, and wait until it ends."""
        self._say({"go": pid})
        reply = self._hear()
        return Outcome(reply["status"], reply["error"], reply["message"], tuple(reply["fds"]))

    def run(self, job: str, *arguments: object) -> Outcome:
        """Start and finish."""
        return self.finish(self.start(job, *arguments))

    def __enter__(self) -> Forks:
        """Return self."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the server."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=PATIENCE)

    def _say(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        print(json.dumps(message), file=self._server.stdin, flush=True)

    def _hear(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        assert line, "the fork server ended"
        reply: dict[str, Any] = json.loads(line)
        return reply


def _open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def _child(request: dict[str, Any], pipe: int) -> None:
    import jobs

    os.kill(os.getpid(), signal.SIGSTOP)
    before = _open_fds()
    error = message = ""
    try:
        getattr(jobs, request["job"])(*request["arguments"])
    except BaseException as raised:
        error, message = type(raised).__name__, str(raised)
    report = {"error": error, "message": message, "fds": [before, _open_fds()]}
    os.write(pipe, json.dumps(report).encode())
    os._exit(0)


def serve() -> None:
    """Fork, report the pid; on `go` continue it, wait, report."""
    import jobs  # noqa: F401  # loaded once, here, for all children

    pipes: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "go" in request:
            pid = request["go"]
            os.kill(pid, signal.SIGCONT)
            status = os.waitpid(pid, 0)[1]
            with os.fdopen(pipes.pop(pid)) as report:
                text = report.read()
            reply = json.loads(text) if text else {"error": "", "message": "", "fds": [0, 0]}
            print(json.dumps(reply | {"status": status}), flush=True)
            continue
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            _child(request, write_end)
        os.close(write_end)
        os.waitpid(pid, os.WUNTRACED)
        pipes[pid] = read_end
        print(json.dumps({"pid": pid}), flush=True)


if __name__ == "__main__":
    serve()
