"""How batches get to a device, and the rows that stay there (docs/how-the-gpu-tier-works.md).

- `target`: the device, and the functions that page-lock memory for it
- `copies`: an iterator that starts the copies of coming batches on a side stream
- `pending`: what stands in a batch on the host for tensors that are made on the device
- `tier`: what a loader keeps on its device, and how much memory that takes
- `device_memory`: how much of the device's memory is free for that, beside training
- `kept_labels`: labels of all nodes on the device
- `part_rows`: the table of one part, and a batch's rows from it
- `host_rows`: rows in the host's memory that the device reads by itself
- `assemble`, `triton_rows`: the passes over rows, in operations of torch and in a kernel
"""

from .copies import COPIES, DeviceBatches, copies_to
from .target import NO_PAGE_LOCK, PageLock, as_device, current, page_lock
from .tier import DeviceTier, as_gpu_memory

__all__ = [
    "COPIES",
    "NO_PAGE_LOCK",
    "DeviceBatches",
    "DeviceTier",
    "PageLock",
    "as_device",
    "as_gpu_memory",
    "copies_to",
    "current",
    "page_lock",
]
