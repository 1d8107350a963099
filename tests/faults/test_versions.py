"""Files of other releases: older ones are read for ever, newer ones that we cannot understand are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus import golden
from corpus.malformed import sound_topology

import graphzero as gz

RELEASES = golden.releases()


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: r.version)
def test_a_release_is_read_for_ever(release: golden.Release, tmp_path: Path) -> None:
    for name, data in release.files.items():
        (tmp_path / name).write_bytes(data)
        gz.verify(tmp_path / name)
    g = gz.Graph(tmp_path / "graph.gl")
    assert g.num_edges == len(golden.EDGES)
    assert g.has_weights
    for node in range(g.num_nodes):
        assert sorted(g.get_neighbours(node).tolist()) == golden.neighbours(node)
        found = sorted(zip(g.get_neighbours(node).tolist(), g.get_weights(node).tolist(), strict=True))
        assert found == golden.weights_by_neighbour(node)
    part = g.sample([0, 1], [-1], seed=1)
    assert sorted(part.node[2:].tolist()) == sorted({*golden.neighbours(0), *golden.neighbours(1)} - {0, 1})
    rows = np.array(golden.ROWS, np.float32)
    for name in release.files:
        if name.endswith(".gd"):
            store = gz.FeatureStore(tmp_path / name)
            assert (np.asarray(store.get_tensor()).astype(np.float32) == rows).all()
            assert (store.gather([5, 0, 5], dtype="float32") == rows[[5, 0, 5]]).all()


def test_what_a_release_kept_beside_its_edges_is_read(tmp_path: Path) -> None:
    (tmp_path / "g.gl").write_bytes(next(r for r in RELEASES if r.version == "1.0.0").files["graph.gl"])
    g = gz.Graph(tmp_path / "g.gl")
    edges = [golden.EDGES[i] for u in range(g.num_nodes) for i in g.get_edge_ids(u).tolist()]
    assert edges == [(u, v) for u in range(g.num_nodes) for v in g.get_neighbours(u).tolist()]
    assert sorted(t for u in range(g.num_nodes) for t in g.get_times(u).tolist()) == list(range(len(golden.EDGES)))
    assert sorted(g.get_neighbours(0, direction="in").tolist()) == [1, 4, 4]


def test_a_release_with_two_kinds_of_nodes_is_read(tmp_path: Path) -> None:
    (tmp_path / "g.gl").write_bytes(next(r for r in RELEASES if r.version == "1.0.0").files["typed.gl"])
    g = gz.Graph(tmp_path / "g.gl")
    assert g.shape == (golden.NODES, golden.NODES + 3)
    assert [(u, v - 3) for u in range(golden.NODES) for v in g.get_neighbours(u).tolist()] == sorted(golden.EDGES)
    assert sorted(g.get_neighbours(3, direction="in").tolist()) == [1, 4, 4]


def test_both_old_and_present_releases_are_kept() -> None:
    versions = [r.version for r in RELEASES]
    assert "0.2.0" in versions
    assert gz.__version__ in versions, "freeze this release: python tests/oracles/corpus/golden.py VERSION"


def test_a_golden_file_that_changed_would_be_noticed(tmp_path: Path) -> None:
    # The control: one bit of what is kept, and the test above fails.
    data = bytearray(RELEASES[-1].files["graph.gl"])
    data[4096 + 8] ^= 1
    (tmp_path / "g.gl").write_bytes(data)
    with pytest.raises(gz.FormatError):
        gz.verify(tmp_path / "g.gl")


def test_a_later_minor_version_with_compatible_flags_opens(tmp_path: Path) -> None:
    file = sound_topology()
    file.header = {"minor": 9, "compatible": 2**64 - 1}
    (tmp_path / "g.gl").write_bytes(file.bytes())
    assert gz.Graph(tmp_path / "g.gl").info["version"] == "1.9"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"major": 2, "minor": 3}, "format version 2.3, this GraphZero reads version 1.x; upgrade"),
        ({"minor": 9, "incompatible": 1 << 40}, r"incompatible flags are 1099511627776 \(version 1.9\).*upgrade"),
    ],
)
def test_a_newer_file_is_refused_with_its_version(tmp_path: Path, fields: dict[str, int], message: str) -> None:
    file = sound_topology()
    file.header = dict(fields)
    (tmp_path / "g.gl").write_bytes(file.bytes())
    with pytest.raises(gz.FormatError, match=message):
        gz.Graph(tmp_path / "g.gl")
