"""A slow, plain sampler of typed graphs that makes the engine's draws, from the rules in HeteroGraph.sample."""

from __future__ import annotations

from sample_oracle import MASK, Rows, absorb, last_of, make_key


class TypedRows:
    """Edge types as {(source, relation, target): Rows by target}; `num_nodes` by type, in order."""

    def __init__(self, num_nodes, relations):
        self.num_nodes, self.relations = num_nodes, relations

    def sample(self, seeds, fanouts, *, replace=False, weighted=False, disjoint=False, time=None, node_time=None,
               temporal="uniform", window=None, method="uniform", seed=0, exclude=None):  # fmt: skip
        o = {"replace": replace, "weighted": weighted, "temporal": temporal, "method": method, "seed": seed}
        """`exclude` has, by edge type, (target, source) pairs."""
        node_time, exclude = node_time or {}, exclude or {}
        if time is None and node_time:
            time = {t: [node_time[t][i] for i in ids] for t, ids in seeds.items()}
        when = None if time is None else [t for name in seeds for t in time[name]]  # by tree
        disjoint = disjoint or time is not None
        types = list(self.num_nodes)
        node, batch, labels = ({t: [] for t in types}, {t: [] for t in types}, {t: {} for t in types})
        tree = 0
        for t, ids in seeds.items():
            for i, s in enumerate(ids):
                node[t].append(s)
                batch[t].append(tree)
                labels[t].setdefault((tree if disjoint else 0, s), i)
                tree += 1
        out = {e: {"row": [], "col": [], "edge": [], "num": []} for e in self.relations}
        begin, num_nodes = dict.fromkeys(types, 0), {t: [len(node[t])] for t in types}
        for hop in range(len(next(iter(fanouts.values())))):
            end = {t: len(node[t]) for t in types}
            for number, (e, rows) in enumerate(self.relations.items()):
                source, _, target = e
                before, part = len(out[e]["edge"]), out[e]
                key_type = types.index(source) if method == "labor" else number
                hop_key = make_key(seed, hop)
                if key_type:
                    hop_key = absorb(hop_key, ~key_type & MASK)
                for i in range(begin[target], end[target]):
                    b = batch[target][i]
                    gone = exclude.get(e, ())
                    edges = [x for x in rows.rows[node[target][i]] if (node[target][i], x[0]) not in gone]
                    if time is not None:
                        times = node_time.get(source)
                        edges = eligible(edges, rows.timed, times, when[b], window, fanouts[e][hop], o)
                    chosen = Rows.draw(edges, hop_key, node[target][i], b if disjoint else None, fanouts[e][hop], o)
                    for neighbour, _, _, edge, _ in chosen:
                        key = (b if disjoint else 0, neighbour)
                        if key not in labels[source]:
                            labels[source][key] = len(node[source])
                            node[source].append(neighbour)
                            batch[source].append(b)
                        part["row"].append(labels[source][key])
                        part["col"].append(i)
                        part["edge"].append(edge)
                part["num"].append(len(part["edge"]) - before)
            begin = end
            for t in types:
                num_nodes[t].append(len(node[t]) - end[t])
        return {
            "node": node,
            "batch": batch if disjoint else None,
            "num_sampled_nodes": num_nodes,
            "num_sampled_edges": {e: part["num"] for e, part in out.items()},
            **{name: {e: part[name] for e, part in out.items()} for name in ("row", "col", "edge")},
        }


def eligible(edges, timed, node_times, now, window, fanout, o):
    """The edges that are early enough and not too old, in the order that "last" counts them in."""
    if timed:
        edges = sorted((e for e in edges if e[2] <= now), key=lambda e: e[2])
        if window is not None:
            edges = [e for e in edges if e[2] > now - window]
    if node_times is not None:
        edges = [e for e in edges if node_times[e[0]] <= now]
        if window is not None and not timed:
            edges = [e for e in edges if node_times[e[0]] > now - window]
        if not timed and o["temporal"] == "last":
            edges = sorted(edges, key=lambda e: node_times[e[0]])
    ordered = (timed or node_times is not None) and o["temporal"] == "last"
    return last_of(edges, fanout, o["weighted"]) if ordered else edges
