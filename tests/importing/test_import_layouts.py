"""Dataset folders of other projects: small faithful copies of each layout, and every array of the result checked."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

RNG = np.random.default_rng(5)
N, E, F = 20, 60, 4
EDGES = RNG.integers(0, N, (E, 2))
X = RNG.standard_normal((N, F)).astype(np.float32)
Y = RNG.integers(0, 3, N)
SPLITS = {"train": np.arange(12), "valid": np.arange(12, 16), "test": np.arange(16, 20)}


def gz_csv(path: Path, table: Any, form: str = "%d") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        np.savetxt(file, np.asarray(table), form, delimiter=",")


def save(path: Path, array: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def in_edges(ds: gz.Dataset) -> list[tuple[int, int]]:
    graph = ds.graph
    return sorted((int(u), v) for v in range(graph.num_nodes) for u in graph.get_neighbours(v, direction="in"))


def check(ds: gz.Dataset, labels: Any = Y, edges: Any = EDGES, splits: Any = SPLITS, x: Any = X) -> None:
    assert in_edges(ds) == sorted(map(tuple, np.asarray(edges).tolist()))
    np.testing.assert_array_equal(ds.features["x"].get_tensor(), x)
    if labels is not None:
        assert ds.labels.tolist() == np.asarray(labels).tolist()
    assert {k: v.tolist() for k, v in ds.splits.items()} == {k: v.tolist() for k, v in splits.items()}
    ds.verify()


def ogb_csv(folder: Path, split: str, labels: Any = None) -> Path:
    gz_csv(folder / "raw" / "edge.csv.gz", EDGES)
    gz_csv(folder / "raw" / "num-node-list.csv.gz", [[N]])
    gz_csv(folder / "raw" / "num-edge-list.csv.gz", [[E]])
    gz_csv(folder / "raw" / "node-feat.csv.gz", X, "%.9g")
    gz_csv(folder / "raw" / "node-label.csv.gz", Y[:, None] if labels is None else labels)
    for name, ids in SPLITS.items():
        gz_csv(folder / "split" / split / f"{name}.csv.gz", ids[:, None])
    return folder


def test_ogb_arxiv(tmp_path):
    folder = ogb_csv(tmp_path / "ogbn_arxiv", "time")
    gz_csv(folder / "raw" / "node_year.csv.gz", (2000 + np.arange(N))[:, None])
    report = gz.import_dataset(folder, tmp_path / "out")
    check(report.dataset)
    assert report.dataset.features["year"].get_tensor().tolist() == list(range(2000, 2000 + N))
    assert (report.kind, report.dataset.name) == ("OGB folder", "ogbn_arxiv")


def test_ogb_products_has_each_edge_both_ways_with_the_ids_of_its_loader(tmp_path):
    report = gz.import_dataset(ogb_csv(tmp_path / "ogbn_products", "sales_ranking"), tmp_path / "out", edge_ids=True)
    both = np.stack([EDGES, EDGES[:, ::-1]], 1).reshape(-1, 2)  # edge i as 2 i and 2 i + 1
    check(report.dataset, edges=both)
    graph = report.dataset.graph
    for v in range(N):
        for u, e in zip(graph.get_neighbours(v), graph.get_edge_ids(v), strict=True):
            assert both[e].tolist() == [u, v]


def test_ogb_proteins_has_many_tasks_and_inverse_edges(tmp_path):
    tasks = RNG.integers(0, 2, (N, 5))
    folder = ogb_csv(tmp_path / "ogbn_proteins", "species", tasks)
    (folder / "raw" / "node-feat.csv.gz").unlink()
    gz_csv(folder / "raw" / "node_species.csv.gz", np.arange(N)[:, None])
    ds = gz.import_dataset(folder, tmp_path / "out").dataset
    assert ds.graph.num_edges == 2 * E
    np.testing.assert_array_equal(ds.features["y"].get_tensor(), tasks)
    assert ds.features["species"].get_tensor().tolist() == list(range(N))
    assert ds.num_classes == 0


def test_ogb_edge_features_follow_both_ways_of_an_edge(tmp_path):
    folder = ogb_csv(tmp_path / "ogbn_proteins", "species")
    rows = RNG.standard_normal((E, 3)).astype(np.float32)
    gz_csv(folder / "raw" / "edge-feat.csv.gz", rows, "%.9g")
    ds = gz.import_dataset(folder, tmp_path / "out").dataset
    np.testing.assert_array_equal(ds.edge_features["edge_attr"].get_tensor(), np.repeat(rows, 2, axis=0))
    both = np.stack([EDGES, EDGES[:, ::-1]], 1).reshape(-1, 2)
    for v in range(N):
        for u, e in zip(ds.graph.get_neighbours(v), ds.graph.get_edge_ids(v), strict=True):
            assert both[e].tolist() == [u, v]
    ds.verify()
    gz_csv(folder / "raw" / "edge-feat.csv.gz", rows[:5], "%.9g")
    with pytest.raises(gz.InputError, match="edge features edge_attr: 10 rows, expected 120, one per edge"):
        gz.import_dataset(folder, tmp_path / "short")


def test_ogb_numbers_without_pyarrow_are_the_same(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check(gz.import_dataset(ogb_csv(tmp_path / "ogbn_arxiv", "time"), tmp_path / "out").dataset)


def test_ogb_papers100m_is_inflated_as_a_stream(tmp_path):
    raw = tmp_path / "papers" / "raw"
    raw.mkdir(parents=True)
    np.savez_compressed(
        raw / "data.npz",
        edge_index=EDGES.T,
        num_nodes_list=np.array([N]),
        num_edges_list=np.array([E]),
        node_feat=X,
        node_year=np.arange(N)[:, None],
    )
    labels = np.where(np.arange(N) % 4 == 3, np.nan, Y)[:, None].astype(np.float32)
    np.savez_compressed(raw / "node-label.npz", node_label=labels)
    for name, ids in SPLITS.items():
        gz_csv(tmp_path / "papers" / "split" / "time" / f"{name}.csv.gz", ids[:, None])
    ds = gz.import_dataset(tmp_path / "papers", tmp_path / "out").dataset
    check(ds, labels=np.where(np.arange(N) % 4 == 3, -1, Y))
    assert ds.features["year"].get_tensor().ravel().tolist() == list(range(N))


def test_a_declared_number_of_nodes_is_checked(tmp_path):
    folder = ogb_csv(tmp_path / "ogbn_arxiv", "time")
    gz_csv(folder / "raw" / "num-node-list.csv.gz", [[3]])
    with pytest.raises(gz.InputError, match="the declared number of nodes"):
        gz.import_dataset(folder, tmp_path / "out")


def test_mag240m_papers(tmp_path):
    torch = pytest.importorskip("torch")
    root = tmp_path / "data" / "mag240m_kddcup2021"
    half = X.astype(np.float16)
    save(root / "processed" / "paper" / "node_feat.npy", half)
    save(root / "processed" / "paper" / "node_label.npy", np.where(Y == 2, np.nan, Y).astype(np.float32))
    save(root / "processed" / "paper" / "node_year.npy", np.arange(N, dtype=np.int32))
    save(root / "processed" / "paper___cites___paper" / "edge_index.npy", EDGES.T)
    splits = {"train": SPLITS["train"], "valid": SPLITS["valid"], "test-dev": SPLITS["test"]}
    torch.save(splits, root / "split_dict.pt")
    ds = gz.import_dataset(tmp_path / "data", tmp_path / "out").dataset
    check(ds, labels=np.where(Y == 2, -1, Y), splits=splits, x=half)
    assert ds.features["year"].get_tensor().tolist() == list(range(N))


@pytest.mark.parametrize("headers", [True, False])
def test_igb_with_and_without_npy_headers(tmp_path, headers):
    wide = RNG.standard_normal((N, 1024)).astype(np.float32)
    folder = tmp_path / ("tiny" if headers else "full")
    save(folder / "processed" / "paper__cites__paper" / "edge_index.npy", EDGES)
    paper = folder / "processed" / "paper"
    paper.mkdir()
    for name, array in (("node_feat.npy", wide), ("node_label_19.npy", Y.astype(np.float32))):
        if headers:
            np.save(paper / name, array)
        else:
            array.tofile(paper / name)
    report = gz.import_dataset(folder, tmp_path / "out")
    check(report.dataset, x=wide)
    assert ("without a header" in str(report)) == (not headers)


@pytest.mark.parametrize("form", ["numpy", "csv"])
def test_graphbolt_metadata(tmp_path, form):
    yaml = pytest.importorskip("yaml")
    torch = pytest.importorskip("torch")
    folder = tmp_path / "bolt"
    if form == "numpy":
        save(folder / "edges" / "e.npy", EDGES.T)
    else:
        (folder / "edges").mkdir(parents=True)
        np.savetxt(folder / "edges" / "e.csv", EDGES, "%d", delimiter=",")
    save(folder / "data" / "feat.npy", X)
    sets: dict[str, Any] = {}
    for name, key in (("train", "train_set"), ("valid", "validation_set"), ("test", "test_set")):
        save(folder / "set" / f"{name}.npy", SPLITS[name])
        torch.save(torch.from_numpy(Y[SPLITS[name]]), folder / "set" / f"{name}_labels.pt")
        sets[key] = [
            {
                "data": [
                    {"name": "seeds", "format": "numpy", "in_memory": True, "path": f"set/{name}.npy"},
                    {"name": "labels", "format": "torch", "path": f"set/{name}_labels.pt"},
                ]
            }
        ]
    meta = {
        "dataset_name": "bolt-mini",
        "graph": {
            "nodes": [{"num": N}],
            "edges": [{"format": form, "path": f"edges/e.{'npy' if form == 'numpy' else 'csv'}"}],
        },
        "feature_data": [
            {"domain": "node", "name": "x", "format": "numpy", "in_memory": False, "path": "data/feat.npy"}
        ],
        "tasks": [{"name": "node_classification", "num_classes": 5, **sets}],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(meta))
    ds = gz.import_dataset(folder, tmp_path / "out").dataset
    check(ds)
    assert (ds.name, ds.num_classes) == ("bolt-mini", 5)
    meta["graph"]["nodes"] = [{"type": "a", "num": 1}, {"type": "b", "num": 1}]
    (folder / "metadata.yaml").write_text(yaml.safe_dump(meta))
    with pytest.raises(gz.InputError, match="the edge type is None, expected source:relation:target"):
        gz.import_dataset(folder, tmp_path / "typed")


def test_snap_and_konect_text(tmp_path):
    with gzip.open(tmp_path / "web.txt.gz", "wt") as file:
        file.write("# Directed graph\n# FromNodeId\tToNodeId\n")
        file.writelines(f"{u}\t{v}\n" for u, v in EDGES)
    assert in_edges(gz.import_dataset(tmp_path / "web.txt.gz", tmp_path / "snap").dataset) == sorted(
        map(tuple, EDGES.tolist())
    )
    (tmp_path / "konect").mkdir()
    lines = "".join(f"{u + 1} {v + 1}\n" for u, v in EDGES)
    (tmp_path / "konect" / "out.petster").write_text("% asym unweighted\n" + lines)
    for i, source in enumerate((tmp_path / "konect", tmp_path / "konect" / "out.petster")):
        ds = gz.import_dataset(source, tmp_path / f"konect{i}").dataset
        assert in_edges(ds) == sorted(map(tuple, EDGES.tolist()))
        assert ds.name == "petster"


def test_matrix_market_says_itself_where_ids_start_and_that_it_is_symmetric(tmp_path):
    (tmp_path / "m.mtx").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n4 4 2\n2 1\n4 2\n")
    ds = gz.import_dataset(tmp_path / "m.mtx", tmp_path / "out").dataset
    assert in_edges(ds) == [(0, 1), (1, 0), (1, 3), (3, 1)]
    assert ds.num_nodes == 4


def pyg_data(torch: Any) -> dict[str, Any]:
    masks = {f"{'val' if k == 'valid' else k}_mask": torch.zeros(N, dtype=torch.bool) for k in SPLITS}
    for name, ids in SPLITS.items():
        masks[f"{'val' if name == 'valid' else name}_mask"][torch.from_numpy(ids)] = True
    return {"x": torch.from_numpy(X), "edge_index": torch.from_numpy(EDGES.T.copy()), "y": torch.from_numpy(Y), **masks}


def test_pyg_data_objects_and_processed_files(tmp_path):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    check(gz.import_dataset(data.Data(**pyg_data(torch)), tmp_path / "object").dataset)
    (tmp_path / "Cora" / "processed").mkdir(parents=True)
    torch.save((pyg_data(torch), None, data.Data), tmp_path / "Cora" / "processed" / "data.pt")
    torch.save("no", tmp_path / "Cora" / "processed" / "pre_filter.pt")
    ds = gz.import_dataset(tmp_path / "Cora", tmp_path / "file").dataset
    check(ds)
    assert ds.name == "Cora"


def test_a_processed_file_that_would_run_code_is_refused(tmp_path):
    torch = pytest.importorskip("torch")

    (tmp_path / "evil" / "processed").mkdir(parents=True)
    torch.save({"edge_index": Evil()}, tmp_path / "evil" / "processed" / "data.pt")
    with pytest.raises(gz.InputError, match="not unpickled for safety"):
        gz.import_dataset(tmp_path / "evil", tmp_path / "out")
    assert not Path("evil-was-here").exists()


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("evil-was-here"),))


def test_a_folder_without_a_known_layout_says_what_it_found(tmp_path):
    (tmp_path / "stuff").mkdir()
    (tmp_path / "stuff" / "readme.txt").touch()
    with pytest.raises(gz.InputError, match=r"no known layout; found readme.txt; expected .*OGB"):
        gz.import_dataset(tmp_path / "stuff", tmp_path / "out")
