"""Columns of tables: packed, described in the manifest, and encoded as inputs of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.dataset.columns import MISSING_TIME, Column, pack_columns

DAYS = np.array(["2020-02-29", "NaT", "1969-12-31", "2024-01-01"], dtype="datetime64[s]")
TABLE = {
    "age": [41.0, None, 23.0, 30.0],
    "country": ["FR", "DE", None, "FR"],
    "paid": np.array([True, False, True, True]),
    "since": DAYS,
    "text": np.eye(4, 3),
}


def make(folder: Path, **changes: Any) -> gz.Dataset:
    arrays, columns = pack_columns(TABLE)
    given: dict[str, Any] = {"features": arrays, "table_columns": columns, **changes}
    return gz.Dataset.create(folder, np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), **given)


def test_columns_are_packed_by_kind() -> None:
    arrays, columns = pack_columns(TABLE, train=[0, 2])
    assert [(c.name, c.kind, c.array, c.column) for c in columns] == [
        ("age", "number", "columns_number", 0),
        ("country", "category", "columns_category", 0),
        ("paid", "bool", "columns_number", 1),
        ("since", "time", "columns_time", 0),
        ("text", "embedding", "text", 0),
    ]
    assert (columns[0].stats["mean"], columns[0].stats["missing"], columns[0].stats["of"]) == (32.0, 1, "train")
    assert arrays["columns_category"][:, 0].tolist() == [0, 1, -1, 0]
    assert columns[1].stats["counts"] == [2, 1]
    assert arrays["columns_time"][1, 0] == MISSING_TIME


def test_rare_categories_become_one() -> None:
    arrays, (column,) = pack_columns({"c": list("aaabbcd")}, most_categories=2)
    assert column.names == ["a", "(other)"]
    assert column.stats["counts"] == [3, 4]
    assert arrays["columns_category"][:, 0].tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_a_dataset_keeps_columns(tmp_path: Path) -> None:
    ds = make(tmp_path / "data")
    again = gz.Dataset(ds.path)
    assert list(again.nodes["node"].columns) == list(TABLE)
    assert again.nodes["node"].columns["country"].names == ["FR", "DE"]
    assert again.nodes["node"].columns == ds.nodes["node"].columns
    assert again.verify()["files"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "text"}, r"nodes.node.columns\[0\].kind: found 'text', expected one of number, category"),
        ({"array": "y"}, r"columns\[0\].array: found 'y', expected a feature of the type: columns_number, "),
        ({"column": -1}, r"columns\[0\].column: found -1, expected a whole number of at least 0"),
        ({"column": 9}, r"columns\[0\].column: found 9, 'columns_number' has 2 columns"),
        ({"name": "country"}, r"columns\[1\].name: found 'country', expected a unique column name"),
        (
            {"stats": {"mean": 1}},
            r"columns\[0\].stats.std: found nothing, expected a value, which is required for kind number",
        ),
        ({"stats": {"mean": 1, "std": -1}}, r"columns\[0\].stats.std: found -1, expected a number of at least 0"),
        ({"stats": {"mean": "1", "std": 1}}, r"columns\[0\].stats.mean: found '1', expected a number"),
        ({"more": 1}, r"columns\[0\].more: found an unknown field"),
        ({"array": "columns_time"}, r"columns\[0\].array: 'columns_time' is int64, expected float32 for kind number"),
    ],
)
def test_a_damaged_column_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = Path(make(tmp_path / "data").path, "dataset.json")
    manifest = json.loads(path.read_text())
    manifest["nodes"]["node"]["columns"][0] |= change
    path.write_text(json.dumps(manifest))
    with pytest.raises(gz.FormatError, match=message):
        gz.Dataset(path.parent).verify()


def test_edge_types_have_columns(tmp_path: Path) -> None:
    edges = {("user", "buys", "item"): np.array([[0, 1, 1], [0, 0, 1]])}
    arrays, columns = pack_columns({"price": [1.0, 2.0, 3.0]})
    described = {("user", "buys", "item"): columns}
    ds = gz.Dataset.create(
        tmp_path / "d", graphs=edges, edge_features={("user", "buys", "item"): arrays}, table_columns=described
    )
    assert ds.edges["user", "buys", "item"].columns["price"].stats["max"] == 3.0
    with pytest.raises(ValueError, match="table_columns: no type 'shop'; the dataset has 'user'"):
        gz.Dataset.create(tmp_path / "e", graphs=edges, table_columns={"shop": columns})


# -- the encoder ------------------------------------------------------------------------------------------------------


def encoder(**options: Any) -> Any:
    torch = pytest.importorskip("torch")
    from graphzero.train import TableEncoder

    torch.manual_seed(0)
    _, columns = pack_columns(TABLE)
    return TableEncoder(columns, 8, widths={"text": 3}, **options).eval()


def values() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    return {name: torch.from_numpy(array) for name, array in pack_columns(TABLE)[0].items()}


@pytest.mark.parametrize("combine", ["sum", "attention"])
def test_every_column_changes_the_row_and_nothing_is_nan(combine: str) -> None:
    torch = pytest.importorskip("torch")
    made = encoder(combine=combine)
    rows = made(values())
    assert rows.shape == (4, 8)
    assert torch.isfinite(rows).all()
    for column in made.columns:
        other = values()
        other[column.array][0, column.column] += 1
        assert not torch.equal(made(other)[0], rows[0]), column.name
        assert torch.equal(made(other)[1:], rows[1:])


def test_codes_that_have_no_name_count_as_missing() -> None:
    torch = pytest.importorskip("torch")
    made, other = encoder(), values()
    other["columns_category"][2] = 77
    torch.testing.assert_close(made(other), made(values()))


def test_no_rows_are_rows_too_and_codes_may_be_several() -> None:
    torch = pytest.importorskip("torch")
    from graphzero.train import TableEncoder

    empty = {name: array[:0] for name, array in values().items()}
    assert encoder()(empty).shape == (0, 8)
    tags = TableEncoder([Column("tags", "multicategory", "tags", 0, {"names": ["a", "b"]})], 4)
    rows = tags({"tags": torch.tensor([[0, 1], [1, 0], [0, -1]])})
    torch.testing.assert_close(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


def test_a_time_after_the_seed_is_not_seen() -> None:
    torch = pytest.importorskip("torch")
    made, seed = encoder(), torch.full((4,), 1_000)
    before, after, missing = values(), values(), values()
    after["columns_time"][3] += 5_000_000
    missing["columns_time"][[0, 3]] = MISSING_TIME
    torch.testing.assert_close(made(before, seed), made(after, seed))
    torch.testing.assert_close(made(before, seed), made(missing, seed))
    assert not torch.equal(made(before, seed)[2], made(before, seed + 10**8)[2])  # how long ago it was


def test_calendar_parts_are_those_of_numpy() -> None:
    torch = pytest.importorskip("torch")
    from graphzero.train.columns import _civil, calendar_parts

    days = np.arange(-200_000, 200_000, 97)
    year, month = _civil(torch.from_numpy(days))
    dates = days.astype("datetime64[D]")
    assert (year.numpy() == dates.astype("datetime64[Y]").astype(int) + 1970).all()
    assert (month.numpy() == dates.astype("datetime64[M]").astype(int) % 12 + 1).all()
    thursday = calendar_parts(torch.tensor([6 * 3600]), {}, None)[0]  # 1970-01-01, six o'clock
    assert thursday[5:9].tolist() == pytest.approx([np.sin(8 * np.pi / 7), np.cos(8 * np.pi / 7), 1.0, 0.0], abs=1e-6)


def test_numbers_are_normalised_and_missing_ones_have_a_vector() -> None:
    torch = pytest.importorskip("torch")
    from graphzero.train import TableEncoder

    made = TableEncoder([Column("a", "number", "n", 0, {"mean": 5.0, "std": 0.0})], 4)
    row = made({"n": torch.tensor([[5.0], [float("nan")], [1e30]])})
    assert torch.isfinite(row).all()
    assert not torch.equal(row[0], row[1])
    with pytest.raises(ValueError, match="combine is 'mean', expected one of 'sum', 'attention'"):
        TableEncoder([Column("a", "number", "n")], 4, combine="mean")


def test_a_batch_becomes_a_tensor_frame() -> None:
    torch_frame = pytest.importorskip("torch_frame")
    import torch

    from graphzero.train.columns import to_tensor_frame

    frame = to_tensor_frame(pack_columns(TABLE)[1], values())
    assert frame.num_rows == 4
    assert frame.col_names_dict[torch_frame.numerical] == ["age", "paid"]
    table = pytest.importorskip("pandas").DataFrame({"country": TABLE["country"], "since": TABLE["since"]})
    kinds = {"country": torch_frame.categorical, "since": torch_frame.timestamp}
    theirs = torch_frame.data.Dataset(table, kinds).materialize().tensor_frame
    for kind in kinds.values():  # codes by frequency, fields of dates, -1 where missing
        assert torch.equal(frame.feat_dict[kind].long(), theirs.feat_dict[kind].long())
    assert frame[torch.tensor([2, 0])].feat_dict[torch_frame.embedding].shape[:2] == (2, 1)


# -- training ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Users whose class is a category, seen through a column of their own, and items without anything."""
    rng = np.random.default_rng(0)
    country = rng.integers(0, 3, 300)
    arrays, columns = pack_columns({"country": np.array(["FR", "DE", "IT"])[country], "age": rng.normal(40, 9, 300)})
    edges = {("item", "bought_by", "user"): np.stack([rng.integers(0, 40, 900), rng.integers(0, 300, 900)])}
    return gz.Dataset.create(
        tmp_path_factory.mktemp("shop") / "data",
        graphs=edges,
        num_nodes={"item": 40, "user": 300},
        features={"user": arrays},
        table_columns={"user": columns},
        labels={"user": country},
        splits={"user": {"train": np.arange(200), "valid": np.arange(200, 250), "test": np.arange(250, 300)}},
        reverse=True,
    )


