"""The package index of Debian and its like, `Packages` or `apt-cache dumpavail`: packages, maintainers and tags."""

from __future__ import annotations

import lzma
import os
import re
import subprocess
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..sources.text import open_text
from .plan import Plan
from .spec import EdgeSpec, NodeSpec, TableSpec
from .whole_tables import plan_tables

__all__ = [
    "apt_stanzas",
    "is_apt",
    "is_package_index",
    "plan_apt",
    "plan_package_index",
    "read_stanzas",
    "related_names",
]

APT = "apt:"  # instead of a path: the index of the local apt
_RELATIONS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances")
_FIELDS = (*_RELATIONS, "Package", "Section", "Priority", "Installed-Size", "Size", "Maintainer", "Description")
_MORE = ("Tag", "Provides", "Essential", "Architecture")
_FIELD = re.compile(rf"^({'|'.join((*_FIELDS, *_MORE))}):(.*(?:\n[ \t].*)*)", re.M)
_NAME = re.compile(r"(?:^|[,|])\s*([^\s,|(\[:]+)")  # of 'a (>= 1), b | c [amd64], d:any'
_READ = 1 << 22
_PRIORITIES = ("required", "important", "standard", "optional", "extra")
_WORDS = 112  # columns of words; with the numbers before them a row has 128
_WORD = re.compile(r"[a-z0-9]+")

Stanza = dict[str, str]


def is_package_index(path: str) -> bool:
    """Return whether a file begins like a package index."""
    try:
        with open_text(path) as file:
            return file.read(9) == b"Package: "
    except (EOFError, OSError, lzma.LZMAError, zlib.error):  # the reader reports what is wrong
        return False


def plan_package_index(path: str) -> Plan:
    """Return the plan for a `Packages` file, perhaps compressed."""
    with open_text(path) as file:
        return _plan(path, read_stanzas(file))


def plan_apt() -> Plan:
    """Return the plan for what `apt-cache dumpavail` prints."""
    return _plan("apt-cache dumpavail", apt_stanzas())


