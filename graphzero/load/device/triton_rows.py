"""Triton kernels that assemble the rows of a batch, and put misses into slots. Imported only where torch brings Triton.

A launch by Triton's own `kernel[grid](...)` takes the processor 30 to 80 us, most of them to find out that the kernel
was compiled for such arguments before. Here the compiled kernel is launched itself (benchmarks/gpu.py --only next).
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

_ELEMENTS = 4096  # that one program moves
# Programs that read from the host, and the bytes that each has under way: enough for a link of 55 GB/s. There are few
# of them, each with as many threads as there can be, since a program takes a processor of the device from the model.
_READERS, _READ_BYTES, _READ_WARPS = 4, 65536, 32


@triton.jit(do_not_specialize=["source", "rows"])
def _gather(
    out,
    table,
    misses,
    source,
    scale,
    rows,
    columns: tl.constexpr,
    block: tl.constexpr,
    width: tl.constexpr,
    scaled: tl.constexpr,
    placed: tl.constexpr,
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
    if placed:
        row = tl.load(source + rows + row, mask=inside, other=0).to(tl.int64)
    tl.store(out + (row * columns)[:, None] + column[None, :], value, mask=here)


@triton.jit(do_not_specialize=["admitted", "count"])
def _admit(table, misses, admitted, count, columns: tl.constexpr, block: tl.constexpr, width: tl.constexpr):
    number = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    column = tl.arange(0, width)
    inside = number < count
    here = inside[:, None] & (column < columns)[None, :]
    miss = tl.load(admitted + 2 * number, mask=inside, other=0).to(tl.int64)
    slot = tl.load(admitted + 2 * number + 1, mask=inside, other=0).to(tl.int64)
    values = tl.load(misses + (miss * columns)[:, None] + column[None, :], mask=here, other=0)
    tl.store(table + (slot * columns)[:, None] + column[None, :], values, mask=here)


@triton.jit(do_not_specialize=["host", "ids", "count"])
def _read(out, host, ids, count, columns: tl.constexpr, block: tl.constexpr, width: tl.constexpr):
    column = tl.arange(0, width)
    for first in range(tl.program_id(0) * block, count, tl.num_programs(0) * block):
        number = first + tl.arange(0, block)
        inside = number < count
        here = inside[:, None] & (column < columns)[None, :]
        row = tl.load(ids + number, mask=inside, other=0).to(tl.int64)
        values = tl.load(host + (row * columns)[:, None] + column[None, :], mask=here, other=0)
        tl.store(out + (number.to(tl.int64) * columns)[:, None] + column[None, :], values, mask=here)


class Launcher:
    """Launches a kernel. Triton compiles it at the first launch of a kind, and later ones use what it compiled.

    Arguments of one kind have the same dtypes, constants and device. Pointers that Triton has not been asked to leave
    alone must be aligned to 16 bytes, as what torch allocates is.
    """

    def __init__(self, kernel, **options) -> None:
        """Nothing is compiled yet; `options` are Triton's, such as num_warps."""
        self._kernel, self._options = kernel, options
        self._compiled = {}
        self.is_direct = True  # False once this version of Triton was found not to do it

    def __call__(self, kind, programs, *arguments) -> None:
        """Launch on the current stream."""
        compiled = self._compiled.get(kind)
        if compiled is not None and self.is_direct:
            try:
                compiled[(programs, 1, 1)](*arguments)
                return
            except Exception:  # another interface; the arguments were refused before the launch
                self.is_direct = False
        self._compiled[kind] = self._kernel[(programs,)](*arguments, **self._options)


launch_gather = Launcher(_gather)
launch_admit = Launcher(_admit)
launch_read = Launcher(_read, num_warps=_READ_WARPS)


def _shape(columns):
    width = triton.next_power_of_2(columns)
    return max(1, _ELEMENTS // width), width


def triton_rows(table, misses, source, wanted, scale):
    """Return what `torch_rows` returns."""
    columns, rows, placed = table.shape[1], source.shape[-1], misses is not None
    misses = table if misses is None else misses  # none is taken
    out = table.new_empty((rows, columns), dtype=wanted or table.dtype)
    if rows == 0:
        return out
    block, width = _shape(columns)
    kind = (table.dtype, out.dtype, source.dtype, columns, scale is None, placed, table.device.index)
    factors = table if scale is None else scale  # not read
    programs = (rows + block - 1) // block
    constants = (columns, block, width, scale is not None, placed)
    launch_gather(kind, programs, out, table, misses, source, factors, rows, *constants)
    return out


def triton_admit(table, misses, admitted):
    """Do what `torch_admit` does."""
    columns, count = table.shape[1], admitted.shape[0]
    if count > 0:
        block, width = _shape(columns)
        kind = (table.dtype, columns, table.device.index)
        launch_admit(kind, (count + block - 1) // block, table, misses, admitted, count, columns, block, width)


def triton_read(rows, ids):
    """Return what `torch_read` returns."""
    columns, count = rows.shape[1], ids.shape[0]
    out = ids.new_empty((count, columns), dtype=rows.dtype)
    if count > 0:
        width = triton.next_power_of_2(columns)
        block = min(max(1, _READ_BYTES // (width * rows.element_size())), _ELEMENTS)
        kind = (rows.dtype, ids.dtype, columns, rows.device.index)
        launch_read(kind, _READERS, out, rows, ids, count, columns, block, width)
    return out
