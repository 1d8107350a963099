"""Rows that cannot be, in a file nobody verified: every call of the package raises a typed error or stays in range."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from corpus.container import topology
from waiting import PATIENCE

import graphzero as gz

ROOT = Path(__file__).resolve().parents[2]
NODES, EDGES = 64, 400
HUGE = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]


def sound(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    indptr = np.sort(np.concatenate([[0, EDGES], rng.integers(0, EDGES, NODES - 1)])).astype(np.uint64)
    return indptr, rng.integers(0, NODES, EDGES, dtype=np.uint32)


def damaged() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Topologies, each with one thing wrong."""
    found = {}
    for value in [*HUGE, EDGES + 1]:
        for place in (0, 1, NODES // 2, NODES):
            indptr, indices = sound()
            indptr[place] = value
            found[f"indptr[{place}]={value}"] = (indptr, indices)
    for value in (NODES, NODES + 1, 2**31 - 1, 2**31, 2**32 - 1):
        for place in (0, EDGES // 2, EDGES - 1):
            indptr, indices = sound()
            indices[place] = value
            found[f"indices[{place}]={value}"] = (indptr, indices)
    indptr, indices = sound()
    found["indptr descends"] = (indptr[::-1].copy(), indices)
    found["indptr random"] = (np.random.default_rng(1).integers(0, 2**64, NODES + 1, dtype=np.uint64), indices)
    found["indices random"] = (indptr, np.random.default_rng(2).integers(0, 2**32, EDGES, dtype=np.uint32))
    return found


def extras(bad: bool) -> dict[str, np.ndarray]:
    """Weights, times and edge ids; where `bad`, as wrong as can be."""
    if not bad:
        return {
            "weights": np.ones(EDGES, np.float32),
            "cumulative": np.arange(1, EDGES + 1, dtype=np.float64),
            "times": np.zeros(EDGES, np.int64),
            "by_time": np.zeros(EDGES, np.uint32),
        }
    rng = np.random.default_rng(3)
    odd = np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, 3e38])
    return {
        "weights": rng.choice(odd, EDGES).astype(np.float32),
        "cumulative": rng.choice(odd, EDGES),
        "edge_ids": rng.integers(0, 2**64, EDGES, dtype=np.uint64),
        "times": rng.integers(-(2**63), 2**63 - 1, EDGES),
        "by_time": rng.integers(0, 2**32, EDGES, dtype=np.uint32),
    }


# Runs in a process of its own, where a crash is a return code.
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import graphzero as gz
import test_bad_rows as these

folder = Path(sys.argv[1])
answered = refused = 0
for path in sorted(folder.glob("*.gl")):
    g = gz.Graph(path)
    for name, call in these.calls(g):
        try:
            result = call()
        except gz.FormatError as error:
            assert str(path) in str(error), (name, error)
            refused += 1
            continue
        except ValueError as error:  # "all pairs are edges", "no weights": true of some of these graphs
            assert "out of range" not in str(error)
            refused += 1
            continue
        answered += 1
        for ids in these.ids_of(result):
            assert ids.size == 0 or (ids.min() >= -1 and ids.max() < g.num_nodes), (path, name, ids)
