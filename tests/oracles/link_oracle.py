"""What sampling around edges gives, in plain Python: negatives, seeds, places, times. From the documented rules."""

from __future__ import annotations

import math

from sample_oracle import Random, absorb, make_key
from walk_files import stream


def draw_negatives(count, shape, edges, seed, *, strict, one_type, sources=None):
    """Pairs as `negative_edges` draws them, uniformly; the graph is sparse enough to find one in 128 tries."""
    each = count // len(sources) if sources else 1
    pairs = []
    for i in range(count):
        random = Random(make_key(seed, stream("neg"), i))
        while True:
            u = random.below(shape[0]) if sources is None else sources[i // each]
            v = random.below(shape[1])
            if not strict or ((u, v) not in edges and not (one_type and u == v)):
                pairs.append((u, v))
                break
    return pairs


def link_seeds(links, shape, edges, *, negatives, ratio=1, strict=False, one_type=True, disjoint=False, time=None,
               node_time=(None, None), seed=0):  # fmt: skip
    """`links` are (source, target) pairs. Returns seeds by side, and the fields, by name."""
    count = 0 if negatives is None else math.ceil(len(links) * ratio)
    triplet = negatives == "triplet"
    owner = [i // int(ratio) if triplet else i % len(links) for i in range(count)]
    draw = {"strict": strict, "one_type": one_type, "sources": [u for u, _ in links] if triplet else None}
    pairs = draw_negatives(count, shape, edges, seed, **draw)
    late = [None if triplet else node_time[0], node_time[1]]

    def too_late(pair, i):
        return any(times is not None and times[end] > time[owner[i]] for times, end in zip(late, pair, strict=True))

    for round_ in range(1, 33):
        again = draw_negatives(count, shape, edges, absorb(seed, round_), **draw)
        pairs = [other if too_late(pair, i) else pair for i, (pair, other) in enumerate(zip(pairs, again, strict=True))]
    sides = {"source": [], "target": []}
    trees = []

    def place(side, node, i):
        nodes = sides["source" if one_type else side]
        if disjoint or node not in nodes:
            nodes.append(node)
            trees.append(i)
            return len(nodes) - 1
        return nodes.index(node)

    fields = {}
    src = [place("source", u, i) for i, (u, _) in enumerate(links)]
    src_neg = [] if triplet else [place("source", u, owner[i]) for i, (u, _) in enumerate(pairs)]
    dst = [place("target", v, i) for i, (_, v) in enumerate(links)]
    dst_neg = [place("target", v, owner[i]) for i, (_, v) in enumerate(pairs)]
    if triplet:
        k = int(ratio)
        fields["src_index"], fields["dst_pos_index"] = src, dst
        fields["dst_neg_index"] = dst_neg if k == 1 else [dst_neg[p * k : p * k + k] for p in range(len(links))]
        fields["seed_time"] = time
    else:
        fields["edge_label_index"] = [src + src_neg, dst + dst_neg]
        fields["edge_label_time"] = None if time is None else time + [time[i] for i in owner]
    return sides, trees if disjoint else None, fields
