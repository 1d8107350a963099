"""Mistakes that people make: each is told at once, in our words, with what was found and what would do."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest

import graphzero as gz

EDGES = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
NO_MORE = 2**70


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a graph, features, their sources, and a few things that are neither."""
    folder = tmp_path_factory.mktemp("mistakes")
    gz.compile_graph(EDGES, folder / "g.gl")
    gz.compile_features(np.eye(4, dtype=np.float32), folder / "x.gd")
    (folder / "edges.csv").write_text("0,1\n1,2\n")
    (folder / "empty.npy").write_bytes(b"")
    (folder / "archive.zip").write_bytes(b"PK\x03\x04\x14 none of ours\n")
    damaged = bytearray(gzip.compress(b"0,1\n" * 1000))
    damaged[20] ^= 0xFF
    (folder / "damaged.csv.gz").write_bytes(damaged)
    (folder / "folder").mkdir()
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def graph(here):
    return gz.Graph("g.gl")


@pytest.fixture
def store(here):
    return gz.FeatureStore("x.gd")


@pytest.mark.parametrize(
    ("ids", "error", "match"),
    [
        (np.ones(4, bool), TypeError, r"got dtype bool; np.flatnonzero\(mask\) converts a mask to ids"),
        (["1"], TypeError, "seeds must be integers, got dtype <U1"),
        ([1, None], TypeError, "seeds must be integers, got None among them"),
        ([NO_MORE], TypeError, r"past 2\^63 - 1"),
        ({1, 2}, TypeError, "seeds must be integers, got a set"),
        (None, TypeError, "seeds must be integers, got None"),
        ([[1], [1, 2]], ValueError, "seeds must have one dimension, got rows of different lengths"),
    ],
)
def test_ids(graph, ids, error, match):
    with pytest.raises(error, match=match):
        graph.sample(ids, [2])


@pytest.mark.parametrize("fanouts", ["15,10", 15, None])
def test_fanouts_that_are_no_list(graph, store, fanouts):
    with pytest.raises(TypeError, match=r"fanouts must be one number per hop, as in \[15, 10, 5\], got "):
        graph.sample([0], fanouts)
    with pytest.raises(TypeError, match=r"fanouts must be one number per hop"):
        gz.NeighborLoader(graph, store, fanouts=fanouts)


def test_a_single_number_of_neighbours(graph):
    with pytest.raises(TypeError, match=r"got 10; one hop is \[10\]"):
        gz.NeighborLoader(graph, fanouts=10)
    pyg = pytest.importorskip("graphzero.pyg")
    for kind in (pyg.NeighborLoader, pyg.LinkNeighborLoader, pyg.NeighborSampler):
        with pytest.raises(TypeError, match=r"num_neighbors must be one number per hop.*got 10; one hop is \[10\]"):
            kind(graph, 10)


@pytest.mark.parametrize(
    ("kind", "options", "meant"),
    [
        (gz.NeighborLoader, {"fanouts": [2], "batch_sise": 2}, "batch_size"),
        (gz.NeighborLoader, {"num_neighbors": [2]}, "fanouts"),
        (gz.LinkNeighborLoader, {"fanouts": [2], "edge_label_index": [[0], [1]]}, "edges"),
        ("NeighborLoader", {"num_neighbors": [2], "batch_sise": 2}, "batch_size"),
        ("LinkNeighborLoader", {"num_neighbours": [2]}, "num_neighbors"),
    ],
)
def test_misspelt_options_of_a_loader(graph, kind, options, meant):
    kind = getattr(pytest.importorskip("graphzero.pyg"), kind) if isinstance(kind, str) else kind
    with pytest.raises(TypeError, match=rf"got an unexpected keyword argument '\w+'; did you mean '{meant}'"):
        kind(graph, **options)


