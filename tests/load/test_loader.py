"""NeighborLoader: what batches hold, that they are the same however they are made, and that it stops when told to."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from waiting import PATIENCE, wait_until

import graphzero as gz

torch = pytest.importorskip("torch")

NODES, EDGES, DIM = 3000, 40_000, 24


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A graph with edge ids, weights and times, features of several kinds, and labels."""
    folder = tmp_path_factory.mktemp("loader")
    rng = np.random.default_rng(5)
    src = rng.integers(0, NODES, EDGES)
    dst = (NODES * rng.random(EDGES) ** 2).astype(np.int64)
    x = rng.standard_normal((NODES, DIM), dtype=np.float32)
    year = rng.integers(1990, 2030, NODES)
    edge_attr = rng.standard_normal((EDGES, 3), dtype=np.float32)
    times = rng.integers(0, 1000, EDGES)
    gz.compile_graph(
        (src, dst), folder / "g.gl", num_nodes=NODES, edge_ids=True, times=times, weights=rng.random(EDGES)
    )
    gz.compile_features({"x": x, "year": year}, folder / "x.gd")
    gz.compile_features(edge_attr, folder / "e.gd")
    gz.compile_features(x, folder / "h.gd", dtype="float16")
    labels = rng.integers(0, 7, NODES)
    return {
        "folder": folder, "x": x, "year": year, "edge_attr": edge_attr, "labels": labels, "src": src, "dst": dst,
        "times": times, "graph": gz.Graph(folder / "g.gl"), "features": gz.FeatureStore(folder / "x.gd"),
    }  # fmt: skip


def make(data, **options):
    settings = {"fanouts": [5, 3], "batch_size": 128, "seed": 1, "memory": "200MB", "labels": data["labels"]}
    return gz.NeighborLoader(data["graph"], data["features"], **(settings | options))


def fingerprint(batch):
    return {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in batch}


def same(a, b):
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, b[key]), key
        else:
            assert value == b[key], key


def test_batches_hold_what_they_say(data):
    seeds = np.random.default_rng(0).permutation(NODES)[:1000]
    loader = make(data, seeds=seeds)
    assert len(loader) == 8
    seen = []
    for batch in loader:
        n_id = batch.n_id.numpy()
        assert np.array_equal(batch.x.numpy(), data["x"][n_id])
        assert np.array_equal(batch.y.numpy(), data["labels"][n_id[: batch.batch_size]])
        assert np.array_equal(n_id[: batch.batch_size], seeds[batch.input_id.numpy()])
        assert len(np.unique(n_id)) == len(n_id)
        row, col = batch.edge_index.numpy()
        e_id = batch.e_id.numpy()  # numbers in the source, since the file keeps them
        assert np.array_equal(data["src"][e_id], n_id[col])
        assert np.array_equal(data["dst"][e_id], n_id[row])
        assert sum(batch.num_sampled_nodes) == batch.num_nodes == len(n_id)
        assert sum(batch.num_sampled_edges) == batch.num_edges
        assert batch.num_sampled_nodes[0] == batch.batch_size
        seen.extend(n_id[: batch.batch_size].tolist())
    assert seen == seeds.tolist()  # not shuffled


def test_batches_equal_graph_sample_and_store_gather(data):
    """The pipeline is the two public calls put together; one hop without a budget shows it."""
    batch = next(iter(make(data, fanouts=[-1], seeds=[5, 9])))
    sub = data["graph"].sample([5, 9], [-1])
    assert np.array_equal(batch.n_id.numpy(), sub.node)
    assert np.array_equal(batch.edge_index.numpy(), sub.edge_index)


@pytest.mark.parametrize(
    "options",
    [
        {"num_threads": 1},
        {"num_threads": 4, "prefetch": 8},
        {"prefetch": 1},
        {"io": "mmap"},
        {"io": "pread"},
        {"io": "uring"},
        {"cache": "on"},
        {"cache": "on", "num_threads": 3, "memory": "40MB"},
        {"cache": "off"},
    ],
)
def test_the_same_batches_however_they_are_made(data, options):
    if options.get("io") == "uring" and gz._core.uring_refusal():
        pytest.skip("io_uring is refused here")
    reference = [fingerprint(b) for b in make(data, shuffle=True, num_threads=2)]
    got = [fingerprint(b) for b in make(data, shuffle=True, **options)]
    assert len(got) == len(reference)
    for a, b in zip(got, reference, strict=True):
        same(a, b)


