"""Arrow columns as plain values: chunks joined, dictionaries and runs of equal values written out."""

from __future__ import annotations

from typing import Any

__all__ = ["decoded", "is_text_type"]


def decoded(column: Any) -> Any:
    """Return an Arrow column as one array of plain values. Nulls may be in the dictionary: they are nulls of it."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):  # such as DuckDB's UUIDs
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    if not pa.types.is_dictionary(column.type):
        return column
    values = column.dictionary
    if is_text_type(values.type):  # Arrow takes no rows of views, which Polars' dictionaries hold
        values = values.cast(pa.large_string() if _is_string(values.type) else pa.large_binary())
    return values.take(column.indices)


def _is_string(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_text_type(kind: Any) -> bool:
    """Whether values of an Arrow type are strings or bytes."""
    from pyarrow import types

    binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return _is_string(kind) or any(is_kind(kind) for is_kind in binary)