@pytest.mark.parametrize("labels", [["a", "b", "a", "b"], np.array(["a", "b", "a", "b"], dtype=object)])
def test_labels_that_are_text(graph, here, labels):
    match = r"labels must be numbers, found text such as 'a'; np\.unique\(labels, return_inverse=True\)"
    for call in (
        lambda: gz.NeighborLoader(graph, fanouts=[2], labels=labels),
        lambda: gz.LinkNeighborLoader(graph, fanouts=[2], labels=labels, edge_order="file"),
        lambda: graph.sample_links(EDGES, [2], labels=labels),
        lambda: gz.Dataset.create(here / "text", EDGES, labels=labels),
        lambda: gz.import_dataset(EDGES, here / "text", labels=labels),
    ):
        with pytest.raises(TypeError, match=match):
            call()
    assert not (here / "text").exists()
    with pytest.raises(TypeError, match="x must be numbers, found text such as 'a'"):
        gz.compile_features(np.array([labels, labels]), here / "text.gd")


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda g, _: g.get_neighbours(NO_MORE), IndexError, r"node is \d+, which is past 2\^63 - 1"),
        (lambda g, _: g.sample([0], [2**40]), ValueError, r"fanouts\[0\] is \d+, expected 0 to 2147483647, or -1"),
        (lambda g, _: g.sample([0], [1], num_threads=2**40), ValueError, "num_threads is .*, expected 1 to 1024"),
        (lambda g, _: g.batch_random_walk([0], 3, p="1"), TypeError, "p must be a number, got str"),
        (lambda g, _: g.batch_random_walk([0], 2**62), MemoryError, "out of memory; try a smaller request"),
        (lambda g, _: g.csr(direction="x"), ValueError, "direction is 'x', expected 'out' or 'in'"),
        (lambda _, fs: fs.gather([0], num_threads="2"), TypeError, "num_threads must be an integer, got str"),
        (lambda _, fs: fs.gather([0], dtype="float64"), ValueError, r"expected float32 \(as on disk\)$"),
        (lambda *_: gz.Graph("edges.csv"), gz.FormatError, "graphzero compile"),
        (lambda *_: gz.Graph("folder"), gz.FormatError, "a dataset folder opens with Dataset"),
        (lambda *_: gz.Dataset("g.gl"), gz.StorageError, "is a file, expected a dataset folder"),
        (lambda *_: gz.Dataset("folder"), gz.StorageError, "not a dataset; Dataset.create"),
        (lambda *_: gz.synthesize("s", nodes=1e3, edges=10), TypeError, "nodes must be an integer, got float"),
    ],
)
def test_calls(graph, store, call, error, match):
    with pytest.raises(error, match=match):
        call(graph, store)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"batch_size": 2.5}, TypeError, "batch_size must be an integer, got float"),
        ({"prefetch": 0}, ValueError, "prefetch is 0, expected at least 1"),
        ({"num_threads": -1}, ValueError, "num_threads is -1"),
        ({"io": "x"}, ValueError, "io is 'x'"),
        ({"cache": "x"}, ValueError, "cache is 'x'"),
        ({"seeds": [4]}, IndexError, r"seeds\[0\] = 4 is out of range"),
        ({"labels": ["a"] * 4}, TypeError, "labels must be numbers"),
        ({"device": "gpu"}, ValueError, "device is 'gpu', expected one such as 'cpu' or 'cuda'"),
        ({"transform": 5}, TypeError, "transform must be callable"),
        ({"features": "x.gd"}, TypeError, "feature 'x' must be a FeatureStore, got str"),
        ({"features": {"num_sampled_nodes": None}}, TypeError, "must be a FeatureStore"),
        (
            {"graph": "g.gl"},
            TypeError,
            r"graph must be a Graph, a HeteroGraph or a Dataset, got str; open a .gl file with gz.Graph\(path\)",
        ),
    ],
)
def test_a_loader_is_refused_when_it_is_made(graph, store, arguments, error, match):
    pytest.importorskip("torch")
    arguments = {"graph": graph, "features": store, "fanouts": [2], **arguments}
    with pytest.raises(error, match=match):
        gz.NeighborLoader(**arguments)


@pytest.mark.parametrize("name", ["num_sampled_nodes", "to", "num_nodes"])
def test_features_cannot_hide_what_a_batch_has(graph, store, name):
    with pytest.raises(ValueError, match=f"feature name '{name}' is reserved"):
        gz.NeighborLoader(graph, {name: store}, fanouts=[2])


def test_edge_features_need_a_row_for_each_edge(graph, here):
    gz.compile_features(np.zeros((3, 1), np.float32), "few.gd")
    with pytest.raises(ValueError, match=r"few\.gd: 'x' has 3 rows, .*g\.gl has 4 edges"):
        gz.NeighborLoader(graph, fanouts=[2], edge_features=gz.FeatureStore("few.gd"), edge_order="file")


