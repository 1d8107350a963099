"""Whole datasets in tables: ids joined, codes, dates, and edge attributes that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shop_tables import BOUGHT, FOLLOWS, ITEMS, ORDERS, orders_of, seconds, spec, write

import graphzero as gz

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_description_beside_its_files(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path)
    if suffix == "yaml":
        yaml = pytest.importorskip("yaml")
        path.with_suffix(".yaml").write_text(yaml.safe_dump(json.loads(path.read_text())))
    report = gz.import_dataset(path.with_suffix(f".{suffix}"), tmp_path / "out")
    ds = report.dataset
    assert (ds.name, report.kind) == ("shop", "tables")
    assert ds.metadata() == (["user", "item"], [BOUGHT, FOLLOWS])
    assert ds.ids["user"].to_dense(["eve", "ann"]).tolist() == [2, 0]
    assert ds.ids["item"].to_dense([3, 900]).tolist() == [3, 0]
    user, item = ds.nodes["user"], ds.nodes["item"]
    assert user.features["columns_number"].get_tensor().tolist() == [[30.0], [40.0], [50.0]]
    assert user.features["columns_category"].get_tensor().tolist() == [[1], [0], [1]]
    assert user.columns["country"].names == ["fr", "no"]
    assert user.columns["age"].stats["mean"] == 35.0  # of the training rows
    assert user.features["time"].get_tensor().tolist() == [seconds("2020-01-01"), seconds("2020-01-02"), 0]
    assert user.labels.tolist() == [0, 1, 0]
    assert {name: ids.tolist() for name, ids in user.splits.items()} == {"train": [0, 1], "test": [2]}
    assert item.features["x"].get_tensor().tolist() == [[1.0], [2.0], [3.0], [4.0]]
    assert item.features["emb"].get_tensor().tolist() == ITEMS["emb"]
    times = [seconds(t.replace(" ", "T")) for t in ORDERS["when"]]
    assert orders_of(ds) == list(zip(ORDERS["user"], ORDERS["item"], ORDERS["amount"], times, strict=True))
    assert ds.edges[BOUGHT].features["qty"].get_tensor().tolist() == [1, 2, 3, 4, 5]
    names = ds.info["about"]["categories"]["user__bought__item"]["channel"]
    assert [names[i] for i in ds.edges[BOUGHT].features["channel"].get_tensor()] == ORDERS["channel"]
    assert ds.graphs[FOLLOWS].get_neighbours(2).tolist() == [1]
    ds.verify()


def test_edge_attributes_follow_their_edges_through_dedup(tmp_path: Path) -> None:
    for how, weight in (("sum", 7.0), ("max", 5.0), ("first", 2.0), (True, 2.0)):
        given = spec(orders={"weight": "amount", "features": ["qty"], "dedup": how})
        report = gz.import_dataset(given, tmp_path / str(how))
        ds = report.dataset
        found = {order[:2]: order[2] for order in orders_of(ds)}
        assert found == {("eve", 55): 1.0, ("ann", 900): weight, ("ann", 3): 3.0, ("bob", 17): 4.0}
        item = int(ds.ids["item"].to_dense([900])[0])
        edge = int(ds.graphs[BOUGHT].get_edge_ids(item)[0])
        assert ds.edges[BOUGHT].features["qty"].get_tensor()[edge] == 2  # that of the first
        assert report.graph.duplicates_dropped == 1


def test_a_column_names_the_relation(tmp_path: Path) -> None:
    table = pa.table({"source": ["a", "b", "c"], "target": ["b", "c", "a"], "kind": ["likes", "is near", "likes"]})
    edges = [{"table": table, "type": ("place", "any", "place"), "relation": "kind", "features": {"row": "n"}}]
    edges[0]["table"] = table.append_column("n", pa.array([10, 20, 30]))
    ds = gz.import_dataset({"edges": edges}, tmp_path / "out").dataset
    assert ds.edge_types == [("place", "is_near", "place"), ("place", "likes", "place")]
    ids, likes = ds.ids["place"], ds.edges["place__likes__place"]
    b, a = ids.to_dense(["b", "a"])
    assert ids.to_original(likes.graph.get_neighbours(b)) == ["a"]
    assert ids.to_original(likes.graph.get_neighbours(a)) == ["c"]
    assert likes.features["row"].get_tensor().tolist() == [10, 30]
    assert ds.edges["place__is_near__place"].features["row"].get_tensor().tolist() == [20]


def test_plain_integers_stay_and_may_start_at_one(tmp_path: Path) -> None:
    table = {"src": np.array([1, 2, 3]), "dst": np.array([2, 3, 1])}
    ds = gz.import_dataset({"edges": [{"table": table, "base": 1}]}, tmp_path / "out").dataset
    assert (ds.num_nodes, ds.edge_types, ds.is_typed) == (3, [("node", "to", "node")], False)
    assert ds.graph.get_neighbours(0).tolist() == [2]
    assert not ds.ids.mapped
    with pytest.raises(gz.InputError, match="row 0: found id 1, expected at least 2"):
        gz.import_dataset({"edges": [{"table": table, "base": 2}]}, tmp_path / "no")
    sparse = {"src": np.array([10, 20]), "dst": np.array([20, 10**12])}
    given = {"nodes": {"node": {"ids": "map"}}, "edges": [{"table": sparse}]}
    mapped = gz.import_dataset(given, tmp_path / "sparse").dataset
    assert mapped.num_nodes == 3
    assert mapped.ids["node"].to_original([2]).tolist() == [10**12]


def test_symmetrised_edges_are_told_from_their_reverses(tmp_path: Path) -> None:
    table = {"src": np.array([0, 1]), "dst": np.array([1, 2]), "weight": [0.5, 2.0], "kind": ["x", "y"]}
    given = {"edges": [{"table": pa.table(table), "symmetrise": True, "features": ["kind"]}]}
    ds = gz.import_dataset(given, tmp_path / "out").dataset
    reverse, kind = ds.edge_features["reverse"].get_tensor(), ds.edge_features["kind"].get_tensor()
    found = sorted(
        (int(u), v, int(reverse[e]), int(kind[e]), float(w))
        for v in range(3)
        for u, e, w in zip(ds.graph.get_neighbours(v), ds.graph.get_edge_ids(v), ds.graph.get_weights(v), strict=True)
    )
    assert found == [(0, 1, 0, 0, 0.5), (1, 0, 1, 0, 0.5), (1, 2, 0, 1, 2.0), (2, 1, 1, 1, 2.0)]


def test_more_ids_than_the_memory_holds_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphzero.compile import id_space

    late, finish = [], id_space.IdSpace.finish

    def watched(space: Any) -> None:
        late.append(int(space._builder.late))
        finish(space)

    monkeypatch.setattr(id_space.IdSpace, "finish", watched)
    rng = np.random.default_rng(0)
    names = np.array([f"node-number-{i:08d}" for i in range(60_000)])
    a, b = rng.integers(0, 60_000, (2, 120_000))
    c, d = rng.integers(0, 60_000, (2, 50_000))
    given = {
        "edges": {
            ("x", "to", "y"): pa.table({"src": names[a], "dst": names[b]}),
            ("y", "back", "x"): pa.table({"src": names[c], "dst": names[d]}),
        }
    }
    tight = gz.import_dataset(given, tmp_path / "tight", memory="9MB", num_threads=2).dataset
    wide = gz.import_dataset(given, tmp_path / "wide", memory="1GB").dataset
    assert min(late[:2]) > 1000, "ids that were known at the end only"
    assert late[2:] == [0, 0]
    pick = rng.integers(0, 120_000, 200)
    for ds in (tight, wide):
        xs, ys = ds.ids["x"].to_dense(names[a[pick]].tolist()), ds.ids["y"].to_dense(names[b[pick]].tolist())
        assert all(x in ds.graphs["x__to__y"].get_neighbours(y) for x, y in zip(xs, ys, strict=True))
        xs, ys = ds.ids["x"].to_dense(names[d[:200]].tolist()), ds.ids["y"].to_dense(names[c[:200]].tolist())
        assert all(y in ds.graphs["y__back__x"].get_neighbours(x) for x, y in zip(xs, ys, strict=True))
    assert wide.graphs["x__to__y"].shape == tight.graphs["x__to__y"].shape


def test_the_commands(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    words = ["import", str(write(tmp_path)), str(tmp_path / "out"), "--reverse", "--edge-types", "user__bought__item"]
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    ds = gz.Dataset(tmp_path / "out")
    assert ds.edge_types == [BOUGHT, ("item", "rev_bought", "user")]
    shown = CliRunner().invoke(app, ["export", str(tmp_path / "out"), str(tmp_path / "files")])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "files" / "edges" / "item__rev_bought__user.parquet").exists()


def test_an_import_of_tables_goes_on_from_its_finished_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphzero.importing import work

    path = write(tmp_path)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(work, "compile_features", stop)
        with pytest.raises(KeyboardInterrupt):
            gz.import_dataset(path, tmp_path / "out")
    report = gz.import_dataset(path, tmp_path / "out")
    assert report.resumed == ["user__bought__item.gl", "user__follows__user.gl"]
    times = [seconds(t.replace(" ", "T")) for t in ORDERS["when"]]
    assert orders_of(report.dataset) == list(zip(ORDERS["user"], ORDERS["item"], ORDERS["amount"], times, strict=True))
    report.dataset.verify()


def test_ids_that_look_like_numbers_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,age\n007,1\n12,2\n")
    (tmp_path / "e.csv").write_text("src,dst\n12,007\n")
    given = {
        "nodes": {"node": {"table": str(tmp_path / "n.csv"), "ids": "text"}},
        "edges": [{"table": str(tmp_path / "e.csv")}],
    }
    ds = gz.import_dataset(given, tmp_path / "out").dataset
    assert ds.ids["node"].to_original([0, 1]) == ["007", "12"]
    assert ds.graph.get_neighbours(0).tolist() == [1]


def test_one_node_type_with_several_edge_types_is_reordered(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    edges = {("p", name, "p"): rng.integers(0, 50, (2, 300)) for name in ("a", "b")}
    ds = gz.Dataset.create(tmp_path / "ds", graphs=edges, features={"p": np.arange(50.0)})
    new = gz.reorder(ds, tmp_path / "new", by="degree")
    old = new.ids.to_original(np.arange(50))
    assert new.features["x"].get_tensor().tolist() == [float(i) for i in old]
    for edge_type, pairs in edges.items():
        graph = new.graphs[edge_type]
        found = [(int(old[u]), int(old[v])) for v in range(50) for u in graph.get_neighbours(v)]
        assert sorted(found) == sorted(map(tuple, pairs.T.tolist()))
    new.verify()


def test_names_that_do_not_fit_the_manifest_are_left_out_of_it(tmp_path: Path) -> None:
    long = [f"{'x' * 2000}{i:05d}" for i in range(4000)]
    table = {"src": np.arange(4000), "dst": np.arange(4000), "a": long, "b": ["u", "v"] * 2000}
    ds = gz.import_dataset({"edges": [{"table": table, "features": ["a", "b"]}]}, tmp_path / "out").dataset
    names = ds.info["about"]["categories"]["node__to__node"]
    assert names == {"a": "4000 names, too many for the manifest", "b": ["u", "v"]}
    assert ds.edge_features["a"].get_tensor()[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("named", [False, True])
def test_a_single_type_is_typed_where_it_has_a_name(tmp_path: Path, named: bool) -> None:
    edge = {"table": {"src": np.array([0, 1, 2]), "dst": np.array([1, 2, 0])}}
    edge |= {"type": ("page", "links", "page")} if named else {}
    ds = gz.import_dataset({"edges": [edge]}, tmp_path / "out").dataset
    assert ds.is_typed == named
    if named:
        batch = next(iter(gz.NeighborLoader(ds, fanouts=[2], seeds=("page", [1]))))
        assert batch["page"].n_id.tolist() == [1, 0]
