"""The estimate of what loading a dataset takes: the loader's model, a short real run, the arithmetic of sizing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import graphzero as gz
from graphzero import _core
from graphzero.load.device import tier
from graphzero.machine import disk as _disk
from graphzero.machine.estimate import check, estimate

DISK = {"random_1": 10_000.0, "random_256": 200_000.0, "sequential": 3e9}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    folder = tmp_path_factory.mktemp("estimate") / "data"
    splits = {"train": 0.5, "valid": 0.25}
    return gz.synthesize(folder, nodes=20_000, edges=100_000, dim=256, classes=3, splits=splits)


def expect(data: gz.Dataset, **options: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {"fanouts": [4, 3], "batch_size": 200} | options
    return estimate(data, chosen.pop("disk", DISK), **chosen)


def test_what_fits_is_loaded_once_and_then_costs_no_disk(data: gz.Dataset) -> None:
    found = expect(data, memory="1GB")
    assert found["fits_in_ram"]
    assert found["batches"] == 50
    assert 200 < found["rows_a_batch"] <= 200 * (1 + 4 + 12)
    assert found["bytes_a_batch"] == found["rows_a_batch"] * 1024
    assert found["batch_seconds"]["disk"] == 0
    assert found["load_seconds"] == pytest.approx((data.graph.info["file_bytes"] + 20_000 * 1024) / 3e9, rel=0.05)
    assert found["epoch_seconds_cold"] == pytest.approx(found["load_seconds"] + found["epoch_seconds_later"])
    assert found["epoch_seconds_later"] == found["epoch_seconds_in_ram"] > 0
    slow = expect(data, memory="1GB", disk=DISK | {"sequential": 3e6, "random_256": 200.0})
    assert slow["load_seconds"] == pytest.approx(1000 * found["load_seconds"])


def test_rows_on_a_gpu_are_not_copied(data: gz.Dataset) -> None:
    assert "gpu" not in expect(data, memory="1GB")
    some, all_rows = (expect(data, memory="1GB", gpu_bytes=size) for size in (5000 * 1024, 10**9))
    assert some["gpu"]["share_of_rows"] == 0.25
    assert 0.25 < some["gpu"]["hit_rate"] < 1  # batches use some rows more often than others
    assert some["gpu"]["bytes_a_batch"] == pytest.approx((1 - some["gpu"]["hit_rate"]) * some["bytes_a_batch"], abs=1)
    assert (all_rows["gpu"]["hit_rate"], all_rows["gpu"]["bytes_a_batch"]) == (1, 0)
    assert all_rows["gpu"]["epoch_seconds_in_ram"] < all_rows["epoch_seconds_in_ram"]


def test_expected_hits_are_those_of_a_loader(data: gz.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier, "caches_on_cpu", True)
    for share in (0.05, 0.2, 0.5):
        gpu_bytes = int(share * 20_000) * 1024
        options: dict[str, Any] = {"fanouts": [4, 3], "batch_size": 200, "memory": "1GB"}
        loader = gz.NeighborLoader(data, split="train", shuffle=True, device="cpu", gpu_memory=gpu_bytes, **options)
        for _ in range(3):
            for _ in loader:
                pass
        found = loader.stats().device["x"]
        expected = expect(data, gpu_bytes=gpu_bytes, **options)["gpu"]
        assert expected["share_of_rows"] == pytest.approx(share)
        assert expected["hit_rate"] == pytest.approx(found["hits"] / found["rows"], abs=0.05)


def test_what_does_not_fit_is_swept_at_the_speed_of_the_disk(data: gz.Dataset) -> None:
    loader = gz.NeighborLoader(
        data, split="train", fanouts=[4, 3], batch_size=20, memory="40MB", num_threads=1, cache="on"
    )
    graph, parts = loader._source.open()
    speeds = (2e5, 3e9), (2e3, 3e7)
    found = [_core.LoadPlan.estimate(graph, parts, loader._seeds, loader._options, *speed) for speed in speeds]
    for plan, speed in zip(found, speeds, strict=True):
        assert plan["ways"] == {"x": "window"}
        assert plan["window"] > 1
        reads_per_second, bytes_per_second = speed
        whole = 20_000 * 1024 / bytes_per_second / plan["window"]
        assert 0.1 * whole < plan["disk_seconds"] <= plan["rows"]["x"] / reads_per_second
    assert found[1]["disk_seconds"] == pytest.approx(100 * found[0]["disk_seconds"])


def test_a_sweep_is_never_slower_than_a_read_for_each_row_nor_than_the_whole_file() -> None:
    for window in (1, 8, 64):
        assert _core.swept_seconds(1e9, 2000, window, 20_000, 3e9) <= 2000 / 20_000
    assert _core.swept_seconds(1e9, 2000, 64, 20_000, 3e9) < _core.swept_seconds(1e9, 2000, 8, 20_000, 3e9)
    assert _core.swept_seconds(1e9, 1e6, 100, 1e5, 1e9) == pytest.approx(1 / 100, rel=1e-3)  # every page is wanted


def test_a_dataset_without_a_training_split_has_a_size_alone(tmp_path: Path) -> None:
    plain = gz.Dataset.create(tmp_path / "plain", [(0, 1), (1, 2)])
    assert expect(plain) == {"name": plain.name, "bytes": plain.nbytes}


def test_several_types_and_no_features_are_estimated_too(tmp_path: Path) -> None:
    typed = gz.synthesize(tmp_path / "typed", preset="mag", scale=0.0005, dim=4, classes=3)
    assert expect(typed)["rows_a_batch"] > 0
    bare = gz.Dataset.create(tmp_path / "bare", [(0, 1), (1, 2)], splits={"train": [0, 1]})
    found = expect(bare)
    assert found["bytes_a_batch"] == 0
    assert found["epoch_seconds_in_ram"] > 0


def test_the_check_runs_and_tells_the_error(data: gz.Dataset) -> None:
    pytest.importorskip("torch")
    expected = expect(data, memory="1GB")
    cold, later = check(data.path, expected, seconds=5)
    assert (cold["pass"], later["pass"]) == ("cold", "later")
    for found in (cold, later):
        assert 0 < found["batches"] <= 50
        assert found["measured"] > 0
    assert cold["estimated"] - later["estimated"] * cold["batches"] / later["batches"] == pytest.approx(
        expected["load_seconds"]
    )


def test_a_check_that_fails_says_why(data: gz.Dataset) -> None:
    pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match=r"failed: .*raise memory"):
        check(data.path, expect(data, memory="1GB") | {"memory": "1KB"}, seconds=1)


def test_files_are_put_out_of_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int, int, int]] = []

    def advise(file: int, offset: int, length: int, advice: int) -> None:
        calls.append((os.readlink(f"/proc/self/fd/{file}"), offset, length, advice))

    if not hasattr(os, "posix_fadvise") or not os.path.exists("/proc/self/fd"):
        pytest.skip("files are not evicted here")
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(b"x" * 8192)
    monkeypatch.setattr(os, "posix_fadvise", advise)
    _disk.forget(map(str, paths))
    assert calls == [(str(path), 0, 0, os.POSIX_FADV_DONTNEED) for path in paths]


def test_the_arithmetic_of_public_datasets(data: gz.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from sizing import DATASETS, sized

    report = json.loads(json.dumps({"disk": DISK, "dataset": expect(data, memory="1GB")}))
    small, large = (sized(DATASETS[1], report, ram) for ram in (16_000_000_000, 256_000_000_000))
    assert small["topology"] == 4 * 1_615_685_872 + 8 * 111_059_956
    assert small["disk"] - small["topology"] == 111_059_956 * 256
    assert small["window"] > 0
    assert small["epoch"] >= small["epoch in RAM"]
    assert large["epoch"] == large["epoch in RAM"]
    assert sized(DATASETS[-1], report, 16_000_000_000)["epoch"] is None
    # Of several types, each relation and its reverse has an offset for each node that it points to.
    papers, authors, institutions = 121_751_666, 122_383_112, 25_721
    edges = 1_297_748_926 + 386_022_720 + 44_592_586  # cites, writes, affiliated_with
    found = sized(DATASETS[2], report, 64_000_000_000)
    assert found["topology"] == 2 * 4 * edges + 8 * (3 * papers + 2 * authors + institutions)
