"""Training in bfloat16: models run in it, weights, losses and predictions do not; and what such runs do to batches."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stop_at import StopAt  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.train import Checkpoint, Trainer, TrainOptions, load_checkpoint, load_model, save_checkpoint  # noqa: E402
from graphzero.train.models import GraphSAGE  # noqa: E402
from graphzero.train.neighbourhood import Neighbourhood  # noqa: E402
from graphzero.train.trainer import make_task  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=16, fanouts=[4, 3], dropout=0.0, batch_size=64, epochs=3, lr=0.01, memory="128MB", device="cpu", seed=5
)
SPLITS = {"train": 0.3, "valid": 0.1, "test": 0.1}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    folder = tmp_path_factory.mktemp("precision") / "plain"
    return gz.synthesize(folder, nodes=1500, edges=12_000, dim=12, classes=4, seed=1, splits=SPLITS)


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    folder = tmp_path_factory.mktemp("precision") / "typed"
    return gz.synthesize(folder, preset="mag", scale=0.002, dim=8, classes=4, signal=1.0, seed=3)


def options(**changed: Any) -> TrainOptions:
    return dataclasses.replace(OPTIONS, **changed)


@pytest.mark.parametrize("kind", ["sage", "gcn", "typed", "links"])
def test_it_learns_as_in_float32(plain: gz.Dataset, typed: gz.Dataset, kind: str) -> None:
    data = typed if kind == "typed" else plain
    changed = {"task": "links"} if kind == "links" else {} if kind == "typed" else {"model": kind}
    wide = Trainer(data, options(**changed)).fit()
    narrow = Trainer(data, options(precision="bfloat16", **changed)).fit()
    assert all(value.dtype == torch.float32 for value in narrow.model.state_dict().values())
    losses = [[epoch.loss for epoch in result.epochs] for result in (wide, narrow)]
    assert losses[0] != losses[1]  # else it was not in bfloat16
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.05)
    assert abs(narrow.val_score - wide.val_score) < 0.05


def test_the_model_computes_in_bfloat16_and_the_loss_does_not(plain: gz.Dataset) -> None:
    task = make_task(plain, options(precision="bfloat16"), torch.device("cpu"))
    model, seen = task.make_model(), []
    for layer in model.own:
        layer.register_forward_hook(lambda layer, given, out: seen.append(out.dtype))
    (batch, *_) = task.loader("train", 1, 128_000_000)
    step = task.step(model, batch)
    assert seen == [torch.bfloat16] * 2
    assert step.loss.dtype == torch.float32
    out, _ = task.measure(model, batch)
    assert out.dtype == torch.float32


def test_predictions_and_inference_are_in_float32(plain: gz.Dataset, tmp_path: Path) -> None:
    Trainer(plain, options(precision="bfloat16", epochs=1), checkpoint=tmp_path / "run.npz").fit()
    model = load_model(tmp_path / "run.npz")
    gz.inference(model, plain.graph, plain.features["x"], tmp_path / "out.gd")
    indptr, sources = plain.graph.csr(direction=plain.graph.message_direction)
    edges = np.stack([sources.astype(np.int64), np.repeat(np.arange(plain.num_nodes), np.diff(indptr))])
    with torch.no_grad():
        expected = model(torch.from_numpy(np.array(plain.features["x"].get_tensor())), torch.from_numpy(edges))
    found = np.asarray(gz.FeatureStore(tmp_path / "out.gd").get_tensor())
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_a_model_of_ones_own_runs_in_bfloat16(plain: gz.Dataset) -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(12, 4)
            self.seen: set[Any] = set()

        def forward(self, x: Any, edge_index: Any) -> Any:
            out = self.linear(x)
            self.seen.add(out.dtype)
            return out

    model = Own()
    result = Trainer(plain, options(precision="bfloat16", epochs=1), model=model).fit()
    assert model.seen == {torch.bfloat16}
    assert np.isfinite(result.epochs[0].loss)


def test_a_run_is_resumed_in_its_own_precision(plain: gz.Dataset, tmp_path: Path) -> None:
    narrow, path = options(precision="bfloat16"), tmp_path / "run.npz"
    whole = Trainer(plain, narrow).fit()
    assert Trainer(plain, narrow, checkpoint=path, observer=StopAt(1, 3)).fit().stopped == "interrupted"
    with pytest.raises(ValueError, match=r"has precision='bfloat16', this run has 'float32'"):
        Trainer(plain, OPTIONS, checkpoint=path).fit(resume=True)
    again = Trainer(plain, narrow, checkpoint=path).fit(resume=True)
    assert [epoch.loss for epoch in again.epochs] == [epoch.loss for epoch in whole.epochs]


def test_checkpoints_of_before_the_option_are_of_float32(plain: gz.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    Trainer(plain, options(epochs=1), checkpoint=path).fit()
    saved = load_checkpoint(path)
    del saved.note["options"]["precision"]
    save_checkpoint(path, Checkpoint(saved.arrays, saved.note))
    assert len(Trainer(plain, options(epochs=2), checkpoint=path).fit(resume=True).epochs) == 2
    with pytest.raises(ValueError, match=r"has precision='float32', this run has 'bfloat16'"):
        Trainer(plain, options(precision="bfloat16"), checkpoint=path).fit(resume=True)


def test_other_precisions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"precision is 'bf16', expected 'float32' or 'bfloat16'"):
        options(precision="bf16")


# -- padded batches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sage", "gcn", "typed", "links"])
def test_padded_batches_train_the_same(plain: gz.Dataset, typed: gz.Dataset, kind: str) -> None:
    data = typed if kind == "typed" else plain
    changed = {"task": "links", "epochs": 1} if kind == "links" else {} if kind == "typed" else {"model": kind}
    trainers = [Trainer(data, options(**changed)) for _ in range(2)]
    trainers[1].task.pads_nodes = True
    sizes = []
    for trainer in trainers:
        (batch, *_) = trainer.task.loader("train", 1, 128_000_000)
        sizes.append(batch.num_nodes)
    assert sizes[0] < sizes[1]
    losses = [[epoch.loss for epoch in trainer.fit().epochs] for trainer in trainers]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_batches_are_padded_in_bfloat16_on_a_gpu_alone(plain: gz.Dataset, tmp_path: Path) -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    narrow = options(precision="bfloat16")
    assert make_task(plain, narrow, gpu).gains_from_padding()
    assert not make_task(plain, narrow, cpu).gains_from_padding()
    assert not make_task(plain, OPTIONS, gpu).gains_from_padding()
    ends = np.random.default_rng(0).integers(0, 300, (2, 2000))
    bare = gz.Dataset.create(
        tmp_path / "bare",
        ends,
        labels=np.arange(300) % 3,
        splits={"train": np.arange(200), "valid": np.arange(200, 300)},
    )
    assert not make_task(bare, narrow, gpu).gains_from_padding()  # embeddings of ids
    # A model of one's own may have statistics of all nodes of a batch.
    assert not Trainer(plain, narrow, model=GraphSAGE(12, 16, 4)).task.pads_nodes


# -- sums of many narrow numbers ---------------------------------------------------------------------------------------


def test_gradients_of_a_source_of_many_do_not_stop_growing() -> None:
    count = 5000  # past 256, bfloat16 has no next integer
    edges = torch.stack([torch.zeros(count, dtype=torch.int64), torch.arange(count)])
    x = torch.ones((count, 8), dtype=torch.bfloat16, requires_grad=True)
    Neighbourhood.from_edges(edges, count).sum(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad[0].float(), count, rtol=2**-8)
