"""Compiling holds its memory whatever the edges look like: hubs, copies of one edge, empty rows, all options."""

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.compile.edge_log import EdgeLog

NODES = 20_000
TOLERANCE = 64 << 10  # bytes past the budget: buffers are rounded up to pages


def edges_of(shape: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, NODES, (2, count))
    if shape == "hub":
        src[rng.random(count) < 0.7] = 7
    elif shape == "repeats":
        src[rng.random(count) < 0.9] = 7
        dst[rng.random(count) < 0.99] = 9
    return src, dst


def options_of(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    weights = rng.random(count).astype(np.float32)
    return {"weights": weights, "times": rng.integers(0, 1000, count), "edge_ids": True, "direction": "both"}


def check(folder: Path, edges: Any, memory: int, num_threads: int, **options: Any) -> None:
    gz.compile_graph(edges, folder / "large.gl", memory="1GB", num_threads=num_threads, **options)
    report = gz.compile_graph(edges, folder / "small.gl", memory=memory, num_threads=num_threads, **options)
    assert (folder / "small.gl").read_bytes() == (folder / "large.gl").read_bytes()
    assert report.spilled_bytes > 0
    assert report.peak_memory <= memory + TOLERANCE


@pytest.mark.parametrize("shape", ["uniform", "hub", "repeats"])
@pytest.mark.parametrize(
    ("memory", "num_threads", "count", "directed", "dedup"),
    [
        (1_000_000, 1, 25_000, True, False),
        (4_000_000, 1, 80_000, True, False),
        (4_000_000, 2, 80_000, True, True),
        (8_000_000, 2, 140_000, False, True),
        (16_000_000, 2, 280_000, True, True),
    ],
)
def test_all_options_stay_within_the_budget(
    tmp_path: Path, shape: str, memory: int, num_threads: int, count: int, directed: bool, dedup: bool
) -> None:
    options = options_of(count) | {"directed": directed, "dedup": dedup}
    check(tmp_path, edges_of(shape, count), memory, num_threads, **options)


def test_nodes_without_edges_stay_within_the_budget(tmp_path: Path) -> None:
    check(tmp_path, edges_of("uniform", 200_000), 1_000_000, 1, num_nodes=3_000_000)


def test_more_bytes_than_were_expected_stay_within_the_budget(tmp_path: Path) -> None:
    # Ids past 32 bits take 8 bytes more than the estimate of what is still to come allows for.
    src, dst = edges_of("uniform", 400_000)
    check(tmp_path, (src, dst + 4_900_000_000), 4_000_000, 1, num_nodes=(NODES, 5_000_000_000))


def test_less_than_the_least_memory_is_refused_with_the_size_needed(tmp_path: Path) -> None:
    with pytest.raises(gz.BudgetError, match="needs at least 2000000") as caught:
        gz.compile_graph([(0, 1)], tmp_path / "g.gl", memory=1_999_999, num_threads=2)
    assert caught.value.needed_bytes == 2_000_000


CHILD = """
import re, sys
from pathlib import Path
import graphzero as gz
sys.path.insert(0, sys.argv[1])
from test_compile_memory import edges_of, options_of

def kilobytes(field):
    return int(re.search(field + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

edges, options = edges_of("repeats", 60_000), options_of(60_000)
folder = Path(sys.argv[2])
gz.compile_graph(([0, 1], [1, 0]), folder / "first.gl", memory="1MB", num_threads=1)
Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
before = kilobytes("VmRSS")
gz.compile_graph(edges, folder / "g.gl", memory="1MB", num_threads=1, **options)
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_process_grows_by_little_more_than_the_budget(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path)]
    grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(grown) * 1024 <= 1_000_000 + 3_000_000  # thread stacks, code, the C library's own


def test_edges_whose_ids_are_not_final_are_read_back_in_small_blocks(tmp_path: Path) -> None:
    log = EdgeLog(str(tmp_path), "edges", weights=True, times=True)
    some = np.arange(100_000)
    for _ in range(15):
        log.write({"src": some, "dst": some, "weight": some, "time": some})
    tracemalloc.start()
    log.finish(lambda ids: None, lambda ids: None)
    assert sum(len(block) for block in log.edge_blocks()) == log.kept == 1_500_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    log.close()
    assert peak < 20_000_000
