"""node2vec from end to end: a graph with communities, walks, skip-gram in torch, embeddings that separate them.

    python examples/node2vec.py [--nodes 600] [--epochs 2]

The model sees walks only, not communities. Afterwards a node's nearest neighbours in the embedding vote on its
community, and most are right.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import torch

import graphzero as gz


def community_graph(path: str, nodes: int, communities: int, rng: np.random.Generator) -> np.ndarray:
    """Compile a graph in which an edge stays inside its community nine times out of ten; return the communities."""
    member = np.arange(nodes) % communities
    src, dst = np.repeat(np.arange(nodes), 8), rng.integers(0, nodes, 8 * nodes)
    inside = rng.random(len(src)) < 0.9
    dst = (dst + np.where(inside, (src - dst) % communities, 0)) % nodes
    gz.compile_graph((src, dst), path, directed=False, num_nodes=nodes, dedup=True, self_loops=False)
    return member


def near_pairs(g: gz.Graph, starts: np.ndarray, seeds: gz.Generator, batch: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield batches of nodes that are near each other on walks, from 20,000 starts at a time to bound memory."""
    for some in np.split(starts, range(20_000, len(starts), 20_000)):
        walks = g.batch_random_walk(some, 10, p=1.0, q=0.5, seed=seeds)
        pairs = gz.walk_pairs(walks, window=4, shuffle=True, seed=seeds)
        yield from zip(*(torch.from_numpy(side).split(batch) for side in pairs), strict=True)


def train(g: gz.Graph, dim: int, epochs: int, batch: int = 4096, negatives: int = 5, seed: int = 0) -> torch.Tensor:
    """Skip-gram with negative sampling over fresh walks every epoch; return the nodes' embeddings."""
    torch.manual_seed(seed)
    tables = (0.1 * torch.randn(g.num_nodes, dim) for _ in range(2))
    center, context = (torch.nn.Embedding.from_pretrained(table, freeze=False) for table in tables)
    optimizer = torch.optim.Adam([*center.parameters(), *context.parameters()], lr=0.02)
    seeds, starts = gz.Generator(seed), np.repeat(np.arange(g.num_nodes), 4)
    for epoch in range(epochs):
        total, count = 0.0, 0
        np.random.default_rng((seed, epoch)).shuffle(starts)
        for u, v in near_pairs(g, starts, seeds, batch):
            others, x = torch.randint(0, g.num_nodes, (len(u), negatives)), center(u)
            near, far = (x * context(v)).sum(-1), (context(others) @ x.unsqueeze(-1)).squeeze(-1)
            loss = -torch.nn.functional.logsigmoid(near).mean() - torch.nn.functional.logsigmoid(-far).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(u), count + len(u)
        print(f"epoch {epoch + 1}: {count:,} pairs, loss {total / count:.3f}")
    return center.weight.detach()


def agreement(embedding: torch.Tensor, member: np.ndarray, neighbours: int = 10, most: int = 1000) -> float:
    """How often the nearest neighbours of a node, by cosine, vote for its own community: of `most` random nodes."""
    x, own, right = torch.nn.functional.normalize(embedding, dim=1), torch.from_numpy(member), 0
    nodes = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:most]
    for some in nodes.split(max(1, 2**24 // len(x))):  # 64 MB of similarities at a time
        similar = x[some] @ x.T
        similar[torch.arange(len(some)), some] = -1
        right += int((own[similar.topk(neighbours).indices].mode(dim=1).values == own[some]).sum())
    return right / len(nodes)


def main(nodes: int = 600, epochs: int = 2, communities: int = 4) -> tuple[float, float]:
    """Run it all; return the agreement before and after training."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "communities.gl")
        member = community_graph(path, nodes, communities, np.random.default_rng(0))
        with gz.Graph(path) as g:
            print(g)
            before = agreement(torch.randn(nodes, 32, generator=torch.Generator().manual_seed(0)), member)
            after = agreement(train(g, dim=32, epochs=epochs), member)
    print(f"nearest neighbours agree on the community: {before:.0%} before, {after:.0%} after training")
    return before, after


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=2)
    main(**vars(parser.parse_args()))
