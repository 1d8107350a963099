"""Flipped bits: each of a header is refused at open, each of the data is found by verify. All of them in a soak."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from corpus import golden
from corpus.malformed import sound_features, sound_topology

import graphzero as gz
from graphzero import _core

SOAK = bool(os.environ.get("GRAPHZERO_SOAK"))
PAGE = 4096
SOUND = {
    "graph.gl": sound_topology().bytes,
    "rows.gd": sound_features().bytes,
    "compiled.gl": lambda: golden.releases()[-1].files["graph.gl"],
    "compiled.gd": lambda: golden.releases()[-1].files["rows.gd"],
}


def survivors(path: Path, bits: list[int]) -> list[int]:
    """The bits whose flip nobody noticed."""
    good = path.read_bytes()
    missed = []
    with path.open("r+b", buffering=0) as file:
        for bit in bits:
            at, flipped = bit // 8, good[bit // 8] ^ (1 << bit % 8)
            os.pwrite(file.fileno(), bytes([flipped]), at)
            try:
                _core.verify(str(path), 1)
                missed.append(bit)
            except gz.FormatError:
                pass
            os.pwrite(file.fileno(), good[at : at + 1], at)
    assert path.read_bytes() == good
    gz.verify(path)
    return missed


@pytest.mark.parametrize("name", SOUND)
def test_every_flip_is_noticed(tmp_path: Path, name: str) -> None:
    data = SOUND[name]()
    path = tmp_path / name
    path.write_bytes(data)
    rng = np.random.default_rng(5)
    header = range(PAGE * 8) if SOAK else rng.integers(0, 1600 * 8, 300).tolist()
    body = rng.integers(PAGE * 8, len(data) * 8, 100_000 if SOAK else 500).tolist()
    assert survivors(path, [*header, *body]) == []


def test_a_flip_that_nobody_looks_at_would_be_listed(tmp_path: Path) -> None:
    # The control: files of 0.2 have no checksums, and a weight that changes a little is still a weight.
    data = next(r for r in golden.releases() if r.version == "0.2.0").files["rows.gd"]
    (tmp_path / "old.gd").write_bytes(data)
    bit = (len(data) - 4) * 8
    assert survivors(tmp_path / "old.gd", [bit]) == [bit]