def apt_stanzas() -> Iterator[Stanza]:
    """Yield the packages that `apt-cache dumpavail` prints."""
    try:
        with subprocess.Popen(["apt-cache", "dumpavail"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            yield from read_stanzas(process.stdout)
    except FileNotFoundError:
        raise InputError("apt-cache not found; pass the path of a Packages file instead") from None


def read_stanzas(file: IO[bytes]) -> Iterator[Stanza]:
    """Yield the fields of each package that matter; a line that begins with a blank continues the field before."""
    rest = b""
    while block := file.read(_READ):
        *whole, rest = (rest + block).split(b"\n\n")
        for text in whole:
            yield _fields(text)
    if rest.strip():
        yield _fields(rest)


def _fields(text: bytes) -> Stanza:
    return {key: " ".join(value.split()) for key, value in _FIELD.findall(text.decode("utf-8", "replace"))}


def _plan(where: str, stanzas: Iterator[Stanza]) -> Plan:
    packages: dict[str, Stanza] = {}
    again = 0
    for stanza in stanzas:
        again += stanza.get("Package", "") in packages
        packages.setdefault(stanza.get("Package", ""), stanza)
    packages.pop("", None)
    if not packages:
        raise InputError(f"{where}: found no package, expected lines such as 'Package: bash'")
    edges, unknown = _package_edges(packages)
    nodes = {
        "package": NodeSpec(
            {"id": np.array(list(packages), object), "label": _sections(packages), "x": _rows(packages)},
            features={"x": ["x"]},
        )
    }
    tables = [EdgeSpec(table, ("package", name, "package"), dedup=True) for name, table in edges.items()]
    tables.append(EdgeSpec(_pairs(packages, "Maintainer", _maintainers), ("maintainer", "maintains", "package")))
    tags = _pairs(packages, "Tag", _tags)
    if len(tags["source"]):
        tables.append(
            EdgeSpec({"source": tags["target"], "target": tags["source"]}, ("package", "has_tag", "tag"), dedup=True)
        )
    plan = plan_tables(TableSpec(nodes, tables, "packages", where=where))
    plan.kind, read = "Debian package index", plan.prepare
    assert read is not None

    def prepare(folder: str, memory: int, threads: int) -> None:
        read(folder, memory, threads)
        plan.nodes["package"].splits = {"": "60/20/20"}

    plan.prepare = prepare
    plan.found.append(f"packages: {len(packages):,} in {where}; classes are sections, splits 60/20/20 drawn")
    if again:
        plan.found.append(f"left out: {again} further versions of packages")
    if unknown:
        plan.found.append(
            f"left out: {unknown} relations to packages that are neither in the index nor provided by one in it"
        )
    return plan


# -- what a package has -----------------------------------------------------------------------------------------------


def _sections(packages: dict[str, Stanza]) -> npt.NDArray[Any]:
    """Return the section of each package; 'contrib/net' is 'net'."""
    return np.array([stanza.get("Section", "").rpartition("/")[2] for stanza in packages.values()], object)


def _rows(packages: dict[str, Stanza]) -> npt.NDArray[np.float32]:
    """Return 128 numbers a package: sizes, priority, how many relations, and the words of name and description."""
    out = np.zeros((len(packages), 128), np.float32)
    at: list[int] = []
    columns: list[int] = []
    place: dict[str, int] = {}
    for i, stanza in enumerate(packages.values()):
        values = [np.log1p(float(stanza.get(field) or 0)) / 10 for field in ("Installed-Size", "Size")]
        values += [stanza.get("Priority") == priority for priority in _PRIORITIES]
        values += [stanza.get("Essential") == "yes", stanza.get("Architecture") == "all"]
        values += [np.log1p(stanza[f].count(",") + 1) if f in stanza else 0 for f in (*_RELATIONS, "Provides", "Tag")]
        out[i, : len(values)] = values
        for word in _WORD.findall(f"{stanza['Package']} {stanza.get('Description', '')}".lower()):
            if word not in place:
                place[word] = len(values) + zlib.crc32(word.encode()) % _WORDS
            at.append(i)
            columns.append(place[word])
    np.add.at(out, (np.array(at), np.array(columns)), 1)
    out[:, -_WORDS:] /= np.maximum(1, np.linalg.norm(out[:, -_WORDS:], axis=1, keepdims=True))
    return out


def _package_edges(packages: dict[str, Stanza]) -> tuple[dict[str, dict[str, npt.NDArray[Any]]], int]:
    """Return the pairs of each relation: to every alternative, and to the providers of a name that is not a package."""
    providers: dict[str, list[str]] = {}
    for name, stanza in packages.items():
        for provided in related_names(stanza.get("Provides", "")):
            providers.setdefault(provided, []).append(name)
    found: dict[str, dict[str, npt.NDArray[Any]]] = {}
    unknown = 0
    for field in _RELATIONS:
        source: list[str] = []
        target: list[str] = []
        for name, stanza in packages.items():
            for other in related_names(stanza.get(field, "")):
                ends = [other] if other in packages else providers.get(other, [])
                unknown += not ends
                source += [name] * len(ends)
                target += ends
        if source:
            table = {"source": np.array(source, object), "target": np.array(target, object)}
            found[field.lower().replace("-", "_")] = table
    return found, unknown


def related_names(relations: str) -> list[str]:
    """Return the packages that a field such as Depends names, every alternative included."""
    return _NAME.findall(relations) if relations else []


def _maintainers(text: str) -> list[str]:
    return [text.partition("<")[2].rstrip(">").strip() or text]


def _tags(text: str) -> list[str]:
    """Return the tags of 'game::strategy, interface::{graphical,x11}'."""
    whole = re.sub(r"(\S+?)\{([^}]*)\}", lambda m: ", ".join(m[1] + part.strip() for part in m[2].split(",")), text)
    return [tag.strip() for tag in whole.split(",") if tag.strip()]


def _pairs(packages: dict[str, Stanza], field: str, parts: Any) -> dict[str, npt.NDArray[Any]]:
    """Return (what the field names, package) for each package that has the field."""
    pairs = [(part, name) for name, s in packages.items() if field in s for part in parts(s[field])]
    return {
        "source": np.array([part for part, _ in pairs], object),
        "target": np.array([name for _, name in pairs], object),
    }


def is_apt(source: Any) -> bool:
    """Return whether the index of the local apt is meant."""
    return isinstance(source, (str, os.PathLike)) and os.fspath(source) == APT