@pytest.mark.parametrize(
    ("source", "options", "error", "match"),
    [
        (np.array([[0], [2**62]]), {}, gz.InputError, r"found dst 4611686018427387904, expected .*; ids='map'"),
        (
            np.array([[0], [2**64 - 1]], np.uint64),
            {},
            gz.InputError,
            r"dst\[0\] is 18446744073709551615, .*below",
        ),
        ([(0, 1, 2)] * 3, {}, TypeError, r"expected pairs; pass \(src, dst, weights\)"),
        ((EDGES[0], EDGES[1], None, np.full(4, np.datetime64("NaT", "s"))), {}, gz.InputError, r"times\[0\] is NaT"),
        ((EDGES[0], EDGES[1], None, np.full(4, 2**63, np.uint64)), {}, gz.InputError, r"less than 2\^63"),
        (EDGES, {"num_nodes": "4"}, TypeError, "num_nodes must be an integer, got str"),
        (EDGES, {"num_threads": "2"}, TypeError, "num_threads must be an integer, got str"),
        ("edges.csv", {"columns": (0, 0)}, ValueError, "expected two different ones"),
        ("edges.csv", {"columns": 1}, ValueError, "expected two names or numbers"),
        ("edges.csv", {"delimiter": 5}, ValueError, "delimiter is 5, expected one character"),
        ("folder", {}, IsADirectoryError, "is a folder, expected a file of edges"),
        ("empty.npy", {}, gz.InputError, "not a .npy file of numbers"),
        ("archive.zip", {}, gz.InputError, "is a zip archive"),
        ("damaged.csv.gz", {}, gz.InputError, "damaged or truncated"),
    ],
)
def test_sources_of_edges(here, source, options, error, match):
    with pytest.raises(error, match=match):
        gz.compile_graph(source, "out.gl", **options)
    assert not (here / "out.gl").exists()


def test_a_list_of_two_rows_is_read_as_an_array(here):
    assert gz.compile_graph([[0, 1, 2], [1, 2, 0]], "rows.gl").edges == 3


@pytest.mark.parametrize("kind", ["graph", "features"])
def test_somebodys_data_is_not_overwritten(here, kind):
    compile_it, source = {
        "graph": (gz.compile_graph, EDGES),
        "features": (gz.compile_features, np.eye(4, dtype=np.float32)),
    }[kind]
    other = {"graph": "x.gd", "features": "g.gl"}[kind]
    for name in ("edges.csv", "archive.zip", other):
        before = (here / name).read_bytes()
        with pytest.raises(FileExistsError, match="would be overwritten; choose another name"):
            compile_it(source, name)
        assert (here / name).read_bytes() == before
    with pytest.raises(IsADirectoryError, match="is a folder, expected a file name"):
        compile_it(source, "folder")
    if hasattr(os, "mkfifo"):
        os.mkfifo("pipe")
        with pytest.raises(FileExistsError, match="is not a regular file"):
            compile_it(source, "pipe")
        os.unlink("pipe")


def test_an_older_or_a_broken_file_of_the_same_kind_is_replaced(here):
    for before in (b"", b"truncated", (here / "g.gl").read_bytes()):
        (here / "again.gl").write_bytes(before)
        assert gz.compile_graph(EDGES, "again.gl").edges == 4
        gz.verify("again.gl")
    os.remove("again.gl")


def test_labels_past_the_classes_and_options_that_would_be_ignored(here):
    with pytest.raises(ValueError, match=r"labels\[1\] is 5, expected less than num_classes = 3"):
        gz.Dataset.create("ds", "g.gl", labels=[0, 5, 1, 2], num_classes=3)
    with pytest.raises(TypeError, match="directed: options of compile_graph cannot be used with a compiled graph"):
        gz.Dataset.create("ds", "g.gl", directed=False)
    assert not (here / "ds").exists()


def test_inference_is_refused_before_the_layers(graph, store, here):
    pytest.importorskip("torch")

    class Model:
        num_layers, aggregation = 2, "mean"

        def combine(self, *_):
            raise AssertionError("work was done")

    for arguments, error, match in (
        ((store, graph, "out.gd"), TypeError, "graph must be a Graph, got FeatureStore"),
        ((graph, store, "edges.csv"), FileExistsError, "is not a GraphZero file and would be overwritten"),
        ((graph, store, "none/out.gd"), FileNotFoundError, "no such folder"),
    ):
        with pytest.raises(error, match=match):
            gz.inference(Model(), *arguments)
    with pytest.raises(ValueError, match="device is 'gpu'"):
        gz.inference(Model(), graph, store, "out.gd", device="gpu")


def test_a_misspelt_keyword_of_a_dataset_is_suggested(tmp_path):
    for make in (gz.Dataset.create, lambda out, edges, **given: gz.import_dataset(edges, out, **given)):
        with pytest.raises(
            TypeError, match=r"\(\) got an unexpected keyword argument 'featurs'; did you mean 'features'"
        ):
            make(tmp_path / "ds", ([0], [1]), featurs=[[1.0], [2.0]])
