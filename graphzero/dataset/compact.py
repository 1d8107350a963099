"""Folds what was appended into plain files, as a compile of everything at once would have written them."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from .. import _core
from ..args.progress import Callback, named
from ..sources.keys import keys_of
from ..stores.idmap import IdMap
from .change import Change
from .manifest import Manifest
from .node_data import key_files

__all__ = ["fold_file", "write_compacted", "write_keys"]

_STEP = 1 << 20  # ids of a map at a time


def write_compacted(change: Change, memory: int, threads: int, callback: Callback | None) -> Manifest:
    """Write a new file for every file that has deltas; return the manifest that names the new ones."""
    before = change.before
    names = {file: file for file in before.files()}
    mapped = [node for node in before.nodes.values() if node.keys is not None and node.keys.file in before.deltas]
    keys = {file for node in mapped if node.keys for file in (node.keys.file, node.keys.text)}
    for file in before.deltas:
        if file in keys:
            continue
        path, deltas = before.paths(change.folder, file)
        names[file], out = change.target(file)
        fold_file(path, deltas, out, threads, named(callback, file))
    for node in mapped:
        files, text = key_files(change.folder, before, node), ""
        assert node.keys is not None
        assert files is not None
        names[node.keys.file], out = change.target(node.keys.file)
        if node.keys.text:
            names[node.keys.text], text = change.target(node.keys.text)
        write_keys(IdMap(*files[0], deltas=files[1:]), out, text, memory, threads)
    plain = before.without_deltas()
    return plain.renamed({file: names[file] for file in plain.files()})


def fold_file(
    path: str, deltas: Sequence[str], out: str, threads: int = 0, progress: Callback | bool | None = None
) -> None:
    """Write a file and its deltas to one plain file."""
    fold = _core.compact_topology if path.endswith(".gl") else _core.compact_features
    fold(path, list(deltas), out, threads=threads, progress=progress if callable(progress) else None)


def write_keys(ids: IdMap, out: str, text: str, memory: int, threads: int) -> None:
    """Write a map of ids and its deltas as one; `text` is the file of its strings."""
    builder = _core.IdMapBuilder(text=ids.is_text, memory=memory, threads=threads, spill_folder=os.path.dirname(out))
    for at in range(0, len(ids), _STEP):
        builder.append(*keys_of(ids.to_original(np.arange(at, min(at + _STEP, len(ids))))))
    builder.close()
    builder.write(out, text, None)
