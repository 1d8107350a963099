"""An epoch that some ranks began and others end: every batch of a single process once, for every kind of loader."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from loader_kinds import KINDS, arrays_of, loader_kinds, seeds_of

torch = pytest.importorskip("torch")

EPOCH = 3
CHANGES = [(1, 2), (2, 1), (2, 3), (3, 2), (1, 5), (5, 1)]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return loader_kinds(tmp_path_factory.mktemp("kinds"))


def contents(batch: Any) -> tuple[Any, ...]:
    """A batch as something that compares."""
    return tuple((k, v.numpy().tobytes() if torch.is_tensor(v) else str(v)) for k, v in arrays_of(batch).items())


def epoch_of(loader_like, first: int = 0, **options: Any) -> list[Any]:
    loader = loader_like(**options)
    loader.set_epoch(EPOCH, first)
    count, batches = len(loader), list(loader)
    assert len(batches) == count
    assert loader.epoch == EPOCH + 1
    return batches


def in_turns(ranks: list[list[Any]]) -> list[Any]:
    longest = max(map(len, ranks))
    return [batches[i] for i in range(longest) for batches in ranks if i < len(batches)]


# Batch sizes that give an odd and an even number of batches, the last one short or not.
@pytest.mark.parametrize("batch_size", [7, 30])
@pytest.mark.parametrize("drop_last", [False, True], ids=["all", "drop_last"])
@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_goes_on_with_another_number_of_ranks(kinds, kind, shuffle, drop_last, batch_size):
    options = {"shuffle": shuffle, "drop_last": drop_last, "batch_size": batch_size}
    if "link" in kind:  # of all edges, some; and negatives, which are drawn again for a batch that is made again
        options |= {"batch_size": 10 * batch_size, "neg_sampling": "binary"}
    one = epoch_of(kinds[kind], **options)
    whole = [contents(batch) for batch in one]
    assert len(whole) > 4
    for before, after in CHANGES:
        begun = [epoch_of(kinds[kind], rank=r, world_size=before, **options) for r in range(before)]
        for rounds in (1, len(whole) // before // 2, len(whole) // before):
            done = in_turns([batches[:rounds] for batches in begun])
            first = len(done)
            assert [contents(batch) for batch in done] == whole[:first]

            def rest(uneven, first=first, after=after):
                ranks = [
                    epoch_of(kinds[kind], first, rank=r, world_size=after, uneven=uneven, **options)
                    for r in range(after)
                ]
                return in_turns(ranks), {len(batches) for batches in ranks}

            kept, _ = rest("keep")
            assert [contents(batch) for batch in kept] == whole[first:]
            seen = Counter(seed for batch in done + kept for seed in seeds_of(batch))
            assert seen == Counter(seed for batch in one for seed in seeds_of(batch))
            assert set(seen.values()) == {1}
            padded, counts = rest("pad")
            assert len(counts) == 1
            assert [contents(batch) for batch in padded] == (whole[first:] + whole)[: len(padded)]
            assert len(whole) - first <= len(padded) < len(whole) - first + after
            cut, counts = rest("drop")
            assert len(counts) == 1
            assert [contents(batch) for batch in cut] == whole[first:][: len(cut)]
            assert len(cut) == (len(whole) - first) // after * after


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_of_which_all_is_done_has_no_batches(kinds, kind):
    count = len(kinds[kind]())
    for first in (count, count + 1, 10 * count):
        for uneven in ("keep", "pad", "drop"):
            assert epoch_of(kinds[kind], first, rank=1, world_size=2, uneven=uneven) == []