def test_epochs_are_shuffled_anew_and_can_be_repeated(data):
    loader = make(data, shuffle=True, seeds=np.arange(500))
    orders = [torch.cat([b.input_id for b in loader]) for _ in range(2)]
    for order in orders:
        assert sorted(order.tolist()) == list(range(500))
    assert not torch.equal(*orders)
    loader.set_epoch(0)
    assert torch.equal(torch.cat([b.input_id for b in loader]), orders[0])


def test_neighbours_differ_between_epochs(data):
    loader = make(data, seeds=np.arange(500))
    first, second = ([b.n_id.clone() for b in loader] for _ in range(2))
    assert any(len(a) != len(b) or not torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(("drop_last", "count", "last"), [(False, 4, 116), (True, 3, 128)])
def test_drop_last(data, drop_last, count, last):
    loader = make(data, seeds=np.arange(500), drop_last=drop_last)
    sizes = [b.batch_size for b in loader]
    assert len(sizes) == len(loader) == count
    assert sizes[-1] == last


def test_seeds_as_mask_and_none(data):
    mask = np.zeros(NODES, dtype=bool)
    mask[10:20] = True
    batch = next(iter(make(data, seeds=torch.from_numpy(mask))))
    assert batch.n_id[:10].tolist() == list(range(10, 20))
    assert len(make(data)) == -(-NODES // 128)


def test_several_features_and_edge_features(data):
    store = data["features"]
    half = gz.FeatureStore(data["folder"] / "h.gd")
    edges = gz.FeatureStore(data["folder"] / "e.gd")
    loader = make(data, edge_features=edges, seeds=np.arange(300))
    loader = gz.NeighborLoader(
        data["graph"],
        {"x": store, "year": store["year"], "half": half},
        edge_features=edges,
        fanouts=[4, 2],
        seeds=np.arange(300),
        batch_size=64,
        memory="200MB",
        dtype=torch.float32,
    )
    for batch in loader:
        n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
        assert np.array_equal(batch.year.numpy(), data["year"][n_id])
        assert np.array_equal(batch.half.numpy(), data["x"][n_id].astype(np.float16).astype(np.float32))
        assert np.array_equal(batch.edge_attr.numpy(), data["edge_attr"][e_id])
        assert "y" not in batch


def test_temporal_batches_obey_time(data):
    seeds = np.arange(200)
    when = np.full(200, 300)
    for batch in make(data, seeds=seeds, time=when, batch_size=50):
        assert (data["times"][batch.e_id.numpy()] <= 300).all()
        assert batch.seed_time.tolist() == [300] * 50
        assert batch.batch is not None


def test_transform_and_device(data):
    loader = make(data, device="cpu", transform=lambda b: (b.num_nodes, b.x.device.type), seeds=[1, 2, 3])
    assert [t for _, t in loader] == ["cpu"]


def fail_inside(loader):
    for _ in loader:
        raise RuntimeError("mine")


def threads_now():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
def test_leaving_early_stops_the_threads(data):
    loader = make(data, num_threads=3)
    next(iter(make(data)))
    before = threads_now()
    for _ in loader:
        assert threads_now() >= before
        break
    gc.collect()
    assert wait_until(lambda: threads_now() <= before)
    with pytest.raises(RuntimeError, match="mine"):
        fail_inside(loader)
    gc.collect()
    assert wait_until(lambda: threads_now() <= before)
    iterator = iter(loader)
    next(iterator)
    del iterator
    gc.collect()
    assert wait_until(lambda: threads_now() <= before)
    assert len(list(loader)) == len(loader)  # still as good as new


def test_two_iterations_at_once(data):
    loader = make(data, seeds=np.arange(400))
    pairs = list(zip(loader, loader, strict=True))
    assert len(pairs) == len(loader)
    assert all(a.batch_size == b.batch_size for a, b in pairs)


def test_a_read_error_is_raised_and_the_loader_lives_on(data, tmp_path):
    path = tmp_path / "x.gd"
    gz.compile_features(data["x"], path)
    whole = path.read_bytes()
    store = gz.FeatureStore(path)
    loader = gz.NeighborLoader(
        data["graph"], store, fanouts=[5], seeds=np.arange(1000), batch_size=100, io="pread", memory="100MB"
    )
    with path.open("r+b") as file:
        file.truncate(8192)
    with pytest.raises(gz.StorageError, match=r"x\.gd"):
        list(loader)
    with path.open("r+b") as file:
        file.write(whole)
    assert len(list(loader)) == 10


def test_the_budget_is_kept_or_refused(data):
    with pytest.raises(gz.BudgetError, match="raise memory to"):
        list(make(data, memory="200KB"))
    gz._core.clear_idle_buffers()
    gz._core.reset_bytes_held_peak()
    before = gz._core.bytes_held()["total"]
    loader = make(data, memory="60MB", prefetch=50, cache="on")
    for _ in loader:
        pass
    assert gz._core.bytes_held()["peak"] - before < 60e6
    assert loader.stats().plan["memory"] == 60_000_000


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fanouts": []}, ValueError, "fanouts"),
        ({"fanouts": [-2]}, ValueError, "fanout"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"prefetch": 0}, ValueError, "prefetch"),
        ({"seeds": [NODES]}, IndexError, "out of range"),
        ({"seeds": [-1]}, IndexError, "out of range"),
        ({"seeds": [0.5]}, TypeError, "integers"),
        ({"seeds": np.zeros(3, dtype=bool)}, ValueError, "mask"),
        ({"labels": np.zeros(3)}, ValueError, "labels"),
        ({"memory": "lots"}, ValueError, "memory"),
        ({"io": "telepathy"}, ValueError, "io"),
        ({"cache": "maybe"}, ValueError, "cache"),
        ({"temporal": "never"}, ValueError, "temporal"),
        ({"time": [1, 2]}, ValueError, "time"),
        ({"direction": "in"}, ValueError, "direction"),
        ({"num_threads": -1}, ValueError, "num_threads"),
    ],
)
def test_bad_arguments_are_told(data, options, error, message):
    with pytest.raises(error, match=message):
        iter(make(data, **options))


