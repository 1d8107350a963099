"""Files and batches of fixed seeds are the same in every version: digests that were recorded once.

`python tests/load/test_golden.py` prints the digests, with those that depend on the machine's arithmetic (training,
inference) beside them; `--record` writes the others to golden.json, for a change that is meant.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

RECORDED = Path(__file__).with_name("golden.json")
NODES, EDGES, WIDTH = 6000, 60000, 24
WRITES, CITES, WRITTEN = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "rev_writes", "author")
COUNTS = {"paper": 3000, "author": 1200}


class World:
    """A graph with times, weights, edge ids, features and labels, and a typed dataset."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(20)
        src = (NODES * rng.random(EDGES) ** 2).astype(np.int64)
        dst = (NODES * rng.random(EDGES) ** 3).astype(np.int64)
        self.rows = rng.standard_normal((NODES, WIDTH), dtype=np.float32)
        self.labels = rng.integers(0, 7, NODES)
        gz.compile_graph(
            (src, dst), folder / "g.gl", num_nodes=NODES, direction="both", edge_ids=True,
            times=rng.integers(0, 1000, EDGES), weights=rng.random(EDGES).astype(np.float32),
        )  # fmt: skip
        gz.compile_features(self.rows, folder / "x.gd")
        gz.compile_features(rng.standard_normal((EDGES, 3), dtype=np.float32), folder / "e.gd")
        self.graph, self.x = gz.Graph(folder / "g.gl"), gz.FeatureStore(folder / "x.gd")
        self.e = gz.FeatureStore(folder / "e.gd")
        self.seeds = np.sort(rng.permutation(NODES)[:3000])
        self.times = rng.integers(200, 1000, 3000)
        writes = rng.integers(0, 1200, 9000), rng.integers(0, 3000, 9000)
        cites = rng.integers(0, 3000, 15000), rng.integers(0, 3000, 15000)
        self.typed = gz.Dataset.create(
            folder / "typed", graphs={WRITES: writes, CITES: cites, WRITTEN: writes[::-1]}, num_nodes=COUNTS,
            features={t: {"x": rng.standard_normal((n, 8), dtype=np.float32)} for t, n in COUNTS.items()},
            labels={"paper": rng.integers(0, 4, 3000)}, splits={"paper": {"train": np.arange(0, 3000, 2)}},
        )  # fmt: skip

    def plain(self, **options: Any) -> Any:
        common = {"fanouts": [6, 4], "batch_size": 128, "seed": 5, "shuffle": True, "labels": self.labels}
        given = {"seeds": self.seeds, "edge_features": self.e}
        return gz.NeighborLoader(self.graph, self.x, **(common | given | options))

    def links(self, **options: Any) -> Any:
        common = {"fanouts": [5, 3], "batch_size": 2000, "seed": 6, "shuffle": True, "neg_sampling": "binary"}
        return gz.LinkNeighborLoader(self.graph, self.x, **(common | options))

    def of_type(self, **options: Any) -> Any:
        common = {"fanouts": [4, 3], "batch_size": 200, "seed": 7, "shuffle": True, "split": "train"}
        return gz.NeighborLoader(self.typed, **(common | options))