def options(**changes: Any) -> Any:
    pytest.importorskip("torch")
    from graphzero.train import TrainOptions

    given = {"hidden": 16, "fanouts": [4], "batch_size": 50, "epochs": 6, "lr": 0.02, "memory": "64MB", "device": "cpu"}
    return TrainOptions(**{**given, "dropout": 0.0, **changes})


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("how", ["sum", "attention"])
def test_a_type_with_columns_is_trained_on_them(shop: gz.Dataset, tmp_path: Path, how: str) -> None:
    from graphzero.train import HeteroSAGE, Trainer, load_model, typed_inference

    result = Trainer(shop, options(table_encoder=how), checkpoint=tmp_path / "run.npz").fit()
    assert result.test_accuracy is not None
    assert result.test_accuracy > 0.95
    assert isinstance(result.model, HeteroSAGE)
    assert result.data["inputs"] == {"item": "embeddings of 40 ids", "user": "2 columns"}
    model = load_model(tmp_path / "run.npz")
    typed_inference(model, shop, tmp_path / "all.gd", node_type="user", memory="64MB")
    typed_inference(model, shop, tmp_path / "some.gd", node_type="user", fanouts=[-1], memory="64MB")
    rows = gz.FeatureStore(tmp_path / "all.gd").get_tensor()
    np.testing.assert_allclose(rows, gz.FeatureStore(tmp_path / "some.gd").get_tensor(), atol=1e-5)
    test = shop.splits["test"]
    assert (rows[test].argmax(1) == shop.nodes["user"].labels[test]).mean() > 0.95


@pytest.mark.usefixtures("one_torch_thread")
def test_columns_of_a_graph_of_one_type(tmp_path: Path) -> None:
    from graphzero.train import Trainer

    rng = np.random.default_rng(1)
    label = rng.integers(0, 2, 200)
    arrays, columns = pack_columns({"odd-name.1": label * 4.0 + rng.normal(size=200), "y": rng.normal(size=(200, 2))})
    ds = gz.Dataset.create(
        tmp_path / "d",
        rng.integers(0, 200, (2, 400)),
        num_nodes=200,
        features=arrays,
        table_columns=columns,
        labels=label,
        splits={"train": np.arange(120), "valid": np.arange(120, 160), "test": np.arange(160, 200)},
        direction="in",
    )
    result = Trainer(ds, options()).fit()
    assert result.test_accuracy is not None
    assert result.test_accuracy > 0.85
