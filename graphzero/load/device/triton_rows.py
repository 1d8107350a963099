"""A Triton kernel that assembles the rows of a batch in one pass. Imported only where torch brings Triton."""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

_ELEMENTS = 4096  # that one program moves


@triton.jit
def _gather(
    out, table, misses, source, scale, rows, columns, block: tl.constexpr, width: tl.constexpr, scaled: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    column = tl.arange(0, width)
    inside = row < rows
    here = inside[:, None] & (column < columns)[None, :]
    at = tl.load(source + row, mask=inside, other=0).to(tl.int64)
    hit = (at >= 0)[:, None]
    cached = tl.load(table + (at * columns)[:, None] + column[None, :], mask=here & hit, other=0)
    missed = tl.load(misses + ((-1 - at) * columns)[:, None] + column[None, :], mask=here & (hit == 0), other=0)
    value = tl.where(hit, cached, missed).to(out.dtype.element_ty)
    if scaled:
        value = value * tl.load(scale + column, mask=column < columns, other=0)[None, :]
    tl.store(out + (row * columns)[:, None] + column[None, :], value, mask=here)


def triton_rows(table, misses, source, positions, wanted, scale):
    """Return what `torch_rows` returns."""
    columns, rows = table.shape[1], source.shape[0]
    misses = table if misses is None else misses  # none is taken
    out = table.new_empty((rows, columns), dtype=wanted or table.dtype)
    width = triton.next_power_of_2(columns)
    block = max(1, _ELEMENTS // width)
    _gather[(triton.cdiv(rows, block),)](
        out, table, misses, source, scale, rows, columns, block, width, scale is not None
    )
    return out
