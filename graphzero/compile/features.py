"""Compile rows of features into a `.gd` file, within a memory budget that you set."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import _core
from ..args.dtypes import FLOATS, Converter, DataType, Loss, dtype_name
from ..args.ids import as_count, as_threads
from ..args.progress import Callback, Reporting
from ..args.sizes import format_size, parse_size
from ..args.target import as_target
from ..errors import BudgetError, InputError
from ..load.handoff import make_room
from ..sources.row_text import PARSED, TextRows
from ..sources.rows import Rows, all_rows, is_text, rows_of_file
from ..sources.text import refuse_text_options
from .int8_scales import int8_scale
from .reports import FeatureReport

__all__ = ["FeatureReport", "compile_features", "convert_csv_to_gd"]

Path = str | os.PathLike[str]
_MOST_BLOCK = 16 << 20


def compile_features(
    source: Any,
    out: Path,
    *,
    name: str = "x",
    dtype: Any = None,
    num_nodes: int | None = None,
    memory: int | float | str = "1GB",
    num_threads: int | None = None,
    progress: bool | Callback | None = None,
    on_error: str = "raise",
    delimiter: str | None = None,
    header: bool | None = None,
    id_base: int = 0,
    report_error: bool = False,
) -> FeatureReport:
    """Compile rows from `source` into the `.gd` file `out`.

    The source is a `.npy` file, an array or tensor (torch's bfloat16 too) of shape (N, F) or (N,), an iterator of
    blocks of rows, an existing `.gd` file (also of GraphZero 0.2), or a text file of lines `id,f1,f2,...` (gzip too).
    A dict of names to sources writes several arrays to one file; all must have the same number of rows.

    dtype: the stored type (default: the source's): float64, float32, float16, bfloat16, int64, int32, int16, int8,
        uint8 or bool; may be a dict for a dict of sources. A value that does not fit is an error. Floats stored as int8
        get one factor per column, "<name>.scale": the one with the least squared error, which may clip outliers. The
        rows are read three times; those of an iterator are first written to a temporary file next to `out`.
    num_nodes: checked if given. In text, an id without a line is a row of zeros; an id with two lines is an error.
    memory: the limit on buffered data; rows are streamed.
    on_error: "skip" omits lines of text that cannot be parsed, and counts them.
    report_error: measure the error of storing floats in a smaller type, as `report.losses["x"]`.

    >>> import graphzero as gz, numpy as np
    >>> gz.compile_features(np.eye(3, dtype=np.float32), "x.gd").nodes  # doctest: +SKIP
    3
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}, expected 'raise' or 'skip'")
    as_count(id_base, "id_base", least=0)
    if num_nodes is not None:
        num_nodes = as_count(num_nodes, "num_nodes", least=0)
    if not isinstance(name, str):
        raise TypeError(f"name must be text, got {type(name).__name__}")
    path = as_target(out, "features")
    budget, threads = parse_size(memory), as_threads(num_threads)
    make_room(budget)
    _core.reset_bytes_held_peak()
    with Reporting(progress) as callback:
        if is_text(source):
            text = TextRows(os.fspath(source), name, delimiter, header, id_base, num_nodes, budget, threads, on_error)
            wanted = dtype_name(dtype) if dtype is not None else "float32"
            if wanted in PARSED and not (wanted == "int8" and text.has_fractions()):
                return text.compile(path, wanted, callback)
            measured = partial(_compile_rows, report_error=report_error)
            return text.compile_through_float32(path, wanted, callback, measured)
        shown = os.fspath(source) if isinstance(source, (str, os.PathLike)) else type(source).__name__
        refuse_text_options(shown, on_error, delimiter, header)
        rows = all_rows(source, name)
        common = (budget, threads, callback)
        once = [r for r in rows if not r.rewindable and _is_scaled(r, _wanted(r, dtype))]
        if not once:
            return _compile_rows(rows, path, dtype, num_nodes, *common, report_error)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path), prefix=".gzrows-") as folder:
            kept = _compile_rows(once, os.path.join(folder, "rows.gd"), None, num_nodes, *common)
            rows = [r for r in rows if r not in once] + rows_of_file(kept.path)
            return _compile_rows(rows, path, dtype, num_nodes, *common, report_error)


def convert_csv_to_gd(csv_path: Path, out_path: Path, dtype: DataType) -> None:
    """Compile a CSV of `id,f1,f2,...` lines, as in GraphZero 0.2; `compile_features` has more options.

    >>> import graphzero as gz
    >>> gz.convert_csv_to_gd("features.csv", "x.gd", dtype=gz.DataType.FLOAT32)  # doctest: +SKIP
    """
    compile_features(csv_path, out_path, dtype=dtype)


