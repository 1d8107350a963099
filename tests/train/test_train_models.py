"""The models against PyG's layers and against a plain loop; trimming changes nothing; gradients are right."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from graphzero.train.models import GCN, GraphSAGE, make_model  # noqa: E402
from graphzero.train.neighbourhood import Neighbourhood  # noqa: E402


def sampled_batch(seed: int, hops: int = 3, seeds: int = 5) -> tuple[torch.Tensor, list[int], list[int]]:
    """A batch in our sampler's order: every node expanded once, in the hop after the one that found it."""
    rng = np.random.default_rng(seed)
    nodes, edges = [seeds], []
    rows: list[int] = []
    cols: list[int] = []
    total, begin = seeds, 0
    for _ in range(hops):
        found = total
        count = 0
        for node in range(begin, total):
            for _ in range(int(rng.integers(0, 5))):
                fresh = rng.random() < 0.6
                rows.append(found if fresh else int(rng.integers(0, found)))
                found += fresh
                cols.append(node)
                count += 1
        begin, total = total, found
        nodes.append(found - begin)
        edges.append(count)
    # no self-loops: PyG's GCNConv merges them with its own
    keep = [(r, c) for r, c in zip(rows, cols, strict=True) if r != c]
    edge_index = torch.tensor(keep, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    bounds = np.cumsum([0, *nodes])
    edges = [int(((edge_index[1] >= bounds[h]) & (edge_index[1] < bounds[h + 1])).sum()) for h in range(hops)]
    return edge_index, nodes, edges


@given(st.integers(0, 10**6))
def test_sum_equals_a_plain_loop_and_gradients_are_its_transpose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, e = int(rng.integers(1, 9)), int(rng.integers(0, 30))
    edges = torch.from_numpy(rng.integers(0, n, (2, e)))
    x = torch.from_numpy(rng.normal(size=(n, 3))).requires_grad_()
    expected = torch.zeros(n, 3, dtype=torch.float64).index_add(0, edges[1], x[edges[0]])
    got = Neighbourhood.from_edges(edges, n).sum(x)
    torch.testing.assert_close(got, expected)
    pull = torch.from_numpy(rng.normal(size=(n, 3)))
    torch.testing.assert_close(torch.autograd.grad(got, x, pull)[0], torch.autograd.grad(expected, x, pull)[0])


class OnGpu(torch.Tensor):
    """A tensor that claims to be on a GPU, as do those made of it."""

    is_cuda = True  # type: ignore[assignment]


class Waits(TorchDispatchMode):
    """Collects the operations for which the host would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if any(name in str(func) for name in ("_local_scalar_dense", "bincount", "nonzero", "unique")):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@given(st.integers(0, 10**6))
def test_edges_on_a_gpu_are_grouped_alike_without_waiting_for_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, e = int(rng.integers(1, 9)), int(rng.integers(0, 30))
    edges = torch.from_numpy(rng.integers(0, n, (2, e)))
    with Waits() as here:
        expected = Neighbourhood.from_edges(edges, n)
    with Waits() as there:
        got = Neighbourhood.from_edges(edges.as_subclass(OnGpu), n)
    assert here.found
    assert not there.found
    assert torch.equal(got.sources, expected.sources)
    assert torch.equal(got.offsets, expected.offsets)
    values = torch.from_numpy(rng.normal(size=(e, 2)))
    assert torch.equal(got.mean_of_edges(values), expected.mean_of_edges(values))


def test_gradcheck() -> None:
    edge_index, nodes, _ = sampled_batch(3, hops=1)
    part = Neighbourhood.from_edges(edge_index, sum(nodes), nodes[0])
    x = torch.randn(sum(nodes), 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(part.mean, (x,))


@pytest.mark.parametrize("name", ["sage", "gcn"])
@pytest.mark.parametrize("seed", range(5))
def test_trimming_layers_gives_the_seeds_the_same_rows(name: str, seed: int) -> None:
    edge_index, nodes, edges = sampled_batch(seed)
    model = make_model(name, 6, 8, 4, num_layers=3).eval()
    x = torch.randn(sum(nodes), 6)
    trimmed = model(x, edge_index, nodes, edges)
    whole = model(x, edge_index)
    assert trimmed.shape == (nodes[0], 4)
    torch.testing.assert_close(trimmed, whole[: nodes[0]])


@pytest.mark.parametrize("seed", range(3))
def test_sage_equals_pyg(seed: int) -> None:
    conv = pytest.importorskip("torch_geometric.nn").SAGEConv
    edge_index, nodes, edges = sampled_batch(seed)
    model = GraphSAGE(6, 8, 4, num_layers=3).eval()
    x = torch.randn(sum(nodes), 6)
    expected = x
    for layer in range(3):
        theirs = conv(*model.dims[layer : layer + 2])
        theirs.lin_l.load_state_dict(model.neighbours[layer].state_dict())
        theirs.lin_r.load_state_dict(model.own[layer].state_dict())
        expected = theirs(expected, edge_index)
        expected = expected.relu() if layer < 2 else expected
    torch.testing.assert_close(model(x, edge_index, nodes, edges), expected[: nodes[0]])


@pytest.mark.parametrize("seed", range(3))
def test_gcn_equals_pyg(seed: int) -> None:
    conv = pytest.importorskip("torch_geometric.nn").GCNConv
    edge_index, nodes, edges = sampled_batch(seed)
    model = GCN(6, 8, 4, num_layers=3).eval()
    torch.nn.init.normal_(model.linear[0].bias)
    x = torch.randn(sum(nodes), 6)
    expected = x
    for layer in range(3):
        theirs = conv(*model.dims[layer : layer + 2])
        theirs.lin.weight.data = model.linear[layer].weight.data
        theirs.bias.data = model.linear[layer].bias.data
        expected = theirs(expected, edge_index)
        expected = expected.relu() if layer < 2 else expected
    torch.testing.assert_close(model(x, edge_index, nodes, edges), expected[: nodes[0]])


def test_gcn_with_degrees_estimates_the_full_neighbourhood_without_bias() -> None:
    # One target with 6 neighbours: the mean over all 15 samples of two is what all six say.
    model = GCN(3, 8, 2, num_layers=1).eval().double()
    x = torch.randn(7, 3, dtype=torch.float64)
    degree = torch.tensor([6, 1, 2, 3, 4, 5, 6])
    full = torch.stack([torch.arange(1, 7), torch.zeros(6, dtype=torch.int64)])
    expected = model(x, full, [1, 6], [6], degree=degree)
    outs = []
    for a in range(1, 7):
        for b in range(a + 1, 7):
            pick = torch.tensor([0, a, b])
            edges = torch.tensor([[1, 2], [0, 0]])
            outs.append(model(x[pick], edges, [1, 2], [2], degree=degree[pick]))
    torch.testing.assert_close(torch.stack(outs).mean(0), expected)


def test_a_batch_of_other_depth_is_refused() -> None:
    edge_index, nodes, edges = sampled_batch(0, hops=2)
    with pytest.raises(ValueError, match="2 hops, but the model has 3 layers"):
        GraphSAGE(6, 8, 4, num_layers=3)(torch.randn(sum(nodes), 6), edge_index, nodes, edges)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ValueError, match="'gat', expected one of 'sage', 'gcn'"):
        make_model("gat", 1, 1, 1)
