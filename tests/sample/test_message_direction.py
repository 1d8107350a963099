"""Loaders follow messages: in-rows where a file has them, a warning where it has out-rows alone."""

import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

import graphzero as gz
from graphzero.compile.synthetic import SyntheticGraph

EDGES = np.array([[0, 1, 2], [3, 3, 3]])  # node 3 receives messages from 0, 1 and 2


@pytest.fixture
def compiled(tmp_path):
    def make(direction, **options):
        path = tmp_path / f"{direction}{len(options)}.gl"
        gz.compile_graph(EDGES, path, direction=direction, num_nodes=4, **options)
        return gz.Graph(path)

    return make


@pytest.mark.parametrize("direction", ["in", "both"])
def test_the_default_is_what_messages_follow(compiled, direction):
    graph = compiled(direction)
    assert graph.message_direction == "in"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = gz.NeighborLoader(graph, fanouts=[-1], seeds=[3], batch_size=1)
    assert loader.direction == "in"
    (batch,) = loader
    assert batch.n_id.tolist() == [3, 0, 1, 2]
    assert batch.edge_index.tolist() == [[1, 2, 3], [0, 0, 0]]


def test_a_file_of_out_rows_alone_is_told_once(compiled):
    graph = compiled("out")
    with pytest.warns(UserWarning, match=r'out0\.gl has out-rows only.*direction="in"'):
        loader = gz.NeighborLoader(graph, fanouts=[-1], seeds=[0], batch_size=1)
    (batch,) = loader
    assert batch.n_id.tolist() == [0, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gz.NeighborLoader(graph, fanouts=[-1], seeds=[0])
        gz.NeighborLoader(compiled("out", dedup=True), fanouts=[-1], direction="out")  # it is meant
        gz.NeighborLoader(compiled("out", directed=False), fanouts=[-1])  # both ways are there


def test_inference_follows_the_same_rows_as_loaders(compiled, tmp_path):
    torch = pytest.importorskip("torch")
    graph = compiled("both")
    gz.compile_features(np.eye(4, dtype=np.float32), tmp_path / "x.gd")

    class Sum:
        aggregation, num_layers, training = "sum", 1, False

        def combine(self, _layer, _own, neighbours):
            return neighbours

    gz.inference(Sum(), graph, gz.FeatureStore(tmp_path / "x.gd"), tmp_path / "out.gd", memory="64MB")
    rows = torch.from_numpy(gz.FeatureStore(tmp_path / "out.gd").get_tensor())
    assert rows[3].tolist() == [1, 1, 1, 0]
    assert rows[:3].sum() == 0


def test_synthetic_datasets_have_in_rows(tmp_path):
    ds = gz.synthesize(tmp_path / "ds", nodes=200, edges=900, dim=4)
    assert ds.graph.direction == "in"
    drawn = np.concatenate([np.stack(b) for b in SyntheticGraph(nodes=200, edges=900, dim=4).edge_blocks()], 1)
    indptr, indices = ds.graph.csr()
    rows = np.repeat(np.arange(200), np.diff(indptr))
    assert sorted(zip(rows, indices, strict=True)) == sorted(zip(*drawn, strict=True))
