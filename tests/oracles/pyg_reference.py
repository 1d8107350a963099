"""A plain sampler for PyG's loaders, in Python and torch's random numbers: what ours is compared with."""

import torch
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

ONE = ("node", "to", "node")


class ReferenceSampler(BaseSampler):
    """Uniform neighbours without replacement, hop by hop, for a `Data` or a `HeteroData`."""

    def __init__(self, data, fanouts):
        self.homogeneous = not hasattr(data, "edge_types")
        edges = {ONE: data.edge_index} if self.homogeneous else {t: data[t].edge_index for t in data.edge_types}
        counts = {"node": data.num_nodes} if self.homogeneous else {t: data[t].num_nodes for t in data.node_types}
        self.num_nodes = data.num_nodes if self.homogeneous else counts
        self.types, self.fanouts = list(counts), fanouts
        self.incoming = {}
        for edge_type, (source, target) in edges.items():
            lists = [[] for _ in range(counts[edge_type[2]])]
            for e, (u, v) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
                lists[v].append((u, e))
            self.incoming[edge_type] = lists

    def sample_from_nodes(self, index, **_):
        return node_sample(index, self.sample)

    def sample_from_edges(self, index, neg_sampling=None):
        return edge_sample(index, self.sample, self.num_nodes, False, None, neg_sampling)

    def sample(self, seed, _seed_time=None):
        seeds = {"node": seed} if self.homogeneous else seed
        nodes = {t: seeds[t].tolist() if t in seeds else [] for t in self.types}
        local = {t: {} for t in self.types}
        for t in self.types:
            for i, v in enumerate(nodes[t]):
                local[t].setdefault(v, i)
        found = {t: [] for t in self.incoming}
        begin = dict.fromkeys(self.types, 0)
        num_nodes, num_edges = {t: [len(nodes[t])] for t in self.types}, {t: [] for t in self.incoming}
        for fanout in self.fanouts:
            end = {t: len(nodes[t]) for t in self.types}
            for edge_type, lists in self.incoming.items():
                source, _, target = edge_type
                before = len(found[edge_type])
                for i in range(begin[target], end[target]):
                    row = lists[nodes[target][i]]
                    if 0 <= fanout < len(row):
                        row = [row[j] for j in torch.randperm(len(row))[:fanout].tolist()]
                    for u, e in row:
                        if u not in local[source]:
                            local[source][u] = len(nodes[source])
                            nodes[source].append(u)
                        found[edge_type].append((local[source][u], i, e))
                num_edges[edge_type].append(len(found[edge_type]) - before)
            for t in self.types:
                num_nodes[t].append(len(nodes[t]) - end[t])
            begin = end
        node = {t: torch.tensor(ids, dtype=torch.long) for t, ids in nodes.items()}
        row, col, edge = (
            {t: torch.tensor([triple[k] for triple in triples], dtype=torch.long) for t, triples in found.items()}
            for k in range(3)
        )
        if self.homogeneous:
            return SamplerOutput(node["node"], row[ONE], col[ONE], edge[ONE], None, num_nodes["node"], num_edges[ONE])
        return HeteroSamplerOutput(node, row, col, edge, None, num_nodes, num_edges)
