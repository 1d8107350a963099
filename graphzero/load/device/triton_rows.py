"""Triton kernels of the passes over rows (assemble.py). Imported only where torch brings Triton.

A launch by Triton's own `kernel[grid](...)` takes the processor 30 to 80 us, most of them to find out that the kernel
was compiled for such arguments before. Here the compiled kernel is launched itself (benchmarks/gpu.py --only next).
"""

# mypy: ignore-errors

from __future__ import annotations

import torch
import triton
import triton.language as tl

_ELEMENTS = 4096  # that one program moves together
_MOST_ROWS = 4096  # of those
# Programs that read from the host, and the bytes that each has under way: enough for most of a link of 55 GB/s. Few and
# small ones slow the model down least, at the same speed (docs/how-the-gpu-tier-works.md).
_READERS, _READ_BYTES, _READ_WARPS = 8, 16384, 8


@triton.jit(do_not_specialize=["source", "count"])
def _take(
    out,
    table,
    source,
    scale,
    count,
    columns: tl.constexpr,
    block: tl.constexpr,
    width: tl.constexpr,
    scaled: tl.constexpr,
    placed: tl.constexpr,
):
    number = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    column = tl.arange(0, width)
    inside = number < count
    here = inside[:, None] & (column < columns)[None, :]
    place = number
    if placed:
        place = tl.load(source + 2 * number, mask=inside, other=0).to(tl.int64)
        slot = tl.load(source + 2 * number + 1, mask=inside, other=0).to(tl.int64)
    else:
        slot = tl.load(source + number, mask=inside, other=0).to(tl.int64)
    value = tl.load(table + (slot * columns)[:, None] + column[None, :], mask=here, other=0).to(out.dtype.element_ty)
    if scaled:
        value = value * tl.load(scale + column, mask=column < columns, other=0)[None, :]
    tl.store(out + (place * columns)[:, None] + column[None, :], value, mask=here)


@triton.jit(do_not_specialize=["ids", "targets", "count"])
def _put(
    out,
    table,
    rows,
    ids,
    targets,
    scale,
    count,
    columns: tl.constexpr,
    block: tl.constexpr,
    width: tl.constexpr,
    scaled: tl.constexpr,
    listed: tl.constexpr,
):
    column = tl.arange(0, width)
    for first in range(tl.program_id(0) * block, count, tl.num_programs(0) * block):
        number = first + tl.arange(0, block)
        inside = number < count
        here = inside[:, None] & (column < columns)[None, :]
        row = number.to(tl.int64)
        if listed:
            row = tl.load(ids + number, mask=inside, other=0).to(tl.int64)
        place = tl.load(targets + 2 * number, mask=inside, other=0).to(tl.int64)
        slot = tl.load(targets + 2 * number + 1, mask=inside, other=-1).to(tl.int64)
        stored = tl.load(rows + (row * columns)[:, None] + column[None, :], mask=here, other=0)
        tl.store(table + (slot * columns)[:, None] + column[None, :], stored, mask=here & (slot >= 0)[:, None])
        value = stored.to(out.dtype.element_ty)
        if scaled:
            value = value * tl.load(scale + column, mask=column < columns, other=0)[None, :]
        tl.store(out + (place * columns)[:, None] + column[None, :], value, mask=here)


class Launcher:
    """Launches a kernel. Triton compiles it at the first launch of a kind, and later ones use what it compiled.

    Arguments of one kind have the same dtypes, constants and device. Pointers that Triton has not been asked to leave
    alone must be aligned to 16 bytes, as what torch allocates is, and the arrays of mapped files.
    """

    def __init__(self, kernel, **options) -> None:
        """Nothing is compiled yet; `options` are Triton's, such as num_warps."""
        self._kernel, self._options = kernel, options
        self._compiled = {}
        # False once this version of Triton was found not to do it. For AMD, Triton compiles other code for tensors of
        # 2 GiB than for smaller ones, which a kind does not tell apart.
        self.is_direct = torch.version.hip is None

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


launch_take = Launcher(_take)
launch_put = Launcher(_put)
launch_read = Launcher(_put, num_warps=_READ_WARPS)


def _block(columns, element_size, size):
    """How many rows a program moves together, and their padded width."""
    width = triton.next_power_of_2(columns)
    return min(max(1, size // (width * element_size)), _MOST_ROWS), width


def triton_take(out, table, source, scale):
    """Do what `torch_take` does."""
    columns, count, placed = table.shape[1], len(source), source.dim() == 2
    if count > 0:
        block, width = _block(columns, 1, _ELEMENTS)
        kind = (table.dtype, out.dtype, source.dtype, columns, scale is None, placed, table.device.index)
        factors = table if scale is None else scale  # not read
        constants = (columns, block, width, scale is not None, placed)
        launch_take(kind, (count + block - 1) // block, out, table, source, factors, count, *constants)


def triton_put(out, table, rows, missing, scale):
    """Do what `torch_put` does."""
    block, width = _block(rows.shape[1], 1, _ELEMENTS)
    _launch_put(launch_put, (len(missing.targets) + block - 1) // block, block, width, out, table, rows, missing, scale)


def triton_read(out, table, rows, missing, scale):
    """Do what `torch_put` does, with rows in the memory of the host."""
    block, width = _block(rows.shape[1], rows.element_size(), _READ_BYTES)
    _launch_put(launch_read, _READERS, block, width, out, table, rows, missing, scale)


def _launch_put(launch, programs, block, width, out, table, rows, missing, scale):
    ids, targets, _ = missing
    columns, count, listed = rows.shape[1], len(targets), ids is not None
    if count > 0:
        kind = (rows.dtype, out.dtype, columns, scale is None, listed, table is None, out.device.index)
        table = rows if table is None else table  # not written: no row has a slot
        factors = out if scale is None else scale  # not read
        constants = (columns, block, width, scale is not None, listed)
        launch(kind, programs, out, table, rows, ids if listed else targets, targets, factors, count, *constants)
