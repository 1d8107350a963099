"""Link prediction: node embeddings whose dot product scores edges higher than other pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..args.suggest import did_you_mean
from ..args.times import per_second
from ..dataset.dataset import Dataset
from ..load.epochs import EpochLoader
from ..load.loader import LinkNeighborLoader
from ..load.seeds import edge_split_of
from ..sample.hetero_subgraph import EdgeTypeName
from .degrees import Degrees
from .held_out import HeldOut, all_have_others
from .inputs import Inputs, plain_type
from .metrics import HITS, LinkScores
from .models import make_model
from .records import TrainingData, TrainOptions
from .seeds import edge_splits_by_time
from .tasks import Step, Task, describe_graph, sampled_outputs, widened
from .typed_tasks import describe_types, make_hetero, typed_outputs

__all__ = ["LinkTask"]


class LinkTask(Task):
    """Learns the edges of a graph, or those of one edge type where there are several.

    Training draws one random pair per edge. In evaluation each edge is ranked among other targets for its source that
    are not edges. The edges of a batch and their reverses are excluded from its sampled neighbourhoods.
    """

    metric = "auc"
    metrics = ("auc", "mrr", "accuracy", *(f"hits@{k}" for k in HITS), f"recall@{HITS[-1]}", f"map@{HITS[-1]}")

    def __init__(self, data: Any, options: TrainOptions, device: torch.device) -> None:
        """Find the edges to learn and their splits; without splits, some edges are held out."""
        self.typed = data if isinstance(data, Dataset) and data.is_typed else None
        self.inputs = Inputs(data, options, typed=self.typed is not None)
        self.edge_type = None if self.typed is None else _edge_type(self.typed, options)
        if self.edge_type is None and options.edge_type is not None:
            raise ValueError(f"edge_type is {options.edge_type!r}, but the dataset has a single edge type; omit it")
        self.graph = data.graph if self.typed is None else data.edges[self.edge_type].graph
        self.degrees = Degrees(self.graph, options.direction or self.graph.message_direction)
        self.metric = options.metric or self.metric
        if self.metric not in self.metrics:
            known = ", ".join(map(repr, self.metrics))
            hint = did_you_mean(self.metric, self.metrics)
            raise ValueError(f"metric is {options.metric!r}, expected one of {known} for links{hint}")
        self.has_others = all_have_others(self.graph)
        self.held_out: HeldOut | None = None
        self._trained: int | None = None
        self.timed = options.time is not None or options.split_by_time is not None
        if options.time not in (None, "edges"):
            raise ValueError(f"time is {options.time!r}, expected 'edges' for links (the times of edges)")
        super().__init__(data, options, device)

    def _find_splits(self, data: TrainingData | Dataset) -> Mapping[str, Any]:
        names: list[str] = []
        unit = getattr(data, "time_unit", "s")
        self.inputs.set_time_scale(per_second(unit))
        if self.timed:
            return edge_splits_by_time(self.graph, self.options.split_by_time or "70/15/15", unit)
        if isinstance(data, Dataset):
            names = list(data.edge_splits if self.edge_type is None else data.edges[self.edge_type].splits)
        if names:
            assert isinstance(data, Dataset)
            return {name: edge_split_of(data, name, self.edge_type)[1] for name in names}
        within = self.edge_type is None or self.edge_type[0] == self.edge_type[2]
        self.held_out = HeldOut(self.graph, within)
        if not self.held_out.valid.size:
            raise ValueError(f"{self.graph.path} has {self.graph.num_edges} edges, too few to hold some out")
        return {"train": None, "valid": self.held_out.valid, "test": self.held_out.test}

    def size(self, split: str) -> int:
        """How many edges a split has."""
        if split not in self.splits:
            return 0
        edges = self.splits[split]
        return self.graph.num_edges if edges is None else int(edges.shape[-1])

    def trained(self) -> int:
        """How many edges are trained on: those of the split without the edges held out of it."""
        if self._trained is None:
            self._trained = self.size("train") - (0 if self.held_out is None else self.held_out.count(self.graph))
        return self._trained

    def make_model(self) -> torch.nn.Module:
        """Make a model from rows to embeddings as wide as the hidden layers."""
        options = self.options
        if self.typed is not None and self.edge_type is not None:
            ends = list(dict.fromkeys((self.edge_type[0], self.edge_type[2])))
            return make_hetero(self.typed, self.inputs, options, options.hidden, ends)
        width = self.inputs.widths()[plain_type]
        return make_model(options.model, width, options.hidden, options.hidden, options.layers, options.dropout)

    def loader(self, split: str, num_threads: int, memory: int) -> EpochLoader:
        """Return batches of the split's edges with negatives."""
        training, negatives = split == "train", self.options.eval_negatives
        loading = self.loading(split, num_threads, memory)
        if not training:  # about as many nodes as in a training batch
            loading["batch_size"] = max(1, 4 * self.batch_size // (2 + negatives))
        return LinkNeighborLoader(
            self.graph if self.typed is None else self.typed.hetero,
            self.inputs.stores if self.typed is not None else self.inputs.stores[plain_type],
            edges=self.splits[split],
            edge_type=self.edge_type,
            edge_features=self.inputs.edge_stores,
            neg_sampling="binary" if training else "triplet",
            neg_ratio=1 if training else negatives,
            strict=not training and self.has_others,
            exclude="reverse",
            time="edges" if self.timed else None,
            dtype="float32",
            **loading,
        )

    def step(self, model: torch.nn.Module, batch: Any) -> Step:
        """Score the edges of a batch against random pairs."""
        link, source, target = self._ends(batch)
        rows, columns = link.edge_label_index
        left, right = self._embed(model, batch)
        out, label = (left[rows] * right[columns]).sum(-1), link.edge_label
        right_answers = (out.detach() > 0) == (label > 0)
        if self.held_out is None:
            loss = functional.binary_cross_entropy_with_logits(out, label)
            return Step(loss, right_answers.sum(), len(label), len(label))
        # Weighted instead of selected: the host would wait for the device to learn how many there are.
        kept = ~(self.held_out.has(source.n_id[rows], target.n_id[columns]) & (label > 0))
        each = functional.binary_cross_entropy_with_logits(out, label, reduction="none")
        count = kept.sum()
        return Step((each * kept).sum() / count, (right_answers & kept).sum(), count, count)

    def scores(self) -> LinkScores:
        """Return the metrics that rank edges among their negatives."""
        return LinkScores()

    def measure(self, model: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Return the scores of the n edges of an evaluation batch, and of (n, k) negatives."""
        _, source, target = self._ends(batch)
        left, right = self._embed(model, batch)
        own = left[source.src_index]
        others = right[target.dst_neg_index.reshape(len(own), -1)]
        return (own * right[target.dst_pos_index]).sum(-1), torch.einsum("nd,nkd->nk", own, others)

    def _ends(self, batch: Any) -> tuple[Any, Any, Any]:
        """What the batch holds for the edges, for their sources and for their targets."""
        if self.edge_type is None:
            return batch, batch, batch
        return batch[self.edge_type], batch[self.edge_type[0]], batch[self.edge_type[2]]

    def _embed(self, model: torch.nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        if self.edge_type is None:
            with self.precision():
                out = sampled_outputs(model, self.inputs.rows(model, batch), batch, self.degrees)
            return (widened(out),) * 2
        with self.precision():
            by_type = typed_outputs(model, self.inputs, batch)
        return widened(by_type[self.edge_type[0]]), widened(by_type[self.edge_type[2]])

    def learns(self) -> str:
        """Say which edges are learned."""
        return "links" if self.edge_type is None else f"links: {' '.join(self.edge_type)}"

    def describe(self) -> dict[str, Any]:
        """Return the size of the data."""
        seeds = {"train_seeds": self.trained(), "valid_seeds": self.size("valid")}
        if self.typed is not None and self.edge_type is not None:
            return describe_types(self.typed, self.inputs) | {"edge_type": "__".join(self.edge_type)} | seeds
        return describe_graph(self.graph, self.inputs) | seeds


def _edge_type(data: Dataset, options: TrainOptions) -> EdgeTypeName:
    """Return the edge type to learn: the requested one, else the one with edge splits."""
    if options.edge_type is not None:
        if tuple(options.edge_type) not in list(data.edges):
            known = f"{', '.join(map(repr, data.edges))}{did_you_mean(options.edge_type, data.edges)}"
            raise ValueError(f"no edge type {tuple(options.edge_type)!r}, the dataset has {known}")
        source, relation, target = options.edge_type
        return source, relation, target
    able = [name for name, edge in data.edges.items() if edge.splits]
    if len(able) != 1:
        known = ", ".join(map(repr, able or data.edges))
        raise ValueError(f"several edge types could be learned; choose one with edge_type=: {known}")
    return able[0]
