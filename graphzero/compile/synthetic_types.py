"""A synthetic graph of several node and edge types, in the shape of ogbn-mag: a function of its seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..args.ids import IdArray
from ..sample.hetero_subgraph import EdgeTypeName
from .synthetic import SyntheticGraph, _in_order

__all__ = ["TYPED_PRESETS", "SyntheticTypes"]

_IDS = 1 << 17
_MASK = (1 << 64) - 1
_FIRST_YEAR, _TRAIN_YEARS = 2010, 8  # train is 2010 to 2017, valid 2018, test 2019

# Published shapes: nodes by type, edges by relation, columns and classes of papers, and how many each split has.
TYPED_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mag": {
            "nodes": {"paper": 736_389, "author": 1_134_649, "institution": 8_740, "field_of_study": 59_965},
            "edges": {
                ("author", "affiliated_with", "institution"): 1_043_998,
                ("author", "writes", "paper"): 7_145_660,
                ("paper", "cites", "paper"): 5_416_271,
                ("paper", "has_topic", "field_of_study"): 7_505_078,
            },
            "classes": 349,
            "splits": {"train": 629_571, "valid": 64_879, "test": 41_939},
        }
    }
)


@dataclasses.dataclass(frozen=True)
class SyntheticTypes:
    """Papers, authors, institutions and fields of study, generated on demand in bounded memory.

    Nodes of every type belong to communities that correspond to the classes of papers. An edge stays within its
    community with probability `homophily`; degrees follow a power law. Features are the class's centroid plus noise, as
    in SyntheticGraph, for the types in `feature_types`. A paper has a year: later papers cite earlier ones, and the
    splits are by year. With `times`, edges carry the year of their paper.

    >>> types = SyntheticTypes("mag", scale=0.001, classes=4)
    >>> types.nodes["institution"], list(types.graphs())[1]
    (9, ('author', 'writes', 'paper'))
    """

    preset: str = "mag"
    scale: float = 1.0
    dim: int = 128
    classes: int | None = None
    homophily: float = 0.7
    power: float = 2.7
    signal: float = 1.0
    feature_types: tuple[str, ...] = ("paper",)
    times: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        if not 0 < self.scale <= 1000:
            raise ValueError(f"scale is {self.scale}, expected more than 0 and at most 1000")
        for name in self.feature_types:
            if name not in self.nodes:
                raise ValueError(f"feature_types has {name!r}, expected one of {', '.join(self.nodes)}")
        for name in self.nodes:
            self.type_graph(name)

    @property
    def nodes(self) -> dict[str, int]:
        """The number of nodes of each type."""
        return {name: max(2, round(n * self.scale)) for name, n in TYPED_PRESETS[self.preset]["nodes"].items()}

    @property
    def num_classes(self) -> int:
        """The number of classes of papers."""
        wanted: int = TYPED_PRESETS[self.preset]["classes"] if self.classes is None else self.classes
        return wanted if self.classes is not None else min(wanted, self.nodes["paper"])

    def type_graph(self, name: str, edges: int = 0) -> SyntheticGraph:
        """Return the communities and features of one node type."""
        place, count = list(self.nodes).index(name), self.nodes[name]
        shares = TYPED_PRESETS[self.preset]["splits"]
        return SyntheticGraph(
            nodes=count,
            edges=edges,
            dim=self.dim,
            classes=self.num_classes if name == "paper" else min(self.num_classes, count),
            homophily=self.homophily,
            power=self.power,
            signal=self.signal,
            splits={split: n / sum(shares.values()) for split, n in shares.items()} if name == "paper" else {},
            seed=(self.seed + place * 0x9E3779B97F4A7C15) & _MASK,
        )

    # -- parts of a dataset -------------------------------------------------------------------------------------------

    def graphs(self) -> dict[EdgeTypeName, _Relation]:
        """Return a source of edges for each relation."""
        found: dict[EdgeTypeName, _Relation] = {}
        for number, (edge_type, count) in enumerate(TYPED_PRESETS[self.preset]["edges"].items()):
            edges = max(1, round(count * self.scale))
            found[edge_type] = _Relation(self, edge_type, edges, number)
        return found

    def features(self) -> dict[str, dict[str, Any]]:
        """Return rows by type and name."""
        found: dict[str, dict[str, Any]] = {t: {"x": self.type_graph(t).feature_rows()} for t in self.feature_types}
        found.setdefault("paper", {})["year"] = self.year_blocks()
        return found

    @cached_property
    def papers(self) -> SyntheticGraph:
        """The papers: their classes, splits and features."""
        return self.type_graph("paper")

    def years_of(self, papers: IdArray) -> npt.NDArray[np.int32]:
        """Return the year of each paper: that of its split, and one of eight in train."""
        train, valid, _ = self.papers.split_sizes.values()
        place = self.papers.split_place(papers)
        year = _FIRST_YEAR + place * _TRAIN_YEARS // max(train, 1)
        last = _FIRST_YEAR + _TRAIN_YEARS
        return np.where(place < train, year, np.where(place < train + valid, last, last + 1)).astype(np.int32)

    def year_blocks(self) -> Iterator[npt.NDArray[np.int32]]:
        """Yield the years of papers 0, 1, 2, ..."""
        for begin in range(0, self.papers.nodes, _IDS):
            yield self.years_of(np.arange(begin, min(begin + _IDS, self.papers.nodes)))


class _Relation:
    """The edges of one relation: a source for `compile_graph`."""

    def __init__(self, types: SyntheticTypes, edge_type: EdgeTypeName, edges: int, number: int) -> None:
        self.name, self.num_edges = " ".join(edge_type), edges
        self._types, self._edge_type = types, edge_type
        self._source = types.type_graph(edge_type[0], edges)
        self._target = types.type_graph(edge_type[2])
        # separate streams, since two relations may have the same target
        self._draws = dataclasses.replace(self._target, seed=(types.seed + (number + 101) * 0xD1B54A32D192ED03) & _MASK)

    def edge_blocks(self) -> Iterator[tuple[Any, ...]]:
        """Yield blocks of edges, in parallel, in a fixed order."""
        return _in_order(partial(self._block, *span) for span in self._source._edge_spans())

    def _block(self, number: int, turn: int, counts: IdArray) -> tuple[Any, ...]:
        source, target, within = self._source, self._target, self._edge_type[0] == self._edge_type[2]
        community, places, src = source._sources(turn, counts)
        bits = self._draws._bits("edges", number).random_raw(src.size)
        wanted = np.repeat(community % target.num_communities, counts)
        dst = target._shuffle.forward(target._targets(bits, wanted, np.repeat(places, counts) if within else None))
        return self._dated(src, dst)

    def _dated(self, src: IdArray, dst: IdArray) -> tuple[Any, ...]:
        """Let later papers cite earlier ones, and add the years of edges if requested."""
        types, (source, _, target) = self._types, self._edge_type
        if source == target == "paper":
            earlier = types.years_of(src) < types.years_of(dst)
            src, dst = np.where(earlier, dst, src), np.where(earlier, src, dst)
        if not types.times or "paper" not in (source, target):
            return src, dst
        return src, dst, None, types.years_of(src if source == "paper" else dst).astype(np.int64)