def test_bad_features_are_told(data):
    with pytest.raises(TypeError, match="FeatureStore"):
        gz.NeighborLoader(data["graph"], {"x": data["x"]}, fanouts=[2])
    with pytest.raises(ValueError, match="reserved"):
        gz.NeighborLoader(data["graph"], {"n_id": data["features"]}, fanouts=[2])


def test_stats_add_up(data):
    loader = make(data, io="pread", cache="off")
    assert loader.stats().bottleneck == "nothing yet"
    nodes = sum(b.num_nodes for b in loader)
    stats = loader.stats()
    assert stats.batches == len(loader)
    assert stats.nodes == stats.rows == nodes
    assert stats.bytes_useful == nodes * DIM * 4
    assert stats.bytes_read >= 4096
    assert stats.bottleneck in ("training step", "sampling", "reading", "copying")
    assert "batches" in str(stats)
    assert stats.to_dict()["hit_rate"] == 0.0


def test_two_epochs_at_once_share_a_cache(data):
    loader = make(data, cache="on", io="pread", memory="60MB")
    expected = [fingerprint(b) for b in make(data)]
    first = iter(loader)
    next(first)
    loader.set_epoch(0)
    for batch, other in zip(loader, expected, strict=True):  # the caches hear of the first alone
        same(fingerprint(batch), other)
    for batch, other in zip(first, expected[1:], strict=True):
        same(fingerprint(batch), other)
    assert len(list(loader)) == len(loader)


def test_hits_are_counted_with_a_cache(data):
    loader = make(data, cache="on", io="pread")
    for _ in range(2):
        for _ in loader:
            pass
    assert loader.stats().hit_rate > 0.9  # everything fits, and the first epoch brought it in


def test_it_does_not_pickle_and_says_what_to_do(data):
    import pickle

    with pytest.raises(TypeError, match="create one there"):
        pickle.dumps(make(data))


def test_no_seeds_is_no_batches(data):
    loader = make(data, seeds=[])
    assert len(loader) == 0
    assert list(loader) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_is_prompt(spawn, data, tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(
        textwrap.dedent(f"""
        import graphzero as gz, numpy as np, torch
        g, fs = gz.Graph({str(data["folder"] / "g.gl")!r}), gz.FeatureStore({str(data["folder"] / "x.gd")!r})
        loader = gz.NeighborLoader(g, fs, fanouts=[5, 3], batch_size=16, memory="100MB")
        try:
            for epoch in range(10**9):
                for batch in loader:
                    pass
                if epoch == 0:
                    print("ready", flush=True)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        """)
    )
    root = Path(gz.__file__).parent.parent
    child = spawn([sys.executable, str(script)], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(root)})
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=PATIENCE)
    assert out == "stopped\n"
    assert child.returncode == 0
