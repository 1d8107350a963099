"""Whole datasets in tables: ids joined, missing and doubled rows, codes, dates, and edge attributes that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

BOUGHT, FOLLOWS = ("user", "bought", "item"), ("user", "follows", "user")
USERS = {
    "user_id": ["ann", "bob", "eve"],
    "age": [30.0, 40.0, 50.0],
    "country": ["no", "fr", "no"],
    "churn": [0, 1, 0],
    "split": ["train", "train", "test"],
    "joined": np.array(["2020-01-01", "2020-01-02", "1970-01-01"], "datetime64[D]"),
}
ITEMS = {"id": [900, 17, 55, 3], "price": [1.0, 2.0, 3.0, 4.0], "emb": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]}
ORDERS = {
    "user": ["eve", "ann", "ann", "bob", "ann"],
    "item": [55, 900, 3, 17, 900],
    "amount": [1.0, 2.0, 3.0, 4.0, 5.0],
    "when": ["2024-05-31", "2024-05-30 12:00:00", "2024-01-01", "1970-01-02", "2024-05-30"],
    "channel": ["web", "shop", "web", "app", "web"],
    "qty": [1, 2, 3, 4, 5],
}
FRIENDS = {"a": ["ann", "bob"], "b": ["bob", "eve"]}


def write(folder: Path) -> Path:
    (folder / "in").mkdir(parents=True)
    for name, table in (("users", USERS), ("items", ITEMS), ("orders", ORDERS)):
        parquet.write_table(pa.table(table), folder / "in" / f"{name}.parquet")
    (folder / "in" / "friends.csv").write_text("a,b\nann,bob\nbob,eve\n")
    spec = {
        "name": "shop",
        "nodes": {
            "user": {"table": "users.parquet", "label": "churn", "time": "joined"},
            "item": {"table": "items.parquet", "features": {"x": ["price"], "emb": "emb"}},
        },
        "edges": [
            {
                "type": ["user", "bought", "item"],
                "table": "orders.parquet",
                "source": "user",
                "target": "item",
                "weight": "amount",
                "time": "when",
                "features": ["channel", "qty"],
            },
            {"type": "user follows user", "table": "friends.csv", "source": "a", "target": "b"},
        ],
    }
    (folder / "in" / "shop.json").write_text(json.dumps(spec))
    return folder / "in" / "shop.json"


def spec(**changes: Any) -> dict[str, Any]:
    """The same in Python, with tables as objects."""
    users, items, orders = (
        changes.get(key, default) for key, default in (("users", {}), ("items", {}), ("orders", {}))
    )
    return {
        "nodes": {
            "user": {"table": pa.table(USERS), "label": "churn", **users},
            "item": {"table": pa.table(ITEMS), **items},
        },
        "edges": [{"type": BOUGHT, "table": pa.table(ORDERS), "source": "user", "target": "item", **orders}],
    }


def orders_of(ds: gz.Dataset) -> list[tuple[Any, ...]]:
    """Each edge in the source's own ids with what it carries, in the order of edge ids."""
    data = ds.edges[BOUGHT]
    users, items = ds.ids["user"], ds.ids["item"]
    found = {}
    for item in range(data.graph.num_targets):
        near, ids = data.graph.get_neighbours(item), data.graph.get_edge_ids(item)
        weights = data.graph.get_weights(item) if data.graph.has_weights else [None] * len(near)
        times = data.graph.get_times(item) if data.graph.has_times else [None] * len(near)
        for user, e, w, t in zip(near, ids, weights, times, strict=True):
            key = (users.to_original([user])[0], int(items.to_original([item])[0]))
            found[int(e)] = (*key, w, t)
    return [found[e] for e in sorted(found)]


def seconds(text: str) -> int:
    return int(np.datetime64(text, "s").astype(np.int64))


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
    assert user.features["x"].get_tensor().tolist() == [[30.0], [40.0], [50.0]]
    assert user.features["country"].get_tensor().tolist() == [1, 0, 1]
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
    assert ds.info["about"]["categories"]["user"]["country"] == ["fr", "no"]
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


