"""node2vec from end to end: a graph with communities, walks, skip-gram in torch, embeddings that tell them apart.

    python examples/node2vec.py [--nodes 600] [--epochs 2]

Nobody tells the model which community a node belongs to: it only sees walks. Afterwards a node's nearest neighbours in
the embedding vote on its community, and most are right.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np
import torch

import graphzero as gz


def community_graph(path: str, nodes: int, communities: int, rng: np.random.Generator) -> np.ndarray:
    """Compile a graph in which an edge stays inside its community nine times out of ten; return the communities."""
    member = rng.integers(0, communities, nodes)
    by_community = [np.flatnonzero(member == c) for c in range(communities)]
    src = np.repeat(np.arange(nodes), 8)
    inside = rng.random(len(src)) < 0.9
    dst = np.where(inside, [rng.choice(by_community[c]) for c in member[src]], rng.integers(0, nodes, len(src)))
    gz.compile_graph((src, dst), path, directed=False, num_nodes=nodes, dedup=True, self_loops=False)
    return member


def train(g: gz.Graph, dim: int, epochs: int, batch: int = 4096, negatives: int = 5, seed: int = 0) -> torch.Tensor:
    """Skip-gram with negative sampling over fresh walks every epoch; return the nodes' embeddings."""
    torch.manual_seed(seed)
    center = torch.nn.Embedding(g.num_nodes, dim)
    context = torch.nn.Embedding(g.num_nodes, dim)
    torch.nn.init.normal_(center.weight, std=0.1)
    torch.nn.init.normal_(context.weight, std=0.1)
    optimizer = torch.optim.Adam([*center.parameters(), *context.parameters()], lr=0.02)
    seeds = gz.Generator(seed)
    starts = np.repeat(np.arange(g.num_nodes), 4)
    for epoch in range(epochs):
        walks = g.batch_random_walk(starts, 10, p=1.0, q=0.5, seed=seeds)
        pairs = gz.walk_pairs(walks, window=4, shuffle=True, seed=seeds)
        total = 0.0
        for u, v in zip(*(torch.from_numpy(side).split(batch) for side in pairs), strict=True):
            others = torch.randint(0, g.num_nodes, (len(u), negatives))
            x = center(u)
            near = (x * context(v)).sum(-1)
            far = (context(others) @ x.unsqueeze(-1)).squeeze(-1)
            loss = -torch.nn.functional.logsigmoid(near).mean() - torch.nn.functional.logsigmoid(-far).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(u)
        print(f"epoch {epoch + 1}: {len(pairs.center):,} pairs, loss {total / len(pairs.center):.3f}")
    return center.weight.detach()


def agreement(embedding: torch.Tensor, member: np.ndarray, neighbours: int = 10) -> float:
    """How often the nearest neighbours of a node, by cosine, vote for its own community."""
    x = torch.nn.functional.normalize(embedding, dim=1)
    similar = x @ x.T
    similar.fill_diagonal_(-1)
    votes = torch.from_numpy(member)[similar.topk(neighbours).indices]
    return float((votes.mode(dim=1).values == torch.from_numpy(member)).float().mean())


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
    arguments = parser.parse_args()
    main(arguments.nodes, arguments.epochs)
