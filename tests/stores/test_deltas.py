"""Files with deltas against the same edges and rows compiled together: every reader must not see a difference."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import container_spec as spec
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core


@dataclass
class Growing:
    """A file and its deltas, beside the list of all edges."""

    folder: Path
    rng: np.random.Generator
    options: dict[str, Any]
    weighted: bool = False
    timed: bool = False
    edge_ids: bool = False
    square: bool = True
    nodes: tuple[int, int] = (1, 1)
    src: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    dst: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: Any = field(default_factory=lambda: np.zeros(0, np.float32))
    times: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    ids: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    next_id: int = 0
    deltas: list[str] = field(default_factory=list)

    @property
    def base(self) -> Path:
        return self.folder / "base.gl"

    def draw(self, count: int, shape: str = "uniform") -> None:
        src, dst = self.rng.integers(0, self.nodes[0], count), self.rng.integers(0, self.nodes[1], count)
        if shape == "hub":
            src[: count // 2] = 0
            dst[count // 3 :] = self.nodes[1] - 1
        self.src, self.dst = np.r_[self.src, src], np.r_[self.dst, dst]
        self.weights = np.r_[self.weights, self.rng.random(count).astype(np.float32)]
        self.times = np.r_[self.times, self.rng.integers(-9, 50, count)]
        self.ids = np.r_[self.ids, np.arange(self.next_id, self.next_id + count)]
        self.next_id += count

    def columns(self, first: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = {"sources": self.src[first:], "targets": self.dst[first:]}
        if self.weighted:
            found["weights"] = self.weights[first:]
        if self.timed:
            found["times"] = self.times[first:]
        return found

    def compile(self, name: str) -> Path:
        """Compile all edges together."""
        columns = self.columns()
        weights, times = columns.get("weights"), columns.get("times")
        n: Any = self.nodes[0] if self.square else self.nodes
        gz.compile_graph(
            (self.src, self.dst, weights, times),
            self.folder / name,
            num_nodes=n,
            edge_ids=self.edge_ids,
            allow_empty=True,
            num_threads=2,
            **self.options,
        )
        return self.folder / name

    def append(self, count: int, new_nodes: tuple[int, int] = (0, 0), shape: str = "uniform", removed: int = 0) -> Any:
        """Write a delta with `count` more edges, after some were removed by their ends."""
        self.nodes = (self.nodes[0] + new_nodes[0], self.nodes[1] + new_nodes[1])
        some = self.rng.choice(len(self.src), min(removed, len(self.src)), replace=False)
        gone = (self.src[some], self.dst[some])
        self._drop(*gone)
        first = len(self.src)
        self.draw(count, shape)
        out = str(self.folder / f"{len(self.deltas)}.delta.gl")
        report = _core.write_topology_delta(
            str(self.base),
            self.deltas,
            out,
            num_sources=self.nodes[0],
            num_targets=self.nodes[1],
            **self.columns(first),
            edge_ids=self.ids[first:] if self.edge_ids else None,
            removed_sources=gone[0] if removed else None,
            removed_targets=gone[1] if removed else None,
            threads=2,
        )
        self.deltas.append(out)
        return report

    def _drop(self, src: Any, dst: Any) -> None:
        pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
        if not self.options.get("directed", True):
            pairs |= {(v, u) for u, v in pairs}
        keep = np.array([(u, v) not in pairs for u, v in zip(self.src.tolist(), self.dst.tolist(), strict=True)], bool)
        for name in ("src", "dst", "weights", "times", "ids"):
            setattr(self, name, getattr(self, name)[keep])

    def graph(self) -> gz.Graph:
        return gz.Graph(self.base, deltas=self.deltas)


def growing(folder: Path, seed: int) -> Growing:
    """Return a random graph of some hundred to some thousand nodes, with random options."""
    rng = np.random.default_rng(seed)
    square = bool(rng.integers(4))
    options: dict[str, Any] = {"direction": str(rng.choice(["out", "in", "both"])), "dedup": bool(rng.integers(3) == 0)}
    if square:
        options["directed"], options["self_loops"] = bool(rng.integers(3)), bool(rng.integers(3))
    sizes = (1, 2, 63, 64, 65, 500, 1023, 1024, 1025, 4095, 4096, 4097)
    nodes = (int(rng.choice(sizes)), int(rng.choice(sizes)))
    if square:
        nodes = (nodes[0], nodes[0])
    weighted, timed, edge_ids = (bool(rng.integers(2)) for _ in range(3))
    g = Growing(folder, rng, options, weighted, timed, edge_ids, square, nodes)
    g.draw(int(rng.choice((0, 1, 1023, 1024, 1025, 4096, 9000))), str(rng.choice(["uniform", "hub"])))
    g.compile("base.gl")
    for _ in range(int(rng.integers(1, 5))):
        more = (int(rng.choice((0, 0, 1, 64, 700))), int(rng.choice((0, 0, 1, 64, 700))))
        g.append(
            int(rng.choice((0, 1, 2, 100, 1024, 3000))),
            (more[0], more[0]) if square else more,
            str(rng.choice(["uniform", "hub"])),
            int(rng.choice((0, 0, 1, 50))),
        )
    return g


def same_arrays(one: gz.Graph, other: gz.Graph, ids: Any) -> None:
    """Compare all arrays; `ids` are the edge ids that numbers of the second file stand for."""
    assert (one.shape, one.num_edges, one.direction) == (other.shape, other.num_edges, other.direction)
    names = [a["name"] for a in other.info["arrays"]]
    for name in names:
        expected = other._open().array(name)
        expected = ids[expected] if name.endswith("edge_ids") else expected
        np.testing.assert_array_equal(one._open().array(name), expected, err_msg=name)


def same_samples(one: gz.Graph, other: gz.Graph, ids: Any, timed: bool, seed: int) -> None:
    """Sampled subgraphs, walks and negatives with the same seeds."""
    rng = np.random.default_rng(seed)
    if one.shape[0] != one.shape[1] or one.num_edges == 0:
        return
    seeds = rng.choice(one.num_nodes, min(50, one.num_nodes), replace=False)
    ways: list[dict[str, Any]] = [{}, {"replace": True}, {"disjoint": True}, {"method": "labor"}]
    if one.has_weights:
        ways.append({"weighted": True})
    if timed:
        ways.append({"time": rng.integers(-9, 50, len(seeds))})
    for way in ways:
        a, b = (g.sample(seeds, [3, -1, 2], seed=seed, **way) for g in (one, other))
        for name in ("node", "row", "col"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=f"{name} {way}")
        np.testing.assert_array_equal(a.edge, ids[b.edge] if one.has_edge_ids else b.edge, err_msg=f"edge {way}")
    for draw in (
        lambda g: g.batch_random_walk(seeds, 5, p=0.5, q=2.0, seed=seed),
        lambda g: g.batch_random_fanout(seeds, 4, seed=seed),
    ):
        np.testing.assert_array_equal(draw(one), draw(other))
    for by in ("uniform", "degree") if min(one.num_nodes, one.num_edges) > 500 else ():
        a, b = (g.negative_edges(20, seed=seed, method=by) for g in (one, other))
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def same_links(one: gz.Graph, other: gz.Graph, ids: Any, seed: int) -> None:
    """Compare single edges, and links as seeds."""
    rng = np.random.default_rng(seed)
    pairs = [(int(rng.integers(one.num_sources)), int(rng.integers(one.num_targets))) for _ in range(30)]
    assert [one.has_edge(*pair) for pair in pairs] == [other.has_edge(*pair) for pair in pairs]
    if one.num_edges == 0:
        return
    if one.shape[0] == one.shape[1]:
        side = one.message_direction
        loaders = [
            gz.LinkNeighborLoader(g, fanouts=[2], batch_size=64, neg_sampling="binary", seed=seed, direction=side)
            for g in (one, other)
        ]
        for a, b in zip(*loaders, strict=True):
            for name in ("n_id", "edge_index", "edge_label_index"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
            np.testing.assert_array_equal(a.input_id, ids[b.input_id] if one.has_edge_ids else b.input_id)


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_compiled_file(tmp_path: Path, seed: int) -> None:
    g = growing(tmp_path, seed)
    one, whole = g.graph(), gz.Graph(g.compile("whole.gl"))
    same_arrays(one, whole, g.ids)
    for side in ("out", "in") if one.direction == "both" else (one.direction,):
        np.testing.assert_array_equal(one.degrees(direction=side), whole.degrees(direction=side))
    same_samples(one, whole, g.ids, g.timed, seed)
    same_links(one, whole, g.ids, seed)
    gz.verify(g.base, deltas=g.deltas)
    _core.compact_topology(str(g.base), g.deltas, str(tmp_path / "merged.gl"))
    merged = gz.Graph(tmp_path / "merged.gl")
    same_arrays(merged, whole, g.ids)
    gz.verify(merged.path)
    if not g.edge_ids or g.next_id == len(g.ids):
        assert (tmp_path / "merged.gl").read_bytes() == (tmp_path / "whole.gl").read_bytes()


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("io", ["mmap", "read"])
@pytest.mark.parametrize("seed", range(3))
def test_analytics_equal_those_of_the_compiled_file(tmp_path: Path, undirected: bool, io: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    g = Growing(tmp_path, rng, {"direction": "both", "directed": not undirected}, weighted=True, nodes=(70_000, 70_000))
    g.draw(100_000)
    g.compile("base.gl")
    g.append(1000, (10, 10))
    g.append(20_000, (3, 3), "hub", removed=20)
    one, whole = g.graph(), gz.Graph(g.compile("whole.gl"))
    a = gz.analytics
    runs = [
        lambda graph: a.degrees(graph),
        lambda graph: a.pagerank(graph, io=io, weighted=True),
        lambda graph: a.connected_components(graph, io=io),
        lambda graph: a.connected_components(graph, connection="strong", io=io),
        lambda graph: a.bfs(graph, [0, 5], io=io),
        lambda graph: a.label_propagation(graph, direction="in", seed=1, io=io),
    ]
    if undirected:
        runs += [lambda graph: a.core_numbers(graph, io=io), lambda graph: a.triangles(graph, io=io)]
    for number, run in enumerate(runs):
        np.testing.assert_array_equal(np.asarray(run(one)), np.asarray(run(whole)), err_msg=str(number))


def small(folder: Path, **options: Any) -> Growing:
    g = Growing(folder, np.random.default_rng(0), {"direction": "both"}, nodes=(6, 6), **options)
    g.draw(20)
    g.compile("base.gl")
    return g


def test_edges_are_removed_by_their_ids(tmp_path: Path) -> None:
    g = small(tmp_path, edge_ids=True)
    out = str(tmp_path / "d.gl")
    none, gone = np.zeros(0, np.int64), np.array([3, 7, 99])
    report = _core.write_topology_delta(
        str(g.base), [], out, num_sources=6, num_targets=6, sources=none, targets=none, removed_edge_ids=gone
    )
    assert (report["removed"], report["missing"], report["edges"], report["next_edge_id"]) == (2, 1, 18, 20)
    left = gz.Graph(g.base, deltas=[out])
    for side in ("out", "in"):
        ids = np.concatenate([left.get_edge_ids(u, direction=side) for u in range(6)])
        assert sorted(ids.tolist()) == [i for i in range(20) if i not in (3, 7)]
    assert [a["name"] for a in _core.file_info(out)["arrays"]][-1] == "removed.edge_ids"


def test_edges_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    g = small(tmp_path, weighted=True)
    out, ids = str(tmp_path / "d.gl"), np.array([0, 1])
    weights = np.ones(2, np.float32)
    fits: dict[str, Any] = {"num_sources": 6, "num_targets": 6, "sources": ids, "targets": ids, "weights": weights}
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (IndexError, r"sources\[1\] = 6 is out of range", {"sources": np.array([0, 6])}),
        (ValueError, "lengths must match", {"targets": ids[:1]}),
        (ValueError, "edges have weights, and so must appended ones", {"weights": None}),
        (ValueError, "edges have no times", {"times": ids}),
        (ValueError, "weights has 1 values for 2 edges", {"weights": weights[:1]}),
        (gz.InputError, "edge 1: weight is -1", {"weights": np.array([1, -1], np.float32)}),
        (ValueError, "which cannot become 5 and 5", {"num_sources": 5, "num_targets": 5}),
        (ValueError, "compiled without edge ids", {"removed_edge_ids": ids}),
        (gz.BudgetError, "append fewer at a time", {"memory": 1000}),
    ]
    for error, said, change in cases:
        with pytest.raises(error, match=said):
            _core.write_topology_delta(str(g.base), [], out, **(fits | change))
    assert not Path(out).exists()


def test_an_append_without_edges_and_one_with_nodes_alone(tmp_path: Path) -> None:
    g = small(tmp_path)
    before = g.graph().degrees().tolist()
    g.append(0)
    assert g.graph().degrees().tolist() == before
    g.append(0, (3, 3))
    grown = g.graph()
    assert (grown.num_nodes, grown.degrees().tolist()) == (9, [*before, 0, 0, 0])
    assert not grown.has_edge(8, 0)


def test_open_readers_keep_what_they_opened(tmp_path: Path) -> None:
    g = small(tmp_path)
    g.append(5)
    one = g.graph()
    before = one.num_edges, one.csr()[1].tolist()
    g.append(7)
    for path in g.deltas:
        Path(path).unlink()
    assert (one.num_edges, one.csr()[1].tolist()) == before


def test_graphs_pickle_with_their_deltas(tmp_path: Path) -> None:
    g = small(tmp_path)
    g.append(5, (1, 1))
    again = pickle.loads(pickle.dumps(g.graph()))
    assert (again.deltas, again.num_nodes, again.num_edges) == (tuple(g.deltas), 7, 25)


def test_a_damaged_table_is_found(tmp_path: Path) -> None:
    g = small(tmp_path)
    g.append(5)
    about = {a["name"]: a["offset"] for a in _core.file_info(g.deltas[0])["arrays"]}
    original = Path(g.deltas[0]).read_bytes()
    for name in ("out.rows.index", "out.rows.table", "in.indices"):
        damaged = bytearray(original)
        damaged[about[name]] ^= 1
        Path(g.deltas[0]).write_bytes(damaged)
        with pytest.raises(gz.FormatError, match=f"array '{name}': digest"):
            gz.verify(g.base, deltas=g.deltas)


def test_a_reader_made_from_the_page_alone_reads_deltas(tmp_path: Path) -> None:
    g = small(tmp_path)
    g.append(5, (70, 70))
    g.append(9, removed=3)
    whole = gz.Graph(g.compile("whole.gl"))
    files = [path.read_bytes() for path in (g.base, *map(Path, g.deltas))]
    for side in ("out", "in"):
        rows = spec.rows_with_deltas(files, side)
        assert rows == [whole.get_neighbours(u, direction=side).tolist() for u in range(76)]
