"""Leaks: thousands of opens, samples, gathers and closes leave no descriptor, mapping, thread or memory behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import container_spec as spec
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
CYCLES = 10_000 if os.environ.get("GRAPHZERO_SOAK") else 300

MEASURE = """
import gc, os, re, sys
import numpy as np
import graphzero as gz

def status(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))

def measure():
    gc.collect()
    return {
        "fds": len(os.listdir("/proc/self/fd")),
        "maps": len(open("/proc/self/maps").readlines()),
        "threads": status("Threads"),
        "kilobytes": status("RssAnon"),
    }

def run(cycle, cycles, *, kilobytes=4096):
    for _ in range(40):  # pools fill, rings are made, the allocator settles
        cycle()
    allowed = {"fds": 0, "maps": 8, "threads": 0, "kilobytes": kilobytes}
    for _ in range(3):  # a leak goes on; a second ring, made when two threads first meet, does not
        before = measure()
        for _ in range(cycles):
            cycle()
        after = measure()
        grown = {name: after[name] - before[name] for name in before if after[name] - before[name] > allowed[name]}
        if not grown:
            break
    print(grown or "nothing leaked", before, after)

graph, features, cycles = sys.argv[1], sys.argv[2], int(sys.argv[3])
ids = np.arange(200)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("leaks")
    rng = np.random.default_rng(0)
    rows = [sorted(rng.integers(0, 500, 8).tolist()) for _ in range(500)]
    (folder / "g.gl").write_bytes(spec.topology(rows, weights=np.ones(4000, np.float32)))
    (folder / "x.gd").write_bytes(spec.features(x=rng.standard_normal((500, 64)).astype(np.float32)))
    return folder / "g.gl", folder / "x.gd"


def leaks(code: str, files: tuple[Path, Path], cycles: int = CYCLES) -> str:
    folders = [ROOT, ROOT / "tests" / "oracles"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE + textwrap.dedent(code), *map(str, files), str(cycles)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "MALLOC_ARENA_MAX": "2"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


CYCLE = """
def cycle():
    with gz.Graph(graph) as g, gz.FeatureStore(features) as fs:
        part = g.sample(ids, [4, 4], seed=1)
        g.sample(ids[:20], [3], weighted=True, disjoint=True)
        g.batch_random_walk(ids, 5, p=0.5, q=2.0)
        g.batch_random_fanout(ids, 5)
        g.negative_edges(50)
        for io in ("auto", "mmap", "pread", "uring"):
            try:
                fs.gather(part.node, io=io)
            except gz.StorageError:
                if io != "uring":
                    raise
        g.get_neighbours(3), fs.get_tensor(), g.degrees()
"""


def test_open_sample_gather_close(files: tuple[Path, Path]) -> None:
    assert leaks(CYCLE + "run(cycle, cycles)", files).startswith("nothing leaked")


def test_failed_opens_and_calls(files: tuple[Path, Path], tmp_path: Path) -> None:
    code = """
    from corpus import malformed
    bad = [(case.suffix, case.data) for case in malformed.cases()[::24]]
    for i, (suffix, data) in enumerate(bad):
        open(f"{graph}.{i}{suffix}", "wb").write(data)
    g = gz.Graph(graph)
    fs = gz.FeatureStore(features)

    def refused(call):
        try:
            call()
        except (gz.GraphZeroError, IndexError, ValueError):
            return
        raise AssertionError("not refused")

    def cycle():
        for i, (suffix, _) in enumerate(bad):
            refused(lambda: (gz.Graph if suffix == ".gl" else gz.FeatureStore)(f"{graph}.{i}{suffix}"))
        refused(lambda: g.sample([10**6], [2]))
        refused(lambda: fs.gather([10**6]))
        refused(lambda: g.batch_random_walk([0], 3, p=0.0))

    run(cycle, cycles // 5)
    """
    assert leaks(textwrap.dedent(code), files).startswith("nothing leaked")


def test_loader_epochs_whole_and_cut_short(files: tuple[Path, Path]) -> None:
    pytest.importorskip("torch")
    code = """
    import torch
    torch.set_num_threads(1)

    def cycle():
        g, fs = gz.Graph(graph), gz.FeatureStore(features)
        loader = gz.NeighborLoader(g, fs, fanouts=[3, 2], seeds=ids, batch_size=50, memory="64MB", num_threads=2)
        for batch in loader:
            pass
        for batch in loader:
            break

    run(cycle, max(cycles // 5, 50), kilobytes=8192)
    """
    assert leaks(textwrap.dedent(code), files).startswith("nothing leaked")


@pytest.mark.parametrize(
    ("leak", "found"),
    [
        ("os.dup(0)", "fds"),
        ("kept.append(np.ones(20_000))", "kilobytes"),
        ("kept.append(gz.Graph(graph).get_neighbours(0))", "maps"),
        (
            "t = __import__('threading').Event(); __import__('threading').Thread(target=t.wait, daemon=True).start()",
            "threads",
        ),
    ],
)
def test_a_leak_would_be_noticed(files: tuple[Path, Path], leak: str, found: str) -> None:
    code = f"kept = []\ndef cycle():\n    {leak}\nrun(cycle, 60)\n"
    assert f"'{found}'" in leaks(code, files).split("}")[0]