def update(digest: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    else:
        digest.update(repr(value).encode())


def batches(loader: Any, epochs: int = 2) -> str:
    """The digest of all arrays of all batches, in order."""
    digest = hashlib.sha256()
    for _ in range(epochs):
        for batch in loader:
            stores = (
                [batch] if isinstance(batch, gz.Batch) else [batch[t] for t in (*batch.node_types, *batch.edge_types)]
            )
            for store in stores:
                for name, value in sorted(dict(store).items()):
                    digest.update(name.encode())
                    update(digest, value)
    return digest.hexdigest()[:24]


def arrays(values: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        update(digest, value)
    return digest.hexdigest()[:24]


def file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]


def walks(world: World) -> str:
    starts = np.arange(0, NODES, 3)
    return arrays([
        world.graph.batch_random_walk_uniform(starts, 8, seed=1),
        world.graph.batch_random_walk(starts, 8, p=0.5, q=2.0, seed=2),
        world.graph.batch_random_fanout(starts, 5, seed=3),
    ])  # fmt: skip


def swept(world: World) -> str:
    """Rows of 24 MB within 50 MB: too many to be held beside the batches, so they are read in the order of the file."""
    wide = np.random.default_rng(21).standard_normal((NODES, 1000), dtype=np.float32)
    gz.compile_features(wide, world.folder / "wide.gd")
    loader = gz.NeighborLoader(
        world.graph, gz.FeatureStore(world.folder / "wide.gd"), seeds=np.arange(192), fanouts=[3, 2], batch_size=16,
        shuffle=True, seed=9, memory="50MB", cache="on", num_threads=2,
    )  # fmt: skip
    found = batches(loader, epochs=3)
    assert loader.stats().bytes_read > 0
    return found


CASES: dict[str, Callable[[World], str]] = {
    "file graph": lambda w: file(w.folder / "g.gl"),
    "file rows": lambda w: file(w.folder / "x.gd"),
    "plain": lambda w: batches(w.plain()),
    "plain, in order": lambda w: batches(w.plain(shuffle=False, seeds=None, drop_last=True)),
    "out of core": swept,
    "direct": lambda w: batches(w.plain(memory="60MB", io="pread", cache="off"), epochs=3),
    "out edges": lambda w: batches(w.plain(direction="out")),
    "weighted": lambda w: batches(w.plain(weighted=True)),
    "replaced": lambda w: batches(w.plain(replace=True, disjoint=True)),
    "labor": lambda w: batches(w.plain(method="labor")),
    "timed": lambda w: batches(w.plain(time=w.times)),
    "timed, last": lambda w: batches(w.plain(time=w.times, temporal="last", window=400)),
    "links": lambda w: batches(w.links()),
    "links, triplets": lambda w: batches(w.links(neg_sampling="triplet", neg_method="degree", exclude="reverse")),
    "links, timed": lambda w: batches(w.links(time="edges", neg_sampling=None), epochs=1),
    "typed": lambda w: batches(w.of_type()),
    "typed links": lambda w: batches(
        gz.LinkNeighborLoader(w.typed, edge_type=WRITES, fanouts=[3, 2], batch_size=500, seed=8, neg_sampling="binary")
    ),
    "rank 0 of 2": lambda w: batches(w.plain(rank=0, world_size=2)),
    "rank 1 of 2": lambda w: batches(w.plain(rank=1, world_size=2)),
    "walks": walks,
    "order": lambda w: arrays([batch.input_id for batch in w.plain(batch_size=1000)]),
}


def trained(world: World) -> str:
    """The weights after two epochs; equal on one machine only."""
    from graphzero.train import Trainer, TrainOptions

    torch.set_num_threads(1)
    ds = gz.Dataset.create(
        world.folder / "plain", graph=str(world.folder / "g.gl"), features={"x": world.rows}, labels=world.labels,
        splits={"train": world.seeds, "valid": np.arange(500), "test": np.arange(500, 900)},
    )  # fmt: skip
    run = Trainer(ds, TrainOptions(fanouts=[5, 4], epochs=2, batch_size=256, seed=3, memory="200MB"))
    result = run.fit()
    return arrays(v for _, v in sorted(result.model.state_dict().items()))


def inferred(world: World) -> str:
    from graphzero.train import GraphSAGE

    torch.set_num_threads(1)
    torch.manual_seed(1)
    gz.inference(
        GraphSAGE(WIDTH, 16, 5, 2), world.graph, world.x, world.folder / "out.gd", memory="100MB", direction="in"
    )
    return file(world.folder / "out.gd")


MACHINE: dict[str, Callable[[World], str]] = {"trained": trained, "inferred": inferred}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("case", CASES)
def test_as_recorded(world: World, case: str) -> None:
    assert CASES[case](world) == json.loads(RECORDED.read_text())[case]


def main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        found = {case: make(world) for case, make in CASES.items()}
        print(json.dumps(found | {case: make(world) for case, make in MACHINE.items()}, indent=1))
    if "--record" in sys.argv:
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