print(answered, refused)
"""


def calls(g: gz.Graph) -> list[tuple[str, object]]:
    """Every way into the rows of a graph, as (name, call)."""
    ids = np.arange(g.num_nodes)
    found = [(f"get_{what}", lambda i=i, what=what: getattr(g, f"get_{what}")(i)) for what in ("degree",) for i in ids]
    for what in ("neighbours", "weights", "times", "edge_ids"):
        found += [(f"get_{what}", lambda i=i, what=what: getattr(g, f"get_{what}")(i)) for i in (0, 1, 32, 63)]
    found += [("degrees", lambda: g.degrees()), ("degrees", lambda: g.degrees(ids)), ("csr", g.csr)]
    for options in (
        {},
        {"replace": True},
        {"weighted": True},
        {"weighted": True, "replace": True},
        {"disjoint": True},
        {"method": "labor"},
        {"time": np.full(len(ids), 5)},
        {"time": np.full(len(ids), 5), "temporal": "last"},
        {"num_threads": 2},
        {"exclude_edges": np.stack([ids, ids[::-1]]), "exclude_reverse": True},
        {"subgraph": "bidirectional"},
        {"subgraph": "induced"},
    ):
        for fanouts in ([3, 3], [-1], [20, 2]):
            found.append((f"sample {options}", lambda f=fanouts, o=options: g.sample(ids, f, seed=1, **o)))
    for weighted in (False, True):
        found.append(("fanout", lambda w=weighted: g.batch_random_fanout(ids, 5, weighted=w, seed=1)))
        found.append(("fanout", lambda w=weighted: g.batch_random_fanout(ids, 500, weighted=w, pad=-1, seed=1)))
        found.append(("walk", lambda w=weighted: g.batch_random_walk_uniform(ids, 9, seed=1)))
        found.append(("node2vec", lambda w=weighted: g.batch_random_walk(ids, 9, p=0.3, q=3.0, weighted=w, seed=1)))
        found.append(("neighbours", lambda w=weighted: g.sample_neighbours(5, 9)))
    pairs = np.stack([ids, np.roll(ids, 7)])
    for options in (
        {},
        {"neg_sampling": "binary", "exclude": "reverse"},
        {"neg_sampling": "triplet", "neg_method": "degree", "strict": True},
    ):
        found.append((f"sample_links {options}", lambda o=options: g.sample_links(pairs, [3, 3], seed=1, **o)))
    found.append(("to_arrow", lambda: g.to_arrow().read_all()))
    found += [("has_edge", lambda i=i: g.has_edge(i, (i + 7) % g.num_nodes)) for i in (0, 1, 32, 63)]
    found.append(("subgraph", lambda: g.subgraph(ids[::2])))
    found.append(("to_networkx", g.to_networkx))
    found += analytics_calls(g)
    brief = {"dim": 8, "walks_per_node": 1, "progress": False}
    for weighted in (False, True):
        found.append(("embed", lambda w=weighted: (gz.embed(g, q=0.5, weighted=w, **brief),)))
    found.append(("negatives", lambda: g.negative_edges(100, seed=1)))
    found.append(("negatives", lambda: g.negative_edges(100, method="degree", seed=1)))
    return found


def analytics_calls(g: gz.Graph) -> list[tuple[str, object]]:
    """Every function of gz.analytics, from the mapping and by reads."""
    found = []
    for io in ("mmap", "read"):
        common = {"io": io, "progress": False}
        for name in ("degrees", "core_numbers", "triangles", "clustering", "label_propagation"):
            found.append((name, lambda n=name, c=common: getattr(gz.analytics, n)(g, **c)))
        for weighted in (False, True):
            found.append(("pagerank", lambda w=weighted, c=common: gz.analytics.pagerank(g, weighted=w, **c)))
        for kind in ("weak", "strong"):
            found.append(
                ("components", lambda k=kind, c=common: gz.analytics.connected_components(g, connection=k, **c))
            )
        found.append(("bfs", lambda c=common: gz.analytics.bfs(g, 0, **c)))
        found.append(("hop_counts", lambda c=common: gz.analytics.hop_counts(g, [0, 5, 63], **c)))
    return found


def ids_of(result: object) -> list[np.ndarray]:
    """The arrays of a result that hold node ids."""
    if isinstance(getattr(result, "node", None), np.ndarray):
        return [result.node]
    if isinstance(result, tuple):
        return []
    return [result] if isinstance(result, np.ndarray) and result.ndim == 2 else []


@pytest.mark.parametrize("bad_extras", [False, True])
def test_no_call_goes_out_of_bounds(tmp_path: Path, bad_extras: bool) -> None:
    for i, (indptr, indices) in enumerate(damaged().values()):
        (tmp_path / f"{i}.gl").write_bytes(topology(indptr, indices, **extras(bad_extras)).bytes())
    if bad_extras:
        (tmp_path / "extras.gl").write_bytes(topology(*sound(), **extras(True)).bytes())
    folders = [ROOT, ROOT / "tests" / "oracles", ROOT / "tests" / "faults"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    answered, refused = map(int, done.stdout.split())
    assert answered > 100
    assert refused > 100


def test_every_call_of_a_graph_is_among_them(tmp_path: Path) -> None:
    # The control of the list above: a new public method that reads rows has to be added to it.
    (tmp_path / "g.gl").write_bytes(topology(*sound(), **extras(False)).bytes())
    source = inspect.getsource(calls)
    # Read nothing; reads pages, not rows; hands out views.
    harmless = {"close", "is_directed", "is_multigraph", "preload", "to_scipy"}
    methods = {n for n, m in inspect.getmembers(gz.Graph, inspect.isfunction) if not n.startswith("_")}
    lacking = {n for n in methods - harmless if n not in source and n.removeprefix("get_") not in source}
    assert not lacking
