"""`--dtype int8` in one step: compile, import and synth from each kind of source, then train and predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app

NODES, WIDTH = 120, 6


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """The same edges, rows and labels as .npy, CSV and Parquet."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    edges, x = rng.integers(0, NODES, (2, 900)), rng.standard_normal((NODES, WIDTH), dtype=np.float32)
    labels = (x[:, 0] > 0).astype(np.int64)
    np.save(folder / "edges.npy", edges.T.copy())
    np.savetxt(folder / "edges.csv", edges.T, fmt="%d", delimiter=",")
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", labels)
    (folder / "x.csv").write_text("".join(f"{i},{','.join(map(repr, row.tolist()))}\n" for i, row in enumerate(x)))
    return folder, x


def check(store: gz.FeatureStore, x: np.ndarray) -> None:
    assert store.dtype == np.int8
    assert store.scale is not None
    np.testing.assert_allclose(store.gather(np.arange(len(x)), dtype="float32"), x, atol=2 * float(store.scale.max()))


@pytest.mark.parametrize("source", ["x.npy", "x.csv"])
def test_compile(files: tuple[Path, np.ndarray], tmp_path: Path, source: str) -> None:
    folder, x = files
    run("compile", folder / source, tmp_path / "x.gd", "--dtype", "int8")
    check(gz.FeatureStore(tmp_path / "x.gd"), x)


@pytest.mark.parametrize("features", ["x.npy", "x.csv"])
@pytest.mark.parametrize("edges", ["edges.csv", "edges.npy"])
def test_import_from_files(files: tuple[Path, np.ndarray], tmp_path: Path, edges: str, features: str) -> None:
    folder, x = files
    options = ("--features", folder / features, "--labels", folder / "y.npy", "--splits", "60/20/20")
    output = run("import", folder / edges, tmp_path / "ds", "--num-nodes", NODES, "--dtype", "int8", *options)
    assert "stored as int8: largest error" in output
    ds = gz.Dataset(tmp_path / "ds")
    check(ds.features["x"], x)
    train_and_predict(tmp_path / "ds")


def test_import_from_parquet(files: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder, x = files
    edges = np.load(folder / "edges.npy")
    rows = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), WIDTH)
    nodes = {"id": np.arange(NODES), "emb": rows, "label": np.load(folder / "y.npy"), "size": np.arange(NODES) / 7}
    parquet.write_table(pa.table({"src": edges[:, 0], "dst": edges[:, 1]}), tmp_path / "edges.parquet")
    parquet.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    tables = (tmp_path / "edges.parquet", tmp_path / "ds", "--nodes", tmp_path / "nodes.parquet")
    run("import", *tables, "--splits", "60/20/20", "--dtype", "int8")
    ds = gz.Dataset(tmp_path / "ds")
    scaled = {name: store for name, store in ds.features.items() if store.scale is not None}
    assert len(scaled) == 1
    check(next(iter(scaled.values())), x)
    assert ds.features["columns_number"].dtype == np.float32  # numbers of a table may be missing
    train_and_predict(tmp_path / "ds")


@pytest.mark.parametrize("preset", [None, "mag"])
def test_synth(tmp_path: Path, preset: str | None) -> None:
    shape: tuple[Any, ...] = ("--nodes", 400, "--edges", 4000, "--dim", 8, "--classes", 3)
    shape = shape if preset is None else ("--preset", preset, "--scale", 0.0005)
    for dtype in ("int8", "float32"):
        run("synth", tmp_path / dtype, *shape, "--dtype", dtype)
    int8, floats = (gz.Dataset(tmp_path / dtype) for dtype in ("int8", "float32"))
    nodes = [(int8.nodes[t], floats.nodes[t]) for t in int8.nodes if "x" in int8.nodes[t].features]
    assert nodes
    for small, large in nodes:
        check(small.features["x"], large.features["x"].get_tensor())
    train_and_predict(tmp_path / "int8")


def train_and_predict(folder: Path) -> None:
    pytest.importorskip("torch")
    small = ("--epochs", 1, "--hidden", 8, "--memory", "64MB", "--batch-size", 64, "--checkpoint", folder / "1.npz")
    run("train", folder, *small)
    run("predict", folder, "--checkpoint", folder / "1.npz", "--out", folder / "p.csv", "--memory", "64MB")
    assert len((folder / "p.csv").read_text().splitlines()) > 1
