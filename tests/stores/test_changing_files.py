"""Files that are cut short while they are read: every call gives the right answer or an error, never zeros."""

from __future__ import annotations

import os
import shutil
import threading

import container_spec as spec
import numpy as np
import pytest
from glfile import write_graph

import graphzero as gz

NODES, EDGES = 20_000, 200_000
LAST = np.arange(NODES - 3000, NODES)  # what they need lies at the end of every array


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("whole"), np.random.default_rng(0)
    src = np.sort(rng.integers(0, NODES, EDGES))
    more = {"weights": rng.random(EDGES), "times": rng.integers(0, 9, EDGES), "edge_ids": True}
    write_graph(folder / "g.gl", NODES, src, rng.integers(0, NODES, EDGES), **more)
    x, label = rng.random((NODES, 16), np.float32), rng.integers(0, 7, NODES)
    (folder / "x.gd").write_bytes(spec.features(x=x, label=label))
    return folder


def as_lists(result):
    """Whatever a call gives, as something that can be compared after the file has changed."""
    if isinstance(result, gz.Subgraph):
        return [result.node.tolist(), result.edge_index.tolist(), result.edge.tolist()]
    return np.array(result).tolist()


GRAPH_CALLS = {
    "degrees": lambda g: g.degrees(),
    "sample": lambda g: g.sample(LAST, [5, 3], seed=1, num_threads=2),
    "sample all": lambda g: g.sample(LAST, [-1], seed=1, num_threads=2),
    "sample weighted": lambda g: g.sample(LAST, [5, 3], weighted=True, seed=1, num_threads=2),
    "sample by time": lambda g: g.sample(LAST, [5, 3], time=5, seed=1, num_threads=2),
    "sample labor": lambda g: g.sample(LAST, [5], method="labor", seed=1, num_threads=2),
    "fanout": lambda g: g.batch_random_fanout(LAST, 5, seed=1, num_threads=2),
    "fanout weighted": lambda g: g.batch_random_fanout(LAST, 5, weighted=True, seed=1, num_threads=2),
    "neighbours": lambda g: g.sample_neighbours(NODES - 1, 4, seed=1),
    "walks": lambda g: g.batch_random_walk_uniform(LAST, 5, seed=1, num_threads=2),
    "node2vec": lambda g: g.batch_random_walk(LAST, 5, q=0.5, weighted=True, seed=1, num_threads=2),
    "negatives": lambda g: g.negative_edges(2, src=LAST, seed=1, num_threads=2),
}
ROW_CALLS = {
    f"{name} by {io}": lambda f, name=name, io=io: f[name].gather(LAST, io=io, num_threads=2)
    for name in ("x", "label")
    for io in ("auto", "mmap", "pread")
}


def cut_while_calling(path, open_, call, want):
    """Call until it fails, while another thread cuts the file short; every answer until then is the right one."""
    opened, cut = open_(path), threading.Event()

    def shorten():
        os.truncate(path, 12288)
        cut.set()

    thread = threading.Thread(target=shorten)
    thread.start()
    try:
        while True:
            late = cut.is_set()
            assert as_lists(call(opened)) == want
            assert not late, "a call that began after the file was cut succeeded"
    except (gz.StorageError, gz.FormatError):
        return
    finally:
        thread.join()


@pytest.mark.parametrize("call", GRAPH_CALLS)
def test_topologies(tmp_path, files, call):
    path = shutil.copy(files / "g.gl", tmp_path / "g.gl")
    want = as_lists(GRAPH_CALLS[call](gz.Graph(files / "g.gl")))
    cut_while_calling(path, gz.Graph, GRAPH_CALLS[call], want)


@pytest.mark.parametrize("call", ROW_CALLS)
def test_rows_and_labels(tmp_path, files, call):
    def open_(path):
        return {name: gz.FeatureStore(path, name=name) for name in ("x", "label")}

    path = shutil.copy(files / "x.gd", tmp_path / "x.gd")
    want = as_lists(ROW_CALLS[call](open_(files / "x.gd")))
    cut_while_calling(path, open_, ROW_CALLS[call], want)


@pytest.mark.parametrize("view", ["get_neighbours", "get_weights", "get_edge_ids", "get_times", "csr"])
def test_views_of_topologies_are_not_handed_out_of_a_cut_file(tmp_path, files, view):
    g = gz.Graph(shutil.copy(files / "g.gl", tmp_path / "g.gl"))
    os.truncate(tmp_path / "g.gl", 12288)
    with pytest.raises((gz.StorageError, gz.FormatError)):
        getattr(g, view)(*(() if view == "csr" else (NODES - 1,)))


@pytest.mark.parametrize("name", ["x", "label"])
def test_views_of_rows_are_not_handed_out_of_a_cut_file(tmp_path, files, name):
    fs = gz.FeatureStore(shutil.copy(files / "x.gd", tmp_path / "x.gd"), name=name)
    os.truncate(tmp_path / "x.gd", 12288)
    with pytest.raises(gz.StorageError):
        fs.get_tensor()
    with pytest.raises(gz.StorageError):
        fs.get_data(NODES - 1)


@pytest.mark.parametrize(("cache", "way"), [("on", "whole"), ("off", "mapped")])
def test_batches_of_links_have_the_right_rows_or_an_error(tmp_path, files, cache, way):
    """Rows that were copied into memory before the file was cut stay right to the end of the epoch; others fail."""
    x = np.array(gz.FeatureStore(files / "x.gd").get_tensor())
    store = gz.FeatureStore(shutil.copy(files / "x.gd", tmp_path / "x.gd"))
    seeds = np.stack([np.resize(LAST, 12_800), np.resize(LAST[::-1], 12_800)])
    options = {"neg_sampling": "binary", "batch_size": 64, "seed": 0, "memory": "200MB", "cache": cache}
    g = gz.Graph(files / "g.gl")
    loader = gz.LinkNeighborLoader(g, store, fanouts=[4], edges=seeds, direction="out", **options)
    made = 0
    try:
        for batch in loader:
            assert np.array_equal(batch.x, x[batch.n_id])
            made += 1
            if made == 3:
                assert loader.stats().plan["ways"] == {"x": way}
                os.truncate(tmp_path / "x.gd", 12288)
        assert (made, way) == (200, "whole")
    except gz.StorageError:
        assert way == "mapped"
