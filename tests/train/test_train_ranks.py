"""Training in two ranks: the same weights and scores as one process that goes over the same global batches."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch without distributed", allow_module_level=True)

from rank_training import DROPPING, RUNS, facts, trainer  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.train import Trainer  # noqa: E402
from graphzero.train.metrics import LinkScores  # noqa: E402
from graphzero.train.optimizers import Optimizers  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

ROOT = Path(gz.__file__).parent.parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two ranks: datasets, what came out, and checkpoints."""
    where = tmp_path_factory.mktemp("ranks")
    splits = {"train": 0.5, "valid": 0.25, "test": 0.25}
    plain = gz.synthesize(where / "plain", nodes=300, edges=2000, dim=6, classes=3, seed=1, splits=splits)
    labels = np.where(np.arange(300) % 3 == 0, np.nan, np.arange(300) / 7)  # a third is not known
    kept = {name: plain.splits[name] for name in splits}
    gz.Dataset.create(where / "numbers", plain.graph, features=plain.features["x"], labels=labels, splits=kept)
    gz.synthesize(where / "typed", preset="mag", scale=0.0003, dim=4, classes=3, seed=3)
    Trainer(plain, dataclasses.replace(DROPPING, epochs=1), checkpoint=where / "alone.checkpoint").fit()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = os.environ | {"PYTHONPATH": str(ROOT), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    command = [sys.executable, str(Path(__file__).parents[1] / "oracles" / "rank_training.py"), str(where)]
    ranks = []
    for rank in map(str, range(2)):
        own = {"RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2"}
        ranks.append(subprocess.Popen(command, stderr=subprocess.PIPE, env=common | own, text=True))
    try:
        for process in ranks:
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    return where


def one_process(folder: Path, name: str) -> tuple[Trainer, list[dict[str, Any]], list[float]]:
    """Train in this process on the mean over two batches a step; return weights and losses of each epoch."""
    run = trainer(folder, name)
    model = run._given_model
    assert model is not None
    options = run.options
    optimizer = Optimizers(model, options.lr, options.weight_decay)
    loader = run.task.loader("train", 1, 128_000_000)
    weights, losses = [], []
    for _ in range(options.epochs):
        model.train()
        batches, total, seen = list(loader), 0.0, 0
        for first in range(0, len(batches), 2):
            steps = [run.task.step(model, batch) for batch in batches[first : first + 2]]
            weight = sum(step.weight for step in steps)
            loss = sum(step.loss * step.weight for step in steps) / weight
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, seen = total + float(loss.detach() * weight), seen + float(weight)
        losses.append(total / seen)
        weights.append({k: v.detach().clone().numpy() for k, v in model.state_dict().items()})
    return run, weights, losses


@pytest.mark.parametrize("name", RUNS)
def test_gradients_are_those_of_one_process_with_the_same_global_batch(folder: Path, name: str) -> None:
    two = np.load(folder / f"{name}-0.npz")
    run, weights, losses = one_process(folder, name)
    rough = 1000 if "links" in name else 1  # torch computes that loss in float32, as its labels are
    np.testing.assert_allclose(two["losses"], losses, rtol=rough * 1e-9)
    for key, value in weights[int(two["best"])].items():
        np.testing.assert_allclose(two[f"model.{key}"], value, rtol=rough * 1e-7, atol=rough * 1e-9)
    if "links" not in name:  # there a seed is an edge or a negative, less what is held out
        assert two["seeds"].tolist() == [run.task.size("train")] * 2
    assert two["batches"].tolist() == [run.task.batches()] * 2
    assert run.task.batches() % 2 == 1 or name != "nodes"  # the last step has a rank without a batch


@pytest.mark.parametrize("name", RUNS)
def test_validation_in_parts_gives_the_scores_of_one_process(folder: Path, name: str) -> None:
    two, other = np.load(folder / f"{name}-0.npz"), np.load(folder / f"{name}-1.npz")
    assert {k: two[k].tolist() for k in two} == {k: other[k].tolist() for k in other}  # both ranks agree
    run = trainer(folder, name)
    model = run._given_model
    assert model is not None
    model.load_state_dict({k[6:]: torch.from_numpy(two[k]) for k in two if k.startswith("model.")})
    model.eval()
    scores = []
    for split in ("valid", "test"):
        meter = run.task.meter()
        for batch in run.task.loader(split, 1, 128_000_000):
            with torch.no_grad():
                meter.add(model, batch)
        scores.append(meter.scores())
    assert [two["valid"], two["test"]] == [found.pop("accuracy", -1.0) for found in scores]
    assert two["metrics"].tolist() == [*scores[0].values(), *scores[1].values()]


def test_only_the_first_rank_writes(folder: Path) -> None:
    for name in RUNS:
        assert (folder / f"{name}-0.checkpoint").exists()
        assert not (folder / f"{name}-1.checkpoint").exists()


def test_stopped_on_one_rank_and_resumed_is_as_if_never_stopped(folder: Path) -> None:
    whole, resumed = np.load(folder / "whole.npz"), np.load(folder / "resumed.npz")
    assert {k: whole[k].tolist() for k in whole} == {k: resumed[k].tolist() for k in resumed}


def test_a_run_of_two_ranks_goes_on_in_one_process(folder: Path) -> None:
    """From the middle of an epoch: each of its seeds is trained on once."""
    run = Trainer(gz.Dataset(folder / "plain"), DROPPING, checkpoint=folder / "left.checkpoint")
    found = facts(run.fit(resume=True))
    whole = np.load(folder / "whole.npz")
    assert found["losses"][0] == whole["losses"][0]
    assert found["seeds"].tolist() == [150] * 3
    assert found["batches"].tolist() == [5] * 3


def test_a_run_of_one_process_goes_on_in_two_ranks(folder: Path) -> None:
    found = np.load(folder / "from one.npz")
    assert found["seeds"].tolist() == [150] * 4
    alone = Trainer(gz.Dataset(folder / "plain"), dataclasses.replace(DROPPING, epochs=1)).fit()
    assert found["losses"][0] == alone.epochs[0].loss


def test_scores_of_links_do_not_depend_on_who_saw_which_batch() -> None:
    rng = np.random.default_rng(0)
    batches = [(rng.standard_normal(7), rng.standard_normal((7, 4))) for _ in range(9)]
    whole, parts = LinkScores(), [LinkScores() for _ in range(3)]
    for number, batch in enumerate(batches):
        whole.add(*batch)
        parts[number % 3].add(*batch)
    assert LinkScores.merged(parts).scores() == whole.scores()
