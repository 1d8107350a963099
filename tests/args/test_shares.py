"""Shares of splits add up, and two are those of train and valid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import graphzero as gz
from graphzero.args.shares import as_shares
from graphzero.cli.app import app
from graphzero.dataset.splits_by_time import split_by_time
from graphzero.dataset.trainable import fault_of


@pytest.mark.parametrize("text", ["60/20/20", "0.6/0.2/0.2", "60,20,20", "60.0:20:20"])
def test_shares(text: str) -> None:
    assert as_shares(text) == pytest.approx((0.6, 0.2, 0.2))


@pytest.mark.parametrize("text", ["33/33/33", "33.3/33.3/33.3", "0.33/0.33/0.33", "34/34/33"])
def test_thirds(text: str) -> None:
    assert as_shares(text) == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=0.01)
    assert sum(as_shares(text)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("60/20/30", "shares sum to 110, expected 100 (or 1)"),
        ("60/20", "shares sum to 80, expected 100 (or 1); add the share of test: 60/20/20"),
        ("0.6/0.2", "shares sum to 0.8, expected 1 (or 100); add the share of test: 0.6/0.2/0.2"),
        ("0.6/0.2/0.3", "shares sum to 1.1, expected 1 (or 100)"),
        ("3/1/1", "shares sum to 5, expected 100 (or 1)"),
        ("1/1", "shares sum to 2, expected 100 (or 1)$"),
        ("3/1", "shares sum to 4, expected 100 (or 1)$"),
        ("1/0.5", "shares sum to 1.5, expected 1 (or 100)$"),
        ("0.1/0.1", "shares sum to 0.2, expected 1 (or 100)$"),
        ("0/0/0", "shares sum to 0"),
        ("0/80/20", "the share of train is 0"),
        ("80/0/20", "the share of valid is 0"),
        ("25/25/25/25", "expected the shares of train, valid and test"),
    ],
)
def test_shares_that_do_not_add_up(tmp_path: Path, text: str, message: str) -> None:
    edges, labels = np.array([[0, 1], [1, 0]]), np.arange(10) % 2
    with pytest.raises(ValueError, match="splits is ") as caught:
        gz.import_dataset(edges, tmp_path / "out", labels=labels, splits=text)
    assert f"{caught.value}$".endswith(message) if message.endswith("$") else message in str(caught.value)
    table = {"id": np.arange(10), "label": labels, "v": np.arange(10.0)}
    with pytest.raises(ValueError, match="splits is ") as caught:
        gz.import_dataset(edges, tmp_path / "out", nodes=table, splits=text)
    typed = {"nodes": {"n": {"table": table}}, "edges": [{"type": "n:to:n", "table": {"src": [0], "dst": [1]}}]}
    with pytest.raises(ValueError, match="splits is ") as caught:
        gz.import_dataset(typed, tmp_path / "out", splits=text)
    assert not list(tmp_path.glob("out*"))
    if text.count("/") == 2:
        with pytest.raises(ValueError, match=f"'{text}'"):
            split_by_time(np.arange(10), text)


def test_two_shares_make_a_dataset_that_can_be_trained(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst\n" + "".join(f"{i},{(i + 1) % 100}\n" for i in range(100)))
    np.save(tmp_path / "y.npy", np.arange(100) % 3)
    np.save(tmp_path / "x.npy", np.eye(100, dtype="float32"))
    files = ["--labels", str(tmp_path / "y.npy"), "--features", str(tmp_path / "x.npy")]
    words = ["import", str(tmp_path / "e.csv"), str(tmp_path / "out"), *files, "--splits"]
    refused = CliRunner().invoke(app, [*words, "60/20/30"])
    assert refused.exit_code == 2
    assert "--splits is '60/20/30': shares sum to 110, expected 100 (or 1)" in " ".join(refused.output.split())
    assert not (tmp_path / "out").exists()
    assert CliRunner().invoke(app, [*words, "80/20"]).exit_code == 0
    ds = gz.Dataset(tmp_path / "out")
    assert {name: len(ids) for name, ids in ds.splits.items()} == {"train": 80, "valid": 20}
    assert fault_of(ds) is None
