"""The trainer: it learns, it repeats, and a run that was stopped ends as one that was not."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stop_at import StopAt  # noqa: E402

import graphzero as gz  # noqa: E402
from graphzero.train import Observer, Trainer, TrainOptions, TrainResult, load_checkpoint  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=16, fanouts=[4, 3], batch_size=64, epochs=3, lr=0.01, memory="128MB", device="cpu", seed=5
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    folder = tmp_path_factory.mktemp("train") / "data"
    splits = {"train": 0.3, "valid": 0.1, "test": 0.1}
    return gz.synthesize(folder, nodes=1500, edges=12_000, dim=12, classes=4, seed=1, splits=splits)


@pytest.fixture(scope="module")
def reference(data: gz.Dataset) -> TrainResult:
    return Trainer(data, OPTIONS).fit()


def weights(result: TrainResult) -> dict[str, Any]:
    return {k: v.numpy() for k, v in result.model.state_dict().items()}


def outcome(result: TrainResult) -> list[tuple[float, float, float, int]]:
    return [(e.loss, e.train_accuracy, e.val_accuracy, e.seeds) for e in result.epochs]


def assert_same(a: TrainResult, b: TrainResult) -> None:
    assert outcome(a) == outcome(b)
    assert a.best_epoch == b.best_epoch
    assert a.test_accuracy == b.test_accuracy
    for name, value in weights(a).items():
        np.testing.assert_array_equal(value, weights(b)[name])


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_it_learns(data: gz.Dataset, model: str) -> None:
    result = Trainer(data, dataclasses.replace(OPTIONS, model=model, epochs=6)).fit()
    assert result.test_accuracy is not None
    assert result.test_accuracy > 0.6  # four classes
    assert result.epochs[-1].loss < result.epochs[0].loss
    assert result.stopped == "finished"
    assert result.val_accuracy == max(e.val_accuracy for e in result.epochs)
    assert result.peak_anonymous > 0


def test_it_repeats_for_any_threads_and_budget(data: gz.Dataset, reference: TrainResult) -> None:
    other = dataclasses.replace(OPTIONS, num_threads=1, prefetch=1, memory="200MB")
    assert_same(Trainer(data, other).fit(), reference)


def test_another_seed_is_another_run(data: gz.Dataset, reference: TrainResult) -> None:
    assert outcome(Trainer(data, dataclasses.replace(OPTIONS, seed=6)).fit()) != outcome(reference)


def test_torchs_random_numbers_are_left_alone(data: gz.Dataset) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    Trainer(data, dataclasses.replace(OPTIONS, epochs=1)).fit()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("epoch", "batch"), [(0, 1), (1, 3), (1, 8), (2, 8), ("validation", 4)])
def test_stopped_and_resumed_is_as_if_never_stopped(
    data: gz.Dataset, reference: TrainResult, tmp_path: Path, epoch: int | str, batch: int
) -> None:
    path = tmp_path / "run.npz"
    first = Trainer(data, OPTIONS, checkpoint=path, observer=StopAt(epoch, batch)).fit()
    assert first.stopped == "interrupted"
    assert first.test_accuracy is None
    assert_same(Trainer(data, OPTIONS, checkpoint=path).fit(resume=True), reference)


def test_more_epochs_later_is_the_long_run(data: gz.Dataset, reference: TrainResult, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    Trainer(data, dataclasses.replace(OPTIONS, epochs=1), checkpoint=path).fit()
    assert_same(Trainer(data, OPTIONS, checkpoint=path).fit(resume=True), reference)


def test_without_resume_a_saved_run_is_kept(data: gz.Dataset, reference: TrainResult, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    Trainer(data, dataclasses.replace(OPTIONS, epochs=2, seed=9), checkpoint=path).fit()
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"a run is already saved here; continue it with resume=True"):
        Trainer(data, OPTIONS, checkpoint=path).fit()
    assert path.read_bytes() == before
    assert_same(Trainer(data, OPTIONS, checkpoint=path).fit(overwrite=True), reference)


def test_resume_with_other_options_is_refused(data: gz.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    Trainer(data, dataclasses.replace(OPTIONS, epochs=1), checkpoint=path).fit()
    with pytest.raises(ValueError, match=r"checkpoint has lr=0\.01, this run has 0.5"):
        Trainer(data, dataclasses.replace(OPTIONS, lr=0.5), checkpoint=path).fit(resume=True)


def test_patience_stops_the_run(data: gz.Dataset) -> None:
    # A step of nothing to speak of: the accuracy cannot rise.
    result = Trainer(data, dataclasses.replace(OPTIONS, lr=1e-12, epochs=20, patience=2)).fit()
    assert result.stopped == "patience"
    assert len(result.epochs) == 3
    assert result.best_epoch == 0


def test_the_handler_of_ctrl_c_is_put_back(data: gz.Dataset) -> None:
    before = signal.getsignal(signal.SIGINT)
    Trainer(data, dataclasses.replace(OPTIONS, epochs=1)).fit()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_model_of_ones_own_may_be_trained(data: gz.Dataset) -> None:
    from graphzero.train import GraphSAGE

    model = GraphSAGE(12, 8, data.num_classes, num_layers=2, dropout=0.0)
    result = Trainer(data, dataclasses.replace(OPTIONS, epochs=1), model=model).fit()
    assert result.model is model


def parts(data: gz.Dataset, **changes: Any) -> Any:
    fields = {"graph": data.graph, "features": data.features, "labels": data.labels, "splits": data.splits}
    return SimpleNamespace(**(fields | changes))


def test_data_that_cannot_be_trained_on_is_refused(data: gz.Dataset) -> None:
    with pytest.raises(ValueError, match="no 'valid' split"):
        Trainer(parts(data, splits={"train": [0, 1]}), OPTIONS)
    with pytest.raises(ValueError, match="label -1"):
        Trainer(parts(data, labels=np.full(1500, -1)), OPTIONS)
    with pytest.raises(ValueError, match="found 1 class; need at least 2"):
        Trainer(parts(data, labels=np.zeros(1500)), OPTIONS)
    with pytest.raises(KeyError, match="no feature 'z'"):
        Trainer(data, dataclasses.replace(OPTIONS, feature="z"))


def test_a_loss_that_blows_up_is_an_error(data: gz.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphzero.train.records._LARGEST_LR", 1e31)
    with pytest.raises(gz.GraphZeroError, match=r"the loss is nan .* are finite, so the run diverged; .* smaller lr"):
        Trainer(data, dataclasses.replace(OPTIONS, lr=1e30, dropout=0.0)).fit()


def test_a_budget_that_is_too_small_fails_before_training(data: gz.Dataset) -> None:
    with pytest.raises(gz.BudgetError, match=r"memory is 50 KB, but (train|valid) batches need .* to \d+MB") as caught:
        Trainer(data, dataclasses.replace(OPTIONS, memory="50KB")).fit()
    enough = dataclasses.replace(OPTIONS, memory=caught.value.needed_bytes, epochs=1)
    assert Trainer(data, enough).fit().epochs  # what it asks for does


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fanouts": []}, "fanouts is empty"),
        ({"fanouts": [3, 0]}, "fanouts has the entry 0"),
        ({"eval_fanouts": [3]}, "eval_fanouts has 1 numbers"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"patience": 0}, "patience is 0"),
        ({"memory": "lots"}, "memory is 'lots'"),
    ],
)
def test_options_that_make_no_sense_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(OPTIONS, **change)


def test_the_budget_may_be_chosen_from_what_is_left(data: gz.Dataset) -> None:
    fixed = Trainer(data, OPTIONS).fit()
    chosen = Trainer(data, dataclasses.replace(OPTIONS, memory="auto")).fit()
    assert [e.loss for e in chosen.epochs] == [e.loss for e in fixed.epochs]


class Notes(Observer):
    """Keeps what is noted before a run."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_splits_that_share_nodes_are_noted_before_the_first_epoch(data: gz.Dataset) -> None:
    def noted(**splits: Any) -> list[str]:
        parts = {"graph": data.graph, "features": data.features, "labels": np.arange(1500) % 4}
        notes = Notes()
        Trainer(SimpleNamespace(**parts, splits=splits), OPTIONS, observer=notes)
        return notes.texts

    ids = np.random.default_rng(0).permutation(1500)
    assert noted(train=ids[:400], val=ids[400:600], test=ids[600:]) == []
    shared = "share 100 nodes, so scores of"
    assert noted(train=ids[:400], val=ids[300:600]) == [f"splits 'train' and 'valid' {shared} 'valid' are too high"]
    again = np.concatenate([ids[500:], ids[500:]])
    assert noted(train=ids[:400], val=ids[400:600], test=again) == [
        f"splits 'valid' and 'test' {shared} 'test' are too high"
    ]


