"""Whatever has an entry for each edge is joined by edge id: files keep edges in another order than their source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

N, M = 30, 100
BUYS = ("user", "buys", "item")
PAIRS = np.random.default_rng(3).permutation(N * N)[: 4 * M]
PAIRS = np.stack(np.divmod(PAIRS, N))
EDGES = PAIRS[:, PAIRS[0] < PAIRS[1]][:, :M]  # each once, and never both ways
CODE = EDGES[0] * N + EDGES[1]  # of each edge of the source: what every array holds


def make(folder: Path, typed: bool = False, **options: Any) -> gz.Dataset:
    arrays = {"edge_features": {"edge_attr": CODE[:, None]}, "weights": CODE.astype("float32"), "times": CODE}
    if not typed:
        return gz.Dataset.create(folder, EDGES, num_nodes=N, **arrays, **options)
    arrays = {name: {BUYS: value} for name, value in arrays.items()}
    return gz.Dataset.create(folder, graphs={BUYS: EDGES}, num_nodes={"user": N, "item": N}, **arrays, **options)


def check(ds: gz.Dataset, loader: Any, *, both_ways: bool = False) -> None:
    """Compare labels, times and edge attributes with the nodes that they stand beside; every edge is delivered."""
    seen: list[int] = []
    for batch in loader:
        edges, source, target = (batch[BUYS], batch["user"], batch["item"]) if ds.is_typed else (batch,) * 3

        def code(index: Any, any_way: bool, source: Any = source, target: Any = target) -> Any:
            ends = source.n_id[index[0]].numpy(), target.n_id[index[1]].numpy()
            u, v = ends if ds.is_typed else map(ds.ids.to_original, ends)
            return np.minimum(u, v) * N + np.maximum(u, v) if any_way else u * N + v

        wanted = code(edges.edge_label_index, both_ways)
        np.testing.assert_array_equal(CODE[edges.input_id.numpy()], wanted)
        for name in ("edge_label", "edge_label_time"):
            if name in edges:
                np.testing.assert_array_equal(edges[name].numpy(), wanted, name)
        np.testing.assert_array_equal(edges.edge_attr[:, 0].numpy(), code(edges.edge_index, True))
        np.testing.assert_array_equal(CODE[edges.e_id.numpy()], code(edges.edge_index, True))
        seen += wanted.tolist()
    assert sorted(seen) == sorted(CODE.tolist() * (1 + both_ways))


@pytest.mark.filterwarnings("ignore:.*has out-rows only")
@pytest.mark.parametrize("time", [CODE, "edges", None], ids=["array", "edges", "none"])
@pytest.mark.parametrize("direction", ["in", "out", "both"])
@pytest.mark.parametrize("kind", ["plain", "undirected", "typed", "reordered"])
def test_all_edges(tmp_path: Path, kind: str, direction: str, time: Any) -> None:
    if kind == "typed" and direction == "out":
        pytest.skip("typed graphs are sampled by target")
    ds = make(tmp_path / "ds", kind == "typed", direction=direction, directed=kind != "undirected")
    if kind == "reordered":
        ds = gz.reorder(ds, tmp_path / "other", by="degree")
    options = {"time": time, "labels": CODE, "exclude": "none", "seed": 1, "batch_size": 32, "weighted": True}
    edge_type = BUYS if kind == "typed" else None
    loader = gz.LinkNeighborLoader(ds, fanouts=[5], edge_type=edge_type, shuffle=True, **options)
    check(ds, loader, both_ways=kind == "undirected")
    ids = np.random.default_rng(0).permutation(M)
    options |= {"labels": CODE[ids], "time": time[ids] if isinstance(time, np.ndarray) else time}
    loader = gz.LinkNeighborLoader(ds, fanouts=[5], edges=ids, edge_type=edge_type, **options)
    batch = next(iter(loader))
    part = batch if edge_type is None else batch[BUYS]
    np.testing.assert_array_equal(part.edge_label.numpy(), CODE[ids[part.input_id.numpy()]])


def test_arrays_that_are_too_short_are_refused(tmp_path: Path) -> None:
    ds = make(tmp_path / "ds", direction="in")
    for name in ("labels", "time"):
        with pytest.raises(ValueError, match=rf"{name} has shape \(99,\), expected an entry for each edge id, 0 to 99"):
            gz.LinkNeighborLoader(ds, fanouts=[5], **{name: CODE[:-1]})


def test_edges_that_were_dropped_keep_their_place_in_arrays(tmp_path: Path) -> None:
    edges = np.array([[0, 2, 1, 2, 3], [3, 1, 1, 1, 0]])
    times = np.array([100, 200, 300, 400, 500])
    options = {"times": times, "edge_ids": True, "dedup": True, "self_loops": False, "direction": "in"}
    gz.compile_graph(edges, tmp_path / "g.gl", **options)
    batch = next(iter(gz.LinkNeighborLoader(gz.Graph(tmp_path / "g.gl"), fanouts=[2], time=times, labels=times)))
    assert {tuple(edges[:, i]) for i in batch.input_id.tolist()} == {(0, 3), (2, 1), (3, 0)}
    np.testing.assert_array_equal(batch.edge_label_time, times[batch.input_id])
    np.testing.assert_array_equal(batch.edge_label, times[batch.input_id])


def test_an_undirected_edge_by_id_may_come_reversed(tmp_path: Path) -> None:
    gz.compile_graph(np.array([[3, 1], [0, 2]]), tmp_path / "g.gl", directed=False, edge_ids=True)
    batch = next(iter(gz.LinkNeighborLoader(gz.Graph(tmp_path / "g.gl"), fanouts=[1], edges=[0, 1], exclude="none")))
    assert batch.n_id[batch.edge_label_index].tolist() == [[0, 1], [3, 2]]


def test_every_copy_of_a_seed_is_expanded(tmp_path: Path) -> None:
    gz.compile_graph(EDGES, tmp_path / "g.gl", direction="in", num_nodes=N)
    seeds = [20, 20, 25]
    for batch in (
        gz.Graph(tmp_path / "g.gl").sample(seeds, [2], seed=1),
        next(iter(gz.NeighborLoader(gz.Graph(tmp_path / "g.gl"), fanouts=[2], seeds=seeds, seed=1))),
    ):
        assert np.asarray(batch.edge_index[1]).tolist() == [0, 0, 1, 1, 2, 2]
        assert np.array_equal(batch.edge_index[0][:2], batch.edge_index[0][2:4])


@pytest.mark.parametrize("kind", ["plain", "undirected", "typed", "reordered"])
@pytest.mark.parametrize("timed", [False, True])
def test_pyg_loader(tmp_path: Path, kind: str, timed: bool) -> None:
    pyg = pytest.importorskip("graphzero.pyg")
    ds = make(tmp_path / "ds", kind == "typed", direction="in", directed=kind != "undirected")
    if kind == "reordered":
        ds = gz.reorder(ds, tmp_path / "other", by="degree")
    edges = (BUYS, None) if kind == "typed" else None
    labels = torch.from_numpy(CODE)
    times = {"edge_label_time": labels, "time_attr": "time"} if timed else {}
    loader = pyg.LinkNeighborLoader(ds, [5], edge_label_index=edges, edge_label=labels, batch_size=32, **times)
    assert loader.native == (not timed)
    check(ds, loader, both_ways=kind == "undirected")


def test_edges_of_a_pyg_loader_are_told_by_type(tmp_path: Path) -> None:
    pyg = pytest.importorskip("graphzero.pyg")
    plain, typed = make(tmp_path / "plain", direction="in"), make(tmp_path / "typed", True)
    for edges in (EDGES[:, :3], EDGES[:, :3].tolist(), torch.from_numpy(EDGES[:, :3])):
        batch = next(iter(pyg.LinkNeighborLoader(plain, [2], edge_label_index=edges, batch_size=3)))
        np.testing.assert_array_equal(batch.n_id[batch.edge_label_index], EDGES[:, :3])
        with pytest.raises(ValueError, match=r"edge type None, expected \(edge_type, edges\) with one"):
            pyg.LinkNeighborLoader(typed, [2], edge_label_index=edges)
    with pytest.raises(ValueError, match="expected edges without a type"):
        pyg.LinkNeighborLoader(plain, [2], edge_label_index=(BUYS, None))
    with pytest.raises(ValueError, match=r"input_nodes is a Tensor, expected \(node_type, ids\) with one"):
        pyg.NeighborLoader(typed, [2], input_nodes=torch.tensor([1]))


def test_arrays_per_edge_of_a_graph_without_edge_ids_are_refused(tmp_path):
    """Nothing says which entry belongs to which edge: the file sorts them."""
    ds = gz.Dataset.create(tmp_path / "d", ([3, 1, 2, 0], [0, 3, 1, 2]), direction="in")
    assert not ds.graph.has_edge_ids
    for given in ({"labels": [10, 20, 30, 40]}, {"time": [1, 2, 3, 4]}):
        with pytest.raises(ValueError, match=r"without edge ids, .* cannot be matched to its edges"):
            gz.LinkNeighborLoader(ds, fanouts=[1], batch_size=9, **given)
    in_order = gz.LinkNeighborLoader(ds, fanouts=[1], batch_size=9, labels=[10, 20, 30, 40], edge_order="file")
    (batch,) = in_order
    pairs = batch.n_id[batch.edge_label_index].T.tolist()
    assert dict(zip(map(tuple, pairs), batch.edge_label.tolist(), strict=True)) == {
        (3, 0): 10, (2, 1): 20, (0, 2): 30, (1, 3): 40,
    }  # fmt: skip
