"""Labels by original id: a text file or a table of `id,label`, joined with the nodes once their ids are known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dataset.writer import kind_of_labels
from ..errors import InputError
from ..sources.categories import codes_of
from ..sources.csv_tables import csv_table
from ..sources.edge_columns import is_number, known_column, named
from ..sources.keys import check_keys
from ..sources.rows import Rows, is_text
from ..sources.tables import Table, is_table_file
from ..sources.text import sniff
from .node_tables import IDS, LABELS, node_table, whole_column
from .parts import is_path, label_rows

__all__ = ["LabelTable", "read_labels"]


def read_labels(source: Any, column: str | None, id_base: int) -> Rows | LabelTable:
    """Return one label per node in order, or a table by id, whose `column` has the labels."""
    if is_path(source) and _has_ids(os.fspath(source)):
        return LabelTable(os.fspath(source), column)
    if column is not None:
        raise ValueError(f"label is {column!r}, but labels has no named columns; omit one of them")
    return label_rows(source, id_base, complete=True)


def _has_ids(path: str) -> bool:
    if not os.path.isfile(path) or path.endswith((".npz", ".pt", ".pth")):
        return False
    return is_table_file(path) or (is_text(path) and sniff(path).columns > 1)


class LabelTable:
    """A file with a row per labelled node: its id, and its label as a number or as the name of a class."""

    def __init__(self, path: str, column: str | None) -> None:
        """Nothing is read yet."""
        self.path, self._column = path, column

    def of_numbers(self, id_base: int) -> tuple[Rows, list[str] | None]:
        """Return the labels of nodes 0, 1, 2, ..., and the names of the classes if they have some."""
        if not is_table_file(self.path) and self._column is None and all(map(is_number, sniff(self.path).first)):
            return label_rows(self.path, id_base, complete=True), None
        ids, values, classes = self.read()
        bad = next((one for one in ids if not isinstance(one, int) or one < id_base), None)
        if bad is not None:
            raise InputError(f"{self.path}: found id {bad!r}, expected integers of at least {id_base}, as in the edges")
        places = np.array(ids, np.int64) - id_base
        return _placed(values, places, int(places.max(initial=-1)) + 1), classes

    def of_ids(self, node_ids: Sequence[Any]) -> tuple[Rows, list[str] | None]:
        """Return the labels of the nodes that have these ids, in their order, and the names of the classes."""
        known = {one: place for place, one in enumerate(_plain(node_ids))}
        ids, values, classes = self.read(text=isinstance(next(iter(known), None), str))
        lost = [one for one in ids if one not in known]
        if lost:
            raise InputError(f"{self.path}: {len(lost):,} ids are not in the graph, such as {lost[0]!r}")
        return _placed(values, np.array([known[one] for one in ids], np.int64), len(known)), classes

    def read(self, text: bool = False) -> tuple[list[Any], Any, list[str] | None]:
        """Return the ids, as strings if they are `text`, labels as numbers or codes, and what codes stand for."""
        table = node_table(self.path) if is_table_file(self.path) else csv_table(self.path, header=None)
        ids, label = _columns(table, self._column)
        values, classes = codes_of(table, label)
        header = None if classes is None or label not in classes else False  # a header has no name of a class
        if header is False:
            ids, label = "0", str(table.names.index(label))
        if not is_table_file(self.path) and (text or header is False):
            table = csv_table(self.path, [ids] if text else (), header)
            values, classes = codes_of(table, label)
        column = whole_column(table, ids)
        check_keys(table, {ids: column}, 0)
        found = _plain(column)
        seen: set[Any] = set()
        for one in found:
            if one in seen:
                raise InputError(f"{self.path}: node {one} has two labels, expected one")
            seen.add(one)
        return found, values, classes


def _columns(table: Table, asked: str | None) -> tuple[str, str]:
    """Return the columns of ids and labels."""
    ids = known_column(table.names, IDS) or table.names[0]
    if asked is not None:
        return ids, named(table.name, table.names, asked)
    others = [name for name in table.names if name != ids]
    label = others[0] if len(others) == 1 else known_column(others, LABELS)
    if label is None:
        listed = ", ".join(map(repr, others)) or "none"
        raise InputError(f"{table.name}: expected one column of labels next to {ids!r}, found {listed}; set label=")
    return ids, label


def _placed(values: Any, places: Any, count: int) -> Rows:
    """Return one label per node: -1, or NaN in a regression, where there is none."""
    fractions = values.dtype.kind == "f" and kind_of_labels(values) == "regression"
    out = np.full(count, np.nan if fractions else -1, np.float64 if fractions else np.int64)
    out[places] = values if fractions else np.nan_to_num(values, nan=-1)
    return label_rows(out)


def _plain(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)