def test_edge_splits_that_share_edges_are_noted(data: gz.Dataset, tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 50, (2, 300))
    splits = {"train": np.arange(200), "valid": np.arange(190, 250), "test": np.arange(250, 300)}
    rows = np.ones((50, 2), np.float32)
    ds = gz.Dataset.create(tmp_path / "ds", edges, features=rows, edge_splits=splits, direction="in")
    notes = Notes()
    Trainer(ds, dataclasses.replace(OPTIONS, task="links"), observer=notes)
    assert notes.texts == ["splits 'train' and 'valid' share 10 edges, so scores of 'valid' are too high"]


def test_a_result_has_the_score_of_one_answer_for_all(data: gz.Dataset) -> None:
    ids = np.arange(1500)
    labels = np.where(ids % 5 < 3, 1, ids % 2 * 2)  # class 1 is 60 % of all, and 80 % of the last hundred
    labels[1400:1480], labels[1480:] = 1, 0
    splits = {"train": ids[:1000], "valid": ids[1000:1400], "test": ids[1400:]}
    parts = {"graph": data.graph, "features": data.features, "splits": splits}
    result = Trainer(SimpleNamespace(**parts, labels=labels), OPTIONS).fit()
    assert result.baseline == {"valid": {"accuracy": 0.6}, "test": {"accuracy": 0.8}}
    assert result.own_baseline == {"accuracy": 0.8}
    numbers = np.where(ids < 1000, 2.0 * (ids % 2), 4.5)  # a mean of 1, and 4.5 in the other splits
    result = Trainer(SimpleNamespace(**parts, labels=numbers), OPTIONS).fit()
    assert result.baseline["test"] == {"mae": 3.5, "rmse": 3.5}
    assert result.to_dict()["baseline"] == result.baseline


