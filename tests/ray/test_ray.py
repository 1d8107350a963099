"""Compile, inference and training on a real cluster of several Ray nodes that share a folder; workers and nodes die."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # workers give way to every other process otherwise
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'graphzero[ray]'")
pa = pytest.importorskip("pyarrow")

import ray_faults  # noqa: E402
from test_ray_parts import edges, write_parquet  # noqa: E402

import graphzero.ray  # noqa: E402
from graphzero.ray import compile as ray_compile  # noqa: E402

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes, each of one CPU."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    for _ in range(2):
        cluster.add_node(wait=False, **{k: v for k, v in NODE.items() if k != "include_dashboard"})
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    for module in (ray_faults, sys.modules[__name__]):  # workers do not have pytest's path
        ray.cloudpickle.register_pickle_by_value(module)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def identical(tmp_path: Path, source: Any, here: Any = None, **options: Any) -> gz.GraphReport:
    """Compile on the cluster and on this machine; the files are the same, and nothing else is left behind."""
    expected = tmp_path / "here.gl"
    gz.compile_graph(source if here is None else here, expected, **{k: v for k, v in options.items() if k != "memory"})
    report = graphzero.ray.compile_graph(source, tmp_path / "there.gl", **options)
    assert (tmp_path / "there.gl").read_bytes() == expected.read_bytes()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    return report


@pytest.mark.usefixtures("cluster")
def test_parquet(tmp_path: Path) -> None:
    columns = edges(60_000, 500)
    columns["src"][:100] = columns["dst"][:100]  # self-loops
    source = write_parquet(tmp_path / "edges", columns, group=40)  # many of a split
    seen: list[tuple[str, int, int]] = []
    report = graphzero.ray.compile_graph(source, tmp_path / "g.gl", progress=lambda *step: seen.append(step))
    assert report.edges == 60_000
    assert seen[-1][0] == "sorting"
    assert seen[-1][1] == seen[-1][2] == 12  # four parts for each CPU
    identical(tmp_path, source, direction="both", times="time", edge_ids=True, num_nodes=900)
    identical(tmp_path, source, directed=False, dedup=True, self_loops=False)
    identical(tmp_path, source, num_nodes=(500, 700), direction="in", memory="1MB")


@pytest.mark.usefixtures("cluster")
def test_ray_dataset(tmp_path: Path) -> None:
    data = pytest.importorskip("ray.data")
    table = pa.table(edges(30_000, 300))
    dataset = data.from_arrow([table.slice(0, 9000), table.slice(9000, 1), table.slice(9001, 0), table.slice(9001)])
    identical(tmp_path, dataset, here=table, edge_ids=True, directed=False)
    assert not dataset.context.execution_options.preserve_order  # it was on meanwhile


@pytest.mark.usefixtures("cluster")
def test_errors_arrive_as_they_were_raised(tmp_path: Path) -> None:
    columns = edges(9000, 100)
    columns["dst"][7123] = 100
    source = write_parquet(tmp_path / "edges", columns, group=500)
    with pytest.raises(gz.InputError, match="edge 7123: found dst 100"):
        graphzero.ray.compile_graph(source, tmp_path / "g.gl", num_nodes=100)
    with pytest.raises(gz.BudgetError) as caught:
        graphzero.ray.compile_graph(source, tmp_path / "g.gl", memory=1000)
    assert caught.value.needed_bytes == 1_000_000
    assert os.listdir(tmp_path) == ["edges"]


@pytest.mark.usefixtures("cluster")
def test_an_error_stops_what_runs_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many failures at any moment, none leaves a file or a task; those that run learn that they are not wanted."""
    columns = edges(9000, 100)
    columns["dst"][0] = 100
    source = write_parquet(tmp_path / "edges", columns, group=500)
    for _ in range(30):
        with pytest.raises(gz.InputError, match="edge 0: found dst 100"):
            graphzero.ray.compile_graph(source, tmp_path / "g.gl", num_nodes=100)
        assert os.listdir(tmp_path) == ["edges"]

    split_source = ray_compile.split_source

    def endless_splits(*arguments: Any) -> Any:
        from dataclasses import replace

        found = split_source(*arguments)
        return replace(found, splits=[found.splits[0], *map(ray_faults.EndlessSplit, found.splits[1:])])

    monkeypatch.setattr(ray_compile, "split_source", endless_splits)
    with pytest.raises(gz.InputError, match="edge 0: found dst 100"):
        graphzero.ray.compile_graph(source, tmp_path / "g.gl", num_nodes=100)
    assert os.listdir(tmp_path) == ["edges"]


