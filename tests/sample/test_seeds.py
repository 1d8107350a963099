"""Seeds: where random numbers start, whatever the user hands over."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import graphzero as gz
from graphzero.sample.subgraph import resolve_seed


def test_a_generator_repeats_and_advances():
    a, b = gz.Generator(7), gz.Generator(7)
    first = [a.next_seed() for _ in range(100)]
    assert first == [b.next_seed() for _ in range(100)]
    assert len(set(first)) == 100
    assert a.position == 100
    a.position = 3
    assert a.next_seed() == first[3]


def test_a_generator_pickles_and_copies_where_it_is():
    a = gz.Generator(7)
    a.next_seed()
    for twin in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a)):
        assert twin == a
        assert twin.next_seed() == gz.Generator(7, position=1).next_seed()
        assert twin != a
    assert repr(a) == "Generator(7, position=1)"


def test_generators_without_a_seed_differ():
    assert gz.Generator().next_seed() != gz.Generator().next_seed()


def test_threads_never_get_the_same_seed():
    rng, got = gz.Generator(1), []
    threads = [threading.Thread(target=lambda: got.extend(rng.next_seed() for _ in range(500))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(got)) == 2000


def test_what_a_seed_may_be():
    assert resolve_seed(0) == 0
    assert resolve_seed(np.int32(5)) == 5
    assert resolve_seed(2**64 - 1) == 2**64 - 1
    assert resolve_seed(None) != resolve_seed(None)
    rng = np.random.default_rng(3)
    assert resolve_seed(rng) != resolve_seed(rng)
    assert resolve_seed(np.random.default_rng(3)) == resolve_seed(np.random.default_rng(3))


def test_torch_generators_give_seeds():
    torch = pytest.importorskip("torch")
    a, b = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    first = resolve_seed(a)
    assert first == resolve_seed(b)
    assert first != resolve_seed(a)


@pytest.mark.parametrize("bad", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="expected 0 to"):
        resolve_seed(bad)
    with pytest.raises(ValueError):
        gz.Generator(bad)


@pytest.mark.parametrize("bad", [1.5, "7", True, [1]])
def test_a_seed_that_is_no_number_is_refused(bad):
    with pytest.raises(TypeError, match="must be an integer"):
        resolve_seed(bad)
