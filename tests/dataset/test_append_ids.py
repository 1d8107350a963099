"""Appends by original ids: strings and sparse integers get the next ids, and the map grows with them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

PAIRS = [("ann", "bob"), ("bob", "carl"), ("carl", "ann")]


def imported(folder: Path, pairs: Any, **options: Any) -> gz.Dataset:
    table = folder / "edges.csv"
    table.write_text("src,dst\n" + "".join(f"{u},{v}\n" for u, v in pairs))
    return gz.import_dataset(table, folder / "d", ids="map", progress=False, **options).dataset


def edges_by_name(ds: gz.Dataset) -> set[tuple[Any, Any]]:
    sub = ds.graph.subgraph(np.arange(ds.num_nodes))
    names = list(ds.ids.to_original(np.arange(ds.num_nodes)))
    return {(names[sub.node[u]], names[sub.node[v]]) for u, v in zip(sub.row, sub.col, strict=True)}


def test_new_strings_get_the_next_ids(tmp_path: Path) -> None:
    ds = imported(tmp_path, PAIRS)
    once = ds.append(edges=[("dora", "ann"), ("emil", "dora"), ("ann", "emil")]).dataset
    twice = once.append(edges=(["fay"], ["dora"]), nodes=["gus"]).dataset
    assert ds.ids.to_dense(["ann", "dora"], missing="mark").tolist() == [0, -1]
    assert twice.ids.to_dense(["carl", "dora", "emil", "gus", "fay"]).tolist() == [2, 3, 4, 5, 6]
    assert twice.ids.to_original([6, 0, 4, 5]) == ["fay", "ann", "emil", "gus"]
    assert edges_by_name(twice) == {*PAIRS, ("dora", "ann"), ("emil", "dora"), ("ann", "emil"), ("fay", "dora")}
    twice.verify()
    assert pickle.loads(pickle.dumps(twice.ids.keys)).to_dense(["fay"]).tolist() == [6]
    compacted = twice.compact().dataset
    assert compacted.ids.to_dense(["fay", "ann"]).tolist() == [6, 0]
    assert edges_by_name(compacted) == edges_by_name(twice)
    with pytest.raises(KeyError, match="'zoe'"):
        compacted.ids.to_dense(["zoe"])


def test_sparse_integers(tmp_path: Path) -> None:
    ds = imported(tmp_path, [(900, 20), (20, 7)])
    now = ds.append(edges=np.array([[5_000_000_000, 7], [20, 5_000_000_000]])).dataset
    assert now.ids.to_original([3]).tolist() == [5_000_000_000]
    assert now.ids.to_dense([7, 5_000_000_000]).tolist() == [2, 3]
    now = now.append(remove_edges=[(20, 7)]).dataset
    assert edges_by_name(now) == {(900, 20), (5_000_000_000, 20), (7, 5_000_000_000)}


def test_edges_in_files_and_tables(tmp_path: Path) -> None:
    ds = imported(tmp_path, PAIRS)
    (tmp_path / "new.csv").write_text("src,dst\nann,zoe\nzoe,bob\n")
    now = ds.append(edges=tmp_path / "new.csv").dataset
    pandas = pytest.importorskip("pandas")
    now = now.append(edges=pandas.DataFrame({"src": ["yan"], "dst": ["ann"]})).dataset
    assert edges_by_name(now) == {*PAIRS, ("ann", "zoe"), ("zoe", "bob"), ("yan", "ann")}
    assert now.ids.to_dense(["zoe", "yan"]).tolist() == [3, 4]


def test_a_table_of_nodes_has_ids_columns_labels_and_splits(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "nodes.csv").write_text(
        "id,age,country,label,split\nann,41,FR,yes,train\nbob,,DE,no,train\ncarl,23,FR,yes,valid\n"
    )
    ds = imported(tmp_path, PAIRS, nodes=tmp_path / "nodes.csv")
    more = {"id": ["dora", "emil"], "age": [30.0, np.nan], "country": ["DE", "IT"], "label": ["no", "yes"]}
    report = ds.append(nodes={**more, "split": ["valid", "train"]}, edges=[("dora", "ann")])
    now = report.dataset
    assert now.ids.to_dense(["dora", "emil"]).tolist() == [3, 4]
    assert now.labels.tolist()[3:] == [ds.labels[1], ds.labels[0]]
    assert now.splits["train"].tolist() == [0, 1, 4]
    assert now.splits["valid"].tolist() == [2, 3]
    columns = now.nodes["node"].columns
    ages = now.features["columns_number"].get_tensor()[:, columns["age"].column]
    np.testing.assert_array_equal(ages, np.array([41, np.nan, 23, 30, np.nan], np.float32))
    codes = now.features["columns_category"].get_tensor()[:, columns["country"].column]
    known = [*columns["country"].names, None]
    assert [known[code] for code in codes] == ["FR", "DE", "FR", "DE", None]
    assert report.notes == ["column 'country': 1 values that the dataset has no category for, stored as missing"]
    with pytest.raises(gz.InputError, match="'maybe' is not a class of the dataset, which has 'no', 'yes'"):
        now.append(nodes={**more, "id": ["u", "v"], "label": ["no", "maybe"]})


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"edges": [("dora", "ann")]}, ValueError, "'dora' is a new node, so 'x' needs a row for each"),
        ({"nodes": ["ann"], "features": np.ones((1, 2))}, ValueError, r"nodes\[0\] is 'ann', which is node 0 already"),
        ({"nodes": ["u", "u"], "features": np.ones((2, 2))}, ValueError, "duplicate id 'u' in nodes"),
        ({"nodes": 1, "features": np.ones((1, 2))}, TypeError, "expected a list of original ids"),
        ({"features": np.ones((1, 2))}, ValueError, "but no nodes=, the original ids of the new nodes"),
        ({"edges": np.array([[0], [1]])}, TypeError, r"edges\[0\] is 0, expected strings"),
        ({"remove_edges": [("ann", "zoe")]}, KeyError, "'zoe' is not a node of this dataset"),
        ({"remove_nodes": ["zoe"]}, KeyError, "'zoe' is not a node of this dataset"),
    ],
)
def test_names_that_do_not_fit_are_refused(tmp_path: Path, given: Any, error: type[Exception], message: str) -> None:
    np.save(tmp_path / "x.npy", np.eye(3, 2, dtype=np.float32))
    ds = imported(tmp_path, PAIRS, features=tmp_path / "x.npy", node_ids=["ann", "bob", "carl"])
    with pytest.raises(error, match=message):
        ds.append(**given)
    assert not gz.Dataset(ds.path).info["deltas"]


def test_a_reordered_dataset_grows(tmp_path: Path) -> None:
    ds = gz.reorder(imported(tmp_path, PAIRS), tmp_path / "hot", by="degree")
    now = ds.append(edges=[("dora", "ann"), ("ann", "dora")]).dataset
    assert edges_by_name(now) == {*PAIRS, ("dora", "ann"), ("ann", "dora")}
    assert now.ids.to_dense(["dora"]).tolist() == [3]
    now.verify()
    again = gz.reorder(now, tmp_path / "again", by="bfs")
    assert not again.info["deltas"]
    assert edges_by_name(again) == edges_by_name(now)


def test_a_table_of_edges_has_their_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    spec = {
        "nodes": {"user": {"table": pandas.DataFrame({"id": ["ann", "bob"]}), "id": "id"}},
        "edges": {
            ("user", "pays", "user"): {
                "table": pandas.DataFrame({"a": ["ann"], "b": ["bob"], "amount": [3.5], "way": ["card"]}),
                "source": "a",
                "target": "b",
            }
        },
    }
    ds = gz.import_dataset(spec, tmp_path / "d", progress=False).dataset
    kind: Any = ("user", "pays", "user")
    more = pandas.DataFrame({"a": ["bob", "bob"], "b": ["ann", "ann"], "amount": [1.0, 2.0], "way": ["card", "cash"]})
    now = ds.append(edges={kind: more}, columns={kind: ("a", "b")})
    edge = now.dataset.edges[kind]
    assert edge.features["columns_number"].get_tensor().tolist() == [[3.5], [1.0], [2.0]]
    assert edge.features["columns_category"].get_tensor().tolist() == [[0], [0], [-1]]
    assert len(now.notes) == 1