@pytest.mark.usefixtures("cluster")
def test_workers_killed_in_both_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split_source, plan_parts = ray_compile.split_source, ray_compile.plan_parts
    markers = tmp_path / "markers"
    markers.mkdir()

    def dying_splits(*arguments: Any) -> Any:
        from dataclasses import replace

        found = split_source(*arguments)
        dying = [ray_faults.DyingSplit(s, f"{markers}/split-{i}") for i, s in enumerate(found.splits)]
        return replace(found, splits=[*dying[:2], *found.splits[2:]])

    def dying_parts(*arguments: Any) -> Any:
        parts = plan_parts(*arguments)
        return [ray_faults.DyingPart.of(p, f"{markers}/part-{i}") if i < 2 else p for i, p in enumerate(parts)]

    monkeypatch.setattr(ray_compile, "split_source", dying_splits)
    monkeypatch.setattr(ray_compile, "plan_parts", dying_parts)
    source = write_parquet(tmp_path / "edges", edges(60_000, 5000), group=2000)
    identical(tmp_path, source, edge_ids=True)
    assert sorted(os.listdir(markers)) == ["part-0", "part-1", "split-0", "split-1"]  # each died once


def workers_of(cluster: Any) -> list[int]:
    """Processes that run our tasks on this cluster: children of its raylets."""
    raylets = {process.process.pid for node in cluster.list_all_nodes() for process in node.all_processes["raylet"]}
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit():
                state = Path("/proc", entry, "stat").read_text()
                name = Path("/proc", entry, "cmdline").read_bytes()
                busy = name.startswith((b"ray::cut", b"ray::count_distinct", b"ray::write"))
                if busy and int(state.rsplit(")", 1)[1].split()[1]) in raylets:
                    found.append(int(entry))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_kills_at_random_times(cluster: Any, tmp_path: Path) -> None:
    """One worker in each compile: 3 here, 20 in a soak. A small budget makes the tasks long enough to be hit."""
    source = write_parquet(tmp_path / "edges", edges(200_000, 5000), group=10_000)
    gz.compile_graph(source, tmp_path / "here.gl", directed=False, dedup=True)
    expected = (tmp_path / "here.gl").read_bytes()
    chance, kills = random.Random(1), 0
    for _ in range(100):
        done = threading.Event()

        def strike(done: threading.Event = done) -> None:
            nonlocal kills
            while not workers_of(cluster) and not done.wait(0.01):
                pass
            done.wait(chance.uniform(0, 0.3))
            for victim in chance.sample(found := workers_of(cluster), min(1, len(found))):
                os.kill(victim, signal.SIGKILL)
                kills += 1

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            options = {"directed": False, "dedup": True, "memory": "1MB"}
            graphzero.ray.compile_graph(source, tmp_path / "there.gl", **options)
        finally:
            done.set()
            thread.join()
        assert (tmp_path / "there.gl").read_bytes() == expected
        if kills == (20 if SOAK else 3):
            return
    pytest.fail(f"100 compiles were done, and only {kills} workers could be hit")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> gz.Dataset:
    folder = tmp_path_factory.mktemp("shared") / "data"
    gz.synthesize(folder, nodes=3000, edges=30_000, dim=16, classes=8)
    return gz.Dataset(folder)


class DyingOnce:
    """A model that kills its worker when it runs a layer for the first time."""

    num_layers, aggregation = 2, "mean"

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def combine(self, layer: int, own: Any, heard: Any) -> Any:
        if len(own) and layer == 1 and ray_faults.first_time(self.marker):
            os.kill(os.getpid(), signal.SIGKILL)
        return own + 2 * heard


