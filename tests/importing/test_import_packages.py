"""The package index of a distribution as a typed dataset: a small one made here, and the one that apt has."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

INDEX = """Package: bash
Version: 5.2
Installed-Size: 7164
Maintainer: Matthias Klose <doko@debian.org>
Depends: base-files (>= 2.1.12), debianutils (>= 5.6-0.1)
Pre-Depends: libc6 (>= 2.36), libtinfo6:any
Recommends: bash-completion
Suggests: bash-doc
Description: GNU Bourne Again SHell
Tag: interface::{shell,commandline}, role::program,
 scope::application
Section: shells
Priority: required
Essential: yes
Size: 1496304

Package: base-files
Maintainer: Santiago Vila <sanvila@debian.org>
Depends: awk
Section: admin
Priority: required
Description: Debian base system miscellaneous files

Package: mawk
Maintainer: Boyuan Yang <byang@debian.org>
Provides: awk
Section: contrib/utils
Description: pattern scanning and text processing language

Package: gawk
Maintainer: Boyuan Yang <byang@debian.org>
Provides: awk (= 1)
Section: interpreters
Description: GNU awk

Package: libc6
Maintainer: GNU Libc Maintainers <libc@debian.org>
Recommends: libidn2-0 | mawk
Section: libs
Description: GNU C Library: Shared libraries

