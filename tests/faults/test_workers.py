"""Worker processes: torch's DataLoader over mounted files, forked and spawned, after the parent's threads have run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import container_spec as spec
import numpy as np
import pytest
from waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = '''
import sys
import numpy as np
import torch
import graphzero as gz

torch.set_num_threads(1)
opened = gz.Graph(sys.argv[1])  # a global, which outlives the module's types in a worker


class Seeds(torch.utils.data.Dataset):
    """Ten batches: each is sampled and gathered where __getitem__ runs."""

    def __init__(self, graph, features):
        self.graph, self.features = graph, features

    def __len__(self):
        return 10

    def __getitem__(self, i):
        part = self.graph.sample(np.arange(i * 10, i * 10 + 10), [4, 3], seed=i)
        rows = {io: self.features.gather(part.node, io=io) for io in ("auto", "mmap", "pread")}
        assert all((x == rows["mmap"]).all() for x in rows.values())
        walks = self.graph.batch_random_walk(part.node, 4, p=0.5, seed=i)
        return torch.tensor([part.node.sum(), part.edge.sum(), int(rows["auto"].sum()), walks.sum()])


def collect(dataset, **options):
    return torch.cat(list(torch.utils.data.DataLoader(dataset, batch_size=2, **options)))


def main(graph, features, method):
    g, fs = gz.Graph(graph), gz.FeatureStore(features)
    dataset = Seeds(g, fs)
    expected = collect(dataset)  # the parent samples: its pool and its readers exist from here on
    loader = gz.NeighborLoader(g, fs, fanouts=[3], seeds=np.arange(100), batch_size=10, seed=0, memory="64MB")
    before = [b.n_id.sum() for b in loader]
    for _ in range(2 if method == "fork" else 1):  # a spawned worker takes seconds to import torch
        workers = collect(dataset, num_workers=2, multiprocessing_context=method)
        assert torch.equal(workers, expected), (workers, expected)
    assert torch.equal(collect(dataset), expected), "the parent is as it was"
    loader.set_epoch(0)
    assert [b.n_id.sum() for b in loader] == before
    print("fine")


if __name__ == "__main__":
    main(*sys.argv[1:])
'''


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("workers")
    rng = np.random.default_rng(0)
    rows = [sorted(rng.integers(0, 5000, 6).tolist()) for _ in range(5000)]
    (folder / "g.gl").write_bytes(spec.topology(rows))
    (folder / "x.gd").write_bytes(spec.features(x=rng.integers(0, 100, (5000, 16)).astype(np.float32)))
    return folder / "g.gl", folder / "x.gd"


def run(program: str, folder: Path, *arguments: object, timeout: int = PATIENCE) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)  # a file: spawned workers import it
    command = [sys.executable, str(folder / "program.py"), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, check=False)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_give_what_the_parent_gives(files: tuple[Path, Path], tmp_path: Path, method: str) -> None:
    pytest.importorskip("torch")
    done = run(PROGRAM, tmp_path, *files, method)
    assert done.stdout == "fine\n", done.stderr[-3000:]
    assert "leaked" not in done.stderr


def test_a_child_that_waits_for_its_parents_threads_would_be_noticed(tmp_path: Path) -> None:
    # The control: what a pool that is not reset after fork does, a job handed to a thread that only the parent has.
    hanging = """
import os, queue, signal, threading
jobs, done = queue.SimpleQueue(), queue.SimpleQueue()
threading.Thread(target=lambda: [done.put(jobs.get()) for _ in range(9)], daemon=True).start()
pid = os.fork()
if pid == 0:
    signal.alarm(60)  # it is not waited for when the test gives up
    jobs.put(1)
    done.get()
os.waitpid(pid, 0)
"""
    with pytest.raises(subprocess.TimeoutExpired):
        run(hanging, tmp_path, timeout=3)
