"""The graph of `graphzero quickstart`: Debian packages and what they need, from the index of apt or the sample here.

`python -m graphzero.cli.quickstart_graph` writes the sample again, on a machine that has the index of Debian.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib.resources
import io
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.errors import InputError
from graphzero.importing.debian import Stanza, apt_stanzas, read_stanzas, related_names

__all__ = ["PackageGraph", "package_graph"]

_RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Suggests")
_SAMPLE = "packages.txt.gz"
_SAMPLED = 3000  # packages in the sample
_WIDTH = 128
_WORD = re.compile(r"[a-z]+|[0-9]+")


@dataclass(frozen=True)
class PackageGraph:
    """Names and sections of packages, the relations between them, and a row of hashed words of each name."""

    where: str
    names: npt.NDArray[Any]
    sections: npt.NDArray[Any]
    source: npt.NDArray[Any]
    target: npt.NDArray[Any]
    words: npt.NDArray[np.float32]


def package_graph(count: int) -> PackageGraph:
    """Return the packages with the most relations in the index of apt; of the sample, if the index has too few."""
    with contextlib.suppress(InputError):  # there is no apt
        packages = most_related(apt_stanzas(), count)
        if len(packages) == count:
            return _graph("the package index of this machine (apt)", packages)
    text = gzip.decompress((importlib.resources.files(__package__) / _SAMPLE).read_bytes())
    packages = most_related(read_stanzas(io.BytesIO(text)), count)
    return _graph("a sample of Debian's package index that comes with GraphZero", packages)


def most_related(stanzas: Iterable[Stanza], count: int) -> list[Stanza]:
    """Return the packages with the most relations to others, in the order of their names."""
    known: dict[str, Stanza] = {}
    for stanza in stanzas:
        if stanza.get("Package") and stanza.get("Section"):
            known.setdefault(stanza["Package"], stanza)
    degrees = dict.fromkeys(known, 0)
    for name, stanza in known.items():
        for other in _related(stanza):
            if other in known:
                degrees[name] += 1
                degrees[other] += 1
    kept = sorted(known, key=lambda name: (-degrees[name], name))[:count]
    return [known[name] for name in sorted(kept)]


def _related(stanza: Stanza) -> list[str]:
    """Return the packages that one depends on, recommends or suggests."""
    found = {other for field in _RELATIONS for other in related_names(stanza.get(field, ""))}
    return sorted(found - {stanza["Package"]})


def _graph(where: str, packages: list[Stanza]) -> PackageGraph:
    names = [stanza["Package"] for stanza in packages]
    known = set(names)
    pairs = [(stanza["Package"], other) for stanza in packages for other in _related(stanza) if other in known]
    words = np.zeros((len(names), _WIDTH), np.float32)
    for row, name in enumerate(names):
        for word in _WORD.findall(name.lower()):
            words[row, zlib.crc32(word.encode()) % _WIDTH] += 1
    words /= np.maximum(1, np.linalg.norm(words, axis=1, keepdims=True))
    return PackageGraph(
        where,
        np.array(names, object),
        np.array([stanza["Section"].rpartition("/")[2] for stanza in packages], object),
        np.array([source for source, _ in pairs], object),
        np.array([target for _, target in pairs], object),
        words,
    )


def _sample(packages: list[Stanza]) -> str:
    """Return the text of the sample: names, sections, and relations within it."""
    known = {stanza["Package"] for stanza in packages}
    lines = []
    for stanza in packages:
        lines += [f"Package: {stanza['Package']}", f"Section: {stanza['Section'].rpartition('/')[2]}"]
        if needed := [other for other in _related(stanza) if other in known]:
            lines.append(f"Depends: {', '.join(needed)}")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    with importlib.resources.as_file(importlib.resources.files(__package__) / _SAMPLE) as _path:
        _path.write_bytes(gzip.compress(_sample(most_related(apt_stanzas(), _SAMPLED)).encode(), mtime=0))
        print(f"{_path}: {_path.stat().st_size:,} bytes")
