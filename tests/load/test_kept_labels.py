"""Labels that a device keeps: those of each loader, as they are when its epoch begins."""

from __future__ import annotations

import numpy as np
import pytest
from kept_rows import check_epochs, make_loader, typed_data

import graphzero as gz
from graphzero.load.device import kept_labels, tier

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(tier, "caches_on_cpu", True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return gz.synthesize(tmp_path_factory.mktemp("rows") / "data", nodes=3000, edges=20_000, dim=8, seed=0)


def test_small_labels_are_kept_on_the_device(data, monkeypatch):
    crossed = []
    for share in (1, 1 << 40):
        monkeypatch.setattr(tier, "_LABELS", share)
        there = make_loader(data, split="train", device="cpu", gpu_memory=3000 * 32)
        check_epochs(make_loader(data, split="train"), there)
        crossed.append(there.stats().copy_to_device_bytes)
    assert crossed[1] - crossed[0] == 8 * len(data.splits["train"])


@pytest.mark.parametrize("most", [2**31 - 1, 2**31, 2**40])
@pytest.mark.parametrize("room", [3000 * 4, 3000 * 8])
def test_labels_are_kept_as_int32_if_they_fit_in_that_alone(data, monkeypatch, most, room):
    monkeypatch.setattr(tier, "_LABELS", 3000 * 32 // room)
    labels = np.arange(3000) - 2**31
    labels[::2] = most - np.arange(1500)
    there = make_loader(data, labels=labels, device="cpu", gpu_memory=3000 * 32)
    check_epochs(make_loader(data, labels=labels), there, 1)
    kept = [(table.size, table.table_bytes) for table in there._tier._labels]
    if room >= labels.nbytes:
        assert kept == [(labels.nbytes, labels.nbytes)]
    elif most < 2**31:
        assert kept == [(labels.nbytes // 2, labels.nbytes // 2)]
    else:
        assert kept == []


def in_group(data, gpu_memory):
    """Two loaders of a group with labels of their own: yields each with what its labels should be."""
    labels = [np.arange(3000), np.arange(3000) + 10_000]
    options = {"device": "cpu", "gpu_memory": gpu_memory, "shuffle": True}
    loaders = [make_loader(data.graph, data.features["x"], labels=given, **options) for given in labels]
    with gz.LoaderGroup(*loaders):
        for epoch in range(4):
            yield loaders[epoch % 2], labels[epoch % 2]


@pytest.mark.parametrize("rows", [1000, 2990, 3000])
def test_loaders_of_a_group_have_labels_of_their_own(data, monkeypatch, rows):
    monkeypatch.setattr(tier, "_LABELS", 1)
    for loader, labels in in_group(data, rows * 32):
        for batch in loader:
            assert torch.equal(batch.y, torch.from_numpy(labels)[batch.n_id[: batch.batch_size]])
        kept = loader._handoff.owner(loader)._tier._labels
        assert len(kept) == (1 if rows == 1000 else 2)  # in 1,000 rows there is room for those of one loader


def test_types_of_a_group_have_labels_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(tier, "_LABELS", 1)
    graph, stores = typed_data(tmp_path)
    labels = {"author": np.arange(300), "paper": np.arange(700) + 5000}
    loaders = [make_loader(graph, stores, input_type=t, labels=labels, device="cpu", gpu_memory="1MB") for t in labels]
    with gz.LoaderGroup(*loaders):
        for _ in range(2):
            for loader in loaders:
                for batch in loader:
                    found = batch[loader.input_type]
                    wanted = torch.from_numpy(labels[loader.input_type])
                    assert torch.equal(found.y, wanted[found.n_id[: found.batch_size]])


def test_labels_that_the_user_changes_between_epochs(data, monkeypatch):
    monkeypatch.setattr(tier, "_LABELS", 1)
    labels = np.zeros(3000, np.int64)
    there = make_loader(data, labels=labels, device="cpu", gpu_memory=3000 * 32)
    for value in (0, 7, 2**40):
        labels[:] = value
        assert all(bool((batch.y == value).all()) for batch in there)
    monkeypatch.setattr(tier, "_LABELS", 8)  # they fit as int32 alone
    labels[:] = 1
    there = make_loader(data, labels=labels, device="cpu", gpu_memory=3000 * 32)
    for value in (1, 2**40, 2):
        labels[:] = value
        assert all(bool((batch.y == value).all()) for batch in there)


def test_labels_that_do_not_fit_on_the_device_after_all(data, monkeypatch):
    there, calls = make_loader(data, device="cpu", gpu_memory=3000 * 32 * 20), []

    def fails_once(self):
        calls.append(self)
        if len(calls) == 1:
            raise torch.cuda.OutOfMemoryError("made up")
        upload(self)

    upload = kept_labels.LabelTable._upload
    monkeypatch.setattr(kept_labels.LabelTable, "_upload", fails_once)
    check_epochs(make_loader(data), there)
    assert len(calls) == 2  # in the second epoch it is tried again


def test_labels_of_other_kinds_are_kept_as_they_are(data):
    for labels in (np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32), np.arange(3000) % 2 == 0):
        there = make_loader(data, labels=labels, device="cpu", gpu_memory=3000 * 32 * 20)
        check_epochs(make_loader(data, labels=labels), there, 1)
