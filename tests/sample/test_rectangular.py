"""Graphs whose sources and targets are different nodes: compile, read, verify, and what is refused."""

from __future__ import annotations

import container_spec as spec
import numpy as np
import pytest
from typer.testing import CliRunner

import graphzero as gz

S, T = 7, 300  # authors, papers


@pytest.fixture(scope="module")
def edges():
    rng = np.random.default_rng(3)
    return rng.integers(0, S, 900), rng.integers(0, T - 1, 900)  # the last target has no edge


def compiled(path, edges, direction="both", **options):
    gz.compile_graph(edges, path, direction=direction, **{"num_nodes": (S, T)} | options)
    return gz.Graph(path)


def neighbours_of(edges, node, side):
    own, other = edges if side == "out" else edges[::-1]
    return sorted(other[own == node].tolist())


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("counts", [{"num_nodes": (S, T)}, {"num_nodes": None, "num_sources": S, "num_targets": T}])
def test_rows_are_those_of_the_edges(tmp_path, edges, direction, counts):
    g = compiled(tmp_path / "g.gl", edges, direction, **counts)
    assert (g.num_sources, g.num_targets, g.shape) == (S, T, (S, T))
    for side, rows in (("out", S), ("in", T)):
        if direction not in (side, "both"):
            continue
        found = [g.get_neighbours(i, direction=side).tolist() for i in range(rows)]
        assert found == [neighbours_of(edges, i, side) for i in range(rows)]
        assert g.degrees(direction=side).tolist() == [len(row) for row in found]
        with pytest.raises(IndexError, match=f"node = {rows} is out of range"):
            g.get_degree(rows, direction=side)
    gz.verify(tmp_path / "g.gl")


def test_the_file_is_what_the_page_says(tmp_path, edges):
    compiled(tmp_path / "g.gl", edges)
    header = spec.read_header((tmp_path / "g.gl").read_bytes())
    assert (header.num_nodes, header.num_targets, header.minor, header.incompatible) == (S, T, 1, spec.RECTANGULAR)
    pairs = [(0, 3), (0, 9), (1, 3), (2, 0)]
    for direction in (1, 2, 3):
        (tmp_path / "h.gl").write_bytes(spec.rectangular(4, 11, pairs, direction=direction))
        gz.verify(tmp_path / "h.gl")
        h = gz.Graph(tmp_path / "h.gl")
        assert (h.num_sources, h.num_targets) == (4, 11)
        if direction & 2:
            assert [h.get_neighbours(v, direction="in").tolist() for v in (0, 3, 9, 10)] == [[2], [0, 1], [0], []]


def test_a_square_file_is_as_before(tmp_path, edges):
    gz.compile_graph(edges, tmp_path / "a.gl", num_nodes=T)
    gz.compile_graph(edges, tmp_path / "b.gl", num_nodes=(T, T))
    assert (tmp_path / "a.gl").read_bytes() == (tmp_path / "b.gl").read_bytes()
    header = spec.read_header((tmp_path / "a.gl").read_bytes())
    assert (header.minor, header.incompatible, header.num_targets) == (0, 0, None)


def test_a_side_that_is_not_declared_is_as_large_as_its_ids(tmp_path, edges):
    both = compiled(tmp_path / "g.gl", edges, num_nodes=(None, None))
    assert both.shape == (S, int(edges[1].max()) + 1)
    assert compiled(tmp_path / "g.gl", edges, num_nodes=None, num_targets=T).shape == (S, T)
    assert compiled(tmp_path / "g.gl", edges, num_nodes=None, num_sources=900).shape == (900, int(edges[1].max()) + 1)


@pytest.mark.parametrize("memory", ["2MB", "1GB"])
def test_the_file_does_not_depend_on_the_budget_or_the_form_of_the_source(tmp_path, memory):
    rng = np.random.default_rng(5)
    src, dst = rng.integers(0, 40, 60_000), rng.integers(0, 5000, 60_000)
    options = {"direction": "both", "num_nodes": (40, 5000), "edge_ids": True, "dedup": True, "num_threads": 1}
    gz.compile_graph((src, dst), tmp_path / "a.gl", memory="500MB", **options)
    gz.compile_graph((src, dst), tmp_path / "b.gl", memory=memory, **options)
    assert (tmp_path / "a.gl").read_bytes() == (tmp_path / "b.gl").read_bytes()
    (tmp_path / "e.csv").write_text("".join(f"{u},{v}\n" for u, v in zip(src, dst, strict=True)))
    gz.compile_graph(tmp_path / "e.csv", tmp_path / "c.gl", memory=memory, **options)
    assert (tmp_path / "a.gl").read_bytes() == (tmp_path / "c.gl").read_bytes()


