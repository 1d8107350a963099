"""`graphzero embed`: files, tables with original ids, relations, errors in the words of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app

BRIEF = ["--dim", "8", "--walks-per-node", "2", "--threads", "1"]


def run(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["embed", *map(str, words)])
    assert done.exit_code == code, done.output
    return " ".join(done.output.replace("│", " ").split())


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose ids are words."""
    folder = tmp_path_factory.mktemp("named")
    ring = [f"node-{i},node-{(i + step) % 30}" for i in range(30) for step in (1, 2)]
    (folder / "edges.csv").write_text("src,dst\n" + "\n".join(ring) + "\n")
    gz.import_dataset(folder / "edges.csv", folder / "data", ids="map")
    return folder / "data"


def test_a_dataset_with_a_table_of_ids(named: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out, table = tmp_path / "x.gd", tmp_path / "x.parquet"
    report = json.loads(run(named, "--out", out, "--export", table, "--json", *BRIEF))
    assert (report["files"], report["nodes"], report["dim"]) == ([str(out), str(table)], 30, 8)
    rows = parquet.read_table(table)
    assert rows.column_names == ["id", *[f"x{i}" for i in range(8)]]
    assert rows["id"].to_pylist() == gz.Dataset(named).ids.to_original(np.arange(30))
    np.testing.assert_array_equal(rows["x3"].to_numpy(), gz.FeatureStore(out)[:][:, 3])
    wanted = gz.embed(gz.Dataset(named), dim=8, walks_per_node=2, num_threads=1)
    np.testing.assert_array_equal(gz.FeatureStore(out)[:], wanted)


def test_a_graph_and_one_relation(tmp_path: Path) -> None:
    pairs = np.stack([np.arange(20), (np.arange(20) + 1) % 20])
    graphs = {("a", "to", "a"): pairs, ("a", "has", "b"): np.stack([np.arange(20), np.zeros(20, int)])}
    data = gz.Dataset.create(tmp_path / "typed", graphs=graphs)
    out = tmp_path / "x.gd"
    assert "20" in run(data.edges["a", "to", "a"].graph.path, "--out", out, *BRIEF)
    run(tmp_path / "typed", "--out", out, "--edge-type", "a,to,a", "--export", tmp_path / "x.csv", *BRIEF)
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 21
    assert "choose one relation: a,to,a" in run(tmp_path / "typed", "--out", out, code=2)
    assert "20 source nodes" in run(tmp_path / "typed", "--out", out, "--edge-type", "a,has,b", code=2)


def test_errors_name_options(named: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.gd"
    assert "--walk-length is 0, expected at least 1" in run(named, "--out", out, "--walk-length", 0, code=2)
    assert "--learning-rate is 50, try a smaller one" in run(named, "--out", out, "--learning-rate", 50, code=2)
    assert "expected a name that ends in .csv or .parquet" in run(named, "--out", out, "--export", "x.txt", code=2)
    graph = gz.Dataset(named).graph.path
    assert "needs a dataset" in run(graph, "--out", out, "--export", tmp_path / "x.csv", code=2)
    assert "needs a dataset" in run(graph, "--out", out, "--edge-type", "a,to,a", code=2)
    assert not out.exists()
