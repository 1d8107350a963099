"""The device that batches go to, and the driver's functions by which the core page-locks their memory for it."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# A context, and addresses of functions of the driver (bindings/bind_load.cpp).
PageLock = tuple[int, int, int, int, int, int]
NO_PAGE_LOCK: PageLock = (0, 0, 0, 0, 0, 0)
_FUNCTIONS = (
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuThreadExchangeStreamCaptureMode",
)


def as_device(device: Any) -> torch.device:
    """Return `device` as a torch.device; ValueError if there is no such device."""
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"device is {device!r}, expected one such as 'cpu' or 'cuda' ({reason})") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ValueError(
            f"device is {device!r}, but torch finds {count or 'no'} CUDA device{'' if count == 1 else 's'}"
        )
    return found


def current(device: torch.device | None) -> torch.device | None:
    """Return the device with its number: "cuda" is the current one of this thread."""
    import torch

    if device is None or device.type != "cuda" or device.index is not None:
        return device
    return torch.device("cuda", torch.cuda.current_device())


def driver_library() -> ctypes.CDLL:
    """The CUDA driver's own library; OSError if there is none."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def page_lock(device: torch.device | None) -> PageLock:
    """The context of a CUDA device and the driver's functions that lock and unlock pages; zeros where there are none.

    Without them batches are copied to page-locked memory of torch's on their way: slower, with the same result.
    """
    import torch

    if device is None or device.type != "cuda" or torch.version.cuda is None:
        return NO_PAGE_LOCK
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # the device's context exists from here on
        index = torch.cuda.current_device()
    try:
        driver = driver_library()
        push, pop, lock, unlock, mode = (
            ctypes.cast(getattr(driver, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS
        )
        number, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuDeviceGet(ctypes.byref(number), index) != 0:
            return NO_PAGE_LOCK
        # torch holds this context until the process ends, and so do we: it is never released.
        if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) != 0:
            return NO_PAGE_LOCK
    except (OSError, AttributeError):  # no driver under this name, or an old one
        return NO_PAGE_LOCK
    return (context.value or 0, push, pop, lock, unlock, mode)