@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_file_compiles_into_the_other_direction(tmp_path, edges, direction):
    compiled(tmp_path / "g.gl", edges, direction)
    gz.compile_graph(tmp_path / "g.gl", tmp_path / "h.gl", direction="both")
    direct = compiled(tmp_path / "d.gl", edges)
    assert gz.Graph(tmp_path / "h.gl").shape == (S, T)
    assert (tmp_path / "h.gl").read_bytes() == (tmp_path / "d.gl").read_bytes()
    assert direct.num_edges == 900


def test_ids_are_checked_on_the_side_they_stand(tmp_path):
    with pytest.raises(gz.InputError, match=r"edge 1: found src 9, expected a node id from 0 to 6 \(num_sources = 7\)"):
        gz.compile_graph(([0, 9], [9, 0]), tmp_path / "g.gl", num_nodes=(S, T))
    with pytest.raises(gz.InputError, match=r"edge 0: found dst 300, expected .* 0 to 299 \(num_targets = 300\)"):
        gz.compile_graph(([0, 1], [300, 0]), tmp_path / "g.gl", num_nodes=(S, T))
    (tmp_path / "e.csv").write_text("0,299\n7,1\n")
    with pytest.raises(gz.InputError, match="line 2: found id 7, expected below num_sources = 7"):
        gz.compile_graph(tmp_path / "e.csv", tmp_path / "g.gl", num_sources=S, num_targets=T)
    assert not (tmp_path / "g.gl").exists()


def test_a_side_of_no_nodes_has_no_edges(tmp_path):
    with pytest.raises(gz.InputError, match="edge 0: found dst 1, expected no edges since num_targets = 0"):
        gz.compile_graph([(0, 1)], tmp_path / "g.gl", num_nodes=(3, 0))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_nodes": (1, 2, 3)}, ValueError, r"num_nodes is \(1, 2, 3\), expected one number, or two"),
        (
            {"num_nodes": 5, "num_targets": 5},
            ValueError,
            "num_nodes cannot be combined with num_sources or num_targets",
        ),
        ({"num_nodes": (5, -1)}, ValueError, "num_targets is -1, expected at least 0"),
        ({"num_nodes": (5, 6), "directed": False}, ValueError, "directed=False needs one num_nodes"),
        ({"num_nodes": (5, 6), "self_loops": False}, ValueError, "self_loops=False needs one num_nodes"),
    ],
)
def test_what_cannot_be_compiled_says_why(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        gz.compile_graph(([0], [1]), tmp_path / "g.gl", **options)


def test_what_needs_one_set_of_nodes_is_refused(tmp_path, edges):
    g = compiled(tmp_path / "g.gl", edges)
    with pytest.raises(ValueError, match="7 source nodes to 300 target nodes, so num_nodes is not defined"):
        _ = g.num_nodes
    calls = {
        "sampling around nodes of one kind needs": lambda: g.sample([0], [2]),
        "fanouts need": lambda: g.batch_random_fanout([0], 2),
        "walks need": lambda: g.batch_random_walk_uniform([0], 2),
        "walks need a": lambda: g.batch_random_walk([0], 2, p=0.5),
    }
    for message, call in calls.items():
        with pytest.raises(ValueError, match=f"{message}.*one set of nodes"):
            call()
    assert repr(g).startswith("Graph('g.gl', num_sources=7, num_targets=300, num_edges=900, direction='both'")


def test_verify_finds_a_neighbour_of_the_wrong_side(tmp_path):
    # 8 is a target, and past the sources that rows of `in` hold.
    data = bytearray(spec.rectangular(4, 11, [(0, 3), (1, 8), (2, 8)]))
    header = spec.read_header(bytes(data))
    indices = next(a for a in header.arrays if a.name == "in.indices")
    data[indices.offset + 8 : indices.offset + 12] = (8).to_bytes(4, "little")
    indices.digest = spec.digest(bytes(data[indices.offset : indices.offset + indices.bytes]))
    data[: header.header_bytes] = spec.write_header(header)
    (tmp_path / "g.gl").write_bytes(data)
    with pytest.raises(gz.FormatError, match=r"in.indices\[2\] = 8 is past num_nodes = 4"):
        gz.verify(tmp_path / "g.gl")


def test_info_tells_both_counts(tmp_path, edges):
    from graphzero.cli.app import app

    compiled(tmp_path / "g.gl", edges, "in")
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "g.gl")]).output
    assert "7 sources, 300 targets" in shown
    assert "3.0 per node" in shown