def test_ends_without_a_row_are_told_dropped_or_filled(tmp_path: Path) -> None:
    orders = {**ORDERS, "user": ["eve", "zed", "ann", "bob", "yan"]}
    given = {"table": pa.table(orders), "features": ["qty"], "weight": "amount"}
    with pytest.raises(
        gz.InputError,
        match=r"column 'user': row 1: 'zed' has no row in the node table of 'user' \(2 such rows among 5\)",
    ):
        gz.import_dataset(spec(orders=given), tmp_path / "no")
    assert not (tmp_path / "no").exists()
    report = gz.import_dataset(spec(orders=given, users={"missing": "drop"}), tmp_path / "drop")
    ds = report.dataset
    assert [order[:3] for order in orders_of(ds)] == [("eve", 55, 1.0), ("ann", 3, 3.0), ("bob", 17, 4.0)]
    assert ds.edges[BOUGHT].features["qty"].get_tensor().tolist() == [1, 3, 4]
    assert "edges user bought item: 2 left out, whose ends have no row" in str(report)
    assert ds.nodes["user"].num_nodes == 3
    report = gz.import_dataset(spec(orders=given, users={"missing": "fill"}), tmp_path / "fill")
    ds = report.dataset
    assert [order[0] for order in orders_of(ds)] == orders["user"]
    user = ds.nodes["user"]
    assert user.features["x"].get_tensor().tolist() == [[30.0], [40.0], [50.0], [0.0], [0.0]]
    assert user.labels.tolist() == [0, 1, 0, -1, -1]
    assert "nodes user: 2 of edges without a row, filled" in str(report)


