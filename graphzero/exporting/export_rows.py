"""Rows of a .gd file, one for each node, as a table with the nodes' original ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..stores.features import FeatureStore
from .table_out import write_table

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset

__all__ = ["export_rows"]

_ROWS = 1 << 14


def export_rows(
    data: Dataset, rows: str | os.PathLike[str], out: str | os.PathLike[str], *, node_type: str | None = None
) -> int:
    """Write a `.gd` file with one row per node to a `.csv` or `.parquet` file of ids and columns; return the row count.

    A `.gd` file of a temporal run has its own ids and times, which are written with its rows.
    """
    store = FeatureStore(rows)
    timed = {"x", "ids"} <= set(store.names)
    able = [name for name, node in data.nodes.items() if timed or node.num_nodes == store.num_nodes]
    if (node_type is not None and node_type not in able) or not able:
        sizes = ", ".join(f"{name!r}: {node.num_nodes}" for name, node in data.nodes.items())
        raise ValueError(f"{os.fspath(rows)} has {store.num_nodes} rows, the node types have {sizes}")
    if node_type is None and len(able) > 1:
        raise ValueError(f"rows may belong to {', '.join(map(repr, able))}; choose one with node_type=")
    ids = data.nodes[node_type or able[0]].ids

    def blocks() -> Iterator[dict[str, Any]]:
        for begin in range(0, store.num_nodes, _ROWS):
            at = np.arange(begin, min(begin + _ROWS, store.num_nodes))
            found: dict[str, Any] = {"id": ids.to_original(store.gather(at, name="ids") if timed else at)}
            if "times" in store.names:
                found["time"] = store.gather(at, name="times")
            values = store.gather(at, name="x" if timed else None).reshape(len(at), -1)
            yield found | {f"x{column}": values[:, column] for column in range(values.shape[1])}

    return write_table(out, blocks())
