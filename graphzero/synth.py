"""Synthetic datasets of any size in bounded memory, in shapes of your own or those of public datasets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ._synthetic import SyntheticGraph
from .dataset import Dataset, Progress

__all__ = ["PRESETS", "SyntheticGraph", "synthesize"]

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
    memory: int | str = "1GB",
    num_threads: int | None = None,
    progress: Progress | bool | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Dataset:
    """Make a synthetic dataset in the folder `out`, in bounded memory whatever its size, and open it.

    A `preset` ("papers100M", "products", "arxiv") has the shape of a public dataset; `scale` multiplies its nodes,
    edges and splits. Whatever is given beside it wins. `options` are the fields of SyntheticGraph: classes,
    communities, homophily, power, signal, splits, weights, seed. The same options give the same dataset, byte for byte,
    for any `memory`. An undirected graph stores each of its `edges` both ways.

    >>> import graphzero as gz
    >>> ds = gz.synthesize("papers", preset="papers100M", scale=0.01, dtype="float16")  # doctest: +SKIP
    """
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
    return Dataset.create(
        out,
        graph,
        features={"x": graph.feature_blocks()},
        labels=graph.label_blocks(),
        splits={name: graph.split_blocks(name) for name, size in graph.split_sizes.items() if size},
        name=preset if preset and scale == 1 else None,
        num_classes=graph.classes,
        dtype=dtype,
        about=about,
        memory=memory,
        num_threads=num_threads,
        progress=progress,
        overwrite=overwrite,
        directed=not both_ways,
        dedup=dedup,
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
    """Return the graph that the arguments of `synthesize` ask for, and whether it is undirected."""
    shape: dict[str, Any] = {}
    if preset is not None:
        if preset not in PRESETS:
            raise ValueError(f"preset is {preset!r}, expected one of {', '.join(PRESETS)}")
        if not 0 < scale <= 1000:
            raise ValueError(f"scale is {scale}, expected more than 0 and at most 1000")
        shape.update(PRESETS[preset])
        shape["splits"] = {name: size / shape["nodes"] for name, size in shape["splits"].items()}
        shape["nodes"], shape["edges"] = round(shape["nodes"] * scale), round(shape["edges"] * scale)
    elif nodes is None or edges is None:
        raise ValueError("nodes and edges are needed where no preset is given")
    preset_is_undirected = shape.pop("undirected", False)
    both_ways = preset_is_undirected if undirected is None else undirected
    given = {"nodes": nodes, "edges": edges, "dim": dim, **options}
    known = {f.name for f in dataclasses.fields(SyntheticGraph)}
    for name in given:
        if name not in known:
            raise TypeError(f"synthesize has no option {name!r}, expected some of {', '.join(sorted(known))}")
    shape.update({name: value for name, value in given.items() if value is not None})
    return SyntheticGraph(**shape), both_ways
