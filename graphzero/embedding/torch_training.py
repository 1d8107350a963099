"""Skip-gram in torch, for GPUs: the objective of the core, in batches of walks, with Adam.

Walks come from the core. A batch of them trains every pair of a node and a context, weighted by the chance that the
context is in a random window, and all nodes of the batch share the negatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..args.progress import Callback
from ..load.device import as_device
from ..sample.subgraph import Generator
from ..stores.graph import Graph
from .options import SkipGram

if TYPE_CHECKING:
    import torch

__all__ = ["train"]

_NODES = 1 << 15  # nodes of the walks of a batch
_BATCHES = 16  # of a pass, at least
_NEGATIVES = 512  # that they share; their loss is scaled to that of `negatives` for each pair


def train(
    graph: Graph, how: SkipGram, rate: float, device: Any, callback: Callback | None = None, threads: int = 0
) -> npt.NDArray[np.float32]:
    """Return a vector for each node, trained on `device`. Raises ValueError if training diverges."""
    import torch

    where = as_device(device)
    if not (rate > 0 and np.isfinite(rate)):
        raise ValueError(f"learning_rate is {rate}, expected a positive, finite number")
    nodes, seeds = graph.num_nodes, Generator(how.seed)
    random = torch.Generator(device=where).manual_seed(how.seed % 2**63)
    own = torch.zeros(nodes, how.dim, device=where)
    outputs = (torch.rand(nodes, how.dim, device=where, generator=random) - 0.5) / how.dim**0.5
    tables = [torch.nn.Embedding(nodes, how.dim, sparse=True, _weight=table) for table in (own, outputs)]
    optimizer: Any = torch.optim.SparseAdam([p for table in tables for p in table.parameters()], lr=rate)
    degrees = torch.from_numpy(graph.degrees().astype(np.float64)).to(where) ** 0.75
    if nodes == 0 or not degrees.any():
        return own.cpu().numpy()
    cumulative = degrees.cumsum(0)
    passes, batch = how.epochs * how.walks_per_node, max(1, min(_NODES // (how.walk_length + 1), nodes // _BATCHES))
    batches = -(-nodes // batch)
    for step in range(passes * batches):
        if step % batches == 0:
            order = np.random.default_rng((how.seed, step // batches)).permutation(nodes)
        starts = order[step % batches * batch :][:batch]
        walks = graph.batch_random_walk(
            starts,
            how.walk_length,
            how.p,
            how.q,
            weighted=how.weighted,
            direction=how.direction,
            seed=seeds,
            num_threads=threads or None,
        )
        for group in optimizer.param_groups:
            group["lr"] = rate * max(1 - step / (passes * batches), 1e-4)
        drawn = torch.rand(_NEGATIVES, device=where, generator=random, dtype=torch.float64) * cumulative[-1]
        negatives = torch.searchsorted(cumulative, drawn, right=True).clamp_(max=nodes - 1)
        optimizer.zero_grad()
        loss: Any = _loss(torch.from_numpy(walks).to(where), negatives, tables[0], tables[1], how)
        loss.backward()
        optimizer.step()
        if callback is not None:
            callback("training", min((step + 1) * batch, passes * nodes), passes * nodes)
    found: npt.NDArray[np.float32] = tables[0].weight.detach().cpu().numpy()
    if not np.isfinite(found).all():
        raise ValueError(f"training diverged; learning_rate is {rate}, try a smaller one")
    return found


def _loss(
    walks: torch.Tensor, negatives: torch.Tensor, own: torch.nn.Embedding, outputs: torch.nn.Embedding, how: SkipGram
) -> torch.Tensor:
    """Minus the log-likelihood of pairs within a window, and of their negatives, over the nodes of the walks."""
    import torch

    log = torch.nn.functional.logsigmoid
    ended = torch.zeros_like(walks, dtype=torch.bool)  # from where a walk only repeats its last node
    ended[:, 1:] = (walks[:, 1:] == walks[:, :-1]).flip(1).cumprod(1).flip(1).bool()
    there = (~ended).float()
    x, y = own(walks), outputs(walks)
    loss, pairs = torch.zeros((), device=walks.device), torch.zeros_like(there)
    for distance in range(1, min(how.window, how.walk_length) + 1):
        share = (how.window - distance + 1) / how.window
        both = share * there[:, distance:] * there[:, :-distance]
        later, earlier = slice(distance, None), slice(None, -distance)
        for one, other in ((later, earlier), (earlier, later)):
            loss = loss - (both * log((x[:, one] * y[:, other]).sum(-1))).sum()
            pairs[:, one] += both
    far = log(-(x @ outputs(negatives).T)).mean(-1)
    return loss - how.negatives * (pairs * far).sum()
