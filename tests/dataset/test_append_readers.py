"""Whatever reads a dataset sees what was appended to it: analytics, inference, exports, copies, PyG, training."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from appended import Grown, GrownTypes, same_data, same_graph

import graphzero as gz


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[gz.Dataset, gz.Dataset]:
    source = Grown(tmp_path_factory.mktemp("grown"))
    return source.grown(), source.whole()


@pytest.mark.parametrize("io", ["auto", "read"])
def test_analytics(pair: Any, io: str) -> None:
    grown, whole = pair
    a = gz.analytics
    for algorithm in (a.pagerank, a.degrees, a.label_propagation, a.core_numbers):
        kwargs: dict[str, Any] = {"num_threads": 1, "io": io}
        np.testing.assert_array_equal(*(np.asarray(algorithm(ds, **kwargs)) for ds in (grown, whole)))
    np.testing.assert_array_equal(*(a.bfs(ds, [0, 5], io=io) for ds in (grown, whole)))


def test_a_graph_is_compiled_with_what_was_appended(pair: Any, tmp_path: Path) -> None:
    grown, whole = pair
    for name, ds in (("a", grown), ("b", whole)):
        gz.compile_graph(ds.graph, tmp_path / f"{name}.gl", direction="out")
    assert (tmp_path / "a.gl").read_bytes() == (tmp_path / "b.gl").read_bytes()


def test_a_dataset_of_its_parts(pair: Any, tmp_path: Path) -> None:
    grown, _ = pair
    made = gz.Dataset.create(tmp_path / "made", grown.graph, features=dict(grown.features), labels=grown.label_store)
    same_graph(made.graph, grown.graph)
    np.testing.assert_array_equal(made.features["x"].get_tensor(), grown.features["x"].get_tensor())
    assert not made.info["deltas"]
    typed = gz.Dataset.create(tmp_path / "typed", graphs={("a", "to", "a"): grown.graph}, num_nodes={"a": 400})
    assert typed.graph.num_edges == grown.graph.num_edges


@pytest.mark.parametrize("format", ["npy", "csv", "parquet"])
def test_exports(pair: Any, tmp_path: Path, format: str) -> None:
    if format != "npy":
        pytest.importorskip("pyarrow")
    files = [gz.export_dataset(ds, tmp_path / name, format=format) for name, ds in zip("ab", pair, strict=True)]
    assert [Path(f).name for f in files[0]] == [Path(f).name for f in files[1]]
    for mine, theirs in zip(*files, strict=True):
        if not mine.endswith(".npz"):
            assert Path(mine).read_bytes() == Path(theirs).read_bytes()


def test_conversions(pair: Any) -> None:
    scipy = pytest.importorskip("scipy")
    assert scipy is not None
    grown, whole = (ds.graph.to_scipy() for ds in pair)
    assert (grown != whole).nnz == 0
    networkx = pytest.importorskip("networkx")
    assert networkx.utils.graphs_equal(*(ds.to_networkx() for ds in pair))


@pytest.mark.parametrize("by", ["degree", "bfs", "presample", "community"])
def test_reorder(pair: Any, tmp_path: Path, by: str) -> None:
    grown, whole = pair
    options: dict[str, Any] = {"by": by, "num_threads": 1}
    same_data(gz.reorder(grown, tmp_path / "a", **options), gz.reorder(whole, tmp_path / "b", **options))


def test_rows_are_permuted_in_ranges(pair: Any, tmp_path: Path) -> None:
    from graphzero.compile.permute_rows import permuted_rows

    store = pair[0].features["x"]
    order = np.random.default_rng(2).permutation(store.num_nodes)
    blocks = permuted_rows(store, order, np.argsort(order), 2000, str(tmp_path), lambda _: None)
    np.testing.assert_array_equal(np.concatenate(list(blocks)), store.get_tensor()[order])


def test_inference(pair: Any, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from graphzero.train import GCN, GraphSAGE

    for model in (GraphSAGE(5, 8, 4, 2), GCN(5, 8, 4, 2)):
        found = []
        for name, ds in zip("ab", pair, strict=True):
            gz.inference(model, ds.graph, ds.features["x"], tmp_path / f"{name}.gd", memory="20MB", num_threads=1)
            found.append(np.array(gz.FeatureStore(tmp_path / f"{name}.gd").get_tensor()))
        np.testing.assert_array_equal(*found)
    assert torch is not None


def test_pyg(pair: Any) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from graphzero.pyg import NeighborLoader

    data = [ds.to_pyg() for ds in pair]
    assert torch.equal(data[0].edge_index, data[1].edge_index)
    assert torch.equal(data[0].x, data[1].x)
    assert torch.equal(data[0].train_mask, data[1].train_mask)
    batches = [
        list(NeighborLoader(ds, num_neighbors=[4, 3], batch_size=64, input_nodes=torch.arange(300))) for ds in pair
    ]
    for mine, theirs in zip(*batches, strict=True):
        assert mine.x.shape[1] == theirs.x.shape[1] == 5
    assert sum(batch.batch_size for batch in batches[0]) == 300


def test_stats_count_everything(pair: Any) -> None:
    from graphzero.analytics.summary import summary_of_dataset

    found = []
    for ds in pair:
        summary = summary_of_dataset(ds, num_threads=1)
        assert summary.pop("deltas") == (3 if ds is pair[0] else 0)
        del summary["path"]
        for edges in summary["edges"].values():
            del edges["path"]
        found.append(json.dumps(summary, default=str))
    assert found[0] == found[1]


def test_a_base_file_opened_by_its_path_says_that_there_is_more(tmp_path: Path) -> None:
    source = Grown(tmp_path)
    ds = source.base()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gz.Graph(ds.graph.path), gz.FeatureStore(ds.features["x"].path)
        now = source.step(ds, 1)
        source.step(now, 2)
        gz.Dataset(ds.path)
    for opened, path in ((gz.Graph, ds.graph.path), (gz.FeatureStore, ds.features["x"].path)):
        with pytest.warns(UserWarning, match=r"has been appended to, .* open gz.Dataset"):
            opened(path)
    with pytest.raises(gz.FormatError):
        gz.Graph(now.graph.deltas[0])


def test_a_run_is_not_resumed_on_a_dataset_that_has_grown(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from graphzero.train import Trainer, TrainOptions

    ds = gz.synthesize(tmp_path / "d", nodes=300, edges=2000, dim=4, classes=2)

    def trainer(data: gz.Dataset, epochs: int) -> Trainer:
        return Trainer(data, TrainOptions(fanouts=(3,), epochs=epochs, hidden=8), checkpoint=tmp_path / "run.npz")

    trainer(ds, 1).fit()
    now = ds.append(edges=[(0, 1)]).dataset
    with pytest.raises(ValueError, match=r"300 nodes and 2,000 edges, the dataset has 300 nodes and 2,001 edges now"):
        trainer(now, 2).fit(resume=True)
    trainer(ds, 2).fit(resume=True)
    trainer(now, 1).fit(overwrite=True)


def test_typed_readers(tmp_path: Path) -> None:
    source = GrownTypes(tmp_path)
    grown, whole = source.grown(), source.whole()
    sampled = [ds.hetero.sample({"paper": np.arange(0, 150, 5)}, [4, 3], seed=1) for ds in (grown, whole)]
    for name in grown.node_types:
        np.testing.assert_array_equal(sampled[0].node[name], sampled[1].node[name])
    for kind in grown.edge_types:
        np.testing.assert_array_equal(sampled[0].edge[kind], sampled[1].edge[kind])
    files = [gz.export_dataset(ds, tmp_path / f"out{i}", format="npy") for i, ds in enumerate((grown, whole))]
    for mine, theirs in zip(*files, strict=True):
        if mine.endswith(".npy"):
            assert Path(mine).read_bytes() == Path(theirs).read_bytes()
