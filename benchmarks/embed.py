"""Embeddings: against a loop in torch, against gensim, and of 4 M nodes within 8 GB.

    python benchmarks/embed.py FOLDER [--gensim-python PATH] [--torch] [--json PATH]
    python benchmarks/embed.py FOLDER --large [--limit 8GB] [--nodes 4000000] [--edges 80000000] [--memory SIZE]

The first runs on the package graph of the local apt (63 K packages, the relations between them as undirected edges).
One edge in ten is held out, and the figure of quality is the AUC of cosines: held-out edges against as many pairs that
are not edges, of which one end has the degrees of the edges' ends. The loop in torch is what examples/node2vec.py was
before `gz.embed`: native walks and pairs, Adam, 32 dimensions, two epochs. gensim's Word2Vec (corpus_file, which needs
no Python per word) gets walks of the same number, length and kind as `gz.embed` draws, both have one thread and the
same window, negatives, dimensions and passes; only its train() is timed, while `gz.embed` draws its walks too.

--large synthesizes a graph in FOLDER and embeds it in a control group, which needs root.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import measure
import numpy as np

import graphzero as gz
from graphzero.args.sizes import format_size, parse_size

SAME: dict[str, Any] = {"dim": 128, "walk_length": 20, "walks_per_node": 10, "window": 5, "negatives": 5}

GENSIM = """
import json, sys, time
import numpy as np
from gensim.models.word2vec import Word2Vec
folder, dim, window, negatives, threads = sys.argv[1], *map(int, sys.argv[2:6])
walks = np.load(folder + "/walks.npy")
with open(folder + "/walks.txt", "w") as file:
    np.savetxt(file, walks, fmt="%d")
path = folder + "/walks.txt"
same = {"vector_size": dim, "window": window, "negative": negatives, "sg": 1, "workers": threads, "seed": 1}
model = Word2Vec(**same, min_count=0, sample=0)
model.build_vocab(corpus_file=path)
start = time.perf_counter()
model.train(corpus_file=path, total_words=walks.size, total_examples=len(walks), epochs=1)
seconds = time.perf_counter() - start
found = np.zeros((int(walks.max()) + 1, dim), np.float32)
found[np.array(model.wv.index_to_key, dtype=np.int64)] = model.wv.vectors
np.save(folder + "/gensim.npy", found)
print(json.dumps({"seconds": seconds}))
"""


def package_graph(folder: Path) -> tuple[gz.Graph, np.ndarray, np.ndarray]:
    """The graph without the held-out edges, these, and as many pairs that are not edges; each of shape (2, M)."""
    train, test = folder / "train.gl", folder / "test.npz"
    if not test.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "packages").exists():
            gz.import_dataset("apt:", folder / "packages")
        data = gz.Dataset(folder / "packages")
        ends = [np.stack(edge.graph.to_scipy().nonzero()) for key, edge in data.edges.items() if key[0] == key[2]]
        pairs = np.unique(np.sort(np.concatenate(ends, axis=1), axis=0), axis=1)
        pairs = pairs[:, pairs[0] != pairs[1]].astype(np.int64)
        rng = np.random.default_rng(0)
        nodes = data.nodes["package"].num_nodes
        held = rng.random(pairs.shape[1]) < 0.1
        known = pairs[0] * nodes + pairs[1]
        false = np.stack([rng.permutation(pairs[0, held]), rng.integers(0, nodes, held.sum())])
        ordered = np.sort(false, axis=0)
        fine = (ordered[0] != ordered[1]) & ~np.isin(ordered[0] * nodes + ordered[1], known)
        np.savez(test, true=pairs[:, held], false=false[:, fine])
        gz.compile_graph(tuple(pairs[:, ~held]), train, directed=False, num_nodes=nodes)
    found = np.load(test)
    return gz.Graph(train), found["true"], found["false"]


def auc(x: np.ndarray, true: np.ndarray, false: np.ndarray) -> float:
    """The chance that the cosine of a held-out edge is above that of a pair that is not an edge; ties count half."""
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    scores = [np.einsum("nd,nd->n", x[a], x[b]) for a, b in (true, false)]
    below, up_to = (np.searchsorted(np.sort(scores[1]), scores[0], side) for side in ("left", "right"))
    return float((below + up_to).mean() / 2 / len(scores[1]))


def torch_loop(g: gz.Graph, dim: int = 32, epochs: int = 2, batch: int = 4096, negatives: int = 5) -> np.ndarray:
    """Skip-gram in torch over native walks and pairs, with Adam."""
    import torch

    torch.manual_seed(0)
    tables = (0.1 * torch.randn(g.num_nodes, dim) for _ in range(2))
    center, context = (torch.nn.Embedding.from_pretrained(table, freeze=False) for table in tables)
    optimizer = torch.optim.Adam([*center.parameters(), *context.parameters()], lr=0.02)
    seeds, starts = gz.Generator(0), np.repeat(np.arange(g.num_nodes), 4)
    for epoch in range(epochs):
        np.random.default_rng((0, epoch)).shuffle(starts)
        for some in np.split(starts, range(20_000, len(starts), 20_000)):
            walks = g.batch_random_walk(some, 10, p=1.0, q=0.5, seed=seeds)
            pairs = gz.walk_pairs(walks, window=4, shuffle=True, seed=seeds)
            for u, v in zip(*(torch.from_numpy(side).split(batch) for side in pairs), strict=True):
                others, x = torch.randint(0, g.num_nodes, (len(u), negatives)), center(u)
                near, far = (x * context(v)).sum(-1), (context(others) @ x.unsqueeze(-1)).squeeze(-1)
                log = torch.nn.functional.logsigmoid
                loss = -log(near).mean() - log(-far).sum(-1).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return center.weight.detach().numpy()


def packages(args: argparse.Namespace) -> dict[str, Any]:
    """Run the three on the package graph."""
    g, true, false = package_graph(args.folder)
    g.preload()
    figures: dict[str, Any] = {"nodes": g.num_nodes, "edges": g.num_edges // 2}

    def timed(name: str, work: Any) -> None:
        start = time.perf_counter()
        x = work()
        figures[name] = {"seconds": time.perf_counter() - start, "auc": auc(x, true, false)}

    quiet: dict[str, Any] = {"progress": False, "seed": 1}
    timed("32 dimensions", lambda: gz.embed(g, **SAME | {"dim": 32}, **quiet))
    timed("128 dimensions", lambda: gz.embed(g, **SAME, **quiet))
    timed("one thread", lambda: gz.embed(g, **SAME, num_threads=1, **quiet))
    timed("partitions", lambda: np.asarray(gz.embed(g, **SAME, memory="40MB", out=args.folder / "x.gd", **quiet)))
    if args.gensim_python:
        starts = np.random.default_rng(0).permutation(np.tile(np.arange(g.num_nodes), SAME["walks_per_node"]))
        np.save(args.folder / "walks.npy", g.batch_random_walk(starts, SAME["walk_length"], seed=1))
        options = (SAME["dim"], SAME["window"], SAME["negatives"], 1)
        peer = measure.run_peer(args.gensim_python, GENSIM, args.folder, *options)
        x = np.load(args.folder / "gensim.npy")
        x = np.pad(x, ((0, g.num_nodes - len(x)), (0, 0)))
        figures["gensim"] = {"seconds": peer["seconds"], "auc": auc(x, true, false)}
    if args.torch:
        timed("torch", lambda: torch_loop(g))
    return figures


def rows_of(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The table."""
    names = {
        "32 dimensions": "gz.embed, 32 dimensions",
        "torch": "loop in torch, 32 dimensions",
        "128 dimensions": "gz.embed, 128 dimensions",
        "partitions": "the same within 40 MB",
        "one thread": "gz.embed, 128 dimensions, 1 thread",
        "gensim": "gensim, 128 dimensions, 1 thread",
    }
    rows = []
    for name, title in names.items():
        if name in figures:
            found, against = figures[name], f"AUC {figures[name]['auc']:.4f}"
            peer = {"32 dimensions": "torch", "one thread": "gensim"}.get(name)
            if peer in figures:
                against += f", {figures[peer]['seconds'] / found['seconds']:.1f} times as fast as the next line"
            rows.append((title, f"{found['seconds']:.1f} s", against))
    return rows