def _compile_rows(
    sources: list[Rows],
    path: str,
    dtype: Any,
    num_nodes: int | None,
    budget: int,
    threads: int,
    callback: Callback | None,
    report_error: bool = False,
) -> FeatureReport:
    start = time.perf_counter()
    sources = sorted(sources, key=lambda rows: rows.count is None)  # an array of unknown length comes last
    count = _common_count(sources, num_nodes)
    unknown = [rows for rows in sources if rows.count is None]
    if count is None and len(unknown) > 1:
        raise ValueError("there are several iterators of unknown length; pass num_nodes")
    for rows in sources:
        _check_row(rows, budget)
    wanted = {rows.name: _wanted(rows, dtype) for rows in sources}
    sources = [rows if wanted[rows.name] == "int8" else rows.widened() for rows in sources]
    scales = {
        rows.name: int8_scale(rows, _step(rows, budget), budget // 16)
        if _is_scaled(rows, wanted[rows.name])
        else rows.scale
        for rows in sources
    }
    arrays: list[tuple[str, str, list[int]]] = []
    for rows in sources:
        scale = scales[rows.name]
        if scale is not None:
            arrays.append((f"{rows.name}.scale", "float32", [len(scale)]))
        arrays.append((rows.name, wanted[rows.name], list(rows.shape(count or 0))))
    index = {name: i for i, (name, _, _) in enumerate(arrays)}
    lossy = [rows.name for rows in sources if report_error and _loses(rows, wanted[rows.name])]
    losses = {name: Loss(wanted[name]) for name in lossy}
    writer = _core.FeatureWriter(path, count or 0, arrays, callback)
    try:
        for rows in sources:
            scale = scales[rows.name]
            if scale is not None:
                writer.append(index[f"{rows.name}.scale"], scale)
            own = scale if rows.scale is None else None  # rows that have factors are copied
            convert = Converter(rows.name, rows.dtype, wanted[rows.name], own, losses.get(rows.name))
            count = _write_rows(writer, index[rows.name], rows, convert, wanted[rows.name], count, budget)
        written = time.perf_counter()
        size = writer.finish(threads)
    finally:
        writer.discard()
    done = time.perf_counter()
    return FeatureReport(
        path=path,
        nodes=int(count or 0),
        arrays={rows.name: (rows.shape(int(count or 0)), wanted[rows.name]) for rows in sources},
        bytes=size,
        seconds={"writing": written - start, "publishing": done - written, "total": done - start},
        peak_memory=int(_core.bytes_held()["peak"]),
        losses=losses,
    )


def _loses(rows: Rows, wanted: str) -> bool:
    """Return whether values are rounded: floats stored in a smaller type."""
    small = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
    return rows.dtype in FLOATS and rows.dtype != wanted and small.get(wanted, 8) <= small[rows.dtype]


def _common_count(sources: list[Rows], num_nodes: int | None) -> int | None:
    count = num_nodes
    for rows in sources:
        if rows.count is None:
            continue
        if count is not None and rows.count != count:
            raise InputError(f"{rows.name}: found {rows.count} rows, expected {count}, one per node")
        count = rows.count
    return count


def _wanted(rows: Rows, dtype: Any) -> str:
    if isinstance(dtype, Mapping):
        dtype = dtype.get(rows.name)
    return rows.dtype if dtype is None else dtype_name(dtype)


def _is_scaled(rows: Rows, wanted: str) -> bool:
    """Return whether floats are stored as int8: their columns then get factors."""
    return wanted == "int8" and rows.dtype in FLOATS


def _check_row(rows: Rows, budget: int) -> None:
    """Raise BudgetError if three rows do not fit: one being read, one prefetched and one being converted."""
    needed = 3 * rows.width * _itemsize(rows.dtype)
    if rows.raw is None and needed > budget:
        raise BudgetError(
            f"{rows.name}: a row takes {format_size(needed // 3)} and three rows must fit in memory; pass "
            f"memory={format_size(needed)!r} or more (it is {format_size(budget)})",
            needed,
        )


def _itemsize(dtype: str) -> int:
    return int(np.dtype(np.uint16 if dtype == "bfloat16" else dtype).itemsize)


def _step(rows: Rows, budget: int) -> int:
    """Return the rows per block: a block and its conversions stay well within the budget."""
    return max(1, min(_MOST_BLOCK, budget // 16) // max(8 * rows.width, 1))


def _write_rows(
    writer: _core.FeatureWriter,
    index: int,
    rows: Rows,
    convert: Converter,
    wanted: str,
    count: int | None,
    budget: int,
) -> int:
    itemsize = _itemsize(wanted)
    if rows.raw is not None and wanted == rows.dtype and rows.count is not None:
        file, offset = rows.raw
        writer.append_file(index, file, offset, rows.count * rows.width * itemsize)
        return rows.count
    at, room = 0, count if count is not None else 0
    for block in rows.blocks(_step(rows, budget)):
        if at + len(block) > room:
            if count is not None:
                raise InputError(f"{rows.name}: found more than {count} rows, expected {count}, one per node")
            room = max(at + len(block), 2 * room)
            writer.grow_last(room)
        writer.append(index, convert(block, at))
        at += len(block)
        writer.report("writing", at * rows.width * itemsize, (count or 0) * rows.width * itemsize)
    if count is None:
        writer.shrink_last(at)
    elif at != count:
        raise InputError(f"{rows.name}: found {at} rows, expected {count}, one per node")
    return at
