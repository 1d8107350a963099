"""Model inputs per node type: features, table columns, learned embeddings of ids, or degrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..args.sizes import format_size, parse_size
from ..args.suggest import did_you_mean
from ..dataset.columns import Column
from ..infer.modules import model_rows
from ..stores.features import FeatureStore
from .columns import TableEncoder
from .degrees import Degrees
from .edge_inputs import EdgeInputs, table_spec
from .records import TrainOptions

__all__ = ["InputEncoders", "Inputs", "inference_options", "plain_type"]

_COPIES = 5  # of an embedding table: the weights, two of Adam, the best epoch's, and the one that is saved
_ID_CHANNELS = 64
_ID_STD = 0.1
_TYPED_ID_STD = 0.3  # HeteroSAGE has a layer more: with 0.1, products of its outputs begin too small to learn from
_NAMED = 8  # columns in a summary

plain_type = ""  # the name of the only type of a graph without types


class Inputs:
    """The inputs of each node type of a dataset: the arrays that loaders read, and how they are encoded.

    A type with columns has a TableEncoder, which also takes its feature matrix if there is one. A type that has only a
    feature matrix needs no encoder. A type with neither gets a learned embedding per node, as long as these
    take at most `id_embedding_memory`; beyond that, its degrees are used. The types in `id_embeddings` get one in
    addition to their columns or features, which a TableEncoder then takes.
    """

    def __init__(self, data: Any, options: TrainOptions, *, typed: bool) -> None:
        """Choose the inputs per type; no data is read."""
        self._typed, self._data = typed, data
        self.notes: list[str] = []  # notes on the choice, shown to the user
        self.stores: dict[str, dict[str, FeatureStore]] = {}  # the arrays that a loader reads, by type
        self.specs: dict[str, dict[str, Any]] = {}  # the arguments of encoders, by type
        self.counts: dict[str, int] = {}
        self._degrees: dict[str, list[Degrees]] = {}  # by type, where they are inputs
        self.feature, self.hidden, self.dropout = options.feature, options.hidden, options.dropout
        limit = parse_size(options.id_embedding_memory)
        tasks = getattr(data, "tasks", {})
        self.timed = options.time is not None or options.split_by_time is not None or options.task in tasks
        known = {}
        asked = self._asked(options)
        for name, features, columns, count in self._types():
            self.counts[name] = count
            has = options.feature in features
            known[name] = [k for k in features if k not in {column.array for column in columns} and k != options.time]
            called = "x" if name == plain_type else options.feature
            self.stores[name] = {called: features[options.feature]} if has else {}
            if has:
                _refuse_codes(data, options.feature, name)
            with_ids = name in asked
            if columns or (has and with_ids):
                self._add_table(name, features, columns, options)
                if with_ids:
                    self._add_ids_to_table(name, count, limit)
            elif not has:
                self._add_ids(name, count, limit)
        self.edges = EdgeInputs(data, options) if typed else None
        self.notes += self.edges.notes if self.edges is not None else []
        found = any(options.feature in of for of in known.values())
        tables = any(spec["kind"] == "table" for spec in self.specs.values())
        if options.table_encoder != "sum" and not tables and not (self.edges is not None and self.edges.specs):
            raise ValueError(f"table_encoder is {options.table_encoder!r}, but the dataset has no columns of tables")
        if not found and (options.feature != "x" or (any(known.values()) and not tables)):
            hint = did_you_mean(options.feature, [name for of in known.values() for name in of])
            raise KeyError(
                f"no feature {options.feature!r} in the dataset: {_listed(known)}; choose one with feature={hint}"
            )

    def _types(self) -> list[tuple[str, Mapping[str, FeatureStore], list[Column], int]]:
        if self._typed:
            return [(t, n.features, list(n.columns.values()), n.num_nodes) for t, n in self._data.nodes.items()]
        nodes = getattr(self._data, "nodes", None) or {}
        columns = [column for node in nodes.values() for column in node.columns.values()]
        return [(plain_type, self._data.features, columns, self._data.graph.num_nodes)]

    def _add_table(self, name: str, features: Mapping[str, Any], columns: list[Column], options: TrainOptions) -> None:
        arrays = list(dict.fromkeys(column.array for column in columns))
        if self.stores[name] and options.feature not in arrays:
            columns = [*columns, Column(options.feature, "embedding", options.feature)]
            arrays.append(options.feature)
        # Array names may not be valid identifiers, so loaders use other names.
        own = next(iter(self.stores[name]), None)
        aliases = {a: own if own is not None and a == options.feature else f"input_{i}" for i, a in enumerate(arrays)}
        self.stores[name] |= {alias: features[array] for array, alias in aliases.items()}
        self.specs[name] = table_spec(columns, features, aliases, options.table_encoder)

    def _asked(self, options: TrainOptions) -> list[str]:
        """Return the types in `id_embeddings`, after a check that they exist."""
        names = list(getattr(self._data, "nodes", None) or {})
        for name in options.id_embeddings:
            if name not in names and (self._typed or name != plain_type):
                known = f"{', '.join(map(repr, names))}{did_you_mean(name, names)}"
                raise ValueError(f"id_embeddings has {name!r}, the dataset has the node types {known}")
        return list(options.id_embeddings) if self._typed else [plain_type] * bool(options.id_embeddings)

    def _add_ids_to_table(self, name: str, count: int, limit: int) -> None:
        needed = 4 * _COPIES * self.hidden * count
        if needed > limit:
            raise ValueError(
                f"id_embeddings of {count:,} nodes{f' of type {name!r}' if name else ''} would take "
                f"{format_size(needed)}, more than id_embedding_memory = {format_size(limit)}; raise "
                f"id_embedding_memory, or omit the type"
            )
        self.specs[name]["ids"] = count

    def _add_ids(self, name: str, count: int, limit: int) -> None:
        width = min(self.hidden, _ID_CHANNELS)
        needed = 4 * _COPIES * width * count
        self.specs[name] = {"kind": "ids", "count": count, "width": width}
        if needed > limit:
            self.specs[name] = {"kind": "degrees", "edges": len(self._edges(name)), "timed": self.timed}
            whose = f"node type {name!r}" if self._typed else "the graph"
            instead = "degrees are used"
            if self.timed:
                instead = "one vector is learned for all of them (degrees would count later edges)"
            self.notes.append(
                f"{whose} has no features; embeddings of {count:,} ids would take {format_size(needed)}, more than "
                f"id_embedding_memory (--id-embedding-memory) = {format_size(limit)}, so {instead}"
            )

    # -- encoders of a model ----------------------------------------------------------------------------------------

    def widths(self) -> dict[str, int]:
        """The input width of each node type."""
        made = {name: self.hidden if spec["kind"] != "ids" else spec["width"] for name, spec in self.specs.items()}
        plain = {n: next(iter(of.values())).feature_dim for n, of in self.stores.items() if n not in made and of}
        return made | plain

    def attach(self, model: nn.Module, *, given: bool = False) -> nn.Module:
        """Add the encoders that the model needs as its `input_encoders`; they are trained with it.

        A model `given` by the user may not handle types without features: it gets embeddings of ids only if no type
        has any other input.
        """
        specs = self.specs
        if given and any(self.stores.values()):
            specs = {name: spec for name, spec in specs.items() if spec["kind"] == "table"}
        if specs and not hasattr(model, "input_encoders"):
            model.input_encoders = InputEncoders(specs, self.hidden, self.dropout)
        if self.edges is not None and self.edges.specs and not given and not hasattr(model, "edge_encoders"):
            model.edge_encoders = InputEncoders(self.edges.specs, self.hidden, self.dropout)
        return model

    def check_fit(self, encoders: InputEncoders) -> None:
        """Raise ValueError unless the encoders of a saved run fit the columns and nodes of this data."""
        for name, spec in encoders.specs.items():
            whose = f"node type {name!r}" if name else "the nodes"
            if name not in self.counts:
                raise ValueError(
                    f"the model was trained on node type {name!r}, the dataset has {', '.join(map(repr, self.counts))}"
                )
            ids = _ids_of(spec)
            if ids not in (None, self.counts[name]):
                found = f"{ids:,} ids of {whose}, but the dataset has {self.counts[name]:,}"
                raise ValueError(f"the model has embeddings of {found}; they cannot be used for other nodes")
            own = self.specs.get(name, {})
            if spec["kind"] == "table" and _meaning(spec) != _meaning(own):
                raise ValueError(f"the model was trained on other columns of {whose} than the dataset has")

    def set_time_scale(self, scale: float) -> None:
        """Set the number of units of the seed times per second."""
        edges = {} if self.edges is None else self.edges.specs
        for spec in (*self.specs.values(), *edges.values()):
            if spec["kind"] == "table":
                spec["time_scale"] = scale

    @property
    def edge_stores(self) -> Any:
        """The arrays of edges that a loader reads, by edge type; None without any."""
        return self.edges.stores if self.edges is not None and self.edges.stores else None

    # -- rows of a batch --------------------------------------------------------------------------------------------

    def rows(self, model: nn.Module, batch: Any) -> Any:
        """Return the model's input for the nodes of a batch: a matrix, or a dict by type."""
        if not self._typed:
            return self._rows_of(model, plain_type, batch, _seed_times(batch, batch))
        times = self._times(batch)
        rows = {name: self._rows_of(model, name, batch[name], times[name]) for name in batch.node_types}
        return {name: own for name, own in rows.items() if own is not None}

    def edge_rows(self, model: nn.Module, batch: Any) -> Any:
        """Return the model's input for the edges of a batch, by edge type."""
        return {} if self.edges is None else self.edges.rows(model, batch, self._times(batch))

    def _times(self, batch: Any) -> dict[str, Tensor | None]:
        """The time of each node's seed, by node type."""
        links = [key for key in batch.edge_types if "edge_label_time" in batch[key]]
        of_seeds = [batch[key] for key in (*links, *batch.node_types) if _has_time(batch[key])]
        return {name: _seed_times(batch[name], of_seeds[0]) if of_seeds else None for name in batch.node_types}

    def features_of(self, batch: Any) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield the feature matrices of a batch: a name for messages, the ids of the nodes, and their rows."""
        for name in batch.node_types if self._typed else [plain_type]:
            part, of = (batch[name], f" of {name!r}") if self._typed else (batch, "")
            rows = dict(part).get(self.feature if name else "x")
            if rows is not None:
                yield f"feature {self.feature!r}{of}", part.n_id, rows

    def _rows_of(self, model: nn.Module, name: str, part: Any, seed_time: Tensor | None) -> Any:
        encoders = getattr(model, "input_encoders", None)
        if not isinstance(encoders, InputEncoders) or name not in encoders.specs:
            key = self.feature if name else "x"
            rows = dict(part).get(key)
            return None if rows is None else model_rows(model, rows)
        return encoders(name, part, seed_time, self.degrees(name, part.n_id, encoders.specs[name]))

    def degrees(self, name: str, ids: Tensor, spec: Mapping[str, Any]) -> Tensor | None:
        """How many edges of each edge type nodes have, in the direction that the file has; zeros in runs by time.

        None if the spec of the encoder has another kind.
        """
        if spec["kind"] != "degrees":
            return None
        if spec.get("timed"):
            return torch.zeros((len(ids), max(spec["edges"], 1)), device=ids.device)
        if name not in self._degrees:
            self._degrees[name] = [Degrees(graph, side) for graph, side in self._edges(name)]
        found = [torch.log1p(degrees.of(ids).float()) for degrees in self._degrees[name]]
        found = found or [torch.zeros(len(ids), device=ids.device)]  # no edges end at nodes of this type
        return torch.stack(found, dim=1)

    def _edges(self, name: str) -> list[tuple[Any, str]]:
        """The topologies that list neighbours of the nodes of a type, and on which side."""
        if not self._typed:
            graph = self._data.graph
            return [(graph, "out" if graph.direction == "out" else "in")]
        found = []
        for (source, _, target), edge in self._data.edges.items():
            sides = [side for side in ("in", "out") if edge.graph.direction in (side, "both")]
            found += [(edge.graph, side) for side in sides if name == (target if side == "in" else source)]
        return found or [(edge.graph, "in") for key, edge in self._data.edges.items() if key[2] == name]

    def summary(self) -> str:
        """Say in a line what the model gets for each node type: arrays with their widths, columns, embeddings."""
        said = {}
        for name, of in self.stores.items():
            if name in self.specs:
                said[name] = _said(self.specs[name], names=True)
            else:
                said[name] = ", ".join(f"{self.feature} ({s.feature_dim} x {s.dtype_name})" for s in of.values())
        return "; ".join(f"{name}: {text}" if name else text for name, text in said.items())

    def describe(self) -> dict[str, Any]:
        """Describe how the nodes of each type are encoded, for types with more than a feature matrix."""
        edges = {} if self.edges is None else self.edges.describe()
        return {name or "node": _said(spec) for name, spec in self.specs.items()} | edges


class InputEncoders(nn.Module):
    """The encoders of node types, as part of a model."""

    def __init__(self, specs: Mapping[str, Mapping[str, Any]], hidden: int, dropout: float = 0.0) -> None:
        """Create the encoders described by `Inputs.specs`; `dropout` applies to encoded columns."""
        super().__init__()
        self.dropout = dropout
        self.specs, self.hidden = {name: dict(spec) for name, spec in specs.items()}, hidden
        self.of_types = nn.ModuleList(self._make(name, spec) for name, spec in self.specs.items())
        added = {name: spec["ids"] for name, spec in self.specs.items() if "ids" in spec}
        self._added = list(added)  # types with embeddings of ids in addition to columns
        self.of_ids = nn.ModuleList(_id_table(name, count, hidden) for name, count in added.items())

    def _make(self, name: str, spec: Mapping[str, Any]) -> nn.Module:
        if spec["kind"] == "table":
            columns = [Column(**column) for column in spec["columns"]]
            scale = float(spec.get("time_scale", 1.0))
            return TableEncoder(columns, self.hidden, widths=spec["widths"], combine=spec["combine"], time_scale=scale)
        if spec["kind"] == "ids":
            return _id_table(name, spec["count"], spec["width"])
        return nn.Linear(max(spec["edges"], 1), self.hidden)

    def arguments(self) -> dict[str, Any]:
        """The arguments that recreate the encoders, as JSON values."""
        return {"specs": self.specs, "hidden": self.hidden, "dropout": self.dropout}

    def sparse_parameters(self) -> list[Tensor]:
        """The embedding tables, of which a batch uses only a few rows."""
        return [module.weight for module in (*self.of_types, *self.of_ids) if isinstance(module, nn.Embedding)]

    def forward(self, name: str, part: Any, seed_time: Tensor | None = None, degrees: Tensor | None = None) -> Tensor:
        """Return the rows of the nodes of one type; `part` is what a batch holds for it."""
        spec, module = self.specs[name], self.of_types[list(self.specs).index(name)]
        out: Tensor
        if spec["kind"] == "table":
            out = module({array: part[alias] for array, alias in spec["aliases"].items()}, seed_time)
            out = functional.dropout(out, self.dropout, self.training)
            if name in self._added:
                out = out + self.of_ids[self._added.index(name)](part.n_id)
        elif spec["kind"] == "ids":
            out = module(part.n_id)
        else:
            out = module(degrees)
        return out


def inference_options(model: nn.Module, feature: str) -> TrainOptions:
    """Return options by which `Inputs` chooses those of a trained model."""
    encoders = getattr(model, "input_encoders", None)
    added = encoders._added if isinstance(encoders, InputEncoders) else []
    return TrainOptions(feature=feature, id_embeddings=added, id_embedding_memory="1000TB")


def _id_table(name: str, count: int, width: int) -> nn.Embedding:
    table = nn.Embedding(count, width, sparse=True)
    nn.init.normal_(table.weight, std=_ID_STD if name == plain_type else _TYPED_ID_STD)
    return table


def _ids_of(spec: Mapping[str, Any]) -> int | None:
    """Return how many ids have an embedding; None without them."""
    found: int | None = spec["count"] if spec["kind"] == "ids" else spec.get("ids")
    return found


def _refuse_codes(data: Any, feature: str, node_type: str) -> None:
    """Refuse a feature of category codes: as numbers they mean nothing, and -1 means missing."""
    codes = getattr(data, "info", {}).get("about", {}).get("categories", {})
    if feature in (codes.get(node_type, {}) if node_type else codes):
        raise ValueError(
            f"feature {feature!r} holds category codes (-1 for missing), which are not numbers to compute with; import "
            "the table with its columns as inputs, or train on another feature"
        )


def _meaning(spec: Mapping[str, Any]) -> list[Any]:
    """The columns of a table without the statistics used to normalise them."""
    names = ("name", "kind", "array", "column")
    found = [[column[key] for key in names] + [column["stats"].get("names")] for column in spec.get("columns", [])]
    return [*found, spec.get("aliases")]


def _said(spec: Mapping[str, Any], names: bool = False) -> str:
    if spec["kind"] == "table":
        widths = spec["widths"]
        columns = [c["name"] + (f" of {widths[c['array']]}" if c["array"] in widths else "") for c in spec["columns"]]
        listed = ", ".join(columns[:_NAMED]) + (", ..." if len(columns) > _NAMED else "")
        ids = f" and embeddings of {spec['ids']:,} ids" if "ids" in spec else ""
        return f"{len(columns)} column{'s' * (len(columns) != 1)}{f' ({listed})' * names}{ids}"
    return f"embeddings of {spec['count']:,} ids" if spec["kind"] == "ids" else "degrees"


def _has_time(part: Any) -> bool:
    return "seed_time" in part or "edge_label_time" in part


def _seed_times(part: Any, seeds: Any) -> Tensor | None:
    """The time of the seed that each node was sampled for; None where seeds have none."""
    if not _has_time(seeds) or "batch" not in part:
        return None
    times: Tensor = seeds["edge_label_time" if "edge_label_time" in seeds else "seed_time"]
    return times[part["batch"]]


def _listed(known: Mapping[str, list[str]]) -> str:
    if list(known) == [plain_type]:
        return f"it has {', '.join(map(repr, known[plain_type])) or 'none'}"
    return f"its node types have {known}"
