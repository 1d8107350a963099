"""The Triton kernels of the passes over rows: equal to torch's operations, and compiled for each kind of GPU.

Without a GPU, TRITON_INTERPRET=1 runs them in Triton's interpreter; `make kernel-check` does that, and compiles them.
"""

from __future__ import annotations

import os

import pytest

from graphzero.load.device.assemble import Missing, torch_put, torch_take

torch = pytest.importorskip("torch")
triton_rows = pytest.importorskip("graphzero.load.device.triton_rows")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
runs = pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="there is no CUDA device")
ROWS = 5000

# What is stored, what batches get, whether columns are scaled, and columns.
KINDS = [("float32", None, False, columns) for columns in (1, 3, 100, 128, 1000)]
KINDS += [("int8", "float32", True, columns) for columns in (1, 3, 100, 128, 1000)]
KINDS += [(stored, None, False, 100) for stored in ("float16", "bfloat16", "int8", "uint8", "int64", "float64")]
KINDS += [("float16", "float32", False, 100), ("bfloat16", "float32", False, 100)]


def equal(a, b):
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def made_rows(columns, stored, wanted):
    """Random bytes; where they are converted, no NaN: how such are converted is not said."""
    rows = torch.randint(0, 256, (ROWS, columns * stored.itemsize), dtype=torch.uint8, device=DEVICE).view(stored)
    if stored == wanted:
        return rows
    rows = rows.nan_to_num(0)
    if INTERPRETED and stored == torch.bfloat16:  # Triton 3.9's interpreter converts subnormal ones wrongly
        rows[rows.abs() < torch.finfo(stored).tiny] = 0
    return rows


@runs
@pytest.mark.parametrize(("stored", "wanted", "is_scaled", "columns"), KINDS)
def test_rows_are_taken_alike_by_both_ways(stored, wanted, is_scaled, columns):
    stored, wanted = getattr(torch, stored), getattr(torch, wanted or stored)
    table = made_rows(columns, stored, wanted)
    scale = torch.rand(columns, device=DEVICE) if is_scaled else None
    for count in (1, 0, 16, 17, 999) if INTERPRETED else (4096, 1, 0, 16, 17, 999):
        # Not aligned, as e_id may be.
        slots = torch.randint(0, ROWS, (count + 1,), dtype=torch.int32, device=DEVICE)[1:]
        placed = torch.stack([torch.randperm(count + 7, device=DEVICE)[:count].int(), slots], dim=1)
        for source in (slots, slots.long(), placed):
            shape = (count + (7 if source is placed else 0), columns)
            outs = [torch.zeros(shape, dtype=wanted, device=DEVICE) for _ in range(2)]
            torch_take(outs[0], table, source, scale)
            triton_rows.triton_take(outs[1], table, source, scale)
            assert equal(*outs), (count, source.dim())
    assert INTERPRETED or triton_rows.launch_take.is_direct


@runs
@pytest.mark.parametrize(("stored", "wanted", "is_scaled", "columns"), KINDS)
def test_rows_are_put_alike_by_both_ways(stored, wanted, is_scaled, columns):
    stored, wanted = getattr(torch, stored), getattr(torch, wanted or stored)
    rows = made_rows(columns, stored, wanted)
    scale = torch.rand(columns, device=DEVICE) if is_scaled else None
    for count in (0, 1, 31, 33, 511) if INTERPRETED else (0, 1, 31, 32, 33, 511, 4097):
        place, slot = (torch.randperm(ROWS, device=DEVICE).int()[:count] for _ in range(2))
        for kept in (0.0, 0.3, 1.0):
            slots = torch.where(torch.rand(count, device=DEVICE) < kept, slot, -1)
            targets = torch.stack([place, slots], dim=1)
            ids = torch.randint(0, ROWS, (count + 1,), device=DEVICE)[1:]
            for listed in (ids, None):
                # As where there are no slots: no table.
                missing = Missing(listed, targets, int((slots >= 0).sum()))
                made = []
                for way in (torch_put, triton_rows.triton_put, triton_rows.triton_read):
                    out = torch.zeros((ROWS, columns), dtype=wanted, device=DEVICE)
                    table = torch.zeros_like(rows) if kept else None
                    way(out, table, rows if listed is not None else rows[:count], missing, scale)
                    made.append((out, table))
                for out, table in made[1:]:
                    assert equal(out, made[0][0]), (count, kept)
                    assert table is None or equal(table, made[0][1]), (count, kept)
    assert INTERPRETED or (triton_rows.launch_put.is_direct and triton_rows.launch_read.is_direct)


TYPES = {"float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16", "float64": "*fp64"}
TYPES |= {"int8": "*i8", "uint8": "*u8", "int64": "*i64"}


@pytest.mark.skipif(INTERPRETED, reason="what is interpreted is not compiled")
@pytest.mark.parametrize("capability", [75, 80, 90, 120])
@pytest.mark.parametrize(("stored", "wanted", "is_scaled", "columns"), KINDS)
def test_kernels_compile_without_a_gpu(stored, wanted, is_scaled, columns, capability):
    from triton import compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    row, out, size = TYPES[stored], TYPES[wanted or stored], getattr(torch, stored).itemsize
    take = {"out": out, "table": row, "source": "*i32", "scale": "*fp32", "count": "i32"}
    put = {"out": out, "table": row, "rows": row, "ids": "*i64", "targets": "*i32", "scale": "*fp32", "count": "i32"}
    # A kernel, its arguments, what it is specialised for besides, and the size of its blocks.
    kernels = [(triton_rows.launch_take, take, "placed", (1, triton_rows._ELEMENTS))]
    kernels += [(triton_rows.launch_put, put, "listed", (1, triton_rows._ELEMENTS))]
    kernels += [(triton_rows.launch_read, put, "listed", (size, triton_rows._READ_BYTES))]
    for launch, arguments, flag, sizes in kernels:
        block, width = triton_rows._block(columns, *sizes)
        constants = {"columns": columns, "block": block, "width": width, "scaled": is_scaled, flag: True}
        signature = arguments | dict.fromkeys(constants, "constexpr")
        positions = {(launch._kernel.arg_names.index(name),): value for name, value in constants.items()}
        source = ASTSource(fn=launch._kernel, signature=signature, constexprs=positions)
        made = compile(source, target=GPUTarget("cuda", capability, 32), options=launch._options)
        assert made.asm["cubin"]
