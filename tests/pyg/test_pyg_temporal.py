"""Temporal batches against the contract of PyG's NeighborLoader: whole neighbourhoods equal, limited ones within it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402

from graphzero.pyg import NeighborLoader  # noqa: E402

USERS, ITEMS, EDGES = 30, 20, 240
RELATIONS = [("user", "buys", "item"), ("item", "bought_by", "user"), ("item", "like", "item")]
SEEDS = torch.tensor([3, 17, 3, 29, 8])
TIMES = torch.tensor([40, 90, 10, 0, 60])


def hetero(level: str) -> HeteroData:
    """A graph of two types whose nodes or edges have times; equal times occur."""
    torch.manual_seed(1)
    data = HeteroData()
    counts = {"user": USERS, "item": ITEMS}
    for name, count in counts.items():
        data[name].x = torch.arange(count).float().view(-1, 1)
        if level == "nodes":
            data[name].time = torch.randint(0, 100, (count,))
    for source, name, target in RELATIONS:
        edge = data[source, name, target]
        edge.edge_index = torch.stack([torch.randint(0, counts[t], (EDGES,)) for t in (source, target)])
        if level == "edges":
            edge.time = torch.randint(0, 100, (EDGES,))
    return data


def neighbours(data: HeteroData, node: tuple[str, int], time: int) -> dict[Any, list[tuple[int, int, int]]]:
    """Return (time, source, edge id) of what a node may sample, by relation."""
    found = {}
    for relation in data.edge_types:
        if relation[2] != node[0]:
            continue
        edges, timed = data[relation], data[relation[0]].get("time")
        rows = [
            (int(edges.time[e] if "time" in edges else timed[u]), int(u), e)
            for e, (u, v) in enumerate(edges.edge_index.t().tolist())
            if v == node[1]
        ]
        found[relation] = [row for row in rows if row[0] <= time]
    return found


def whole_tree(data: HeteroData, seed: tuple[str, int], time: int, hops: int) -> tuple[set[Any], Counter[Any]]:
    """Return the nodes and the edges that a seed sees with full neighbourhoods."""
    nodes, edges, last = {seed}, Counter(), {seed}
    for _ in range(hops):
        met = set()
        for node in last:
            for relation, rows in neighbours(data, node, time).items():
                edges.update((relation, e) for _, _, e in rows)
                met |= {(relation[0], u) for _, u, _ in rows}
        last = met - nodes
        nodes |= met
    return nodes, edges


def trees(batch: Any) -> list[tuple[set[Any], Counter[Any]]]:
    """Return the nodes and edges of each seed of a batch."""
    found = [(set(), Counter()) for _ in range(batch["user"].batch_size)]
    for name in batch.node_types:
        for node, tree in zip(batch[name].n_id.tolist(), batch[name].batch.tolist(), strict=True):
            assert (name, node) not in found[tree][0]  # once per tree
            found[tree][0].add((name, node))
    for relation in batch.edge_types:
        own = batch[relation[2]].batch[batch[relation].edge_index[1]]
        assert torch.equal(own, batch[relation[0]].batch[batch[relation].edge_index[0]])
        for edge, tree in zip(batch[relation].e_id.tolist(), own.tolist(), strict=True):
            found[tree][1][relation, edge] += 1
    return found


def batches(data: Any, fanouts: list[int], strategy: str, seeds: Any = ("user", SEEDS)) -> Any:
    return NeighborLoader(
        data, fanouts, seeds, TIMES, time_attr="time", temporal_strategy=strategy, disjoint=True, batch_size=2
    )


@pytest.mark.parametrize("strategy", ["uniform", "last"])
@pytest.mark.parametrize("level", ["nodes", "edges"])
def test_whole_neighbourhoods_are_those_of_the_past(level: str, strategy: str) -> None:
    data = hetero(level)
    found = [tree for batch in batches(data, [-1, -1], strategy) for tree in trees(batch)]
    wanted = [whole_tree(data, ("user", int(seed)), int(time), 2) for seed, time in zip(SEEDS, TIMES, strict=True)]
    assert found == wanted
    assert len({len(nodes) for nodes, _ in wanted}) > 1  # the times matter


@pytest.mark.parametrize("strategy", ["uniform", "last"])
@pytest.mark.parametrize("level", ["nodes", "edges"])
def test_limited_fanouts_keep_counts_and_order(level: str, strategy: str) -> None:
    data, fanout = hetero(level), 2
    for batch in batches(data, [fanout, fanout], strategy):
        times = batch["user"].seed_time
        for relation in batch.edge_types:
            edges, target = batch[relation], batch[relation[2]]
            for place in range(sum(target.num_sampled_nodes[:2])):  # every node but those of the last hop is expanded
                node, time = (relation[2], int(target.n_id[place])), int(times[target.batch[place]])
                may = neighbours(data, node, time)[relation]
                got = edges.e_id[edges.edge_index[1] == place].tolist()
                assert len(set(got)) == len(got) == min(fanout, len(may))
                of = {e: time for time, _, e in may}
                assert set(got) <= set(of)
                if strategy == "last":
                    assert sorted(of[e] for e in got) == sorted(of.values())[len(of) - len(got) :]


@pytest.mark.parametrize("level", ["nodes", "edges"])
def test_one_type(level: str) -> None:
    typed = hetero(level)
    relation = ("item", "like", "item")
    name = "time" if level == "nodes" else "when"  # PyG: any other name is of edges
    times = typed["item"].time if level == "nodes" else typed[relation].time
    data = Data(edge_index=typed[relation].edge_index, num_nodes=ITEMS, **{name: times})
    seeds = SEEDS % ITEMS
    loader = NeighborLoader(data, [-1, -1], seeds, TIMES, time_attr=name, batch_size=len(SEEDS))
    (batch,) = loader
    only = HeteroData()
    only["item"].num_nodes = ITEMS
    only[relation].edge_index = data.edge_index
    (only["item"] if level == "nodes" else only[relation]).time = times
    for tree, (seed, time) in enumerate(zip(seeds.tolist(), TIMES.tolist(), strict=True)):
        nodes, edges = whole_tree(only, ("item", seed), time, 2)
        assert {("item", n) for n in batch.n_id[batch.batch == tree].tolist()} == nodes
        assert Counter((relation, e) for e in batch.e_id[batch.batch[batch.edge_index[1]] == tree].tolist()) == edges
