"""Synthetic datasets of any size in bounded memory, with custom shapes or those of public datasets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..args.progress import Callback
from ..args.suggest import did_you_mean
from ..dataset.dataset import Dataset
from .reorder import check_order, make_ordered
from .synthetic import SyntheticGraph
from .synthetic_types import TYPED_PRESETS, SyntheticTypes

__all__ = ["PRESETS", "TYPED_PRESETS", "SyntheticGraph", "SyntheticTypes", "synthesize"]

# Published shapes: nodes, edges, columns, classes, and how many nodes each split has.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "arxiv": {
            "nodes": 169_343,
            "edges": 1_166_243,
            "dim": 128,
            "classes": 40,
            "splits": {"train": 90_941, "valid": 29_799, "test": 48_603},
        },
        "products": {
            "nodes": 2_449_029,
            "edges": 61_859_140,
            "dim": 100,
            "classes": 47,
            "undirected": True,
            "homophily": 0.8,
            "splits": {"train": 196_615, "valid": 39_323, "test": 2_213_091},
        },
        "papers100M": {
            "nodes": 111_059_956,
            "edges": 1_615_685_872,
            "dim": 128,
            "classes": 172,
            "splits": {"train": 1_207_179, "valid": 125_265, "test": 214_338},
            # Fitted to published hit rates of caches over its batches: see benchmarks/hit_rates.py. core=1 gives none.
            "core": 0.2,
            "core_edges": 0.75,
            "core_power": 2.21,
        },
    }
)


def synthesize(
    out: str | os.PathLike[str],
    *,
    nodes: int | None = None,
    edges: int | None = None,
    dim: int | None = None,
    preset: str | None = None,
    scale: float = 1.0,
    dtype: str = "float32",
    undirected: bool | None = None,
    dedup: bool = False,
    order: str | None = None,
    memory: int | str = "1GB",
    num_threads: int | None = None,
    progress: Callback | bool | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Dataset:
    """Create a synthetic dataset of any size in the folder `out`, in bounded memory, and open it.

    A `preset` ("papers100M", "products", "arxiv", "mag") has the shape of a public dataset; `scale` multiplies its
    nodes, edges and splits. Explicit arguments override it. `options` are the fields of SyntheticGraph: classes,
    communities, homophily, power, core, core_edges, core_power, signal, splits, weights, seed. The same options give
    the same dataset, byte for byte, for any `memory`. An undirected graph stores each of its `edges` in both
    directions. `order` ("degree", "bfs", "community") orders the nodes as `reorder` does, without a second copy of the
    features on disk.

    The preset "mag" has four node types (paper, author, institution, field_of_study), their relations and the reverse
    of each, features and labels of papers, and the years of papers as feature "year", on which the splits are based.
    Its options are those of SyntheticTypes: classes, homophily, power, signal, feature_types, times, seed; and
    `reverse`.

    >>> import graphzero as gz
    >>> ds = gz.synthesize("papers", preset="papers100M", scale=0.01, dtype="float16")  # doctest: +SKIP
    """
    check_order(order, one_type=preset not in TYPED_PRESETS)
    if preset in TYPED_PRESETS:
        for name, value in (("nodes", nodes), ("edges", edges), ("undirected", undirected)):
            if value is not None:
                raise ValueError(f"{name} cannot be combined with the preset {preset!r}; use scale to change its size")
        common = {"memory": memory, "num_threads": num_threads, "progress": progress, "overwrite": overwrite}
        return _typed(out, {"preset": preset, "scale": scale, "dim": dim, **options}, dtype, dedup, common)
    graph, both_ways = plan(nodes, edges, dim, preset, scale, undirected, options)
    about = {
        "made_by": "graphzero synth",
        "preset": preset,
        "scale": scale,
        **{key: value for key, value in dataclasses.asdict(graph).items() if key != "splits"},
        "splits": dict(graph.splits),
        "undirected": both_ways,
        "dedup": dedup,
    }
    run: dict[str, Any] = {"memory": memory, "num_threads": num_threads, "progress": progress}

    def make(folder: str | os.PathLike[str], overwrite: bool = False) -> Dataset:
        return Dataset.create(
            folder,
            _ToSource(graph),
            features={"x": graph.feature_rows()},
            labels=graph.label_blocks(),
            splits={name: graph.split_blocks(name) for name, size in graph.split_sizes.items() if size},
            name=preset if preset and scale == 1 else os.path.basename(os.path.abspath(out)),
            num_classes=graph.classes,
            dtype=dtype,
            about=about,
            overwrite=overwrite,
            directed=not both_ways,
            direction="in",
            dedup=dedup,
            **run,
        )

    return make(out, overwrite) if order is None else make_ordered(out, order, make, overwrite=overwrite, **run)


class _ToSource:
    """The edges of a synthetic graph with source and target swapped: edges are in the rows of their targets.

    Loaders sample rows of sources, as messages flow. The rows are the same as those of the graph.
    """

    def __init__(self, graph: SyntheticGraph) -> None:
        self._graph = graph
        self.num_edges, self.num_nodes, self.has_weights = graph.num_edges, graph.num_nodes, graph.weights

    def edge_blocks(self) -> Iterator[Any]:
        """Yield (target, source) and the rest."""
        return ((block[1], block[0], *block[2:]) for block in self._graph.edge_blocks())


def _typed(
    out: str | os.PathLike[str], options: dict[str, Any], dtype: str, dedup: bool, common: dict[str, Any]
) -> Dataset:
    """Create a dataset of several types."""
    reverse = options.pop("reverse", None) is not False
    known = {f.name for f in dataclasses.fields(SyntheticTypes)}
    for name in options:
        if name not in known:
            raise TypeError(f"a preset of several types has no option {name!r}, expected one of {sorted(known)}")
    if options.get("feature_types") is not None:
        options["feature_types"] = tuple(options["feature_types"])
    types = SyntheticTypes(**{name: value for name, value in options.items() if value is not None})
    papers = types.papers
    about = {**dataclasses.asdict(types), "feature_types": list(types.feature_types), "classes": types.num_classes}
    return Dataset.create(
        out,
        graphs=types.graphs(),
        num_nodes=types.nodes,
        features=types.features(),
        labels={"paper": papers.label_blocks()},
        splits={"paper": {n: papers.split_blocks(n) for n, size in papers.split_sizes.items() if size}},
        num_classes={"paper": types.num_classes},
        reverse=reverse,
        name=types.preset if types.scale == 1 else None,
        about={"made_by": "graphzero synth", **about, "reverse": reverse, "dedup": dedup},
        dtype={"x": dtype},  # years stay integers
        dedup=dedup,
        **common,
    )


def plan(
    nodes: int | None,
    edges: int | None,
    dim: int | None,
    preset: str | None,
    scale: float,
    undirected: bool | None,
    options: Mapping[str, Any],
) -> tuple[SyntheticGraph, bool]:
    """Return the graph for the arguments of `synthesize`, and whether it is undirected."""
    shape: dict[str, Any] = {}
    if preset is not None:
        if preset not in PRESETS:
            names = [*PRESETS, *TYPED_PRESETS]
            hint = did_you_mean(preset, names)
            raise ValueError(f"preset is {preset!r}, expected one of {', '.join(names)}{hint}")
        if not 0 < scale <= 1000:
            raise ValueError(f"scale is {scale}, expected more than 0 and at most 1000")
        shape.update(PRESETS[preset])
        shape["splits"] = {name: size / shape["nodes"] for name, size in shape["splits"].items()}
        shape["nodes"], shape["edges"] = round(shape["nodes"] * scale), round(shape["edges"] * scale)
    elif nodes is None or edges is None:
        raise ValueError("nodes and edges are required without a preset")
    preset_is_undirected = shape.pop("undirected", False)
    both_ways = preset_is_undirected if undirected is None else undirected
    given = {"nodes": nodes, "edges": edges, "dim": dim, **options}
    known = {f.name for f in dataclasses.fields(SyntheticGraph)}
    for name in given:
        if name not in known:
            raise TypeError(f"synthesize has no option {name!r}, expected one of {', '.join(sorted(known))}")
    shape.update({name: value for name, value in given.items() if value is not None})
    return SyntheticGraph(**shape), both_ways
