"""Multi-hop sampling: PyG's contract, whatever the graph."""

from __future__ import annotations

import numpy as np
import pytest
from glfile import write_graph

import graphzero as gz


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 500, 6000), np.minimum(rng.geometric(0.01, 6000), 499)
    return gz.Graph(write_graph(tmp_path_factory.mktemp("g") / "g.gl", 500, src, dst))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_every_edge_is_an_edge_of_the_graph(graph, threads):
    s = graph.sample([3, 7, 9], [4, 3, -1], seed=1, num_threads=threads)
    indptr, indices = graph.csr()
    assert s.node[:3].tolist() == [3, 7, 9]
    assert len(set(s.node.tolist())) == len(s.node)
    assert (indices[s.edge] == s.node[s.row]).all()
    assert (indptr[s.node[s.col]] <= s.edge).all()
    assert (s.edge < indptr[s.node[s.col] + 1]).all()
    assert sum(s.num_sampled_nodes) == s.num_nodes
    assert sum(s.num_sampled_edges) == s.num_edges
