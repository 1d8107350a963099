"""Values that a device computed, on their way to the host."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Readback"]


class Readback:
    """A copy of a tensor on the host, which starts here and is waited for in `wait`.

    It waits for what the device was given before, not for what it is given later. So start the copy of a loss before
    the backward pass: when the host has the loss, the device still has that pass to do, and need not wait for the
    kernels of the next step to be launched.
    """

    def __init__(self, values: Tensor) -> None:
        """Start the copy."""
        is_cuda = values.is_cuda  # other devices may return from such a copy too early
        self._host = values.detach().to("cpu", non_blocking=is_cuda)
        self._event = None
        if is_cuda:
            # It blocks rather than spins: the loader's threads need the processors.
            self._event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(values.device))

    def wait(self) -> Tensor:
        """Return the copy once it is done."""
        if self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._host
