"""The trainer's loaders share one budget: each may use all of it while it is at work."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import graphzero as gz  # noqa: E402
from graphzero import _core  # noqa: E402
from graphzero.machine.ranks import local_threads  # noqa: E402
from graphzero.train import Observer, Trainer, TrainOptions, TrainResult, tasks  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

OPTIONS = TrainOptions(
    hidden=8, fanouts=[3, 2], batch_size=64, epochs=3, memory="32MB", num_threads=1, prefetch=1, device="cpu"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    """Features of 8 MB, which the training nodes and their neighbours cover."""
    splits = {"train": 0.6, "valid": 0.2, "test": 0.2}
    return gz.synthesize(
        tmp_path_factory.mktemp("loaders") / "data", nodes=4000, edges=40_000, dim=512, classes=4, splits=splits
    )


@pytest.fixture
def _cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no page of the features were in RAM: all rows are read, and kept in the loader's own cache."""
    monkeypatch.setattr(tasks, "NeighborLoader", functools.partial(gz.NeighborLoader, io="pread", cache="on"))


def bare(data: gz.Dataset) -> list[int]:
    """What a loader with the budget for itself reads in each epoch."""
    loader = gz.NeighborLoader(
        data.graph,
        data.features["x"],
        fanouts=[3, 2],
        seeds=data.splits["train"],
        batch_size=64,
        shuffle=True,
        seed=0,
        memory=OPTIONS.memory,
        prefetch=1,
        num_threads=1,
        io="pread",
        cache="on",
    )
    read = []
    for _ in range(3):
        for _ in loader:
            pass
        read.append(loader.stats().bytes_read)
    return read


@pytest.mark.usefixtures("_cold")
def test_training_reads_what_a_bare_loader_reads(data: gz.Dataset) -> None:
    alone = bare(data)
    read = [epoch.bytes_read for epoch in Trainer(data, OPTIONS).fit().epochs]
    # How far the sweep is when a batch is asked for depends on the machine: 8 to 20 MB either way, in the first epoch.
    assert read[0] <= 2 * max(alone[0], 12_000_000)
    assert sum(read[1:]) <= 2 * sum(alone[1:])


@pytest.mark.usefixtures("_cold")
def test_all_loaders_together_stay_within_the_budget(data: gz.Dataset) -> None:
    class Watch(Observer):
        most = 0

        def look(self) -> None:
            held = _core.bytes_held()
            self.most = max(self.most, held["total"] - held["idle"])

        def batch(self, *_: Any) -> None:
            self.look()

        def evaluating(self, *_: Any) -> None:
            self.look()

    watch = Watch()
    before = _core.bytes_held()["total"] - _core.bytes_held()["idle"]
    Trainer(data, OPTIONS, observer=watch).fit()
    assert 1_000_000 < watch.most - before <= 32_000_000


@pytest.mark.usefixtures("_cold")
def test_a_budget_for_one_loader_at_a_time_gives_the_same_run(data: gz.Dataset) -> None:
    def outcome(result: TrainResult) -> list[tuple[float, float, float]]:
        return [(e.loss, e.train_accuracy, e.val_accuracy) for e in result.epochs]

    large = Trainer(data, OPTIONS).fit()
    with pytest.raises(gz.BudgetError) as caught:
        Trainer(data, dataclasses.replace(OPTIONS, memory="1MB")).fit()
    least = Trainer(data, dataclasses.replace(OPTIONS, memory=caught.value.needed_bytes)).fit()
    assert outcome(least) == outcome(large)
    assert least.test_accuracy == large.test_accuracy


@pytest.mark.parametrize(("ranks", "threads"), [(None, 6), ("1", 6), ("2", 3), ("4", 1), ("100", 1)])
def test_threads_are_those_that_a_rank_may_use(
    data: gz.Dataset, monkeypatch: pytest.MonkeyPatch, ranks: str | None, threads: int
) -> None:
    seen = []

    class Look(Trainer):
        def loader(self, split: str, num_threads: int, memory: int) -> Any:
            seen.append(num_threads)
            return super().loader(split, num_threads, memory)

    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    _core.set_default_threads(6)  # as affinity and quota would
    try:
        Look(data, dataclasses.replace(OPTIONS, num_threads=None, memory="1GB", epochs=1)).fit()
        alone = gz.NeighborLoader(data.graph, fanouts=[2], memory="1GB")
        next(iter(alone))
    finally:
        _core.set_default_threads(0)
    assert set(seen) == {threads}
    assert alone.stats().plan["threads"] == threads


@pytest.mark.parametrize(("processors", "threads"), [(1, 1), (2, 2), (4, 4), (5, 3), (8, 5), (16, 11), (32, 23)])
def test_threads_that_plan_rows_for_a_gpu_are_not_among_the_loaders(processors: int, threads: int) -> None:
    _core.set_default_threads(processors)
    try:
        assert local_threads(feeds_gpu=True, plans_rows=True) == threads
    finally:
        _core.set_default_threads(0)


@pytest.mark.parametrize(("processors", "threads"), [(1, 1), (2, 2), (4, 4), (5, 4), (16, 15)])
def test_a_processor_is_left_to_the_thread_that_drives_a_gpu(processors: int, threads: int) -> None:
    _core.set_default_threads(processors)
    try:
        assert local_threads(feeds_gpu=True) == threads
        assert local_threads() == processors
    finally:
        _core.set_default_threads(0)
