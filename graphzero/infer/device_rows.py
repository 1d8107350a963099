"""A layer of inference whose rows are all on the device: only ids cross the link, and neighbours are summed there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..load.device import tier
from ..load.device.assemble import Conversion

if TYPE_CHECKING:
    import torch

    from ..stores.edge_column import EdgeColumn
    from ..stores.features import FeatureStore

_SHARE = 2  # the rows take at most one part in so many of the device's free memory
_UPLOAD_BYTES = 64 << 20  # of rows that are uploaded together, as they are stored


class DeviceRows:
    """All rows of a store on a device, in float32."""

    def __init__(self, table: torch.Tensor) -> None:
        """Keep `table`."""
        self.table = table
        self._scale: torch.Tensor | None = None  # of the rows of neighbours, by degree

    @classmethod
    def of(cls, store: FeatureStore, device: torch.device, **options: Any) -> DeviceRows | None:
        """Upload the rows; None where the device has not enough memory for them. `options` are those of `gather`."""
        import torch

        if device.type != "cuda" and not tier.caches_on_cpu:
            return None
        rows, width = store.num_nodes, store.feature_dim
        if device.type == "cuda" and rows * width * 4 > torch.cuda.mem_get_info(device)[0] // _SHARE:
            return None
        conversion = Conversion(store, "float32", device)
        step = max(1, _UPLOAD_BYTES // max(width * 4, 1))
        try:
            table = torch.empty((rows, width), device=device)
            for first in range(0, rows, step):
                last = min(first + step, rows)
                some: torch.Tensor = store.gather(np.arange(first, last), as_torch=True, **options)
                table[first:last] = conversion(some.to(device).reshape(last - first, width))
        except torch.cuda.OutOfMemoryError:
            return None
        return cls(table)

    def sums(
        self,
        indptr: npt.NDArray[Any],
        indices: npt.NDArray[Any] | EdgeColumn,
        begin: int,
        end: int,
        at_once: int,
        by_degree: bool,
    ) -> torch.Tensor:
        """Sum the neighbours' rows for nodes [begin, end), `at_once` edges at a time.

        `by_degree` divides each row by the square root of its node's degree and 1. A slice of edges may end inside the
        row of a node: its sums add up.
        """
        import torch

        device = self.table.device
        if by_degree and self._scale is None:
            self._scale = (torch.from_numpy(np.diff(indptr).astype(np.float32)).to(device) + 1).rsqrt()
        sums = torch.zeros((end - begin, self.table.shape[1]), device=device)
        first, last = int(indptr[begin]), int(indptr[end])
        row = begin
        for edge in range(first, last, at_once):
            stop = min(edge + at_once, last)
            row += int(np.searchsorted(indptr[row + 1 : end + 1], edge, side="right"))
            upto = row + 1 + int(np.searchsorted(indptr[row + 1 : end + 1], stop, side="left"))
            bounds = np.clip(indptr[row : upto + 1].astype(np.int64), edge, stop) - edge
            senders = torch.from_numpy(indices[edge:stop].astype(np.int64)).to(device)
            sums[row - begin : upto - begin] += torch.nn.functional.embedding_bag(
                senders,
                self.table,
                torch.from_numpy(bounds).to(device),
                mode="sum",
                include_last_offset=True,
                per_sample_weights=None if self._scale is None else self._scale[senders],
            )
        return sums
