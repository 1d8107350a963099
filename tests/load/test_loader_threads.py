"""An epoch's iterator in the hands of several threads, transforms that fail, and long queues."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")

NODES = 2000


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("threads")
    rng = np.random.default_rng(4)
    gz.compile_graph(rng.integers(0, NODES, (2, 10_000)), folder / "g.gl", num_nodes=NODES)
    gz.compile_features(np.arange(NODES, dtype=np.float32).reshape(-1, 1), folder / "x.gd")
    return gz.Graph(folder / "g.gl"), gz.FeatureStore(folder / "x.gd")


def make(stores, **options):
    return gz.NeighborLoader(*stores, **({"fanouts": [3], "memory": "100MB", "seed": 6, "batch_size": 20} | options))


@pytest.mark.parametrize("options", [{}, {"transform": lambda batch: batch}, {"device": "cpu"}])
def test_threads_that_share_an_iterator_get_every_batch_once(stores, options):
    loader = make(stores, **options)
    iterator = iter(loader)
    start = threading.Barrier(4)
    delivered: list[list[int]] = [[] for _ in range(4)]
    failures: list[BaseException] = []

    def consume(mine):
        start.wait()
        try:
            for batch in iterator:
                mine.append(int(batch.input_id[0]) // 20)
                assert torch.equal(batch.x[:, 0].long(), batch.n_id)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=consume, args=(mine,)) for mine in delivered]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(number for mine in delivered for number in mine) == list(range(100))
    assert all(mine == sorted(mine) for mine in delivered)  # each thread sees its own in order


def test_stop_iteration_in_a_transform_does_not_end_the_epoch_in_silence(stores):
    def transform(batch):
        return next(iter([]))

    with pytest.raises(RuntimeError, match="transform raised StopIteration"):
        list(make(stores, transform=transform))


def test_a_transform_that_fails_ends_the_epoch_with_its_error(stores):
    loader = make(stores, transform=lambda batch: 1 // (int(batch.input_id[0]) - 60))
    iterator = iter(loader)
    with pytest.raises(ZeroDivisionError):
        list(iterator)
    assert next(iterator, None) is None


def test_closing_from_another_thread_ends_the_loop(stores):
    iterator = iter(make(stores))
    next(iterator)
    closer = threading.Thread(target=iterator.close)
    closer.start()
    closer.join()
    assert list(iterator) == []


@pytest.mark.parametrize("prefetch", [64, 1000])
@pytest.mark.parametrize("cache", ["on", "off"])
def test_long_queues(stores, prefetch, cache):
    """More batches ahead than the cache used to be able to hear of."""
    options = {"batch_size": 2, "cache": cache, "io": "pread", "seeds": np.arange(1200)}
    got = [b.n_id.tolist() for b in make(stores, prefetch=prefetch, memory="300MB", **options)]
    assert got == [b.n_id.tolist() for b in make(stores, prefetch=1, **options)]