Package: bash
Version: 5.1
Section: oldlibs
Description: an older version
"""


def related(ds: gz.Dataset, relation: str, near: str = "package", far: str = "package") -> set[tuple[str, str]]:
    graph = ds.graphs[near, relation, far]
    sources, targets = ds.ids[near], ds.ids[far]
    return {
        (sources.to_original([int(u)])[0], targets.to_original([v])[0])
        for v in range(graph.num_targets)
        for u in graph.get_neighbours(v)
    }


@pytest.mark.parametrize("packed", [False, True])
def test_a_package_index(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("Packages.gz" if packed else "Packages")
    path.write_bytes(gzip.compress(INDEX.encode()) if packed else INDEX.encode())
    report = gz.import_dataset(path, tmp_path / "out")
    ds = report.dataset
    assert ds.node_types == ["package", "maintainer", "tag"]
    assert ds.ids["package"].to_dense(["bash", "libc6"]).tolist() == [0, 4]
    assert related(ds, "depends") == {("bash", "base-files"), ("base-files", "mawk"), ("base-files", "gawk")}
    assert related(ds, "pre_depends") == {("bash", "libc6")}
    assert related(ds, "recommends") == {("libc6", "mawk")}
    assert related(ds, "maintains", "maintainer") == {
        ("doko@debian.org", "bash"),
        ("sanvila@debian.org", "base-files"),
        ("byang@debian.org", "mawk"),
        ("byang@debian.org", "gawk"),
        ("libc@debian.org", "libc6"),
    }
    tags = ("interface::shell", "interface::commandline", "role::program", "scope::application")
    assert related(ds, "has_tag", "package", "tag") == {("bash", tag) for tag in tags}
    names = ds.info["about"]["classes"]["package"]
    assert [names[y] for y in ds.labels] == ["shells", "admin", "utils", "interpreters", "libs"]
    x = ds.features["x"].get_tensor()
    assert x.shape == (5, 128)
    assert x[0, 0] == pytest.approx(np.log1p(7164) / 10)
    assert x[:, 2].tolist() == [1, 1, 0, 0, 0]
    assert x[0, 7] == 1
    np.testing.assert_allclose(np.linalg.norm(x[:, 16:], axis=1), 1, rtol=1e-6)
    assert sum(len(ids) for ids in ds.splits.values()) == 5
    assert "left out: 1 further versions of packages" in str(report)
    assert "left out: 5 relations to packages that are neither in the index nor provided by one in it" in str(report)
    ds.verify()


def test_an_index_without_packages(tmp_path: Path) -> None:
    (tmp_path / "Packages").write_text("Package: \n\n")
    with pytest.raises(gz.InputError, match="found no package"):
        gz.import_dataset(tmp_path / "Packages", tmp_path / "out")


def have_packages() -> bool:
    if shutil.which("apt-cache") is None:
        return False
    with subprocess.Popen(["apt-cache", "dumpavail"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        head = process.stdout.read(1 << 20)
        process.kill()
    return len(head) == 1 << 20


def test_apt_is_asked_by_the_command_line_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, app = pytest.importorskip("typer.testing").CliRunner(), pytest.importorskip("graphzero.cli.app").app
    (tmp_path / "index").write_text(INDEX)
    (tmp_path / "apt-cache").write_text(f"#!/bin/sh\ncat {tmp_path}/index\n")
    (tmp_path / "apt-cache").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    result = runner.invoke(app, ["import", "apt:", str(tmp_path / "out"), "--dtype", "int8"])
    assert result.exit_code == 0, result.output
    assert gz.Dataset(tmp_path / "out").nodes["package"].features["x"].scale is not None


@pytest.mark.skipif(not have_packages(), reason="apt has no package index here")
def test_the_index_of_this_distribution(tmp_path: Path) -> None:
    report = gz.import_dataset("apt:", tmp_path / "out")
    ds = report.dataset
    assert report.kind == "Debian package index"
    assert ds.nodes["package"].num_nodes > 1000
    bash = int(ds.ids["package"].to_dense(["bash"])[0])
    out = ds.graphs["package__depends__package"].to_scipy(direction="in").tocsr()[bash].indices
    shown = subprocess.run(["apt-cache", "show", "--no-all-versions", "bash"], capture_output=True, text=True).stdout
    (depends,) = [line for line in shown.splitlines() if line.startswith("Depends:")]
    listed = {word.split()[0] for word in depends.removeprefix("Depends:").replace("|", ",").split(",")}
    assert set(ds.ids["package"].to_original(out)) == listed
    # what packages depend on tells their section far better than chance
    y, graph = ds.labels, ds.graphs["package__depends__package"]
    indptr, near = graph.csr(direction="in")
    far = np.repeat(np.arange(graph.num_targets), np.diff(indptr))
    votes = np.zeros((ds.num_nodes, ds.num_classes), np.float32)
    np.add.at(votes, far, np.eye(ds.num_classes, dtype=np.float32)[y[near]])  # sections of those that depend on it
    asked = votes.sum(1) > 0
    most = np.bincount(y[asked]).max() / asked.sum()
    assert (votes.argmax(1) == y)[asked].mean() > most + 0.1
    part = ds.hetero.sample({"package": ds.splits["train"][:64]}, [10, 5], seed=1)
    assert part.num_nodes["package"] > 64
    assert part.num_nodes["maintainer"] > 0
    ds.verify()


@pytest.fixture(scope="module")
def some_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of the first packages that apt has, and all relations among them, by the command line."""
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    if not have_packages():
        pytest.skip("apt has no package index here")
    folder = tmp_path_factory.mktemp("packages")
    with subprocess.Popen(["apt-cache", "dumpavail"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = process.stdout.read(3 << 19)
        process.kill()
    (folder / "Packages").write_bytes(text[: text.rindex(b"\n\n") + 1])
    result = CliRunner().invoke(app, ["import", str(folder / "Packages"), str(folder / "out"), "--reverse"])
    assert result.exit_code == 0, result.output
    return folder / "out"


def most_frequent(ds: gz.Dataset) -> float:
    """The accuracy of always saying the most frequent section."""
    test = ds.labels[ds.splits["test"]]
    return float((test == np.bincount(ds.labels[ds.splits["train"]]).argmax()).mean())


def test_packages_train_by_the_command_line(some_packages: Path) -> None:
    pytest.importorskip("torch")
    from typer.testing import CliRunner

    from graphzero.cli.app import app

    asked = ["--epochs", "2", "--hidden", "32", "--fanouts", "5,5", "--batch-size", "256", "--lr", "0.01", "--json"]
    result = CliRunner().invoke(app, ["train", str(some_packages), *asked])
    assert result.exit_code == 0, result.output
    run = json.loads(result.stdout)
    assert run["epochs"][-1]["loss"] < run["epochs"][0]["loss"]
    assert run["test_accuracy"] > most_frequent(gz.Dataset(some_packages)) + 0.1


def test_packages_train_a_model_of_pyg(some_packages: Path) -> None:
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("torch_geometric.nn")
    ds = gz.Dataset(some_packages)
    torch.manual_seed(0)
    # maintainers and tags have no features: they are learned, a row a node
    learned = torch.nn.ModuleDict(
        {kind: torch.nn.Embedding(ds.nodes[kind].num_nodes, 16) for kind in ("maintainer", "tag")}
    )

    def layer(size: int) -> torch.nn.Module:
        return nn.HeteroConv({kind: nn.SAGEConv((-1, -1), size) for kind in ds.edge_types}, aggr="sum")

    first, last = layer(32), layer(ds.num_classes)

    def scores(batch: gz.HeteroBatch) -> torch.Tensor:
        x = dict(batch.x_dict) | {kind: learned[kind](batch[kind].n_id) for kind in learned}
        hidden = {kind: value.relu() for kind, value in first(x, batch.edge_index_dict).items()}
        return last(hidden, batch.edge_index_dict)["package"][: batch["package"].batch_size]

    def batches(split: str) -> gz.NeighborLoader:
        return gz.NeighborLoader(
            ds, split=split, fanouts=[5, 5], batch_size=256, shuffle=split == "train", seed=0, memory="64MB"
        )

    train = batches("train")
    scores(next(iter(train)))  # lets PyG see the widths
    parameters = [*learned.parameters(), *first.parameters(), *last.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for _ in range(2):
        for batch in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores(batch), batch["package"].y).backward()
            optimizer.step()
    right = [(scores(batch).argmax(1) == batch["package"].y).float() for batch in batches("test")]
    assert torch.cat(right).mean() > most_frequent(ds) + 0.1