@pytest.mark.parametrize(("which", "ages"), [("first", [30.0, 40.0, 50.0]), ("last", [40.0, 50.0, 60.0])])
def test_doubled_rows_are_told_or_one_is_taken(tmp_path: Path, which: str, ages: list[float]) -> None:
    doubled = {
        "user_id": ["ann", "bob", "eve", "ann"],
        "age": [30.0, 40.0, 50.0, 60.0],
        "churn": [0, 1, 0, 1],
        "split": ["train", "train", "test", "test"],
    }
    table = {"table": pa.table(doubled)}
    with pytest.raises(gz.InputError, match="row 3: id 'ann' is there twice, expected each id once"):
        gz.import_dataset(spec(users=table), tmp_path / "no")
    report = gz.import_dataset(spec(users={**table, "duplicates": which}, orders={"features": ["qty"]}), tmp_path / "o")
    ds = report.dataset
    assert ds.nodes["user"].features["x"].get_tensor().ravel().tolist() == ages
    ann = int(ds.ids["user"].to_dense(["ann"])[0])
    assert ds.nodes["user"].labels[ann] == (0 if which == "first" else 1)
    assert (ann in ds.nodes["user"].splits["train"]) == (which == "first")
    assert [order[:2] for order in orders_of(ds)] == list(zip(ORDERS["user"], ORDERS["item"], strict=True))
    assert "nodes user: 1 rows left out" in str(report)


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
    from graphzero.importing import id_space

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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": {"tabel": 1}}, "nodes.user: unknown field 'tabel', expected some of table, id"),
        ({"users": {"missing": "skip"}}, "nodes.user.missing: found 'skip', expected one of error, drop, fill"),
        ({"orders": {"type": "bought"}}, r"edges\[0\].type: found 'bought', expected three names"),
        ({"orders": {"dedup": "mean"}}, r"edges\[0\].dedup: found 'mean'"),
        ({"orders": {"source": "usr"}}, "no column 'usr', expected one of 'user', 'item'"),
        ({"orders": {"symmetrise": True}}, "expected one within a node type"),
        ({"orders": {"table": None}}, r"edges\[0\].table: found nothing"),
        ({"orders": {"time": "channel"}}, "column 'channel': row 0: found 'web', expected a date such as"),
        ({"users": {"split": "churn"}}, "column 'churn' holds numbers, expected names such as 'train'"),
        ({"orders": {"source": "qty"}}, "column 'qty': found integers, and the ids of 'user' are strings elsewhere"),
        ({"orders": {"target": "channel"}}, "column 'channel': found strings, and the ids of 'item' are integers"),
        (
            {"items": {"table": {"id": np.arange(4)}}, "orders": {"target": "channel"}},
            "found strings, and the ids of 'item'",
        ),
        ({"orders": {"dedup": "sum", "weight": False}}, "dedup='sum' is for edges with weights"),
    ],
)
def test_faults_name_their_field(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises((gz.InputError, ValueError), match=message):
        gz.import_dataset(spec(**change), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_yaml_file_that_describes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(gz.InputError, match="found no 'edges', expected a description of tables"):
        gz.import_dataset(tmp_path / "x.json", tmp_path / "out")


# -- merging weights, without tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "merged"), [("sum", 6.0), ("max", 4.0), ("first", 2.0)])
def test_equal_edges_merge_their_weights(tmp_path: Path, how: str, merged: float) -> None:
    edges = (np.array([0, 1, 0, 0]), np.array([1, 2, 1, 2]), np.array([2.0, 1.0, 4.0, 7.0]))
    report = gz.compile_graph(edges, tmp_path / "g.gl", dedup=how, edge_ids=True)
    graph = gz.Graph(tmp_path / "g.gl")
    assert graph.get_neighbours(0).tolist() == [1, 2]
    assert graph.get_weights(0).tolist() == [merged, 7.0]
    assert graph.get_edge_ids(0).tolist() == [0, 3]
    assert (report.duplicates_dropped, report.source_edges, report.edges) == (1, 4, 3)
    assert graph.info["deduplicated"]
    assert [path.name for path in tmp_path.iterdir()] == ["g.gl"]
    both = gz.compile_graph(
        (np.array([0, 1]), np.array([1, 0]), np.array([1.0, 3.0])), tmp_path / "u.gl", dedup=how, directed=False
    )
    assert both.edges == 2
    wanted = {"sum": 4.0, "max": 3.0, "first": 1.0}[how]
    assert gz.Graph(tmp_path / "u.gl").get_weights(0).tolist() == [wanted]
    assert gz.Graph(tmp_path / "u.gl").get_weights(1).tolist() == [wanted]


def test_losses_of_smaller_types_are_reported(tmp_path: Path) -> None:
    rows = np.array([[1.0, 1000.0], [0.1, -3.0]], np.float32)
    for dtype, largest in (
        ("float16", abs(float(np.float16(0.1)) - np.float32(0.1))),
        ("int8", 3.0),
        ("bfloat16", 0.0),
    ):
        report = gz.compile_features(rows, tmp_path / f"{dtype}.gd", dtype=dtype, report_error=True)
        seen = gz.FeatureStore(tmp_path / f"{dtype}.gd").gather([0, 1], dtype="float32").astype(np.float64)
        error = np.abs(seen - rows)
        assert report.losses["x"].largest == pytest.approx(error.max(), rel=1e-6)
        assert report.losses["x"].relative == pytest.approx(np.sqrt((error**2).sum() / (rows.astype(float) ** 2).sum()))
        assert f"stored as {dtype}: largest error" in str(report)
        assert largest <= error.max() + 1e-9
    assert gz.compile_features(rows, tmp_path / "y.gd", report_error=True).losses == {}


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
    from graphzero.importing import typed_run

    path = write(tmp_path)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(typed_run, "compile_features", stop)
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


def test_a_column_that_changes_its_kind_is_told_with_its_file(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i + 1}\n" for i in range(200_000))
    (tmp_path / "e.csv").write_text(f"src,dst\n{rows}abc,1\n")
    with pytest.raises(gz.InputError, match=r"e\.csv: cannot be read: .*abc"):
        gz.import_dataset({"edges": [{"table": str(tmp_path / "e.csv")}]}, tmp_path / "out")
    given = {"nodes": {"node": {"ids": "text"}}, "edges": [{"table": str(tmp_path / "e.csv")}]}
    ds = gz.import_dataset(given, tmp_path / "out").dataset
    one, abc = ds.ids["node"].to_dense(["1", "abc"])
    assert abc in ds.graph.get_neighbours(one)


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
    long = [f"{'x' * 200}{i:05d}" for i in range(4000)]
    table = {"src": np.arange(4000), "dst": np.arange(4000), "a": long, "b": ["u", "v"] * 2000}
    ds = gz.import_dataset({"edges": [{"table": table, "features": ["a", "b"]}]}, tmp_path / "out").dataset
    names = ds.info["about"]["categories"]["node__to__node"]
    assert names == {"a": "4000 names, too many for the manifest", "b": ["u", "v"]}
    assert ds.edge_features["a"].get_tensor()[:3].tolist() == [0, 1, 2]
