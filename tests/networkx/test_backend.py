"""The NetworkX backend: functions on a mounted file, NetworkX's own tests, and conversions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz
from graphzero.networkx.info import FUNCTIONS

nx = pytest.importorskip("networkx", minversion="3.4")

ROOT = Path(__file__).parents[2]
REGISTERED = ROOT / "tests" / "oracles" / "graphzero.dist-info" / "entry_points.txt"

JUDGES = (
    "link_analysis.tests.test_pagerank",
    "components.tests.test_connected",
    "components.tests.test_weakly_connected",
    "components.tests.test_strongly_connected",
    "traversal.tests.test_bfs",
    "tests.test_core",
    "tests.test_cluster",
    "shortest_paths.tests.test_unweighted",
)


@pytest.fixture(scope="module")
def edges() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 40, (2, 90))


@pytest.fixture(scope="module", params=[True, False], ids=["directed", "undirected"])
def graph(request: pytest.FixtureRequest, edges: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> gz.Graph:
    path = tmp_path_factory.mktemp("nx") / "g.gl"
    src, dst = edges
    weights = np.linspace(0.5, 2, len(src), dtype=np.float32)
    options = {"directed": request.param, "direction": "both", "dedup": True, "self_loops": False}
    gz.compile_graph((src, dst, weights), path, num_nodes=42, progress=False, **options)
    return gz.Graph(path)


def sorted_sets(sets: object) -> list[list[int]]:
    return sorted(sorted(one) for one in sets)  # type: ignore[attr-defined]


def test_the_entry_points_are_those_of_the_package() -> None:
    package = (ROOT / "pyproject.toml").read_text()
    for group, line in re.findall(r"^\[(.+?)\]\n(.+)$", REGISTERED.read_text(), flags=re.M):
        name, value = line.split(" = ")
        assert f'[project.entry-points."{group}"]\n{name} = "{value}"' in package
    assert set(FUNCTIONS) == set(nx.utils.backends.backend_info["graphzero"]["functions"])


def test_functions_run_on_the_file(graph: gz.Graph) -> None:
    same = graph.to_networkx()
    assert nx.pagerank(graph) == pytest.approx(nx.pagerank(same), abs=1e-6)
    assert nx.pagerank(graph, weight=None) == pytest.approx(nx.pagerank(same, weight=None), abs=1e-6)
    assert nx.single_source_shortest_path_length(graph, 3) == nx.single_source_shortest_path_length(same, 3)
    assert nx.has_path(graph, 3, 41) is False
    assert [sorted(layer) for layer in nx.bfs_layers(graph, 0)] == [sorted(layer) for layer in nx.bfs_layers(same, 0)]
    if graph.is_directed():
        for find in (nx.weakly_connected_components, nx.strongly_connected_components):
            assert sorted_sets(find(graph)) == sorted_sets(find(same))
    else:
        assert sorted_sets(nx.connected_components(graph)) == sorted_sets(nx.connected_components(same))
        assert nx.core_number(graph) == nx.core_number(same)
        assert nx.triangles(graph) == nx.triangles(same)
        assert nx.clustering(graph) == pytest.approx(nx.clustering(same))
        assert nx.transitivity(graph) == pytest.approx(nx.transitivity(same))


def test_what_is_missing_is_named(graph: gz.Graph) -> None:
    with pytest.raises(NotImplementedError, match="'betweenness_centrality' is not implemented by"):
        nx.betweenness_centrality(graph)
    with pytest.raises((NotImplementedError, nx.NetworkXNotImplemented)):
        nx.clustering(graph, weight="weight")
    with pytest.raises(nx.NodeNotFound, match="99"):
        nx.single_source_shortest_path_length(graph, 99)
    backend = nx.utils.backends.backends["graphzero"].load()
    assert nx.betweenness_centrality(backend.convert_to_nx(graph))


def test_named_nodes_are_converted() -> None:
    g = nx.karate_club_graph()
    names = nx.relabel_nodes(g, str)
    names.__networkx_cache__ = None
    assert nx.pagerank(names, backend="graphzero") == pytest.approx(nx.pagerank(names), abs=1e-6)
    assert nx.core_number(names, backend="graphzero") == nx.core_number(names)
    assert nx.triangles(names, "5", backend="graphzero") == nx.triangles(names, "5")
    back = nx.utils.backends.backends["graphzero"].load()
    again = back.convert_to_nx(back.convert_from_nx(names, edge_attrs={"weight": 1}))
    assert list(again) == list(names)
    assert nx.to_dict_of_dicts(again) == nx.to_dict_of_dicts(names)


def test_negative_weights_are_refused() -> None:
    g = nx.Graph([(0, 1, {"weight": -1.0})])
    backend = nx.utils.backends.backends["graphzero"].load()
    with pytest.raises(NotImplementedError, match="finite weights of 0 or more; 'weight' has others"):
        backend.convert_from_nx(g, edge_attrs={"weight": 1})


def test_networkx_judges_it(tmp_path: Path) -> None:
    """Its own tests, with every call of a function above sent to this backend."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(REGISTERED.parents[1])]),
        "NETWORKX_TEST_BACKEND": "graphzero",
        "NETWORKX_FALLBACK_TO_NX": "1",
        "TMPDIR": str(tmp_path),
    }
    # The order of strong components is not specified; one test of condensation() relies on it.
    but = "::TestStronglyConnected::test_condensation_mapping_and_members"
    words = ["-q", "-p", "no:cacheprovider", "--deselect", but]
    modules = [f"networkx.algorithms.{name}" for name in JUDGES]
    command = [sys.executable, "-m", "pytest", *words, "--pyargs", *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed.group(1)) >= 150
    assert not list(tmp_path.glob("graphzero-*"))  # temporary files are gone