def full_disk(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_names_the_file_the_size_and_what_is_lost(
    data: gz.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.npz"
    lost = r"No space left on device: the checkpoint takes [\d.]+ KB; free some space, or pass checkpoint="
    monkeypatch.setattr("graphzero.train.checkpoint.os.fsync", full_disk)
    with pytest.raises(OSError, match=rf"{lost} .*The run stopped after epoch 1; nothing of it is saved.*run\.npz"):
        Trainer(data, OPTIONS, checkpoint=path).fit()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    Trainer(data, dataclasses.replace(OPTIONS, epochs=2), checkpoint=path).fit()
    monkeypatch.setattr("graphzero.train.checkpoint.os.fsync", full_disk)
    with pytest.raises(OSError, match="after epoch 3; the file still has the run up to epoch 2"):
        Trainer(data, OPTIONS, checkpoint=path).fit(resume=True)
    assert load_checkpoint(path).note["epoch"] == 2


def test_a_result_that_cannot_be_saved_is_returned(
    data: gz.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: TrainResult
) -> None:
    monkeypatch.setattr("graphzero.train.trainer.save_result", full_disk)
    notes = Notes()
    assert_same(Trainer(data, OPTIONS, checkpoint=tmp_path / "run.npz", observer=notes).fit(), reference)
    assert "run.npz: No space left on device; the weights are saved, but not the scores" in notes.texts[-1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_gpu_memory_without_a_gpu_says_that_there_is_none(data: gz.Dataset) -> None:
    with pytest.raises(ValueError, match="gpu_memory is '2GB', but torch finds no CUDA device; omit it"):
        Trainer(data, dataclasses.replace(OPTIONS, device=None, gpu_memory="2GB"))
