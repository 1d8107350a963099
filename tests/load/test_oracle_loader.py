"""Batches against a slow loader in plain Python: which seeds, which draws, which rows; and the same for every setting.

Sizes are drawn around the constants of the engine: pages, powers of two, the short table of the order. A short run in
`make test`, a long one with GRAPHZERO_SOAK=1, which prints how much it compared.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from sample_oracle import Random, make_key

import graphzero as gz

torch = pytest.importorskip("torch")

CASES = 2000 if os.environ.get("GRAPHZERO_SOAK") else 14
SHUFFLE, BATCH, GOLDEN, MASK = 0x73687566666C65, 0x6261746368, 0x9E3779B97F4A7C15, (1 << 64) - 1
NODES = [1, 2, 5, 63, 64, 65, 100, 127, 128, 129, 511, 513, 1000, 1023, 1024, 1025, 2047, 3000]
COLUMNS = [None, 1, 2, 3, 7, 8, 31, 32, 33, 100, 255, 1023, 1024, 1025]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]


class Order:
    """The order of an epoch, from the descriptions in core/load/seeds.h and core/base/permutation.h."""

    def __init__(self, count, shuffle, seed, epoch):
        self.count, self.shuffle = count, shuffle
        random = Random(make_key(seed, SHUFFLE, epoch))
        if count <= 64:
            self.table = list(range(count))
            for i in range(count, 1, -1):
                j = random.next() * i >> 64
                self.table[i - 1], self.table[j] = self.table[j], self.table[i - 1]
            return
        self.height = math.isqrt(count)
        self.width = -(-count // self.height)
        self.keys = [random.next() for _ in range(8)]

    def at(self, position):
        if not self.shuffle:
            return position
        if self.count <= 64:
            return self.table[position]
        while True:
            row, column = divmod(position, self.width)
            for even, odd in zip(self.keys[::2], self.keys[1::2], strict=True):
                row = (row + self.draw(even, column, self.height)) % self.height
                column = (column + self.draw(odd, row, self.width)) % self.width
            position = row * self.width + column
            if position < self.count:
                return position

    @staticmethod
    def draw(key, x, n):
        return Random((key + x * GOLDEN - GOLDEN) & MASK).next() * n >> 64


class Case:
    """A graph with features of nodes and edges, and the settings of a loader, all drawn from one number."""

    def __init__(self, number, folder):
        self.rng = rng = np.random.default_rng([77, number])
        self.folder = folder
        self.nodes = int(rng.choice(NODES))
        self.edges = int(rng.integers(1, 6 * self.nodes + 1))
        self.src = rng.integers(0, self.nodes, self.edges)
        self.dst = (self.nodes * rng.random(self.edges) ** 3).astype(np.int64)  # some nodes have many edges
        self.times = rng.integers(0, 50, self.edges)
        self.weights = rng.random(self.edges).astype(np.float32) * (rng.random(self.edges) < 0.9)
        self.direction = str(rng.choice(["out", "in"]))
        stored = str(rng.choice([self.direction, "both"]))
        gz.compile_graph(
            (self.src, self.dst), folder / "g.gl", num_nodes=self.nodes, direction=stored, edge_ids=True,
            times=self.times, weights=self.weights,
        )  # fmt: skip
        self.graph = gz.Graph(folder / "g.gl")
        self.rows = {name: self.features(name, self.nodes) for name in ("x", "z")}
        self.edge_rows = self.features("edge_attr", self.edges)
        self.labels = rng.integers(0, 9, self.nodes)
        self.draw_settings()

    def features(self, name, rows):
        """A store and what gathering from it must give, as bytes in NumPy's eyes."""
        columns, dtype = COLUMNS[int(self.rng.integers(len(COLUMNS)))], str(self.rng.choice(DTYPES))
        shape = (rows,) if columns is None else (rows, min(columns, 1024 if rows < 600 else 100))
        whole = self.rng.integers(-100 if dtype[0] in "if" or dtype == "bfloat16" else 0, 100, shape)
        values = whole.astype("float32" if dtype == "bfloat16" else dtype)
        gz.compile_features(values, self.folder / f"{name}.gd", dtype=dtype)
        return gz.FeatureStore(self.folder / f"{name}.gd"), values

    def draw_settings(self):
        rng = self.rng
        kind = rng.integers(4)
        count = int(rng.integers(1, self.nodes + 1))
        chosen = rng.permutation(self.nodes)[:count].astype([np.int64, np.int32][int(rng.integers(2))])
        mask = rng.random(self.nodes) < 0.5
        self.seeds, given = [
            (np.arange(self.nodes), None), (chosen, chosen), (chosen, torch.from_numpy(chosen.copy())),
            (np.flatnonzero(mask), mask),
        ][kind]  # fmt: skip
        count = len(self.seeds)
        sizes = [1, 2, 3, 63, 64, 65, 128, count - 1, count, count + 1, 10**6]
        size = max(int(rng.choice(sizes)), 1, count // 40)
        self.sample = {
            "replace": bool(rng.random() < 0.2), "disjoint": bool(rng.random() < 0.3),
            "weighted": bool(rng.random() < 0.2), "time": None,
        }  # fmt: skip
        if rng.random() < 0.25:
            self.sample |= {"weighted": False, "disjoint": True, "time": rng.integers(0, 60, count)}
        fanouts = [int(f) for f in rng.choice([-1, 1, 2, 5, 16, 17], int(rng.integers(1, 4)))]
        self.fanouts = [max(f, 1) for f in fanouts] if self.sample["replace"] else fanouts
        self.seed, self.epoch = int(rng.integers(2**63)), int(rng.integers(4))
        self.shuffle, self.drop_last, self.size = bool(rng.random() < 0.7), bool(rng.random() < 0.2), size
        self.given = given

    def loader(self, **options):
        stores = {name: store for name, (store, _) in self.rows.items()}
        loader = gz.NeighborLoader(
            self.graph, stores, edge_features=self.edge_rows[0], fanouts=self.fanouts, seeds=self.given,
            labels=self.labels, batch_size=self.size, shuffle=self.shuffle, drop_last=self.drop_last, seed=self.seed,
            direction=self.direction, **({"memory": "1GB"} | self.sample | options),
        )  # fmt: skip
        loader.set_epoch(self.epoch)
        return loader

    def expected(self):
        """Each batch as (positions among the seeds, the subgraph that Graph.sample draws for them)."""
        count = len(self.seeds)
        order = Order(count, self.shuffle, self.seed, self.epoch)
        for number, begin in enumerate(range(0, count, self.size)):
            if self.drop_last and begin + self.size > count:
                return
            places = np.array([order.at(i) for i in range(begin, min(begin + self.size, count))])
            when = self.sample["time"]
            how = self.sample | {"time": None if when is None else when[places], "direction": self.direction}
            key = make_key(self.seed, BATCH, self.epoch, number)
            yield places, self.graph.sample(self.seeds[places], self.fanouts, seed=key, **how)

    def check(self, batch, places, sub):
        """One batch, array by array, and its edges against the list of edges that the file was made from."""
        n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
        assert np.array_equal(batch.input_id.numpy(), places)
        assert np.array_equal(n_id, sub.node)
        assert np.array_equal(e_id, sub.edge)
        assert np.array_equal(batch.edge_index.numpy(), sub.edge_index)
        assert np.array_equal(n_id[: batch.batch_size], self.seeds[places])
        assert np.array_equal(batch.y.numpy(), self.labels[self.seeds[places]])
        for name, (_, values) in self.rows.items():
            assert same_values(batch[name], values[n_id]), name
        assert same_values(batch.edge_attr, self.edge_rows[1][e_id])
        neighbour, node = n_id[batch.edge_index.numpy()]
        ends = (self.src, self.dst) if self.direction == "out" else (self.dst, self.src)
        assert np.array_equal(ends[0][e_id], node)
        assert np.array_equal(ends[1][e_id], neighbour)
        if self.sample["weighted"]:
            assert (self.weights[e_id] > 0).all()
        if self.sample["time"] is not None:
            tree = batch.batch.numpy()[batch.edge_index[1].numpy()]
            assert (self.times[e_id] <= batch.seed_time.numpy()[tree]).all()
        self.check_fanouts(batch, ends[0])

    def check_fanouts(self, batch, rows):
        """Every node that a hop met first gets as many edges as the next hop's fanout and its degree allow."""
        if self.sample["weighted"] or self.sample["time"] is not None:
            return
        degrees = np.bincount(rows, minlength=self.nodes)
        found = np.bincount(batch.edge_index[1].numpy(), minlength=batch.num_nodes)
        begin = 0
        for hop, fanout in enumerate(self.fanouts):
            met = slice(begin, begin + batch.num_sampled_nodes[hop])
            degree = degrees[batch.n_id[met].numpy()]
            most = degree if fanout < 0 else np.where(degree > 0, fanout, 0)
            wanted = most if self.sample["replace"] else np.minimum(most, degree)
            assert np.array_equal(found[met], wanted), hop
            begin = met.stop


def same_values(tensor, expected):
    return tuple(tensor.shape) == expected.shape and np.array_equal(tensor.to(torch.float64).numpy(), expected)


def contents(batch):
    return [(k, v.contiguous().view(torch.uint8).numpy().tobytes() if torch.is_tensor(v) else v) for k, v in batch]


def variants(rng):
    """Settings that must not change a batch."""
    ways = ["mmap", "pread", "auto"] + ([] if gz._core.uring_refusal() else ["uring"])
    for _ in range(2):
        yield {
            "num_threads": int(rng.integers(1, 4)), "prefetch": int(rng.integers(1, 9)), "io": str(rng.choice(ways)),
            "cache": str(rng.choice(["on", "off", "auto"])), "memory": str(rng.choice(["300MB", "600MB", "2GB"])),
        }  # fmt: skip


def test_batches_are_those_of_the_plain_loader(tmp_path, capsys):
    batches = compared = edges = 0
    for number in range(CASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        case = Case(number, folder)
        try:
            found = [*case.loader(num_threads=2)]
            expected = [*case.expected()]
            assert len(found) == len(expected) == len(case.loader())
            for batch, (places, sub) in zip(found, expected, strict=True):
                case.check(batch, places, sub)
            reference = [contents(batch) for batch in found]
            for options in variants(case.rng):
                assert [contents(batch) for batch in case.loader(**options)] == reference, options
                compared += len(reference)
            world = int(case.rng.integers(2, 5))
            ranks = [[*case.loader(rank=r, world_size=world, uneven="keep", num_threads=1)] for r in range(world)]
            for rank, mine in enumerate(ranks):
                assert [contents(batch) for batch in mine] == reference[rank::world]
        except BaseException:
            print(f"case {number}: {case.__dict__}")
            raise
        batches, edges = batches + len(found), edges + sum(batch.num_edges for batch in found)
    assert batches > CASES
    with capsys.disabled():
        if os.environ.get("GRAPHZERO_SOAK"):
            print(f"\nloader oracle: {CASES} cases, {batches} batches, {edges} edges, {compared} compared again")


def test_the_oracle_notices_a_wrong_row_and_a_wrong_order(tmp_path):
    """The control: what is compared can differ."""
    case = next(
        c for c in (Case(n, tmp_path) for n in range(1, 99)) if c.shuffle and not c.drop_last and len(c.seeds) > 70
    )
    batch, (places, sub) = next(iter(case.loader())), next(case.expected())
    case.check(batch, places, sub)
    batch.x[0] += 1
    with pytest.raises(AssertionError):
        case.check(batch, places, sub)
    case.epoch += 1
    with pytest.raises(AssertionError):
        case.check(next(iter(case.loader())), places, sub)