@pytest.mark.usefixtures("cluster")
def test_inference(dataset: gz.Dataset, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from graphzero.train import GCN, GraphSAGE

    torch.manual_seed(0)
    x = dataset.features["x"]
    for kind in (GraphSAGE, GCN):
        model = kind(16, 12, 8)
        expected = gz.inference(model, dataset.graph, x, tmp_path / "here.gd")
        report = graphzero.ray.inference(model, dataset.graph, x, tmp_path / "there.gd")
        rows = [gz.FeatureStore(tmp_path / name).get_tensor() for name in ("here.gd", "there.gd")]
        assert report.shape == expected.shape == (3000, 8)
        np.testing.assert_allclose(rows[0], rows[1], rtol=1e-4, atol=1e-5)
        gz.verify(tmp_path / "there.gd")
    whole = graphzero.ray.inference(model, dataset.graph, x, tmp_path / "whole.gd", block_rows=3000)
    assert Path(whole.path).read_bytes() == (tmp_path / "here.gd").read_bytes()  # one block: the very same additions
    assert sorted(os.listdir(tmp_path)) == ["here.gd", "there.gd", "whole.gd"]


@pytest.mark.usefixtures("cluster")
def test_inference_with_a_killed_worker_and_a_plain_module(dataset: gz.Dataset, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    x, marker = dataset.features["x"], tmp_path / "died"
    dying = DyingOnce(str(marker))
    report = graphzero.ray.inference(dying, dataset.graph, x, tmp_path / "there.gd", block_rows=500)
    assert marker.exists()
    again = graphzero.ray.inference(dying, dataset.graph, x, tmp_path / "again.gd", block_rows=500)
    assert Path(report.path).read_bytes() == Path(again.path).read_bytes()
    gz.inference(dying, dataset.graph, x, tmp_path / "here.gd")
    rows = [gz.FeatureStore(tmp_path / name).get_tensor() for name in ("here.gd", "there.gd")]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-4, atol=1e-5)
    pyg = pytest.importorskip("torch_geometric")
    model = pyg.nn.models.GraphSAGE(16, 12, 2, 8)
    torch.manual_seed(0)
    gz.inference(model, dataset.graph, x, tmp_path / "here.gd")
    graphzero.ray.inference(model, dataset.graph, x, tmp_path / "there.gd")
    rows = [gz.FeatureStore(tmp_path / name).get_tensor() for name in ("here.gd", "there.gd")]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not SOAK, reason="TorchTrainer takes half a minute to start: part of `make soak`")
def test_the_training_example_learns(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("ray.train.torch")
    example = Path(__file__).parents[2] / "examples" / "ray_train.py"
    command = [sys.executable, str(example), str(tmp_path / "data"), "--nodes", "4000", "--epochs", "2"]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    accuracy = re.search(r"test accuracy: ([\d.]+)%, (\d) workers", done.stdout)
    assert accuracy is not None, done.stdout
    assert float(accuracy[1]) > 50  # eight classes
    assert accuracy[2] == "2"


def test_a_node_is_lost(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Last: the cluster is smaller afterwards. The node goes while it reads a split."""
    split_source = ray_compile.split_source
    marker = tmp_path / "go"

    def waiting_splits(*arguments: Any) -> Any:
        from dataclasses import replace

        found = split_source(*arguments)
        return replace(found, splits=[ray_faults.WaitingSplit(s, str(marker)) for s in found.splits])

    monkeypatch.setattr(ray_compile, "split_source", waiting_splits)
    doomed = cluster.list_all_nodes()[-1]
    busy = Path(f"{marker}-on-{doomed.node_id}")
    removed = threading.Event()

    def remove() -> None:
        while not busy.exists():
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)
        removed.set()
        marker.touch()

    source = write_parquet(tmp_path / "edges", edges(60_000, 5000), group=2000)
    thread = threading.Thread(target=remove)
    thread.start()
    identical(tmp_path, source, edge_ids=True, direction="both")
    thread.join()
    assert removed.is_set()