def large(args: argparse.Namespace) -> None:
    """Embed a synthetic graph in a control group."""
    import limited

    path = args.folder / "large"
    if args.run:
        walks: dict[str, Any] = {"walk_length": 20, "walks_per_node": args.walks, "window": 5}

        def work() -> dict[str, Any]:
            start = time.perf_counter()
            graph, out = gz.Dataset(path).graph, args.folder / "large.gd"
            store = gz.embed(graph, **walks, memory=args.memory, out=out, seed=1, progress=False)
            return {"seconds": time.perf_counter() - start, "nodes": store.num_nodes, "edges": graph.num_edges}

        limited.child(work)
        return
    if not path.exists():
        gz.synthesize(path, nodes=args.nodes, edges=args.edges, dim=1, memory="4GB")
    figures = limited.run("embed", parse_size(args.limit))
    if "failed" in figures:
        raise SystemExit(str(figures))
    size = f"{figures['nodes']:,} nodes, {figures['edges']:,} edges"
    title = f"Embeddings of a large graph: {size}, in a control group of {args.limit}"
    peak = f"at most {format_size(figures['peak_anonymous'])} without files"
    walks = f"{args.walks} walk{'s' if args.walks > 1 else ''} of 20 steps per node"
    rows = [(f"gz.embed, 128 dimensions, {walks}", f"{figures['seconds']:.0f} s", peak)]
    measure.show(title, rows, args.folder)
    measure.save(args.json, figures, args.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gensim-python", help="an interpreter that has gensim")
    parser.add_argument("--torch", action="store_true", help="also run the loop in torch")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--nodes", type=int, default=4_000_000)
    parser.add_argument("--edges", type=int, default=80_000_000)
    parser.add_argument("--walks", type=int, default=2)
    parser.add_argument("--limit", default="8GB")
    parser.add_argument("--memory", default="auto")
    parser.add_argument("--json")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.large:
        large(args)
        return
    figures = packages(args)
    title = f"Embeddings: {figures['nodes']:,} packages, {figures['edges']:,} undirected edges"
    measure.show(title, rows_of(figures), args.folder)
    measure.save(args.json, figures, args.folder)


if __name__ == "__main__":
    main()