def test_edges_and_subgraphs(graph: gz.Graph) -> None:
    matrix = graph.to_scipy().toarray() != 0
    for u, v in np.ndindex(42, 42):
        assert graph.has_edge(u, v) == matrix[u, v]
    with pytest.raises(IndexError, match="out of range"):
        graph.has_edge(0, 42)
    ids = [7, 3, 11, 3, 40]
    part = graph.subgraph(ids)
    assert part.node.tolist() == [7, 3, 11, 40]
    expected = {(u, v) for u in part.node.tolist() for v in part.node.tolist() if matrix[u, v]}
    found = part.node[part.edge_index]
    assert set(zip(*found.tolist(), strict=True)) == expected


@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_edges_of_a_subgraph_keep_their_direction(tmp_path: Path, direction: str) -> None:
    gz.compile_graph(([0, 1, 2], [1, 2, 3]), tmp_path / "g.gl", direction=direction, progress=False)
    g = gz.Graph(tmp_path / "g.gl")
    part = g.subgraph([2, 1, 0])
    assert sorted(zip(*part.node[part.edge_index].tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert g.has_edge(1, 2)
    assert not g.has_edge(2, 1)


def test_rows_by_index(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    gz.compile_features({"x": x, "y": x[:, 0].astype(np.int64)}, tmp_path / "x.gd", progress=False)
    fs = gz.FeatureStore(tmp_path / "x.gd")
    np.testing.assert_array_equal(np.asarray(fs), x)
    assert np.asarray(fs["y"], np.int32).dtype == np.int32
    np.testing.assert_array_equal(fs[[3, 0, 3]], x[[3, 0, 3]])
    np.testing.assert_array_equal(fs[1:3], x[1:3])
    np.testing.assert_array_equal(fs[x[:, 0] > 2], x[x[:, 0] > 2])
    np.testing.assert_array_equal(fs[-1], x[3])
    for wrong in (4, -5, [4], np.zeros(3, np.bool_)):
        with pytest.raises(IndexError):
            fs[wrong]
