"""Skip-gram over random walks in plain Python: the same random numbers as the core, one thread, one partition."""

from __future__ import annotations

import numpy as np

import graphzero as gz

MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15
ORDER, WALKS, TRAIN, FIRST = (int.from_bytes(name, "little") for name in (b"order", b"walks", b"train", b"first"))


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def absorb(key: int, word: int) -> int:
    return mix(((key + GOLDEN) & MASK) ^ mix((word + GOLDEN) & MASK))


def make_key(*words: int) -> int:
    key = 0
    for word in words:
        key = absorb(key, word)
    return key


class Random:
    def __init__(self, key: int) -> None:
        self.state = key

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mix(self.state)

    def below(self, n: int) -> int:
        return (self.next() * n) >> 64

    def unit(self) -> float:
        return (self.next() >> 11) * 2.0**-53


def shuffled(n: int, key: int) -> list[int]:
    """The core's permutation of [0, n)."""
    keys, bits = [absorb(key, i) for i in range(6)], max(8, n.bit_length())
    low_bits = bits // 2
    low_mask, high_mask = (1 << low_bits) - 1, (1 << (bits - low_bits)) - 1

    def at(i: int) -> int:
        while True:
            low, high = i & low_mask, i >> low_bits
            for first, second in zip(keys[::2], keys[1::2], strict=True):
                low ^= mix((high + first) & MASK) & low_mask
                high ^= mix((low + second) & MASK) & high_mask
            i = high << low_bits | low
            if i < n:
                return i

    return [at(i) for i in range(n)]


def step(x: np.ndarray, y: np.ndarray, contexts: list[int], outputs: list[int], rate: float, positive: bool) -> None:
    """One step of the kernel, in double precision."""
    wanted = np.zeros(len(outputs))
    wanted[0] = positive
    gradient = rate * (wanted - 1 / (1 + np.exp(-(x[contexts] @ y[outputs].T))))
    added = np.zeros((len(outputs), x.shape[1]))
    for row, context in zip(gradient, contexts, strict=True):
        added += np.outer(row, x[context])
        x[context] += row @ y[outputs]
    y[outputs] += added


def train(g: gz.Graph, **o: object) -> np.ndarray:
    """Train as the core does with one thread. All nodes have the same degree, so that negatives are uniform."""
    n, dim, seed, length = g.num_nodes, o["dim"], o["seed"], o["walk_length"]
    x, y = np.zeros((n, dim)), np.zeros((n, dim))
    for node in range(n):
        random = Random(make_key(seed, FIRST, node))
        y[node] = [(np.float32(random.unit()) - np.float32(0.5)) / np.sqrt(np.float32(dim)) for _ in range(dim)]
    walks_in_block, passes = min(max(2**14 // (length + 1), 8), 4096), o["epochs"] * o["walks_per_node"]
    blocks = -(-n // walks_in_block)
    for number in range(passes * blocks):
        at, block = divmod(number, blocks)
        order = shuffled(n, make_key(seed, ORDER, at))[block * walks_in_block :][:walks_in_block]
        key = make_key(seed, WALKS, at, block)
        walks = g.batch_random_walk(order, length, o["p"], o["q"], seed=key)
        rate = o["learning_rate"] * max(1 - number / (passes * blocks), 1e-4)
        random = Random(make_key(seed, TRAIN, at, block, 0, 0))
        for walk in walks.tolist():
            while len(walk) > 1 and walk[-1] == walk[-2]:
                walk.pop()
            if len(walk) > 1:
                _train_walk(x, y, walk, rate, random, o)
    return x


def _train_walk(x, y, walk, rate, random, o) -> None:
    def negatives(node: int) -> list[int]:
        drawn = [random.below(len(x)) for _ in range(o["negatives"])]
        return [d for d in dict.fromkeys(drawn) if d != node]

    following = negatives(walk[0])
    for at, node in enumerate(walk):
        others = following
        if at + 1 < len(walk):
            following = negatives(walk[at + 1])
        window = random.below(o["window"]) + 1
        contexts = [walk[i] for i in range(max(at - window, 0), min(at + window + 1, len(walk))) if i != at]
        outputs = [node, *others]
        for first in range(0, len(outputs), 6):
            step(x, y, contexts, outputs[first : first + 6], rate, first == 0)
