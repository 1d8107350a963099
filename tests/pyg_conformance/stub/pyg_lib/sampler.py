"""pyg-lib's sampling operators over GraphZero: the CSC tensors of a call are compiled once into a temporary file."""

import torch

HOMOGENEOUS = ("node", "to", "node")
_mounted = {}  # with the tensors, so that their addresses are not used again


def neighbor_sample(
    colptr,
    row,
    seed,
    num_neighbors,
    node_time=None,
    edge_time=None,
    seed_time=None,
    edge_weight=None,
    csc=False,
    replace=False,
    directed=True,
    disjoint=False,
    temporal_strategy="uniform",
    return_edge_id=True,
):
    """Sample a homogeneous graph, as `torch.ops.pyg.neighbor_sample` does."""
    out = _sample(
        {"node": len(colptr) - 1},
        {HOMOGENEOUS: (colptr, row)},
        {"node": seed},
        {HOMOGENEOUS: list(num_neighbors)},
        {} if node_time is None else {"node": node_time},
        {} if edge_time is None else {HOMOGENEOUS: edge_time},
        None if seed_time is None else {"node": seed_time},
        None if edge_weight is None else {HOMOGENEOUS: edge_weight},
        replace,
        disjoint,
        temporal_strategy,
        True,
        colptr.dtype,
    )
    assert csc
    assert directed
    assert return_edge_id
    row, col, node, edge, nodes, edges = (next(iter(values.values())) for values in out)
    return row, col, node, edge, nodes, edges


def hetero_neighbor_sample(
    node_types,
    edge_types,
    colptr_dict,
    row_dict,
    seed_dict,
    num_neighbors_dict,
    node_time_dict=None,
    edge_time_dict=None,
    seed_time_dict=None,
    edge_weight_dict=None,
    csc=False,
    replace=False,
    directed=True,
    disjoint=False,
    temporal_strategy="uniform",
    return_edge_id=True,
):
    """Sample a typed graph, as `torch.ops.pyg.hetero_neighbor_sample` does; relations are 'a__r__b'."""
    assert csc
    assert directed
    assert return_edge_id
    names = {"__".join(t): tuple(t) for t in edge_types}
    num_nodes = dict.fromkeys(node_types, 0)
    for name, colptr in colptr_dict.items():
        source, _, target = names[name]
        num_nodes[target] = len(colptr) - 1
        if row_dict[name].numel():
            num_nodes[source] = max(num_nodes[source], int(row_dict[name].max()) + 1)
    for ids in (seed_dict or {}).items():
        num_nodes[ids[0]] = max(num_nodes[ids[0]], int(ids[1].max()) + 1 if ids[1].numel() else 0)
    for node_type, times in (node_time_dict or {}).items():
        num_nodes[node_type] = max(num_nodes[node_type], len(times))

    def by_type(values):
        return {names[name]: value for name, value in (values or {}).items()}

    dtype = next(iter(colptr_dict.values())).dtype if colptr_dict else torch.int64
    out = _sample(
        num_nodes,
        {names[name]: (colptr, row_dict[name]) for name, colptr in colptr_dict.items()},
        seed_dict,
        {names[name]: list(values) for name, values in num_neighbors_dict.items()},
        node_time_dict or {},
        by_type(edge_time_dict),
        seed_time_dict,
        None if edge_weight_dict is None else by_type(edge_weight_dict),
        replace,
        disjoint,
        temporal_strategy,
        False,
        dtype,
    )

    def named(values):
        return {"__".join(t): value for t, value in values.items()}

    row, col, node, edge, nodes, edges = out
    return named(row), named(col), node, named(edge), nodes, named(edges)


def _sample(
    num_nodes, csc, seed, fanouts, node_time, edge_time, seed_time, weights, replace, disjoint, strategy, one, dtype
):
    mounted = _mount(num_nodes, csc, edge_time, weights, one)
    if node_time or edge_time:
        disjoint = True
        assert weights is None
    hops = len(next(iter(fanouts.values()), ()))
    found = mounted.typed().sample(
        seed,
        fanouts if hops else {key: [0] for key in fanouts},  # no hop: the seeds alone
        replace=replace,
        weighted=weights is not None,
        disjoint=disjoint,
        time=seed_time,
        node_time={t: times.numpy() for t, times in node_time.items()} or None,
        temporal=strategy,
        seed=torch.default_generator,
    )

    def tensors(arrays):
        return {t: torch.from_numpy(a).to(dtype) for t, a in arrays.items()}

    node = tensors(found.node)
    if found.batch is not None:  # pyg-lib tells the tree beside each node
        node = {t: torch.stack([torch.from_numpy(found.batch[t]).to(dtype), ids], dim=1) for t, ids in node.items()}
    return (
        tensors(found.row),
        tensors(found.col),
        node,
        tensors(found.edge),
        {t: counts[: hops + 1] for t, counts in found.num_sampled_nodes.items()},
        {t: counts[:hops] for t, counts in found.num_sampled_edges.items()},
    )


def _mount(num_nodes, csc, edge_time, weights, one):
    from graphzero.pyg._edges import EdgeList, GraphContents  # PyG imports this file before it is complete itself
    from graphzero.pyg._mount import mount_contents

    held = [t for pair in csc.values() for t in pair] + [*edge_time.values(), *(weights or {}).values()]
    key = (tuple(num_nodes.items()), tuple(csc), *((t.data_ptr(), t.shape, t.dtype, t._version) for t in held))
    if key not in _mounted:
        edges = {}
        for edge_type, (colptr, row) in csc.items():
            sizes = (num_nodes[edge_type[0]], num_nodes[edge_type[2]])
            col = torch.repeat_interleave(torch.arange(len(colptr) - 1), colptr.diff().long())
            weight = None if weights is None else weights.get(edge_type, torch.ones(len(row)))
            edges[edge_type] = EdgeList(row, col, *sizes, weight, edge_time.get(edge_type))
        contents = GraphContents(one, num_nodes, edges, {}, bool(edge_time), weights is not None)
        _mounted[key] = (mount_contents(contents), held)
    return _mounted[key][0]
