"""Rows of a file in RAM that a device reads by itself, by their ids.

If the file of a part is in the page cache, its mapping is page-locked for the device, which then reads the rows that
its cache lacks over the link. The host copies nothing. This is as fast as a copy only if rows are read in the order of
the file, which the core ensures: in random order, an H200 reads 20 GB/s where it reads 47 in order.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core
from .assemble import Conversion, Missing, Put, seconds_of, torch_put
from .target import driver_library

if TYPE_CHECKING:
    import torch

    from ...stores.features import FeatureStore

_PAGE = 4096
_FLAGS = 1 | 2 | 8  # of cuMemHostRegister: for all contexts, mapped for the device, read-only
_TRIED, _MOST_MADE = 1 << 25, 1 << 26  # bytes of rows that a trial reads, and at most those of a batch made of them
_SLOWEST = 2.0  # times the seconds of a copy of as many bytes from page-locked memory

_lock = threading.Lock()
_locked: weakref.WeakValueDictionary[int, _LockedPages] = weakref.WeakValueDictionary()  # by address
_kept: list[_core.FeatureFile] = []  # whose pages could not be unlocked


class _LockedPages:
    """Pages of a mapping that are locked for a device, until there is no reference to this object."""

    def __init__(self, address: int, num_bytes: int, file: _core.FeatureFile, device: torch.device) -> None:
        """Lock them, in the current context; OSError if that is refused. The file keeps the mapping alive."""
        driver = driver_library()
        begin = address // _PAGE * _PAGE
        size = -(-(address + num_bytes) // _PAGE) * _PAGE - begin
        if not _core.add_locked_pages(begin, size):
            raise OSError("too many files are locked")
        error = driver.cuMemHostRegister_v2(ctypes.c_void_p(begin), ctypes.c_size_t(size), ctypes.c_uint(_FLAGS))
        if error != 0:
            _core.remove_locked_pages(begin)
            raise OSError(f"cuMemHostRegister returned {error}")
        self.device = device
        self._release = weakref.finalize(self, _unlock, driver, begin, device, file, os.getpid())
        self._release.atexit = False  # the driver's own exit unlocks them
        seen = ctypes.c_uint64()
        error = driver.cuMemHostGetDevicePointer_v2(ctypes.byref(seen), ctypes.c_void_p(begin), ctypes.c_uint(0))
        if error != 0 or seen.value != begin:
            raise OSError("the device has another address for them")


def _unlock(driver: Any, begin: int, device: torch.device, file: _core.FeatureFile, process: int) -> None:
    import torch

    if process != os.getpid():  # the device is the parent's
        return
    failed = torch.cuda.is_current_stream_capturing()  # nothing may wait for the device then
    if not failed:
        try:
            torch.cuda.synchronize(device)  # it may still be reading
            failed = driver.cuMemHostUnregister(ctypes.c_void_p(begin)) != 0
        except RuntimeError:  # as while another stream is captured
            failed = True
    if failed:  # no other memory may get an address that the driver takes for locked
        _kept.append(file)
    else:
        _core.remove_locked_pages(begin)


def _lock_pages(address: int, num_bytes: int, file: _core.FeatureFile, device: torch.device) -> _LockedPages:
    """Return the pages of a matrix, locked.

    OSError if all that are locked would take more than half of the memory, or if these are locked for another device of
    this process: torch would copy all rows to this one.
    """
    with _lock:
        owner = _locked.get(address)
        if owner is None:
            locked = _core.locked_pages()
            if locked + num_bytes > (locked + _core.available_memory()) // 2:
                raise OSError("too large to be locked")
            owner = _locked[address] = _LockedPages(address, num_bytes, file, device)
        if owner.device != device:
            raise OSError(f"locked for {owner.device}")
        return owner


class _Pointer:
    """Bytes at an address, as torch takes them for a tensor of a device."""

    def __init__(self, address: int, shape: tuple[int, int]) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "|u1", "data": (address, False), "strides": None, "version": 3,
        }  # fmt: skip


class HostRows:
    """All rows of a part in the host's memory, for a device that reads some of them."""

    def __init__(self, rows: torch.Tensor, owner: Any) -> None:
        """`rows` is a tensor of that device; `owner` keeps its memory."""
        self._rows, self._owner = rows, owner
        self._put: Put = torch_put

    @classmethod
    def of(cls, store: FeatureStore, conversion: Conversion, device: torch.device) -> HostRows | None:
        """Return the rows of a store if they are in RAM, and the device reads them correctly and fast; else None.

        `conversion` is the one that `put` will be asked for.
        """
        import torch

        is_cuda = device.type == "cuda" and torch.version.cuda is not None
        if not (is_cuda or device.type == "cpu"):
            return None
        try:
            file = store._open()
            found = file.rows_in_ram(store.name)
            if found is None:
                return None
            address, num_bytes = found
            shape = (store.num_nodes, num_bytes // store.num_nodes)
            owner: Any = file
            if device.type == "cpu":
                memory = (ctypes.c_uint8 * num_bytes).from_address(address)
                rows = torch.frombuffer(memory, dtype=torch.uint8).view(shape)
            else:
                owner = _lock_pages(address, num_bytes, file, device)
                rows = torch.as_tensor(_Pointer(address, shape), device=device)
                if rows.device != device or rows.data_ptr() != address:  # a copy
                    return None
            made = cls(rows.view(getattr(torch, store.dtype_name)), owner)
            return made if made._works(store, conversion, device) else None
        # Not for this memory, driver or version of torch; or there is no memory for the trial.
        except (OSError, RuntimeError, MemoryError, TypeError, ValueError, AttributeError):
            return None

    def put(self, out: torch.Tensor, table: torch.Tensor | None, missing: Missing, scale: torch.Tensor | None) -> None:
        """Do what `torch_put` does with these rows; fast if the missing ones are in the order of the file."""
        self._put(out, table, self._rows, missing, scale)
        if out.device.type == "cpu":  # its reads of a file that was truncated are zeros; locked pages stay as they were
            _core.check_view(self._rows.data_ptr(), "rows of a batch")

    def _works(self, store: FeatureStore, conversion: Conversion, device: torch.device) -> bool:
        """Try to read some rows, choose how, and return whether that is worth it."""
        import torch

        columns, stored = self._rows.shape[1], self._rows.dtype
        wanted, scale = conversion.parts()
        made = columns * (wanted or stored).itemsize
        most = min(len(self._rows), max(1, min(_TRIED // (columns * stored.itemsize), _MOST_MADE // made)))
        ids = np.unique(np.random.default_rng(0).integers(0, len(self._rows), most))
        rows = store.gather(ids, as_torch=True).reshape(-1, columns)
        place = torch.arange(len(ids), dtype=torch.int32, device=device)
        targets = torch.stack([place, torch.where(place % 2 == 0, place, -1)], dim=1)  # half of them are admitted
        missing = Missing(torch.from_numpy(ids).to(device), targets, (len(ids) + 1) // 2)

        def read() -> list[torch.Tensor]:
            out = torch.zeros((len(ids), columns), dtype=wanted or stored, device=device)
            table = torch.zeros((len(ids), columns), dtype=stored, device=device)
            self.put(out, table, missing, scale)
            return [out, table]

        there = rows.to(device)
        table = there.clone()
        table[1::2] = 0
        expected = [conversion(there), table]

        def agrees() -> bool:
            return all(map(_same, read(), expected))

        if not agrees():
            return False
        kernel = _kernel(device)
        if kernel is not None:
            self._put = kernel
            try:
                works = agrees() and agrees()  # compiled, and launched directly
            except Exception:  # no compiler, or a conversion that it does not have
                works = False
            if not works:
                self._put = torch_put
        if device.type == "cpu":
            return True
        locked = rows.pin_memory()
        copied = seconds_of(lambda: there.copy_(locked, non_blocking=True))
        return seconds_of(read) < _SLOWEST * copied


def _kernel(device: torch.device) -> Put | None:
    """The kernel that reads from the host's memory; None on a processor, or without Triton."""
    if device.type == "cpu":
        return None
    try:
        from .triton_rows import triton_read
    except Exception:
        return None
    return triton_read


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same values, or the same bytes."""
    import torch

    if torch.equal(a.view(torch.uint8), b.view(torch.uint8)):
        return True
    return a.is_floating_point() and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)  # two kinds of NaN
