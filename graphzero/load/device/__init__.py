"""How batches get to a device, and the rows that stay there (docs/how-the-gpu-tier-works.md).

- `target`: the device, and the functions that page-lock memory for it
- `copies`: an iterator that starts the copies of coming batches on a side stream
- `pending`: what stands in a batch on the host for tensors that are made on the device
- `tier`: what a loader keeps on its device, and how much memory that takes
- `part_rows`: the table of one part, and a batch's rows from it
- `host_rows`: rows in the host's memory that the device reads by itself
- `assemble`, `triton_rows`: the passes over rows, in operations of torch and in a kernel
"""

from .copies import COPIES, CudaCopies, DeviceBatches, PlainCopies, plain_copies
from .target import NO_PAGE_LOCK, PageLock, as_device, page_lock
from .tier import DeviceTier, as_gpu_memory

__all__ = [
    "COPIES",
    "NO_PAGE_LOCK",
    "CudaCopies",
    "DeviceBatches",
    "DeviceTier",
    "PageLock",
    "PlainCopies",
    "as_device",
    "as_gpu_memory",
    "page_lock",
    "plain_copies",
]
