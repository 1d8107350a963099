"""Which kind a column of a table is, and what reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sources.decoding import decoded, is_arrow, is_missing, kind_of, shown
from .column_readers import ColumnReader, LeftOut, Lists, Numbers, Times
from .column_rules import ColumnRule
from .column_texts import Categories, CategoryLists, Embedded

__all__ = ["reader_of"]


def reader_of(batch: Any, where: str, rule: ColumnRule) -> ColumnReader:
    """Return the reader for a column by its first batch and its rule; LeftOut where there is none."""
    kind = _kind(batch, rule)
    if rule.embed is not None:
        return Embedded(where, rule)
    if kind == "null":
        raise LeftOut("holds no values")
    if kind in ("number", "bool"):
        return Numbers(kind, where, rule)
    if kind == "time":
        return Times(where, rule)
    if kind == "category":
        return Categories(where, rule)
    if kind == "multicategory":
        return CategoryLists(where, rule)
    if kind == "embedding":
        return Lists(where, rule)
    raise LeftOut(f"holds {shown(kind)}, which is not supported as a model input")


def _kind(batch: Any, rule: ColumnRule) -> str:
    if rule.kind is not None:
        return rule.kind
    kind = kind_of(batch)
    if is_arrow(batch):
        from pyarrow import types

        own = decoded(batch[:0]).type
        if types.is_boolean(own):
            return "bool"
        if kind not in ("number", "date", "text", "list", "null") and hasattr(own, "value_type"):
            return "multicategory" if kind_of(decoded(batch[:0]).flatten()) == "text" else kind
    elif getattr(batch.dtype, "kind", "O") == "b":
        return "bool"
    elif batch.dtype.kind == "O" and getattr(batch, "ndim", 1) == 1:
        first = next((value for value in batch[:100] if not is_missing(value)), None)
        if isinstance(first, bool):
            return "bool"
        if isinstance(first, (list, tuple, np.ndarray)) and len(first) and isinstance(first[0], str):
            return "multicategory"
    return {"date": "time", "text": "category", "list": "embedding"}.get(kind, kind)
