"""The processes that train one model together: sums over all ranks, and the gradients of one process."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn

from ..load.device import as_device
from ..machine.ranks import current_local_rank, current_rank
from .models import SampledModel
from .readback import Readback
from .records import EpochRecord
from .tasks import Step, Task

__all__ = ["Ranks", "Round", "combine"]

T = TypeVar("T")
_LEAST = 1e-30  # weight of a step, which may have no label


class Round(NamedTuple):
    """One step of all ranks: the mean loss and its weight, right answers, seeds, batches, and whether to stop."""

    loss: float
    weight: float
    right: int
    seeds: int
    batches: int
    stop: bool
    own_loss: float  # of this rank's batch


class Ranks:
    """The ranks of a run, from torch.distributed. A process without a process group is rank 0 of 1.

    Rank r trains on batches r, r + size, and so on of an epoch. A step covers one batch per rank, and its gradients are
    those of the mean over all labels of the step, however many each rank has. Where the last step has fewer batches
    than ranks, the other ranks repeat a batch from the start of the epoch with weight zero.
    """

    def __init__(self) -> None:
        """Read the process group."""
        self.rank, self.size = current_rank(None)

    @property
    def first(self) -> bool:
        """Whether this is the rank that reports and writes."""
        return self.rank == 0

    def device(self, name: str | None, gpu_memory: int | str = 0) -> torch.device:
        """Return the device by name, with one GPU per rank of a host; None is the GPU if available.

        ValueError for a size of GPU memory where there is no GPU.
        """
        if not torch.cuda.is_available() and gpu_memory not in ("auto", 0, "0"):
            raise ValueError(f"gpu_memory is {gpu_memory!r}, but torch finds no CUDA device; omit it")
        device = as_device(name if name is not None else "cuda" if torch.cuda.is_available() else "cpu")
        if self.size == 1 or device.type != "cuda":
            return device
        if device.index is None:
            gpus, local = torch.cuda.device_count(), int(os.environ.get("LOCAL_RANK", self.rank))
            if local >= gpus:
                ranks = current_local_rank(None, (0, 1)).world_size
                raise ValueError(
                    f"{ranks} ranks on a host with {gpus} GPUs; start at most {gpus} (nproc={gpus}), or train on the "
                    f"CPU (device='cpu')"
                )
            device = torch.device("cuda", local)
        torch.cuda.set_device(device)  # NCCL gathers on this device
        return device

    def gather(self, value: T) -> list[T]:
        """Gather a value from all ranks, on all ranks."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        distributed.all_gather_object(found, value)
        return found

    def from_first(self, make: Callable[[], T]) -> T:
        """Return the result of the first rank on all ranks; only the first one needs the files."""
        if self.size == 1:
            return make()
        box: list[Any] = [make() if self.first else None]
        distributed.broadcast_object_list(box, 0)
        made: T = box[0]
        return made

    def seed_others(self, *key: int) -> None:
        """Seed the ranks other than the first, so that dropout differs between ranks."""
        if not self.first:
            words = np.random.SeedSequence([value % 2**64 for value in (*key, self.rank)]).generate_state(1, np.uint64)
            torch.manual_seed(int(words[0]))

    def stepping(self, model: nn.Module, task: Task) -> nn.Module:
        """Return a module that computes a `Step` from a batch and averages gradients over the ranks."""
        step = _Stepping(model, task, self.size > 1)
        if self.size == 1 or not any(p.requires_grad for p in model.parameters()):
            return step
        # Batches of several types, and models of the user, need not use every parameter.
        all_used = isinstance(model, SampledModel) and not hasattr(model, "input_encoders")
        return nn.parallel.DistributedDataParallel(step, find_unused_parameters=not all_used)

    def backward(self, step: Step, counts: bool, stop: bool) -> Callable[[], Round]:
        """Compute gradients of the mean loss over the labels of all ranks. A batch that does not count adds zeros.

        The returned function waits until the device has computed the loss: call it once the rest of the step has been
        launched.
        """
        if self.size == 1:
            values = [Readback(value) if isinstance(value, Tensor) else value for value in step]
            step.loss.backward()  # type: ignore[no-untyped-call]

            def read_own() -> Round:
                mean, hits, trained, weight = (v.wait().item() if isinstance(v, Readback) else v for v in values)
                return Round(mean, weight, int(hits), int(trained), 1, stop, mean)

            return read_own
        loss, right, seeds, weight = step
        own = _on(loss.device, loss.detach())
        weight = weight * counts
        known = (weight, right * counts, seeds * counts, int(counts), int(stop))
        sums = torch.stack([own * weight, *(_on(loss.device, value) for value in known)])
        distributed.all_reduce(sums)
        found = Readback(torch.cat([sums, own.reshape(1)]))
        # DistributedDataParallel divides the sum of the gradients by the number of ranks.
        (loss * (weight * self.size / sums[1].clamp(min=_LEAST)).to(loss.dtype)).backward()  # type: ignore[no-untyped-call]

        def read() -> Round:
            total, weights, hits, trained, batches, stopping, here = found.wait().tolist()
            mean = total / max(weights, _LEAST)
            return Round(mean, weights, int(hits), int(trained), int(batches), stopping > 0, here)

        return read


def _on(device: torch.device, value: Tensor | float) -> Tensor:
    """Return a number as float64 on a device, without waiting for it."""
    if isinstance(value, Tensor):
        return value.to(device, torch.float64)
    return torch.full((), value, dtype=torch.float64, device=device)


class _Stepping(nn.Module):
    """A model and its task as one module, so that DistributedDataParallel sees each forward pass."""

    def __init__(self, model: nn.Module, task: Task, parallel: bool) -> None:
        super().__init__()
        self.model, self.task = model, task
        # DistributedDataParallel needs a sparse gradient of each table in each step, even if a batch does not use it.
        tables = [module for module in model.modules() if isinstance(module, nn.Embedding) and module.sparse]
        self._sparse = tables if parallel else []

    def forward(self, batch: Any) -> Step:
        step = self.task.step(self.model, batch)
        for table in self._sparse:
            none = torch.empty(0, dtype=torch.int64, device=table.weight.device)
            step = step._replace(loss=step.loss + table(none).sum())
        return step


def combine(records: Sequence[EpochRecord]) -> EpochRecord:
    """Return one record of an epoch for all ranks: bytes are summed, the seconds of stages averaged."""
    first, count = records[0], len(records)
    if count == 1:
        return first
    return dataclasses.replace(
        first,
        seconds=max(r.seconds for r in records),
        eval_seconds=max(r.eval_seconds for r in records),
        stages={name: sum(r.stages[name] for r in records) / count for name in first.stages},
        bytes_read=sum(r.bytes_read for r in records),
        topology_bytes_read=sum(r.topology_bytes_read for r in records),
        bytes_useful=sum(r.bytes_useful for r in records),
        device_bytes=sum(r.device_bytes for r in records),
        kept_bytes=sum(r.kept_bytes for r in records),
        hit_rate=sum(r.hit_rate for r in records) / count,
    )


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Return the state of torch's random numbers on this rank."""
    state = {"cpu": torch.get_rng_state()}
    return state | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})
