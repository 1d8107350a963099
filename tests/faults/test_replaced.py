"""A file that is replaced while it is open: those who have it see no change, by any way of reading."""

from __future__ import annotations

import threading
from itertools import count, takewhile
from pathlib import Path

import container_spec as spec
import numpy as np
import pytest

import graphzero as gz

NODES = 3000


def rows_of(version: int) -> bytes:
    """Every number of the file is its version, so that a mixture shows."""
    return spec.features(x=np.full((NODES, 32), version, np.float32))


def publish(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_bytes(data)
    temporary.replace(path)


def ways(path: Path) -> list[str]:
    """The ways of reading that this machine has."""
    found = ["auto", "mmap", "pread"]
    try:
        gz.FeatureStore(path).gather([0], io="uring")
    except gz.StorageError:
        return found
    return [*found, "uring"]


def test_a_mounted_file_is_its_own_for_every_read_path(tmp_path: Path) -> None:
    path = tmp_path / "x.gd"
    publish(path, rows_of(1))
    store = gz.FeatureStore(path)
    publish(path, rows_of(2))
    ids = np.random.default_rng(0).integers(0, NODES, 700)
    for io in ways(path):
        assert (store.gather(ids, io=io) == 1).all(), io  # also where a path opens the file a second time
        assert (gz.FeatureStore(path).gather(ids, io=io) == 2).all(), io
    path.unlink()
    for io in ways_left(store):
        assert (store.gather(ids, io=io) == 1).all(), io


def ways_left(store: gz.FeatureStore) -> list[str]:
    return ways(Path(store.path)) if Path(store.path).exists() else ["auto", "mmap", "pread"]


def test_republishing_in_a_loop_never_shows_a_mixture(tmp_path: Path) -> None:
    path = tmp_path / "x.gd"
    versions = [rows_of(v) for v in range(8)]
    publish(path, versions[0])
    stop, seen, wrong = threading.Event(), set(), []

    def read() -> None:
        rng = np.random.default_rng()
        while not stop.is_set():
            with gz.FeatureStore(path) as store:
                first = float(store.get_tensor()[0, 0])
                for io in ("auto", "mmap", "pread"):
                    rows = store.gather(rng.integers(0, NODES, 300), io=io)
                    if not (rows == first).all():
                        wrong.append((first, np.unique(rows)))
                seen.add(first)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in takewhile(lambda i: i < 150 or (len(seen) <= 2 and i < 10_000), count()):
        publish(path, versions[i % len(versions)])
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert len(seen) > 2, "readers met several versions"


def test_a_graph_recompiled_while_it_is_sampled(tmp_path: Path) -> None:
    path = tmp_path / "g.gl"
    edges = np.random.default_rng(1).integers(0, NODES, (2, 20_000))
    gz.compile_graph(edges, path, num_nodes=NODES)
    g = gz.Graph(path)
    expected = g.sample(np.arange(100), [5, 5], seed=3)
    for i in range(6):
        gz.compile_graph(edges[:, : 100 * (i + 1)] % 50, path, num_nodes=50)
        again = g.sample(np.arange(100), [5, 5], seed=3)
        assert again.node.tolist() == expected.node.tolist()
        assert again.edge.tolist() == expected.edge.tolist()
        assert gz.Graph(path).num_nodes == 50


def test_a_writer_in_place_would_be_noticed(tmp_path: Path) -> None:
    # The control: overwriting the bytes of a mounted file changes what its reader sees.
    path = tmp_path / "x.gd"
    publish(path, rows_of(1))
    store = gz.FeatureStore(path)
    with path.open("r+b") as file:
        file.write(rows_of(2))
    assert not (store.gather(np.arange(NODES), io="mmap") == 1).all()


@pytest.mark.parametrize("io", ["auto", "mmap", "pread"])
def test_a_loader_runs_its_epoch_on_the_file_it_was_made_with(tmp_path: Path, io: str) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "x.gd"
    publish(path, rows_of(1))
    gz.compile_graph(np.random.default_rng(2).integers(0, NODES, (2, 9000)), tmp_path / "g.gl", num_nodes=NODES)
    loader = gz.NeighborLoader(
        gz.Graph(tmp_path / "g.gl"), gz.FeatureStore(path), fanouts=[3], batch_size=200, memory="64MB", io=io
    )
    for i, batch in enumerate(loader):
        publish(path, rows_of(2 + i % 2))
        assert bool((batch.x == 1).all())
