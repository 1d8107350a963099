"""Writes tables block by block, as CSV or Parquet by the file extension; published atomically."""

from __future__ import annotations

import contextlib
import csv
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["TABLES", "as_table_target", "is_table", "write_table"]

TABLES = (".csv", ".parquet")
Block = Mapping[str, Any]  # columns by name: arrays or lists of equal length


def is_table(path: str | os.PathLike[str]) -> bool:
    """Return whether a name is that of a table: `pred.csv`, `pred.parquet`."""
    return os.fspath(path).endswith(TABLES)


def write_table(path: str | os.PathLike[str], blocks: Iterable[Block]) -> int:
    """Write the blocks to `path` and return how many rows they have. Parquet needs pyarrow (`graphzero[import]`)."""
    name = as_table_target(path)
    parquet = name.endswith(".parquet")
    temporary = f"{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        rows = (_write_parquet if parquet else _write_csv)(temporary, iter(blocks))
        os.replace(temporary, name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return rows


def as_table_target(path: str | os.PathLike[str]) -> str:
    """Return `path` as an absolute path at which a table may be published; an older table of predictions is replaced.

    Raises FileExistsError for any other existing file, ImportError if pyarrow is needed and missing.
    """
    name = os.path.abspath(os.fspath(path))
    if name.endswith(".parquet"):
        _check_parquet()
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name}: is a folder, expected a file name")
    if not os.path.isdir(os.path.dirname(name)):
        raise FileNotFoundError(f"{os.path.dirname(name)}: no such folder")
    if os.path.exists(name) and os.path.getsize(name) > 0 and not _is_ours(_column_names(name)):
        raise FileExistsError(
            f"{name}: does not look like predictions and would be overwritten; choose another name, or remove it first"
        )
    return name


def _is_ours(columns: list[str]) -> bool:
    """Return whether columns are those of predictions: a table of ids may be the source of the dataset."""
    if columns == ["source", "rank", "target", "score"]:
        return True
    said = ("prediction", "x0")
    return columns[:1] == ["id"] and any(name in said or name.startswith("p_") for name in columns[1:4])


def _column_names(name: str) -> list[str]:
    """Return the column names of a table; an empty list if they cannot be read."""
    if name.endswith(".parquet"):
        import pyarrow.parquet as parquet

        try:
            return list(parquet.read_schema(name).names)
        except (OSError, ValueError):
            return []
    with open(name, "rb") as file:
        return file.readline(1000).decode("utf-8", "replace").rstrip("\r\n").split(",")


def _check_parquet() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError("a .parquet file needs pyarrow; pip install 'graphzero[import]', or write .csv") from error


def _write_csv(path: str, blocks: Iterator[Block]) -> int:
    rows = 0
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file, lineterminator="\n")
        for block in blocks:
            if not rows:
                writer.writerow(block)
            columns = [_as_text(values) for values in block.values()]
            writer.writerows(zip(*columns, strict=True))
            rows += len(columns[0])
    return rows


def _as_text(values: Any) -> list[Any]:
    array = np.asarray(values) if not isinstance(values, list) else None
    if array is None:
        return list(values)
    if array.dtype.kind == "M":
        return [str(value) for value in array]
    if array.dtype.kind == "f":
        return ["" if text == "nan" else text for text in array.astype(str).tolist()]  # as many digits as it has
    found: list[Any] = array.tolist()
    return found


def _write_parquet(path: str, blocks: Iterator[Block]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows, writer = 0, None
    try:
        for block in blocks:
            batch = pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in block.items()})
            writer = writer or parquet.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        writer = writer or parquet.ParquetWriter(path, pa.schema([]))
    finally:
        if writer is not None:
            writer.close()
    return rows
