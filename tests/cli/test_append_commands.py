"""`graphzero append` and `graphzero compact`, and what the other commands say of a dataset that has grown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app


def run(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> gz.Dataset:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    Path("y.txt").write_text("1\n0\n")
    Path("new.csv").write_text("src,dst\n0,3\n3,4\n")
    Path("old.csv").write_text("src,dst\n0,1\n")
    edges, splits = np.array([[0, 1], [1, 2]]), {"train": [0], "test": [1]}
    return gz.Dataset.create("toy", edges, features=np.eye(3), labels=[0, 1, 1], splits=splits)


def test_nodes_edges_and_removals(toy: gz.Dataset) -> None:
    output = run(
        "append",
        "toy",
        "--nodes",
        2,
        "--features",
        "x.npy",
        "--labels",
        "y.txt",
        "--edges",
        "new.csv",
        "--split",
        "train",
    )
    assert "2 nodes, 2 edges added" in output
    now = gz.Dataset("toy")
    assert now.graph.get_neighbours(3).tolist() == [4]
    assert now.features["x"].get_tensor()[3:].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert now.labels.tolist() == [0, 1, 1, 1, 0]
    assert now.splits["train"].tolist() == [0, 3, 4]
    report = json.loads(run("append", "toy", "--remove-edges", "old.csv", "--json"))
    assert (report["edges"], report["edges_removed"]) == (0, 1)
    Path("gone.txt").write_text("4\n")
    run("append", "toy", "--remove-nodes", "gone.txt")
    assert gz.Dataset("toy").graph.num_edges == 2
    told = run("compact", "toy")
    assert "deltas folded" in told
    assert json.loads(run("compact", "toy", "--json"))["deltas"] == 0


def test_what_the_other_commands_say(toy: gz.Dataset) -> None:
    run("append", "toy", "--edges", "new.csv", "--features", "x.npy")
    shown = run("info", "toy")
    assert "1, in 3 files; graphzero compact folds them" in shown
    assert "topology, appended" in shown
    assert json.loads(run("info", "toy", "--json"))["deltas"]["graph.gl"]
    assert "has been appended to" in run("info", "toy/graph.gl")
    assert "with 1 appends; graphzero compact folds them" in run("stats", "toy")
    assert json.loads(run("verify", "toy", "--json"))["files"] == 8
    delta = Path(gz.Dataset("toy").features["x"].deltas[0])
    data = bytearray(delta.read_bytes())
    data[-4096] ^= 1
    delta.write_bytes(data)
    assert delta.name in run("verify", "toy", code=1)


def test_a_type_is_chosen_where_there_are_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writes: Any = ("author", "writes", "paper")
    gz.Dataset.create("typed", graphs={writes: np.array([[0, 1], [0, 1]])}, labels={"paper": [0, 1]}, reverse=True)
    Path("new.csv").write_text("0,2\n2,0\n")
    assert "--edge-type" in run("append", "typed", "--edges", "new.csv", code=2)
    run("append", "typed", "--edges", "new.csv", "--edge-type", "author__writes__paper")
    now = gz.Dataset("typed")
    assert {name: node.num_nodes for name, node in now.nodes.items()} == {"author": 3, "paper": 3}
    assert now.edges["paper", "rev_writes", "author"].num_edges == 4
    run("append", "typed", "--nodes", 1, "--labels", _label("1"), "--node-type", "paper")
    assert gz.Dataset("typed").labels.tolist() == [0, 1, -1, 1]


def _label(text: str) -> Path:
    Path("label.txt").write_text(f"{text}\n")
    return Path("label.txt")


def test_errors_name_options(toy: gz.Dataset) -> None:
    assert "pass one of --edges, --nodes" in run("append", "toy", code=2)
    assert "expected a node from 0 to 2; pass --nodes and --features for more" in run(
        "append", "toy", "--edges", "new.csv", code=1
    )
    Path("label.txt").write_text("7\n0\n")
    wrong = run("append", "toy", "--features", "x.npy", "--labels", "label.txt", code=2)
    assert "labels[0] is 7, expected less than 2; pass --classes 8 to add classes" in wrong
    assert not gz.Dataset("toy").info["deltas"]
