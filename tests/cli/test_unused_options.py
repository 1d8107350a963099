"""Options that a command would ignore are refused: each line is a command and what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app
from graphzero.train import Trainer, TrainOptions

SMALL: dict[str, Any] = {"hidden": 4, "fanouts": [2], "batch_size": 16, "epochs": 1, "device": "cpu", "memory": "64MB"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, runs on nodes and links, and files to import."""
    path = tmp_path_factory.mktemp("unused")
    ids, rng = np.arange(60), np.random.default_rng(1)
    edges = np.stack([ids, (ids + 1) % 60])
    splits = {"train": ids[:40], "valid": ids[40:50], "test": ids[50:]}
    x = rng.standard_normal((60, 4)).astype(np.float32)
    plain = gz.Dataset.create(path / "plain", edges, direction="in", features={"x": x}, labels=ids % 3, splits=splits)
    for task in ("nodes", "links"):
        Trainer(plain, TrainOptions(task=task, **SMALL), checkpoint=path / f"{task}.npz").fit()
    np.save(path / "edges.npy", edges.T)
    np.save(path / "x.npy", x)
    (path / "edges.csv").write_text("".join(f"{u},{v}\n" for u, v in edges.T))
    (path / "names.csv").write_text("src,dst\n" + "".join(f"p{u},p{v}\n" for u, v in edges.T))
    (path / "nodes.csv").write_text("id,age\n" + "".join(f"p{i},{i}\n" for i in ids))
    (path / "tables.json").write_text(
        '{"nodes": {"p": "nodes.csv"}, "edges": [{"type": ["p", "to", "p"], "table": "names.csv"}]}'
    )
    return path


PREDICT_NODES = "predict plain --checkpoint nodes.npz --out"
PREDICT_LINKS = "predict plain --checkpoint links.npz --out"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train plain --node-type nodes", "--node-type is 'nodes', but the dataset has one node type, 'node'; did you"),
        ("train plain --edge-type a,to,a", "--edge-type is ['a', 'to', 'a'], but it is for --task links"),
        ("train plain --task links --node-type a", "--node-type is 'a', but it is for node labels and task tables"),
        ("train plain --task links --target regression", "--target is 'regression', but it is for node labels"),
        ("train plain --task links --class-weights balanced", "--class-weights is 'balanced', but it is for node"),
        ("train plain --loss mae", "--loss is 'mae', which is for regression, but the target is classification"),
        ("train plain --table-encoder attention", "--table-encoder is 'attention', but the dataset has no columns"),
        ("train plain --overwrite", "needs --checkpoint PATH"),
        ("train plain --no-save --checkpoint a.npz", "cannot be combined with --checkpoint PATH"),
        (f"{PREDICT_NODES} p.csv --exclude all", "--exclude is 'all', but it is for tables of links"),
        (f"{PREDICT_NODES} p.csv --split test", "--split is 'test', but it is for runs by time, task tables"),
        (f"{PREDICT_NODES} p.csv --top 3", "--top is 3, but it is for runs with --task links"),
        (f"{PREDICT_NODES} p.csv --node-type nodes", "--node-type is 'nodes', expected one of 'node'; did you mean"),
        (f"{PREDICT_LINKS} p.gd --split test", "--split is 'test', but it is for runs by time, task tables and tables"),
        (f"{PREDICT_LINKS} p.csv --split test --exclude all", "--exclude is 'all', but it is for tables of links with"),
        (f"{PREDICT_LINKS} p.csv --layers 1", "num_layers is 1, but it is for predictions of all nodes"),
        ("import edges.csv out --dtype float16", "--dtype is 'float16', the type to store features in, but"),
        ("import names.csv out --nodes nodes.csv --dtype float16", "--dtype is 'float16', the type to store"),
        ("import edges.csv out --classes 3", "--classes is 3, but there are no labels"),
        ("import names.csv out --ids map --id-base 1", "--id-base is 1, but ids are mapped"),
        ("import edges.npy out --delimiter ;", "--delimiter is ';', an option of text files, but the source is"),
        ("import edges.npy out --skip-bad-lines", "--skip-bad-lines is 'skip', an option of text files"),
        ("import tables.json out --nodes nodes.csv", "--nodes is for edges of one type, but the source is tables"),
        ("import tables.json out --ids map", "--ids is for edges of one type"),
        ("import tables.json out --id-base 1", "--id-base is for edges of one type"),
        ("import tables.json out --tag-reverse", "--tag-reverse is for edges of one type"),
        ("import tables.json out --dtype float16", "--dtype is 'float16', the type to store features in"),
        ("import edges.csv out --reverse", "reverse are for sources of several types"),
        ("compile x.npy x.gd --header", "--header is True, an option of text files, but the source is x.npy"),
        ("compile x.npy x.gd --num-sources 3", "--num-sources is for edges (.gl)"),
        ("reorder plain out --by degree --fanouts 5,5", "needs --by presample"),
        ("export plain out --node-type node", "needs --rows PATH"),
        ("export plain out.csv --rows x.gd --format csv", "cannot be combined with --rows"),
        ("inspect . --overwrite", "needs --out PATH"),
        ("synth out --nodes 100 --edges 200 --scale 2", "needs --preset"),
        ("synth out --nodes 100 --edges 200 --core-edges 0.5", "needs --core"),
        ("doctor . --check", "needs a dataset to estimate for"),
    ],
)
def test_an_option_without_effect_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    done = CliRunner().invoke(app, shlex.split(command.replace(";", "';'")))
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.replace("│", " ").split())
    assert sorted(path.name for path in folder.iterdir()) == before
