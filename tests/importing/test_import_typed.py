"""Heterogeneous folders and objects: small faithful copies of each layout, every array of the result checked."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

RNG = np.random.default_rng(11)
COUNTS = {"author": 9, "institution": 4, "paper": 12}
WRITES, WORKS, CITES = (
    ("author", "writes", "paper"),
    ("author", "affiliated_with", "institution"),
    ("paper", "cites", "paper"),
)


def random_edges(edge_type: tuple[str, str, str], count: int, counts: dict[str, int] = COUNTS) -> Any:
    return np.stack([RNG.integers(0, counts[edge_type[0]], count), RNG.integers(0, counts[edge_type[2]], count)])


EDGES = {WRITES: random_edges(WRITES, 30), WORKS: random_edges(WORKS, 15), CITES: random_edges(CITES, 25)}
X = RNG.standard_normal((12, 5)).astype(np.float32)
Y = np.arange(12) % 4
YEAR = 2000 + np.arange(12)
SPLITS = {"train": np.arange(6), "valid": np.arange(6, 9), "test": np.arange(9, 12)}


def gz_csv(path: Path, table: Any, form: str = "%d") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        np.savetxt(file, np.asarray(table), form, delimiter=",")


def gz_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write(text)


def save(path: Path, array: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def edges_of(graph: gz.Graph) -> list[tuple[int, int]]:
    rows = range(graph.num_targets)
    return sorted((int(u), v) for v in rows for u in graph.get_neighbours(v, direction="in"))


def check_edges(ds: gz.Dataset, edges: dict[tuple[str, str, str], Any]) -> None:
    assert set(ds.edge_types) == set(edges)
    for edge_type, pairs in edges.items():
        assert edges_of(ds.graphs[edge_type]) == sorted(map(tuple, np.asarray(pairs).T.tolist()))
    ds.verify()


def check_papers(ds: gz.Dataset, x: Any = X, splits: Any = SPLITS, labels: Any = Y) -> None:
    paper = ds.nodes["paper"]
    np.testing.assert_array_equal(paper.features["x"].get_tensor(), x)
    assert paper.labels.tolist() == np.asarray(labels).tolist()
    assert {k: v.tolist() for k, v in paper.splits.items()} == {k: v.tolist() for k, v in splits.items()}


# -- OGB mag ----------------------------------------------------------------------------------------------------------


def ogb_mag(folder: Path) -> Path:
    raw = folder / "raw"
    gz_text(raw / "triplet-type-list.csv.gz", "".join(",".join(t) + "\n" for t in sorted(EDGES)))
    gz_text(raw / "num-node-dict.csv.gz", f"{','.join(COUNTS)}\n{','.join(map(str, COUNTS.values()))}\n")
    gz_text(raw / "nodetype-has-feat.csv.gz", "author,institution,paper\nFalse,False,True\n")
    for edge_type, edges in EDGES.items():
        where = raw / "relations" / "___".join(edge_type)
        gz_csv(where / "edge.csv.gz", edges.T)
        gz_csv(where / "num-edge-list.csv.gz", [[edges.shape[1]]])
        gz_csv(where / "edge_reltype.csv.gz", np.zeros((edges.shape[1], 1)))
    gz_csv(raw / "node-feat" / "paper" / "node-feat.csv.gz", X, "%.9g")
    gz_csv(raw / "node_year" / "paper" / "node_year.csv.gz", YEAR[:, None])
    gz_csv(raw / "node-label" / "paper" / "node-label.csv.gz", Y[:, None])
    for name, ids in SPLITS.items():
        gz_csv(folder / "split" / "time" / "paper" / f"{name}.csv.gz", ids[:, None])
    return folder


def test_ogb_mag(tmp_path):
    report = gz.import_dataset(ogb_mag(tmp_path / "ogbn_mag"), tmp_path / "out")
    ds = report.dataset
    check_edges(ds, EDGES)
    check_papers(ds)
    assert ds.nodes["paper"].features["year"].get_tensor().tolist() == YEAR.tolist()
    assert {t: data.num_nodes for t, data in ds.nodes.items()} == COUNTS
    assert (report.kind, ds.name, report.nodes, report.edges) == ("OGB heterogeneous folder", "ogbn_mag", 25, 70)
    assert ds.num_classes == 4


def test_one_relation_of_several_is_a_plain_graph(tmp_path):
    ds = gz.import_dataset(ogb_mag(tmp_path / "ogbn_mag"), tmp_path / "out", edge_types=[CITES]).dataset
    assert not ds.is_typed
    check_edges(ds, {CITES: EDGES[CITES]})


def test_some_edge_types_with_their_reverses_and_features_of_ones_own(tmp_path):
    rows = RNG.standard_normal((9, 2))
    report = gz.import_dataset(
        ogb_mag(tmp_path / "ogbn_mag"),
        tmp_path / "out",
        edge_types=["author__writes__paper", CITES],
        reverse=True,
        features={"author": rows},
        dtype="float16",
    )
    ds = report.dataset
    back = {(t, f"rev_{r}", s): EDGES[s, r, t][::-1] for s, r, t in (WRITES, CITES)}
    check_edges(ds, {WRITES: EDGES[WRITES], CITES: EDGES[CITES], **back})
    assert list(ds.nodes) == ["author", "paper"]
    np.testing.assert_array_equal(ds.nodes["author"].features["x"].get_tensor(), rows.astype(np.float16))
    assert ds.nodes["paper"].features["year"].dtype == np.int64  # whole numbers stay
    assert any("features author x: stored as float16: largest error" in line for line in report.losses)
    assert "left out: author__affiliated_with__institution" in str(report)
    with pytest.raises(gz.InputError, match="no edge type 'a__b__c', the source has author__aff"):
        gz.import_dataset(tmp_path / "ogbn_mag", tmp_path / "no", edge_types=["a__b__c"])
    with pytest.raises(gz.InputError, match="features must be a dict by node type"):
        gz.import_dataset(tmp_path / "ogbn_mag", tmp_path / "no", features=rows)


def test_an_import_of_several_types_goes_on_from_its_finished_files(tmp_path, monkeypatch):
    from graphzero.importing import work

    folder, real, made = ogb_mag(tmp_path / "ogbn_mag"), work.compile_graph, []

    def stop(source: Any, out: str, **options: Any) -> Any:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(out)
        return real(source, out, **options)

    with monkeypatch.context() as patch:
        patch.setattr(work, "compile_graph", stop)
        with pytest.raises(KeyboardInterrupt):
            gz.import_dataset(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    report = gz.import_dataset(folder, tmp_path / "out")
    assert report.resumed == [Path(path).name for path in made]
    check_edges(report.dataset, EDGES)
    check_papers(report.dataset)
    assert not (tmp_path / "out.importing").exists()


def test_an_id_past_the_declared_count_is_told_with_its_edge_type(tmp_path):
    folder = ogb_mag(tmp_path / "ogbn_mag")
    gz_text(folder / "raw" / "num-node-dict.csv.gz", "author,institution,paper\n9,4,5\n")
    gz_csv(folder / "raw" / "node-feat" / "paper" / "node-feat.csv.gz", X[:5], "%.9g")
    with pytest.raises(gz.InputError, match=r"\('author', 'writes', 'paper'\): .*edge|expected a node id from 0 to 4"):
        gz.import_dataset(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- folders of arrays ------------------------------------------------------------------------------------------------


def test_mag240m(tmp_path):
    torch = pytest.importorskip("torch")
    root = tmp_path / "data" / "mag240m_kddcup2021"
    half = X.astype(np.float16)
    save(root / "processed" / "paper" / "node_feat.npy", half)
    save(root / "processed" / "paper" / "node_label.npy", np.where(Y == 3, np.nan, Y).astype(np.float32))
    save(root / "processed" / "paper" / "node_year.npy", YEAR.astype(np.int32))
    for edge_type, edges in EDGES.items():
        save(root / "processed" / "___".join(edge_type) / "edge_index.npy", edges)
    torch.save({**COUNTS, "num_classes": 153}, root / "meta.pt")
    torch.save(SPLITS, root / "split_dict.pt")
    ds = gz.import_dataset(tmp_path / "data", tmp_path / "out").dataset
    check_edges(ds, EDGES)
    check_papers(ds, x=half, labels=np.where(Y == 3, -1, Y))
    assert ds.nodes["paper"].features["year"].get_tensor().tolist() == YEAR.tolist()
    assert {t: data.num_nodes for t, data in ds.nodes.items()} == COUNTS
    assert ds.edge_types[0] == CITES  # what ds.graph means


@pytest.mark.parametrize("headers", [True, False])
def test_igbh(tmp_path, headers):
    counts = {"paper": 12, "author": 9, "institute": 3, "fos": 5, "journal": 2, "conference": 2}
    types = [
        ("paper", "cites", "paper"),
        ("paper", "written_by", "author"),
        ("author", "affiliated_to", "institute"),
        ("paper", "topic", "fos"),
        ("paper", "published", "journal"),
        ("paper", "venue", "conference"),
    ]
    edges = {t: random_edges(t, 14, counts) for t in types}
    root = tmp_path / ("tiny" if headers else "full") / "processed"
    for edge_type, pairs in edges.items():
        save(root / "__".join(edge_type) / "edge_index.npy", pairs.T)  # (E, 2)
    rows = {t: RNG.standard_normal((n, 1024)).astype(np.float32) for t, n in counts.items()}
    for t, array in rows.items():
        (root / t).mkdir()
        if headers or t not in ("paper", "author"):
            np.save(root / t / "node_feat.npy", array)
        else:
            array.tofile(root / t / "node_feat.npy")
    labels = Y.astype(np.float32)
    np.save(root / "paper" / "node_label_19.npy", labels) if headers else labels.tofile(
        root / "paper" / "node_label_19.npy"
    )
    report = gz.import_dataset(root.parent, tmp_path / "out")
    ds = report.dataset
    check_edges(ds, edges)
    check_papers(
        ds, x=rows["paper"], splits={"train": np.arange(7), "valid": np.arange(7, 9), "test": np.arange(9, 12)}
    )
    for t, array in rows.items():
        np.testing.assert_array_equal(ds.nodes[t].features["x"].get_tensor(), array)
    assert report.kind == "IGBH folder"


# -- GraphBolt --------------------------------------------------------------------------------------------------------


def test_graphbolt_of_several_types(tmp_path):
    yaml = pytest.importorskip("yaml")
    torch = pytest.importorskip("torch")
    folder = tmp_path / "bolt"
    year = RNG.integers(1990, 2020, 30)
    held = random_edges(WRITES, 4).T
    save(folder / "edges" / "w.npy", EDGES[WRITES])
    np.savetxt(folder / "edges" / "c.csv", EDGES[CITES].T, "%d", delimiter=",")
    save(folder / "data" / "x.npy", X)
    torch.save(torch.from_numpy(year), folder / "data" / "year.pt")
    entry = {"format": "numpy", "in_memory": True}
    sets: dict[str, Any] = {}
    for name, key in (("train", "train_set"), ("valid", "validation_set"), ("test", "test_set")):
        save(folder / "set" / f"{name}.npy", SPLITS[name])
        save(folder / "set" / f"{name}_y.npy", Y[SPLITS[name]])
        data = [
            {"name": "seeds", "path": f"set/{name}.npy", **entry},
            {"name": "labels", "path": f"set/{name}_y.npy", **entry},
        ]
        sets[key] = [{"type": "paper", "data": data}]
    save(folder / "set" / "links.npy", held)
    save(folder / "set" / "links_y.npy", np.array([1, 0, 1, 0]))
    links = [
        {"name": "seeds", "path": "set/links.npy", **entry},
        {"name": "labels", "path": "set/links_y.npy", **entry},
    ]
    sets["test_set"].append({"type": "author:writes:paper", "data": links})
    meta = {
        "dataset_name": "bolt-typed",
        "graph": {
            "nodes": [{"type": "author", "num": 9}, {"type": "paper", "num": 12}],
            "edges": [
                {"type": "author:writes:paper", "format": "numpy", "path": "edges/w.npy"},
                {"type": "paper:cites:paper", "format": "csv", "path": "edges/c.csv"},
            ],
        },
        "feature_data": [
            {"domain": "node", "type": "paper", "name": "x", "path": "data/x.npy", **entry},
            {
                "domain": "edge",
                "type": "author:writes:paper",
                "name": "year",
                "format": "torch",
                "path": "data/year.pt",
            },
        ],
        "tasks": [{"name": "node_classification", "num_classes": 6, **sets}],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(meta))
    ds = gz.import_dataset(folder, tmp_path / "out").dataset
    check_edges(ds, {WRITES: EDGES[WRITES], CITES: EDGES[CITES]})
    check_papers(ds)
    assert (ds.name, ds.num_classes, ds.nodes["author"].num_nodes) == ("bolt-typed", 6, 9)
    assert ds.edges[WRITES].features["year"].get_tensor().tolist() == year.tolist()
    assert ds.edges[WRITES].splits["test"].tolist() == held[::2].tolist()
    assert ds.edges[WRITES].splits["test_negative"].tolist() == held[1::2].tolist()


# -- PyG --------------------------------------------------------------------------------------------------------------


def hetero_data(torch: Any, data: Any) -> Any:
    made = data.HeteroData()
    made["paper"].x = torch.from_numpy(X)
    made["paper"].y = torch.from_numpy(Y)
    made["paper"].year = torch.from_numpy(YEAR)
    for name, ids in SPLITS.items():
        mask = torch.zeros(12, dtype=torch.bool)
        mask[torch.from_numpy(ids)] = True
        made["paper"][f"{'val' if name == 'valid' else name}_mask"] = mask
    made["author"].num_nodes = 9
    made["institution"].x = torch.eye(4)
    for edge_type, edges in EDGES.items():
        made[edge_type].edge_index = torch.from_numpy(edges.copy())
    made[WRITES].edge_attr = torch.arange(60).reshape(30, 2).float()
    made[CITES].edge_weight = torch.arange(25).float()
    made[CITES].time = torch.arange(25) + 100
    return made


def check_hetero(ds: gz.Dataset) -> None:
    check_edges(ds, EDGES)
    check_papers(ds)
    assert ds.nodes["paper"].features["year"].get_tensor().tolist() == YEAR.tolist()
    np.testing.assert_array_equal(ds.nodes["institution"].features["x"].get_tensor(), np.eye(4))
    assert ds.nodes["author"].num_nodes == 9
    np.testing.assert_array_equal(ds.edges[WRITES].features["edge_attr"].get_tensor(), np.arange(60).reshape(30, 2))
    graph = ds.graphs[WRITES]
    for v in range(12):
        for u, e in zip(graph.get_neighbours(v), graph.get_edge_ids(v), strict=True):
            assert EDGES[WRITES][:, e].tolist() == [u, v]
    cites = ds.graphs[CITES]
    found = sorted(
        (int(u), v, float(w), int(t))
        for v in range(12)
        for u, w, t in zip(cites.get_neighbours(v), cites.get_weights(v), cites.get_times(v), strict=True)
    )
    assert found == sorted((int(u), int(v), float(i), 100 + i) for i, (u, v) in enumerate(EDGES[CITES].T))


def test_pyg_hetero_data(tmp_path):
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    check_hetero(gz.import_dataset(hetero_data(torch, data), tmp_path / "object").dataset)
    (tmp_path / "MAG" / "processed").mkdir(parents=True)
    data.InMemoryDataset.save([hetero_data(torch, data)], tmp_path / "MAG" / "processed" / "data.pt")
    ds = gz.import_dataset(tmp_path / "MAG", tmp_path / "file").dataset
    check_hetero(ds)
    assert ds.name == "MAG"


def test_a_pyg_file_of_several_typed_graphs_is_refused(tmp_path):
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    (tmp_path / "many" / "processed").mkdir(parents=True)
    data.InMemoryDataset.save([hetero_data(torch, data)] * 2, tmp_path / "many" / "processed" / "data.pt")
    with pytest.raises(gz.InputError, match="holds 2 graphs, expected one"):
        gz.import_dataset(tmp_path / "many", tmp_path / "out")


def test_odd_names_of_types_become_names_that_a_dataset_allows(tmp_path):
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    made = data.HeteroData()
    made["field of study"].num_nodes = 2
    made["field of study", "is/in", "field of study"].edge_index = torch.tensor([[0, 1], [1, 0]])
    ds = gz.import_dataset(made, tmp_path / "out").dataset
    assert ds.edge_types == [("field_of_study", "is_in", "field_of_study")]


def test_homogeneous_edge_attributes_of_pyg_are_edge_features(tmp_path):
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch_geometric.data")
    edges = torch.from_numpy(EDGES[CITES].copy())
    rows = torch.arange(25).float()
    ds = gz.import_dataset(data.Data(edge_index=edges, edge_attr=rows, num_nodes=12), tmp_path / "out").dataset
    assert ds.edge_features["edge_attr"].get_tensor().tolist() == rows.tolist()
    for v in range(12):
        for u, e in zip(ds.graph.get_neighbours(v), ds.graph.get_edge_ids(v), strict=True):
            assert EDGES[CITES][:, e].tolist() == [u, v]


def test_edge_features_beside_a_plain_file(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,0\n")
    np.save(tmp_path / "w.npy", np.array([5, 6, 7]))
    report = gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", edge_features={"kind": tmp_path / "w.npy"})
    ds = report.dataset
    assert ds.graph.get_edge_ids(2).tolist() == [1]
    assert ds.edge_features["kind"].get_tensor().tolist() == [5, 6, 7]


@pytest.mark.parametrize("names", [False, True])
def test_reverses_of_a_plain_file_are_tagged(tmp_path, names):
    text = "ann,bob,0.5\nbob,eve,2\nbob,eve,3\n" if names else "0,1,0.5\n1,2,2\n1,2,3\n"
    (tmp_path / "e.csv").write_text(f"src,dst,weight\n{text}")
    report = gz.import_dataset(
        tmp_path / "e.csv", tmp_path / "out", edge_features={"kind": np.array([5, 6, 7])}, tag_reverse=True, dedup=True
    )
    ds = report.dataset
    kind, reverse = (ds.edge_features[name].get_tensor() for name in ("kind", "reverse"))
    found = sorted(
        (int(u), v, float(w), int(kind[e]), int(reverse[e]))
        for v in range(3)
        for u, w, e in zip(ds.graph.get_neighbours(v), ds.graph.get_weights(v), ds.graph.get_edge_ids(v), strict=True)
    )
    assert found == [(0, 1, 0.5, 5, 0), (1, 0, 0.5, 5, 1), (1, 2, 2.0, 6, 0), (2, 1, 2.0, 6, 1)]
    assert ds.ids.mapped == names
    if names:
        assert ds.ids.to_original([2]) == ["eve"]
    ds.verify()
    with pytest.raises(ValueError, match="omit directed"):
        gz.import_dataset(tmp_path / "e.csv", tmp_path / "no", tag_reverse=True, directed=False)
