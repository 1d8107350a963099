"""node2vec from end to end: a graph with communities, vectors of its nodes, neighbours that share a community.

    python examples/node2vec.py [--nodes 600] [--epochs 2]

Training sees walks only, not communities. Afterwards most of the nearest neighbours of a node are from its own.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np

import graphzero as gz


def community_graph(path: str, nodes: int, communities: int, rng: np.random.Generator) -> np.ndarray:
    """Compile a graph in which an edge stays inside its community nine times out of ten; return the communities."""
    member = np.arange(nodes) % communities
    src, dst = np.repeat(np.arange(nodes), 8), rng.integers(0, nodes, 8 * nodes)
    inside = rng.random(len(src)) < 0.9
    dst = (dst + np.where(inside, (src - dst) % communities, 0)) % nodes
    gz.compile_graph((src, dst), path, directed=False, num_nodes=nodes, dedup=True, self_loops=False)
    return member


def agreement(x: np.ndarray, member: np.ndarray) -> float:
    """The share of nearest neighbours, of up to 1000 nodes, that are from the node's own community."""
    nodes = np.random.default_rng(0).permutation(len(x))[:1000]
    near = gz.neighbours(x, nodes, k=10).ids
    return float((member[near] == member[nodes, None]).mean())


def main(nodes: int = 600, epochs: int = 2, communities: int = 4) -> tuple[float, float]:
    """Run it all; return the agreement of random vectors and of trained ones."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "communities.gl")
        member = community_graph(path, nodes, communities, rng)
        before = agreement(rng.normal(size=(nodes, 32)), member)
        after = agreement(gz.embed(path, dim=32, q=0.5, epochs=epochs), member)
    print(f"nearest neighbours from the same community: {before:.0%} of random vectors, {after:.0%} of trained ones")
    return before, after


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=2)
    main(**vars(parser.parse_args()))
