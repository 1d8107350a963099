"""A small typed dataset, and what a batch of it must be: a sample with the batch's own seed, and a plain gather."""

from __future__ import annotations

import numpy as np
import pytest
from sample_oracle import make_key

import graphzero as gz

torch = pytest.importorskip("torch")

BATCH = 0x6261746368
COUNTS = {"paper": 300, "author": 140, "venue": 4, "ghost": 7, "empty": 0}
WRITES, CITES, REVIEWS = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("author", "reviews", "paper")
WRITTEN, IN, NEVER = ("paper", "rev_writes", "author"), ("venue", "publishes", "paper"), ("ghost", "haunts", "venue")
EDGES = {WRITES: 900, CITES: 1500, REVIEWS: 200, WRITTEN: 900, IN: 300, NEVER: 0}


class World:
    """A typed dataset on disk, and its rows in memory. Some types have no features, no edges or no nodes."""

    def __init__(self, folder, widths=(24, 7)):
        rng = np.random.default_rng(3)
        graphs = {e: [rng.integers(0, COUNTS[e[k]], n) for k in (0, 2)] for e, n in EDGES.items()}
        graphs[WRITTEN] = graphs[WRITES][::-1]
        self.rows = {
            "paper": {"x": rng.normal(size=(300, widths[0])).astype("float32")},
            "author": {"x": rng.normal(size=(140, widths[1])).astype("float16"), "age": rng.integers(0, 90, 140)},
            "ghost": {"x": rng.normal(size=(7, 3)).astype("float32")},
            WRITES: {"edge_attr": rng.normal(size=(900, 5)).astype("float32")},
            CITES: {"edge_attr": rng.normal(size=(1500, 2)).astype("float32"), "kind": rng.integers(0, 3, 1500)},
        }
        self.labels = {t: rng.integers(0, 4, COUNTS[t]) for t in ("paper", "author")}
        self.splits = {
            "paper": {"train": np.sort(rng.permutation(300)[:150]), "test": np.arange(9)},
            "author": {"test": np.arange(0, 140, 3)},
        }
        blocks = {}
        for e, (src, dst) in graphs.items():
            weights, times = rng.random(len(src)).astype(np.float32), rng.integers(0, 50, len(src))
            blocks[e] = (src, dst, weights, times)
        self.node_time = {t: rng.integers(0, 50, n) for t, n in COUNTS.items()}
        self.ds = gz.Dataset.create(
            folder, graphs=blocks, num_nodes=COUNTS, labels=self.labels, splits=self.splits,
            features={t: named for t, named in self.rows.items() if isinstance(t, str)},
            edge_features={e: named for e, named in self.rows.items() if isinstance(e, tuple)},
        )  # fmt: skip

    def check(self, loader, input_type, ids, fanouts, seed, *, epoch=0, numbers=None, **sample):
        """Compare an epoch with plain samples and gathers; return its batches."""
        batches, seen = [], []
        for number, batch in enumerate(loader):
            number = number if numbers is None else numbers[number]
            place = batch[input_type]
            input_id = place.input_id.numpy()
            seeds = ids[input_id]
            options = dict(sample)
            if "time" in options:
                options["time"] = {input_type: options["time"][input_id]}
            key = make_key(seed, BATCH, epoch, number)
            got = self.ds.hetero.sample({input_type: seeds}, fanouts, seed=key, **options)
            same(batch, got, self.rows)
            assert place.batch_size == len(seeds)
            assert place.n_id[: len(seeds)].tolist() == seeds.tolist()
            if input_type in self.labels:
                assert place.y.tolist() == self.labels[input_type][seeds].tolist()
            batches.append(batch)
            seen += input_id.tolist()
        assert len(batches) == len(loader)
        return batches, seen


def same(batch, got, rows):
    """A batch has the arrays of a sample, with the rows of its nodes and edges, and nothing else."""
    own = {"y", "input_id", "batch_size", "seed_time"}
    assert batch.metadata() == (list(got.node), list(got.edge))
    for t, node in got.node.items():
        data = batch[t]
        assert data.n_id.tolist() == node.tolist()
        assert data.num_sampled_nodes == got.num_sampled_nodes[t]
        assert ("batch" in data) == (got.batch is not None)
        if got.batch is not None:
            assert data.batch.tolist() == got.batch[t].tolist()
        named = rows.get(t, {})
        assert set(data.keys()) - own == {"n_id", "num_sampled_nodes", *named, *(["batch"] if got.batch else [])}
        for name, values in named.items():
            assert torch.equal(data[name], torch.from_numpy(values[node])), (t, name)
    for e, edge in got.edge.items():
        data = batch[e]
        assert data.e_id.tolist() == edge.tolist()
        assert data.edge_index.tolist() == got.edge_index[e].tolist()
        assert data.num_sampled_edges == got.num_sampled_edges[e]
        named = rows.get(e, {})
        assert set(data.keys()) == {"edge_index", "e_id", "num_sampled_edges", *named}
        for name, values in named.items():
            assert torch.equal(data[name], torch.from_numpy(values[edge])), (e, name)
