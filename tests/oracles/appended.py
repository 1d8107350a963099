"""A dataset that was appended to in steps, and the same data compiled at once: what readers see must be equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import graphzero as gz
from graphzero.sources.edge_blocks import Block

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
WRITTEN = ("paper", "rev_writes", "author")


class _Edges:
    """Edges with ids of their own, as they are after removals."""

    def __init__(self, src: Any, dst: Any, weights: Any, times: Any, ids: Any) -> None:
        self._block = Block(src, dst, weights, times, ids)

    def edge_blocks(self) -> Iterator[Block]:
        yield self._block


class Grown:
    """One type: 300 nodes and 2,000 edges, then three appends, one of which removes edges."""

    nodes, edges = (300, 340, 340, 361), (2000, 2300, 2400, 2400)

    def __init__(self, folder: Path, direction: str = "in", directed: bool = True, plain: bool = False) -> None:
        rng = np.random.default_rng(11)
        nodes, edges = self.nodes[-1], self.edges[-1]
        self.src, self.dst = rng.integers(0, self.nodes[0], (2, edges))
        self.dst[2000:2300:2] = rng.integers(300, 340, 150)  # new edges lead to new nodes too
        self.src[2300:2400:2] = rng.integers(300, 340, 50)
        self.weights = None if plain else rng.random(edges).astype(np.float32)
        self.times = None if plain else rng.integers(0, 1000, edges)
        self.x = rng.standard_normal((nodes, 5)).astype(np.float32)
        self.labels = rng.integers(0, 4, nodes)
        self.edge_attr = rng.standard_normal((edges, 2)).astype(np.float32)
        self.train = np.sort(rng.permutation(nodes)[: nodes // 2])
        self.held = np.sort(rng.permutation(edges)[: edges // 3])
        ends = np.stack([self.src, self.dst])[:, : self.edges[1]]
        pairs = ends if directed else np.sort(ends, axis=0)  # an undirected edge goes with its reverse
        keys = pairs[0] * 1000 + pairs[1]
        self.removed = np.flatnonzero(np.isin(keys, rng.permutation(keys)[:60]))
        self.options: dict[str, Any] = {"direction": direction, "directed": directed, "num_threads": 1}
        self.edge_ids = not plain
        self.folder = folder
        self.plain = plain

    def _columns(self, part: slice) -> tuple[Any, ...]:
        given = [self.src[part], self.dst[part]]
        if self.weights is not None and self.times is not None:
            given += [self.weights[part], self.times[part]]
        return tuple(given)

    def _rows(self, nodes: slice, edges: slice) -> dict[str, Any]:
        own = {"features": self.x[nodes], "labels": self.labels[nodes]}
        own["splits"] = {"train": self.train[(self.train >= nodes.start) & (self.train < nodes.stop)]}
        if not self.plain:
            own["edge_features"] = self.edge_attr[edges]
            own["edge_splits"] = {"held": self.held[(self.held >= edges.start) & (self.held < edges.stop)]}
        return own

    def base(self, name: str = "grown") -> gz.Dataset:
        """The dataset before any append."""
        part = slice(0, self.edges[0])
        rows = self._rows(slice(0, self.nodes[0]), part)
        return gz.Dataset.create(self.folder / name, self._columns(part), num_classes=4, **rows, **self.options)

    def step(self, ds: gz.Dataset, number: int) -> gz.Dataset:
        """Append what comes with step 1, 2 or 3."""
        nodes = slice(self.nodes[number - 1], self.nodes[number])
        edges = slice(self.edges[number - 1], self.edges[number])
        given = {
            k: v
            for k, v in self._rows(nodes, edges).items()
            if k not in ("features", "labels") or nodes.start < nodes.stop
        }
        if edges.start == edges.stop:
            given = {k: v for k, v in given.items() if not k.startswith("edge")}
        else:
            given["edges"] = self._columns(edges)
        if number == 2:
            given["remove_edges"] = np.stack([self.src[self.removed], self.dst[self.removed]])
        return ds.append(num_threads=1, **given).dataset

    def grown(self, steps: int = 3) -> gz.Dataset:
        """The dataset after its appends."""
        ds = self.base()
        for number in range(1, steps + 1):
            ds = self.step(ds, number)
        return ds

    def whole(self, steps: int = 3) -> gz.Dataset:
        """The same data, compiled at once."""
        nodes, edges = self.nodes[steps], self.edges[steps]
        left = np.setdiff1d(np.arange(edges), self.removed) if steps >= 2 else np.arange(edges)
        weights, times = (None if column is None else column[left] for column in (self.weights, self.times))
        source = _Edges(self.src[left], self.dst[left], weights, times, left if self.edge_ids else None)
        path = self.folder / "whole.gl"
        gz.compile_graph(source, path, num_nodes=nodes, **self.options)
        rows = self._rows(slice(0, nodes), slice(0, edges))
        if not self.plain and steps >= 2:
            rows["edge_splits"] = {"held": np.setdiff1d(rows["edge_splits"]["held"], self.removed)}
        return gz.Dataset.create(self.folder / "whole", path, num_classes=4, overwrite=True, num_threads=1, **rows)


class GrownTypes:
    """Two node types and a relation with its reverse: authors, papers and edges are added in one append."""

    before, after = {"author": 80, "paper": 120}, {"author": 95, "paper": 150}

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(5)
        self.folder = folder
        self.ends = {
            WRITES: np.stack([rng.integers(0, 80, 900), rng.integers(0, 120, 900)]),
            CITES: rng.integers(0, 120, (2, 700)),
        }
        self.first = {WRITES: 800, CITES: 640}
        for kind, first in self.first.items():
            self.ends[kind][0, first:] = rng.integers(0, self.after[kind[0]], self.ends[kind].shape[1] - first)
            self.ends[kind][1, first:] = rng.integers(0, self.after[kind[2]], self.ends[kind].shape[1] - first)
        self.x = {name: rng.standard_normal((count, 4)).astype(np.float32) for name, count in self.after.items()}
        self.labels = rng.integers(0, 3, self.after["paper"])
        self.year = rng.integers(1990, 2020, 900)
        self.train = np.arange(0, self.after["paper"], 3)

    def _create(self, name: str, edges: dict[Any, Any], counts: dict[str, int], year: Any) -> gz.Dataset:
        train = self.train[self.train < counts["paper"]]
        return gz.Dataset.create(
            self.folder / name, graphs=edges, num_nodes=counts, num_classes={"paper": 3}, reverse=True, num_threads=1,
            features={kind: {"x": rows[: counts[kind]]} for kind, rows in self.x.items()},
            labels={"paper": self.labels[: counts["paper"]]}, splits={"paper": {"train": train}},
            edge_features={WRITES: {"year": year}}, edge_ids={CITES: True},
        )  # fmt: skip

    def base(self) -> gz.Dataset:
        return self._create(
            "grown", {k: e[:, : self.first[k]] for k, e in self.ends.items()}, self.before, self.year[:800]
        )

    def grown(self) -> gz.Dataset:
        before = self.before
        report = self.base().append(
            edges={kind: ends[:, self.first[kind] :] for kind, ends in self.ends.items()},
            features={kind: rows[before[kind] :] for kind, rows in self.x.items()},
            labels={"paper": self.labels[before["paper"] :]},
            splits={"paper": {"train": self.train[self.train >= before["paper"]]}},
            edge_features={WRITES: {"year": self.year[800:]}},
            num_threads=1,
        )
        return report.dataset

    def whole(self) -> gz.Dataset:
        return self._create("whole", self.ends, self.after, self.year)


def same_data(found: gz.Dataset, expected: gz.Dataset) -> None:
    """Assert that two datasets have equal topologies, rows, labels and splits, bit for bit."""
    assert found.edge_types == expected.edge_types
    for kind, edge in expected.edges.items():
        same_graph(found.edges[kind].graph, edge.graph)
        for name, store in edge.features.items():
            np.testing.assert_array_equal(found.edges[kind].features[name].get_tensor(), store.get_tensor())
        for name, ids in edge.splits.items():
            np.testing.assert_array_equal(found.edges[kind].splits[name], ids)
    for name, node in expected.nodes.items():
        own = found.nodes[name]
        assert own.num_nodes == node.num_nodes
        for key, store in node.features.items():
            assert own.features[key].dtype_name == store.dtype_name
            np.testing.assert_array_equal(own.features[key].get_tensor(), store.get_tensor())
            some = np.arange(node.num_nodes)[::7]
            np.testing.assert_array_equal(own.features[key].gather(some, io="pread"), store.gather(some))
        if node.label_kind:
            np.testing.assert_array_equal(own.labels, node.labels)
        for key, ids in node.splits.items():
            np.testing.assert_array_equal(own.splits[key], ids)


def same_graph(found: gz.Graph, expected: gz.Graph) -> None:
    """Assert that two graphs have the same rows and whatever their edges carry."""
    assert (found.shape, found.num_edges, found.direction) == (expected.shape, expected.num_edges, expected.direction)
    for side in ("out", "in") if expected.direction == "both" else (expected.direction,):
        for mine, theirs in zip(found.csr(direction=side), expected.csr(direction=side), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(found.degrees(direction=side), expected.degrees(direction=side))
        get = {"weights": found.get_weights, "times": found.get_times, "edge_ids": found.get_edge_ids}
        wanted = {"weights": expected.get_weights, "times": expected.get_times, "edge_ids": expected.get_edge_ids}
        for what in get:
            assert getattr(found, f"has_{what}") == getattr(expected, f"has_{what}")
            for node in range(0, len(expected.csr(direction=side)[0]) - 1) if getattr(expected, f"has_{what}") else ():
                np.testing.assert_array_equal(get[what](node, direction=side), wanted[what](node, direction=side))
