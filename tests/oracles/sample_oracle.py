"""A slow, plain sampler that makes the same draws as the engine: one loop, Python ints, no tables.

It is written from the rules (docs of Graph.sample, core/sample/*/*.h), so that a fast path that strays from them shows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def absorb(key, word):
    return mix((key + GOLDEN & MASK) ^ mix(word + GOLDEN & MASK))


def make_key(*words):
    key = 0
    for word in words:
        key = absorb(key, word)
    return key


class Random:
    def __init__(self, key):
        self.state = key

    def next(self):
        self.state = self.state + GOLDEN & MASK
        return mix(self.state)

    def below(self, n):
        return self.next() * n >> 64

    def unit(self):
        return (self.next() >> 11) * 2.0**-53


def floyd(random, n, count):
    out = []
    for last in range(n - count, n):
        drawn = random.below(last + 1)
        out.append(last if drawn in out else drawn)
    return out


def weighted_one(random, sums):
    target = random.unit() * sums[-1]
    at = bisect_right(sums, target)
    return at if at < len(sums) else bisect_left(sums, sums[-1])


def weighted_distinct(random, weights, count):
    """Draw by running sums; once what is left weighs next to nothing, what is left is a row of its own."""
    left, out = list(range(len(weights))), []
    while True:
        sums = list(accumulate(weights[i] for i in left))
        out += [left[i] for i in by_sums(random, sums, count - len(out))]
        if len(out) == count:
            return out
        left = [i for i, w in enumerate(weights) if w > 0 and i not in out]
        if not left:
            return out


def by_sums(random, sums, count):
    if count > 32 and count > len(sums) // count:
        return by_tree(random, sums, count)
    chosen, out = [], []
    while len(out) < count:
        bounds = [-1, *sorted(chosen), len(sums)]
        gaps = [(a + 1, b) for a, b in pairwise(bounds)]
        weights = [0.0 if a == b else sums[b - 1] - (sums[a - 1] if a else 0.0) for a, b in gaps]
        left = 0.0
        for w in weights:
            left += w
        if left <= sums[-1] * 2.0**-24:
            break
        target = random.unit() * left
        heavy = [g for g, w in enumerate(weights) if w > 0]
        for g in heavy:
            if target < weights[g]:
                break
            target -= weights[g]
        a, b = gaps[g]
        at = bisect_right(sums, (sums[a - 1] if a else 0.0) + target, a, b)
        if at == b:
            at = bisect_left(sums, sums[b - 1], a, b)
        chosen.append(at)
        out.append(at)
    return out


def by_tree(random, sums, count):
    leaves = 1
    while leaves < len(sums):
        leaves *= 2
    tree = [0.0] * (2 * leaves)
    for i, s in enumerate(sums):
        tree[leaves + i] = max(s - (sums[i - 1] if i else 0.0), 0.0)
    for i in range(leaves - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]
    out = []
    least = tree[1] * 2.0**-24
    while len(out) < count and tree[1] > least:
        target, at = random.unit() * tree[1], 1
        while at < leaves:
            left, right = tree[2 * at], tree[2 * at + 1]
            if left > 0 and (target < left or right <= 0):
                at = 2 * at
            else:
                target -= left
                at = 2 * at + 1
        out.append(at - leaves)
        tree[at] = 0.0
        while at > 1:
            at //= 2
            tree[at] = tree[2 * at] + tree[2 * at + 1]
    return out


def last_of(edges, fanout, weighted):
    """The last `fanout` of edges in order; an edge of weight zero takes no place."""
    if not 0 <= fanout < len(edges):
        return edges
    edges = [e for e in edges if e[1] > 0] if weighted else edges
    return edges[max(len(edges) - fanout, 0) :]


class Rows:
    """The graph as plain lists: row -> edges of (neighbour, weight, time, id, position)."""

    def __init__(self, num_nodes, src, dst, weights=None, times=None, edge_ids=False):
        self.weighted, self.timed = weights is not None, times is not None
        order = sorted(range(len(src)), key=lambda e: (src[e], dst[e], e))
        self.rows = [[] for _ in range(num_nodes)]
        for position, e in enumerate(order):
            w = float(np.float32(weights[e])) if self.weighted else 1.0  # as the file keeps it
            t = int(times[e]) if self.timed else 0
            self.rows[src[e]].append((int(dst[e]), w, t, e if edge_ids else position, position))

    def choose(self, node, batch, hop, fanout, time, o):
        """The edges that a hop takes from `node`, in order."""
        edges = [e for e in self.rows[node] if (node, e[0]) not in o["exclude"]]
        if time is not None:
            edges = sorted((e for e in edges if e[2] <= time), key=lambda e: e[2])
            if o["temporal"] == "last":
                edges = last_of(edges, fanout, o["weighted"])
        return self.draw(edges, make_key(o["seed"], hop), node, batch, fanout, o)

    @staticmethod
    def draw(edges, hop_key, node, batch, fanout, o):
        """The edges that are drawn of those that may be."""
        n = len(edges)
        if n == 0 or fanout == 0:
            return []
        take_all = fanout < 0 or (not o["replace"] and fanout >= n)
        key = absorb(hop_key, node)
        if batch is not None:
            key = absorb(key, batch)
        random = Random(key)
        if o["weighted"]:
            if take_all:
                return [e for e in edges if e[1] > 0]
            sums = list(accumulate(e[1] for e in edges))
            if sums[-1] <= 0:
                return []
            if o["replace"]:
                return [edges[weighted_one(random, sums)] for _ in range(fanout)]
            return [edges[i] for i in weighted_distinct(random, [e[1] for e in edges], fanout)]
        if take_all:
            return edges
        if o["replace"]:
            return [edges[random.below(n)] for _ in range(fanout)]
        if o["method"] == "labor":
            best = sorted(range(n), key=lambda i: (absorb(hop_key, edges[i][0]), i))[:fanout]
            return [edges[i] for i in sorted(best)]
        return [edges[i] for i in floyd(random, n, fanout)]

    def sample(self, seeds, fanouts, *, replace=False, weighted=False, disjoint=False, time=None, temporal="uniform",
               method="uniform", seed=0, exclude=()):  # fmt: skip
        """`exclude` has (node whose row it is, neighbour) pairs."""
        o = {"replace": replace, "weighted": weighted, "temporal": temporal, "method": method, "seed": seed}
        o["exclude"] = set(exclude)
        disjoint = disjoint or time is not None
        node, batch = list(seeds), list(range(len(seeds)))
        labels = {}
        for i, s in enumerate(seeds):
            labels.setdefault((i if disjoint else 0, s), i)
        row, col, edge, nodes, edges, begin = [], [], [], [len(seeds)], [], 0
        for hop, fanout in enumerate(fanouts):
            end, before = len(node), len(edge)
            for i in range(begin, end):
                tree = batch[i] if disjoint else None
                when = None if time is None else time[batch[i]]
                for e in self.choose(node[i], tree, hop, fanout, when, o):
                    key = (batch[i] if disjoint else 0, e[0])
                    if key not in labels:
                        labels[key] = len(node)
                        node.append(e[0])
                        batch.append(batch[i])
                    row.append(labels[key])
                    col.append(i)
                    edge.append(e[3])
            begin = end
            nodes.append(len(node) - end)
            edges.append(len(edge) - before)
        return {"node": node, "row": row, "col": col, "edge": edge, "batch": batch if disjoint else None,
                "num_sampled_nodes": nodes, "num_sampled_edges": edges}  # fmt: skip
